//! Scopes in scopes: the outer one's cancellation goes through the inner one.

use futures_util::future::LocalBoxFuture;

use miniloop::{CancelScope, Result, TaskGroup, timeout};

use crate::common::word;
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::{cancel_after, push_end};

// brief: XT-17
#[test]
fn the_outer_one_interrupts_the_inner_one_s_awaits_which_passes_it_on() {
    let lines = play(|trace| async move {
        let (outer, inner) = (CancelScope::new(), CancelScope::new());
        cancel_after(1, &outer);
        let body = async {
            let ended = inner.run(noted_nap(&trace, "body", 60)).await;
            push_end(&trace, &ended);
            ended
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        assert!(!inner.cancelled_caught() && outer.cancelled_caught());
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@1", "cancelled@1 requests:1", "None@1 requests:0"]
    );
}

#[test]
fn the_inner_one_leaves_the_outer_one_alone() {
    let lines = play(|trace| async move {
        let (outer, inner) = (CancelScope::new(), CancelScope::new());
        cancel_after(1, &inner);
        let body = async {
            let ended = inner.run(noted_nap(&trace, "body", 60)).await;
            push_end(&trace, &ended);
            noted_nap(&trace, "after", 5).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        assert!(inner.cancelled_caught() && !outer.cancel_called());
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "None@1 requests:0",
            "after:slept@6",
            "Some(())@6 requests:0"
        ]
    );
}

#[test]
fn both_in_one_tick_in_either_order_are_one_interruption_that_the_outer_one_catches() {
    for outer_first in [true, false] {
        let lines = play(|trace| async move {
            let (outer, inner) = (CancelScope::new(), CancelScope::new());
            for scope in if outer_first {
                [&outer, &inner]
            } else {
                [&inner, &outer]
            } {
                cancel_after(1, scope);
            }
            let body = async {
                let ended = inner.run(noted_nap(&trace, "body", 60)).await;
                push_end(&trace, &ended);
                ended
            };
            let ended = outer.run(body).await;
            push_end(&trace, &ended);
            noted_nap(&trace, "after", 1).await
        });
        assert_eq!(
            lines,
            [
                "body:cancelled@1",
                "cancelled@1 requests:1",
                "None@1 requests:0",
                "after:slept@2"
            ]
        );
    }
}

#[test]
fn the_outer_one_during_the_cleanup_for_the_inner_one_and_the_other_way_round() {
    for (outer_after, inner_after) in [(3, 1), (1, 3)] {
        let lines = play(|trace| async move {
            let (outer, inner) = (CancelScope::new(), CancelScope::new());
            cancel_after(outer_after, &outer);
            cancel_after(inner_after, &inner);
            let body = async {
                let body = async {
                    let slept = noted_nap(&trace, "body", 60).await;
                    noted_nap(&trace, "cleanup", 10).await?;
                    slept
                };
                let ended = inner.run(body).await;
                push_end(&trace, &ended);
                ended
            };
            let ended = outer.run(body).await;
            push_end(&trace, &ended);
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "body:cancelled@1",
                "cleanup:cancelled@3",
                "cancelled@3 requests:1",
                "None@3 requests:0"
            ]
        );
    }
}

#[test]
fn one_entered_after_the_outer_one_s_interruption_was_swallowed_ends_by_itself() {
    let lines = play(|trace| async move {
        let (outer, inner) = (CancelScope::new(), CancelScope::new());
        cancel_after(1, &outer);
        cancel_after(3, &inner);
        let body = async {
            let _ = noted_nap(&trace, "body", 60).await;
            let ended = inner.run(noted_nap(&trace, "inner", 60)).await;
            push_end(&trace, &ended);
            noted_nap(&trace, "after", 1).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "inner:cancelled@3",
            "None@3 requests:1",
            "after:slept@4",
            "Some(())@4 requests:0"
        ]
    );
}

#[test]
fn an_outer_one_that_is_pending_when_the_inner_one_is_entered_is_what_comes() {
    // Each has its own cause; the await is one. The outer one was asked first, from inside.
    let lines = play(|trace| async move {
        let (outer, inner) = (CancelScope::new(), CancelScope::new());
        let body = async {
            outer.cancel();
            inner.cancel();
            let ended = inner.run(noted_nap(&trace, "body", 60)).await;
            push_end(&trace, &ended);
            ended
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["body:cancelled@0", "cancelled@0 requests:1", "None@0 requests:0"]
    );
}

#[test]
fn the_middle_one_of_three() {
    let lines = play(|trace| async move {
        let [outer, middle, inner] = [(); 3].map(|()| CancelScope::new());
        cancel_after(1, &middle);
        let body = async {
            let body = async {
                let ended = inner.run(noted_nap(&trace, "body", 60)).await;
                push_end(&trace, &ended);
                ended
            };
            let ended = middle.run(body).await;
            push_end(&trace, &ended);
            Ok("went on")
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "cancelled@1 requests:1",
            "None@1 requests:0",
            "Some(\"went on\")@1 requests:0"
        ]
    );
}

#[test]
fn a_body_of_the_inner_one_that_waits_for_something_foreign_is_dropped_by_either() {
    for of_outer in [true, false] {
        play(|_| async move {
            let (outer, inner) = (CancelScope::new(), CancelScope::new());
            cancel_after(1, if of_outer { &outer } else { &inner });
            let body = async {
                let ended = inner.run(std::future::pending::<Result<()>>()).await;
                assert!(!of_outer, "it is dropped with the outer body");
                ended
            };
            let ended = outer.run(body).await?;
            assert_eq!(ended, if of_outer { None } else { Some(None) });
            assert_eq!((now(), requests()), ("1".into(), 0));
            nap(1).await
        });
    }
}

#[test]
fn a_timeout_and_a_group_inside_pass_the_scope_s_cancellation_on() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let (limit, group) = (timeout(secs(10)), TaskGroup::new());
        let body = async {
            let limited = async {
                let log = trace.clone();
                let body = async {
                    group.create_task(async move { noted_nap(&log, "child", 60).await })?;
                    Ok(())
                };
                group.run(body).await
            };
            let ended = limit.run(limited).await;
            trace.push(word(ended.as_ref().unwrap_err()));
            ended
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        assert!(!limit.expired());
        Ok(())
    });
    assert_eq!(lines, ["child:cancelled@1", "cancelled", "None@1 requests:0"]);
}

#[test]
fn a_timeout_around_and_the_scope_inside_in_one_tick() {
    let lines = play(|trace| async move {
        let (scope, limit) = (CancelScope::new(), timeout(secs(1)));
        let body = async {
            cancel_after(1, &scope);
            let ended = scope.run(noted_nap(&trace, "body", 60)).await;
            push_end(&trace, &ended);
            ended
        };
        let ended = limit.run(body).await;
        trace.push(word(&ended.unwrap_err()));
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "cancelled@1 requests:1", "timeout"]);
}

#[test]
fn a_thousand_in_each_other_are_left_when_the_outermost_is_cancelled() {
    fn nest(depth: u32) -> LocalBoxFuture<'static, Result<()>> {
        Box::pin(async move {
            if depth == 0 {
                return nap(60).await;
            }
            let scope = CancelScope::new();
            let ended = scope.run(nest(depth - 1)).await;
            assert!(!scope.cancelled_caught());
            ended.map(|_| ())
        })
    }
    // Polling them needs a deep stack in a build without optimization.
    let deep = std::thread::Builder::new().stack_size(64 << 20).spawn(|| {
        play(|_| async {
            let outer = CancelScope::new();
            let cancelled = outer.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel();
            });
            assert_eq!(outer.run(nest(1000)).await?, None);
            assert_eq!((now(), requests()), ("1".into(), 0));
            Ok(())
        });
    });
    deep.unwrap().join().unwrap();
}
