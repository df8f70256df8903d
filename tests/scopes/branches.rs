//! Scopes in branches of one task: each is interrupted alone.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, join, select, select_biased};

use miniloop::{CancelScope, Result, create_task, yield_now};

use crate::common::{outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests, this_loop};
use crate::{cancel_after, push_end};

// brief: XT-17
#[test]
fn in_join_only_the_branch_of_the_scope_is_interrupted() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let (ended, beside) = join!(
            scope.run(noted_nap(&trace, "body", 60)),
            noted_nap(&trace, "beside", 3)
        );
        push_end(&trace, &ended);
        beside
    });
    assert_eq!(lines, ["body:cancelled@1", "beside:slept@3", "None@3 requests:0"]);
}

#[test]
fn one_branch_cancels_the_other_in_both_directions() {
    for canceller_first in [true, false] {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let scoped = scope.run(noted_nap(&trace, "body", 60));
            let cancelling = async {
                nap(1).await?;
                assert!(scope.cancel());
                noted_nap(&trace, "canceller", 2).await
            };
            let ended = if canceller_first {
                let (cancelled, ended) = join!(cancelling, scoped);
                cancelled.and(ended)
            } else {
                let (ended, cancelled) = join!(scoped, cancelling);
                cancelled.and(ended)
            };
            push_end(&trace, &ended);
            Ok(())
        });
        assert_eq!(
            lines,
            ["body:cancelled@1", "canceller:slept@3", "None@3 requests:0"],
            "canceller first: {canceller_first}"
        );
    }
}

#[test]
fn one_branch_cancels_the_other_before_that_has_begun_or_has_suspended() {
    for canceller_first in [true, false] {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let scoped = scope.run(noted_nap(&trace, "body", 60));
            let cancelling = async {
                scope.cancel();
                noted_nap(&trace, "canceller", 1).await
            };
            let ended = if canceller_first {
                let (cancelled, ended) = join!(cancelling, scoped);
                cancelled.and(ended)
            } else {
                let (ended, cancelled) = join!(scoped, cancelling);
                cancelled.and(ended)
            };
            push_end(&trace, &ended);
            Ok(())
        });
        assert_eq!(
            lines,
            ["body:cancelled@0", "canceller:slept@1", "None@1 requests:0"],
            "canceller first: {canceller_first}"
        );
    }
}

#[test]
fn one_branch_cancels_another_that_waits_for_something_foreign() {
    for canceller_first in [true, false] {
        play(|_| async move {
            let scope = CancelScope::new();
            let scoped = scope.run(std::future::pending::<Result<()>>());
            let cancelling = async {
                nap(1).await?;
                scope.cancel();
                nap(1).await
            };
            let ended = if canceller_first {
                join!(cancelling, scoped).1
            } else {
                join!(scoped, cancelling).0
            };
            assert_eq!(ended?, None);
            assert_eq!((now(), requests()), ("2".into(), 0));
            Ok(())
        });
    }
}

#[test]
fn a_scope_around_a_join_interrupts_both_branches_and_the_scopes_in_them() {
    let lines = play(|trace| async move {
        let (outer, inner) = (CancelScope::new(), CancelScope::new());
        cancel_after(1, &outer);
        let body = async {
            let (a, b) = join!(inner.run(noted_nap(&trace, "a", 60)), noted_nap(&trace, "b", 60));
            push_end(&trace, &a);
            b
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        assert!(!inner.cancelled_caught());
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "b:cancelled@1",
            "cancelled@1 requests:1",
            "None@1 requests:0"
        ]
    );
}

#[test]
fn in_a_scope_with_branches_every_branch_is_interrupted_once() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let body = async {
            let branch = async |name: &str, cleanup: u64| {
                let _ = noted_nap(&trace, name, 60).await;
                noted_nap(&trace, name, cleanup).await
            };
            let (a, b) = join!(branch("a", 5), branch("b", 2));
            a.and(b)
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "b:cancelled@1",
            "b:slept@3",
            "a:slept@6",
            "Some(())@6 requests:0"
        ]
    );
}

#[test]
fn in_select_a_cancelled_scope_is_the_branch_that_ends() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let mut scoped = pin!(scope.run(noted_nap(&trace, "body", 60)).fuse());
        let mut beside = pin!(noted_nap(&trace, "beside", 60).fuse());
        select! {
            ended = scoped => push_end(&trace, &ended),
            _ = beside => unreachable!("it takes longer"),
        }
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "None@1 requests:0"]);
}

#[test]
fn in_futures_unordered_scopes_are_cancelled_one_by_one() {
    let lines = play(|trace| async move {
        let scopes: Vec<_> = (0..3).map(|_| CancelScope::new()).collect();
        for (scope, second) in scopes.iter().zip([3, 1, 2]) {
            cancel_after(second, scope);
        }
        let mut all: FuturesUnordered<_> = scopes.iter().map(|scope| scope.run(nap(60))).collect();
        while let Some(ended) = all.next().await {
            push_end(&trace, &ended);
        }
        Ok(())
    });
    assert_eq!(
        lines,
        ["None@1 requests:0", "None@2 requests:0", "None@3 requests:0"]
    );
}

#[test]
fn in_futures_unordered_a_scope_of_something_foreign_is_cancelled() {
    play(|_| async {
        let scopes: Vec<_> = (0..100).map(|_| CancelScope::new()).collect();
        for scope in &scopes {
            cancel_after(1, scope);
        }
        let mut all: FuturesUnordered<_> = scopes
            .iter()
            .map(|scope| scope.run(std::future::pending::<Result<()>>()))
            .collect();
        let mut count = 0;
        while let Some(ended) = all.next().await {
            assert_eq!(ended?, None);
            count += 1;
        }
        assert_eq!((count, now(), requests()), (100, "1".into(), 0));
        Ok(())
    });
}

#[test]
fn in_futures_unordered_a_scope_cancelled_from_inside_and_one_before_it_is_entered() {
    play(|_| async {
        let (inside, before) = (CancelScope::new(), CancelScope::new());
        before.cancel();
        let cancelling = inside.clone();
        let body = async move {
            cancelling.cancel();
            nap(60).await
        };
        let mut all = FuturesUnordered::new();
        all.push(inside.run(body).boxed_local());
        all.push(before.run(nap(60)).boxed_local());
        while let Some(ended) = all.next().await {
            assert_eq!(ended?, None);
        }
        assert_eq!((now(), requests()), ("0".into(), 0));
        Ok(())
    });
}

#[test]
fn a_scope_with_futures_unordered_inside_interrupts_what_that_waits_for() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        let body = async {
            let mut all: FuturesUnordered<_> = ["a", "b", "c"]
                .into_iter()
                .map(|name| noted_nap(&trace, name, 60))
                .collect();
            while let Some(ended) = all.next().await {
                ended?;
            }
            Ok(())
        };
        let ended = scope.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    // It polls them with wakers of its own; the body passes the first error on.
    assert_eq!(lines, ["a:cancelled@1", "None@1 requests:0"]);
}

#[test]
fn cancelled_while_the_branch_beside_it_is_the_one_that_is_due() {
    let lines = play(|trace| async move {
        let (scope, future) = (CancelScope::new(), this_loop().create_future());
        let (cancelled, completed) = (scope.clone(), future.clone());
        this_loop().call_later(crate::secs(1), move || {
            completed.set_result(()).unwrap();
            cancelled.cancel();
        });
        let beside = async {
            future.await?;
            noted_nap(&trace, "beside", 3).await
        };
        let (ended, beside) = join!(scope.run(noted_nap(&trace, "body", 60)), beside);
        push_end(&trace, &ended);
        beside
    });
    assert_eq!(lines, ["body:cancelled@1", "beside:slept@4", "None@4 requests:0"]);
}

#[test]
fn a_task_cancelled_with_scopes_in_its_branches_ends_cancelled() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let (one, two) = (CancelScope::new(), CancelScope::new());
            cancel_after(1, &one);
            let (a, b) = join!(
                one.run(noted_nap(&log, "a", 60)),
                two.run(noted_nap(&log, "b", 60))
            );
            push_end(&log, &a);
            push_end(&log, &b);
            a.and(b).map(|_| ())
        });
        nap(1).await?;
        yields(3).await?;
        task.cancel();
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "a:cancelled@1",
            "b:cancelled@1",
            "None@1 requests:1",
            "cancelled@1 requests:1",
            "cancelled"
        ]
    );
}

#[test]
fn a_body_moved_to_another_poller_in_the_middle_is_still_interrupted() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(5, &scope);
        let mut scoped = Box::pin(scope.run(noted_nap(&trace, "body", 60)).fuse());
        {
            let mut short = pin!(nap(1).fuse());
            select_biased! {
                _ = scoped => unreachable!("it takes longer"),
                slept = short => slept?,
            }
        }
        let mut all = FuturesUnordered::new();
        all.push(scoped);
        let ended = all.next().await.unwrap();
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@5", "None@5 requests:0"]);
}

#[test]
fn a_body_moved_to_another_task_in_the_middle_does_not_hang() {
    let ended = Rc::new(Cell::new(false));
    let seen = ended.clone();
    play(|_| async move {
        let scope = CancelScope::new();
        let inside = scope.clone();
        let mut scoped = Box::pin(async move { inside.run(nap(60)).await });
        assert!(futures_util::poll!(&mut scoped).is_pending());
        let other = create_task(async move {
            seen.set(true);
            scoped.await
        });
        nap(1).await?;
        scope.cancel();
        // Whether it counts as the first task's or the second's: it ends, with a cancellation.
        let outcome = other.await;
        assert!(matches!(outcome, Ok(None)) || outcome.unwrap_err().is_cancelled());
        assert_eq!((now(), requests()), ("1".into(), 0));
        Ok(())
    });
    assert!(ended.get());
}

/// What yields for one turn: of the loop, without a future of the loop, and something foreign.
async fn yielding(kind: usize) -> Result<()> {
    match kind {
        0 => nap(0).await,
        1 => yield_now().await,
        _ => {
            let mut yielded = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(Ok(()));
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await
        }
    }
}

#[test]
fn a_scope_cancelled_just_after_a_branch_has_yielded_is_interrupted_all_the_same() {
    for kind in 0..3 {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let never = this_loop().create_future::<()>();
            let ended = scope
                .run(async {
                    let mut first = pin!(yielding(kind).fuse());
                    let mut second = pin!(
                        async {
                            scope.cancel();
                            never.await
                        }
                        .fuse()
                    );
                    select_biased! {
                        ended = first => ended?,
                        ended = second => ended?,
                    }
                    noted_nap(&trace, "body", 60).await
                })
                .await;
            push_end(&trace, &ended);
            Ok(())
        });
        let expected: &[&str] = match kind {
            // Something foreign does not deliver it: the next await does.
            2 => &["body:cancelled@0", "None@0 requests:0"],
            _ => &["None@0 requests:0"],
        };
        assert_eq!(lines, expected, "kind {kind}");
    }
}

#[test]
fn a_branch_that_has_yielded_cleans_up_when_the_one_beside_it_cancels_the_scope() {
    for kind in 0..2 {
        let lines = play(|trace| async move {
            let scope = CancelScope::new();
            let ended = scope
                .run(async {
                    let yielded = async {
                        let yielded = yielding(kind).await;
                        let how = yielded.as_ref().map_or_else(word, |()| "slept".into());
                        trace.push(format!("yield:{how}"));
                        noted_nap(&trace, "clean-up", 1).await?;
                        yielded
                    };
                    let (yielded, ()) = join!(yielded, async {
                        scope.cancel();
                    });
                    yielded
                })
                .await;
            push_end(&trace, &ended);
            Ok(())
        });
        assert_eq!(
            lines,
            ["yield:cancelled", "clean-up:slept@1", "None@1 requests:0"],
            "kind {kind}"
        );
    }
}
