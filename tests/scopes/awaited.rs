//! What becomes of what the body waits for: a future, a task, a gather, something foreign.

use miniloop::{CancelScope, CancelledError, Exception, Result, create_task, gather, shield};

use crate::common::state;
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::support::{Drops, wake_and_yield};
use crate::{cancel_after, push_end};

#[test]
fn what_the_body_waits_for_is_cancelled_a_future_or_a_task() {
    let lines = play(|trace| async move {
        let future = this_loop().create_future::<()>();
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        assert_eq!(scope.run(future.clone()).await?, None);
        trace.push(state(&future));
        let log = trace.clone();
        let task = create_task(async move { noted_nap(&log, "task", 60).await });
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        assert_eq!(scope.run(task.clone()).await?, None);
        trace.push(format!("{} requests:{}", state(&task), task.cancelling()));
        Ok(())
    });
    assert_eq!(lines, ["cancelled", "task:cancelled@2", "cancelled requests:1"]);
}

#[test]
fn the_children_of_a_gather_that_the_body_waits_for_are_cancelled_and_waited_for() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let children = ["a", "b"].map(|name| {
            let log = trace.clone();
            create_task(async move {
                let slept = noted_nap(&log, name, 60).await;
                nap(2).await?;
                slept
            })
        });
        let ended = scope.run(gather(children.clone())).await;
        push_end(&trace, &ended);
        assert!(children.iter().all(|child| child.cancelled()));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "b:cancelled@1", "None@3 requests:0"]);
}

#[test]
fn a_shielded_task_that_the_body_waits_for_goes_on() {
    let lines = play(|trace| async move {
        let (scope, log) = (CancelScope::new(), trace.clone());
        cancel_after(1, &scope);
        let task = create_task(async move { noted_nap(&log, "task", 5).await });
        let ended = scope.run(shield(task.clone())).await;
        push_end(&trace, &ended);
        task.await
    });
    assert_eq!(lines, ["None@1 requests:0", "task:slept@5"]);
}

#[test]
fn a_cancellation_of_what_the_body_waits_for_is_not_the_scope_s() {
    play(|_| async {
        let (future, scope) = (this_loop().create_future::<()>(), CancelScope::new());
        let cancelled = future.clone();
        this_loop().call_later(secs(1), move || {
            cancelled.cancel();
        });
        let ended = scope.run(future).await;
        assert!(ended.unwrap_err().is_cancelled());
        assert!(!scope.cancelled_caught());
        let raising = async { Err::<(), Exception>(CancelledError::new().into()) };
        assert!(CancelScope::new().run(raising).await.is_err());
        Ok(())
    });
}

// brief: XT-17
#[test]
fn a_body_that_waits_for_something_foreign_only_is_dropped_where_it_is() {
    let lines = play(|trace| async move {
        let (scope, drops) = (CancelScope::new(), Drops::default());
        let captured = drops.counted();
        cancel_after(1, &scope);
        let body = async move {
            let _captured = captured;
            std::future::pending::<Result<()>>().await
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        assert_eq!(drops.count(), 1);
        assert!(scope.cancelled_caught());
        Ok(())
    });
    assert_eq!(lines, ["None@1 requests:0"]);
}

#[test]
fn cancelled_from_inside_a_body_that_then_waits_for_something_foreign_is_dropped() {
    play(|_| async {
        let scope = CancelScope::new();
        let body = async {
            scope.cancel();
            std::future::pending::<Result<()>>().await
        };
        assert_eq!(scope.run(body).await?, None);
        let scope = CancelScope::new();
        scope.cancel();
        let body = std::future::pending::<Result<()>>();
        assert_eq!(scope.run(body).await?, None);
        assert_eq!((now(), requests()), ("0".into(), 0));
        Ok(())
    });
}

#[test]
fn something_foreign_that_is_ready_in_time_is_not_lost() {
    play(|_| async {
        let scope = CancelScope::new();
        let body = async {
            wake_and_yield().await;
            scope.cancel();
            // It has woken the task itself: it goes on, and the next await delivers.
            wake_and_yield().await;
            let slept = nap(60).await;
            assert!(slept.as_ref().unwrap_err().is_cancelled());
            slept
        };
        assert_eq!(scope.run(body).await?, None);
        assert_eq!(now(), "0");
        Ok(())
    });
}
