//! Locks outside of a loop, in several loops, and after the loop.

use std::rc::Rc;
use std::task::Poll;

use miniloop::{
    Barrier, BoundedSemaphore, Condition, Event, EventLoop, Lock, Result, RuntimeError, Semaphore,
};

use super::{at_once, begun, poll_now, waiting};
use crate::support::{OnDrop, Reports, misuse, settle};

// brief: XT-8
#[test]
fn what_is_free_needs_no_loop() {
    at_once(Lock::new().acquire()).unwrap().release();
    at_once(Semaphore::new(1).acquire()).unwrap().release();
    at_once(BoundedSemaphore::new(1).acquire()).unwrap().release();
    at_once(Condition::new().acquire()).unwrap().release();
    at_once(Barrier::new(1).unwrap().reset()).unwrap();
    at_once(Barrier::new(1).unwrap().abort()).unwrap();
    let event = Event::new();
    event.set();
    at_once(event.wait()).unwrap();
}

// brief: XT-8
#[test]
fn what_has_to_wait_is_refused_where_no_loop_runs_and_leaves_no_waiter() {
    fn refused<T>(outcome: Result<T>) {
        assert_eq!(misuse(outcome), RuntimeError::NoRunningLoop);
    }
    let lock = Lock::new();
    let held = at_once(lock.acquire()).unwrap();
    refused(at_once(lock.acquire()));
    drop(held);
    assert_eq!(format!("{lock:?}"), "Lock { locked: false, waiters: 0 }");

    let semaphore = Semaphore::new(0);
    refused(at_once(semaphore.acquire()));
    semaphore.release();
    at_once(semaphore.acquire()).unwrap().release();

    let event = Event::new();
    refused(at_once(event.wait()));
    assert_eq!(format!("{event:?}"), "Event { set: false, waiters: 0 }");

    let condition = Condition::new();
    let held = at_once(condition.acquire()).unwrap();
    refused(at_once(condition.wait()));
    assert!(condition.locked(), "it was not given back");
    drop(held);

    let barrier = Barrier::new(2).unwrap();
    refused(at_once(barrier.wait()));
    assert_eq!(barrier.n_waiting(), 0);
}

// brief: XT-8
#[test]
fn a_lock_serves_several_loops_one_after_the_other() {
    let (lock, semaphore, event) = (Lock::new(), Semaphore::new(0), Event::new());
    for _ in 0..3 {
        let event_loop = EventLoop::new().unwrap();
        let held = at_once(lock.acquire()).unwrap();
        let owner = waiting(&event_loop, lock.acquire());
        let user = waiting(&event_loop, semaphore.acquire());
        let waiter = waiting(&event_loop, event.wait());
        drop(held);
        semaphore.release();
        event.set();
        settle(&event_loop);
        drop(owner.take_result().unwrap());
        user.take_result().unwrap().forget();
        waiter.result().unwrap();
        event.clear();
        assert!(!lock.locked() && semaphore.locked());
    }
}

// brief: XT-8
#[test]
fn waiters_of_a_closed_loop_are_gone_and_lose_nothing() {
    let lock = Lock::new();
    let (semaphore, condition) = (Semaphore::new(0), Condition::new());
    let barrier = Barrier::new(2).unwrap();
    let held = at_once(lock.acquire()).unwrap();
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let left = [(); 2].map(|()| waiting(&event_loop, lock.acquire()));
    let permit = waiting(&event_loop, semaphore.acquire());
    let _notified = super::waiting_for(&event_loop, &condition);
    let met = waiting(&event_loop, barrier.wait());
    drop(held);
    semaphore.release();
    event_loop.close().unwrap();
    assert_eq!(reports.take(), ["5 tasks were destroyed but they are pending!"]);
    assert!(left[0].done() && permit.done() && met.done());
    assert_eq!(format!("{lock:?}"), "Lock { locked: false, waiters: 0 }");
    assert_eq!(
        format!("{semaphore:?}"),
        "Semaphore { locked: false, permits: 1, waiters: 0 }"
    );
    assert_eq!(
        format!("{condition:?}"),
        "Condition { locked: false, waiters: 0 }"
    );
    assert_eq!(barrier.n_waiting(), 0);
}

// brief: XT-8
#[test]
fn guards_outlive_the_loop_and_give_back_afterwards() {
    let (lock, semaphore) = (Lock::new(), Semaphore::new(1));
    let event_loop = EventLoop::new().unwrap();
    let (taken, used) = (lock.clone(), semaphore.clone());
    let guards = event_loop
        .run_until_complete(async move { Ok((taken.acquire().await?, used.acquire().await?)) })
        .unwrap();
    drop(event_loop);
    assert!(lock.locked() && semaphore.locked());
    drop(guards);
    assert!(!lock.locked() && !semaphore.locked());
}

#[test]
fn a_guard_kept_by_a_task_of_a_closed_loop_is_given_back() {
    let lock = Lock::new();
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (held, never) = (lock.clone(), event_loop.create_future::<()>());
    let _task = waiting(&event_loop, async move {
        let _held = held.acquire().await?;
        never.await
    });
    assert!(lock.locked());
    drop(event_loop);
    assert!(!lock.locked());
}

#[test]
fn a_waiter_kept_beyond_its_loop_keeps_its_turn_until_it_is_dropped() {
    let lock = Lock::new();
    let held = at_once(lock.acquire()).unwrap();
    let first = EventLoop::new().unwrap();
    let kept = begun(&first, lock.acquire());
    drop(first);
    let second = EventLoop::new().unwrap();
    let waiter = waiting(&second, lock.acquire());
    drop(held);
    settle(&second);
    assert!(!waiter.done());
    drop(kept);
    settle(&second);
    assert!(waiter.done());
}

#[test]
fn a_waiter_of_a_loop_that_stands_still_has_its_turn_when_that_runs_again() {
    let lock = Lock::new();
    let held = at_once(lock.acquire()).unwrap();
    let (still, running) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let first = waiting(&still, lock.acquire());
    let second = waiting(&running, lock.acquire());
    drop(held);
    settle(&running);
    assert!(!second.done(), "not past the first");
    settle(&still);
    drop(first.take_result().unwrap());
    settle(&running);
    assert!(second.done());
}

#[test]
fn the_futures_of_a_lock_do_nothing_before_they_are_polled() {
    let (lock, condition) = (Lock::new(), Condition::new());
    let barrier = Barrier::new(2).unwrap();
    drop((lock.acquire(), condition.wait(), barrier.wait(), barrier.abort()));
    assert!(!lock.locked() && !barrier.broken());
    assert_eq!(barrier.n_waiting(), 0);
    let polled = poll_now(lock.acquire());
    assert!(matches!(polled, Poll::Ready(Ok(_))));
}

#[test]
fn nothing_is_kept_alive_by_a_lock_that_nobody_has() {
    let event_loop = EventLoop::new().unwrap();
    let (lock, alive) = (Lock::new(), Rc::new(()));
    let held = at_once(lock.acquire()).unwrap();
    let (taken, inside) = (lock.clone(), alive.clone());
    let task = waiting(&event_loop, async move {
        let _inside = OnDrop::new(move || drop(inside));
        taken.acquire().await.map(drop)
    });
    task.cancel();
    settle(&event_loop);
    drop((task, held, lock));
    assert_eq!(Rc::strong_count(&alive), 1);
}
