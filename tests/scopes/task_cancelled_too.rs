//! The scope and the task around it are both cancelled, in every order: the task comes first.

use miniloop::{CancelScope, CancelledError, Result, Task, create_task};

use crate::common::{Trace, outcome, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop, this_task};
use crate::support::raised;
use crate::{cancel_after, push_end};

/// A task with a scope around a nap and a cleanup; it says what the scope gave.
fn owner(trace: &Trace, scope: &CancelScope) -> Task<()> {
    let (trace, scope) = (trace.clone(), scope.clone());
    create_task(async move {
        let body = async {
            let slept = noted_nap(&trace, "body", 60).await;
            trace.push(format!("requests:{}", requests()));
            noted_nap(&trace, "cleanup", 10).await?;
            slept
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        ended?;
        noted_nap(&trace, "after", 5).await
    })
}

fn cancel_task_after(seconds: u64, task: &Task<()>) {
    let cancelled = task.clone();
    this_loop().call_later(secs(seconds), move || {
        cancelled.cancel();
    });
}

async fn push_outcome(trace: &Trace, task: Task<()>) {
    let ended = outcome(task.clone()).await;
    trace.push(format!("{ended}@{} requests:{}", now(), task.cancelling()));
}

// brief: XT-17
#[test]
fn in_one_tick_in_either_order_the_task_s_cancellation_comes_out() {
    for scope_first in [true, false] {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let task = owner(&trace, &scope);
            if scope_first {
                cancel_after(1, &scope);
                cancel_task_after(1, &task);
            } else {
                cancel_task_after(1, &task);
                cancel_after(1, &scope);
            }
            push_outcome(&trace, task).await;
            assert!(scope.cancel_called() && !scope.cancelled_caught());
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "body:cancelled@1",
                "requests:2",
                "cleanup:slept@11",
                "cancelled@11 requests:1",
                "cancelled@11 requests:1"
            ]
        );
    }
}

#[test]
fn one_during_the_cleanup_for_the_other_interrupts_that_in_both_orders() {
    for (scope_after, task_after) in [(1, 3), (3, 1)] {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let task = owner(&trace, &scope);
            cancel_after(scope_after, &scope);
            cancel_task_after(task_after, &task);
            push_outcome(&trace, task).await;
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "body:cancelled@1",
                "requests:1",
                "cleanup:cancelled@3",
                "cancelled@3 requests:1",
                "cancelled@3 requests:1"
            ]
        );
    }
}

#[test]
fn the_task_alone_goes_through_the_scope() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        let task = owner(&trace, &scope);
        yields(1).await?;
        task.cancel_with("outside");
        let error = raised::<CancelledError, _>(task.await);
        assert_eq!(error.message(), Some("outside"));
        assert!(!scope.cancel_called());
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@0",
            "requests:1",
            "cleanup:slept@10",
            "cancelled@10 requests:1"
        ]
    );
}

#[test]
fn the_task_after_the_scope_is_over_is_nothing_new() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        let task = owner(&trace, &scope);
        cancel_after(1, &scope);
        cancel_task_after(12, &task);
        push_outcome(&trace, task).await;
        Ok(())
    });
    assert_eq!(
        lines[2..],
        [
            "cleanup:slept@11",
            "None@11 requests:0",
            "after:cancelled@12",
            "cancelled@12 requests:1"
        ]
    );
}

#[test]
fn a_request_that_was_pending_when_a_cancelled_scope_is_entered_wins() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let scope = CancelScope::new();
            this_task().cancel();
            scope.cancel();
            let ended = scope.run(noted_nap(&log, "body", 60)).await;
            push_end(&log, &ended);
            ended.map(|_| ())
        });
        push_outcome(&trace, task).await;
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@0",
            "cancelled@0 requests:1",
            "cancelled@0 requests:1"
        ]
    );
}

#[test]
fn a_request_that_was_used_up_before_does_not_concern_the_scope() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            this_task().cancel();
            let _ = noted_nap(&log, "work", 1).await;
            let scope = CancelScope::new();
            cancel_after(1, &scope);
            let ended = scope.run(noted_nap(&log, "body", 60)).await;
            push_end(&log, &ended);
            noted_nap(&log, "after", 1).await
        });
        push_outcome(&trace, task).await;
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "work:cancelled@0",
            "body:cancelled@1",
            "None@1 requests:1",
            "after:slept@2",
            "result:none@2 requests:1"
        ]
    );
}

#[test]
fn a_request_from_inside_together_with_the_scope_s_own() {
    for scope_first in [true, false] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                let scope = CancelScope::new();
                let body = async {
                    if scope_first {
                        scope.cancel();
                        this_task().cancel();
                    } else {
                        this_task().cancel();
                        scope.cancel();
                    }
                    let _ = noted_nap(&log, "body", 60).await;
                    noted_nap(&log, "swallowed", 1).await
                };
                let ended = scope.run(body).await;
                push_end(&log, &ended);
                noted_nap(&log, "after", 1).await
            });
            push_outcome(&trace, task).await;
            Ok(())
        });
        // One interruption is for both.
        assert_eq!(
            lines,
            [
                "body:cancelled@0",
                "swallowed:slept@1",
                "Some(())@1 requests:1",
                "after:slept@2",
                "result:none@2 requests:1"
            ]
        );
    }
}

#[test]
fn a_request_taken_back_leaves_the_scope_s_own_interruption() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        let body = async {
            this_task().cancel();
            scope.cancel();
            assert_eq!(requests(), 2);
            assert_eq!(this_task().uncancel(), 1, "the scope's is left");
            noted_nap(&trace, "body", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(lines, ["body:cancelled@0", "None@0 requests:0", "after:slept@1"]);
}

#[test]
fn a_task_that_has_not_begun_is_cancelled_and_its_scope_never_entered() {
    play(|_| async {
        let scope = CancelScope::new();
        let inside = scope.clone();
        let task = create_task(async move { inside.run(nap(60)).await });
        scope.cancel();
        task.cancel();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(scope.run(async { Ok(1) }).await?, Some(1));
        Ok(())
    });
}

#[test]
fn a_body_that_waits_for_something_foreign_is_dropped_with_the_task() {
    for (scope_after, task_after) in [(1, 1), (5, 1)] {
        play(|_| async move {
            let scope = CancelScope::new();
            let inside = scope.clone();
            let task =
                create_task(
                    async move { inside.run(std::future::pending::<Result<()>>()).await.map(|_| ()) },
                );
            cancel_task_after(task_after, &task);
            cancel_after(scope_after, &scope);
            assert!(task.clone().await.unwrap_err().is_cancelled());
            assert!(task.cancelled());
            assert_eq!(now(), "1");
            nap(10).await
        });
    }
}
