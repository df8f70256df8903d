//! Futures polled with a waker whose own code gets in the way.

#![allow(unsafe_code, reason = "only a raw waker runs code when it is cloned")]

use std::cell::{Cell, RefCell};
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use miniloop::{EventLoop, Future};

use crate::support::still_works;

thread_local! {
    /// The future that the next clone of the waker completes.
    static TO_COMPLETE: RefCell<Option<Future<i32>>> = const { RefCell::new(None) };
    static WAKES: Cell<u32> = const { Cell::new(0) };
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        if let Some(future) = TO_COMPLETE.take() {
            future.set_result(1).unwrap();
        }
        RawWaker::new(data, &TABLE)
    },
    |_| WAKES.set(WAKES.get() + 1),
    |_| WAKES.set(WAKES.get() + 1),
    |_| (),
);

fn completing_waker() -> Waker {
    // SAFETY: the functions of the table keep no data, and the waker stays in this thread.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

#[test]
fn a_completion_during_the_clone_of_a_waker_is_not_missed() {
    let event_loop = EventLoop::new().unwrap();
    let mut future = event_loop.create_future::<i32>();
    TO_COMPLETE.set(Some(future.clone()));
    let waker = completing_waker();
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
    match polled {
        Poll::Ready(value) => assert_eq!(value.unwrap(), 1),
        Poll::Pending => assert_eq!(WAKES.get(), 1, "or nobody would poll again"),
    }
    assert!(TO_COMPLETE.take().is_none(), "the waker was cloned");
    still_works(&event_loop);
}
