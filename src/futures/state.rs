//! What all futures have in common: pending with those who wait, or done with an outcome.

use std::cell::Cell;
use std::rc::Rc;

use super::Future;
use super::phase::{Outcome, Phase, Stage, Waiter};
use crate::errors::{CancelledError, Exception, InvalidStateError, Result};
use crate::few::Few;
use crate::handles::{Cancel, TaskControl, boxed_in_place};
use crate::hooks::ExceptionContext;
use crate::loop_core::{LoopHandle, Stepper};

/// What a future is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Future,
    Task,
    /// It does something of its own when it is polled or given a callback, or not waited for any more: only
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

/// The part that all futures have in common.
pub(crate) struct State<T> {
    pub(crate) event_loop: LoopHandle,
    phase: Cell<Phase<T>>,
    last_key: Cell<u32>,
    stage: Cell<Stage>,
    /// Somebody has looked at the exception, or it is reported in another way.
    seen: Cell<bool>,
    pub(super) kind: Kind,
    /// Makes eight bytes of the last four: they are written at once, for to read across two writes, which are
    /// that new, takes as long as twenty instructions.
    _room: u8,
}

impl<T> State<T> {
    #[inline]
    pub(crate) fn pending(event_loop: LoopHandle, kind: Kind) -> State<T> {
        State::with(event_loop, kind, Phase::Pending(Few::NONE))
    }

    pub(super) fn finished(event_loop: LoopHandle, outcome: Outcome<T>) -> State<T> {
        State::with(event_loop, Kind::Future, outcome.into())
    }

    #[inline]
    fn with(event_loop: LoopHandle, kind: Kind, phase: Phase<T>) -> State<T> {
        State {
            event_loop,
            stage: Cell::new(phase.stage()),
            phase: Cell::new(phase),
            last_key: Cell::new(0),
            seen: Cell::new(false),
            kind,
            _room: 0,
        }
    }

    #[inline]
    pub(super) fn stage(&self) -> Stage {
        self.stage.get()
    }

    #[inline]
    pub(crate) fn done(&self) -> bool {
        self.stage() >= Stage::Finished
    }

    /// Whether anybody may complete it, and not only its own task or operation.
    pub(super) fn is_open(&self) -> bool {
        self.kind == Kind::Future
    }

    #[inline]
    pub(super) fn is_operation(&self) -> bool {
        matches!(self.kind, Kind::Operation | Kind::Yield)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.stage() == Stage::Cancelled
    }

    /// Whether it has failed; that is not looking at the exception.
    #[inline]
    pub(crate) fn is_failed(&self) -> bool {
        self.stage() == Stage::Failed
    }

    /// Looks at the phase, with no code of a user's.
    #[inline]
    fn look<R>(&self, look: impl FnOnce(&mut Phase<T>) -> R) -> R {
        let mut phase = self.phase.replace(Phase::Taken);
        let seen = look(&mut phase);
        self.phase.replace(phase).forget();
        seen
    }

    /// The error of a cancelled one.
    pub(super) fn cancellation(&self) -> Option<CancelledError> {
        self.look(|phase| match phase {
            Phase::Cancelled(exception) => exception.downcast_ref().cloned(),
            _ => None,
        })
    }

    /// The exception of a failed or cancelled one, which then counts as looked at.
    fn raised(&self) -> Option<Exception> {
        self.look(|phase| match phase {
            Phase::Failed(exception) | Phase::Cancelled(exception) => {
                self.set_seen();
                Some(exception.clone())
            }
            _ => None,
        })
    }

    /// The exception of a failed one, which then counts as looked at.
    pub(crate) fn failure(&self) -> Option<Exception> {
        self.is_failed().then(|| self.raised())?
    }

    /// The exception of a cancelled one, with whatever it was made of.
    pub(super) fn cancelled_with(&self) -> Option<Exception> {
        self.is_cancelled().then(|| self.raised())?
    }

    /// Gives one that is done with a result that result back, if it was taken.
    pub(super) fn give_back(&self, result: T) {
        self.look(|phase| {
            if matches!(phase, Phase::Taken) {
                *phase = Phase::Result(result);
            }
        });
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

    /// Takes one who waits away, and tells the task if it is one. True if it was still waiting. `future` is
    /// where the future is.
    #[inline]
    pub(crate) fn end_registration(&self, future: *const (), key: u32) -> bool {
        let removed = self.remove_waiter(key);
        if let Some(Waiter::Task(_, task)) = &removed {
            task.part().stop_waiting_for(future, key);
        }
        removed.is_some()
    }

    /// Adds one who waits; nothing is added once it is done. (Mostly it is the first, and is made in its
    /// place: see `finish_with`.)
    #[inline]
    pub(super) fn add_waiter(&self, waiter: impl FnOnce() -> Waiter<T>) {
        if self.stage() != Stage::Fresh {
            return self.add_to_others(waiter());
        }
        self.stage.set(Stage::Pending);
        let waiters = Few::One(waiter());
        self.phase.replace(Phase::Pending(waiters)).forget();
    }

    #[inline(never)]
    fn add_to_others(&self, waiter: Waiter<T>) {
        if self.done() {
            return;
        }
        self.stage.set(Stage::Pending);
        self.look(|phase| {
            if let Phase::Pending(waiters) = phase {
                waiters.push(waiter);
            }
        });
    }

    /// Adds a task of this loop; mostly it is the only one who waits.
    #[inline(always)] // into the one place where it is called
    pub(super) fn add_task(&self, key: u32, task: Rc<dyn Stepper>) {
        if self.stage() != Stage::Fresh {
            return self.add_to_others(Waiter::Task(key, task));
        }
        self.stage.set(Stage::ForOneTask);
        let waiters = Few::One(Waiter::Task(key, task));
        self.phase.replace(Phase::Pending(waiters)).forget();
    }

    /// Takes one who waits away; mostly that is a task, and nobody else waits.
    #[inline]
    pub(super) fn remove_waiter(&self, key: u32) -> Option<Waiter<T>> {
        if self.stage() != Stage::ForOneTask {
            return self.remove_one_of_many(key);
        }
        let (its_key, task) = self.phase.replace(Phase::Pending(Few::NONE)).into_lone_task()?;
        if its_key == key {
            self.stage.set(Stage::Fresh);
            return Some(Waiter::Task(key, task));
        }
        let waiters = Few::One(Waiter::Task(its_key, task));
        self.phase.replace(Phase::Pending(waiters)).forget();
        None
    }

    fn remove_one_of_many(&self, key: u32) -> Option<Waiter<T>> {
        if self.done() {
            return None;
        }
        self.look(|phase| {
            let Phase::Pending(waiters) = phase else {
                return None;
            };
            let removed = waiters.remove(|waiter| waiter.key() == key);
            if waiters.is_empty() {
                self.stage.set(Stage::Fresh);
            }
            removed
        })
    }

    pub(crate) fn has_waiter(&self, key: u32) -> bool {
        self.look(|phase| match phase {
            Phase::Pending(waiters) => waiters.as_slice().iter().any(|waiter| waiter.key() == key),
            _ => false,
        })
    }

    pub(super) fn has_callback(&self) -> bool {
        self.look(|phase| match phase {
            Phase::Pending(waiters) => waiters.as_slice().iter().any(Waiter::is_callback),
            _ => false,
        })
    }

    /// The one who waits, if it is a task that goes on, and nobody else.
    pub(crate) fn lone_task(&self) -> Option<Rc<dyn Stepper>> {
        self.look(|phase| match phase {
            Phase::Pending(waiters) => match waiters.as_slice() {
                [Waiter::Task(_, task)] if !task.part().is_done() => Some(task.clone()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Completes one that nobody waits for; gives the outcome back if somebody does, or it is done.
    #[inline]
    pub(crate) fn finish_alone(&self, outcome: Outcome<T>) -> std::result::Result<(), Outcome<T>> {
        if self.stage() != Stage::Fresh {
            return Err(outcome);
        }
        let phase = Phase::from(outcome);
        self.stage.set(phase.stage());
        self.phase.replace(phase).forget();
        Ok(())
    }

    /// What there is to say of one that has no result.
    #[cold]
    fn without_result(&self) -> Exception {
        match self.raised() {
            Some(exception) => exception,
            None if self.stage() == Stage::Lent => InvalidStateError::InUse.into(),
            None => InvalidStateError::NotDone.into(),
        }
    }

    #[inline]
    pub(super) fn copy_result(&self) -> Result<T>
    where
        T: Clone,
    {
        /// Gives back what was lent, also if cloning it panics.
        struct Lent<'a, T>(&'a State<T>, Option<T>);
        impl<T> Drop for Lent<'_, T> {
            #[inline]
            fn drop(&mut self) {
                if let Some(value) = self.1.take() {
                    self.0.phase.replace(Phase::Result(value)).forget();
                }
                self.0.stage.set(Stage::Finished);
            }
        }
        if self.stage() != Stage::Finished {
            return Err(self.without_result());
        }
        let Phase::Result(value) = self.phase.replace(Phase::Taken) else {
            return Err(InvalidStateError::Taken.into());
        };
        self.stage.set(Stage::Lent);
        let lent = Lent(self, Some(value));
        lent.1.clone().ok_or_else(|| InvalidStateError::Taken.into())
    }

    #[inline]
    pub(super) fn take_result(&self) -> Result<T> {
        if self.stage() != Stage::Finished {
            return Err(self.without_result());
        }
        match self.phase.replace(Phase::Taken) {
            Phase::Result(value) => Ok(value),
            other => {
                other.forget();
                Err(InvalidStateError::Taken.into())
            }
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
        let is_empty = match self.stage() {
            Stage::Fresh => true,
            Stage::Finished => !std::mem::needs_drop::<T>() || matches!(self.phase.get_mut(), Phase::Taken),
            _ => false,
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

    /// A handle that waits is polled again in a task's step, and it is pending: an operation that knows
    /// itself ready goes on. True if it is done then, without having woken the one that waited under `key`.
    fn polled_again(self: Rc<Self>, key: u32) -> bool {
        let _ = key;
        false
    }

    /// It was given a callback, or (a [`Kind::Yield`]) awaited, and is pending.
    fn waited_for(self: Rc<Self>) {}

    /// Of a [`Kind::Yield`]: it is awaited. True if it was not done, which it is now.
    fn yields(&self) -> bool {
        false
    }

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
    let before = state.stage();
    if before >= Stage::Finished {
        return Err(InvalidStateError::AlreadyDone);
    }
    let phase = outcome();
    state.stage.set(phase.stage());
    // Mostly there is a task that waits, or nobody: the rest is not made part of the caller.
    match before {
        Stage::ForOneTask if state.kind != Kind::Operation => {
            if let Some((key, task)) = state.phase.replace(phase).into_lone_task() {
                let future = Rc::as_ptr(cell).cast();
                task.wakeup(&state.event_loop, future, key);
            }
        }
        // (Also of an operation: only a callback keeps one.)
        Stage::Fresh => state.phase.replace(phase).forget(),
        _ => {
            if let Phase::Pending(waiters) = state.phase.replace(phase) {
                tell(cell, state, waiters);
            }
        }
    }
    Ok(())
}

/// Tells those who wait that it is done, and the cell if it is an operation.
#[inline(never)]
fn tell<T: 'static>(cell: &Rc<dyn FutureCell<T>>, state: &State<T>, waiters: Few<Waiter<T>>) {
    if state.kind == Kind::Operation {
        cell.release();
    }
    waiters.for_each(|waiter| match waiter {
        Waiter::Task(key, task) => task.wakeup(&state.event_loop, Rc::as_ptr(cell).cast(), key),
        Waiter::Waker(_, waker) => state.event_loop.guard("Exception in a waker", || waker.wake()),
        callback => schedule_callback(cell, callback),
    });
}

/// Has a callback called that waits for a future which is done, and lives until then.
pub(super) fn schedule_callback<T: 'static>(cell: &Rc<dyn FutureCell<T>>, waiter: Waiter<T>) {
    let (event_loop, cell) = (&cell.state().event_loop, cell.clone());
    event_loop.schedule(match waiter {
        Waiter::Callback(_, callback) => boxed_in_place(|| move || callback(&Future::of(cell))),
        Waiter::Knowing(_, callback) => boxed_in_place(|| {
            move || {
                let _future = cell;
                callback();
            }
        }),
        // These are told at once.
        Waiter::Task(..) | Waiter::Waker(..) => return,
    });
}

#[cfg(test)]
mod tests {
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_future_is_small() {
        assert_eq!(size_of::<super::State<()>>(), 40);
    }
}
