//! Timeouts in branches of one task: each interrupts its own body alone. asyncio has no branches;
//! what it would do, cancel the task, would hit them all.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, join, select, select_biased, try_join};

use miniloop::{Result, create_task, timeout, wait_for};

use crate::common::{Boom, outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop, this_task};

// brief: XT-4
#[test]
fn in_join_each_interrupts_its_own_branch_at_its_own_time() {
    let lines = play(|trace| async move {
        let (first, second) = (timeout(secs(1)), timeout(secs(3)));
        let (a, b, c) = join!(
            first.run(noted_nap(&trace, "a", 60)),
            second.run(noted_nap(&trace, "b", 60)),
            noted_nap(&trace, "c", 5),
        );
        for ended in [a, b, c] {
            trace.push(outcome(async { ended }).await);
        }
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "b:cancelled@3",
            "c:slept@5",
            "timeout",
            "timeout",
            "result:none"
        ]
    );
}

#[test]
fn in_join_two_that_expire_in_one_tick_raise_both() {
    let lines = play(|trace| async move {
        let (a, b, c) = join!(
            timeout(secs(2)).run(noted_nap(&trace, "a", 60)),
            noted_nap(&trace, "b", 2),
            timeout(secs(2)).run(noted_nap(&trace, "c", 60)),
        );
        for ended in [a, b, c] {
            trace.push(outcome(async { ended }).await);
        }
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@2",
            "b:slept@2",
            "c:cancelled@2",
            "timeout",
            "result:none",
            "timeout"
        ]
    );
}

#[test]
fn a_timeout_of_zero_in_a_branch_does_not_touch_the_others() {
    let lines = play(|trace| async move {
        let (a, b) = join!(
            timeout(secs(0)).run(noted_nap(&trace, "a", 60)),
            noted_nap(&trace, "b", 1),
        );
        trace.push(format!("{} {}", word(&a.unwrap_err()), b.is_ok()));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@0", "b:slept@1", "timeout true"]);
}

#[test]
fn a_timeout_around_a_join_interrupts_every_branch() {
    let lines = play(|trace| async move {
        let both = async {
            let (a, b) = join!(noted_nap(&trace, "a", 60), noted_nap(&trace, "b", 60));
            a.and(b)
        };
        trace.push(outcome(timeout(secs(1)).run(both)).await);
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "b:cancelled@1", "timeout"]);
}

#[test]
fn a_timeout_around_a_join_and_one_in_a_branch_expire_together() {
    let lines = play(|trace| async move {
        let inner = timeout(secs(1));
        let both = async {
            let (a, b) = join!(inner.run(noted_nap(&trace, "a", 60)), noted_nap(&trace, "b", 60));
            trace.push(word(a.as_ref().unwrap_err()));
            a.and(b)
        };
        trace.push(outcome(timeout(secs(1)).run(both)).await);
        assert!(inner.expired());
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "b:cancelled@1", "cancelled", "timeout"]);
}

#[test]
fn in_a_branch_that_waits_for_something_foreign_the_body_is_dropped() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let (a, b) = join!(
            limit.run(std::future::pending::<Result<()>>()),
            noted_nap(&trace, "b", 3),
        );
        trace.push(format!("{} {}", word(&a.unwrap_err()), b.is_ok()));
        Ok(())
    });
    assert_eq!(lines, ["b:slept@3", "timeout true"]);
}

#[test]
fn the_branch_that_times_out_ends_a_select_and_a_try_join() {
    let lines = play(|trace| async move {
        {
            let mut limited = pin!(timeout(secs(1)).run(noted_nap(&trace, "a", 60)).fuse());
            let mut long = pin!(noted_nap(&trace, "b", 60).fuse());
            select! {
                ended = limited => trace.push(outcome(async { ended }).await),
                _ = long => unreachable!("it is the longer one"),
            }
        }
        let both = async {
            try_join!(
                timeout(secs(1)).run(noted_nap(&trace, "c", 60)),
                noted_nap(&trace, "d", 60),
            )
            .map(|_| ())
        };
        trace.push(format!("{}@{}", outcome(both).await, now()));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "timeout", "c:cancelled@2", "timeout@2"]);
}

#[test]
fn in_futures_unordered_each_times_out_by_itself() {
    let lines = play(|trace| async move {
        let mut all: FuturesUnordered<_> = [3_u64, 1, 2]
            .into_iter()
            .map(|seconds| {
                let trace = &trace;
                async move {
                    let name = ["", "one", "two", "three"][seconds as usize];
                    timeout(secs(seconds)).run(noted_nap(trace, name, 60)).await
                }
            })
            .collect();
        while let Some(ended) = all.next().await {
            trace.push(format!("{}@{}", word(&ended.unwrap_err()), now()));
        }
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "one:cancelled@1",
            "timeout@1",
            "two:cancelled@2",
            "timeout@2",
            "three:cancelled@3",
            "timeout@3"
        ]
    );
}

#[test]
fn in_futures_unordered_one_that_waits_for_something_foreign_is_dropped() {
    let lines = play(|trace| async move {
        let limited = |seconds| timeout(secs(seconds)).run(std::future::pending::<Result<()>>());
        let mut all: FuturesUnordered<_> = [2, 1].into_iter().map(limited).collect();
        while let Some(ended) = all.next().await {
            trace.push(format!("{}@{}", word(&ended.unwrap_err()), now()));
        }
        Ok(())
    });
    assert_eq!(lines, ["timeout@1", "timeout@2"]);
}

#[test]
fn a_thousand_in_futures_unordered_expire_in_one_tick() {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    play(|_| async move {
        let mut all: FuturesUnordered<_> = (0..1000)
            .map(|number| {
                let seconds = if number % 2 == 0 { 60 } else { 0 };
                async move { (number, timeout(secs(1)).run(nap(seconds)).await) }
            })
            .collect();
        while let Some((number, ended)) = all.next().await {
            assert_eq!(ended.is_ok(), number % 2 == 1);
            counted.set(counted.get() + 1);
        }
        assert_eq!(now(), "1");
        Ok(())
    });
    assert_eq!(count.get(), 1000);
}

#[test]
fn a_cancellation_of_the_task_reaches_every_branch_and_beats_their_timeouts() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let (a, b) = join!(
                timeout(secs(2)).run(noted_nap(&log, "a", 60)),
                timeout(secs(3)).run(noted_nap(&log, "b", 60)),
            );
            for ended in [&a, &b] {
                log.push(word(ended.as_ref().unwrap_err()));
            }
            a.and(b)
        });
        yields(1).await?;
        task.cancel();
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@0",
            "b:cancelled@0",
            "cancelled",
            "cancelled",
            "cancelled"
        ]
    );
}

#[test]
fn an_expiry_in_one_branch_while_another_swallows_a_cancellation_of_the_task() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let swallowing = async {
                let _ = noted_nap(&log, "a", 60).await;
                noted_nap(&log, "a-again", 5).await
            };
            let limited = async {
                nap(1).await.unwrap_err();
                this_task().uncancel();
                timeout(secs(2)).run(noted_nap(&log, "b", 60)).await
            };
            let (a, b) = join!(swallowing, limited);
            log.push(format!("{} {}", a.is_ok(), word(&b.unwrap_err())));
            Ok(())
        });
        yields(1).await?;
        task.cancel();
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@0",
            "b:cancelled@2",
            "a-again:slept@5",
            "true timeout",
            "result:none"
        ]
    );
}

#[test]
fn wait_for_in_branches_cancels_its_own_only() {
    let lines = play(|trace| async move {
        let (log, other) = (trace.clone(), trace.clone());
        let (a, b) = join!(
            wait_for(async move { noted_nap(&log, "a", 60).await }, secs(1)),
            wait_for(async move { noted_nap(&other, "b", 2).await }, secs(5)),
        );
        trace.push(format!("{} {}", word(&a.unwrap_err()), b.is_ok()));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "b:slept@2", "timeout true"]);
}

#[test]
fn a_future_that_two_branches_await_is_cancelled_for_both_by_the_timeout_of_one() {
    // As `cancel` on a task does to a plain future that others wait for.
    let lines = play(|trace| async move {
        let shared = this_loop().create_future::<()>();
        let (a, b) = join!(timeout(secs(1)).run(shared.clone()), outcome(shared.clone()),);
        trace.push(format!("{} {b}", word(&a.unwrap_err())));
        Ok(())
    });
    assert_eq!(lines, ["timeout cancelled"]);
}

#[test]
fn an_error_in_one_branch_comes_out_beside_the_timeout_of_another() {
    let lines = play(|trace| async move {
        let failing = async {
            nap(1).await?;
            Err::<(), _>(Boom("b").into())
        };
        let (a, b) = join!(
            timeout(secs(1)).run(noted_nap(&trace, "a", 60)),
            timeout(secs(1)).run(failing),
        );
        trace.push(format!("{} {}", word(&a.unwrap_err()), word(&b.unwrap_err())));
        Ok(())
    });
    // Their own sleep was due in the same tick as their timeouts, which are older.
    assert_eq!(lines, ["a:cancelled@1", "timeout timeout"]);
}

#[test]
fn a_branch_polled_after_one_that_ended_still_gets_its_own_interruption() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let mut limited = pin!(limit.run(noted_nap(&trace, "a", 60)).fuse());
        let mut slept = pin!(nap(1).fuse());
        // Both are due in one tick; the second round finds the other one.
        let mut ended = Vec::new();
        for _ in 0..2 {
            select_biased! {
                slept = slept => ended.push(outcome(async { slept }).await),
                limited = limited => ended.push(outcome(async { limited }).await),
            }
        }
        trace.push(ended.join(" "));
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "result:none timeout"]);
}
