//! Futures: states, results, exceptions, done callbacks, awaiting; and misuse of them.

#![allow(
    clippy::redundant_async_block,
    reason = "a coroutine that awaits one future is what is tested"
)]

mod common;
mod support;

#[path = "futures/combinators.rs"]
mod combinators;
#[path = "futures/foreign_wakers.rs"]
mod foreign_wakers;
#[path = "futures/other_loops.rs"]
mod other_loops;
#[path = "futures/ownership.rs"]
mod ownership;
#[path = "futures/values.rs"]
mod values;

use std::cell::RefCell;
use std::rc::Rc;

use miniloop::{CancelledError, EventLoop, Exception, Future, InvalidStateError};

use common::{Boom, Trace, state, ticks, yields};
use support::{Reports, invalid_state, raised, still_works, tick};

// brief: FU-1
#[test]
fn a_new_future_is_not_done() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    assert!(!future.done());
    assert!(!future.cancelled());
}

// brief: FU-2, FU-3
#[test]
fn set_result_marks_the_future_done_and_result_returns_the_value() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result("ready").unwrap();
    assert!(future.done());
    assert!(!future.cancelled());
    assert_eq!(future.result().unwrap(), "ready");
    assert_eq!(future.result().unwrap(), "ready", "as often as one asks");
    assert!(future.exception().unwrap().is_none());
}

// brief: FU-4, FU-5
#[test]
fn set_exception_marks_the_future_done_and_result_raises_it() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    future.set_exception(Boom("x")).unwrap();
    assert!(future.done());
    assert!(!future.cancelled());
    assert_eq!(raised::<Boom, _>(future.result()), Boom("x"));
    assert_eq!(raised::<Boom, _>(future.result()), Boom("x"));
    let exception = future.exception().unwrap().unwrap();
    assert_eq!(exception.downcast_ref(), Some(&Boom("x")));
}

/// A future in each of the three ways of being done.
fn done_futures(event_loop: &EventLoop) -> [Future<u32>; 3] {
    let [finished, failed, cancelled] = [(); 3].map(|()| event_loop.create_future());
    finished.set_result(1).unwrap();
    failed.set_exception(Boom("x")).unwrap();
    assert!(cancelled.cancel());
    [finished, failed, cancelled]
}

// brief: FU-6
#[test]
fn a_done_future_refuses_every_second_completion() {
    let event_loop = EventLoop::new().unwrap();
    for future in done_futures(&event_loop) {
        let before = state(&future);
        assert_eq!(future.set_result(2), Err(InvalidStateError::AlreadyDone));
        let again = future.set_exception(Boom("late"));
        assert_eq!(again, Err(InvalidStateError::AlreadyDone));
        assert!(!future.cancel());
        assert_eq!(state(&future), before);
    }
    still_works(&event_loop);
}

// brief: FU-7
#[test]
fn done_callbacks_run_through_the_loop_and_never_inline() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    let mark = events.mark("done callback");
    future.add_done_callback(move |_| mark());
    event_loop.call_soon({
        let (future, events) = (future.clone(), events.clone());
        move || {
            future.set_result(1).unwrap();
            events.push("after set_result");
        }
    });
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["after set_result"]);
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["after set_result", "done callback"]);
}

// brief: FU-7
#[test]
fn done_callbacks_run_once_each_in_the_order_in_which_they_were_added() {
    let event_loop = EventLoop::new().unwrap();
    for completion in ["result", "exception", "cancel"] {
        let events = Trace::new();
        let future = event_loop.create_future();
        for word in ["first", "second", "third"] {
            let events = events.clone();
            future.add_done_callback(move |done| {
                events.push(format!("{word} {}", state(done)));
            });
        }
        let seen = match completion {
            "result" => future.set_result(1).map(|()| "result:1"),
            "exception" => future.set_exception(Boom("x")).map(|()| "error:x"),
            _ => Ok(future.cancel()).map(|_| "cancelled"),
        };
        let seen = seen.unwrap();
        tick(&event_loop);
        tick(&event_loop);
        let all = ["first", "second", "third"].map(|word| format!("{word} {seen}"));
        assert_eq!(events.lines(), all);
    }
}

// brief: FU-8
#[test]
fn a_callback_added_after_completion_is_scheduled() {
    let event_loop = EventLoop::new().unwrap();
    for future in done_futures(&event_loop) {
        let events = Trace::new();
        let inner = events.clone();
        future.add_done_callback(move |done| inner.push(state(done)));
        assert!(events.lines().is_empty());
        event_loop.run_once().unwrap();
        assert_eq!(events.lines(), [state(&future)]);
    }
}

#[test]
fn a_removed_done_callback_does_not_run() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    let keys = ["first", "second", "third"].map(|word| {
        let mark = events.mark(word);
        future.add_done_callback(move |_| mark())
    });
    assert!(future.remove_done_callback(keys[1]));
    assert!(!future.remove_done_callback(keys[1]));
    future.set_result(1).unwrap();
    assert!(!future.remove_done_callback(keys[0]), "already scheduled");
    tick(&event_loop);
    assert_eq!(events.lines(), ["first", "third"]);
}

#[test]
fn a_done_callback_may_change_the_list_it_is_called_from() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let events = Trace::new();
    let future = event_loop.create_future();
    future.add_done_callback({
        let events = events.clone();
        move |done: &Future<u32>| {
            events.push("outer");
            let key = done.add_done_callback(|_| {});
            done.remove_done_callback(key);
            let mark = events.mark("inner");
            done.add_done_callback(move |_| mark());
            assert_eq!(done.set_result(2), Err(InvalidStateError::AlreadyDone));
            assert!(!done.cancel());
        }
    });
    future.set_result(1).unwrap();
    tick(&event_loop);
    assert_eq!(events.lines(), ["outer"]);
    tick(&event_loop);
    assert_eq!(events.lines(), ["outer", "inner"]);
    assert_eq!(reports.take(), [""; 0]);
    still_works(&event_loop);
}

// brief: FU-9
#[test]
fn asking_too_early_is_an_invalid_state() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    assert_eq!(invalid_state(future.result()), InvalidStateError::NotDone);
    assert_eq!(invalid_state(future.take_result()), InvalidStateError::NotDone);
    assert_eq!(invalid_state(future.exception()), InvalidStateError::NotDone);
    // the question changed nothing
    future.set_result(1).unwrap();
    assert_eq!(future.result().unwrap(), 1);
    still_works(&event_loop);
}

// brief: FU-10
#[test]
fn awaiting_a_pending_future_pauses_until_it_is_completed() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    let task = event_loop.create_task({
        let (future, events) = (future.clone(), events.clone());
        async move {
            events.push("before");
            let value: u32 = future.await?;
            events.push("after");
            Ok(value)
        }
    });
    for _ in 0..3 {
        tick(&event_loop);
    }
    assert_eq!(events.lines(), ["before"]);
    future.set_result(42).unwrap();
    tick(&event_loop);
    assert_eq!(events.lines(), ["before", "after"]);
    assert_eq!(task.result().unwrap(), 42);
}

// brief: FU-10
#[test]
fn awaiting_a_done_future_gives_the_result_without_a_pause() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(42).unwrap();
    let task = event_loop.create_task(async move {
        let mut sum = 0;
        for _ in 0..3 {
            sum += future.clone().await?;
        }
        Ok(sum)
    });
    event_loop.run_once().unwrap();
    assert_eq!(task.result().unwrap(), 126);
}

// brief: FU-10
#[test]
fn many_tasks_may_await_one_future() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    for word in ["a", "b", "c"] {
        let (future, events) = (future.clone(), events.clone());
        event_loop.create_task(async move {
            let value: u32 = future.await?;
            events.push(format!("{word}{value}"));
            Ok(())
        });
    }
    let completed = future.clone();
    event_loop.call_soon(move || completed.set_result(7).unwrap());
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(events.lines(), ["a7", "b7", "c7"]);
    assert_eq!(future.result().unwrap(), 7);
}

#[test]
fn a_completion_reaches_its_awaiter_in_the_next_tick() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    let (awaited, mark) = (future.clone(), events.mark("awake"));
    event_loop.create_task(async move {
        awaited.await?;
        mark();
        Ok(())
    });
    tick(&event_loop);
    event_loop.call_soon(move || future.set_result(1).unwrap());
    ticks(&event_loop, &events, 3);
    for _ in 0..3 {
        event_loop.run_once().unwrap();
    }
    assert_eq!(events.lines(), ["tick1", "awake", "tick2", "tick3"]);
}

// brief: FU-11
#[test]
fn a_pending_future_can_be_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    assert!(future.cancel());
    assert!(future.done() && future.cancelled());
    assert!(future.result().unwrap_err().is_cancelled());
    assert!(future.exception().unwrap_err().is_cancelled());
    assert!(future.take_result().unwrap_err().is::<CancelledError>());
    still_works(&event_loop);
}

// brief: FU-11
#[test]
fn awaiting_a_cancelled_future_raises_the_cancellation() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let cancelled = future.clone();
    event_loop.call_soon(move || assert!(cancelled.cancel()));
    let outcome = event_loop.run_until_complete(async move {
        let raised = future.await.unwrap_err();
        Ok(raised.is_cancelled())
    });
    assert!(outcome.unwrap());
}

#[test]
fn every_waiter_gets_the_same_exception() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let seen: Rc<RefCell<Vec<Exception>>> = Rc::default();
    for _ in 0..2 {
        let (future, seen) = (future.clone(), Rc::clone(&seen));
        event_loop.create_task(async move {
            let exception = future.await.unwrap_err();
            seen.borrow_mut().push(exception);
            Ok(())
        });
    }
    tick(&event_loop);
    future.set_exception(Boom("shared")).unwrap();
    tick(&event_loop);
    let seen = seen.take();
    let place = |exception: &Exception| std::ptr::from_ref(exception.downcast_ref::<Boom>().unwrap());
    assert_eq!(seen.len(), 2);
    assert_eq!(place(&seen[0]), place(&seen[1]), "one value, shared");
}

#[test]
fn a_failed_future_nobody_looked_at_is_reported_when_it_is_dropped() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let future = event_loop.create_future::<u32>();
    future.set_exception(Boom("lost")).unwrap();
    let clone = future.clone();
    drop(future);
    assert_eq!(reports.take(), [""; 0]);
    drop(clone);
    assert_eq!(
        reports.take(),
        ["Future exception was never retrieved: error:lost"]
    );
    still_works(&event_loop);
}

#[test]
fn a_failed_future_somebody_looked_at_is_not_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let failed = || {
        let future = event_loop.create_future::<u32>();
        future.set_exception(Boom("seen")).unwrap();
        future
    };
    raised::<Boom, _>(failed().result());
    raised::<Boom, _>(failed().take_result());
    failed().exception().unwrap();
    let awaited = failed();
    raised::<Boom, _>(event_loop.run_until_complete(async move { awaited.await }));
    assert_eq!(reports.take(), [""; 0]);
}

#[test]
fn a_future_knows_its_loop() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let events = Trace::new();
    future.get_loop().call_soon(events.mark("ran"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["ran"]);
}

#[test]
fn a_chain_of_yields_costs_one_tick_each() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(yields(3));
    for _ in 0..3 {
        event_loop.run_once().unwrap();
        assert!(!task.done());
    }
    event_loop.run_once().unwrap();
    assert!(task.done());
}
