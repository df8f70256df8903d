//! What a timeout refuses, and what it says about itself.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use miniloop::{EventLoop, RuntimeError, timeout, wait_for};

use crate::common::{outcome, virtual_loop};
use crate::play::{nap, play, requests, secs, this_loop};
use crate::support::{Drops, misuse, still_works};

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_second_run_is_refused_whether_the_first_is_over_or_not() {
    play(|_| async {
        let limit = timeout(secs(5));
        let body = async {
            let inside = limit.run(nap(1)).await;
            assert_eq!(misuse(inside), RuntimeError::EnteredTwice);
            nap(2).await
        };
        limit.run(body).await?;
        assert_eq!(misuse(limit.run(nap(1)).await), RuntimeError::EnteredTwice);
        assert_eq!(
            misuse(limit.run_optional(nap(1)).await),
            RuntimeError::EnteredTwice
        );
        Ok(())
    });
}

#[test]
fn a_second_run_does_not_disturb_the_first() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let body = async {
            assert_eq!(
                misuse(limit.run(async { Ok(()) }).await),
                RuntimeError::EnteredTwice
            );
            nap(60).await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["timeout"]);
}

#[test]
fn the_body_that_was_refused_never_runs_and_is_dropped() {
    play(|_| async {
        let drops = Drops::default();
        let limit = timeout(secs(5));
        limit.run(async { Ok(()) }).await?;
        let captured = drops.counted();
        let refused = limit.run(async move {
            let _captured = captured;
            unreachable!("it is refused");
            #[allow(unreachable_code)]
            Ok(())
        });
        assert_eq!(misuse(refused.await), RuntimeError::EnteredTwice);
        assert_eq!(drops.count(), 1);
        Ok(())
    });
}

#[test]
fn outside_of_a_task_it_is_refused_and_can_be_used_afterwards() {
    let (event_loop, _clock) = virtual_loop();
    let limit = timeout(secs(5));
    let Poll::Ready(refused) = poll_once(limit.run(async { Ok(()) })) else {
        panic!("it waits");
    };
    assert_eq!(misuse(refused), RuntimeError::NoRunningLoop);
    let handle = event_loop.handle();
    let unused = limit.clone();
    event_loop.call_soon(move || {
        let Poll::Ready(refused) = poll_once(unused.run(async { Ok(()) })) else {
            panic!("it waits");
        };
        assert_eq!(misuse(refused), RuntimeError::NotInTask);
        assert_eq!(unused.reschedule(None), Err(RuntimeError::NotEntered));
        handle.stop();
    });
    event_loop.run_forever().unwrap();
    let body = async move { limit.run(async { Ok(7) }).await };
    assert_eq!(event_loop.run_until_complete(body).unwrap(), 7);
    still_works(&event_loop);
}

#[test]
fn it_can_not_be_moved_before_it_is_entered_or_after_it_is_over() {
    play(|_| async {
        let limit = timeout(secs(5));
        let when = limit.when();
        let later = this_loop().time() + secs(60);
        assert_eq!(limit.reschedule(later), Err(RuntimeError::NotEntered));
        limit.run(nap(1)).await?;
        assert_eq!(limit.reschedule(later), Err(RuntimeError::Over));
        assert_eq!(limit.reschedule(None), Err(RuntimeError::Over));
        assert_eq!(limit.when(), when);
        Ok(())
    });
}

#[test]
fn it_can_not_be_moved_once_it_has_expired_neither_inside_nor_afterwards() {
    play(|_| async {
        let limit = timeout(secs(1));
        let body = async {
            let slept = nap(60).await;
            let later = this_loop().time() + secs(60);
            assert_eq!(limit.reschedule(later), Err(RuntimeError::Over));
            slept
        };
        assert!(limit.run(body).await.is_err());
        assert_eq!(limit.reschedule(None), Err(RuntimeError::Over));
        assert!(limit.expired());
        Ok(())
    });
}

#[test]
fn a_loop_that_was_closed_leaves_a_timeout_harmless() {
    let (event_loop, _clock) = virtual_loop();
    let limit = timeout(secs(5));
    let running = limit.clone();
    event_loop.create_task(async move { running.run(nap(60)).await });
    crate::support::tick(&event_loop);
    assert_eq!(event_loop.timer_count(), 2);
    event_loop.close().unwrap();
    assert!(!limit.expired());
    assert!(limit.reschedule(secs(1)).is_err());
    assert_eq!(event_loop.timer_count(), 0);
}

#[test]
fn run_does_nothing_before_it_is_polled() {
    play(|_| async {
        let limit = timeout(Duration::ZERO);
        let running = limit.run(async { Ok(()) });
        nap(5).await?;
        assert_eq!(limit.reschedule(None), Err(RuntimeError::NotEntered));
        drop(running);
        assert!(!limit.expired());
        assert_eq!(limit.run(async { Ok(3) }).await?, 3, "it was never entered");
        assert_eq!(requests(), 0);
        Ok(())
    });
}

#[test]
fn wait_for_does_nothing_before_it_is_polled() {
    play(|trace| async move {
        let started = trace.mark("started");
        let waiting = wait_for(
            async move {
                started();
                Ok(())
            },
            secs(1),
        );
        nap(5).await?;
        assert!(trace.lines().is_empty());
        drop(waiting);
        Ok(())
    });
}

#[test]
fn it_says_what_it_is() {
    let event_loop = EventLoop::new().unwrap();
    let text = event_loop
        .run_until_complete(async {
            let limit = timeout(None);
            limit.run(async { Ok(format!("{limit:?}")) }).await
        })
        .unwrap();
    assert!(text.starts_with("Timeout"), "{text}");
    assert!(text.contains("expired: false"), "{text}");
}
