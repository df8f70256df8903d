//! Ten thousand waiters, most of them cancelled, woken or dropped: nothing is searched through.

use std::cell::RefCell;
use std::rc::Rc;

use miniloop::{Barrier, Condition, Event, EventLoop, Lock, Semaphore, Task, create_task, sleep};

use super::{at_once, begun, waiting};
use crate::support::{Watchdog, settle, tick};

const CROWD: usize = 10_000;

fn crowd<T>(member: impl Fn(usize) -> Task<T>) -> Vec<Task<T>> {
    (0..CROWD).map(member).collect()
}

// brief: XT-8
#[test]
fn of_ten_thousand_waiters_for_a_lock_the_cancelled_ones_are_skipped() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let lock = Lock::new();
    let held = at_once(lock.acquire()).unwrap();
    let served = Rc::new(RefCell::new(Vec::new()));
    let tasks = crowd(|number| {
        let (lock, served) = (lock.clone(), served.clone());
        event_loop.create_task(async move {
            let _held = lock.acquire().await?;
            served.borrow_mut().push(number);
            Ok(())
        })
    });
    tick(&event_loop);
    // From the back, so that they pile up behind those that wait.
    for (number, task) in tasks.iter().enumerate().rev() {
        if number % 100 != 0 {
            task.cancel();
        }
    }
    tick(&event_loop);
    drop(held);
    event_loop.run_until_complete(tasks[CROWD - 100].clone()).unwrap();
    assert!(served.take().into_iter().eq((0..CROWD).step_by(100)));
    assert!(!lock.locked());
}

// brief: XT-8
#[test]
fn a_newcomer_finds_out_at_once_that_ten_thousand_are_cancelled() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (lock, semaphore) = (Lock::new(), Semaphore::new(0));
    at_once(lock.acquire()).unwrap().forget();
    let for_lock = crowd(|_| event_loop.create_task(lock.acquire()));
    let for_permit = crowd(|_| event_loop.create_task(semaphore.acquire()));
    tick(&event_loop);
    let cancel = |task: &Task<_>| assert!(task.cancel());
    for_lock.iter().for_each(cancel);
    for_permit.iter().for_each(|task| assert!(task.cancel()));
    lock.release().unwrap();
    semaphore.release();
    for _ in 0..CROWD {
        at_once(lock.acquire()).unwrap().release();
        at_once(semaphore.acquire()).unwrap().release();
    }
    settle(&event_loop);
    assert!(for_lock.iter().all(|task| task.cancelled()));
    assert!(for_permit.iter().all(|task| task.cancelled()));
}

// brief: XT-8
#[test]
fn ten_thousand_permits_for_ten_thousand_waiters_some_of_them_cancelled_after_that() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let semaphore = Semaphore::new(0);
    let tasks = crowd(|_| event_loop.create_task(semaphore.acquire()));
    tick(&event_loop);
    for task in &tasks {
        semaphore.release();
        assert!(semaphore.locked());
        if task.get_name().ends_with('7') {
            task.cancel();
        }
    }
    settle(&event_loop);
    let cancelled = tasks.iter().filter(|task| task.cancelled()).count();
    assert_eq!(cancelled, CROWD / 10);
    assert!(tasks.iter().all(|task| task.done()));
    drop(tasks);
    let text = format!("{semaphore:?}");
    assert_eq!(text, "Semaphore { locked: false, permits: 10000, waiters: 0 }");
}

// brief: XT-8
#[test]
fn ten_thousand_dropped_in_the_middle_leave_no_trace() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (lock, event) = (Lock::new(), Event::new());
    let held = at_once(lock.acquire()).unwrap();
    let mut waits: Vec<_> = (0..CROWD).map(|_| begun(&event_loop, lock.acquire())).collect();
    let for_event: Vec<_> = (0..CROWD).map(|_| begun(&event_loop, event.wait())).collect();
    event.set();
    drop(held);
    // The middle, the front, the back.
    drop(waits.drain(CROWD / 4..CROWD / 2));
    drop(waits.drain(..CROWD / 4));
    drop((waits, for_event));
    assert_eq!(format!("{lock:?}"), "Lock { locked: false, waiters: 0 }");
    assert_eq!(format!("{event:?}"), "Event { set: true, waiters: 0 }");
}

// brief: XT-8
#[test]
fn ten_thousand_are_notified_one_by_one() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let condition = Condition::new();
    let served = Rc::new(RefCell::new(Vec::new()));
    let tasks = crowd(|number| {
        let (condition, served) = (condition.clone(), served.clone());
        event_loop.create_task(async move {
            let _held = condition.acquire().await?;
            condition.wait().await?;
            served.borrow_mut().push(number);
            Ok(())
        })
    });
    tick(&event_loop);
    let notifier = waiting(&event_loop, async move {
        for _ in 0..CROWD {
            let _held = condition.acquire().await?;
            condition.notify(1)?;
            sleep(std::time::Duration::ZERO).await?;
        }
        Ok(())
    });
    event_loop.run_until_complete(notifier).unwrap();
    settle(&event_loop);
    assert!(tasks.iter().all(|task| task.done()));
    assert!(served.take().into_iter().eq(0..CROWD));
}

// brief: XT-8
#[test]
fn ten_thousand_meet_at_a_barrier_twice() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let barrier = Barrier::new(CROWD).unwrap();
    let numbers = event_loop
        .run_until_complete(async move {
            let tasks = crowd(|_| {
                let barrier = barrier.clone();
                create_task(async move {
                    barrier.wait().await?;
                    barrier.wait().await
                })
            });
            let mut numbers = Vec::new();
            for task in tasks {
                numbers.push(task.await?);
            }
            Ok(numbers)
        })
        .unwrap();
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..CROWD));
}
