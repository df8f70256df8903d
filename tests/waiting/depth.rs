//! Very deep and very many. None of it may be done by recursion: a test thread has a stack of
//! 2 MiB, and an overflow ends the process.

use miniloop::{EventLoop, Future, ReturnWhen, Task, as_completed, gather, shield, wait};

use super::nap;
use crate::common::virtual_loop;
use crate::support::{Drops, Reports, misuse, settle, still_works};

const DEEP: usize = 100_000;
const MANY: usize = 10_000;

/// A future, and the outermost of very many shields around it.
fn shields(event_loop: &EventLoop) -> (Future<i32>, Future<i32>) {
    let root = event_loop.create_future::<i32>();
    let outermost = (0..DEEP).fold(root.clone(), |inner, _| shield(inner));
    (root, outermost)
}

/// A future, and the outermost of tasks that each gather the one before.
fn gathers(event_loop: &EventLoop) -> (Future<i32>, Task<i32>) {
    let root = event_loop.create_future::<i32>();
    let first = root.clone();
    let mut last = event_loop.create_task(async move { first.await });
    for _ in 0..DEEP {
        last = event_loop.create_task(async move {
            let inner = gather([last]).await?;
            Ok(inner[0] + 1)
        });
    }
    event_loop.run_once().unwrap();
    (root, last)
}

#[test]
fn a_result_comes_up_through_very_many_shields() {
    let event_loop = EventLoop::new().unwrap();
    let (root, outermost) = shields(&event_loop);
    root.set_result(7).unwrap();
    assert_eq!(event_loop.run_until_complete(outermost).unwrap(), 7);
}

#[test]
fn very_many_shields_can_be_dropped_and_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let (root, outermost) = shields(&event_loop);
    drop(outermost);
    assert!(!root.done());
    let (root, outermost) = shields(&event_loop);
    assert!(outermost.cancel());
    drop(outermost);
    assert!(!root.done());
    root.set_result(1).unwrap();
    settle(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_loop_with_very_many_shields_can_be_closed() {
    let event_loop = EventLoop::new().unwrap();
    let sleep = event_loop.sleep(std::time::Duration::from_secs(60));
    let outermost = (0..DEEP).fold(sleep, |inner, _| shield(inner));
    event_loop.close().unwrap();
    assert_eq!(misuse(outermost.result()), miniloop::RuntimeError::LoopClosed);
}

// brief: XT-2
#[test]
fn a_result_comes_up_through_very_many_gathers() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = gathers(&event_loop);
    root.set_result(0).unwrap();
    assert_eq!(event_loop.run_until_complete(last).unwrap(), DEEP as i32);
}

#[test]
fn a_cancellation_runs_down_very_many_gathers_and_up_again() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = gathers(&event_loop);
    assert!(last.cancel_with("all of it"));
    assert!(root.cancelled());
    let error = event_loop.run_until_complete(last).unwrap_err();
    assert_eq!(super::message(&error).as_deref(), Some("all of it"));
    still_works(&event_loop);
}

#[test]
fn a_loop_with_very_many_nested_gathers_can_be_closed() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (_root, last) = gathers(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(reports.take().len(), 1);
    assert_eq!(misuse(last.result()), miniloop::RuntimeError::LoopClosed);
}

#[test]
fn very_many_children_are_gathered_cancelled_and_dropped() {
    let (event_loop, _) = virtual_loop();
    let drops = Drops::default();
    let children = || {
        let child = |number: usize| {
            let dropped = drops.counted();
            async move {
                let _dropped = dropped;
                nap(number as u64 % 7).await?;
                Ok(number)
            }
        };
        (0..MANY).map(child).collect::<Vec<_>>()
    };
    let (first, second, third) = (children(), children(), children());
    event_loop
        .run_until_complete(async move {
            let gathered = gather(first).await?;
            assert!(gathered.into_iter().eq(0..MANY));
            let cancelled = gather(second);
            nap(1).await?;
            assert!(cancelled.cancel());
            assert!(cancelled.await.unwrap_err().is_cancelled());
            let dropped = gather(third);
            nap(1).await?;
            drop(dropped);
            nap(9).await
        })
        .unwrap();
    assert_eq!(drops.count(), 3 * MANY as u32);
}

#[test]
fn very_many_things_are_waited_for() {
    let (event_loop, _) = virtual_loop();
    let tasks: Vec<_> = (0..MANY as u64)
        .map(|number| event_loop.create_task(nap(number % 7)))
        .collect();
    event_loop
        .run_until_complete(async move {
            let mut completed = as_completed(tasks.clone());
            let (done, pending) = wait(tasks, None, ReturnWhen::AllCompleted).await?;
            assert_eq!((done.len(), pending.len()), (MANY, 0));
            let mut count = 0;
            while let Some(next) = completed.next().await {
                next?;
                count += 1;
            }
            assert_eq!(count, MANY);
            Ok(())
        })
        .unwrap();
}
