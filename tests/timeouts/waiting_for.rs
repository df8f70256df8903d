//! `wait_for`: what becomes of what it waits for.

use std::time::Duration;

use miniloop::{CancelledError, Result, create_task, current_task, shield, wait_for};

use crate::common::{Boom, outcome, state, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::support::{Drops, raised};

// brief: XT-4
#[test]
fn a_task_that_takes_too_long_is_cancelled() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move { noted_nap(&log, "task", 60).await });
        trace.push(outcome(wait_for(task.clone(), secs(1))).await);
        assert!(task.cancelled());
        Ok(())
    });
    assert_eq!(lines, ["task:cancelled@1", "timeout"]);
}

#[test]
fn its_cleanup_is_waited_for_also_with_no_time_at_all() {
    for delay in [Duration::ZERO, secs(1)] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                let slept = nap(60).await;
                noted_nap(&log, "cleanup", 3).await?;
                slept
            });
            yields(1).await?;
            trace.push(outcome(wait_for(task.clone(), delay)).await);
            assert!(task.cancelled());
            assert_eq!(this_loop().time(), secs(103) + delay);
            Ok(())
        });
        assert_eq!(lines[1], "timeout", "{lines:?}");
    }
}

#[test]
fn an_error_raised_in_that_cleanup_comes_out_also_with_no_time_at_all() {
    for delay in [Duration::ZERO, secs(1)] {
        let lines = play(|trace| async move {
            let task = create_task(async {
                let _ = nap(60).await;
                Err::<(), _>(Boom("cleanup").into())
            });
            yields(1).await?;
            trace.push(outcome(wait_for(task, delay)).await);
            Ok(())
        });
        assert_eq!(lines, ["error:cleanup"]);
    }
}

#[test]
fn a_value_returned_in_spite_of_the_cancellation_is_handed_on() {
    for delay in [Duration::ZERO, secs(1)] {
        let lines = play(|trace| async move {
            let task = create_task(async {
                let _ = nap(60).await;
                Ok("42")
            });
            yields(1).await?;
            trace.push(outcome(wait_for(task, delay)).await);
            Ok(())
        });
        assert_eq!(lines, ["result:42"]);
    }
}

#[test]
fn a_coroutine_may_do_the_same() {
    let lines = play(|trace| async move {
        let stubborn = async {
            let _ = nap(60).await;
            Ok("42")
        };
        trace.push(outcome(wait_for(stubborn, secs(1))).await);
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["result:42"]);
}

#[test]
fn no_time_at_all_never_starts_a_coroutine_and_drops_it() {
    let lines = play(|trace| async move {
        let drops = Drops::default();
        let (captured, started) = (drops.counted(), trace.mark("started"));
        let work = async move {
            let _captured = captured;
            started();
            Ok(())
        };
        trace.push(outcome(wait_for(work, Duration::ZERO)).await);
        assert_eq!(drops.count(), 1);
        Ok(())
    });
    assert_eq!(lines, ["timeout"]);
}

#[test]
fn no_time_at_all_is_enough_for_what_is_done_with_a_value_or_an_error() {
    let lines = play(|trace| async move {
        let future = this_loop().create_future();
        future.set_result("done")?;
        trace.push(outcome(wait_for(future, Duration::ZERO)).await);
        let failed = this_loop().create_future::<()>();
        failed.set_exception(Boom("failed"))?;
        trace.push(outcome(wait_for(failed, Duration::ZERO)).await);
        let cancelled = this_loop().create_future::<()>();
        cancelled.cancel();
        trace.push(outcome(wait_for(cancelled, Duration::ZERO)).await);
        Ok(())
    });
    assert_eq!(lines, ["result:done", "error:failed", "cancelled"]);
}

#[test]
fn no_time_at_all_cancels_a_plain_future() {
    let lines = play(|trace| async move {
        let future = this_loop().create_future::<()>();
        trace.push(outcome(wait_for(future.clone(), Duration::ZERO)).await);
        trace.push(state(&future));
        Ok(())
    });
    assert_eq!(lines, ["timeout", "cancelled"]);
}

#[test]
fn a_value_that_is_no_clone_is_moved_out() {
    struct NoClone(u32);
    play(|_| async {
        let value = wait_for(async { Ok(NoClone(5)) }, secs(1)).await?;
        assert_eq!(value.0, 5);
        let task = create_task(async { Ok(NoClone(6)) });
        assert_eq!(wait_for(task.take(), None).await?.0, 6);
        let task = create_task(async { Ok(NoClone(7)) });
        yields(1).await?;
        assert_eq!(wait_for(task.take(), Duration::ZERO).await?.0, 7);
        Ok(())
    });
}

#[test]
fn a_result_set_before_the_timer_is_what_comes_out() {
    let lines = play(|trace| async move {
        let future = this_loop().create_future();
        let completed = future.clone();
        this_loop().call_soon(move || completed.set_result("ok").unwrap());
        trace.push(outcome(wait_for(future, secs(1))).await);
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["result:ok", "0"]);
}

#[test]
fn cancelling_the_waiter_cancels_what_it_waits_for_with_and_without_a_limit() {
    for limit in [None, Some(secs(60))] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move { noted_nap(&log, "task", 50).await });
            let waiter = create_task(wait_for(task.clone(), limit));
            let cancelled = waiter.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel_with("enough");
            });
            let error = raised::<CancelledError, _>(waiter.await);
            assert_eq!(error.message(), Some("enough"));
            assert!(task.cancelled());
            trace.push(now());
            Ok(())
        });
        assert_eq!(lines, ["task:cancelled@1", "1"]);
    }
}

#[test]
fn cancelling_the_waiter_that_has_no_time_while_it_waits_for_a_cleanup() {
    // asyncio's `_cancel_and_wait`: the cancellation comes out, the task cleans up by itself.
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let slept = nap(60).await;
            noted_nap(&log, "cleanup", 5).await?;
            slept
        });
        yields(1).await?;
        let waiter = create_task(wait_for(task.clone(), Duration::ZERO));
        nap(1).await?;
        waiter.cancel();
        trace.push(format!("{}@{}", outcome(waiter).await, now()));
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(lines, ["cancelled@1", "cleanup:slept@5", "cancelled"]);
}

#[test]
fn a_stubborn_coroutine_outlives_the_timeout_and_the_cancellation() {
    for cancelled in [true, false] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let stubborn = async move {
                let end = this_loop().time() + secs(10);
                while this_loop().time() < end {
                    let _ = this_loop().sleep(end - this_loop().time()).await;
                }
                log.push(format!("ends@{}", now()));
                Ok(())
            };
            let waiter = create_task(wait_for(stubborn, secs(5)));
            yields(1).await?;
            if cancelled {
                waiter.cancel();
            }
            trace.push(outcome(waiter).await);
            Ok(())
        });
        assert_eq!(lines, ["ends@10", "result:none"]);
    }
}

#[test]
fn a_result_and_a_cancellation_in_one_step_end_cancelled_and_the_task_keeps_its_result() {
    let lines = play(|trace| async move {
        let inner = create_task(async { Ok("done") });
        let (log, waited) = (trace.clone(), inner.clone());
        let waiter = create_task(async move {
            wait_for(waited, secs(100)).await?;
            nap(1).await?;
            log.push("reached the end");
            Ok(())
        });
        yields(1).await?;
        waiter.cancel();
        trace.push(outcome(waiter).await);
        trace.push(state(&inner));
        Ok(())
    });
    assert_eq!(lines, ["cancelled", "result:done"]);
}

#[test]
fn a_coroutine_runs_as_a_part_of_the_calling_task() {
    play(|_| async {
        let me = current_task();
        let same = wait_for(async move { Ok(current_task() == me) }, secs(1));
        assert!(same.await?);
        Ok(())
    });
}

#[test]
fn something_foreign_is_dropped_when_time_runs_out() {
    let lines = play(|trace| async move {
        let drops = Drops::default();
        let captured = drops.counted();
        let foreign = async move {
            let _captured = captured;
            std::future::pending::<Result<()>>().await
        };
        trace.push(outcome(wait_for(foreign, secs(1))).await);
        assert_eq!(drops.count(), 1);
        Ok(())
    });
    assert_eq!(lines, ["timeout"]);
}

#[test]
fn a_shielded_task_outlives_the_timeout_also_with_no_time_at_all() {
    for delay in [Duration::ZERO, secs(1)] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move { noted_nap(&log, "task", 5).await });
            let shielded = shield(task.clone());
            trace.push(outcome(wait_for(shielded.clone(), delay)).await);
            assert!(!task.done() && shielded.cancelled());
            trace.push(outcome(task).await);
            Ok(())
        });
        assert_eq!(lines, ["timeout", "task:slept@5", "result:none"]);
    }
}

#[test]
fn a_shielded_task_without_a_limit_is_waited_for() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move { noted_nap(&log, "task", 5).await });
        trace.push(outcome(wait_for(shield(task.clone()), None)).await);
        assert!(task.done());
        Ok(())
    });
    assert_eq!(lines, ["task:slept@5", "result:none"]);
}
