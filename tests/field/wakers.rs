//! Wakers: used by another thread during the poll (BR-24), kept for too long (BR-26).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use miniloop::{EventLoop, Task};

use crate::faults::{still_works, tick};
use crate::support::{Tally, Watchdog, ticks_until};

/// A task that counts its polls, never ends, and does `each_poll` with its waker in each of them.
fn counted_polls(event_loop: &EventLoop, mut each_poll: impl FnMut(u32, &Waker) + 'static) -> Rc<Cell<u32>> {
    let (polls, inside) = (Rc::new(Cell::new(0)), Cell::new(false));
    let counted = Rc::clone(&polls);
    event_loop.create_task(poll_fn(move |cx| {
        assert!(!inside.replace(true), "polled inside its own poll");
        counted.set(counted.get() + 1);
        each_poll(counted.get(), cx.waker());
        inside.set(false);
        Poll::<miniloop::Result<()>>::Pending
    }));
    polls
}

/// Something done to a waker, in words and in deed, and how many polls it asks for.
type Act = (&'static str, fn(&Waker), u32);

/// What may be done to a waker while its task is being polled.
const DURING_THE_POLL: [Act; 9] = [
    ("woken by its own task", Waker::wake_by_ref, 1),
    (
        "woken twice by its own task",
        |waker| {
            waker.wake_by_ref();
            waker.wake_by_ref();
        },
        1,
    ),
    (
        "cloned here, woken there",
        |waker| {
            let waker = waker.clone();
            thread::spawn(move || waker.wake()).join().unwrap();
        },
        1,
    ),
    (
        "cloned here, woken twice there",
        |waker| {
            let waker = waker.clone();
            let wakes = move || {
                waker.wake_by_ref();
                waker.wake();
            };
            thread::spawn(wakes).join().unwrap();
        },
        1,
    ),
    (
        "borrowed and woken there",
        |waker| {
            thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
            });
        },
        1,
    ),
    (
        "borrowed and cloned there, woken here",
        |waker| {
            let there = thread::scope(|scope| scope.spawn(|| waker.clone()).join().unwrap());
            assert!(there.will_wake(&there.clone()));
            there.wake();
        },
        1,
    ),
    (
        "woken there and here",
        |waker| {
            thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
                waker.wake_by_ref();
            });
        },
        1,
    ),
    (
        "cloned here, dropped there",
        |waker| {
            let waker = waker.clone();
            thread::spawn(move || drop(waker)).join().unwrap();
        },
        0,
    ),
    (
        "cloned there, dropped here",
        |waker| {
            drop(thread::scope(|scope| {
                scope.spawn(|| waker.clone()).join().unwrap()
            }))
        },
        0,
    ),
];

// field: BR-24
#[test]
fn a_waker_used_during_the_poll_leads_to_one_more_poll_and_a_dropped_one_to_none() {
    for (what, act, further) in DURING_THE_POLL {
        let event_loop = EventLoop::new().unwrap();
        let polls = counted_polls(&event_loop, move |poll, waker| {
            if poll == 1 {
                act(waker);
            }
        });
        for _ in 0..5 {
            tick(&event_loop);
        }
        assert_eq!(polls.get(), 1 + further, "{what}");
        still_works(&event_loop);
    }
}

// field: BR-24
#[test]
fn a_waker_used_in_every_poll_leads_to_one_poll_a_tick() {
    for (what, act, further) in DURING_THE_POLL {
        let event_loop = EventLoop::new().unwrap();
        let polls = counted_polls(&event_loop, move |_, waker| act(waker));
        for ticks in 1..10 {
            tick(&event_loop);
            let expected = if further == 0 { 1 } else { ticks };
            assert_eq!(polls.get(), expected, "{what}");
        }
    }
}

// field: BR-24
#[test]
fn a_thread_that_wakes_before_the_poll_returns_ends_the_wait_of_the_loop() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let mut polls = 0;
    let woken = poll_fn(move |cx| {
        polls += 1;
        if polls == 1 {
            let waker = cx.waker().clone();
            thread::spawn(move || waker.wake()).join().unwrap();
            Poll::Pending
        } else {
            Poll::Ready(Ok(polls))
        }
    });
    assert_eq!(event_loop.run_until_complete(woken).unwrap(), 2);
}

// field: BR-24
#[test]
fn two_wakes_from_outside_lead_to_exactly_one_more_poll() {
    for elsewhere in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let kept = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&kept);
        let polls = counted_polls(&event_loop, move |_, waker| {
            slot.replace(Some(waker.clone()));
        });
        for expected in 1..5 {
            for _ in 0..3 {
                tick(&event_loop);
            }
            assert_eq!(polls.get(), expected);
            let waker: Waker = kept.take().unwrap();
            let wakes = move || {
                waker.wake_by_ref();
                waker.wake();
            };
            if elsewhere {
                thread::spawn(wakes).join().unwrap();
            } else {
                wakes();
            }
        }
    }
}

/// A waker of each task made by [`ending_task`].
type Kept = Arc<Mutex<Vec<Waker>>>;

/// How a task comes to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    Returns,
    Panics,
    IsCancelled,
    /// Dropped by the close of its loop.
    Never,
}

/// A task that leaves its waker in `kept` and counts the drop of its future.
fn ending_task(event_loop: &EventLoop, kept: &Kept, dropped: &Tally, end: End) -> Task<()> {
    let (kept, counted) = (Arc::clone(kept), dropped.on_drop());
    let mut polls = 0;
    let task = event_loop.create_task(async move {
        let _counted = counted;
        poll_fn(move |cx| {
            kept.lock().unwrap().push(cx.waker().clone());
            polls += 1;
            match end {
                End::Returns if polls == 2 => Poll::Ready(()),
                End::Panics if polls == 2 => panic!("in its second poll"),
                _ => Poll::Pending,
            }
        })
        .await;
        Ok(())
    });
    tick(event_loop);
    task
}

/// Does to each waker what can be done to one.
fn use_up(wakers: Vec<Waker>) {
    for waker in wakers {
        let copy = waker.clone();
        assert!(copy.will_wake(&waker));
        copy.wake_by_ref();
        copy.wake();
        waker.wake_by_ref();
        drop(waker);
    }
}

// field: BR-24
// field: BR-26
#[test]
fn a_waker_that_outlives_its_task_does_nothing_and_does_not_keep_the_future() {
    for elsewhere in [false, true] {
        for end in [End::Returns, End::Panics, End::IsCancelled] {
            let event_loop = EventLoop::new().unwrap();
            event_loop.set_exception_handler(|_, _| {});
            let (kept, dropped) = (Kept::default(), Tally::default());
            let task = ending_task(&event_loop, &kept, &dropped, end);
            match end {
                End::IsCancelled => assert!(task.cancel()),
                _ => kept.lock().unwrap()[0].wake_by_ref(),
            }
            ticks_until(&event_loop, 5, || task.done());
            assert_eq!(dropped.count(), 1, "{end:?}");
            assert_eq!(task.cancelled(), matches!(end, End::IsCancelled));
            drop(task);

            let wakers = std::mem::take(&mut *kept.lock().unwrap());
            assert!(!wakers.is_empty());
            if elsewhere {
                thread::spawn(move || use_up(wakers)).join().unwrap();
            } else {
                use_up(wakers);
            }
            for _ in 0..3 {
                tick(&event_loop);
            }
            assert!(kept.lock().unwrap().is_empty(), "polled after its end");
            assert_eq!(dropped.count(), 1);
            still_works(&event_loop);
        }
    }
}

// field: BR-26
#[test]
fn a_waker_of_a_past_task_does_not_wake_the_task_that_has_its_place_now() {
    let event_loop = EventLoop::new().unwrap();
    let (kept, dropped) = (Kept::default(), Tally::default());
    let past = ending_task(&event_loop, &kept, &dropped, End::IsCancelled);
    past.cancel();
    ticks_until(&event_loop, 5, || past.done());
    drop(past);
    let polls = counted_polls(&event_loop, |_, _| {});
    tick(&event_loop);
    let wakers = std::mem::take(&mut *kept.lock().unwrap());
    use_up(wakers);
    for _ in 0..3 {
        tick(&event_loop);
    }
    assert_eq!(polls.get(), 1);
}

// field: BR-26
#[test]
fn a_waker_that_outlives_its_loop_does_nothing_on_any_thread() {
    for elsewhere in [false, true] {
        let (kept, dropped) = (Kept::default(), Tally::default());
        let event_loop = EventLoop::new().unwrap();
        let task = ending_task(&event_loop, &kept, &dropped, End::Never);
        drop(event_loop);
        assert_eq!(dropped.count(), 1);
        assert!(task.done());
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        if elsewhere {
            thread::spawn(move || use_up(wakers)).join().unwrap();
        } else {
            use_up(wakers);
        }
        // Nothing of the old loop is left for the next one of this thread.
        let next = EventLoop::new().unwrap();
        still_works(&next);
        assert!(kept.lock().unwrap().is_empty());
        assert_eq!(dropped.count(), 1);
    }
}

// field: BR-26
#[test]
fn a_thread_that_goes_on_waking_meets_loops_at_every_moment_of_their_drop() {
    let _watchdog = Watchdog::start();
    const ROUNDS: usize = 1_000;
    let (kept, dropped) = (Kept::default(), Tally::default());
    let over = Arc::new(AtomicBool::new(false));
    let thread = thread::spawn({
        let (kept, over) = (Arc::clone(&kept), Arc::clone(&over));
        move || {
            let mut used = 0;
            while !over.load(Ordering::Acquire) {
                let current = kept.lock().unwrap().last().cloned();
                if let Some(waker) = current {
                    use_up(vec![waker.clone(), waker]);
                    used += 1;
                }
            }
            used
        }
    });
    for round in 1..=ROUNDS {
        let event_loop = EventLoop::new().unwrap();
        ending_task(&event_loop, &kept, &dropped, End::Never);
        for _ in 0..round % 3 {
            tick(&event_loop);
        }
        drop(event_loop);
        assert_eq!(dropped.count(), round);
        // The last one stays, to be woken without a loop while the next is made.
        let mut kept = kept.lock().unwrap();
        let stale = kept.len() - 1;
        kept.drain(..stale);
    }
    over.store(true, Ordering::Release);
    assert!(thread.join().unwrap() > 0);
}

/// Uses its wakers up when its thread ends.
#[derive(Default)]
struct AtThreadEnd {
    wakers: Kept,
    ended: Tally,
}

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        use_up(wakers);
        self.ended.add();
    }
}

thread_local! {
    static AT_THREAD_END: RefCell<AtThreadEnd> = RefCell::default();
    static LATE_LOOP: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
}

// field: BR-26
#[test]
fn a_waker_used_by_the_destructor_of_a_thread_local_does_nothing() {
    // Destructors run in an order that depends on which thread local was first used first.
    for first_used_before_the_loop in [false, true] {
        for loop_ends_with_the_thread in [false, true] {
            let (ended, dropped) = (Tally::default(), Tally::default());
            let (at_end, counted) = (ended.clone(), dropped.clone());
            let thread = thread::spawn(move || {
                let mut wakers = Kept::default();
                if first_used_before_the_loop {
                    AT_THREAD_END.with_borrow_mut(|end| {
                        end.ended = at_end.clone();
                        wakers = Arc::clone(&end.wakers);
                    });
                }
                let event_loop = EventLoop::new().unwrap();
                ending_task(&event_loop, &wakers, &counted, End::Never);
                if !first_used_before_the_loop {
                    AT_THREAD_END.with_borrow_mut(|end| {
                        end.ended = at_end;
                        end.wakers = wakers;
                    });
                }
                if loop_ends_with_the_thread {
                    LATE_LOOP.set(Some(event_loop));
                }
            });
            thread.join().unwrap();
            assert_eq!((ended.count(), dropped.count()), (1, 1));
        }
    }
}

// field: BR-26
#[test]
fn a_waker_moved_to_a_thread_without_a_loop_is_used_by_its_destructors() {
    let event_loop = EventLoop::new().unwrap();
    let (kept, dropped) = (Kept::default(), Tally::default());
    let _task = ending_task(&event_loop, &kept, &dropped, End::Never);
    let wakers = Arc::clone(&kept);
    let thread = thread::spawn(move || {
        AT_THREAD_END.with_borrow_mut(|end| end.wakers = wakers);
    });
    thread.join().unwrap();
    // The loop is alive and so is the task: this wake counts.
    assert!(kept.lock().unwrap().is_empty());
    tick(&event_loop);
    assert_eq!(kept.lock().unwrap().len(), 1);
    assert_eq!(dropped.count(), 0);
}
