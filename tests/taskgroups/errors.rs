//! A child or the body fails: the others are cancelled, and the errors come out together.

use miniloop::{CancelledError, Exception, ExceptionGroup, TaskGroup, create_task};

use crate::common::{Boom, outcome, state, ticks, virtual_loop, word, yields};
use crate::play::{nap, noted_nap, play, requests, secs, this_loop, this_task};
use crate::support::{Reports, raised};
use crate::{child, fail_after, push_end};

// brief: XT-18
#[test]
fn an_error_in_a_child_cancels_the_siblings_and_interrupts_the_body() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "sibling", 60, 2, None))?;
            group.create_task(fail_after(1, "bad"))?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "sibling:cancelled@1",
            "body:cancelled@1",
            "sibling-cleanup:slept@3",
            "group(error:bad)@3 requests:0"
        ]
    );
}

#[test]
fn the_ticks_of_a_failure_are_asyncio_s() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 8);
        let (group, log) = (TaskGroup::new(), trace.clone());
        let body = async {
            group.create_task(child(trace.clone(), "sibling", 60, 0, None))?;
            group.create_task(async move {
                log.push("child");
                Err::<(), Exception>(Boom("x").into())
            })?;
            noted_nap(&trace, "body", 60).await
        };
        trace.push(outcome(group.run(body)).await);
        yields(8).await
    });
    let expected = "tick1 child tick2 tick3 sibling:cancelled@0 body:cancelled@0 \
                    tick4 tick5 group(error:x) tick6 tick7 tick8";
    assert_eq!(lines.join(" "), expected);
}

#[test]
fn errors_come_in_the_order_in_which_they_were_raised_the_body_s_last() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 2, Some("a")))?;
            group.create_task(child(trace.clone(), "b", 60, 1, Some("b")))?;
            yields(1).await?;
            Err::<(), Exception>(Boom("body").into())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@0",
            "b:cancelled@0",
            "b-cleanup:slept@1",
            "a-cleanup:slept@2",
            "group(error:b error:a error:body)@2 requests:0"
        ]
    );
}

#[test]
fn what_comes_out_is_an_exception_group_with_the_very_errors() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "one"))?;
            group.create_task(fail_after(1, "two"))?;
            nap(60).await
        };
        let raised = raised::<ExceptionGroup, _>(group.run(body).await);
        assert_eq!(raised.message(), "unhandled errors in a TaskGroup");
        let booms: Vec<_> = raised
            .exceptions()
            .iter()
            .map(|exception| exception.downcast_ref::<Boom>().copied())
            .collect();
        assert_eq!(booms, [Some(Boom("one")), Some(Boom("two"))]);
        Ok(())
    });
}

#[test]
fn an_error_of_the_body_before_it_has_waited_keeps_the_children_from_starting() {
    let lines = play(|trace| async move {
        let (group, mut task) = (TaskGroup::new(), None);
        let body = async {
            task = Some(group.create_task(child(trace.clone(), "child", 60, 0, None))?);
            Err::<(), Exception>(Boom("body").into())
        };
        trace.push(outcome(group.run(body)).await);
        trace.push(state(&task.unwrap()));
        Ok(())
    });
    assert_eq!(lines, ["group(error:body)", "cancelled"]);
}

#[test]
fn an_error_of_the_body_alone_comes_in_a_group_too() {
    let lines = play(|trace| async move {
        let failing = || async { Err::<(), _>(Boom("body").into()) };
        trace.push(outcome(TaskGroup::new().run(failing())).await);
        trace.push(outcome(TaskGroup::new().run_optional(failing())).await);
        Ok(())
    });
    assert_eq!(lines, ["group(error:body)", "group(error:body)"]);
}

#[test]
fn a_body_that_swallows_the_group_s_interruption_goes_on_and_the_error_comes_at_its_end() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            let _ = noted_nap(&trace, "body", 60).await;
            trace.push(format!("requests:{}", requests()));
            noted_nap(&trace, "again", 5).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "requests:1",
            "again:slept@6",
            "group(error:x)@6 requests:0"
        ]
    );
}

#[test]
fn a_body_that_replaces_the_interruption_by_an_error_of_its_own_adds_that() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            let slept = noted_nap(&trace, "body", 60).await;
            slept.map_err(|_| Boom("body").into())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "group(error:x error:body)@1 requests:0",
            "after:slept@2"
        ]
    );
}

#[test]
fn a_child_that_swallows_its_cancellation_is_waited_for_until_it_ends() {
    let lines = play(|trace| async move {
        let (group, log) = (TaskGroup::new(), trace.clone());
        let body = async {
            group.create_task(async move {
                let _ = noted_nap(&log, "stubborn", 60).await;
                noted_nap(&log, "stubborn-again", 60).await
            })?;
            group.create_task(fail_after(1, "x"))?;
            Ok(())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "stubborn:cancelled@1",
            "stubborn-again:slept@61",
            "group(error:x)@61 requests:0"
        ]
    );
}

#[test]
fn an_error_raised_in_the_cleanup_of_a_child_comes_out_too() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            for _ in 0..3 {
                group.create_task(child(trace.clone(), "c", 60, 0, Some("cleanup")))?;
            }
            group.create_task(fail_after(1, "x"))?;
            nap(60).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines[3..],
        ["group(error:x error:cleanup error:cleanup error:cleanup)@1 requests:0"]
    );
}

#[test]
fn a_child_that_the_body_awaits_fails_once() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async { group.create_task(fail_after(1, "x"))?.await };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    // The body is interrupted before it sees the error, as in asyncio.
    assert_eq!(lines, ["group(error:x)@1 requests:0"]);
}

#[test]
fn a_child_that_the_body_awaits_is_cancelled_which_ends_the_body_cancelled() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            let b = group.create_task(child(trace.clone(), "b", 60, 0, None))?;
            let cancelled = b.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel();
            });
            b.await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["b:cancelled@1", "a:cancelled@1", "cancelled@1 requests:0"]
    );
}

#[test]
fn a_body_that_raises_a_cancellation_by_itself_cancels_the_children_and_passes_it_on() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            yields(1).await?;
            Err::<(), Exception>(CancelledError::new().into())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@0", "cancelled@0 requests:0"]);
}

#[test]
fn an_eager_child_that_fails_at_once_interrupts_the_body_at_its_next_wait() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let builder = this_loop().task_builder().eager_start(true);
            let failed = async { Err::<(), _>(Boom("eager").into()) };
            assert!(group.create_task_with(builder, failed)?.done());
            assert!(group.create_task(async { Ok(()) }).is_err(), "it shuts down");
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@0", "group(error:eager)@0 requests:0"]);
}

#[test]
fn failures_are_neither_reported_by_the_loop_nor_lost() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(async {
        let group = TaskGroup::new();
        let body = async {
            drop(group.create_task(fail_after(1, "one"))?);
            drop(group.create_task(fail_after(1, "two"))?);
            let kept = group.create_task(fail_after(1, "three"))?;
            nap(60).await?;
            kept.await
        };
        group.run(body).await
    });
    let exception = event_loop.run_until_complete(task).unwrap_err();
    assert_eq!(word(&exception), "group(error:one error:two error:three)");
    drop(exception);
    assert_eq!(reports.take(), [""; 0]);
}

#[test]
fn a_group_error_that_nobody_looks_at_is_reported_once() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(async {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "one"))?;
            Ok(())
        };
        group.run(body).await
    });
    let main = async move {
        nap(5).await?;
        drop(task);
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
    let reported = reports.take();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("never retrieved") && reported[0].contains("error:one"));
}

#[test]
fn a_group_s_failure_does_not_deliver_a_cancellation_again_that_was_used_up_before() {
    // asyncio cancels the task once more here, for its count was not 0 when the group began.
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            this_task().cancel();
            let _ = noted_nap(&log, "work", 1).await;
            let group = TaskGroup::new();
            let body = async {
                group.create_task(fail_after(1, "x"))?;
                noted_nap(&log, "body", 60).await
            };
            let ended = group.run(body).await;
            push_end(&log, &ended);
            noted_nap(&log, "after", 1).await
        });
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "work:cancelled@0",
            "body:cancelled@1",
            "group(error:x)@1 requests:1",
            "after:slept@2",
            "result:none"
        ]
    );
}
