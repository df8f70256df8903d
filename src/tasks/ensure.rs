//! `ensure_future`: what is a future already is waited for, everything else becomes a task.

use std::any::Any;
use std::future::Future as StdFuture;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::Task;
use crate::errors::{Result, RuntimeError};
use crate::futures::{Future, Take};
use crate::loop_core::LoopHandle;
use crate::sleep::Sleep;
use crate::sockets::SockRecv;

/// An awaitable, and the future that says when it is done (`asyncio.ensure_future`).
pub(crate) struct Ensured<T, F> {
    pub(crate) future: Future<T>,
    /// The awaitable itself, if it is a future of this crate: only it knows whether its result
    /// can be cloned for other handles.
    given: Option<F>,
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Ensured<T, F> {
    /// A future or task as it is; anything else becomes a task of the loop that `event_loop` gives.
    pub(crate) fn new(awaitable: F, create_task: impl FnOnce(F) -> Task<T>) -> Ensured<T, F> {
        match future_of(&awaitable) {
            Some(future) => Ensured {
                future,
                given: Some(awaitable),
            },
            None => Ensured {
                future: create_task(awaitable).future,
                given: None,
            },
        }
    }

    /// The outcome of what is done.
    pub(crate) fn outcome(self) -> Result<T> {
        let Some(awaitable) = self.given else {
            return self.future.take_result();
        };
        // The awaitable moves the result out if it is the last handle.
        drop(self.future);
        let awaitable = pin!(awaitable);
        match awaitable.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Err(RuntimeError::StoppedBeforeDone.into()),
        }
    }
}

/// The future of this crate that an awaitable is, if it is one.
pub(crate) fn future_of<T: 'static>(awaitable: &dyn Any) -> Option<Future<T>> {
    if let Some(future) = awaitable.downcast_ref::<Future<T>>() {
        Some(future.clone())
    } else if let Some(task) = awaitable.downcast_ref::<Task<T>>() {
        Some(task.future().clone())
    } else if let Some(take) = awaitable.downcast_ref::<Take<T>>() {
        Some(take.future.clone())
    } else {
        let sleep = awaitable.downcast_ref().map(|sleep: &Sleep| &**sleep as &dyn Any);
        let receive = || {
            awaitable
                .downcast_ref()
                .map(|receive: &SockRecv| &**receive as &dyn Any)
        };
        sleep.or_else(receive)?.downcast_ref::<Future<T>>().cloned()
    }
}

impl LoopHandle {
    pub(crate) fn ensure_future<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
        &self,
        awaitable: F,
    ) -> Ensured<T, F> {
        Ensured::new(awaitable, |coroutine| self.create_task(coroutine))
    }
}
