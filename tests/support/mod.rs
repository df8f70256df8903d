//! What the tests of faults share: how to look at an error, how to see what was
//! reported and dropped, and the proof that a loop still works after a fault.

#![allow(dead_code, unused_imports, reason = "every test target uses a part")]

mod watchdog;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use miniloop::{EventLoop, Exception, InvalidStateError, LoopHandle, RuntimeError};

use crate::common::{pair, send};

pub use watchdog::Watchdog;

/// The error of type `E` that a call raised; anything else fails the test.
#[track_caller]
pub fn raised<E: Error + Clone + 'static, T>(outcome: Result<T, Exception>) -> E {
    match outcome {
        Ok(_) => panic!("nothing was raised"),
        Err(exception) => match exception.downcast_ref::<E>() {
            Some(error) => error.clone(),
            None => panic!("another exception was raised: {exception:?}"),
        },
    }
}

/// Shorthand for the misuse a call was refused for.
#[track_caller]
pub fn misuse<T>(outcome: Result<T, Exception>) -> RuntimeError {
    raised::<RuntimeError, T>(outcome)
}

/// Shorthand for the state error a call on a future gave.
#[track_caller]
pub fn invalid_state<T>(outcome: Result<T, Exception>) -> InvalidStateError {
    raised::<InvalidStateError, T>(outcome)
}

/// The misuse inside the `io::Error` of `add_reader` and `add_writer`.
#[track_caller]
pub fn io_misuse(outcome: io::Result<()>) -> RuntimeError {
    let error = outcome.expect_err("nothing was raised");
    *error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<RuntimeError>())
        .unwrap_or_else(|| panic!("another error: {error:?}"))
}

/// The system's error number inside the exception of a socket operation.
#[track_caller]
pub fn io_error_kind<T>(outcome: Result<T, Exception>) -> io::ErrorKind {
    match outcome {
        Ok(_) => panic!("nothing was raised"),
        Err(exception) => exception
            .downcast_ref::<io::Error>()
            .unwrap_or_else(|| panic!("another exception was raised: {exception:?}"))
            .kind(),
    }
}

/// Collects what the loop reports, each as `MESSAGE: EXCEPTION`.
#[derive(Clone, Default)]
pub struct Reports(Rc<RefCell<Vec<String>>>);

impl Reports {
    pub fn of(event_loop: &LoopHandle) -> Self {
        let reports = Reports::default();
        let inner = Rc::clone(&reports.0);
        event_loop.set_exception_handler(move |_, context| {
            inner.borrow_mut().push(match &context.exception {
                Some(exception) => format!("{}: {exception}", context.message),
                None => context.message.to_string(),
            });
        });
        reports
    }

    /// What was reported since the last look.
    pub fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Counts how many of the things it handed out were dropped.
#[derive(Clone, Default)]
pub struct Drops(Rc<Cell<u32>>);

impl Drops {
    pub fn count(&self) -> u32 {
        self.0.get()
    }

    /// A value to be captured; its drop is counted.
    pub fn counted(&self) -> Counted {
        Counted(self.clone())
    }
}

/// See [`Drops::counted`].
pub struct Counted(Drops);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() + 1);
    }
}

/// Runs its closure when it is dropped.
pub struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDrop<F> {
    pub fn new(action: F) -> Self {
        OnDrop(Some(action))
    }
}

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

/// Suspends once, having woken itself: a bare yield made of nothing but `std`.
pub async fn wake_and_yield() {
    let mut yielded = false;
    std::future::poll_fn(|cx: &mut Context<'_>| {
        if std::mem::replace(&mut yielded, true) {
            Poll::Ready(())
        } else {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// One tick that never blocks, whatever the loop has to do.
pub fn tick(event_loop: &EventLoop) {
    event_loop.call_soon(|| {});
    event_loop.run_once().unwrap();
}

/// As many ticks as anything that is due and readable now needs to settle.
pub fn settle(event_loop: &EventLoop) {
    for _ in 0..10 {
        tick(event_loop);
    }
}

/// Nothing is scheduled and no source is watched any more: a run has nothing to wait for.
#[track_caller]
pub fn nothing_is_left(event_loop: &EventLoop) {
    let never = event_loop.create_future::<()>();
    assert_eq!(
        misuse(event_loop.run_until_complete(never)),
        RuntimeError::Deadlock
    );
}

/// The loop still runs callbacks, tasks, timers and sockets: to be called at the
/// end of every test of a fault.
#[track_caller]
pub fn still_works(event_loop: &EventLoop) {
    let handle = event_loop.handle();
    let (left, right) = pair();
    let task = event_loop.create_task(async move {
        miniloop::sleep(Duration::ZERO).await?;
        let future = handle.create_future();
        let completed = future.clone();
        handle.call_later(Duration::ZERO, move || completed.set_result(40).unwrap());
        let value = future.await?;
        send(&right, b"ab");
        let received = handle.sock_recv(&left, 10).await?;
        Ok(value + received.len())
    });
    assert_eq!(event_loop.run_until_complete(task).unwrap(), 42);
}
