//! The task that runs the group is cancelled, at each moment.

use miniloop::{CancelledError, Result, Task, TaskGroup, create_task, gather};

use crate::common::{Boom, Trace, outcome, ticks, yields};
use crate::play::{nap, noted_nap, now, play, secs, this_loop, this_task};
use crate::support::raised;
use crate::{child, fail_after, push_end};

fn cancel_after(seconds: u64, task: &Task<()>) {
    let cancelled = task.clone();
    this_loop().call_later(secs(seconds), move || {
        assert!(cancelled.cancel());
    });
}

/// A task that runs `body` in a group, says what came out, and then takes a nap, unless it was a
/// cancellation.
fn owner<F>(trace: &Trace, body: impl FnOnce(Trace, TaskGroup) -> F + 'static) -> Task<()>
where
    F: Future<Output = Result<()>> + 'static,
{
    let trace = trace.clone();
    create_task(async move {
        let group = TaskGroup::new();
        let ended = group.run(body(trace.clone(), group.clone())).await;
        push_end(&trace, &ended);
        match ended {
            Err(exception) if exception.is_cancelled() => Err(exception),
            _ => noted_nap(&trace, "after", 5).await,
        }
    })
}

async fn push_outcome(trace: &Trace, task: Task<()>) {
    let ended = outcome(task.clone()).await;
    trace.push(format!("{ended}@{} requests:{}", now(), task.cancelling()));
}

/// Plays an [`owner`] that is cancelled after so many seconds each.
fn play_cancelled<F>(after: &'static [u64], body: impl FnOnce(Trace, TaskGroup) -> F + 'static) -> Vec<String>
where
    F: Future<Output = Result<()>> + 'static,
{
    play(|trace| async move {
        let task = owner(&trace, body);
        yields(3).await?;
        for seconds in after {
            cancel_after(*seconds, &task);
        }
        push_outcome(&trace, task).await;
        Ok(())
    })
}

// brief: XT-18
#[test]
fn in_the_body_it_interrupts_that_first_and_then_the_children() {
    let lines = play_cancelled(&[1], |trace, group| async move {
        group.create_task(child(trace.clone(), "a", 60, 2, None))?;
        child(trace, "body", 60, 1, None).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "body-cleanup:slept@2",
            "a:cancelled@2",
            "a-cleanup:slept@4",
            "cancelled@4 requests:1",
            "cancelled@4 requests:1"
        ]
    );
}

#[test]
fn while_it_waits_for_the_children_they_are_cancelled_once_however_often_it_comes() {
    let lines = play_cancelled(&[1, 3, 4], |trace, group| async move {
        group.create_task(child(trace, "a", 60, 5, None))?;
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "a-cleanup:slept@6",
            "cancelled@6 requests:3",
            "cancelled@6 requests:3"
        ]
    );
}

#[test]
fn the_ticks_of_a_cancellation_are_asyncio_s() {
    let lines = play(|trace| async move {
        let (group, log) = (TaskGroup::new(), trace.clone());
        let task = create_task(async move {
            let body = async {
                group.create_task(child(log, "sibling", 60, 0, None))?;
                Ok(())
            };
            group.run(body).await
        });
        yields(3).await?;
        ticks(&this_loop(), &trace, 8);
        task.cancel();
        let done = trace.mark("done");
        task.add_done_callback(move |_| done());
        yields(8).await
    });
    let expected = "tick1 tick2 sibling:cancelled@0 tick3 tick4 tick5 done tick6 tick7 tick8";
    assert_eq!(lines.join(" "), expected);
}

#[test]
fn swallowed_by_the_body_it_leaves_the_children_alone() {
    let lines = play_cancelled(&[1], |trace, group| async move {
        group.create_task(child(trace.clone(), "a", 10, 0, None))?;
        let _ = noted_nap(&trace, "body", 60).await;
        trace.push("went on");
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "went on",
            "a:slept@10",
            "value@10 requests:1",
            "after:slept@15",
            "result:none@15 requests:1"
        ]
    );
}

#[test]
fn while_a_child_s_cleanup_for_it_fails_the_error_comes_out_and_it_comes_again() {
    let lines = play_cancelled(&[3], |trace, group| async move {
        group.create_task(child(trace.clone(), "a", 60, 5, Some("cleanup")))?;
        noted_nap(&trace, "body", 60).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@3",
            "a:cancelled@3",
            "a-cleanup:slept@8",
            "group(error:cleanup)@8 requests:1",
            "after:cancelled@8",
            "cancelled@8 requests:1"
        ]
    );
}

#[test]
fn after_a_child_has_failed_it_is_not_lost() {
    let lines = play_cancelled(&[3], |trace, group| async move {
        group.create_task(fail_after(1, "x"))?;
        group.create_task(child(trace.clone(), "a", 60, 5, None))?;
        noted_nap(&trace, "body", 60).await
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "body:cancelled@1",
            "a-cleanup:slept@6",
            "group(error:x)@6 requests:1",
            "after:cancelled@6",
            "cancelled@6 requests:1"
        ]
    );
}

#[test]
fn after_a_child_has_failed_and_while_the_body_cleans_up_it_is_not_lost() {
    let lines = play_cancelled(&[3], |trace, group| async move {
        group.create_task(fail_after(1, "x"))?;
        child(trace, "body", 60, 5, None).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "body-cleanup:cancelled@3",
            "group(error:x)@3 requests:1",
            "after:cancelled@3",
            "cancelled@3 requests:1"
        ]
    );
}

// brief: XT-18
#[test]
fn in_the_tick_in_which_a_child_fails_it_is_not_lost() {
    let lines = play_cancelled(&[1], |trace, group| async move {
        group.create_task(fail_after(1, "x"))?;
        group.create_task(child(trace.clone(), "a", 60, 0, None))?;
        noted_nap(&trace, "body", 60).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "a:cancelled@1",
            "group(error:x)@1 requests:1",
            "after:cancelled@1",
            "cancelled@1 requests:1"
        ]
    );
}

#[test]
fn in_the_tick_before_a_child_would_fail_that_is_cancelled_before_it_can() {
    let lines = play(|trace| async move {
        let task = owner(&trace, |trace, group| async move {
            group.create_task(fail_after(1, "x"))?;
            noted_nap(&trace, "body", 60).await
        });
        // This timer is older than the child's.
        cancel_after(1, &task);
        push_outcome(&trace, task).await;
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "cancelled@1 requests:1",
            "cancelled@1 requests:1"
        ]
    );
}

#[test]
fn replaced_by_an_error_of_the_body_it_comes_again_at_the_next_await() {
    let lines = play_cancelled(&[1], |trace, _| async move {
        let slept = noted_nap(&trace, "body", 60).await;
        slept.map_err(|_| Boom("body").into())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "group(error:body)@1 requests:1",
            "after:cancelled@1",
            "cancelled@1 requests:1"
        ]
    );
}

#[test]
fn swallowed_by_the_body_it_comes_again_if_a_child_fails_later() {
    let lines = play_cancelled(&[1], |trace, group| async move {
        group.create_task(fail_after(3, "x"))?;
        let _ = noted_nap(&trace, "body", 60).await;
        noted_nap(&trace, "again", 60).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "again:cancelled@3",
            "group(error:x)@3 requests:1",
            "after:cancelled@3",
            "cancelled@3 requests:1"
        ]
    );
}

#[test]
fn pending_when_the_group_is_entered_it_comes_at_the_first_wait() {
    for body_waits in [true, false] {
        let lines = play(|trace| async move {
            let task = owner(&trace, move |trace, group| async move {
                this_task().cancel();
                group.create_task(child(trace.clone(), "a", 60, 0, None))?;
                trace.push("body");
                if body_waits { nap(60).await } else { Ok(()) }
            });
            push_outcome(&trace, task).await;
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "body",
                "a:cancelled@0",
                "cancelled@0 requests:1",
                "cancelled@0 requests:1"
            ]
        );
    }
}

#[test]
fn its_message_goes_through_the_group() {
    play(|_| async {
        for ends_at_once in [true, false] {
            let task = create_task(async move {
                let group = TaskGroup::new();
                let body = async {
                    group.create_task(nap(60))?;
                    if ends_at_once { Ok(()) } else { nap(60).await }
                };
                group.run(body).await
            });
            yields(3).await?;
            task.cancel_with("why");
            assert_eq!(raised::<CancelledError, _>(task.await).message(), Some("why"));
        }
        Ok(())
    });
}

#[test]
fn the_children_are_cancelled_in_the_order_they_were_made() {
    let lines = play_cancelled(&[1], |trace, group| async move {
        for name in ["a", "b", "c", "d", "e"] {
            group.create_task(child(trace.clone(), name, 60, 0, None))?;
        }
        Ok(())
    });
    let names: Vec<_> = lines[..5].iter().map(|line| &line[..1]).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_body_that_waits_for_something_foreign_is_dropped_with_its_task_and_the_children_cancelled() {
    let lines = play(|trace| async move {
        let task = owner(&trace, |trace, group| async move {
            group.create_task(child(trace, "a", 60, 2, None))?;
            std::future::pending().await
        });
        cancel_after(1, &task);
        push_outcome(&trace, task).await;
        nap(10).await
    });
    // Nothing waits for the child then, as where the group is dropped in the middle.
    assert_eq!(
        lines,
        ["a:cancelled@1", "cancelled@1 requests:1", "a-cleanup:slept@3"]
    );
}

#[test]
fn pending_when_the_group_is_entered_it_comes_again_after_errors_whatever_brought_it() {
    for through in ["a sleep", "a task", "a gather"] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                let inner = create_task(nap(60));
                let unused = inner.clone();
                yields(2).await?;
                let group = TaskGroup::new();
                this_task().cancel();
                let body = async {
                    group.create_task(child(log.clone(), "a", 60, 0, Some("x")))?;
                    match through {
                        "a sleep" => nap(60).await,
                        "a task" => inner.await,
                        _ => gather([inner]).await.map(drop),
                    }
                };
                let ended = group.run(body).await;
                push_end(&log, &ended);
                // Where it was not awaited.
                unused.cancel();
                noted_nap(&log, "after", 5).await
            });
            trace.push(outcome(task).await);
            Ok(())
        });
        let expected = [
            "a:cancelled@0",
            "group(error:x)@0 requests:1",
            "after:cancelled@0",
            "cancelled",
        ];
        assert_eq!(lines, expected, "through {through}");
    }
}

#[test]
fn it_comes_again_to_the_owner_and_not_to_an_eager_task_made_before_the_next_await() {
    play(|trace| async move {
        let log = trace.clone();
        let owner = create_task(async move {
            let group = TaskGroup::new();
            let failed = group.run(async {
                group.create_task(async {
                    let _ = nap(60).await;
                    Err::<(), _>(Boom("cleanup").into())
                })?;
                nap(60).await
            });
            assert!(failed.await.is_err());
            let eager = this_loop().task_builder().eager_start(true);
            let eager = eager.create_task(nap(1));
            log.push(outcome(nap(60)).await);
            log.push(outcome(eager).await);
            Ok(())
        });
        nap(1).await?;
        owner.cancel();
        owner.await?;
        assert_eq!(trace.lines(), ["cancelled", "result:none"]);
        Ok(())
    });
}
