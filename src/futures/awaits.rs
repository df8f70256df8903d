//! Awaiting a future, in a task of its loop or anywhere else on its thread.

use std::fmt;
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Future;
use super::phase::Waiter;
use super::state::{Kind, State};
use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::handles::Cancel;
use crate::loop_core::Awaiting;
use crate::loop_core::part::step_is_interrupted;

/// Says of a handle that an await of it has suspended, which is registered nowhere.
const SUSPENDED: usize = usize::MAX;

impl<T: 'static> Future<T> {
    /// Polls, and reads the outcome with `read` once there is one.
    #[inline(always)] // two looks and the reading: no more than a call and the way back
    fn poll_with(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&State<T>, bool) -> Result<T>,
    ) -> Poll<Result<T>> {
        // Nearly always there is no cancellation to deliver, and then a future that is done is read.
        let state = self.cell.state();
        if state.done() && !step_is_interrupted() {
            self.registration.set(0);
            return Poll::Ready(read(state, Rc::strong_count(&self.cell) == 1));
        }
        self.poll_undone(state, cx, read)
    }

    /// The same where there is more to it. (What is usual, an await that begins and has to wait, and one
    /// of an operation, is kept apart from all the rest, which is much longer.)
    #[inline(never)]
    fn poll_undone(
        &self,
        state: &State<T>,
        cx: &mut Context<'_>,
        read: impl FnOnce(&State<T>, bool) -> Result<T>,
    ) -> Poll<Result<T>> {
        if !state.done() && !step_is_interrupted() {
            let is_first_poll = state.kind == Kind::Future && self.registration.get() == 0;
            if is_first_poll && self.register_task(state, cx.waker()) {
                return Poll::Pending;
            }
            if state.kind != Kind::Future && state.event_loop.core.is_stepping_with(cx.waker()) {
                if state.kind == Kind::Yield && self.cell.yields() {
                    self.registration.set(SUSPENDED);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if state.kind == Kind::Operation {
                    let key = self.registration.get() as u32;
                    let is_over = key != 0 && self.cell.clone().polled_again(key);
                    if !is_over && self.operation_waits(state, cx.waker()) {
                        return Poll::Pending;
                    }
                }
                if state.done() {
                    self.registration.set(0);
                    return Poll::Ready(read(state, Rc::strong_count(&self.cell) == 1));
                }
            }
        }
        self.poll_thoroughly(cx, read)
    }

    /// Polls an operation in a task's step that has nothing to deliver. True if the task waits for it
    /// now.
    #[inline(never)]
    fn operation_waits(&self, state: &State<T>, waker: &Waker) -> bool {
        if self.registration.get() != 0 {
            self.end_registration();
        }
        self.cell.clone().polled();
        !state.done() && self.register_task(state, waker)
    }

    /// The same in all cases.
    #[inline(never)]
    fn poll_thoroughly(
        &self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&State<T>, bool) -> Result<T>,
    ) -> Poll<Result<T>> {
        let state = self.state_now();
        let core = &state.event_loop.core;
        let place = core.awaiting(cx.waker());
        let interrupted = step_is_interrupted();
        let was_registered = self.registration.get() != 0;
        if state.kind == Kind::Task
            && place == Awaiting::InTask
            && core.stepping_at() == Rc::as_ptr(&self.cell).cast()
        {
            return Poll::Ready(Err(RuntimeError::AwaitsItself.into()));
        }
        // The await that was waiting gets it; one that did not suspend never does.
        if was_registered
            && interrupted
            && let Some(error) = core.take_cancellation()
        {
            return Poll::Ready(Err(self.interrupted_by(error).into()));
        }
        if !state.done() {
            if place == Awaiting::Elsewhere && state.event_loop.another_is_stepping() {
                return Poll::Ready(Err(RuntimeError::OtherLoop.into()));
            }
            if was_registered {
                self.end_registration();
            }
            if state.kind == Kind::Operation {
                self.cell.clone().polled();
            }
        }
        if state.kind == Kind::Yield && !state.done() {
            self.yield_with(state, cx.waker(), place);
            return Poll::Pending;
        }
        if !state.done() && self.register(state, cx.waker()) {
            if interrupted
                && !was_registered
                && let Some(error) = core.take_again()
            {
                state.event_loop.cancel_for(None, vec![self.cell.clone()], &error);
            }
            return Poll::Pending;
        }
        self.registration.set(0);
        let arrived_for = if interrupted && was_registered {
            core.resumed()
        } else {
            None
        };
        let result = read(state, Rc::strong_count(&self.cell) == 1);
        Poll::Ready(match arrived_for {
            Some(task) => result.map_err(|error| arrived(error, task)),
            None => result,
        })
    }

    /// A yield suspends for one turn: whoever polls it is woken at once.
    fn yield_with(&self, state: &State<T>, waker: &Waker, place: Awaiting) {
        self.registration.set(SUSPENDED);
        let event_loop = &state.event_loop;
        if step_is_interrupted()
            && let Some(error) = event_loop.core.take_again()
        {
            event_loop.cancel_for(None, vec![self.cell.clone()], &error);
        }
        self.cell.clone().waited_for();
        match place {
            Awaiting::InTask => waker.wake_by_ref(),
            // Not ours: it may do anything.
            _ => event_loop.guard("Exception in a waker", || waker.wake_by_ref()),
        }
    }

    /// Has whoever polls it told when it is done. False if it is done meanwhile.
    fn register(&self, state: &State<T>, waker: &Waker) -> bool {
        if self.register_task(state, waker) {
            return true;
        }
        let core = &state.event_loop.core;
        let waker = waker.clone();
        // Cloning a waker may run anybody's code.
        if state.done() {
            return false;
        }
        let key = state.new_key();
        self.registration.set(key as usize);
        state.add_waiter(|| Waiter::Waker(key, waker));
        if let Some(around) = core.stepping() {
            let cell: Rc<dyn Cancel> = self.cell.clone();
            around
                .part()
                .wait_by_waker(Rc::downgrade(&cell), key, core.scope());
        }
        true
    }

    /// Has the task that polls it, with its own waker, scheduled when it is done. False if it is
    /// polled in another way.
    #[inline(always)] // into the short ways
    fn register_task(&self, state: &State<T>, waker: &Waker) -> bool {
        let core = &state.event_loop.core;
        let Some(task) = core.stepping_with(waker) else {
            return false;
        };
        let key = state.new_key();
        self.registration.set(key as usize);
        task.part().wait_for(self.cell.clone(), key, core.scope());
        state.add_task(key, task);
        true
    }

    /// An await that was waiting ends with a cancellation, whatever has become of the future.
    #[cold]
    fn interrupted_by(&self, error: CancelledError) -> CancelledError {
        // What it had come to meanwhile stays in it; if that is a failure, it is reported.
        let error = match self.cell.state().cancellation() {
            Some(arriving) => error.behind(&arriving),
            None => error,
        };
        self.leave();
        error
    }
}

/// A request that this task had passed on to a task, and that has come back, is its own again.
fn arrived(exception: Exception, task: u64) -> Exception {
    match exception.downcast_ref::<CancelledError>() {
        Some(error) if !error.is_of_task(task) => error.clone().of_task(task).into(),
        _ => exception,
    }
}

impl<T: Clone + 'static> StdFuture for Future<T> {
    type Output = Result<T>;

    #[inline(always)] // see `poll_with`
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.poll_with(cx, |state, is_last_handle| match is_last_handle {
            true => state.take_result(),
            false => state.copy_result(),
        })
    }
}

impl<T> Future<T> {
    /// Says that an await of this handle has suspended, which is registered nowhere.
    pub(crate) fn has_suspended(&self) {
        self.registration.set(SUSPENDED);
    }
}

impl Future<()> {
    /// Polls a handle inside of another awaitable, in no short way.
    pub(crate) fn poll_inside(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_thoroughly(cx, |state, _| state.copy_result())
    }
}

/// The awaitable that [`Future::take`] makes.
pub struct Take<T> {
    pub(crate) future: Future<T>,
}

impl<T: 'static> StdFuture for Take<T> {
    type Output = Result<T>;

    #[inline(always)] // see `poll_with`
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.future.poll_with(cx, |state, _| state.take_result())
    }
}

impl<T> fmt::Debug for Take<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Take").field(&self.future).finish()
    }
}
