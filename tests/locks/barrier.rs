//! `Barrier`: filling, draining, resetting, broken.

use miniloop::{Barrier, BrokenBarrierError, EventLoop, Exception, Result, Task, ValueError, create_task};

use super::{at_once, begun, done_of, waiting};
use crate::support::{raised, settle, tick};

/// Two of three parties, waiting.
fn two_of_three(event_loop: &EventLoop) -> (Barrier, [Task<usize>; 2]) {
    let barrier = Barrier::new(3).unwrap();
    let waiters = [(); 2].map(|()| waiting(event_loop, barrier.wait()));
    assert_eq!(barrier.n_waiting(), 2);
    (barrier, waiters)
}

fn is_broken(outcome: Result<usize>) -> bool {
    raised::<BrokenBarrierError, _>(outcome) == BrokenBarrierError::default()
}

// brief: XT-8
#[test]
fn a_barrier_for_nobody_is_refused_and_one_for_one_never_waits() {
    assert_eq!(Barrier::new(0).unwrap_err(), ValueError::NoParties);
    let barrier = Barrier::new(1).unwrap();
    for _ in 0..3 {
        assert_eq!(at_once(barrier.wait()).unwrap(), 0);
    }
    assert_eq!(
        format!("{barrier:?}"),
        "Barrier { phase: Filling, waiting: 0, parties: 1 }"
    );
}

// brief: XT-8
#[test]
fn it_opens_when_all_are_there_and_each_gets_a_number() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, waiters) = two_of_three(&event_loop);
    assert_eq!(barrier.parties(), 3);
    let last = event_loop.run_until_complete(barrier.wait()).unwrap();
    assert_eq!(done_of(&event_loop, &waiters), [true; 2]);
    let numbers = waiters.map(|waiter| waiter.result().unwrap());
    assert_eq!((numbers, last), ([0, 1], 2));
    assert_eq!(barrier.n_waiting(), 0);
}

// brief: XT-8
#[test]
fn who_comes_while_it_drains_waits_for_the_next_time() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(2).unwrap();
    let tasks = [(); 4].map(|()| event_loop.create_task(barrier.wait()));
    tick(&event_loop);
    assert!(tasks[1].done() && !tasks[0].done(), "it drains");
    settle(&event_loop);
    let numbers = tasks.map(|task| task.result().unwrap());
    assert_eq!(numbers, [0, 1, 0, 1]);
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_while_it_fills_has_not_come_and_its_number_is_free() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, [first, second]) = two_of_three(&event_loop);
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled() && !second.done());
    assert_eq!(barrier.n_waiting(), 1);
    let third = waiting(&event_loop, barrier.wait());
    let fourth = event_loop.create_task(barrier.wait());
    settle(&event_loop);
    let numbers = [third, second, fourth].map(|task| task.result().unwrap());
    assert_eq!(numbers, [0, 1, 2], "none of them twice");
}

#[test]
fn numbers_given_up_in_any_order_are_given_out_again() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(5).unwrap();
    let waiters = [(); 4].map(|()| waiting(&event_loop, barrier.wait()));
    for gone in [3, 1] {
        waiters[gone].cancel();
        settle(&event_loop);
    }
    let others = [(); 3].map(|()| event_loop.create_task(barrier.wait()));
    settle(&event_loop);
    let mut numbers: Vec<usize> = [&waiters[0], &waiters[2], &others[0], &others[1], &others[2]]
        .map(|task| task.result().unwrap())
        .to_vec();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(barrier.n_waiting(), 0);
}

#[test]
fn a_number_given_up_before_a_reset_is_not_given_out_after_it() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(4).unwrap();
    let waiters = [(); 3].map(|()| waiting(&event_loop, barrier.wait()));
    waiters[1].cancel();
    settle(&event_loop);
    event_loop.run_until_complete(barrier.reset()).unwrap();
    settle(&event_loop);
    let [first, _, last] = waiters;
    assert!(is_broken(first.take_result()) && is_broken(last.take_result()));
    let all = [(); 4].map(|()| event_loop.create_task(barrier.wait()));
    settle(&event_loop);
    assert_eq!(all.map(|task| task.result().unwrap()), [0, 1, 2, 3]);
}

// brief: XT-8
#[test]
fn a_waiter_dropped_while_it_fills_has_not_come() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(2).unwrap();
    drop(begun(&event_loop, barrier.wait()));
    assert_eq!(barrier.n_waiting(), 0);
    let first = waiting(&event_loop, barrier.wait());
    let second = event_loop.create_task(barrier.wait());
    settle(&event_loop);
    assert_eq!((first.result().unwrap(), second.result().unwrap()), (0, 1));
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_while_it_drains_has_left() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, [first, second]) = two_of_three(&event_loop);
    let last = event_loop.create_task(barrier.wait());
    tick(&event_loop);
    assert!(last.done() && !first.done());
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled());
    assert_eq!(second.result().unwrap(), 1);
    let again = [(); 3].map(|()| event_loop.create_task(barrier.wait()));
    assert_eq!(done_of(&event_loop, &again), [true; 3], "it fills again");
}

// brief: XT-8
#[test]
fn a_waiter_dropped_while_it_drains_has_left() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(2).unwrap();
    let dropped = begun(&event_loop, barrier.wait());
    event_loop.run_until_complete(barrier.wait()).unwrap();
    let next = waiting(&event_loop, barrier.wait());
    settle(&event_loop);
    assert!(!next.done(), "it drains as long as the one is not gone");
    assert_eq!(barrier.n_waiting(), 0);
    drop(dropped);
    settle(&event_loop);
    assert_eq!(barrier.n_waiting(), 1, "and then it fills");
    event_loop.run_until_complete(barrier.wait()).unwrap();
    settle(&event_loop);
    assert!(next.done());
}

// brief: XT-8
#[test]
fn one_who_waits_before_the_door_can_be_cancelled_or_dropped() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(2).unwrap();
    let inside = begun(&event_loop, barrier.wait());
    event_loop.run_until_complete(barrier.wait()).unwrap();
    let cancelled = waiting(&event_loop, barrier.wait());
    let dropped = begun(&event_loop, barrier.wait());
    cancelled.cancel();
    drop(dropped);
    settle(&event_loop);
    assert!(cancelled.cancelled());
    drop(inside);
    assert_eq!(barrier.n_waiting(), 0);
    let both = [(); 2].map(|()| event_loop.create_task(barrier.wait()));
    assert_eq!(done_of(&event_loop, &both), [true; 2]);
}

// brief: XT-8
#[test]
fn reset_sends_those_away_who_wait_and_the_barrier_fills_anew() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, waiters) = two_of_three(&event_loop);
    let resetting = barrier.clone();
    let newcomers = event_loop
        .run_until_complete(async move {
            resetting.reset().await?;
            assert_eq!(resetting.n_waiting(), 0);
            Ok([(); 3].map(|()| create_task(resetting.wait())))
        })
        .unwrap();
    settle(&event_loop);
    assert!(waiters.into_iter().all(|waiter| is_broken(waiter.take_result())));
    let numbers = newcomers.map(|task| task.result().unwrap());
    assert_eq!(numbers, [0, 1, 2]);
    assert!(!barrier.broken());
}

// brief: XT-8
#[test]
fn abort_breaks_it_for_all_until_a_reset() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, waiters) = two_of_three(&event_loop);
    event_loop.run_until_complete(barrier.abort()).unwrap();
    assert!(barrier.broken());
    settle(&event_loop);
    assert!(waiters.into_iter().all(|waiter| is_broken(waiter.take_result())));
    assert!(is_broken(at_once(barrier.wait())), "also for those who come");
    at_once(barrier.reset()).unwrap();
    assert!(!barrier.broken());
    let all = [(); 3].map(|()| event_loop.create_task(barrier.wait()));
    assert_eq!(done_of(&event_loop, &all), [true; 3]);
}

// brief: XT-8
#[test]
fn aborted_while_it_drains_it_lets_nobody_else_go_on() {
    let event_loop = EventLoop::new().unwrap();
    let (barrier, waiters) = two_of_three(&event_loop);
    let aborting = barrier.clone();
    let last = event_loop.create_task(async move {
        let number = aborting.wait().await?;
        aborting.abort().await?;
        Ok::<_, Exception>(number)
    });
    settle(&event_loop);
    assert_eq!(last.result().unwrap(), 2);
    let outcomes = waiters.map(|waiter| waiter.take_result().is_ok());
    assert_eq!(outcomes, [false, false], "they had not gone on yet");
    assert!(barrier.broken());
}
