//! Groups in branches of one task: a failure or a stop interrupts the group's own body alone.

use std::pin::pin;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, join, select_biased};

use miniloop::{Result, TaskGroup, create_task, timeout};

use crate::common::{Trace, outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::{child, fail_after, push_end};

// brief: XT-18
#[test]
fn a_failure_in_one_group_does_not_touch_the_branch_beside_it() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            noted_nap(&trace, "body", 60).await
        };
        let (ended, beside) = join!(group.run(body), noted_nap(&trace, "beside", 3));
        push_end(&trace, &ended);
        beside
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "beside:slept@3",
            "group(error:x)@3 requests:0"
        ]
    );
}

#[test]
fn two_groups_side_by_side_fail_each_for_itself() {
    let lines = play(|trace| async move {
        let (one, two) = (TaskGroup::new(), TaskGroup::new());
        let first = async {
            one.create_task(fail_after(1, "one"))?;
            one.create_task(child(trace.clone(), "one-sibling", 60, 0, None))?;
            noted_nap(&trace, "one-body", 60).await
        };
        let second = async {
            two.create_task(fail_after(2, "two"))?;
            two.create_task(child(trace.clone(), "two-sibling", 60, 0, None))?;
            noted_nap(&trace, "two-body", 60).await
        };
        let (one, two) = join!(one.run(first), two.run(second));
        trace.push(format!("{} {}", word(&one.unwrap_err()), word(&two.unwrap_err())));
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "one-sibling:cancelled@1",
            "one-body:cancelled@1",
            "two-sibling:cancelled@2",
            "two-body:cancelled@2",
            "group(error:one) group(error:two)"
        ]
    );
}

#[test]
fn two_groups_side_by_side_fail_in_one_tick() {
    let lines = play(|trace| async move {
        let (one, two) = (TaskGroup::new(), TaskGroup::new());
        let first = async {
            one.create_task(fail_after(1, "one"))?;
            nap(60).await
        };
        let second = async {
            two.create_task(fail_after(1, "two"))?;
            Ok(())
        };
        let (one, two) = join!(one.run(first), two.run(second));
        trace.push(format!("{} {}", word(&one.unwrap_err()), word(&two.unwrap_err())));
        assert_eq!(requests(), 0);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(lines, ["group(error:one) group(error:two)", "after:slept@2"]);
}

#[test]
fn a_stop_of_one_group_does_not_touch_the_other() {
    let lines = play(|trace| async move {
        let (one, two) = (TaskGroup::new(), TaskGroup::new());
        let first = async {
            let stop = one.clone();
            this_loop().call_later(secs(1), move || stop.cancel());
            nap(60).await
        };
        let second = async {
            two.create_task(child(trace.clone(), "two", 3, 0, None))?;
            Ok("value")
        };
        let (one, two) = join!(one.run_optional(first), two.run(second));
        trace.push(format!("{:?} {}", one?, two?));
        Ok(())
    });
    assert_eq!(lines, ["two:slept@3", "None value"]);
}

#[test]
fn a_failure_while_the_group_only_waits_in_a_branch() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            group.create_task(child(trace.clone(), "sibling", 60, 2, None))?;
            Ok(())
        };
        let (ended, beside) = join!(group.run(body), noted_nap(&trace, "beside", 60));
        trace.push(word(&ended.unwrap_err()));
        beside
    });
    assert_eq!(
        lines,
        [
            "sibling:cancelled@1",
            "sibling-cleanup:slept@3",
            "beside:slept@60",
            "group(error:x)"
        ]
    );
}

#[test]
fn a_cancellation_of_the_task_reaches_both_branches() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(child(log.clone(), "a", 60, 2, None))?;
                Ok(())
            };
            let (ended, beside) = join!(group.run(body), noted_nap(&log, "beside", 60));
            push_end(&log, &ended);
            ended.and(beside)
        });
        yields(3).await?;
        task.cancel();
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "beside:cancelled@0",
            "a:cancelled@0",
            "a-cleanup:slept@2",
            "cancelled@2 requests:1",
            "cancelled"
        ]
    );
}

#[test]
fn in_futures_unordered_each_group_ends_by_itself() {
    let lines = play(|trace| async move {
        let mut all: FuturesUnordered<_> = (1..=3_u64)
            .rev()
            .map(|seconds| async move {
                let group = TaskGroup::new();
                let body = async {
                    group.create_task(fail_after(seconds, "x"))?;
                    nap(60).await
                };
                (seconds, group.run(body).await)
            })
            .collect();
        while let Some((seconds, ended)) = all.next().await {
            trace.push(format!("{seconds}:{}@{}", word(&ended.unwrap_err()), now()));
        }
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(
        lines,
        ["1:group(error:x)@1", "2:group(error:x)@2", "3:group(error:x)@3"]
    );
}

#[test]
fn the_group_that_lost_a_select_has_its_children_cancelled() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            Ok(())
        };
        {
            let mut grouped = pin!(group.run(body).fuse());
            let mut short = pin!(nap(1).fuse());
            select_biased! {
                _ = grouped => unreachable!("it takes longer"),
                slept = short => slept?,
            }
        }
        trace.push(now());
        noted_nap(&trace, "main", 1).await
    });
    assert_eq!(lines, ["1", "a:cancelled@1", "main:slept@2"]);
}

/// A group whose child fails when it is cancelled, a second later.
async fn failing_group(trace: Trace) -> Result<()> {
    let group = TaskGroup::new();
    let body = async {
        group.create_task(child(trace, "child", 60, 1, Some("x")))?;
        nap(60).await
    };
    group.run(body).await
}

#[test]
fn one_request_interrupts_the_branch_beside_a_failing_group_once() {
    for by_timeout in [false, true] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let branches = async move {
                let beside = child(log.clone(), "beside", 60, 3, None);
                let (group, beside) = join!(failing_group(log.clone()), beside);
                log.push(word(&group.unwrap_err()));
                beside
            };
            if by_timeout {
                trace.push(outcome(timeout(secs(1)).run(branches)).await);
            } else {
                let task = create_task(branches);
                nap(1).await?;
                task.cancel();
                trace.push(outcome(task).await);
            }
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "beside:cancelled@1",
                "child:cancelled@1",
                "child-cleanup:slept@2",
                "beside-cleanup:slept@4",
                "group(error:x)",
                if by_timeout { "timeout" } else { "cancelled" },
            ],
            "by a timeout: {by_timeout}"
        );
    }
}
