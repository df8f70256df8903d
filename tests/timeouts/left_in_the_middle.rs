//! The future that `run` gives is dropped in the middle, by a `select!`, a task's end, or by hand.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, select_biased};

use miniloop::{Result, RuntimeError, create_task, timeout, wait_for};

use crate::common::{outcome, virtual_loop, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::support::{Drops, OnDrop, nothing_is_left, settle, tick};

type Running = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Polls it once, from the task that awaits this; it has to be waiting then.
async fn start(running: &mut Running) {
    let first = std::future::poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx))).await;
    assert!(first.is_pending());
}

#[test]
fn the_branch_that_lost_takes_its_timer_with_it_and_has_not_expired() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(10));
        {
            let mut limited = pin!(limit.run(nap(60)).fuse());
            let mut short = pin!(noted_nap(&trace, "short", 1).fuse());
            select_biased! {
                _ = limited => unreachable!("it is the longer one"),
                slept = short => slept?,
            }
        }
        assert!(!limit.expired());
        assert_eq!(limit.reschedule(None), Err(RuntimeError::Over));
        assert_eq!(requests(), 0);
        trace.push(outcome(nap(20)).await);
        assert!(!limit.expired());
        Ok(())
    });
    assert_eq!(lines, ["short:slept@1", "result:none"]);
}

#[test]
fn dropped_after_the_expiry_and_before_the_body_noticed_it_leaves_no_request() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let mut running: Running = Box::pin({
            let limit = limit.clone();
            async move { limit.run(nap(60)).await }
        });
        start(&mut running).await;
        let slot = Rc::new(RefCell::new(Some(running)));
        let dropped = slot.clone();
        let seen = limit.clone();
        let log = trace.clone();
        let task = crate::play::this_task();
        // The timeout's timer is the older one of the two.
        this_loop().call_later(secs(1), move || {
            log.push(format!(
                "expired:{} requests:{}",
                seen.expired(),
                task.cancelling()
            ));
            let running = dropped.take();
            drop(running);
            log.push(format!("requests:{}", task.cancelling()));
        });
        noted_nap(&trace, "main", 5).await?;
        assert!(limit.expired() && slot.borrow().is_none());
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["expired:true requests:1", "requests:0", "main:slept@5"]);
}

#[test]
fn dropped_during_the_cleanup_leaves_no_request() {
    let lines = play(|trace| async move {
        let (limit, log) = (timeout(secs(1)), trace.clone());
        {
            let body = async {
                let slept = noted_nap(&log, "body", 60).await;
                nap(60).await?;
                slept
            };
            let mut limited = pin!(limit.run(body).fuse());
            let mut short = pin!(noted_nap(&trace, "short", 3).fuse());
            select_biased! {
                _ = limited => unreachable!("its cleanup takes longer"),
                slept = short => slept?,
            }
        }
        assert!(limit.expired());
        assert_eq!(requests(), 0);
        noted_nap(&trace, "after", 5).await
    });
    assert_eq!(lines, ["body:cancelled@1", "short:slept@3", "after:slept@8"]);
}

#[test]
fn a_body_is_dropped_with_its_captures_when_the_task_around_it_is_dropped() {
    let (event_loop, _clock) = virtual_loop();
    let drops = Drops::default();
    let captured = drops.counted();
    event_loop.create_task(async move {
        let body = async move {
            let _captured = captured;
            nap(60).await
        };
        timeout(secs(10)).run(body).await
    });
    tick(&event_loop);
    assert_eq!(drops.count(), 0);
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_capture_whose_drop_uses_the_timeout_finds_it_over() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(1));
        let (seen, log) = (limit.clone(), trace.clone());
        let bomb = OnDrop::new(move || {
            let moved = seen.reschedule(Duration::from_secs(1000));
            log.push(format!("refused:{}", moved.is_err()));
        });
        let body = async move {
            let _bomb = bomb;
            std::future::pending::<Result<()>>().await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["refused:true", "timeout"]);
}

#[test]
fn a_future_that_was_dropped_unpolled_has_entered_nothing() {
    play(|_| async {
        let limit = timeout(secs(1));
        drop(limit.run(nap(60)));
        assert_eq!(limit.reschedule(None), Err(RuntimeError::NotEntered));
        nap(5).await
    });
}

#[test]
fn wait_for_in_the_branch_that_lost_leaves_the_task_it_waited_for_running() {
    // Dropping is not cancelling.
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move { noted_nap(&log, "task", 5).await });
        {
            let mut waiting = pin!(wait_for(task.clone(), secs(10)).fuse());
            let mut short = pin!(nap(1).fuse());
            select_biased! {
                _ = waiting => unreachable!("it is the longer one"),
                slept = short => slept?,
            }
        }
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(lines, ["task:slept@5", "result:none"]);
}

#[test]
fn wait_for_without_time_dropped_in_the_middle_leaves_nothing() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let slept = noted_nap(&log, "task", 60).await;
            noted_nap(&log, "cleanup", 5).await?;
            slept
        });
        yields(1).await?;
        {
            let mut waiting = pin!(wait_for(task.clone(), Duration::ZERO).fuse());
            let mut short = pin!(nap(1).fuse());
            select_biased! {
                _ = waiting => unreachable!("it waits for the cleanup"),
                slept = short => slept?,
            }
        }
        trace.push(format!("{}@{}", outcome(task).await, now()));
        Ok(())
    });
    assert_eq!(lines, ["task:cancelled@0", "cleanup:slept@5", "cancelled@5"]);
}

#[test]
fn a_task_that_ends_while_the_timeout_is_kept_elsewhere_leaves_no_timer() {
    let (event_loop, _clock) = virtual_loop();
    let limit = timeout(secs(1000));
    let inside = limit.clone();
    let task = event_loop.create_task(async move { inside.run(nap(60)).await });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.cancelled());
    let before = event_loop.time();
    nothing_is_left(&event_loop);
    assert_eq!(event_loop.time(), before);
    assert!(!limit.expired());
}
