//! Timeouts in timeouts, expiring in every order: as in asyncio, tick for tick.

use miniloop::{FakeClock, Result, Timeout, timeout};

use crate::common::{Trace, outcome, virtual_loop, word};
use crate::play::{nap, noted_nap, now, play, play_on, requests, secs};

/// Runs `body` in a timeout that says what came out of it, and passes that on.
async fn telling(
    trace: &Trace,
    name: &str,
    limit: &Timeout,
    body: impl Future<Output = Result<()>>,
) -> Result<()> {
    limit.run(body).await.inspect_err(|exception| {
        trace.push(format!("{name}:{}:{}", word(exception), requests()));
    })
}

fn push_end(trace: &Trace, ended: String, limits: [&Timeout; 2]) {
    let expired = limits.map(|limit| limit.expired().to_string()).join(",");
    trace.push(format!("{ended} expired:{expired} requests:{}", requests()));
}

/// A body in two timeouts; the clock may be moved on when it has been entered.
async fn both(trace: Trace, outer: u64, inner: u64, clock: Option<FakeClock>) -> Result<()> {
    let (outer, inner) = (timeout(secs(outer)), timeout(secs(inner)));
    let body = async {
        if let Some(clock) = clock {
            clock.advance(secs(10));
        }
        noted_nap(&trace, "body", 60).await
    };
    let ended = outcome(outer.run(telling(&trace, "inner", &inner, body))).await;
    push_end(&trace, ended, [&inner, &outer]);
    Ok(())
}

// brief: XT-4
#[test]
fn two_that_come_due_while_the_loop_was_busy_interrupt_once_and_the_outer_one_raises() {
    for (outer, inner) in [(2, 3), (3, 2), (2, 2)] {
        let (event_loop, clock) = virtual_loop();
        let lines = play_on(&event_loop, |trace| both(trace, outer, inner, Some(clock)));
        assert_eq!(
            lines,
            [
                "body:cancelled@10",
                "inner:cancelled:1",
                "timeout expired:true,true requests:0"
            ]
        );
    }
}

#[test]
fn the_outer_one_alone_is_a_cancellation_to_the_inner_one() {
    assert_eq!(
        play(|trace| both(trace, 1, 3, None)),
        [
            "body:cancelled@1",
            "inner:cancelled:1",
            "timeout expired:false,true requests:0"
        ]
    );
}

#[test]
fn the_inner_one_alone_is_a_plain_timeout_error_to_the_outer_one() {
    assert_eq!(
        play(|trace| both(trace, 3, 1, None)),
        [
            "body:cancelled@1",
            "inner:timeout:0",
            "timeout expired:true,false requests:0"
        ]
    );
}

#[test]
fn three_that_expire_together_interrupt_once_and_the_outermost_raises() {
    let lines = play(|trace| async move {
        let [outer, middle, inner] = [(); 3].map(|()| timeout(secs(1)));
        let body = telling(&trace, "inner", &inner, noted_nap(&trace, "body", 60));
        let body = telling(&trace, "middle", &middle, body);
        let ended = outcome(outer.run(body)).await;
        assert!(outer.expired() && middle.expired() && inner.expired());
        push_end(&trace, ended, [&inner, &outer]);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "inner:cancelled:2",
            "middle:cancelled:1",
            "timeout expired:true,true requests:0"
        ]
    );
}

#[test]
fn one_that_expires_during_the_cleanup_for_another_interrupts_that_in_both_orders() {
    for (outer, inner) in [(1, 3), (3, 1)] {
        let lines = play(|trace| async move {
            let (outer, inner) = (timeout(secs(outer)), timeout(secs(inner)));
            let body = async {
                let slept = noted_nap(&trace, "body", 60).await;
                noted_nap(&trace, "cleanup", 10).await?;
                slept
            };
            let ended = outcome(outer.run(telling(&trace, "inner", &inner, body))).await;
            push_end(&trace, ended, [&inner, &outer]);
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "body:cancelled@1",
                "cleanup:cancelled@3",
                "inner:cancelled:1",
                "timeout expired:true,true requests:0"
            ]
        );
    }
}

// brief: XT-4
#[test]
fn one_that_is_entered_after_the_outer_one_has_expired_raises_by_itself() {
    let lines = play(|trace| async move {
        let (outer, inner) = (timeout(secs(1)), timeout(secs(2)));
        let body = async {
            let _ = noted_nap(&trace, "body", 60).await;
            telling(&trace, "inner", &inner, noted_nap(&trace, "inner-body", 60)).await
        };
        let ended = outcome(outer.run(body)).await;
        push_end(&trace, ended, [&inner, &outer]);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "inner-body:cancelled@2",
            "inner:timeout:1",
            "timeout expired:true,true requests:0"
        ]
    );
}

#[test]
fn a_timeout_around_the_cleanup_ends_that_and_the_outer_one_raises_its_own() {
    let lines = play(|trace| async move {
        let (outer, inner) = (timeout(secs(1)), timeout(secs(2)));
        let body = async {
            let slept = noted_nap(&trace, "body", 60).await;
            let cleanup = noted_nap(&trace, "cleanup", 60);
            trace.push(outcome(telling(&trace, "inner", &inner, cleanup)).await);
            slept
        };
        let ended = outcome(outer.run(body)).await;
        push_end(&trace, ended, [&inner, &outer]);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "cleanup:cancelled@2",
            "inner:timeout:1",
            "timeout",
            "timeout expired:true,true requests:0"
        ]
    );
}

#[test]
fn a_body_that_swallows_the_interruption_of_two_goes_on_in_both() {
    let lines = play(|trace| async move {
        let (outer, inner) = (timeout(secs(1)), timeout(secs(1)));
        let body = async {
            let in_both = async {
                let _ = noted_nap(&trace, "body", 60).await;
                trace.push(format!("in-both:{}", requests()));
                Ok(())
            };
            inner.run(in_both).await?;
            trace.push(format!("in-one:{}", requests()));
            noted_nap(&trace, "after", 5).await
        };
        let ended = outcome(outer.run(body)).await;
        push_end(&trace, ended, [&inner, &outer]);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "in-both:2",
            "in-one:1",
            "after:slept@6",
            "result:none expired:true,true requests:0"
        ]
    );
}

#[test]
fn a_body_that_swallows_it_between_the_two_goes_on_in_the_outer_one() {
    let lines = play(|trace| async move {
        let (outer, inner) = (timeout(secs(1)), timeout(secs(1)));
        let body = async {
            let between = outcome(inner.run(noted_nap(&trace, "body", 60))).await;
            trace.push(format!("between:{between}:{}", requests()));
            noted_nap(&trace, "after", 5).await
        };
        let ended = outcome(outer.run(body)).await;
        push_end(&trace, ended, [&inner, &outer]);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "between:cancelled:1",
            "after:slept@6",
            "result:none expired:true,true requests:0"
        ]
    );
}

#[test]
fn run_optional_inside_passes_on_what_the_outer_one_did() {
    let lines = play(|trace| async move {
        let (outer, inner) = (timeout(secs(1)), timeout(secs(1)));
        let body = async {
            let waited = inner.run_optional(nap(60)).await;
            trace.push(waited.as_ref().map_or_else(word, |value| format!("{value:?}")));
            waited
        };
        assert_eq!(outer.run_optional(body).await?, None);
        push_end(&trace, now(), [&inner, &outer]);
        Ok(())
    });
    assert_eq!(lines, ["cancelled", "1 expired:true,true requests:0"]);
}

#[test]
fn a_hundred_around_each_other_end_in_one_error_whichever_expires() {
    fn nest(depth: u32, expiring: u32) -> futures_util::future::LocalBoxFuture<'static, Result<()>> {
        Box::pin(async move {
            if depth == 0 {
                return nap(60).await;
            }
            let seconds = if depth == expiring { 1 } else { 10 };
            let outcome = timeout(secs(seconds)).run(nest(depth - 1, expiring)).await;
            if depth == expiring {
                assert_eq!(word(outcome.as_ref().unwrap_err()), "timeout");
                assert_eq!((now(), requests()), ("1".into(), 0));
                return Ok(());
            }
            assert_eq!(outcome.is_ok(), depth > expiring);
            outcome
        })
    }
    for expiring in [1, 50, 100] {
        play(|_| nest(100, expiring));
    }
}
