//! Scopes that are refused, dropped in the middle, closed with their loop, or left by a panic.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_util::{FutureExt, select_biased};

use miniloop::{CancelScope, RuntimeError};

use crate::cancel_after;
use crate::common::{virtual_loop, yields};
use crate::play::{nap, noted_nap, play, requests};
use crate::support::{OnDrop, Reports, misuse, settle, tick};

#[test]
fn a_second_run_is_refused_and_outside_of_a_task_the_first() {
    let (event_loop, _clock) = virtual_loop();
    let scope = CancelScope::new();
    let outside = scope.clone();
    event_loop.call_soon(move || {
        let running = pin!(outside.run(async { Ok(()) }));
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(refused) => assert_eq!(misuse(refused), RuntimeError::NotInTask),
            Poll::Pending => panic!("it waits"),
        }
    });
    tick(&event_loop);
    let main = async move {
        // That one has not entered it.
        let body = async {
            let inside = scope.run(nap(1)).await;
            assert_eq!(misuse(inside), RuntimeError::EnteredTwice);
            Ok(7)
        };
        assert_eq!(scope.run(body).await?, Some(7));
        assert_eq!(misuse(scope.run(nap(1)).await), RuntimeError::EnteredTwice);
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
}

#[test]
fn dropped_in_the_middle_it_is_over_and_leaves_no_request() {
    let lines = play(|trace| async move {
        let scope = CancelScope::new();
        cancel_after(1, &scope);
        {
            let body = async {
                let slept = noted_nap(&trace, "body", 60).await;
                nap(60).await?;
                slept
            };
            let mut scoped = pin!(scope.run(body).fuse());
            let mut short = pin!(noted_nap(&trace, "short", 3).fuse());
            select_biased! {
                _ = scoped => unreachable!("its cleanup takes longer"),
                slept = short => slept?,
            }
        }
        assert!(scope.cancel_called() && !scope.cancelled_caught());
        assert!(!scope.cancel());
        assert_eq!(requests(), 0);
        noted_nap(&trace, "after", 5).await
    });
    assert_eq!(lines, ["body:cancelled@1", "short:slept@3", "after:slept@8"]);
}

#[test]
fn a_capture_whose_drop_cancels_the_scope_does_no_harm() {
    play(|_| async {
        for foreign in [true, false] {
            let scope = CancelScope::new();
            let dropped = scope.clone();
            let bomb = OnDrop::new(move || {
                dropped.cancel();
            });
            cancel_after(1, &scope);
            let body = async move {
                let _bomb = bomb;
                if foreign {
                    std::future::pending().await
                } else {
                    nap(60).await
                }
            };
            assert_eq!(scope.run(body).await?, None);
            assert_eq!(requests(), 0);
        }
        nap(1).await
    });
}

#[test]
fn a_scope_whose_loop_was_closed_can_still_be_cancelled_without_harm() {
    let (event_loop, _clock) = virtual_loop();
    let scope = CancelScope::new();
    let inside = scope.clone();
    event_loop.create_task(async move { inside.run(nap(60)).await });
    settle(&event_loop);
    event_loop.close().unwrap();
    assert!(!scope.cancel());
}

#[test]
fn a_panic_in_the_body_leaves_the_scope() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let scope = CancelScope::new();
    let inside = scope.clone();
    let task = event_loop.create_task(async move {
        let body = async {
            inside.cancel();
            if inside.cancel_called() {
                panic!("in the body");
            }
            Ok(())
        };
        inside.run(body).await
    });
    let ended = event_loop.run_until_complete(task.clone());
    assert!(ended.unwrap_err().to_string().contains("in the body"));
    assert!(!scope.cancel(), "it is over");
    assert_eq!(task.cancelling(), 0);
    let main = async { nap(1).await };
    event_loop.run_until_complete(main).unwrap();
    assert!(reports.take().is_empty());
}

#[test]
fn ten_thousand_scopes_one_after_another() {
    play(|_| async {
        for round in 0..10_000 {
            let scope = CancelScope::new();
            if round % 2 == 0 {
                scope.cancel();
            }
            let ended = scope.run(yields(1)).await?;
            assert_eq!(ended.is_none(), round % 2 == 0);
        }
        assert_eq!(requests(), 0);
        Ok(())
    });
}
