//! `Condition`: notifications, and the lock meanwhile.

use std::cell::Cell;
use std::rc::Rc;

use miniloop::{CancelledError, Condition, EventLoop, Lock, RuntimeError};

use super::{at_once, begun, done_of, waiting, waiting_for};
use crate::support::{misuse, raised, settle, tick};

/// Notifies as many, from outside of any task.
fn notify(condition: &Condition, count: usize) {
    let _held = at_once(condition.acquire()).unwrap();
    condition.notify(count).unwrap();
}

// brief: XT-8
#[test]
fn waiting_and_notifying_without_the_lock_are_misuse() {
    let condition = Condition::new();
    let event_loop = EventLoop::new().unwrap();
    assert_eq!(
        misuse(event_loop.run_until_complete(condition.wait())),
        RuntimeError::NotLocked
    );
    assert_eq!(condition.notify(1), Err(RuntimeError::NotLocked));
    assert_eq!(condition.notify_all(), Err(RuntimeError::NotLocked));
    assert_eq!(condition.release(), Err(RuntimeError::NotLocked));
    assert_eq!(
        format!("{condition:?}"),
        "Condition { locked: false, waiters: 0 }"
    );
}

// brief: XT-8
#[test]
fn the_guard_of_a_waiter_is_good_before_and_after_the_wait() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let waiter = waiting_for(&event_loop, &condition);
    assert!(!condition.locked(), "given back while it waits");
    notify(&condition, 1);
    settle(&event_loop);
    assert!(condition.locked(), "taken again");
    drop(waiter.take_result().unwrap());
    assert!(!condition.locked(), "and given back by the guard from before");
}

// brief: XT-8
#[test]
fn the_longest_waiting_are_notified_first_and_no_more_than_asked_for() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let waiters = [(); 4].map(|()| {
        let condition = condition.clone();
        waiting(&event_loop, async move {
            let _held = condition.acquire().await?;
            condition.wait().await
        })
    });
    notify(&condition, 0);
    assert_eq!(done_of(&event_loop, &waiters), [false; 4]);
    notify(&condition, 2);
    assert_eq!(done_of(&event_loop, &waiters), [true, true, false, false]);
    notify(&condition, 9);
    assert_eq!(done_of(&event_loop, &waiters), [true; 4]);
}

#[test]
fn notify_all_is_not_for_those_who_come_later() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let early = waiting_for(&event_loop, &condition);
    {
        let _held = at_once(condition.acquire()).unwrap();
        condition.notify_all().unwrap();
    }
    settle(&event_loop);
    drop(early.take_result().unwrap());
    let late = waiting_for(&event_loop, &condition);
    settle(&event_loop);
    assert!(!late.done());
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_several_times_retakes_the_lock_first() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let waiter = waiting_for(&event_loop, &condition);
    let held = at_once(condition.acquire()).unwrap();
    for message in ["first", "second", "third"] {
        waiter.cancel_with(message);
        tick(&event_loop);
        tick(&event_loop);
    }
    assert!(!waiter.done(), "the lock is held");
    drop(held);
    settle(&event_loop);
    let error = raised::<CancelledError, _>(waiter.take_result());
    assert_eq!(error.message(), Some("third"));
    assert!(!condition.locked(), "its guard has given the lock back");
}

// brief: XT-8
#[test]
fn a_cancelled_waiter_passes_on_the_notification_it_had_got() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let first = waiting_for(&event_loop, &condition);
    let second = waiting_for(&event_loop, &condition);
    let third = waiting_for(&event_loop, &condition);
    notify(&condition, 1);
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled() && second.done() && !third.done());
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_while_it_retakes_the_lock_passes_the_notification_on() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let first = waiting_for(&event_loop, &condition);
    let second = waiting_for(&event_loop, &condition);
    let held = at_once(condition.acquire()).unwrap();
    condition.notify(1).unwrap();
    settle(&event_loop);
    first.cancel();
    settle(&event_loop);
    assert!(!first.done() && !second.done(), "the lock is held");
    drop(held);
    settle(&event_loop);
    assert!(first.cancelled() && second.done());
}

// brief: XT-8
#[test]
fn a_waiter_cancelled_without_a_notification_wakes_nobody() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let first = waiting_for(&event_loop, &condition);
    let second = waiting_for(&event_loop, &condition);
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled() && !second.done());
    notify(&condition, 1);
    settle(&event_loop);
    assert!(
        second.done(),
        "and the notification is not lost on the cancelled one"
    );
}

// brief: XT-8
#[test]
fn a_waiter_dropped_after_its_notification_passes_it_on() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    at_once(condition.acquire()).unwrap().forget();
    let dropped = begun(&event_loop, condition.wait());
    let next = waiting_for(&event_loop, &condition);
    notify(&condition, 1);
    settle(&event_loop);
    assert!(!next.done());
    drop(dropped);
    settle(&event_loop);
    assert!(next.done());
}

// brief: XT-8
#[test]
fn a_waiter_dropped_while_it_retakes_the_lock_passes_on_both() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    at_once(condition.acquire()).unwrap().forget();
    let notified = begun(&event_loop, condition.wait());
    let next = waiting_for(&event_loop, &condition);
    let held = at_once(condition.acquire()).unwrap();
    condition.notify(1).unwrap();
    let retaking = begun(&event_loop, notified);
    let other = waiting(&event_loop, condition.acquire());
    drop(held);
    settle(&event_loop);
    assert!(!other.done(), "it is the turn of the one that is dropped now");
    drop(retaking);
    settle(&event_loop);
    assert!(other.done() && !next.done(), "the lock was passed on");
    drop(other.take_result().unwrap());
    settle(&event_loop);
    assert!(next.done(), "and the notification, too");
}

// brief: XT-8
#[test]
fn a_wait_dropped_in_the_middle_releases_nobody_elses_hold() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let guard = at_once(condition.acquire()).unwrap();
    let wait = begun(&event_loop, condition.wait());
    let other = at_once(condition.acquire()).unwrap();
    drop(wait);
    drop(guard);
    assert!(condition.locked(), "the other one holds it");
    drop(other);
    assert!(!condition.locked());
}

#[test]
fn two_conditions_of_one_lock_have_waiters_of_their_own() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let (full, empty) = (
        Condition::with_lock(lock.clone()),
        Condition::with_lock(lock.clone()),
    );
    let for_full = waiting_for(&event_loop, &full);
    let for_empty = waiting_for(&event_loop, &empty);
    notify(&empty, 9);
    settle(&event_loop);
    assert!(for_empty.done() && !for_full.done());
    assert!(lock.locked() && full.locked() && full.lock().locked());
}

// brief: XT-8
#[test]
fn wait_for_goes_on_when_the_predicate_holds_and_may_borrow() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let (changed, checks) = (condition.clone(), Rc::new(Cell::new(0)));
    let seen = checks.clone();
    let task = waiting(&event_loop, async move {
        let _held = changed.acquire().await?;
        let (mut calls, locked) = (0, || changed.locked());
        let enough = || {
            assert!(locked(), "asked with the lock held");
            calls += 1;
            calls == 3
        };
        changed.wait_for(enough).await?;
        seen.set(calls);
        Ok(())
    });
    for done in [false, true] {
        notify(&condition, 1);
        settle(&event_loop);
        assert_eq!(task.done(), done);
    }
    task.result().unwrap();
    assert_eq!(checks.get(), 3);
}

#[test]
fn a_predicate_that_holds_at_once_is_not_waited_for() {
    let condition = Condition::new();
    at_once(condition.wait_for(|| true)).unwrap();
    assert_eq!(
        misuse(at_once(condition.wait_for(|| false))),
        RuntimeError::NotLocked
    );
}

// brief: XT-8
#[test]
fn a_predicate_that_panics_leaves_the_lock_to_the_others() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let changed = condition.clone();
    let task = waiting(&event_loop, async move {
        let _held = changed.acquire().await?;
        let mut calls = 0;
        let panics_the_second_time = || {
            calls += 1;
            assert_eq!(calls, 1, "asked again");
            false
        };
        changed.wait_for(panics_the_second_time).await
    });
    notify(&condition, 1);
    settle(&event_loop);
    assert!(task.exception().unwrap().is_some());
    at_once(condition.acquire()).unwrap().release();
}
