//! Timeouts around groups, in their bodies, and in their children.

use std::time::Duration;

use miniloop::{ExceptionGroup, Result, TaskGroup, TimeoutError, timeout, wait_for};

use crate::common::{Boom, outcome, word};
use crate::play::{nap, noted_nap, now, play, requests, secs};
use crate::support::raised;
use crate::{child, fail_after, push_end};

// brief: XT-4
#[test]
fn a_timeout_around_a_group_cancels_body_and_children_and_raises_when_they_have_ended() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 2, None))?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = timeout(secs(1)).run(group.run(body)).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "a:cancelled@1",
            "a-cleanup:slept@3",
            "timeout@3 requests:0"
        ]
    );
}

#[test]
fn it_does_so_too_while_the_group_only_waits_for_its_children() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 2, None))?;
            Ok(())
        };
        let limit = timeout(secs(1));
        let ended = limit.run(group.run(body)).await;
        push_end(&trace, &ended);
        assert!(limit.expired());
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "a-cleanup:slept@3",
            "timeout@3 requests:0",
            "after:slept@4"
        ]
    );
}

#[test]
fn an_error_in_the_cleanup_for_the_timeout_comes_out_instead() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 2, Some("x")))?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = timeout(secs(1)).run(group.run(body)).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(lines[3..], ["group(error:x)@3 requests:0", "after:slept@4"]);
}

#[test]
fn if_that_error_is_handled_inside_the_timeout_the_interruption_comes_again() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let inside = async {
            let body = async {
                group.create_task(child(trace.clone(), "a", 60, 2, Some("x")))?;
                Ok(())
            };
            let ended = group.run(body).await;
            push_end(&trace, &ended);
            noted_nap(&trace, "inside", 5).await
        };
        let ended = timeout(secs(1)).run(inside).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "a-cleanup:slept@3",
            "group(error:x)@3 requests:1",
            "inside:cancelled@3",
            "timeout@3 requests:0",
            "after:slept@4"
        ]
    );
}

#[test]
fn replaced_by_an_error_of_the_body_the_timeout_s_interruption_comes_again() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let inside = async {
            let body = async {
                let slept = noted_nap(&trace, "body", 60).await;
                slept.map_err(|_| Boom("body").into())
            };
            let ended: Result<()> = group.run(body).await;
            push_end(&trace, &ended);
            noted_nap(&trace, "inside", 5).await
        };
        let ended = timeout(secs(1)).run(inside).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "group(error:body)@1 requests:1",
            "inside:cancelled@1",
            "timeout@1 requests:0"
        ]
    );
}

#[test]
fn a_timeout_in_the_body_does_not_touch_the_children() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 3, 0, None))?;
            let ended = timeout(secs(1)).run(noted_nap(&trace, "body", 60)).await;
            trace.push(word(&ended.unwrap_err()));
            Ok(())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "timeout", "a:slept@3", "value@3 requests:0"]
    );
}

#[test]
fn a_timeout_in_a_child_is_a_failure_like_any_other() {
    let lines = play(|trace| async move {
        let (group, log) = (TaskGroup::new(), trace.clone());
        let body = async {
            group.create_task(async move { timeout(secs(2)).run(noted_nap(&log, "c", 60)).await })?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["c:cancelled@2", "body:cancelled@2", "group(timeout)@2 requests:0"]
    );
}

#[test]
fn a_timeout_that_the_body_does_not_handle_is_an_error_of_the_body() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            timeout(secs(1)).run(noted_nap(&trace, "body", 60)).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "a:cancelled@1", "group(timeout)@1 requests:0"]
    );
}

#[test]
fn a_timeout_around_expires_in_the_tick_in_which_a_child_would_fail() {
    // The timeout's timer is the older one: the child is cancelled before its next step.
    let lines = play(|trace| async move {
        let (group, limit) = (TaskGroup::new(), timeout(secs(1)));
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = limit.run(group.run(body)).await;
        push_end(&trace, &ended);
        assert!(limit.expired());
        noted_nap(&trace, "after", 2).await
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "timeout@1 requests:0", "after:slept@3"]
    );
}

#[test]
fn a_timeout_of_zero_around_a_group_cancels_its_children() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            Ok(())
        };
        let ended = timeout(Duration::ZERO).run(group.run(body)).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@0", "timeout@0 requests:0"]);
}

#[test]
fn wait_for_a_coroutine_with_a_group() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let grouped = async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(child(log.clone(), "a", 60, 2, None))?;
                Ok(())
            };
            group.run(body).await
        };
        trace.push(outcome(wait_for(grouped, secs(1))).await);
        trace.push(now());
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "a-cleanup:slept@3", "timeout", "3"]);
}

#[test]
fn the_timeout_error_of_a_child_can_be_split_from_the_rest() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(async { timeout(secs(1)).run(nap(60)).await })?;
            group.create_task(async {
                let _ = nap(60).await;
                fail_after(0, "x").await
            })?;
            Ok(())
        };
        let raised = raised::<ExceptionGroup, _>(group.run(body).await);
        let (timeouts, rest) = raised.split(|exception| exception.is::<TimeoutError>());
        let count = |group: Option<ExceptionGroup>| group.map_or(0, |group| group.exceptions().len());
        assert_eq!((count(timeouts), count(rest)), (1, 1));
        assert_eq!(requests(), 0);
        Ok(())
    });
}
