//! Tasks: stepping, waking, results, exceptions, sleep, cancellation, deadlock; and faults.

#![allow(
    clippy::redundant_async_block,
    reason = "a coroutine that awaits one future is what is tested"
)]

mod common;
mod support;

#[path = "tasks/cancellation.rs"]
mod cancellation;
#[path = "tasks/cancellation_races.rs"]
mod cancellation_races;
#[path = "tasks/deadlock.rs"]
mod deadlock;
#[path = "tasks/eager.rs"]
mod eager;
#[path = "tasks/faults.rs"]
mod faults;
#[path = "tasks/life.rs"]
mod life;
#[path = "tasks/long_chains.rs"]
mod long_chains;
#[path = "tasks/messages.rs"]
mod messages;
#[path = "tasks/sleeping.rs"]
mod sleeping;
#[path = "tasks/wakers.rs"]
mod wakers;
#[path = "tasks/yielding.rs"]
mod yielding;
#[path = "tasks/zero_sleeps.rs"]
mod zero_sleeps;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, Exception, RuntimeError, get_running_loop, sleep};

use common::{Boom, Trace, logged, ticks, virtual_loop, yields};
use support::{Reports, misuse, raised, settle, still_works, tick};

// brief: TA-1
#[test]
fn run_until_complete_returns_the_result_of_a_coroutine() {
    async fn main() -> miniloop::Result<u32> {
        Ok(42)
    }
    let event_loop = EventLoop::new().unwrap();
    assert_eq!(event_loop.run_until_complete(main()).unwrap(), 42);
}

// brief: TA-1
#[test]
fn run_until_complete_takes_futures_and_tasks_as_well() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { Ok(1) });
    assert_eq!(event_loop.run_until_complete(task.clone()).unwrap(), 1);
    assert_eq!(event_loop.run_until_complete(task).unwrap(), 1, "done already");
    let future = event_loop.create_future();
    let completed = future.clone();
    event_loop.call_soon(move || completed.set_result(2).unwrap());
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 2);
}

// brief: TA-1
#[test]
fn a_loop_can_run_one_coroutine_after_another() {
    let event_loop = EventLoop::new().unwrap();
    for number in 0..3 {
        let value = event_loop.run_until_complete(async move {
            yields(number).await?;
            Ok(number)
        });
        assert_eq!(value.unwrap(), number);
    }
}

// brief: TA-2
#[test]
fn a_coroutine_that_sleeps_is_resumed_by_fake_time() {
    let (event_loop, clock) = virtual_loop();
    let before = clock.time();
    let slept = event_loop.run_until_complete(async {
        sleep(Duration::from_secs(3600)).await?;
        Ok("slept")
    });
    assert_eq!(slept.unwrap(), "slept");
    assert_eq!(clock.time() - before, Duration::from_secs(3600));
}

// brief: TA-3
#[test]
fn a_coroutine_awaits_a_future_completed_later() {
    let (event_loop, clock) = virtual_loop();
    let before = clock.time();
    let future = event_loop.create_future();
    let completed = future.clone();
    event_loop.call_later(Duration::from_secs(1), move || {
        completed.set_result("ready").unwrap();
    });
    let awaited = event_loop.run_until_complete(async move { future.await });
    assert_eq!(awaited.unwrap(), "ready");
    assert_eq!(clock.time() - before, Duration::from_secs(1));
}

// brief: TA-4
#[test]
fn a_task_stores_the_exception_its_coroutine_raised() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("x"))) });
    tick(&event_loop);
    assert!(task.done());
    assert!(!task.cancelled());
    let exception = task.exception().unwrap().unwrap();
    assert_eq!(exception.downcast_ref(), Some(&Boom("x")));
    assert_eq!(raised::<Boom, _>(task.result()), Boom("x"));
}

// brief: TA-5
#[test]
fn exceptions_propagate_through_run_until_complete() {
    let event_loop = EventLoop::new().unwrap();
    let outcome = event_loop.run_until_complete(async {
        yields(1).await?;
        Err::<u32, _>(Exception::from(Boom("x")))
    });
    assert_eq!(raised::<Boom, _>(outcome), Boom("x"));
    let task = event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("y"))) });
    assert_eq!(raised::<Boom, _>(event_loop.run_until_complete(task)), Boom("y"));
    still_works(&event_loop);
}

// brief: TA-6
#[test]
fn creating_a_coroutine_runs_nothing_and_create_task_schedules_the_first_step() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let inner = events.clone();
    let coroutine = async move {
        inner.push("started");
        Ok(())
    };
    tick(&event_loop);
    assert!(events.lines().is_empty());
    let task = event_loop.create_task(coroutine);
    assert!(events.lines().is_empty(), "not inline");
    assert!(!task.done());
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["started"]);
    assert!(task.done());
}

// brief: TA-6
#[test]
fn first_steps_run_in_the_order_in_which_the_tasks_were_created() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    for word in ["a", "b"] {
        let mark = events.mark(word);
        event_loop.create_task(async move {
            mark();
            Ok(())
        });
        event_loop.call_soon(events.mark("between"));
    }
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["a", "between", "b", "between"]);
}

// brief: TA-7
#[test]
fn a_failed_future_raises_inside_the_coroutine_which_can_catch_it() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let failed = future.clone();
    event_loop.call_soon(move || failed.set_exception(Boom("x")).unwrap());
    let caught = event_loop.run_until_complete(async move {
        match future.await {
            Err(exception) if exception.is::<Boom>() => Ok("caught"),
            other => other.map(|_| "no exception"),
        }
    });
    assert_eq!(caught.unwrap(), "caught");
}

// brief: TA-8
#[test]
fn the_value_of_an_await_expression_is_the_futures_result() {
    let event_loop = EventLoop::new().unwrap();
    let (one, two) = (event_loop.create_future(), event_loop.create_future());
    one.set_result(40).unwrap();
    let completed = two.clone();
    event_loop.call_soon(move || completed.set_result(2).unwrap());
    let sum = event_loop.run_until_complete(async move { Ok(one.await? + two.await?) });
    assert_eq!(sum.unwrap(), 42);
}

// brief: TA-9
#[test]
fn a_task_can_await_another_task() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let inner = event_loop.create_task({
        let events = events.clone();
        async move {
            events.push("inner starts");
            yields(2).await?;
            events.push("inner ends");
            Ok(5)
        }
    });
    let outer = event_loop.create_task({
        let events = events.clone();
        async move {
            events.push("outer starts");
            let value = inner.await?;
            events.push("outer ends");
            Ok(value * 2)
        }
    });
    assert_eq!(event_loop.run_until_complete(outer).unwrap(), 10);
    let order = ["inner starts", "outer starts", "inner ends", "outer ends"];
    assert_eq!(events.lines(), order);
}

// brief: TA-9
#[test]
fn the_end_of_a_task_reaches_its_awaiter_one_tick_later() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let (first, second) = (events.mark("inner ends"), events.mark("outer ends"));
    let inner = event_loop.create_task(async move {
        yields(1).await?;
        first();
        Ok(())
    });
    event_loop.create_task(async move {
        inner.await?;
        second();
        Ok(())
    });
    ticks(&event_loop, &events, 3);
    for _ in 0..3 {
        event_loop.run_once().unwrap();
    }
    assert_eq!(
        events.lines(),
        ["tick1", "inner ends", "tick2", "outer ends", "tick3"]
    );
}

// brief: TA-10
#[test]
fn a_background_tasks_failure_is_not_silent() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    drop(event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("lost"))) }));
    settle(&event_loop);
    assert_eq!(reports.take(), ["Task exception was never retrieved: error:lost"]);
    still_works(&event_loop);
}

// brief: TA-10
#[test]
fn without_a_handler_a_background_tasks_failure_is_logged() {
    let event_loop = EventLoop::new().unwrap();
    let log = Trace::new();
    let _capture = logged(&log);
    drop(event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("lost"))) }));
    settle(&event_loop);
    assert_eq!(log.lines(), ["log:error:never-retrieved:error:lost"]);
}

// brief: TA-10
#[test]
fn a_failure_somebody_awaited_is_not_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("x"))) });
    let caught = event_loop.run_until_complete(async move { Ok(task.await.is_err()) });
    assert!(caught.unwrap());
    let cancelled = event_loop.create_task(async { Ok(1) });
    cancelled.cancel();
    drop(cancelled);
    settle(&event_loop);
    assert_eq!(reports.take(), [""; 0]);
}

// brief: TA-11
#[test]
fn run_until_complete_while_the_loop_runs_is_a_clear_error() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let inner = Rc::clone(&event_loop);
    let outcome = event_loop.run_until_complete(async move {
        let nested = inner.run_until_complete(async { Ok(1) });
        let exception = nested.unwrap_err();
        assert_eq!(exception.downcast_ref(), Some(&RuntimeError::LoopRunning));
        Ok(exception.to_string())
    });
    assert_eq!(outcome.unwrap(), "this event loop is already running");
    still_works(&event_loop);
}

// brief: TA-12
#[test]
fn get_running_loop_inside_and_outside() {
    let event_loop = EventLoop::new().unwrap();
    assert_eq!(misuse(get_running_loop()), RuntimeError::NoRunningLoop);
    let events = Trace::new();
    let mark = events.mark("scheduled on the running loop");
    event_loop
        .run_until_complete(async move {
            get_running_loop()?.call_soon(mark);
            yields(1).await
        })
        .unwrap();
    assert_eq!(events.lines(), ["scheduled on the running loop"]);
    assert_eq!(misuse(get_running_loop()), RuntimeError::NoRunningLoop);
    let seen = Rc::new(Cell::new(false));
    let inner = Rc::clone(&seen);
    event_loop.call_soon(move || inner.set(get_running_loop().is_ok()));
    tick(&event_loop);
    assert!(seen.get(), "inside a callback too");
}

// brief: TA-12
#[test]
fn sleep_outside_a_running_loop_is_a_failed_future() {
    let slept = sleep(Duration::from_secs(1));
    assert!(slept.done());
    assert_eq!(misuse(slept.result()), RuntimeError::NoRunningLoop);
}

/// A chain of awaits five deep; each level leaves a mark when the failure passes.
async fn level(depth: u32, events: Trace, caught_at: u32) -> miniloop::Result<u32> {
    if depth == 0 {
        yields(1).await?;
        return Err(Boom("deep").into());
    }
    let inner = Box::pin(level(depth - 1, events.clone(), caught_at)).await;
    match inner {
        Err(exception) if depth == caught_at => {
            events.push(format!("caught at {depth}: {exception}"));
            Ok(depth)
        }
        Err(exception) => {
            events.push(format!("passes {depth}"));
            Err(exception)
        }
        Ok(value) => Ok(value),
    }
}

// brief: TA-13
#[test]
fn a_failure_deep_in_a_chain_of_awaits_reaches_the_root_task() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let task = event_loop.create_task(level(5, events.clone(), u32::MAX));
    let outcome = event_loop.run_until_complete(task.clone());
    assert_eq!(raised::<Boom, _>(outcome), Boom("deep"));
    assert!(task.done());
    let passed = [1, 2, 3, 4, 5].map(|depth| format!("passes {depth}"));
    assert_eq!(events.lines(), passed);
}

// brief: TA-13
#[test]
fn each_level_of_a_chain_of_awaits_may_handle_the_failure() {
    let event_loop = EventLoop::new().unwrap();
    for caught_at in 1..=5 {
        let events = Trace::new();
        let chain = level(5, events.clone(), caught_at);
        assert_eq!(event_loop.run_until_complete(chain).unwrap(), caught_at);
        let mut expected: Vec<_> = (1..caught_at).map(|depth| format!("passes {depth}")).collect();
        expected.push(format!("caught at {caught_at}: error:deep"));
        assert_eq!(events.lines(), expected);
    }
}

// brief: TA-13
#[test]
fn a_failure_passes_through_a_chain_of_tasks() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let mut task = event_loop.create_task(async {
        yields(1).await?;
        Err::<u32, _>(Exception::from(Boom("deep")))
    });
    for _ in 0..5 {
        let inner = task;
        task = event_loop.create_task(inner);
    }
    assert_eq!(
        raised::<Boom, _>(event_loop.run_until_complete(task)),
        Boom("deep")
    );
    settle(&event_loop);
    assert_eq!(reports.take(), [""; 0], "every link looked at it");
}

#[test]
fn tasks_take_turns_at_their_await_points() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    for word in ["a", "b"] {
        let events = events.clone();
        event_loop.create_task(async move {
            for step in 1..=3 {
                events.push(format!("{word}{step}"));
                yields(1).await?;
            }
            Ok(())
        });
    }
    settle(&event_loop);
    assert_eq!(events.lines(), ["a1", "b1", "a2", "b2", "a3", "b3"]);
}

#[test]
fn a_task_has_a_name_that_can_be_changed() {
    let event_loop = EventLoop::new().unwrap();
    let (one, two) = (
        event_loop.create_task(async { Ok(1) }),
        event_loop.create_task(async { Ok(2) }),
    );
    assert_ne!(one.get_name(), two.get_name());
    one.set_name("worker");
    assert_eq!(one.clone().get_name(), "worker");
}

#[test]
fn a_task_woken_many_times_before_it_runs_is_stepped_once() {
    let event_loop = EventLoop::new().unwrap();
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let task = event_loop.create_task(std::future::poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        if counted.get() == 3 {
            return std::task::Poll::Ready(Ok(()));
        }
        for _ in 0..10 {
            cx.waker().wake_by_ref();
        }
        std::task::Poll::Pending
    }));
    for expected in 1..=3 {
        event_loop.run_once().unwrap();
        assert_eq!(polls.get(), expected);
    }
    assert!(task.done());
    settle(&event_loop);
    assert_eq!(polls.get(), 3, "and never after it is done");
}
