//! A loop dropped with pending tasks whose drop calls back into it (BR-28), and
//! tasks cancelled or let go inside their own poll (BR-31).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use miniloop::{EventLoop, Future, LoopHandle, Source, Task, get_running_loop, sleep};

use crate::common::{Stream, pair, yields};
use crate::faults::{Drops, OnDrop, Reports, still_works, tick};
use crate::support::{Tally, Watchdog, ticks_until};

const TASKS: usize = 20;
/// What the drops of the tasks do, by turns.
const ACTIONS: usize = 9;

/// What the drops of the tasks find, and what came of them.
struct Wreck {
    handle: LoopHandle,
    tasks: RefCell<Vec<Option<Task<()>>>>,
    wakers: RefCell<Vec<Option<Waker>>>,
    future: Future<u32>,
    source: Source<Stream>,
    /// Offers that were refused; tried in three of the actions.
    refused: Tally,
    /// What was offered and dropped again.
    returned: Tally,
    /// What ran although the loop was going.
    ran: Tally,
}

impl Wreck {
    fn act(&self, index: usize) {
        let next = (index + 1) % TASKS;
        let (ran, returned) = (self.ran.clone(), self.returned.on_drop());
        let offered = move || {
            ran.add();
            drop(returned);
        };
        match index % ACTIONS {
            0 => {
                let waker = self.wakers.borrow()[next].clone();
                waker.unwrap().wake();
            }
            1 => {
                let task = self.tasks.borrow()[next].clone();
                task.inspect(|task| _ = task.cancel());
            }
            2 => _ = self.future.set_result(1),
            3 => {
                if self.handle.call_soon(offered).cancelled() {
                    self.refused.add();
                }
            }
            4 => _ = self.handle.remove_reader(&self.source),
            5 => drop(self.tasks.borrow_mut()[next].take()),
            6 => {
                let task = self.handle.create_task(async move {
                    offered();
                    Ok(())
                });
                if task.done() && task.result().is_err() {
                    self.refused.add();
                }
            }
            7 => {
                let timer = self.handle.call_later(Duration::ZERO, offered);
                if timer.cancelled() {
                    self.refused.add();
                }
            }
            _ => {
                self.wakers.borrow_mut().clear();
                self.wakers
                    .borrow_mut()
                    .resize(TASKS, Some(Waker::noop().clone()));
                _ = get_running_loop();
                drop(sleep(Duration::ZERO));
            }
        }
    }
}

/// A loop with pending tasks that will [`Wreck::act`] when they are dropped.
fn wreck(dropped: &Tally) -> (EventLoop, Rc<Wreck>) {
    let event_loop = EventLoop::new().unwrap();
    let (source, _far) = pair();
    event_loop.add_reader(&source, || {}).unwrap();
    let wreck = Rc::new(Wreck {
        handle: event_loop.handle(),
        tasks: RefCell::default(),
        wakers: RefCell::new(vec![None; TASKS]),
        future: event_loop.create_future(),
        source,
        refused: Tally::default(),
        returned: Tally::default(),
        ran: Tally::default(),
    });
    wreck.future.add_done_callback(|_| {});
    for index in 0..TASKS {
        let (counted, inside) = (dropped.on_drop(), Rc::clone(&wreck));
        let acting = Rc::clone(&wreck);
        let on_drop = OnDrop::new(move || {
            drop(counted);
            acting.act(index);
        });
        let task = event_loop.create_task(async move {
            let _on_drop = on_drop;
            poll_fn::<(), _>(move |cx| {
                inside.wakers.borrow_mut()[index] = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            Ok(())
        });
        wreck.tasks.borrow_mut().push(Some(task));
    }
    tick(&event_loop);
    (event_loop, wreck)
}

/// How many of the offers that [`Wreck::act`] makes are expected.
fn offers() -> usize {
    (0..TASKS)
        .filter(|index| [3, 6, 7].contains(&(index % ACTIONS)))
        .count()
}

// field: BR-28
#[test]
fn closing_drops_pending_tasks_once_whatever_their_drops_ask_of_the_loop() {
    let _watchdog = Watchdog::start();
    for by_drop in [false, true] {
        let dropped = Tally::default();
        let (event_loop, wreck) = wreck(&dropped);
        let reports = Reports::of(&event_loop);
        if by_drop {
            drop(event_loop);
        } else {
            event_loop.close().unwrap();
            assert_eq!(dropped.count(), TASKS);
            event_loop.close().unwrap();
        }
        assert_eq!(dropped.count(), TASKS);
        assert_eq!(wreck.refused.count(), offers());
        assert_eq!(wreck.returned.count(), TASKS, "run or not, nothing is kept");
        assert_eq!(wreck.ran.count(), 0);
        let tasks = wreck.tasks.take();
        assert!(tasks.iter().flatten().all(|task| task.done()));
        assert_eq!(
            reports.take().len(),
            1,
            "the pending tasks, counted in one report"
        );
    }
}

// field: BR-28
#[test]
fn a_loop_in_a_thread_local_is_dropped_as_well_with_its_pending_tasks() {
    thread_local! {
        static KEPT: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
    }
    let _watchdog = Watchdog::start();
    for kept_before_the_loop_is_made in [false, true] {
        let (dropped, ended) = (Tally::default(), Tally::default());
        let (counted, at_end) = (dropped.clone(), ended.on_drop());
        let thread = thread::spawn(move || {
            if kept_before_the_loop_is_made {
                KEPT.set(None);
            }
            let (event_loop, _wreck) = wreck(&counted);
            event_loop.set_exception_handler(move |_, _| {
                let _ = &at_end;
            });
            KEPT.set(Some(event_loop));
        });
        thread.join().unwrap();
        assert_eq!(dropped.count(), TASKS);
        assert_eq!(ended.count(), 1, "the handler goes with the loop");
    }
}

// field: BR-28
#[test]
fn a_task_that_was_never_started_is_dropped_with_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let dropped = Tally::default();
    let counted = dropped.on_drop();
    let task = event_loop.create_task(async move {
        drop(counted);
        Ok(())
    });
    drop(event_loop);
    assert_eq!(dropped.count(), 1);
    assert!(task.done());
}

// field: BR-28
#[test]
fn callbacks_timers_readers_and_done_callbacks_are_dropped_with_the_loop_and_may_call_it() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let dropped = Tally::default();
    let (near, _far) = pair();
    let calls_back = || {
        let (handle, counted) = (event_loop.handle(), dropped.on_drop());
        OnDrop::new(move || {
            drop(counted);
            assert!(handle.call_soon(|| {}).cancelled());
            assert!(handle.call_later(Duration::ZERO, || {}).cancelled());
            assert!(handle.create_task(async { Ok(()) }).done());
            handle.stop();
        })
    };
    let held = [
        calls_back(),
        calls_back(),
        calls_back(),
        calls_back(),
        calls_back(),
    ];
    let [soon, later, read, write, done] = held;
    event_loop.call_soon(move || drop(soon));
    event_loop.call_later(Duration::from_secs(3600), move || drop(later));
    event_loop
        .add_reader(&near, move || {
            let _ = &read;
        })
        .unwrap();
    event_loop
        .add_writer(&near, move || {
            let _ = &write;
        })
        .unwrap();
    let future = event_loop.create_future::<()>();
    future.add_done_callback(move |_| drop(done));
    let handle = event_loop.handle();
    drop(event_loop);
    assert_eq!(dropped.count(), 4, "the future is still held from outside");
    drop(future);
    assert_eq!(dropped.count(), 5);
    assert!(handle.is_closed());
}

/// A task that finds its own handle in a slot, and what was seen of it.
struct Own {
    event_loop: EventLoop,
    slot: Rc<RefCell<Option<Task<u32>>>>,
    drops: Drops,
    done: Rc<Cell<u32>>,
}

impl Own {
    fn new() -> Self {
        Own {
            event_loop: EventLoop::new().unwrap(),
            slot: Rc::default(),
            drops: Drops::default(),
            done: Rc::default(),
        }
    }

    /// Starts the coroutine made by `make`, which gets the slot its task is in.
    fn start<C>(&self, make: impl FnOnce(Rc<RefCell<Option<Task<u32>>>>, Drops) -> C)
    where
        C: std::future::Future<Output = miniloop::Result<u32>> + 'static,
    {
        let (coroutine, counted) = (make(self.slot.clone(), self.drops.clone()), self.drops.counted());
        let task = self.event_loop.create_task(async move {
            let _counted = counted;
            coroutine.await
        });
        let done = Rc::clone(&self.done);
        task.add_done_callback(move |_| done.set(done.get() + 1));
        self.slot.replace(Some(task));
    }

    /// Runs the task to its end, which comes exactly once.
    #[track_caller]
    fn finish(&self) {
        ticks_until(&self.event_loop, 20, || self.done.get() > 0);
        for _ in 0..3 {
            tick(&self.event_loop);
        }
        assert_eq!(self.done.get(), 1);
        assert_eq!(self.drops.count(), 1);
        still_works(&self.event_loop);
    }

    fn task(&self) -> Task<u32> {
        self.slot.borrow().clone().unwrap()
    }
}

/// The task in the slot, cancelled from within itself.
fn cancel_in(slot: &Rc<RefCell<Option<Task<u32>>>>) {
    let task = slot.borrow().clone().unwrap();
    assert!(task.cancel());
}

// field: BR-31
#[test]
fn a_task_that_cancels_itself_sees_it_at_its_next_await() {
    let own = Own::new();
    own.start(|slot, drops| async move {
        cancel_in(&slot);
        assert!(!slot.borrow().as_ref().unwrap().done());
        assert_eq!(drops.count(), 0);
        let interrupted = sleep(Duration::from_secs(3600)).await.unwrap_err();
        assert!(interrupted.is_cancelled());
        assert_eq!(drops.count(), 0);
        Err(interrupted)
    });
    own.finish();
    assert!(own.task().cancelled());
}

// field: BR-31
#[test]
fn a_task_that_cancels_itself_and_swallows_it_ends_as_it_likes() {
    let own = Own::new();
    own.start(|slot, _| async move {
        cancel_in(&slot);
        assert!(sleep(Duration::ZERO).await.unwrap_err().is_cancelled());
        yields(2).await?;
        Ok(42)
    });
    own.finish();
    assert_eq!(own.task().result().unwrap(), 42);
}

// field: BR-31
#[test]
fn a_task_that_cancels_itself_and_returns_is_cancelled() {
    let own = Own::new();
    own.start(|slot, drops| async move {
        yields(1).await?;
        cancel_in(&slot);
        assert_eq!(drops.count(), 0);
        Ok(42)
    });
    own.finish();
    assert!(own.task().cancelled());
}

// field: BR-31
#[test]
fn a_task_that_cancels_itself_while_it_waits_for_nothing_of_ours_is_dropped_after_the_poll() {
    let own = Own::new();
    own.start(|slot, drops| async move {
        poll_fn::<(), _>(|_| {
            cancel_in(&slot);
            assert_eq!(drops.count(), 0);
            Poll::Pending
        })
        .await;
        Ok(0)
    });
    own.finish();
    assert!(own.task().cancelled());
}

// field: BR-31
#[test]
fn a_task_may_drop_the_last_handle_to_itself() {
    let own = Own::new();
    own.start(|slot, drops| async move {
        drop(slot.take());
        assert_eq!(drops.count(), 0);
        yields(2).await?;
        assert_eq!(drops.count(), 0);
        Ok(42)
    });
    own.finish();
}

// field: BR-31
#[test]
fn a_task_may_cancel_itself_and_drop_the_last_handle_at_once() {
    let own = Own::new();
    own.start(|slot, drops| async move {
        let task = slot.take().unwrap();
        assert!(task.cancel());
        drop(task);
        assert_eq!(drops.count(), 0);
        sleep(Duration::ZERO).await?;
        Ok(42)
    });
    own.finish();
}

// field: BR-31
#[test]
fn a_task_may_remove_itself_from_the_registry_that_holds_it() {
    let own = Own::new();
    let registry = Rc::new(RefCell::new(HashMap::new()));
    let inside = Rc::clone(&registry);
    own.start(|_, drops| async move {
        yields(1).await?;
        drop(inside.borrow_mut().remove("me"));
        assert_eq!(drops.count(), 0);
        Ok(42)
    });
    registry.borrow_mut().insert("me", own.slot.take().unwrap());
    own.finish();
    assert!(registry.borrow().is_empty());
}

/// A waker of somebody else's making, which cancels a task right where it is woken.
struct Canceller;

thread_local! {
    static TO_CANCEL: RefCell<Option<Task<u32>>> = const { RefCell::new(None) };
}

impl Wake for Canceller {
    fn wake(self: Arc<Self>) {
        let task = TO_CANCEL.take();
        task.inspect(|task| assert!(task.cancel()));
    }
}

// field: BR-31
#[test]
fn a_task_may_complete_a_future_that_calls_back_into_code_that_cancels_the_task() {
    let own = Own::new();
    let future = own.event_loop.create_future::<()>();
    let mut polled = Box::pin(future.clone());
    let waker = Waker::from(Arc::new(Canceller));
    let pending = std::future::Future::poll(polled.as_mut(), &mut Context::from_waker(&waker));
    assert!(pending.is_pending());
    own.start(|_, drops| async move {
        future.set_result(()).unwrap();
        assert_eq!(drops.count(), 0);
        // The wake may come at once or in the next tick.
        yields(3).await?;
        Ok(42)
    });
    TO_CANCEL.set(Some(own.task()));
    own.finish();
    assert!(own.task().cancelled());
}

// field: BR-31
#[test]
fn a_task_may_complete_a_future_whose_done_callback_cancels_the_task() {
    let own = Own::new();
    let future = own.event_loop.create_future::<()>();
    own.start(|slot, drops| async move {
        future.add_done_callback(move |_| cancel_in(&slot));
        future.set_result(()).unwrap();
        assert_eq!(drops.count(), 0);
        sleep(Duration::from_secs(3600)).await?;
        Ok(42)
    });
    own.finish();
    assert!(own.task().cancelled());
}

// field: BR-31
#[test]
fn a_task_cancelled_and_woken_in_one_breath_ends_once() {
    for cancel_first in [true, false] {
        let own = Own::new();
        let future = own.event_loop.create_future::<()>();
        let awaited = future.clone();
        own.start(|_, _| async move {
            awaited.await?;
            Ok(42)
        });
        tick(&own.event_loop);
        let task = own.task();
        if cancel_first {
            assert!(task.cancel());
            assert!(future.set_result(()).is_err(), "cancelled with its waiter");
        } else {
            future.set_result(()).unwrap();
            assert!(task.cancel());
        }
        own.finish();
        assert!(task.cancelled());
    }
}
