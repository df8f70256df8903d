//! Locks, events, conditions, semaphores, barriers: turns, cancellation, drops, misuse.

mod common;
mod support;

#[path = "locks/barrier.rs"]
mod barrier;
#[path = "locks/condition.rs"]
mod condition;
#[path = "locks/crowds.rs"]
mod crowds;
#[path = "locks/event.rs"]
mod event;
#[path = "locks/like_asyncio.rs"]
mod like_asyncio;
#[path = "locks/lock.rs"]
mod lock;
#[path = "locks/loops.rs"]
mod loops;
#[path = "locks/reentry.rs"]
mod reentry;
#[path = "locks/semaphore.rs"]
mod semaphore;

use std::future::{Future as StdFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use miniloop::{Condition, EventLoop, LockGuard, Result, Task};

use support::{settle, tick};

/// Polls a future once, outside of any task, with a waker that does nothing.
fn poll_now<T>(future: impl StdFuture<Output = T>) -> Poll<T> {
    Box::pin(future)
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

/// What a future gives that does not have to wait, without any loop.
#[track_caller]
fn at_once<T>(future: impl StdFuture<Output = Result<T>>) -> Result<T> {
    match poll_now(future) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("it waits"),
    }
}

/// A wait that was begun by a task and is now in the hands of the test, to be dropped.
fn begun<F: StdFuture + 'static>(event_loop: &EventLoop, future: F) -> Pin<Box<F>> {
    let main = async move {
        let mut future = Box::pin(future);
        let waits = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "it does not have to wait");
        Ok(future)
    };
    event_loop.run_until_complete(main).unwrap()
}

/// A task that waits for it, and has begun to.
fn waiting<T: 'static>(
    event_loop: &EventLoop,
    future: impl StdFuture<Output = Result<T>> + 'static,
) -> Task<T> {
    let task = event_loop.create_task(future);
    tick(event_loop);
    assert!(!task.done(), "it does not have to wait");
    task
}

/// A task that waits for a notification; it gives the guard that it took before.
fn waiting_for(event_loop: &EventLoop, condition: &Condition) -> Task<LockGuard> {
    let condition = condition.clone();
    waiting(event_loop, async move {
        let held = condition.acquire().await?;
        condition.wait().await?;
        Ok(held)
    })
}

/// How many of these tasks are done after everything has settled.
fn done_of<T: 'static>(event_loop: &EventLoop, tasks: &[Task<T>]) -> Vec<bool> {
    settle(event_loop);
    tasks.iter().map(|task| task.done()).collect()
}
