//! `Lock` and its guard.

use miniloop::{EventLoop, Exception, Lock, PanicError, RuntimeError, get_running_loop, sleep};

use super::{at_once, begun, waiting};
use crate::common::Trace;
use crate::support::{raised, settle, still_works, tick};

// brief: XT-8
#[test]
fn a_guard_gives_the_lock_back_when_it_is_dropped_or_released() {
    let lock = Lock::new();
    let guard = at_once(lock.acquire()).unwrap();
    assert!(lock.locked());
    drop(guard);
    assert!(!lock.locked());
    at_once(lock.acquire()).unwrap().release();
    assert!(!lock.locked());
}

// brief: XT-8
#[test]
fn releasing_a_lock_that_nobody_holds_is_misuse() {
    let lock = Lock::new();
    assert_eq!(lock.release(), Err(RuntimeError::NotLocked));
    at_once(lock.acquire()).unwrap().forget();
    assert!(lock.locked(), "a forgotten guard keeps it");
    assert_eq!(lock.release(), Ok(()));
    assert_eq!(lock.release(), Err(RuntimeError::NotLocked));
}

// brief: XT-8
#[test]
fn a_guard_never_releases_the_hold_of_somebody_else() {
    let lock = Lock::new();
    let stale = at_once(lock.acquire()).unwrap();
    lock.release().unwrap();
    let other = at_once(lock.acquire()).unwrap();
    drop(stale);
    assert!(lock.locked(), "the other one holds it");
    drop(other);
    assert!(!lock.locked());
}

#[test]
fn a_stale_guard_does_not_wake_a_second_waiter() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let stale = at_once(lock.acquire()).unwrap();
    let first = waiting(&event_loop, lock.acquire());
    let second = waiting(&event_loop, lock.acquire());
    lock.release().unwrap();
    drop(stale);
    settle(&event_loop);
    assert!(first.done() && !second.done());
}

// brief: XT-8
#[test]
fn waiters_are_served_in_the_order_they_came() {
    let event_loop = EventLoop::new().unwrap();
    let (lock, trace) = (Lock::new(), Trace::new());
    let tasks = ["a", "b", "c"].map(|name| {
        let (lock, trace) = (lock.clone(), trace.clone());
        event_loop.create_task(async move {
            let _held = lock.acquire().await?;
            trace.push(format!("{name}-in"));
            sleep(std::time::Duration::ZERO).await?;
            trace.push(format!("{name}-out"));
            Ok(())
        })
    });
    for task in tasks {
        event_loop.run_until_complete(task).unwrap();
    }
    assert_eq!(trace.lines(), ["a-in", "a-out", "b-in", "b-out", "c-in", "c-out"]);
}

// brief: XT-8
#[test]
fn a_released_lock_reads_unlocked_but_can_not_be_taken_past_the_waiter() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let guard = at_once(lock.acquire()).unwrap();
    let waiter = waiting(&event_loop, lock.acquire());
    guard.release();
    assert!(!lock.locked());
    let newcomer = begun(&event_loop, lock.acquire());
    assert!(waiter.done() && lock.locked());
    drop(newcomer);
    drop(waiter.take_result().unwrap());
    assert!(!lock.locked());
}

#[test]
fn a_newcomer_may_pass_waiters_that_were_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    at_once(lock.acquire()).unwrap().forget();
    let waiter = waiting(&event_loop, lock.acquire());
    waiter.cancel();
    lock.release().unwrap();
    let taken = at_once(lock.acquire()).unwrap();
    settle(&event_loop);
    assert!(waiter.cancelled() && lock.locked());
    drop(taken);
    assert!(!lock.locked());
}

// brief: XT-8
#[test]
fn a_cancelled_waiter_passes_the_lock_on() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    at_once(lock.acquire()).unwrap().forget();
    let first = waiting(&event_loop, lock.acquire());
    let second = waiting(&event_loop, lock.acquire());
    lock.release().unwrap();
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled() && second.done() && lock.locked());
    assert_eq!(format!("{lock:?}"), "Lock { locked: true, waiters: 0 }");
}

// brief: XT-8
#[test]
fn a_waiter_dropped_after_its_turn_came_passes_the_lock_on() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    at_once(lock.acquire()).unwrap().forget();
    let dropped = begun(&event_loop, lock.acquire());
    let next = waiting(&event_loop, lock.acquire());
    lock.release().unwrap();
    settle(&event_loop);
    assert!(!next.done(), "it is the first one's turn");
    drop(dropped);
    settle(&event_loop);
    assert!(next.done() && lock.locked());
}

// brief: XT-8
#[test]
fn a_waiter_dropped_before_its_turn_leaves_the_queue() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let guard = at_once(lock.acquire()).unwrap();
    let dropped = begun(&event_loop, lock.acquire());
    let next = waiting(&event_loop, lock.acquire());
    drop(dropped);
    settle(&event_loop);
    assert!(!next.done() && lock.locked());
    drop(guard);
    settle(&event_loop);
    assert!(next.done() && lock.locked());
}

#[test]
fn an_acquisition_that_was_never_polled_is_no_waiter() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let unpolled = lock.acquire();
    assert!(!lock.locked());
    let guard = at_once(lock.acquire()).unwrap();
    let waiter = waiting(&event_loop, lock.acquire());
    drop(guard);
    settle(&event_loop);
    assert!(waiter.done());
    drop(unpolled);
    assert!(lock.locked());
}

#[test]
fn a_cancelled_task_that_finds_the_lock_free_takes_it_all_the_same() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let taken = lock.clone();
    let task = event_loop.create_task(async move {
        let task = miniloop::current_task().ok_or(RuntimeError::NotInTask)?;
        task.cancel();
        let guard = taken.acquire().await?;
        assert!(taken.locked());
        sleep(std::time::Duration::ZERO).await?;
        drop(guard);
        Ok(())
    });
    settle(&event_loop);
    assert!(task.cancelled(), "the sleep has delivered it");
    assert!(!lock.locked(), "and the guard was dropped");
}

// brief: XT-8
#[test]
fn a_guard_dropped_during_unwinding_gives_the_lock_to_the_next() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let panicking = lock.clone();
    let first = event_loop.create_task(async move {
        let _held = panicking.acquire().await?;
        get_running_loop()?.sleep(std::time::Duration::ZERO).await?;
        if panicking.locked() {
            panic!("with the lock held");
        }
        Ok::<(), Exception>(())
    });
    let second = event_loop.create_task(lock.acquire());
    tick(&event_loop);
    assert!(!first.done() && !second.done());
    settle(&event_loop);
    let panic = raised::<PanicError, _>(first.result());
    assert_eq!(panic.message(), "with the lock held");
    assert!(second.done() && lock.locked());
    still_works(&event_loop);
}

#[test]
fn a_guard_can_be_handed_to_another_task() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let guard = at_once(lock.acquire()).unwrap();
    let waiter = waiting(&event_loop, lock.acquire());
    let holder = event_loop.create_task(async move {
        sleep(std::time::Duration::ZERO).await?;
        drop(guard);
        Ok(())
    });
    settle(&event_loop);
    assert!(holder.done() && waiter.done() && lock.locked());
}
