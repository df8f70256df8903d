//! What an await asks of the loop: in which task it is, and whether a cancellation is due there.

use std::rc::Rc;
use std::task::Waker;

use super::core::Core;
use super::part::step_is_interrupted;
use super::running::with_running_loop;
use super::step::Stepper;
use crate::errors::CancelledError;
use crate::raw_task::{NO_WAKER, identity};

/// Where an await is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaiting {
    /// In a task's step, with the task's own waker.
    InTask,
    /// In a task's step, with a waker of something inside the task.
    InsideTask,
    /// Not in a step of this loop.
    Elsewhere,
}

impl Core {
    /// Looks at the task that is being stepped; nothing else does meanwhile.
    #[inline]
    fn with_stepping<R>(&self, look: impl FnOnce(Option<&Rc<dyn Stepper>>) -> R) -> R {
        let stepping = self.stepping.take();
        let seen = look(stepping.as_ref());
        let none = self.stepping.replace(stepping);
        debug_assert!(none.is_none());
        std::mem::forget(none);
        seen
    }

    /// Whether this task is being stepped, inside of all others.
    pub(super) fn is_stepping(&self, task: &Rc<dyn Stepper>) -> bool {
        self.with_stepping(|stepping| stepping.is_some_and(|stepping| Rc::ptr_eq(stepping, task)))
    }

    /// The task that is being stepped, whoever polls inside it.
    #[inline]
    pub(crate) fn stepping(&self) -> Option<Rc<dyn Stepper>> {
        self.with_stepping(|stepping| stepping.cloned())
    }

    /// Where an await that is polled with this waker is.
    #[inline]
    pub(crate) fn awaiting(&self, waker: &Waker) -> Awaiting {
        if self.is_stepping_with(waker) {
            Awaiting::InTask
        } else if self.with_stepping(|stepping| stepping.is_some()) {
            Awaiting::InsideTask
        } else {
            Awaiting::Elsewhere
        }
    }

    /// Whether a task is being stepped that polls with this waker, its own.
    #[inline]
    pub(crate) fn is_stepping_with(&self, waker: &Waker) -> bool {
        self.stepping_waker.get() == identity(waker)
    }

    /// Whether a task is being stepped.
    #[inline]
    pub(crate) fn is_stepping_any(&self) -> bool {
        self.stepping_waker.get() != NO_WAKER
    }

    /// That task.
    #[inline]
    pub(crate) fn stepping_with(&self, waker: &Waker) -> Option<Rc<dyn Stepper>> {
        self.is_stepping_with(waker).then(|| self.stepping())?
    }

    /// Where the future of the task is that is being stepped.
    pub(crate) fn stepping_at(&self) -> *const () {
        self.with_stepping(|stepping| stepping.map_or(std::ptr::null(), |task| Rc::as_ptr(task).cast()))
    }

    /// An await that has suspended goes on: takes the cancellation that is due at it, if there is one.
    pub(crate) fn take_cancellation(&self) -> Option<CancelledError> {
        self.stepping()?.part().take_cancellation(self.scope().as_ref())
    }

    /// The task that is being stepped does not wait for the source at this place any more.
    #[inline]
    pub(crate) fn stop_waiting_for_source(&self, source: *const ()) {
        self.with_stepping(|stepping| {
            if let Some(task) = stepping {
                task.part().stop_waiting_for_source(source);
            }
        });
    }

    /// An await that had suspended goes on: the number of its task, if a cancellation that this had
    /// passed on has arrived.
    pub(crate) fn resumed(&self) -> Option<u64> {
        let task = self.stepping()?;
        let part = task.part();
        part.resumed(self.scope().as_ref()).then_some(part.number)
    }

    /// An await begins: takes the cancellation that is to be delivered once more.
    pub(crate) fn take_again(&self) -> Option<CancelledError> {
        self.stepping()?.part().take_again(self.scope().as_ref())
    }
}

/// The cancellation that is due in the task that is being stepped, for an await that is no future of
/// the loop.
#[inline]
pub(crate) fn take_cancellation() -> Option<CancelledError> {
    if step_is_interrupted() {
        take_cancellation_of_step()
    } else {
        None
    }
}

fn take_cancellation_of_step() -> Option<CancelledError> {
    with_running_loop(|running| running.core.take_cancellation()).flatten()
}
