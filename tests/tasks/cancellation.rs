//! Cancellation: asked for from outside, delivered at an await, decided by the coroutine.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use miniloop::{CancelledError, EventLoop, Exception, InvalidStateError, Task, current_task, sleep};

use crate::common::{Boom, Trace, pair, send, virtual_loop, yields};
use crate::support::{Drops, Reports, nothing_is_left, raised, settle, still_works, tick};

// brief: CA-1
#[test]
fn cancel_raises_cancelled_error_inside_the_coroutine_at_its_await() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let inner = events.clone();
    let task = event_loop.create_task(async move {
        inner.push("before");
        let slept = sleep(Duration::from_secs(3600)).await;
        let exception = slept.unwrap_err();
        assert!(exception.is::<CancelledError>());
        inner.push("cancelled at the await");
        Err::<(), _>(exception)
    });
    tick(&event_loop);
    assert!(task.cancel());
    assert!(!task.done(), "a request, not a deed");
    assert_eq!(events.lines(), ["before"], "not inline");
    settle(&event_loop);
    assert_eq!(events.lines(), ["before", "cancelled at the await"]);
    assert!(task.cancelled());
    still_works(&event_loop);
}

// brief: CA-1
#[test]
fn the_interruption_comes_one_tick_after_cancel() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { sleep(Duration::from_secs(3600)).await });
    tick(&event_loop);
    task.cancel();
    event_loop.run_once().unwrap();
    assert!(task.cancelled());
}

// brief: CA-2
#[test]
fn a_coroutine_can_clean_up_and_raise_it_again() {
    let (event_loop, _clock) = virtual_loop();
    let events = Trace::new();
    let inner = events.clone();
    let task = event_loop.create_task(async move {
        match sleep(Duration::from_secs(10)).await {
            Err(exception) if exception.is_cancelled() => {
                inner.push("clean up");
                Err(exception)
            }
            other => other,
        }
    });
    tick(&event_loop);
    task.cancel();
    let outcome = event_loop.run_until_complete(task.clone());
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(events.lines(), ["clean up"]);
    assert!(task.done() && task.cancelled());
    assert!(task.exception().unwrap_err().is_cancelled());
    still_works(&event_loop);
}

// brief: CA-2
#[test]
fn the_question_mark_alone_passes_a_cancellation_on() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        sleep(Duration::from_secs(3600)).await?;
        Ok(1)
    });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(drops.count(), 1);
}

// brief: CA-2
#[test]
fn another_exception_raised_during_cleanup_is_the_result() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        match sleep(Duration::from_secs(3600)).await {
            Err(_) => Err::<(), _>(Exception::from(Boom("cleanup"))),
            Ok(()) => Ok(()),
        }
    });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(!task.cancelled());
    assert_eq!(raised::<Boom, _>(task.result()), Boom("cleanup"));
}

// brief: CA-3
#[test]
fn a_suppressed_cancellation_leaves_a_task_that_finishes_normally() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        let _ = sleep(Duration::from_secs(3600)).await;
        // a later await is not interrupted again
        yields(2).await?;
        Ok("went on")
    });
    tick(&event_loop);
    task.cancel();
    assert_eq!(task.cancelling(), 1);
    settle(&event_loop);
    assert!(task.done());
    assert!(!task.cancelled());
    assert_eq!(task.result().unwrap(), "went on");
    assert_eq!(task.cancelling(), 1, "the request is still on record");
}

// brief: CA-3
#[test]
fn cleanup_may_await_and_the_task_ends_after_it() {
    let (event_loop, clock) = virtual_loop();
    let before = clock.time();
    let events = Trace::new();
    let inner = events.clone();
    let task = event_loop.create_task(async move {
        let outcome = sleep(Duration::from_secs(3600)).await;
        if outcome.is_err() {
            sleep(Duration::from_secs(2)).await?;
            inner.push("cleaned up");
        }
        outcome
    });
    tick(&event_loop);
    task.cancel();
    let outcome = event_loop.run_until_complete(task.clone());
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(events.lines(), ["cleaned up"]);
    assert_eq!(clock.time() - before, Duration::from_secs(2));
}

// brief: CA-3
#[test]
fn a_second_cancel_interrupts_the_cleanup() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let inner = events.clone();
    let task = event_loop.create_task(async move {
        let outcome = sleep(Duration::from_secs(3600)).await;
        inner.push("cleaning");
        let cleanup = sleep(Duration::from_secs(3600)).await;
        assert!(cleanup.unwrap_err().is_cancelled());
        inner.push("interrupted");
        outcome
    });
    tick(&event_loop);
    for _ in 0..2 {
        assert!(task.cancel());
        settle(&event_loop);
    }
    assert_eq!(events.lines(), ["cleaning", "interrupted"]);
    assert!(task.cancelled());
    assert_eq!(task.cancelling(), 2);
}

// brief: CA-3
#[test]
fn the_awaited_future_is_cancelled_too() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let awaited = future.clone();
    let task = event_loop.create_task(async move { awaited.await });
    tick(&event_loop);
    task.cancel();
    assert!(future.cancelled(), "at once");
    assert!(!task.done());
    settle(&event_loop);
    assert!(task.cancelled());
}

// brief: CA-3
#[test]
fn a_cancellation_runs_down_a_chain_of_tasks_and_back() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let awaited = future.clone();
    let inner = event_loop.create_task(async move { awaited.await });
    let awaited = inner.clone();
    let outer = event_loop.create_task(async move { awaited.await });
    tick(&event_loop);
    tick(&event_loop);
    outer.cancel();
    settle(&event_loop);
    assert!(future.cancelled() && inner.cancelled() && outer.cancelled());
}

// brief: CA-3
#[test]
fn a_cancelled_socket_operation_is_unregistered_and_takes_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move { handle.sock_recv(&source, 10).await });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.cancelled());
    nothing_is_left(&event_loop);
    send(&right, b"x");
    let received = event_loop.run_until_complete(event_loop.sock_recv(&left, 10));
    assert_eq!(received.unwrap(), b"x");
}

#[test]
fn a_task_cancelled_before_its_first_step_never_runs() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        unreachable!("it was cancelled before");
        #[allow(unreachable_code)]
        Ok(1)
    });
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(drops.count(), 1);
    still_works(&event_loop);
}

#[test]
fn a_done_task_can_not_be_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { Ok(1) });
    tick(&event_loop);
    assert!(!task.cancel());
    assert!(!task.cancelled());
    assert_eq!(task.cancelling(), 0);
    assert_eq!(task.result().unwrap(), 1);
}

#[test]
fn cancel_wins_over_a_completion_that_was_not_delivered_yet() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let awaited = future.clone();
    let task = event_loop.create_task(async move { awaited.await });
    tick(&event_loop);
    future.set_result(1).unwrap();
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(future.result().unwrap(), 1, "what was done stays done");
}

#[test]
fn two_cancels_before_the_step_are_one_interruption() {
    let event_loop = EventLoop::new().unwrap();
    let interruptions = Rc::new(Cell::new(0));
    let counted = Rc::clone(&interruptions);
    let task = event_loop.create_task(async move {
        for _ in 0..3 {
            if sleep(Duration::ZERO).await.is_err() {
                counted.set(counted.get() + 1);
            }
        }
        Ok(())
    });
    tick(&event_loop);
    task.cancel();
    task.cancel();
    assert_eq!(task.cancelling(), 2);
    settle(&event_loop);
    assert_eq!(interruptions.get(), 1);
    assert!(task.result().is_ok());
}

#[test]
fn uncancel_to_zero_withdraws_a_request_that_was_not_delivered() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        yields(1).await?;
        Ok("undisturbed")
    });
    tick(&event_loop);
    task.cancel();
    assert_eq!(task.uncancel(), 0);
    assert_eq!(task.cancelling(), 0);
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), "undisturbed");
}

#[test]
fn uncancel_never_counts_below_zero() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { Ok(1) });
    assert_eq!(task.uncancel(), 0);
    assert_eq!(task.uncancel(), 0);
    settle(&event_loop);
    assert!(task.result().is_ok());
}

#[test]
fn cancel_through_the_future_of_a_task_cancels_the_task() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        sleep(Duration::from_secs(3600)).await
    });
    let future: miniloop::Future<()> = (*task).clone();
    tick(&event_loop);
    assert!(future.cancel());
    settle(&event_loop);
    assert_eq!(drops.count(), 1, "the coroutine ended");
    assert!(task.cancelled() && future.cancelled());
}

#[test]
fn a_task_is_completed_by_its_coroutine_alone() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { Ok(1) });
    let refused = Err(InvalidStateError::NotYours);
    assert_eq!(task.set_result(2), refused);
    assert_eq!(task.set_exception(Boom("x")), refused);
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), 1);
}

#[test]
fn a_task_may_cancel_itself_and_is_interrupted_at_its_next_await() {
    let event_loop = EventLoop::new().unwrap();
    let own: Rc<Cell<Option<Task<()>>>> = Rc::default();
    let events = Trace::new();
    let task = event_loop.create_task({
        let (own, events) = (Rc::clone(&own), events.clone());
        async move {
            own.take().unwrap().cancel();
            events.push("still running");
            sleep(Duration::ZERO).await?;
            events.push("never");
            Ok(())
        }
    });
    own.set(Some(task.clone()));
    settle(&event_loop);
    assert_eq!(events.lines(), ["still running"]);
    assert!(task.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_task_suspended_on_a_foreign_future_alone_is_dropped() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        // nothing of this crate is awaited: there is no await to raise from
        poll_fn(|_| Poll::<()>::Pending).await;
        Ok(())
    });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert_eq!(drops.count(), 1);
    assert!(task.cancelled());
    assert_eq!(reports.take(), [""; 0]);
    still_works(&event_loop);
}

#[test]
fn a_cancelled_task_is_no_failure_to_report() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(async { sleep(Duration::from_secs(3600)).await });
    tick(&event_loop);
    task.cancel();
    drop(task);
    settle(&event_loop);
    assert_eq!(reports.take(), [""; 0]);
}

#[test]
fn a_task_that_ends_with_a_value_while_a_request_waits_ends_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let drops = Drops::default();
    let value = drops.counted();
    let task = event_loop.create_task(async move {
        assert!(current_task().unwrap().cancel());
        Ok(value)
    });
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!((task.cancelling(), drops.count()), (1, 1));
    assert!(reports.take().is_empty());
    // Taken back, it is no request any more.
    let task = event_loop.create_task(async {
        let task = current_task().unwrap();
        task.cancel();
        assert_eq!(task.uncancel(), 0);
        Ok(1)
    });
    assert_eq!(event_loop.run_until_complete(task).unwrap(), 1);
    still_works(&event_loop);
}
