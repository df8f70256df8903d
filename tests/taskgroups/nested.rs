//! Groups in groups: each cancels its own, and the errors keep the nesting.

use miniloop::{Result, TaskGroup, all_tasks, create_task, yield_now};

use crate::common::{Trace, outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests};
use crate::{child, fail_after, push_end};

#[test]
fn an_error_in_the_outer_group_cancels_the_inner_one_and_its_tasks() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            outer.create_task(fail_after(1, "outer"))?;
            let body = async {
                inner.create_task(child(trace.clone(), "inner", 60, 2, None))?;
                noted_nap(&trace, "body", 60).await
            };
            inner.run(body).await.inspect_err(|exception| {
                trace.push(format!("inner:{} requests:{}", word(exception), requests()));
            })
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "inner:cancelled@1",
            "inner-cleanup:slept@3",
            "inner:cancelled requests:1",
            "group(error:outer)@3 requests:0"
        ]
    );
}

#[test]
fn an_error_in_the_inner_group_comes_out_of_the_outer_one_as_a_group_in_a_group() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            outer.create_task(child(trace.clone(), "outer", 60, 0, None))?;
            let body = async {
                inner.create_task(fail_after(1, "inner"))?;
                Ok(())
            };
            inner.run(body).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["outer:cancelled@1", "group(group(error:inner))@1 requests:0"]
    );
}

#[test]
fn an_error_in_the_inner_cleanup_for_the_outer_error_comes_beside_it() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            outer.create_task(fail_after(1, "outer"))?;
            let body = async {
                inner.create_task(child(trace.clone(), "inner", 60, 2, Some("cleanup")))?;
                noted_nap(&trace, "body", 60).await
            };
            inner.run(body).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines[3..],
        ["group(error:outer group(error:cleanup))@3 requests:0"]
    );
}

// brief: XT-18
#[test]
fn both_fail_in_one_tick_in_either_order() {
    for outer_first in [true, false] {
        let lines = play(|trace| async move {
            let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
            let body = async {
                if outer_first {
                    outer.create_task(fail_after(1, "outer"))?;
                }
                let body = async {
                    inner.create_task(fail_after(1, "inner"))?;
                    if !outer_first {
                        outer.create_task(fail_after(1, "outer"))?;
                    }
                    Ok(())
                };
                inner.run(body).await
            };
            let ended = outer.run(body).await;
            push_end(&trace, &ended);
            Ok(())
        });
        assert_eq!(lines, ["group(error:outer group(error:inner))@1 requests:0"]);
    }
}

#[test]
fn both_fail_in_one_tick_and_the_inner_error_is_handled() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            let body = async {
                inner.create_task(fail_after(0, "inner"))?;
                outer.create_task(fail_after(0, "outer"))?;
                Ok(())
            };
            let ended = inner.run(body).await;
            push_end(&trace, &ended);
            // The outer group's interruption is still to come.
            noted_nap(&trace, "between", 5).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "group(error:inner)@0 requests:1",
            "between:cancelled@0",
            "group(error:outer)@0 requests:0",
            "after:slept@1"
        ]
    );
}

/// What becomes of a body that yields after an inner group has failed together with the outer one.
fn yielding_after_the_inner_error(yields: impl AsyncFn() -> Result<()> + 'static) -> Vec<String> {
    play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            let body = async {
                inner.create_task(fail_after(0, "inner"))?;
                outer.create_task(fail_after(0, "outer"))?;
                Ok(())
            };
            let ended = inner.run(body).await;
            push_end(&trace, &ended);
            // A bare yield, which has woken the task already.
            let yielded = yields().await;
            let how = yielded.as_ref().map_or_else(word, |()| "slept".into());
            trace.push(format!("yield:{how}@{}", now()));
            yielded
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    })
}

#[test]
fn both_fail_in_one_tick_and_the_body_yields_after_the_inner_error() {
    let expected = [
        "group(error:inner)@0 requests:1",
        "yield:cancelled@0",
        "group(error:outer)@0 requests:0",
    ];
    assert_eq!(yielding_after_the_inner_error(async || nap(0).await), expected);
    assert_eq!(
        yielding_after_the_inner_error(async || yield_now().await),
        expected
    );
}

#[test]
fn an_outside_cancellation_goes_through_both_and_cancels_the_tasks_of_both() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
            let body = async {
                outer.create_task(child(log.clone(), "outer", 60, 3, None))?;
                let body = async {
                    inner.create_task(child(log.clone(), "inner", 60, 1, None))?;
                    Ok(())
                };
                inner.run(body).await
            };
            let ended = outer.run(body).await;
            push_end(&log, &ended);
            ended
        });
        yields(3).await?;
        task.cancel();
        trace.push(format!("{}@{}", outcome(task).await, now()));
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "inner:cancelled@0",
            "inner-cleanup:slept@1",
            "outer:cancelled@1",
            "outer-cleanup:slept@4",
            "cancelled@4 requests:1",
            "cancelled@4"
        ]
    );
}

#[test]
fn an_outside_cancellation_with_failing_cleanups_comes_out_as_their_errors_and_again_later() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
            let body = async {
                outer.create_task(nap(60))?;
                let body = async {
                    for _ in 0..2 {
                        inner.create_task(child(log.clone(), "c", 60, 0, Some("cleanup")))?;
                    }
                    nap(60).await
                };
                inner.run(body).await
            };
            let ended = outer.run(body).await;
            push_end(&log, &ended);
            noted_nap(&log, "after", 5).await
        });
        yields(3).await?;
        task.cancel();
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines[2..],
        [
            "group(group(error:cleanup error:cleanup))@0 requests:1",
            "after:cancelled@0",
            "cancelled"
        ]
    );
}

#[test]
fn a_child_runs_a_group_of_its_own_which_the_outer_group_waits_for() {
    async fn tree(trace: Trace, depth: u64) -> Result<()> {
        let group = TaskGroup::new();
        let body = async {
            for _ in 0..depth.min(1) * 2 {
                group.create_task(Box::pin(tree(trace.clone(), depth - 1)))?;
            }
            Ok(())
        };
        group.run(body).await?;
        nap(1).await?;
        trace.push(depth.to_string());
        Ok(())
    }
    let lines = play(|trace| async move {
        tree(trace.clone(), 3).await?;
        trace.push(format!("@{}", now()));
        Ok(())
    });
    assert_eq!(lines.join(" "), "0 0 0 0 0 0 0 0 1 1 1 1 2 2 3 @4");
}

#[test]
fn a_failure_deep_in_a_tree_of_groups_cancels_all_of_it() {
    async fn tree(depth: u64, failing: bool) -> Result<()> {
        match depth {
            0 if failing => return fail_after(1, "leaf").await,
            0 => return nap(60).await,
            _ => {}
        }
        let group = TaskGroup::new();
        let body = async {
            for branch in [false, true] {
                group.create_task(Box::pin(tree(depth - 1, failing && branch)))?;
            }
            nap(60).await
        };
        group.run(body).await
    }
    play(|_| async {
        let exception = tree(6, true).await.unwrap_err();
        let depth = word(&exception).matches("group(").count();
        assert_eq!((depth, now()), (6, "1".into()));
        assert_eq!(all_tasks().len(), 1);
        Ok(())
    });
}

#[test]
fn a_task_of_the_outer_group_made_in_the_inner_body_is_not_the_inner_one_s() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            let body = async {
                outer.create_task(child(trace.clone(), "outer", 5, 0, None))?;
                inner.create_task(fail_after(1, "inner"))?;
                noted_nap(&trace, "body", 60).await
            };
            let ended = inner.run(body).await;
            push_end(&trace, &ended);
            Ok(())
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "group(error:inner)@1 requests:0",
            "outer:slept@5",
            "value@5 requests:0"
        ]
    );
}
