//! Locks used by the code that they run: foreign wakers, and destructors.

use std::cell::{Cell, RefCell};
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use miniloop::{Barrier, Condition, Event, EventLoop, Exception, Lock, Semaphore};

use super::{at_once, begun, done_of, waiting, waiting_for};
use crate::support::{OnDrop, Reports, settle, still_works};

thread_local! {
    // A waker has to be `Send`; what it is to do is left here.
    static ON_WAKE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A waker that does what was left for it, when it is woken or its last clone is dropped.
struct DoesIt;

impl DoesIt {
    fn act() {
        if let Some(action) = ON_WAKE.take() {
            action();
        }
    }
}

impl Wake for DoesIt {
    fn wake(self: Arc<Self>) {
        DoesIt::act();
    }
}

impl Drop for DoesIt {
    fn drop(&mut self) {
        DoesIt::act();
    }
}

/// Begins a wait whose waker does `action`.
fn begun_with<F: StdFuture + 'static>(
    event_loop: &EventLoop,
    future: F,
    action: impl FnOnce() + 'static,
) -> Pin<Box<F>> {
    let main = async move {
        let mut future = Box::pin(future);
        let waker = Waker::from(Arc::new(DoesIt));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        Ok(future)
    };
    let future = event_loop.run_until_complete(main).unwrap();
    ON_WAKE.set(Some(Box::new(action)));
    future
}

// brief: XT-8
#[test]
fn a_waker_may_use_the_lock_that_wakes_it() {
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let held = at_once(lock.acquire()).unwrap();
    let (seen, used) = (Rc::new(RefCell::new(String::new())), lock.clone());
    let text = seen.clone();
    let woken = begun_with(&event_loop, lock.acquire(), move || {
        let _ = used.release();
        let _ = used.locked();
        text.replace(format!("{used:?}"));
    });
    drop(held);
    assert_eq!(*seen.borrow(), "Lock { locked: false, waiters: 1 }");
    drop(woken);
    at_once(lock.acquire()).unwrap().release();
}

// brief: XT-8
#[test]
fn a_waker_may_clear_the_event_that_wakes_it_and_all_are_woken_all_the_same() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let again = event.clone();
    let first = begun_with(&event_loop, event.wait(), move || {
        again.clear();
        again.set();
        again.clear();
    });
    let others = [(); 2].map(|()| waiting(&event_loop, event.wait()));
    event.set();
    let late = waiting(&event_loop, event.wait());
    assert_eq!(done_of(&event_loop, &others), [true; 2]);
    assert!(!event.is_set() && !late.done());
    drop(first);
}

// brief: XT-8
#[test]
fn a_waker_may_release_and_use_the_semaphore_that_wakes_it() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let again = semaphore.clone();
    let first = begun_with(&event_loop, semaphore.acquire(), move || {
        assert!(again.locked());
        again.release();
    });
    let others = [(); 2].map(|()| waiting(&event_loop, semaphore.acquire()));
    semaphore.release();
    assert_eq!(done_of(&event_loop, &others), [true, false]);
    drop(first);
    assert_eq!(done_of(&event_loop, &others), [true, true]);
    drop(others);
    assert!(!semaphore.locked());
}

#[test]
fn a_permit_released_by_the_waker_of_the_only_waiter_is_kept() {
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let again = semaphore.clone();
    let woken = begun_with(&event_loop, semaphore.acquire(), move || again.release());
    semaphore.release();
    drop(woken);
    let both = [(); 2].map(|()| at_once(semaphore.acquire()).unwrap());
    assert!(semaphore.locked());
    drop(both);
}

// brief: XT-8
#[test]
fn one_who_comes_while_the_others_are_woken_is_not_woken_with_them() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let (again, late) = (event.clone(), Rc::new(RefCell::new(None)));
    let kept = late.clone();
    let first = begun_with(&event_loop, event.wait(), move || {
        again.clear();
        let mut wait = Box::pin(again.wait());
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        kept.replace(Some((wait, polled.is_pending())));
    });
    let setting = event.clone();
    event_loop.call_soon(move || setting.set());
    settle(&event_loop);
    let (wait, was_pending) = late.take().unwrap();
    assert!(was_pending);
    let late = waiting(&event_loop, wait);
    event.set();
    settle(&event_loop);
    assert!(late.done());
    drop(first);
}

// brief: XT-8
#[test]
fn a_waker_may_notify_the_condition_that_wakes_it() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    at_once(condition.acquire()).unwrap().forget();
    let again = condition.clone();
    let first = begun_with(&event_loop, condition.wait(), move || {
        again.notify(1).unwrap();
    });
    let second = waiting_for(&event_loop, &condition);
    let third = waiting_for(&event_loop, &condition);
    at_once(condition.acquire()).unwrap().forget();
    condition.notify(1).unwrap();
    condition.release().unwrap();
    settle(&event_loop);
    assert!(second.done() && !third.done());
    drop(first);
    drop(second);
    settle(&event_loop);
    assert!(third.done(), "the first one's notification was passed on");
}

// brief: XT-8
#[test]
fn a_waker_that_panics_stops_nobody() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let event = Event::new();
    let panicking = begun_with(&event_loop, event.wait(), || panic!("in a waker"));
    let other = waiting(&event_loop, event.wait());
    event.set();
    settle(&event_loop);
    assert!(other.done());
    assert_eq!(reports.take(), ["Exception in a waker: panicked: in a waker"]);
    drop(panicking);
    still_works(&event_loop);
}

// brief: XT-8
#[test]
fn a_waker_may_use_the_lock_when_it_is_dropped_with_the_wait() {
    let event_loop = EventLoop::new().unwrap();
    let (lock, semaphore) = (Lock::new(), Semaphore::new(0));
    let held = at_once(lock.acquire()).unwrap();
    let (seen, used, counted) = (Rc::new(Cell::new(0)), lock.clone(), semaphore.clone());
    let times = seen.clone();
    drop(begun_with(&event_loop, lock.acquire(), move || {
        used.release().unwrap();
        times.set(times.get() + 1);
    }));
    assert!(!lock.locked());
    drop(held);
    let times = seen.clone();
    drop(begun_with(&event_loop, semaphore.acquire(), move || {
        counted.release();
        times.set(times.get() + 1);
    }));
    assert!(!semaphore.locked());
    assert_eq!(seen.get(), 2);
}

// brief: XT-8
#[test]
fn destructors_may_use_the_lock_their_coroutine_waits_for() {
    let lock = Lock::new();
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let held = at_once(lock.acquire()).unwrap();
    let (seen, inside) = (Rc::new(Cell::new(0)), lock.clone());
    let times = seen.clone();
    let _task = waiting(&event_loop, async move {
        let used = inside.clone();
        let _at_the_end = OnDrop::new(move || {
            let _ = format!("{used:?}");
            // There is another waiter, and no running loop to wait with.
            assert!(!used.locked() && at_once(used.acquire()).is_err());
            times.set(times.get() + 1);
        });
        let _held = inside.acquire().await?;
        Ok::<(), Exception>(())
    });
    let next = waiting(&event_loop, lock.acquire());
    drop(held);
    drop(event_loop);
    assert!(next.done() && !lock.locked());
    assert_eq!(seen.get(), 1);
}

// brief: XT-8
#[test]
fn done_callbacks_may_release_and_set_what_tasks_wait_for() {
    let event_loop = EventLoop::new().unwrap();
    let (lock, event, semaphore) = (Lock::new(), Event::new(), Semaphore::new(0));
    at_once(lock.acquire()).unwrap().forget();
    let owner = waiting(&event_loop, lock.acquire());
    let waiter = waiting(&event_loop, event.wait());
    let user = waiting(&event_loop, semaphore.acquire());
    let all = (lock.clone(), event.clone(), semaphore.clone());
    event_loop.call_soon(move || {
        all.0.release().unwrap();
        all.2.release();
    });
    let set = event.clone();
    owner.add_done_callback(move |_| set.set());
    settle(&event_loop);
    assert!(owner.done() && waiter.done() && user.done());
}

#[test]
fn a_predicate_may_use_the_condition_it_is_asked_for() {
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let changed = condition.clone();
    let task = event_loop.create_task(async move {
        let _held = changed.acquire().await?;
        let used = changed.clone();
        let mut asked = 0;
        changed
            .wait_for(move || {
                asked += 1;
                used.notify_all().unwrap();
                let _ = format!("{used:?}");
                asked == 2
            })
            .await
    });
    settle(&event_loop);
    assert!(!task.done());
    let held = at_once(condition.acquire()).unwrap();
    condition.notify(1).unwrap();
    drop(held);
    settle(&event_loop);
    task.result().unwrap();
}

#[test]
fn a_barrier_wait_dropped_by_the_waker_of_another_is_gone() {
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(3).unwrap();
    let kept = Rc::new(RefCell::new(None));
    let dropping = kept.clone();
    let first = begun_with(&event_loop, barrier.wait(), move || drop(dropping.take()));
    kept.replace(Some(begun(&event_loop, barrier.wait())));
    let last = event_loop.run_until_complete(barrier.wait()).unwrap();
    assert_eq!(last, 2);
    assert!(kept.borrow().is_none(), "dropped while the barrier opened");
    drop(first);
    assert_eq!(barrier.n_waiting(), 0);
    let all = [(); 3].map(|()| event_loop.create_task(barrier.wait()));
    assert_eq!(done_of(&event_loop, &all), [true; 3]);
    let polled = super::poll_now(barrier.abort());
    assert!(matches!(polled, Poll::Ready(Ok(()))));
}
