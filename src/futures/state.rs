//! What all futures have in common: pending with those who wait, or done with an outcome.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::Future;
use crate::errors::{CancelledError, Exception, InvalidStateError, Result};
use crate::few::Few;
use crate::handles::{Cancel, TaskControl};
use crate::hooks::ExceptionContext;
use crate::loop_core::{LoopHandle, Stepper};

/// What a future has come to.
pub(crate) enum Outcome<T> {
    Result(T),
    Failed(Exception),
    Cancelled(Exception),
}

impl<T> Outcome<T> {
    pub(crate) fn cancelled(error: &CancelledError) -> Outcome<T> {
        Outcome::Cancelled(error.clone().into())
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
pub(super) type DoneCallback<T> = Box<dyn FnOnce(&Future<T>)>;

/// Who is told when it is done, and the key of that registration (beside each, for so it takes no
/// room of its own).
pub(super) enum Waiter<T> {
    /// A task of this loop that awaits it: it is scheduled, without any waker.
    Task(u32, Rc<dyn Stepper>),
    /// Anything else that polled it.
    Waker(u32, Waker),
    Callback(u32, DoneCallback<T>),
}

impl<T> Waiter<T> {
    fn key(&self) -> u32 {
        match self {
            Waiter::Task(key, _) | Waiter::Waker(key, _) | Waiter::Callback(key, _) => *key,
        }
    }
}

/// What a future is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Future,
    Task,
    /// It does something of its own when it is polled or waited for, or not waited for any more: only
    /// of this kind, and the next, the [`FutureCell`] is told.
    Operation,
    /// The same, and it is done as soon as it is awaited; but the await takes a tick.
    Yield,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Future | Kind::Operation | Kind::Yield => "Future",
            Kind::Task => "Task",
        }
    }
}

/// Pending, or one of the outcomes. (An [`Outcome`] inside of it would take more room.)
pub(super) enum Phase<T> {
    /// Those who wait, in the order they came.
    Pending(Few<Waiter<T>>),
    Result(T),
    Failed(Exception),
    Cancelled(Exception),
    Taken,
}

impl<T> Phase<T> {
    /// The task that waits, of a phase in which nobody else does.
    #[inline]
    fn into_lone_task(self) -> Option<(u32, Rc<dyn Stepper>)> {
        match self {
            Phase::Pending(Few::One(Waiter::Task(key, task))) => Some((key, task)),
            // There is nothing else, and so nothing that the compiler had better look for in it.
            other => {
                std::mem::forget(other);
                None
            }
        }
    }
}

impl<T> From<Outcome<T>> for Phase<T> {
    #[inline]
    fn from(outcome: Outcome<T>) -> Phase<T> {
        match outcome {
            Outcome::Result(value) => Phase::Result(value),
            Outcome::Failed(exception) => Phase::Failed(exception),
            Outcome::Cancelled(exception) => Phase::Cancelled(exception),
        }
    }
}

/// The part that all futures have in common.
pub(crate) struct State<T> {
    pub(crate) event_loop: LoopHandle,
    phase: RefCell<Phase<T>>,
    /// Whether that is anything but `Pending`: asked often.
    done: Cell<bool>,
    last_key: Cell<u32>,
    /// Somebody has looked at the exception, or it is reported in another way.
    seen: Cell<bool>,
    pub(super) kind: Kind,
}

impl<T> State<T> {
    #[inline]
    pub(crate) fn pending(event_loop: LoopHandle, kind: Kind) -> State<T> {
        State::with(event_loop, kind, Phase::Pending(Few::None))
    }

    pub(super) fn finished(event_loop: LoopHandle, outcome: Outcome<T>) -> State<T> {
        State::with(event_loop, Kind::Future, outcome.into())
    }

    #[inline]
    fn with(event_loop: LoopHandle, kind: Kind, phase: Phase<T>) -> State<T> {
        State {
            event_loop,
            done: Cell::new(!matches!(phase, Phase::Pending(_))),
            phase: RefCell::new(phase),
            last_key: Cell::new(0),
            seen: Cell::new(false),
            kind,
        }
    }

    #[inline]
    pub(crate) fn done(&self) -> bool {
        self.done.get()
    }

    /// Whether anybody may complete it, and not only its own task or operation.
    pub(super) fn is_open(&self) -> bool {
        self.kind == Kind::Future
    }

    #[inline]
    pub(super) fn is_operation(&self) -> bool {
        matches!(self.kind, Kind::Operation | Kind::Yield)
    }

    /// What it has come to, or those who wait.
    pub(super) fn phase(&self) -> Ref<'_, Phase<T>> {
        self.phase.borrow()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Cancelled(_))
    }

    /// The error of a cancelled one.
    pub(super) fn cancellation(&self) -> Option<CancelledError> {
        match &*self.phase.borrow() {
            Phase::Cancelled(exception) => exception.downcast_ref().cloned(),
            _ => None,
        }
    }

    /// Whether it has failed; that is not looking at the exception.
    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Failed(_))
    }

    /// The exception of a failed one, which then counts as looked at.
    pub(crate) fn failure(&self) -> Option<Exception> {
        match &*self.phase.borrow() {
            Phase::Failed(exception) => {
                self.set_seen();
                Some(exception.clone())
            }
            _ => None,
        }
    }

    /// Puts another outcome in the place of one that nobody is going to read any more.
    pub(super) fn renew(&self, outcome: Outcome<T>) {
        self.seen.set(false);
        let old = self.phase.replace(outcome.into());
        drop(old);
    }

    pub(crate) fn set_seen(&self) {
        self.seen.set(true);
    }

    pub(crate) fn is_seen(&self) -> bool {
        self.seen.get()
    }

    /// The key of a new registration.
    #[inline]
    pub(super) fn new_key(&self) -> u32 {
        // 0 is "not registered"; four billion registrations on one pending future wrap around.
        let key = self.last_key.get().checked_add(1).unwrap_or(1);
        self.last_key.set(key);
        key
    }

    /// Adds one who waits; nothing is added once it is done.
    pub(super) fn add_waiter(&self, waiter: Waiter<T>) {
        if let Phase::Pending(waiters) = &mut *self.phase.borrow_mut() {
            waiters.push(waiter);
        }
    }

    /// Adds a task of this loop; mostly it is the only one who waits.
    #[inline]
    pub(super) fn add_task(&self, key: u32, task: Rc<dyn Stepper>) {
        match &mut *self.phase.borrow_mut() {
            Phase::Pending(waiters @ Few::None) => {
                let none = std::mem::replace(waiters, Few::One(Waiter::Task(key, task)));
                // The compiler would look for something to drop in it.
                std::mem::forget(none);
            }
            Phase::Pending(waiters) => waiters.push(Waiter::Task(key, task)),
            _ => {}
        }
    }

    /// Takes the one who waits away, if it is a task with this key, and nobody else does.
    #[inline]
    pub(super) fn remove_lone_task(&self, key: u32) -> Option<Rc<dyn Stepper>> {
        if self.done() {
            return None;
        }
        let phase = &mut *self.phase.borrow_mut();
        match phase {
            Phase::Pending(Few::One(Waiter::Task(its_key, _))) if *its_key == key => {
                let before = std::mem::replace(phase, Phase::Pending(Few::None));
                before.into_lone_task().map(|(_, task)| task)
            }
            _ => None,
        }
    }

    pub(super) fn remove_waiter(&self, key: u32) -> Option<Waiter<T>> {
        // Asked first, for a result that is being cloned is borrowed, and its `clone` may come here.
        if self.done() {
            return None;
        }
        match &mut *self.phase.borrow_mut() {
            Phase::Pending(waiters) => waiters.remove(|waiter| waiter.key() == key),
            _ => None,
        }
    }

    pub(crate) fn has_waiter(&self, key: u32) -> bool {
        match &*self.phase.borrow() {
            Phase::Pending(waiters) => waiters.as_slice().iter().any(|waiter| waiter.key() == key),
            _ => false,
        }
    }

    pub(super) fn has_callback(&self) -> bool {
        match &*self.phase.borrow() {
            Phase::Pending(waiters) => waiters
                .as_slice()
                .iter()
                .any(|waiter| matches!(waiter, Waiter::Callback(..))),
            _ => false,
        }
    }

    /// The one who waits, if it is a task that goes on, and nobody else.
    pub(crate) fn lone_task(&self) -> Option<Rc<dyn Stepper>> {
        match &*self.phase.borrow() {
            Phase::Pending(waiters) => match waiters.as_slice() {
                [Waiter::Task(_, task)] if task.is_unfinished() => Some(task.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn copy_result(&self) -> Result<T>
    where
        T: Clone,
    {
        match &*self.phase.borrow() {
            Phase::Pending(_) => Err(InvalidStateError::NotDone.into()),
            Phase::Result(value) => Ok(value.clone()),
            Phase::Taken => Err(InvalidStateError::Taken.into()),
            Phase::Failed(exception) | Phase::Cancelled(exception) => {
                self.set_seen();
                Err(exception.clone())
            }
        }
    }

    pub(super) fn take_result(&self) -> Result<T> {
        // Borrowed only where the value's own `clone` has come back here: there it has to stay.
        let mut phase = self
            .phase
            .try_borrow_mut()
            .map_err(|_| InvalidStateError::InUse)?;
        match &mut *phase {
            Phase::Pending(_) => Err(InvalidStateError::NotDone.into()),
            Phase::Taken => Err(InvalidStateError::Taken.into()),
            Phase::Failed(exception) | Phase::Cancelled(exception) => {
                self.set_seen();
                Err(exception.clone())
            }
            result => match std::mem::replace(result, Phase::Taken) {
                Phase::Result(value) => Ok(value),
                // There is nothing else, and so nothing to drop.
                other => {
                    std::mem::forget(other);
                    Err(InvalidStateError::Taken.into())
                }
            },
        }
    }

    /// The last reference goes: reports an exception that nobody has looked at.
    #[inline]
    pub(crate) fn report_unseen(&self, task_name: impl FnOnce() -> Option<String>) {
        if self.is_failed() && !self.is_seen() {
            self.report(task_name());
        }
    }

    #[cold]
    fn report(&self, task_name: Option<String>) {
        let Some(exception) = self.failure() else {
            return;
        };
        let context = ExceptionContext::new(format!("{} exception was never retrieved", self.kind.name()))
            .with_exception(exception)
            .with_task_name(task_name);
        self.event_loop.call_exception_handler(&context);
    }
}

impl<T> State<T> {
    /// Values and closures are the user's: a panic while one is dropped is reported.
    fn drop_contents(&mut self) {
        const WHERE: &str = "Exception while a future was dropped";
        self.report_unseen(|| None);
        match std::mem::replace(self.phase.get_mut(), Phase::Taken) {
            Phase::Pending(waiters) => {
                waiters.for_each(|waiter| self.event_loop.guard(WHERE, || drop(waiter)))
            }
            outcome => self.event_loop.guard(WHERE, || drop(outcome)),
        }
    }
}

impl<T> Drop for State<T> {
    #[inline]
    fn drop(&mut self) {
        let is_empty = match self.phase.get_mut() {
            Phase::Pending(waiters) => waiters.is_empty(),
            Phase::Result(_) => !std::mem::needs_drop::<T>(),
            Phase::Failed(_) | Phase::Cancelled(_) => false,
            Phase::Taken => true,
        };
        if !is_empty {
            self.drop_contents();
        }
    }
}

/// What a future is made of. What is said to it beyond that is only said to a [`Kind::Operation`].
pub(crate) trait FutureCell<T>: Cancel {
    fn state(&self) -> &State<T>;

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

    /// The task, if it is one.
    fn task(self: Rc<Self>) -> Option<Rc<dyn TaskControl>> {
        None
    }
}

/// Completes a future: whoever waits for it is scheduled, in the order they came.
pub(crate) fn finish<T: 'static>(
    cell: Rc<dyn FutureCell<T>>,
    outcome: Outcome<T>,
) -> Result<(), InvalidStateError> {
    finish_with(&cell, cell.state(), || outcome.into())
}

/// The same with a result.
pub(crate) fn finish_with_result<T: 'static>(
    cell: Rc<dyn FutureCell<T>>,
    result: T,
) -> Result<(), InvalidStateError> {
    finish_with(&cell, cell.state(), || Phase::Result(result))
}

/// The same for an outcome that is made in its place: to copy what was written in parts just before is
/// slow.
#[inline]
pub(super) fn finish_with<T: 'static>(
    cell: &Rc<dyn FutureCell<T>>,
    state: &State<T>,
    outcome: impl FnOnce() -> Phase<T>,
) -> Result<(), InvalidStateError> {
    if state.done.replace(true) {
        return Err(InvalidStateError::AlreadyDone);
    }
    // Mostly there is a task that waits, or nobody: the rest is not made part of the caller.
    let mut phase = state.phase.borrow_mut();
    match &*phase {
        Phase::Pending(Few::One(Waiter::Task(..))) if state.kind != Kind::Operation => {
            let before = std::mem::replace(&mut *phase, outcome());
            drop(phase);
            if let Some((key, task)) = before.into_lone_task() {
                let future = Rc::as_ptr(cell).cast();
                state.event_loop.core.wake_awaiting(task, future, key);
            }
        }
        Phase::Pending(Few::None) if state.kind != Kind::Operation => {
            // As above, nothing in it needs to be dropped.
            std::mem::forget(std::mem::replace(&mut *phase, outcome()));
        }
        _ => {
            let before = std::mem::replace(&mut *phase, outcome());
            drop(phase);
            if let Phase::Pending(waiters) = before {
                tell(cell, state, waiters);
            }
        }
    }
    Ok(())
}

/// Tells those who wait that it is done, and the cell if it is an operation.
fn tell<T: 'static>(cell: &Rc<dyn FutureCell<T>>, state: &State<T>, waiters: Few<Waiter<T>>) {
    if state.kind == Kind::Operation {
        cell.release();
    }
    waiters.for_each(|waiter| match waiter {
        Waiter::Task(key, task) => state
            .event_loop
            .core
            .wake_awaiting(task, Rc::as_ptr(cell).cast(), key),
        Waiter::Waker(_, waker) => state.event_loop.guard("Exception in a waker", || waker.wake()),
        Waiter::Callback(_, callback) => schedule_callback(cell, callback),
    });
}

pub(super) fn schedule_callback<T: 'static>(cell: &Rc<dyn FutureCell<T>>, callback: DoneCallback<T>) {
    let future = Future::of(cell.clone());
    cell.state()
        .event_loop
        .schedule(Box::new(move || callback(&future)));
}

#[cfg(test)]
mod tests {
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_future_is_small() {
        assert_eq!(size_of::<super::State<()>>(), 48);
    }
}
