//! A cancellation that meets something else on its way: another completion in the same tick, a
//! coroutine that yields in a foreign way. It is never lost, and delivered once.

use std::cell::{Cell, RefCell};
use std::future::{Future as StdFuture, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{Either, select, try_join};
use miniloop::{EventLoop, FakeClock, Future, Task, create_task, sleep};

use crate::common::{Boom, Trace, outcome, virtual_loop, word, yields};
use crate::support::{Drops, Reports, Watchdog, settle, still_works, tick, wake_and_yield};

const HOUR: Duration = Duration::from_secs(3600);

/// The same as [`wake_and_yield`], through a clone of the waker, as a channel has it.
async fn wake_clone_and_yield() {
    let mut yielded = false;
    poll_fn(
        |cx: &mut Context<'_>| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => {
                let waker = cx.waker().clone();
                waker.wake();
                Poll::Pending
            }
        },
    )
    .await;
}

/// A task that waits for `future` or an hour, whatever comes first, and then says what it was.
fn waits_for_the_first(
    event_loop: &EventLoop,
    future: Future<i32>,
    future_first: bool,
) -> Task<&'static str> {
    let handle = event_loop.handle();
    event_loop.create_task(async move {
        let timeout = handle.sleep(HOUR);
        let first = if future_first {
            select(future, timeout).await
        } else {
            match select(timeout, future).await {
                Either::Left(slept) => Either::Right(slept),
                Either::Right(value) => Either::Left(value),
            }
        };
        match first {
            Either::Left((value, _)) => value.map(|_| "the value"),
            Either::Right((slept, _)) => slept.map(|()| "the timeout"),
        }
    })
}

/// As `asyncio.wait` has it: the task ends cancelled, and the future keeps its result.
#[test]
fn a_cancellation_beats_a_select_whose_future_is_done_in_the_same_tick() {
    for future_first in [true, false] {
        let event_loop = EventLoop::new().unwrap();
        let future = event_loop.create_future();
        let task = waits_for_the_first(&event_loop, future.clone(), future_first);
        tick(&event_loop);
        future.set_result(1).unwrap();
        assert!(task.cancel());
        settle(&event_loop);
        assert!(task.cancelled(), "the future comes first: {future_first}");
        assert_eq!(task.cancelling(), 1);
        assert_eq!(future.result().unwrap(), 1);
        still_works(&event_loop);
    }
}

#[test]
fn a_cancellation_beats_a_timeout_of_the_same_tick() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<i32>();
    let handle = event_loop.handle();
    let mut awaited = future.clone();
    let task = event_loop.create_task(async move {
        match select(handle.sleep(Duration::ZERO), &mut awaited).await {
            Either::Left((slept, _)) => slept.map(|()| "the timeout"),
            Either::Right((value, _)) => value.map(|_| "the value"),
        }
    });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.cancelled());
}

#[test]
fn a_cancellation_beats_a_foreign_future_of_the_same_tick() {
    for yielding in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let (handle, events) = (event_loop.handle(), Trace::new());
        let says = events.mark("went on");
        let task = event_loop.create_task(async move {
            let foreign: Pin<Box<dyn StdFuture<Output = ()>>> = match yielding {
                true => Box::pin(wake_and_yield()),
                false => Box::pin(wake_clone_and_yield()),
            };
            if let Either::Right((slept, _)) = select(foreign, handle.sleep(HOUR)).await {
                return slept;
            }
            handle.sleep(Duration::ZERO).await?;
            says();
            Ok(())
        });
        tick(&event_loop);
        // its next step is scheduled already, and will find the foreign future ready
        assert!(task.cancel());
        settle(&event_loop);
        assert!(task.cancelled(), "{yielding}");
        assert!(events.lines().is_empty());
        still_works(&event_loop);
    }
}

#[test]
fn a_cancellation_of_a_join_with_one_half_done_is_delivered() {
    let event_loop = EventLoop::new().unwrap();
    let (one, two) = (
        event_loop.create_future::<i32>(),
        event_loop.create_future::<i32>(),
    );
    let task = event_loop.create_task(try_join(one.clone(), two.clone()));
    tick(&event_loop);
    one.set_result(1).unwrap();
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert!(two.cancelled(), "what was still awaited is cancelled too");
    assert_eq!(one.result().unwrap(), 1);
}

#[test]
fn a_cancellation_that_met_a_completion_is_delivered_once() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<i32>();
    let awaited = future.clone();
    let task = event_loop.create_task(async move {
        let first = select(awaited, sleep(HOUR)).await;
        let Either::Left((value, _)) = first else {
            unreachable!("the future is polled first, and gets the cancellation");
        };
        let value = outcome(async { value }).await;
        // the cleanup is not interrupted again
        yields(3).await?;
        Ok(value)
    });
    tick(&event_loop);
    future.set_result(1).unwrap();
    task.cancel();
    settle(&event_loop);
    assert!(task.done());
    assert_eq!(task.result().unwrap(), "cancelled");
    assert_eq!(task.cancelling(), 1);
}

#[test]
fn a_request_that_met_a_completion_can_be_withdrawn() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let task = waits_for_the_first(&event_loop, future.clone(), true);
    tick(&event_loop);
    future.set_result(1).unwrap();
    task.cancel();
    assert_eq!(task.uncancel(), 0);
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), "the value");
}

#[test]
fn two_requests_that_met_a_completion_are_one_interruption() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let awaited = future.clone();
    let task = event_loop.create_task(async move {
        let interrupted = outcome(awaited).await;
        yields(3).await?;
        Ok::<String, _>(interrupted)
    });
    tick(&event_loop);
    future.set_result(1).unwrap();
    task.cancel();
    task.cancel();
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), "cancelled");
    assert_eq!(task.cancelling(), 2);
}

#[test]
fn two_requests_before_a_step_do_not_interrupt_the_cleanup() {
    for through_another_task in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let task = event_loop.create_task(async {
            let interrupted = outcome(sleep(HOUR)).await;
            yields(3).await?;
            Ok(interrupted)
        });
        let awaiting = event_loop.create_task(task.clone());
        tick(&event_loop);
        task.cancel();
        match through_another_task {
            true => awaiting.cancel(),
            false => task.cancel(),
        };
        settle(&event_loop);
        assert!(task.done());
        assert_eq!(task.result().unwrap(), "cancelled");
        assert_eq!(task.cancelling(), 2);
    }
}

/// A coroutine that yields for ever, in one of several ways, and counts.
fn yields_for_ever(event_loop: &EventLoop, through_clone: bool, drops: &Drops) -> (Task<()>, Rc<Cell<u32>>) {
    let (count, captured) = (Rc::new(Cell::new(0)), drops.counted());
    let counted = Rc::clone(&count);
    let task = event_loop.create_task(async move {
        let _captured = captured;
        loop {
            counted.set(counted.get() + 1);
            match through_clone {
                true => wake_clone_and_yield().await,
                false => wake_and_yield().await,
            }
        }
    });
    (task, count)
}

/// In asyncio a bare yield is interrupted in the next step; so it is here.
#[test]
fn a_task_that_yields_in_a_foreign_way_is_cancelled_in_its_next_step() {
    for through_clone in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let drops = Drops::default();
        let (task, count) = yields_for_ever(&event_loop, through_clone, &drops);
        for _ in 0..3 {
            event_loop.run_once().unwrap();
        }
        assert!(count.get() > 1, "it is stepped again and again");
        assert!(task.cancel());
        let before = count.get();
        event_loop.run_once().unwrap();
        assert!(task.cancelled());
        assert!(count.get() <= before + 1);
        assert_eq!(drops.count(), 1, "the coroutine is dropped where it is");
        settle(&event_loop);
        still_works(&event_loop);
    }
}

#[test]
fn a_task_that_yields_in_a_foreign_way_and_then_awaits_can_clean_up() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let cleaned_up = events.mark("cleaned up");
    let task = event_loop.create_task(async move {
        wake_and_yield().await;
        let slept = sleep(HOUR).await;
        yields(2).await?;
        cleaned_up();
        slept
    });
    tick(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(events.lines(), ["cleaned up"]);
}

#[test]
fn a_task_that_cancels_itself_and_yields_in_a_foreign_way_ends() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let me: Rc<Cell<Option<Task<()>>>> = Rc::default();
    let itself = Rc::clone(&me);
    let task = event_loop.create_task(async move {
        let task = itself.take().unwrap();
        task.cancel();
        drop(task);
        loop {
            wake_and_yield().await;
        }
    });
    me.set(Some(task.clone()));
    settle(&event_loop);
    assert!(task.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_task_that_yields_in_a_foreign_way_and_ends_in_its_next_step_ends_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        wake_and_yield().await;
        Ok(1)
    });
    tick(&event_loop);
    assert!(task.cancel());
    tick(&event_loop);
    assert!(task.cancelled());
}

/// A future that was polled in an earlier step and is only held since then must neither swallow
/// a cancellation nor be cancelled in the place of what is awaited.
#[test]
fn a_future_that_is_only_held_does_not_swallow_a_cancellation() {
    let event_loop = EventLoop::new().unwrap();
    let handle = event_loop.handle();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        let mut timeout = handle.sleep(HOUR);
        let first = select(&mut timeout, Box::pin(wake_and_yield())).await;
        assert!(matches!(first, Either::Right(_)));
        pending::<()>().await;
        drop(timeout);
        Ok(())
    });
    settle(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(drops.count(), 1);
    still_works(&event_loop);
}

#[test]
fn a_future_that_is_only_held_survives_a_cancellation_of_what_is_awaited() {
    let event_loop = EventLoop::new().unwrap();
    let (held, awaited) = (
        event_loop.create_future::<i32>(),
        event_loop.create_future::<i32>(),
    );
    let (mut kept, waited_for) = (held.clone(), awaited.clone());
    let task = event_loop.create_task(async move {
        let first = select(&mut kept, Box::pin(wake_and_yield())).await;
        assert!(matches!(first, Either::Right(_)));
        // in a later step than that in which the other was polled
        yields(1).await?;
        let interrupted = outcome(waited_for).await;
        Ok((interrupted, kept.await?))
    });
    settle(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(awaited.cancelled());
    assert!(!held.done());
    held.set_result(2).unwrap();
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), ("cancelled".to_string(), 2));
}

/// Cancel the awaiting task in every moment of a completion that runs up a chain of tasks.
#[test]
fn a_cancellation_is_delivered_wherever_it_meets_a_completion_in_a_chain() {
    let length = 8;
    for moment in 0..length {
        let event_loop = EventLoop::new().unwrap();
        let (root, last) = super::long_chains::chain(&event_loop, length);
        root.set_result(1).unwrap();
        for _ in 0..moment {
            event_loop.run_once().unwrap();
        }
        assert!(last.cancel(), "after {moment} ticks");
        settle(&event_loop);
        settle(&event_loop);
        assert!(last.cancelled(), "after {moment} ticks");
    }
}

/// A task that is given its own handle.
fn with_itself<F>(event_loop: &EventLoop, coroutine: impl FnOnce(Task<()>) -> F + 'static) -> Task<()>
where
    F: StdFuture<Output = miniloop::Result<()>> + 'static,
{
    let handle = Rc::new(RefCell::new(None));
    let own = Rc::clone(&handle);
    let task = event_loop.create_task(async move {
        let itself = own.take().expect("it is put there before the first step");
        coroutine(itself).await
    });
    handle.replace(Some(task.clone()));
    task
}

#[test]
fn a_request_made_while_another_is_handled_is_raised_at_the_next_yield() {
    let (event_loop, trace) = (EventLoop::new().unwrap(), Trace::new());
    let log = trace.clone();
    let task = with_itself(&event_loop, |itself| async move {
        assert!(sleep(Duration::ZERO).await.unwrap_err().is_cancelled());
        log.push("first");
        itself.cancel();
        assert!(sleep(Duration::ZERO).await.unwrap_err().is_cancelled());
        log.push("second");
        Ok(())
    });
    tick(&event_loop);
    assert!(task.cancel());
    event_loop.run_until_complete(task).unwrap();
    assert_eq!(trace.lines(), ["first", "second"]);
}

#[test]
fn a_task_that_cancelled_itself_hears_of_it_from_the_branch_that_is_done_first() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let task = with_itself(&event_loop, |itself| async move {
        itself.cancel();
        match select(sleep(Duration::ZERO), sleep(Duration::from_secs(1000))).await {
            Either::Left((outcome, _)) | Either::Right((outcome, _)) => outcome,
        }
    });
    assert!(event_loop.run_until_complete(task).unwrap_err().is_cancelled());
    assert_eq!(event_loop.time(), Duration::ZERO);
}

#[test]
fn a_task_that_cancelled_itself_and_waits_for_nothing_of_the_loop_ends() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let task = with_itself(&event_loop, |itself| async move {
        itself.cancel();
        let mut kept = sleep(Duration::from_secs(1000));
        assert!(futures_util::poll!(&mut kept).is_pending());
        std::future::pending::<()>().await;
        Ok(())
    });
    settle(&event_loop);
    assert!(task.cancelled());
}

#[test]
fn a_failure_that_a_cancellation_passes_over_is_reported() {
    for ticks in 0..5 {
        let (event_loop, _) = virtual_loop();
        let reports = Reports::of(&event_loop);
        let outcome = event_loop
            .run_until_complete(async move {
                let inner = create_task(async {
                    sleep(Duration::from_secs(1)).await?;
                    Err::<(), _>(Boom("inner").into())
                });
                let outer = create_task(inner.clone());
                drop(inner);
                sleep(Duration::from_secs(1)).await?;
                yields(ticks).await?;
                outer.cancel();
                let outcome = word(&outer.await.unwrap_err());
                yields(3).await?;
                Ok(outcome)
            })
            .unwrap();
        let seen = (outcome.as_str(), reports.take());
        // Cancelled while it slept, as its failure arrives, or when all was over.
        let expected = match ticks {
            0 => ("cancelled", vec![]),
            1 => (
                "cancelled",
                vec!["Task exception was never retrieved: error:inner".to_owned()],
            ),
            _ => ("error:inner", vec![]),
        };
        assert_eq!(seen, expected, "after {ticks} ticks");
    }
}
