//! `Semaphore` and `BoundedSemaphore`.

use miniloop::{BoundedSemaphore, EventLoop, Exception, Semaphore, ValueError};

use super::{at_once, begun, done_of, waiting};
use crate::support::{settle, still_works, tick};

// brief: XT-8
#[test]
fn as_many_as_there_are_permits_come_in_and_a_guard_lets_the_next_one_in() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(2);
    let guard = at_once(semaphore.acquire()).unwrap();
    assert!(!semaphore.locked());
    let other = at_once(semaphore.acquire()).unwrap();
    assert!(semaphore.locked());
    let waiters = [(); 3].map(|()| waiting(&event_loop, semaphore.acquire()));
    drop(guard);
    assert_eq!(done_of(&event_loop, &waiters), [true, false, false]);
    other.release();
    assert_eq!(done_of(&event_loop, &waiters), [true, true, false]);
}

#[test]
fn a_forgotten_guard_keeps_its_permit() {
    let semaphore = Semaphore::new(1);
    at_once(semaphore.acquire()).unwrap().forget();
    assert!(semaphore.locked());
    semaphore.release();
    assert!(!semaphore.locked());
}

// brief: XT-8
#[test]
fn it_is_locked_while_an_uncancelled_waiter_is_queued() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let waiter = waiting(&event_loop, semaphore.acquire());
    semaphore.release();
    semaphore.release();
    assert!(
        semaphore.locked(),
        "a permit is free, but the waiter has not stepped"
    );
    tick(&event_loop);
    assert!(waiter.done() && !semaphore.locked());
    let other = at_once(semaphore.acquire()).unwrap();
    assert!(semaphore.locked());
    drop((waiter, other));
    assert!(!semaphore.locked());
}

// brief: XT-8
#[test]
fn one_who_had_to_wait_for_the_orders_sake_is_served_by_the_one_before() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let woken = begun(&event_loop, semaphore.acquire());
    semaphore.release();
    semaphore.release();
    let behind = waiting(&event_loop, semaphore.acquire());
    drop(woken);
    settle(&event_loop);
    assert!(behind.done());
    assert!(!semaphore.locked(), "the other permit is back");
}

// brief: XT-8
#[test]
fn cancelled_waiters_do_not_lock_it() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let waiters = [(); 2].map(|()| waiting(&event_loop, semaphore.acquire()));
    assert_eq!(waiters.each_ref().map(|waiter| waiter.cancel()), [true; 2]);
    semaphore.release();
    assert!(!semaphore.locked());
    at_once(semaphore.acquire()).unwrap().release();
    assert_eq!(done_of(&event_loop, &waiters), [true; 2]);
    assert!(!semaphore.locked());
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_or_dropped_after_its_permit_came_passes_it_on() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let cancelled = waiting(&event_loop, semaphore.acquire());
    let dropped = begun(&event_loop, semaphore.acquire());
    let next = waiting(&event_loop, semaphore.acquire());
    semaphore.release();
    cancelled.cancel();
    settle(&event_loop);
    assert!(cancelled.cancelled() && !next.done());
    drop(dropped);
    settle(&event_loop);
    assert!(next.done() && semaphore.locked());
}

// brief: XT-8
#[test]
fn an_acquisition_cancelled_after_it_was_made_gives_the_permit_back() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let acquired = waiting(&event_loop, semaphore.acquire());
    semaphore.release();
    tick(&event_loop);
    assert!(!acquired.cancel(), "it has the permit already");
    assert!(semaphore.locked());
    drop(acquired);
    assert!(!semaphore.locked(), "nobody has taken the guard out of the task");
}

// brief: XT-8
#[test]
fn a_bounded_one_refuses_one_release_too_many() {
    let semaphore = BoundedSemaphore::new(2);
    assert_eq!(semaphore.release(), Err(ValueError::ReleasedTooOften));
    let guard = at_once(semaphore.acquire()).unwrap();
    assert_eq!(semaphore.release(), Ok(()));
    assert_eq!(semaphore.release(), Err(ValueError::ReleasedTooOften));
    drop(guard);
    let both = [(); 2].map(|()| at_once(semaphore.acquire()).unwrap());
    assert!(semaphore.locked(), "the guard added nothing above the bound");
    drop(both);
}

// brief: XT-8
#[test]
fn a_bounded_one_has_no_permit_too_many_after_a_cancelled_waiter_gave_one_back() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = BoundedSemaphore::new(1);
    at_once(semaphore.acquire()).unwrap().forget();
    let waiter = waiting(&event_loop, semaphore.acquire());
    assert_eq!(semaphore.release(), Ok(()));
    waiter.cancel();
    // One too many, which can not be seen yet: the waiter could have the permit.
    assert_eq!(semaphore.release(), Ok(()));
    settle(&event_loop);
    let held = at_once(semaphore.acquire()).unwrap();
    assert!(waiter.cancelled() && semaphore.locked(), "there is one permit");
    drop(held);
    assert_eq!(semaphore.release(), Err(ValueError::ReleasedTooOften));
}

#[test]
fn more_permits_than_can_be_counted_are_no_panic() {
    let semaphore = Semaphore::new(usize::MAX);
    semaphore.release();
    at_once(semaphore.acquire()).unwrap().release();
    assert!(!semaphore.locked());
}

// brief: XT-8
#[test]
fn a_permit_held_by_a_panicking_task_comes_back() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(1);
    let held = semaphore.clone();
    let task = event_loop.create_task(async move {
        let _permit = held.acquire().await?;
        if held.locked() {
            panic!("with the permit");
        }
        Ok::<(), Exception>(())
    });
    let next = event_loop.create_task(semaphore.acquire());
    settle(&event_loop);
    assert!(task.exception().unwrap().is_some());
    assert!(next.done() && semaphore.locked());
    still_works(&event_loop);
}
