//! `CancelScope`: a part of a task that can be cancelled by itself.

mod common;
#[path = "support/play.rs"]
mod play;
mod support;

#[path = "scopes/awaited.rs"]
mod awaited;
#[path = "scopes/branches.rs"]
mod branches;
#[path = "scopes/left_in_the_middle.rs"]
mod left_in_the_middle;
#[path = "scopes/nested.rs"]
mod nested;
#[path = "scopes/task_cancelled_too.rs"]
mod task_cancelled_too;

use miniloop::{CancelScope, CancelledError, Exception, Result, create_task};

use common::{Boom, Trace, outcome, ticks, word, yields};
use play::{nap, noted_nap, now, play, requests, secs, this_loop};
use support::raised;

/// Cancels the scope after so many seconds, from a callback.
fn cancel_after(seconds: u64, scope: &CancelScope) {
    let cancelled = scope.clone();
    this_loop().call_later(secs(seconds), move || {
        cancelled.cancel();
    });
}

/// Leaves in the trace what a scope gave, when, and the open requests.
fn push_end<T: std::fmt::Debug>(trace: &Trace, ended: &Result<Option<T>>) {
    let how = match ended {
        Ok(value) => format!("{value:?}"),
        Err(exception) => word(exception),
    };
    trace.push(format!("{how}@{} requests:{}", now(), requests()));
}

// brief: XT-17
#[test]
fn cancelled_from_a_callback_it_interrupts_the_body_and_the_task_goes_on() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let ended = scope.run(noted_nap(&trace, "body", 60)).await;
        push_end(&trace, &ended);
        assert!(scope.cancel_called() && scope.cancelled_caught());
        noted_nap(&trace, "after", 5).await
    });
    assert_eq!(lines, ["body:cancelled@1", "None@1 requests:0", "after:slept@6"]);
}

#[test]
fn a_body_that_is_not_cancelled_gives_its_value_or_its_error() {
    play(|_| async {
        let scope = CancelScope::new();
        let body = async {
            nap(1).await?;
            Ok(5)
        };
        assert_eq!(scope.run(body).await?, Some(5));
        assert!(!scope.cancel_called() && !scope.cancelled_caught());
        let failing = async { Err::<(), _>(Boom("own").into()) };
        let error = raised::<Boom, _>(CancelScope::new().run(failing).await);
        assert_eq!(error, Boom("own"));
        Ok(())
    });
}

#[test]
fn a_body_that_does_not_wait_does_not_yield_and_is_not_cancelled() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 1);
        let scope = CancelScope::new();
        let body = async {
            assert!(scope.cancel());
            Ok("value")
        };
        trace.push(scope.run(body).await?.unwrap_or("none"));
        assert!(scope.cancel_called() && !scope.cancelled_caught());
        assert_eq!(requests(), 0);
        yields(1).await
    });
    assert_eq!(lines, ["value", "tick1"]);
}

#[test]
fn the_interruption_comes_one_tick_after_cancel() {
    let lines = play(|trace| async move {
        let (event_loop, scope) = (this_loop(), CancelScope::new());
        let (cancelled, handle, log) = (scope.clone(), event_loop.clone(), trace.clone());
        event_loop.call_later(secs(1), move || {
            ticks(&handle, &log, 3);
            cancelled.cancel();
            log.push("cancelled");
        });
        let ended = scope.run(noted_nap(&trace, "body", 60)).await;
        push_end(&trace, &ended);
        yields(3).await
    });
    assert_eq!(
        lines,
        [
            "cancelled",
            "tick1",
            "body:cancelled@1",
            "None@1 requests:0",
            "tick2",
            "tick3"
        ]
    );
}

// brief: XT-17
#[test]
fn cancelled_from_inside_it_comes_at_the_next_await_that_waits() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        let body = async {
            scope.cancel();
            trace.push(format!("requests:{}", requests()));
            // An await that does not wait delivers nothing.
            let done = this_loop().create_future();
            done.set_result("done")?;
            trace.push(done.await?);
            noted_nap(&trace, "body", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["requests:1", "done", "body:cancelled@0", "None@0 requests:0"]
    );
}

#[test]
fn cancelled_before_it_is_entered_it_comes_at_the_first_await_that_waits() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        assert!(scope.cancel());
        nap(1).await?;
        assert_eq!(requests(), 0, "it is not entered");
        let body = async {
            trace.push(format!("requests:{}", requests()));
            noted_nap(&trace, "body", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "requests:1",
            "body:cancelled@1",
            "None@1 requests:0",
            "after:slept@2"
        ]
    );
}

#[test]
fn after_it_is_over_cancelling_is_refused() {
    play(|_| async {
        let scope = CancelScope::new();
        scope.run(async { Ok(()) }).await?;
        assert!(!scope.cancel());
        assert!(!scope.cancel_with("too late"));
        assert!(!scope.cancel_called() && !scope.cancelled_caught());
        nap(1).await
    });
}

#[test]
fn each_call_interrupts_once() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        for second in [1, 3, 5] {
            cancel_after(second, &scope);
        }
        let body = async {
            for name in ["one", "two", "three"] {
                let _ = noted_nap(&trace, name, 60).await;
            }
            noted_nap(&trace, "four", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        assert!(scope.cancel_called() && !scope.cancelled_caught());
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "one:cancelled@1",
            "two:cancelled@3",
            "three:cancelled@5",
            "four:slept@65",
            "Some(())@65 requests:0"
        ]
    );
}

#[test]
fn two_calls_before_the_body_is_resumed_are_one_interruption() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        cancel_after(1, &scope);
        let body = async {
            let first = noted_nap(&trace, "body", 60).await;
            trace.push(format!("requests:{}", requests()));
            noted_nap(&trace, "cleanup", 2).await?;
            first
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "requests:1",
            "cleanup:slept@3",
            "None@3 requests:0"
        ]
    );
}

// brief: XT-17
#[test]
fn the_body_may_await_in_its_cleanup() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let body = async {
            let slept = noted_nap(&trace, "body", 60).await;
            noted_nap(&trace, "cleanup", 10).await?;
            slept
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "cleanup:slept@11", "None@11 requests:0"]
    );
}

#[test]
fn an_error_in_the_cleanup_comes_out() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let body = async {
            let _ = nap(60).await;
            Err::<(), _>(Boom("cleanup").into())
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        assert!(scope.cancel_called() && !scope.cancelled_caught());
        Ok(())
    });
    assert_eq!(lines, ["error:cleanup@1 requests:0"]);
}

#[test]
fn the_message_is_what_the_await_yields() {
    play(|_| async {
        let scope = CancelScope::new();
        let cancelled = scope.clone();
        this_loop().call_later(secs(1), move || {
            cancelled.cancel_with("enough");
        });
        let body = async {
            let error = raised::<CancelledError, _>(nap(60).await);
            assert_eq!(error.message(), Some("enough"));
            Err::<(), Exception>(error.into())
        };
        assert_eq!(scope.run(body).await?, None);
        Ok(())
    });
}

// brief: XT-17
#[test]
fn tasks_created_in_it_are_not_in_it_eager_or_not() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let (mut tasks, log) = (Vec::new(), trace.clone());
        let body = async {
            for (name, eager) in [("plain", false), ("eager", true)] {
                let log = log.clone();
                let builder = this_loop().task_builder().eager_start(eager);
                tasks.push(builder.create_task(async move { noted_nap(&log, name, 3).await }));
            }
            noted_nap(&trace, "body", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        for task in tasks {
            task.await?;
        }
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "None@1 requests:0",
            "eager:slept@3",
            "plain:slept@3"
        ]
    );
}

#[test]
fn an_eager_task_created_in_a_cancelled_scope_is_not_interrupted() {
    let lines = play(|trace| async move {
        let (scope, log) = (CancelScope::new(), trace.clone());
        let mut task = None;
        let body = async {
            scope.cancel();
            let builder = this_loop().task_builder().eager_start(true);
            task = Some(builder.create_task(async move {
                log.push(format!("eager requests:{}", requests()));
                noted_nap(&log, "eager", 1).await
            }));
            noted_nap(&trace, "body", 60).await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        task.unwrap().await
    });
    assert_eq!(
        lines,
        [
            "eager requests:0",
            "body:cancelled@0",
            "None@0 requests:0",
            "eager:slept@1"
        ]
    );
}

#[test]
fn a_task_cancels_the_scope_of_another() {
    let lines = play(|trace| async move {
        let (scope, log) = (CancelScope::new(), trace.clone());
        let inside = scope.clone();
        let task = create_task(async move {
            let ended = inside.run(noted_nap(&log, "body", 60)).await;
            push_end(&log, &ended);
            Ok("went on")
        });
        nap(1).await?;
        assert!(scope.cancel());
        assert_eq!(task.cancelling(), 1);
        trace.push(outcome(task.clone()).await);
        assert_eq!(task.cancelling(), 0);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "None@1 requests:0", "result:went on"]);
}

#[test]
fn a_result_that_was_set_before_is_passed_over_as_for_a_task() {
    play(|_| async {
        let (future, scope) = (this_loop().create_future(), CancelScope::new());
        let (completed, cancelled) = (future.clone(), scope.clone());
        this_loop().call_later(secs(1), move || {
            completed.set_result("x").unwrap();
            cancelled.cancel();
        });
        assert_eq!(scope.run(future.clone()).await?, None);
        assert_eq!(future.result()?, "x", "others can read it");
        Ok(())
    });
}

#[test]
fn cancelled_in_the_step_in_which_the_body_ends_it_changes_nothing() {
    play(|_| async {
        let scope = CancelScope::new();
        let (future, body) = (this_loop().create_future(), async {
            nap(1).await?;
            scope.cancel();
            Ok("value")
        });
        let completed = future.clone();
        future.add_done_callback(|_| {});
        completed.set_result(())?;
        assert_eq!(scope.run(body).await?, Some("value"));
        assert!(scope.cancel_called() && !scope.cancelled_caught());
        assert_eq!(requests(), 0);
        nap(1).await
    });
}
