//! Very many tasks, each of which waits for the one before. None of it may be done by recursion:
//! a test thread has a stack of 2 MiB, and an overflow ends the process.

use miniloop::{EventLoop, Future, Task};

use crate::common::Boom;
use crate::support::{Reports, misuse, raised, settle, still_works};

const LONG: usize = 10_000;

/// A future and the last of `length` tasks, the first of which awaits it, and each other one the
/// one before. Every task has had its first step.
pub fn chain(event_loop: &EventLoop, length: usize) -> (Future<i32>, Task<i32>) {
    let root = event_loop.create_future::<i32>();
    let first = root.clone();
    let mut last = event_loop.create_task(async move { first.await });
    for _ in 1..length {
        last = event_loop.create_task(async move { last.await });
    }
    event_loop.run_once().unwrap();
    (root, last)
}

#[test]
fn a_result_runs_up_a_long_chain() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = chain(&event_loop, LONG);
    root.set_result(7).unwrap();
    assert_eq!(event_loop.run_until_complete(last).unwrap(), 7);
    still_works(&event_loop);
}

#[test]
fn an_exception_runs_up_a_long_chain() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = chain(&event_loop, LONG);
    root.set_exception(Boom("deep")).unwrap();
    assert_eq!(
        raised::<Boom, _>(event_loop.run_until_complete(last)),
        Boom("deep")
    );
    still_works(&event_loop);
}

#[test]
fn a_cancellation_of_the_last_runs_down_a_long_chain_and_up_again() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = chain(&event_loop, LONG);
    assert!(last.cancel());
    assert!(
        event_loop
            .run_until_complete(last.clone())
            .unwrap_err()
            .is_cancelled()
    );
    assert!(last.cancelled() && root.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_cancellation_of_what_the_first_awaits_runs_up_a_long_chain() {
    let event_loop = EventLoop::new().unwrap();
    let (root, last) = chain(&event_loop, LONG);
    assert!(root.cancel());
    assert!(
        event_loop
            .run_until_complete(last.clone())
            .unwrap_err()
            .is_cancelled()
    );
    still_works(&event_loop);
}

/// Where the cancellation goes on through the ready queue, it must not lose a race against a
/// result that comes up the chain.
#[test]
fn a_cancellation_of_a_long_chain_wins_against_a_result_on_its_way_up() {
    let length = 250;
    for moment in 0..length {
        let event_loop = EventLoop::new().unwrap();
        let (root, last) = chain(&event_loop, length);
        root.set_result(1).unwrap();
        for _ in 0..moment {
            event_loop.run_once().unwrap();
        }
        assert!(last.cancel(), "after {moment} ticks");
        let outcome = event_loop.run_until_complete(last.clone());
        assert!(last.cancelled(), "after {moment} ticks: {outcome:?}");
    }
}

#[test]
fn a_second_cancellation_of_a_long_chain_does_no_harm() {
    let event_loop = EventLoop::new().unwrap();
    let (_root, last) = chain(&event_loop, LONG);
    assert!(last.cancel() && last.cancel());
    assert!(
        event_loop
            .run_until_complete(last.clone())
            .unwrap_err()
            .is_cancelled()
    );
    still_works(&event_loop);
}

#[test]
fn dropping_the_loop_lets_go_of_a_long_chain() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (root, last) = chain(&event_loop, LONG);
    drop(last);
    drop(event_loop);
    assert_eq!(
        reports.take(),
        [format!("{LONG} tasks were destroyed but they are pending!")]
    );
    assert!(!root.done(), "a plain future belongs to nobody");
}

#[test]
fn closing_the_loop_fails_every_task_of_a_long_chain() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (_root, last) = chain(&event_loop, LONG);
    event_loop.close().unwrap();
    assert_eq!(reports.take().len(), 1);
    assert!(last.done());
    assert_eq!(misuse(last.result()), miniloop::RuntimeError::LoopClosed);
}

#[test]
fn a_long_chain_that_has_not_begun_can_be_let_go_of() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let root = event_loop.create_future::<i32>();
    let mut last = event_loop.create_task(async move { root.await });
    for _ in 1..LONG {
        last = event_loop.create_task(async move { last.await });
    }
    drop(last);
    event_loop.close().unwrap();
    assert_eq!(reports.take().len(), 1);
}

#[test]
fn a_long_chain_whose_cancellation_is_under_way_can_be_let_go_of() {
    for ticks in [0, 1, 3] {
        let event_loop = EventLoop::new().unwrap();
        let reports = Reports::of(&event_loop);
        let (_root, last) = chain(&event_loop, LONG);
        last.cancel();
        for _ in 0..ticks {
            event_loop.run_once().unwrap();
        }
        event_loop.close().unwrap();
        assert_eq!(reports.take().len(), 1);
        assert!(last.done());
    }
}

#[test]
fn very_many_awaiters_of_one_task_all_get_its_result() {
    let event_loop = EventLoop::new().unwrap();
    let (root, task) = chain(&event_loop, 1);
    let awaiters: Vec<_> = (0..LONG)
        .map(|_| {
            let task = task.clone();
            event_loop.create_task(async move { task.await })
        })
        .collect();
    settle(&event_loop);
    root.set_result(7).unwrap();
    settle(&event_loop);
    assert!(awaiters.iter().all(|awaiter| awaiter.result().ok() == Some(7)));
}
