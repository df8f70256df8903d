//! `Future<T>`: a result that may not exist yet, with callbacks (Python's `futures.py`).
//!
//! What a future is made of is a [`FutureCell`]: a plain one, a task with its coroutine, or an
//! operation with its work. They share [`State`], and differ in what `cancel` and an await mean.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::errors::{CancelledError, Exception, InvalidStateError, Result, RuntimeError};
use crate::few::Few;
use crate::handles::Cancel;
use crate::hooks::ExceptionContext;
use crate::loop_core::{LoopHandle, Stepper};

/// What a future has come to. It leaves `Pending` once, and then changes no more, but that a
/// result can be taken.
pub(crate) enum Outcome<T> {
    Pending,
    Result(T),
    Failed(Exception),
    Cancelled(Exception),
    Taken,
}

impl<T> Outcome<T> {
    pub(crate) fn cancelled() -> Outcome<T> {
        Outcome::Cancelled(CancelledError::new().into())
    }
}

impl<T> From<Result<T>> for Outcome<T> {
    fn from(result: Result<T>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::Result(value),
            Err(exception) => Outcome::Failed(exception),
        }
    }
}

/// A done callback.
type DoneCallback<T> = Box<dyn FnOnce(&Future<T>)>;

/// Who is told when it is done.
pub(crate) enum Waiter<T> {
    /// A task of this loop that awaits it: it is scheduled, without any waker.
    Task(Rc<dyn Stepper>),
    /// Anything else that polled it.
    Waker(Waker),
    Callback(DoneCallback<T>),
}

/// A [`Waiter`] that polls.
pub(crate) enum Awaiter {
    Task(Rc<dyn Stepper>),
    Waker(Waker),
}

impl Awaiter {
    pub(crate) fn wake(self, event_loop: &LoopHandle) {
        match self {
            Awaiter::Task(task) => task.wake(),
            Awaiter::Waker(waker) => event_loop.guard("Exception in a waker", || waker.wake()),
        }
    }
}

/// The part that all futures have in common.
pub(crate) struct State<T> {
    pub(crate) event_loop: LoopHandle,
    outcome: RefCell<Outcome<T>>,
    waiters: RefCell<Few<(u32, Waiter<T>)>>,
    last_key: Cell<u32>,
    /// Somebody has looked at the exception, or it is reported in another way.
    seen: Cell<bool>,
    pub(crate) kind: &'static str,
}

impl<T> State<T> {
    pub(crate) fn new(event_loop: LoopHandle, kind: &'static str, outcome: Outcome<T>) -> State<T> {
        State {
            event_loop,
            outcome: RefCell::new(outcome),
            waiters: RefCell::new(Few::None),
            last_key: Cell::new(0),
            seen: Cell::new(false),
            kind,
        }
    }

    pub(crate) fn done(&self) -> bool {
        !matches!(*self.outcome.borrow(), Outcome::Pending)
    }

    fn cancelled(&self) -> bool {
        matches!(*self.outcome.borrow(), Outcome::Cancelled(_))
    }

    pub(crate) fn set_seen(&self) {
        self.seen.set(true);
    }

    fn add_waiter(&self, waiter: Waiter<T>) -> u32 {
        // 0 is "not registered"; four billion registrations on one pending future wrap around.
        let key = self.last_key.get().checked_add(1).unwrap_or(1);
        self.last_key.set(key);
        self.waiters.borrow_mut().push((key, waiter));
        key
    }

    fn remove_waiter(&self, key: u32) -> Option<Waiter<T>> {
        let removed = self.waiters.borrow_mut().remove(|(other, _)| *other == key);
        removed.map(|(_, waiter)| waiter)
    }

    fn has_callback(&self) -> bool {
        let waiters = self.waiters.borrow();
        waiters
            .as_slice()
            .iter()
            .any(|(_, waiter)| matches!(waiter, Waiter::Callback(_)))
    }

    /// The one who waits, if it is one and no callback: it can be woken to do the rest itself.
    pub(crate) fn lone_awaiter(&self) -> Option<Awaiter> {
        match self.waiters.borrow().as_slice() {
            [(_, Waiter::Task(task))] => Some(Awaiter::Task(task.clone())),
            [(_, Waiter::Waker(waker))] => Some(Awaiter::Waker(waker.clone())),
            _ => None,
        }
    }

    /// Runs `read` on the outcome of a finished future and marks its exception as seen.
    fn read<R>(&self, read: impl FnOnce(&Outcome<T>) -> Result<R>) -> Result<R> {
        self.seen.set(true);
        let outcome = self.outcome.try_borrow().map_err(|_| InvalidStateError::InUse)?;
        match &*outcome {
            Outcome::Pending => {
                self.seen.set(false);
                Err(InvalidStateError::NotDone.into())
            }
            Outcome::Failed(exception) | Outcome::Cancelled(exception) => Err(exception.clone()),
            Outcome::Taken => Err(InvalidStateError::Taken.into()),
            Outcome::Result(_) => read(&outcome),
        }
    }

    fn copy_result(&self) -> Result<T>
    where
        T: Clone,
    {
        self.read(|outcome| match outcome {
            Outcome::Result(value) => Ok(value.clone()),
            _ => Err(InvalidStateError::NotDone.into()),
        })
    }

    pub(crate) fn take_result(&self) -> Result<T> {
        self.read(|_| Ok(()))?;
        // The value is being cloned while this runs inside its `clone`: it has to stay there.
        let mut outcome = self
            .outcome
            .try_borrow_mut()
            .map_err(|_| InvalidStateError::InUse)?;
        match std::mem::replace(&mut *outcome, Outcome::Taken) {
            Outcome::Result(value) => Ok(value),
            _ => Err(InvalidStateError::Taken.into()),
        }
    }

    /// The last reference goes: reports an exception that nobody has looked at.
    pub(crate) fn report_unseen(&self, task_name: impl FnOnce() -> Option<String>) {
        let exception = match &*self.outcome.borrow() {
            Outcome::Failed(exception) if !self.seen.replace(true) => exception.clone(),
            _ => return,
        };
        let context = ExceptionContext::new(format!("{} exception was never retrieved", self.kind))
            .with_exception(exception)
            .with_task_name(task_name());
        self.event_loop.call_exception_handler(&context);
    }
}

impl<T> Drop for State<T> {
    fn drop(&mut self) {
        self.report_unseen(|| None);
        let outcome = self.outcome.replace(Outcome::Taken);
        let waiters = self.waiters.borrow_mut().take();
        // Values and closures are the user's: a panic while one is dropped is reported.
        if std::mem::needs_drop::<T>() || !waiters.is_empty() {
            self.event_loop
                .guard("Exception while a future was dropped", || drop(outcome));
            self.event_loop
                .guard("Exception while a future was dropped", || drop(waiters));
        }
    }
}

/// What a future is made of.
pub(crate) trait FutureCell<T>: Cancel {
    fn state(&self) -> &State<T>;

    /// Whether anybody may complete it, or only its own task or operation.
    fn is_open(&self) -> bool {
        false
    }

    /// It is polled and still pending: an operation that knows itself ready goes on.
    fn polled(self: Rc<Self>) {}

    /// It was awaited, or given a callback, and is pending.
    fn waited_for(self: Rc<Self>) {}

    /// One that waited is gone without having got the outcome.
    fn left_alone(self: Rc<Self>) {}

    /// A callback waits for it: an operation lives on without a handle.
    fn keep(self: Rc<Self>) {}

    /// No callback waits any more.
    fn release(&self) {}

    /// What it has beyond a future, if it is a task.
    fn task(&self) -> Option<&dyn TaskControl> {
        None
    }
}

/// What a task has beyond a future.
pub(crate) trait TaskControl {
    fn cancelling(&self) -> u32;
    fn uncancel(&self) -> u32;
    fn name(&self) -> String;
    fn set_name(&self, name: String);
}

/// Completes a future: whoever waits for it is scheduled, in the order they came.
pub(crate) fn finish<T: 'static>(
    cell: Rc<dyn FutureCell<T>>,
    outcome: Outcome<T>,
) -> Result<(), InvalidStateError> {
    let state = cell.state();
    if state.done() {
        return Err(InvalidStateError::AlreadyDone);
    }
    state.outcome.replace(outcome);
    let waiters = state.waiters.borrow_mut().take();
    cell.release();
    waiters.for_each(|(key, waiter)| match waiter {
        Waiter::Task(task) => {
            task.stop_waiting_for(Rc::as_ptr(&cell).cast(), key);
            task.wake();
        }
        Waiter::Waker(waker) => state.event_loop.guard("Exception in a waker", || waker.wake()),
        Waiter::Callback(callback) => schedule_callback(&cell, callback),
    });
    Ok(())
}

fn schedule_callback<T: 'static>(cell: &Rc<dyn FutureCell<T>>, callback: DoneCallback<T>) {
    let future = Future::of(cell.clone());
    cell.state().event_loop.call_soon(move || callback(&future));
}

/// A future that nobody but its holder completes.
struct PlainCell<T> {
    state: State<T>,
}

impl<T: 'static> FutureCell<T> for PlainCell<T> {
    fn state(&self) -> &State<T> {
        &self.state
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl<T: 'static> Cancel for PlainCell<T> {
    fn cancel(self: Rc<Self>) -> bool {
        let pending = finish(self.clone(), Outcome::cancelled()).is_ok();
        // Asking counts as having looked at its error, as in asyncio.
        self.state.set_seen();
        pending
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
    /// cloning does not copy it, and dropping the handle ends it.
    registration: Cell<u32>,
}

impl<T> Future<T> {
    pub(crate) fn of(cell: Rc<dyn FutureCell<T>>) -> Future<T> {
        Future {
            cell,
            registration: Cell::new(0),
        }
    }

    pub(crate) fn cell(&self) -> &Rc<dyn FutureCell<T>> {
        &self.cell
    }

    /// Ends the registration of this handle; the operation is told if it was still waiting.
    fn leave(&self) {
        if self.end_registration() && !self.cell.state().done() {
            self.cell.clone().left_alone();
        }
    }

    fn end_registration(&self) -> bool {
        let key = self.registration.replace(0);
        if key == 0 {
            return false;
        }
        let removed = self.cell.state().remove_waiter(key);
        if let Some(Waiter::Task(task)) = &removed {
            task.stop_waiting_for(Rc::as_ptr(&self.cell).cast(), key);
        }
        removed.is_some()
    }
}

impl<T: 'static> Future<T> {
    /// A future that is done from the start, or pending for ever if `outcome` says so.
    pub(crate) fn with_outcome(event_loop: &LoopHandle, outcome: Outcome<T>) -> Future<T> {
        Future::of(Rc::new(PlainCell {
            state: State::new(event_loop.clone(), "Future", outcome),
        }))
    }

    pub(crate) fn failed(event_loop: &LoopHandle, exception: impl Into<Exception>) -> Future<T> {
        Future::with_outcome(event_loop, Outcome::Failed(exception.into()))
    }

    /// Whether it is finished, failed or cancelled (`Future.done`).
    pub fn done(&self) -> bool {
        self.cell.state().done()
    }

    /// Whether it was cancelled (`Future.cancelled`).
    pub fn cancelled(&self) -> bool {
        self.cell.state().cancelled()
    }

    /// The loop it belongs to (`Future.get_loop`).
    pub fn get_loop(&self) -> LoopHandle {
        self.cell.state().event_loop.clone()
    }

    /// A copy of the result (`Future.result`).
    ///
    /// # Errors
    /// The exception of a failed future; [`CancelledError`] of a cancelled one;
    /// [`InvalidStateError`] while it is pending, or when the result was taken.
    pub fn result(&self) -> Result<T>
    where
        T: Clone,
    {
        self.cell.state().copy_result()
    }

    /// Moves the result out, for a `T` that is not `Clone` or not worth copying. The future stays
    /// done, and has no result any more.
    ///
    /// # Errors
    /// As for [`result`](Self::result).
    pub fn take_result(&self) -> Result<T> {
        self.cell.state().take_result()
    }

    /// The exception of a failed future, `None` if it has a result (`Future.exception`). The
    /// future then counts as looked at.
    ///
    /// # Errors
    /// [`CancelledError`] if it was cancelled, [`InvalidStateError`] while it is pending.
    pub fn exception(&self) -> Result<Option<Exception>> {
        let state = self.cell.state();
        let outcome = state.outcome.try_borrow().map_err(|_| InvalidStateError::InUse)?;
        match &*outcome {
            Outcome::Pending => Err(InvalidStateError::NotDone.into()),
            Outcome::Cancelled(exception) => Err(exception.clone()),
            Outcome::Failed(exception) => {
                state.set_seen();
                Ok(Some(exception.clone()))
            }
            Outcome::Result(_) | Outcome::Taken => Ok(None),
        }
    }

    /// Finishes it with a result (`Future.set_result`). Its callbacks and awaiters are scheduled,
    /// never called from here.
    ///
    /// # Errors
    /// [`InvalidStateError`] if it is done already, or a task's or an operation's.
    pub fn set_result(&self, result: T) -> Result<(), InvalidStateError> {
        self.finish_by_hand(Outcome::Result(result))
    }

    /// Finishes it with an exception (`Future.set_exception`): whoever reads the result raises it.
    ///
    /// # Errors
    /// As for [`set_result`](Self::set_result).
    pub fn set_exception(&self, exception: impl Into<Exception>) -> Result<(), InvalidStateError> {
        self.finish_by_hand(Outcome::Failed(exception.into()))
    }

    fn finish_by_hand(&self, outcome: Outcome<T>) -> Result<(), InvalidStateError> {
        if self.done() {
            Err(InvalidStateError::AlreadyDone)
        } else if !self.cell.is_open() {
            Err(InvalidStateError::NotYours)
        } else {
            finish(self.cell.clone(), outcome)
        }
    }

    /// Cancels it, and tells whether it was pending until now (`Future.cancel`). A plain future or
    /// an operation is done at once; a task is asked to stop, see [`Task`](crate::Task).
    pub fn cancel(&self) -> bool {
        self.cell.clone().cancel()
    }

    /// Has `callback` called when it is done, through `call_soon` and never from here; a future
    /// that is done schedules it now (`Future.add_done_callback`). A pending operation with a
    /// callback lives on without a handle.
    pub fn add_done_callback(&self, callback: impl FnOnce(&Future<T>) + 'static) -> CallbackKey {
        let callback = Box::new(callback);
        if self.done() {
            schedule_callback(&self.cell, callback);
            return CallbackKey(0);
        }
        let key = self.cell.state().add_waiter(Waiter::Callback(callback));
        self.cell.clone().keep();
        self.cell.clone().waited_for();
        CallbackKey(key)
    }

    /// Takes a done callback away; false if there is none with this key, or if it is scheduled
    /// already because the future is done (`Future.remove_done_callback`).
    pub fn remove_done_callback(&self, key: CallbackKey) -> bool {
        let state = self.cell.state();
        let removed = state.remove_waiter(key.0);
        if removed.is_some() && !state.has_callback() {
            self.cell.release();
        }
        removed.is_some()
    }

    /// An awaitable that moves the result out; other handles then find it taken.
    pub fn take(self) -> Take<T> {
        Take { future: self }
    }

    /// Polls, and reads the outcome with `read` once there is one.
    fn poll_with(&self, cx: &mut Context<'_>, read: impl FnOnce(&Self) -> Result<T>) -> Poll<Result<T>> {
        let state = self.cell.state();
        let task = state.event_loop.core.stepping_with(cx.waker());
        if let Some(task) = &task {
            if task.address() == Rc::as_ptr(&self.cell).cast() {
                return Poll::Ready(Err(RuntimeError::AwaitsItself.into()));
            }
            // The await that was waiting gets it; one that did not suspend never does.
            if self.registration.get() != 0 && task.take_cancellation() {
                self.leave();
                return Poll::Ready(Err(CancelledError::new().into()));
            }
        }
        if !state.done() {
            self.end_registration();
            self.cell.clone().polled();
        }
        if state.done() {
            self.registration.set(0);
            return Poll::Ready(read(self));
        }
        let waiter = match &task {
            Some(task) => Waiter::Task(task.clone()),
            None => Waiter::Waker(cx.waker().clone()),
        };
        let key = state.add_waiter(waiter);
        self.registration.set(key);
        if let Some(task) = task {
            task.wait_for(self.cell.clone(), key);
        }
        self.cell.clone().waited_for();
        Poll::Pending
    }
}

impl<T: Clone + 'static> StdFuture for Future<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.poll_with(cx, |future| {
            if Rc::strong_count(&future.cell) == 1 {
                future.take_result()
            } else {
                future.result()
            }
        })
    }
}

impl<T> Clone for Future<T> {
    fn clone(&self) -> Future<T> {
        Future::of(self.cell.clone())
    }
}

impl<T> Drop for Future<T> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.cell.state();
        let outcome = match state.outcome.try_borrow().as_deref() {
            Ok(Outcome::Pending) => "pending",
            Ok(Outcome::Failed(_)) => "failed",
            Ok(Outcome::Cancelled(_)) => "cancelled",
            Ok(Outcome::Result(_) | Outcome::Taken) | Err(_) => "finished",
        };
        f.debug_struct(state.kind)
            .field("state", &outcome)
            .finish_non_exhaustive()
    }
}

/// The awaitable that [`Future::take`] makes.
pub struct Take<T> {
    pub(crate) future: Future<T>,
}

impl<T: 'static> StdFuture for Take<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.future.poll_with(cx, Future::take_result)
    }
}

impl<T> fmt::Debug for Take<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Take").field(&self.future).finish()
    }
}

impl LoopHandle {
    /// A pending future (`loop.create_future`). On a closed loop it can be completed as anywhere
    /// else, but its callbacks are refused.
    pub fn create_future<T: 'static>(&self) -> Future<T> {
        Future::with_outcome(self, Outcome::Pending)
    }
}
