//! `Future<T>`: a result that may not exist yet, with callbacks (Python's `futures.py`).
//!
//! What a future is made of is a [`FutureCell`]: a plain one, a task with its coroutine, or an
//! operation with its work. They share [`State`] (in `state.rs`, and what it has come to in
//! `phase.rs`), and differ in what `cancel` and an await mean. How one is awaited is in `awaits.rs`.

mod awaits;
mod phase;
mod state;

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use crate::contexts;
use crate::errors::{CancelledError, Exception, InvalidStateError, Result, RuntimeError};
use crate::handles::{Cancel, boxed};
use crate::loop_core::LoopHandle;
pub use awaits::Take;
pub(crate) use phase::Outcome;
use phase::{DoneCallback, Phase, Stage, Waiter};
pub(crate) use state::{FutureCell, Kind, State, finish, finish_with_result};
use state::{finish_with, schedule_callback};

/// A future that nobody but its holder completes.
struct PlainCell<T> {
    state: State<T>,
}

impl<T: 'static> FutureCell<T> for PlainCell<T> {
    fn state(&self) -> &State<T> {
        &self.state
    }
}

impl<T: 'static> Cancel for PlainCell<T> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let pending = finish(self.clone(), Outcome::cancelled(error)).is_ok();
        // Asking counts as having looked at its error, as in asyncio.
        self.state.set_seen();
        pending
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

/// Names a done callback, for [`Future::remove_done_callback`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallbackKey(u32);

/// A result that may not exist yet (`asyncio.Future`): pending, then finished with a result, with
/// an exception, or cancelled.
///
/// Clones refer to one future, as references do in Python. Callback code adds a done callback;
/// async code awaits it, which gives [`Result<T>`](crate::Result) and needs `T: Clone`, for
/// several may read one result. When the awaiting handle is the last one, the value is moved out
/// and nothing is cloned; [`take`](Self::take) is awaitable without `Clone`.
///
/// A failed future whose exception nobody looked at is reported when its last reference goes.
///
/// A pending future can be awaited by tasks of its own loop, and by other executors on its thread.
/// In a task of another loop the await raises [`RuntimeError::OtherLoop`].
///
/// ```
/// use miniloop::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new()?;
/// let future = event_loop.create_future();
/// let completer = future.clone();
/// event_loop.call_later(Duration::from_millis(1), move || {
///     completer.set_result("ready").expect("completed once");
/// });
/// assert_eq!(event_loop.run_until_complete(future)?, "ready");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Future<T> {
    cell: Rc<dyn FutureCell<T>>,
    /// The key under which this handle waits, 0 if it does not. It belongs to the handle alone:
    /// cloning does not copy it, and dropping the handle ends it. (A `u32` in a whole word, for half of
    /// one would make the handle slow to move.)
    registration: Cell<usize>,
}

impl<T> Future<T> {
    #[inline]
    pub(crate) fn of(cell: Rc<dyn FutureCell<T>>) -> Future<T> {
        Future {
            cell,
            registration: Cell::new(0),
        }
    }

    pub(crate) fn cell(&self) -> &Rc<dyn FutureCell<T>> {
        &self.cell
    }

    /// Its state as it is to be seen now: a yield is done from the next tick on.
    #[inline]
    fn state_now(&self) -> &State<T> {
        let state = self.cell.state();
        if state.kind == Kind::Yield && !state.done() {
            self.cell.clone().polled();
        }
        state
    }

    /// Ends the registration of this handle; the operation is told if it was still waiting.
    #[inline]
    fn leave(&self) {
        if self.registration.get() != 0 {
            self.leave_early();
        }
    }

    #[inline(never)]
    fn leave_early(&self) {
        let was_waiting = self.end_registration();
        let state = self.cell.state();
        if was_waiting && state.is_operation() && !state.done() {
            self.cell.clone().left_alone();
        }
    }

    /// True if it was still waiting.
    fn end_registration(&self) -> bool {
        let key = self.registration.replace(0) as u32;
        let place = Rc::as_ptr(&self.cell).cast();
        self.cell.state().end_registration(place, key)
    }
}

impl<T: 'static> Future<T> {
    /// A future that is done from the start.
    pub(crate) fn with_outcome(event_loop: &LoopHandle, outcome: Outcome<T>) -> Future<T> {
        Future::of(Rc::new(PlainCell {
            state: State::finished(event_loop.clone(), outcome),
        }))
    }

    pub(crate) fn failed(event_loop: &LoopHandle, exception: impl Into<Exception>) -> Future<T> {
        let exception = exception.into();
        // What a closed loop refuses is not a failure to be reported: that would be without end.
        let refused = exception.downcast_ref() == Some(&RuntimeError::LoopClosed);
        let future = Future::with_outcome(event_loop, Outcome::Failed(exception));
        if refused {
            future.cell.state().set_seen();
        }
        future
    }

    /// Whether it is finished, failed or cancelled (`Future.done`).
    pub fn done(&self) -> bool {
        self.state_now().done()
    }

    /// Whether it was cancelled (`Future.cancelled`).
    pub fn cancelled(&self) -> bool {
        self.state_now().is_cancelled()
    }

    /// The loop it belongs to (`Future.get_loop`).
    pub fn get_loop(&self) -> LoopHandle {
        self.cell.state().event_loop.clone()
    }

    /// A copy of the result (`Future.result`).
    ///
    /// # Errors
    /// The exception of a failed future; [`CancelledError`] of a cancelled one;
    /// [`InvalidStateError`] while it is pending, when the result was taken, or inside the result's
    /// own `clone`.
    pub fn result(&self) -> Result<T>
    where
        T: Clone,
    {
        self.state_now().copy_result()
    }

    /// Moves the result out, for a `T` that is not `Clone` or not worth copying. The future stays
    /// done, and has no result any more.
    ///
    /// # Errors
    /// As for [`result`](Self::result).
    pub fn take_result(&self) -> Result<T> {
        self.state_now().take_result()
    }

    /// The exception of a failed future, `None` if it has a result (`Future.exception`). The
    /// future then counts as looked at.
    ///
    /// # Errors
    /// [`CancelledError`] if it was cancelled, [`InvalidStateError`] while it is pending.
    pub fn exception(&self) -> Result<Option<Exception>> {
        let state = self.state_now();
        if !state.done() {
            return Err(InvalidStateError::NotDone.into());
        }
        match state.cancelled_with() {
            Some(exception) => Err(exception),
            None => Ok(state.failure()),
        }
    }

    /// Finishes it with a result (`Future.set_result`). Its callbacks and awaiters are scheduled,
    /// never called from here.
    ///
    /// # Errors
    /// [`InvalidStateError`] if it is done already, or a task's or an operation's.
    #[inline]
    pub fn set_result(&self, result: T) -> Result<(), InvalidStateError> {
        self.finish_by_hand(|| Phase::Result(result))
    }

    /// Finishes it with an exception (`Future.set_exception`): whoever reads the result raises it.
    ///
    /// # Errors
    /// As for [`set_result`](Self::set_result).
    pub fn set_exception(&self, exception: impl Into<Exception>) -> Result<(), InvalidStateError> {
        let exception = exception.into();
        self.finish_by_hand(|| Phase::Failed(exception))
    }

    #[inline]
    fn finish_by_hand(&self, outcome: impl FnOnce() -> Phase<T>) -> Result<(), InvalidStateError> {
        let state = self.state_now();
        if state.done() {
            Err(InvalidStateError::AlreadyDone)
        } else if !state.is_open() {
            Err(InvalidStateError::NotYours)
        } else {
            finish_with(&self.cell, state, outcome)
        }
    }

    /// Cancels it, and tells whether it was pending until now (`Future.cancel`). A plain future or
    /// an operation is done at once; a task is asked to stop, see [`Task`](crate::Task).
    pub fn cancel(&self) -> bool {
        self.state_now();
        self.cell.clone().cancel(&CancelledError::new())
    }

    /// The same with a message, which the [`CancelledError`] carries (`Future.cancel(msg)`).
    pub fn cancel_with(&self, message: impl Into<Cow<'static, str>>) -> bool {
        self.state_now();
        self.cell.clone().cancel(&CancelledError::with_message(message))
    }

    /// Has `callback` called when it is done, through `call_soon` and never from here; a future
    /// that is done schedules it now (`Future.add_done_callback`). A pending operation with a
    /// callback lives on without a handle.
    pub fn add_done_callback(&self, callback: impl FnOnce(&Future<T>) + 'static) -> CallbackKey {
        let callback: DoneCallback<T> = match contexts::captured() {
            None => Box::new(callback),
            Some(context) => Box::new(move |future| context.enter(|| callback(future))),
        };
        CallbackKey(self.add_callback(|key| Waiter::Callback(key, callback)))
    }

    /// The same for a callback that knows its future, and needs no context.
    pub(crate) fn when_done(&self, callback: impl FnOnce() + 'static) -> u32 {
        let callback = boxed(callback);
        self.add_callback(|key| Waiter::Knowing(key, callback))
    }

    #[inline]
    fn add_callback(&self, callback: impl FnOnce(u32) -> Waiter<T>) -> u32 {
        if self.done() {
            schedule_callback(&self.cell, callback(0));
            return 0;
        }
        let state = self.cell.state();
        let key = state.new_key();
        state.add_waiter(|| callback(key));
        if state.is_operation() {
            self.cell.clone().keep();
            self.cell.clone().waited_for();
        }
        key
    }

    /// Takes a done callback away; false if there is none with this key, or if it is scheduled
    /// already because the future is done (`Future.remove_done_callback`).
    pub fn remove_done_callback(&self, key: CallbackKey) -> bool {
        self.forget_when_done(key.0)
    }

    pub(crate) fn forget_when_done(&self, key: u32) -> bool {
        let state = self.cell.state();
        let removed = state.remove_waiter(key);
        if removed.is_some() && state.is_operation() && !state.has_callback() {
            self.cell.release();
        }
        removed.is_some()
    }

    /// An awaitable that moves the result out; other handles then find it taken.
    pub fn take(self) -> Take<T> {
        Take { future: self }
    }
}

impl Future<()> {
    /// Makes one that has a result, and no other handle, as good as new; false if it has one.
    pub(crate) fn renew(&self) -> bool {
        let alone = Rc::strong_count(&self.cell) == 1;
        if alone {
            self.cell.state().give_back(());
        }
        alone
    }
}

impl<T> Clone for Future<T> {
    fn clone(&self) -> Future<T> {
        Future::of(self.cell.clone())
    }
}

impl<T> Drop for Future<T> {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state_now();
        let outcome = match state.stage() {
            Stage::Fresh | Stage::ForOneTask | Stage::Pending => "pending",
            Stage::Failed => "failed",
            Stage::Cancelled => "cancelled",
            Stage::Finished | Stage::Lent => "finished",
        };
        f.debug_struct(state.kind.name())
            .field("state", &outcome)
            .finish_non_exhaustive()
    }
}

impl LoopHandle {
    /// A pending future (`loop.create_future`). On a closed loop it can be completed as anywhere
    /// else, but its callbacks are refused.
    #[inline]
    pub fn create_future<T: 'static>(&self) -> Future<T> {
        // (`new_cyclic` for it makes the future where it stays: to be read at once after it was copied
        // takes longer than to make it.)
        Future::of(Rc::new_cyclic(|_| PlainCell {
            state: State::pending(self.clone(), Kind::Future),
        }))
    }
}
