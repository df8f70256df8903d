//! `timeout`, `timeout_at` and `wait_for`: who is interrupted when, and what comes out.

mod common;
#[path = "support/play.rs"]
mod play;
mod support;

#[path = "timeouts/branches.rs"]
mod branches;
#[path = "timeouts/cancelled_from_outside.rs"]
mod cancelled_from_outside;
#[path = "timeouts/faults.rs"]
mod faults;
#[path = "timeouts/left_in_the_middle.rs"]
mod left_in_the_middle;
#[path = "timeouts/misuse.rs"]
mod misuse;
#[path = "timeouts/nested.rs"]
mod nested;
#[path = "timeouts/other_wakers.rs"]
mod other_wakers;
#[path = "timeouts/rescheduled.rs"]
mod rescheduled;
#[path = "timeouts/waiting_for.rs"]
mod waiting_for;

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{FutureExt, abortable};
use futures_util::{join, select};

use miniloop::{Exception, Result, TimeoutError, create_task, sleep, timeout, timeout_at};

use common::{Boom, outcome, ticks, word, yields};
use play::{nap, noted_nap, now, play, requests, secs, this_loop};
use support::{Drops, raised};

// brief: XT-4
#[test]
fn a_body_that_takes_too_long_is_interrupted_and_a_timeout_error_comes_out() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(2));
        let ended = limit.run(noted_nap(&trace, "body", 60)).await;
        assert_eq!(raised::<TimeoutError, _>(ended), TimeoutError::new());
        assert!(limit.expired());
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@2", "2"]);
}

// brief: XT-4
#[test]
fn a_body_that_ends_in_time_gives_its_value_and_takes_the_timer_with_it() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(10));
        let value = limit.run(async {
            nap(1).await?;
            Ok("value")
        });
        trace.push(value.await?);
        assert!(!limit.expired());
        assert_eq!(limit.when(), Some(this_loop().time() + secs(9)), "it is kept");
        Ok(())
    });
    assert_eq!(lines, ["value"]);
}

#[test]
fn a_timeout_at_a_moment_expires_then() {
    let lines = play(|trace| async move {
        let deadline = this_loop().time() + secs(3);
        let limit = timeout_at(deadline);
        let ended = limit.run(nap(60)).await;
        trace.push(format!("{}@{}", outcome(async { ended }).await, now()));
        assert!(limit.expired());
        assert_eq!(limit.when(), Some(deadline));
        Ok(())
    });
    assert_eq!(lines, ["timeout@3"]);
}

#[test]
fn a_timeout_of_none_never_expires() {
    let lines = play(|trace| async move {
        for limit in [timeout(None), timeout_at(None)] {
            trace.push(outcome(limit.run(nap(100_000))).await);
            assert!(!limit.expired());
            assert_eq!(limit.when(), None);
        }
        Ok(())
    });
    assert_eq!(lines, ["result:none", "result:none"]);
}

#[test]
fn a_delay_that_no_clock_reaches_never_expires_and_one_in_the_past_does_at_once() {
    let lines = play(|trace| async move {
        trace.push(outcome(timeout(Duration::MAX).run(nap(100_000))).await);
        trace.push(outcome(timeout_at(Duration::MAX).run(nap(1))).await);
        let limit = timeout_at(Duration::ZERO);
        trace.push(outcome(limit.run(sleep(Duration::ZERO))).await);
        assert_eq!(limit.when(), Some(Duration::ZERO));
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["result:none", "result:none", "timeout", "100001"]);
}

#[test]
fn a_timeout_of_zero_interrupts_even_a_sleep_of_zero() {
    let lines = play(|trace| async move {
        for body in [Duration::ZERO, secs(10)] {
            let limit = timeout(Duration::ZERO);
            let entered = this_loop().time();
            trace.push(outcome(limit.run(sleep(body))).await);
            assert!(limit.expired());
            assert_eq!(limit.when(), Some(entered));
        }
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["timeout", "timeout", "0"]);
}

#[test]
fn a_timeout_of_zero_does_not_touch_a_body_that_never_waits() {
    let lines = play(|trace| async move {
        let limit = timeout(Duration::ZERO);
        let done = this_loop().create_future();
        done.set_result("done")?;
        trace.push(outcome(limit.run(done)).await);
        assert!(!limit.expired());
        yields(3).await?;
        assert!(!limit.expired(), "it is over");
        Ok(())
    });
    assert_eq!(lines, ["result:done"]);
}

#[test]
fn a_body_that_is_done_at_once_never_yields() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 1);
        let entered = timeout(secs(5)).run(async { Ok(5) }).now_or_never();
        trace.push(format!("{}", entered.expect("done in one poll")?));
        trace.push(outcome(timeout(secs(5)).run(async { Ok(6) })).await);
        yields(1).await
    });
    assert_eq!(lines, ["5", "result:6", "tick1"]);
}

#[test]
fn the_error_comes_one_tick_after_the_timer_and_two_after_a_timeout_of_zero() {
    let lines = play(|trace| async move {
        let event_loop = this_loop();
        let limit = timeout(Duration::ZERO);
        let zero = limit.run(async {
            ticks(&event_loop, &trace, 3);
            nap(60).await
        });
        trace.push(outcome(zero).await);
        yields(3).await?;
        let (handle, log) = (event_loop.clone(), trace.clone());
        event_loop.call_later(secs(2), move || ticks(&handle, &log, 3));
        trace.push(outcome(timeout(secs(2)).run(nap(60))).await);
        yields(3).await
    });
    assert_eq!(
        lines,
        [
            "tick1", "timeout", "tick2", "tick3", "tick1", "timeout", "tick2", "tick3"
        ]
    );
}

#[test]
fn the_time_runs_from_when_the_limit_was_made_on_a_running_loop() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(5));
        nap(3).await?;
        trace.push(outcome(limit.run(nap(60))).await);
        trace.push(now());
        let late = timeout(secs(5));
        nap(10).await?;
        trace.push(outcome(late.run(nap(60))).await);
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["timeout", "5", "timeout", "15"]);
}

#[test]
fn a_limit_made_where_no_loop_runs_counts_from_when_it_is_entered() {
    let limit = timeout(secs(5));
    assert_eq!(limit.when(), None);
    let lines = play(|trace| async move {
        nap(3).await?;
        trace.push(outcome(limit.run(nap(60))).await);
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["timeout", "8"]);
}

// brief: XT-4
#[test]
fn the_body_s_own_error_passes_through_untouched() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(5));
        trace.push(outcome(limit.run(async { Err::<(), _>(Boom("own").into()) })).await);
        assert!(!limit.expired());
        Ok(())
    });
    assert_eq!(lines, ["error:own"]);
}

#[test]
fn a_timeout_error_of_the_body_s_own_is_no_expiry() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(5));
        let body = async { Err::<(), Exception>(TimeoutError::new().into()) };
        trace.push(outcome(limit.run(body)).await);
        assert!(!limit.expired());
        let limit = timeout(secs(5));
        let body = async { Err::<(), Exception>(TimeoutError::new().into()) };
        assert!(limit.run_optional(body).await.is_err(), "not its own expiry");
        Ok(())
    });
    assert_eq!(lines, ["timeout"]);
}

#[test]
fn an_error_raised_during_cleanup_comes_out_instead_of_the_timeout() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let body = async {
            let _ = noted_nap(&trace, "body", 60).await;
            Err::<(), _>(Boom("cleanup").into())
        };
        let ended = outcome(limit.run(body)).await;
        trace.push(ended);
        assert!(limit.expired());
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "error:cleanup"]);
}

#[test]
fn a_body_that_swallows_the_interruption_and_has_a_value_is_no_error() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let body = async {
            let _ = noted_nap(&trace, "body", 60).await;
            trace.push(format!("requests:{}", requests()));
            Ok("all the same")
        };
        let value = limit.run(body).await?;
        trace.push(value);
        assert!(limit.expired());
        trace.push(format!("requests:{}", requests()));
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "requests:1", "all the same", "requests:0"]
    );
}

#[test]
fn a_body_that_waits_again_after_the_interruption_is_not_interrupted_again() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let body = async {
            let first = noted_nap(&trace, "first", 60).await;
            noted_nap(&trace, "cleanup", 5).await?;
            first
        };
        let ended = outcome(limit.run(body)).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(lines, ["first:cancelled@1", "cleanup:slept@6", "timeout@6"]);
}

#[test]
fn what_the_body_waits_for_is_cancelled_a_future_or_a_task() {
    let lines = play(|trace| async move {
        let future = this_loop().create_future::<()>();
        trace.push(outcome(timeout(secs(1)).run(future.clone())).await);
        assert!(future.cancelled());
        let log = trace.clone();
        let task = create_task(async move { noted_nap(&log, "task", 60).await });
        trace.push(outcome(timeout(secs(1)).run(task.clone())).await);
        assert!(task.cancelled());
        Ok(())
    });
    assert_eq!(lines, ["timeout", "task:cancelled@2", "timeout"]);
}

#[test]
fn a_task_that_outlives_its_cancellation_is_waited_for() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let _ = noted_nap(&log, "task", 60).await;
            nap(2).await?;
            Ok("in the end")
        });
        // The await of the task yields no cancellation: the task did not end with one.
        let ended = outcome(timeout(secs(1)).run(task)).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(lines, ["task:cancelled@1", "result:in the end@3"]);
}

#[test]
fn an_expiry_inside_a_task_does_not_leave_that_task_cancelled() {
    let lines = play(|trace| async move {
        let task = create_task(async { Ok(word(&timeout(secs(1)).run(nap(10)).await.unwrap_err())) });
        trace.push(task.clone().await?);
        assert!(task.done() && !task.cancelled());
        assert_eq!(task.cancelling(), 0);
        Ok(())
    });
    assert_eq!(lines, ["timeout"]);
}

#[test]
fn run_optional_gives_none_for_an_expiry_and_everything_else_as_it_is() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        assert_eq!(limit.run_optional(nap(60)).await?, None);
        assert!(limit.expired());
        assert_eq!((now(), requests()), ("1".into(), 0));
        let value = timeout(secs(1)).run_optional(async { Ok(7) }).await?;
        assert_eq!(value, Some(7));
        let failing = async { Err::<(), _>(Boom("own").into()) };
        trace.push(outcome(timeout(secs(1)).run_optional(failing)).await);
        let swallowing = async {
            let _ = nap(60).await;
            Ok("value")
        };
        let limit = timeout(secs(1));
        assert_eq!(limit.run_optional(swallowing).await?, Some("value"));
        assert!(limit.expired());
        Ok(())
    });
    assert_eq!(lines, ["error:own"]);
}

#[test]
fn a_body_that_waits_for_something_foreign_only_is_dropped_where_it_is() {
    let lines = play(|trace| async move {
        let drops = Drops::default();
        let captured = drops.counted();
        let limit = timeout(secs(1));
        let body = async move {
            let _captured = captured;
            std::future::pending::<Result<()>>().await
        };
        let ended = outcome(limit.run(body)).await;
        trace.push(format!("{ended}@{}", now()));
        assert_eq!(drops.count(), 1);
        assert!(limit.expired());
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["timeout@1"]);
}

#[test]
fn a_body_that_waits_for_another_crate_s_lock_leaves_its_queue() {
    let lines = play(|trace| async move {
        let lock = futures_util::lock::Mutex::new("free");
        let held = lock.lock().await;
        let ended = timeout(secs(1)).run(async { Ok(*lock.lock().await) }).await;
        trace.push(format!("{}@{}", outcome(async { ended }).await, now()));
        let free = async {
            let (waiting, freeing) = (lock.lock(), async {
                nap(1).await?;
                drop(held);
                Ok::<(), Exception>(())
            });
            let (free, freed) = join!(waiting, freeing);
            freed.map(|()| *free)
        };
        trace.push(outcome(timeout(secs(5)).run(free)).await);
        Ok(())
    });
    assert_eq!(lines, ["timeout@1", "result:free"]);
}

#[test]
fn something_foreign_that_comes_in_time_is_what_the_body_gets() {
    let lines = play(|trace| async move {
        let (foreign, handle) = abortable(std::future::pending::<()>());
        this_loop().call_later(secs(1), move || handle.abort());
        let body = async { Ok(foreign.await.is_err()) };
        let ended = outcome(timeout(secs(2)).run(body)).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(lines, ["result:true@1"]);
}

#[test]
fn something_foreign_beside_a_future_of_this_crate_is_interrupted_at_that_future() {
    let lines = play(|trace| async move {
        let body = async {
            let mut foreign = pin!(std::future::pending::<()>().fuse());
            let mut slept = pin!(noted_nap(&trace, "body", 60).fuse());
            select! { () = foreign => Ok(()), slept = slept => slept }
        };
        let ended = outcome(timeout(secs(1)).run(body)).await;
        trace.push(ended);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "timeout"]);
}

#[test]
fn the_captures_of_the_body_are_gone_when_run_is_over() {
    play(|_| async {
        let drops = Drops::default();
        let captured = drops.counted();
        let limit = timeout(secs(1));
        let running = limit.run(async move {
            let _captured = captured;
            nap(60).await
        });
        assert!(running.await.is_err());
        assert_eq!(drops.count(), 1);
        Ok(())
    });
}

#[test]
fn ten_thousand_timeouts_one_after_another_leave_no_timers() {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    play(|_| async move {
        for round in 0..10_000 {
            timeout(secs(1000)).run(sleep(Duration::ZERO)).await?;
            assert!(this_loop().timer_count() < 1000, "in round {round}");
            counted.set(round + 1);
        }
        Ok(())
    });
    assert_eq!(count.get(), 10_000);
}
