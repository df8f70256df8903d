//! The task is cancelled as a whole, before, after, or in the tick in which its timeout expires.

use std::time::Duration;

use miniloop::{CancelledError, LoopHandle, Result, Task, create_task, gather, shield, timeout};

use crate::common::{Trace, outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop, this_task};
use crate::support::raised;

/// When the cancellation comes; the timeout expires after 2 s.
#[derive(Clone, Copy, Debug)]
enum When {
    After(u64),
    InTheTickBefore,
    InTheTickAfter,
}

/// What the body does about an interruption.
#[derive(Clone, Copy, Debug)]
struct Body {
    waits_again: bool,
    swallows: bool,
}

fn victim(trace: Trace, does: Body) -> Task<()> {
    create_task(async move {
        let limit = timeout(secs(2));
        let body = async {
            let Err(exception) = noted_nap(&trace, "body", 60).await else {
                return Ok(());
            };
            trace.push(format!("in:{}:{}", requests(), limit.expired()));
            if does.waits_again {
                noted_nap(&trace, "again", 10).await?;
            }
            if does.swallows { Ok(()) } else { Err(exception) }
        };
        let ended = limit.run(body).await;
        let how = ended.as_ref().map_or_else(word, |()| "value".into());
        trace.push(format!("out:{how}:{}:{}", requests(), limit.expired()));
        ended?;
        noted_nap(&trace, "after", 5).await
    })
}

fn cancel(event_loop: &LoopHandle, when: When, task: &Task<()>) {
    let cancelled = task.clone();
    let seconds = match when {
        When::After(seconds) => seconds,
        When::InTheTickBefore | When::InTheTickAfter => 2,
    };
    let cancel = move || {
        assert!(cancelled.cancel());
    };
    event_loop.call_later(secs(seconds), cancel);
}

#[track_caller]
fn check(when: When, does: Body, expected: &[&str]) {
    let lines = play(|trace| async move {
        let event_loop = this_loop();
        let task = if let When::InTheTickAfter = when {
            let task = victim(trace.clone(), does);
            yields(1).await?;
            cancel(&event_loop, when, &task);
            task
        } else {
            let task = victim(trace.clone(), does);
            // Its first step, which sets the timeout up, comes after this.
            cancel(&event_loop, when, &task);
            task
        };
        let ended = outcome(task).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(lines, expected, "cancelled {when:?}, {does:?}");
}

const PASSES_ON: Body = Body {
    waits_again: false,
    swallows: false,
};
const CLEANS_UP: Body = Body {
    waits_again: true,
    swallows: false,
};
const SWALLOWS: Body = Body {
    waits_again: false,
    swallows: true,
};
const SWALLOWS_AND_WAITS: Body = Body {
    waits_again: true,
    swallows: true,
};

#[test]
fn before_the_expiry_it_is_a_plain_cancellation() {
    let when = When::After(1);
    check(
        when,
        PASSES_ON,
        &[
            "body:cancelled@1",
            "in:1:false",
            "out:cancelled:1:false",
            "cancelled@1",
        ],
    );
    check(
        when,
        SWALLOWS,
        &[
            "body:cancelled@1",
            "in:1:false",
            "out:value:1:false",
            "after:slept@6",
            "result:none@6",
        ],
    );
}

#[test]
fn before_the_expiry_that_comes_during_the_cleanup_the_cancellation_comes_out() {
    for does in [CLEANS_UP, SWALLOWS_AND_WAITS] {
        check(
            When::After(1),
            does,
            &[
                "body:cancelled@1",
                "in:1:false",
                "again:cancelled@2",
                "out:cancelled:1:true",
                "cancelled@2",
            ],
        );
    }
}

// brief: XT-4
#[test]
fn in_the_tick_of_the_expiry_the_cancellation_wins_in_both_orders() {
    for when in [When::InTheTickBefore, When::InTheTickAfter] {
        check(
            when,
            PASSES_ON,
            &[
                "body:cancelled@2",
                "in:2:true",
                "out:cancelled:1:true",
                "cancelled@2",
            ],
        );
        check(
            when,
            CLEANS_UP,
            &[
                "body:cancelled@2",
                "in:2:true",
                "again:slept@12",
                "out:cancelled:1:true",
                "cancelled@12",
            ],
        );
    }
}

#[test]
fn in_the_tick_of_the_expiry_both_are_one_interruption_which_may_be_swallowed() {
    for when in [When::InTheTickBefore, When::InTheTickAfter] {
        check(
            when,
            SWALLOWS,
            &[
                "body:cancelled@2",
                "in:2:true",
                "out:value:1:true",
                "after:slept@7",
                "result:none@7",
            ],
        );
        check(
            when,
            SWALLOWS_AND_WAITS,
            &[
                "body:cancelled@2",
                "in:2:true",
                "again:slept@12",
                "out:value:1:true",
                "after:slept@17",
                "result:none@17",
            ],
        );
    }
}

#[test]
fn after_the_expiry_during_the_cleanup_the_cancellation_interrupts_that_and_comes_out() {
    for (seconds, does) in [(3, CLEANS_UP), (5, CLEANS_UP), (5, SWALLOWS_AND_WAITS)] {
        let again = format!("again:cancelled@{seconds}");
        let ended = format!("cancelled@{seconds}");
        check(
            When::After(seconds),
            does,
            &[
                "body:cancelled@2",
                "in:1:true",
                &again,
                "out:cancelled:1:true",
                &ended,
            ],
        );
    }
}

#[test]
fn after_the_timeout_is_over_the_cancellation_is_nothing_new_to_it() {
    check(
        When::After(5),
        SWALLOWS,
        &[
            "body:cancelled@2",
            "in:1:true",
            "out:value:0:true",
            "after:cancelled@5",
            "cancelled@5",
        ],
    );
}

// brief: XT-4
#[test]
fn a_cancellation_that_was_pending_before_a_timeout_of_zero_wins() {
    for delay in [Duration::ZERO, secs(1)] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                this_task().cancel_with("outside");
                let ended = timeout(delay).run(noted_nap(&log, "body", 60)).await;
                log.push(format!("requests:{}", requests()));
                ended
            });
            let error = raised::<CancelledError, _>(task.clone().await);
            assert_eq!(error.message(), Some("outside"));
            assert!(task.cancelled());
            Ok(())
        });
        assert_eq!(lines, ["body:cancelled@0", "requests:1"]);
    }
}

#[test]
fn a_cancellation_that_was_delivered_before_does_not_concern_a_later_timeout() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            this_task().cancel();
            let _ = noted_nap(&log, "work", 1).await;
            for delay in [secs(1), Duration::ZERO] {
                let limit = timeout(delay);
                let ended = outcome(limit.run(noted_nap(&log, "cleanup", 60))).await;
                log.push(format!("{ended}:{}:{}", requests(), limit.expired()));
            }
            Ok(())
        });
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "work:cancelled@0",
            "cleanup:cancelled@1",
            "timeout:1:true",
            "cleanup:cancelled@1",
            "timeout:1:true",
            "result:none"
        ]
    );
}

#[test]
fn one_that_the_body_asks_for_itself_comes_out_as_a_cancellation() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let limit = timeout(secs(10));
            let body = async {
                this_task().cancel();
                noted_nap(&log, "body", 60).await
            };
            let ended = limit.run(body).await;
            log.push(format!("{}:{}", requests(), limit.expired()));
            ended
        });
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@0", "1:false", "cancelled"]);
}

#[test]
fn a_request_taken_back_before_it_is_delivered_disturbs_no_timeout() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let body = async {
            this_task().cancel();
            assert_eq!(this_task().uncancel(), 0);
            noted_nap(&trace, "body", 60).await
        };
        let ended = outcome(limit.run(body)).await;
        trace.push(format!("{ended}:{}", requests()));
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "timeout:0"]);
}

#[test]
fn one_swallowed_between_two_timeouts_makes_the_outer_expiry_a_cancellation() {
    // asyncio's rule: there was a request since the outer one was entered, and it is still open.
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let (outer, inner) = (timeout(secs(10)), timeout(secs(5)));
            let body = async {
                let between = outcome(inner.run(noted_nap(&log, "body", 60))).await;
                log.push(format!("between:{between}:{}", requests()));
                noted_nap(&log, "after", 60).await
            };
            outer.run(body).await
        });
        cancel(&this_loop(), When::After(1), &task);
        let ended = outcome(task).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "between:cancelled:1",
            "after:cancelled@10",
            "cancelled@10"
        ]
    );
}

#[test]
fn one_swallowed_and_taken_back_leaves_the_expiry_a_timeout() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let body = async {
                let _ = noted_nap(&log, "body", 60).await;
                this_task().uncancel();
                noted_nap(&log, "after", 60).await
            };
            timeout(secs(10)).run(body).await
        });
        cancel(&this_loop(), When::After(1), &task);
        let ended = outcome(task).await;
        trace.push(format!("{ended}@{}", now()));
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "after:cancelled@10", "timeout@10"]);
}

#[test]
fn the_message_of_a_cancellation_goes_through_the_timeout() {
    play(|_| async {
        let task: Task<()> = create_task(async {
            let ended: Result<()> = timeout(secs(10)).run(std::future::pending()).await;
            ended
        });
        let waiting = create_task(async { timeout(secs(10)).run(crate::play::nap(60)).await });
        yields(1).await?;
        waiting.cancel_with("why");
        let error = raised::<CancelledError, _>(waiting.await);
        assert_eq!(error.message(), Some("why"));
        // One that waits for something foreign only is dropped as a whole.
        task.cancel_with("why");
        assert!(task.clone().await.unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn one_from_before_the_block_beats_the_timeout_whatever_brings_it_into_the_block() {
    for through in ["a sleep", "a task", "a shielded task", "a gather"] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                let inner = create_task(nap(60));
                yields(2).await?;
                this_task().cancel();
                let limit = timeout(Duration::ZERO);
                let body = async {
                    match through {
                        "a sleep" => nap(60).await,
                        "a task" => inner.await,
                        "a shielded task" => shield(inner).await,
                        _ => gather([inner]).await.map(drop),
                    }
                };
                let ended = limit.run(body).await;
                let how = ended.as_ref().map_or_else(word, |()| "value".into());
                log.push(format!("{how} requests:{}", requests()));
                ended
            });
            trace.push(outcome(task).await);
            for left in this_loop().all_tasks() {
                // The one behind the shield.
                if left.get_name() != this_task().get_name() {
                    left.cancel();
                }
            }
            yields(2).await
        });
        let expected = ["cancelled requests:1", "cancelled"];
        assert_eq!(lines, expected, "through {through}");
    }
}
