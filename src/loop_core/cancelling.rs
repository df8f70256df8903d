//! Cancelling a task: the request, and how it is passed on to what the task waits for.

use std::rc::Rc;

use super::LoopHandle;
use super::core::Cancelling;
use super::part::{Flag, Phase};
use super::scope::Scope;
use super::step::Stepper;
use crate::errors::CancelledError;
use crate::handles::Cancel;

impl LoopHandle {
    /// Cancels `waits`, which `task` waits for (or a scope in a task), and what those wait for, and
    /// so on, before the outermost call returns: in the order of a recursion, but without one, for
    /// chains of tasks can be long.
    pub(crate) fn cancel_for(
        &self,
        task: Option<Rc<dyn Cancel>>,
        waits: Vec<Rc<dyn Cancel>>,
        error: &CancelledError,
    ) {
        {
            let mut stack = self.core.cancelling.borrow_mut();
            let outermost = stack.is_empty();
            stack.extend(task.map(Cancelling::Done));
            let ask = |future| Cancelling::Ask(future, error.clone());
            stack.extend(waits.into_iter().rev().map(ask));
            if !outermost {
                return;
            }
        }
        loop {
            let next = self.core.cancelling.borrow_mut().pop();
            match next {
                Some(Cancelling::Ask(future, error)) => self.guard("Exception in a cancellation", || {
                    future.cancel(&error);
                }),
                Some(Cancelling::Done(task)) => task.cancelled_for(),
                None => break,
            }
        }
    }

    /// Asks a task that is not done to stop.
    pub(crate) fn cancel_task(&self, task: Rc<dyn Stepper>, error: &CancelledError) {
        let part = task.part();
        part.set_cancel_requests(part.cancel_requests() + 1);
        let error = &error.clone().of_task(part.number);
        part.keep_cancellation(error);
        // A step that is scheduled already may find another future done than those cancelled now.
        let due = part.is(Flag::Scheduled);
        if part.phase.get() == Phase::Suspended && self.cancel_waits(&task, error) && !due {
            part.set(Flag::PassedOn, true);
            return;
        }
        part.set(Flag::MustCancel, true);
        if part.phase.get() == Phase::Suspended && !part.is(Flag::Scheduled) {
            // Suspended on something foreign, which can not deliver it.
            part.set(Flag::Doomed, true);
            self.schedule_task(task);
        }
    }

    /// A task has suspended, and was cancelled before that: what it suspended on is cancelled now.
    /// False if there is nothing that could deliver it.
    pub(super) fn cancel_at_suspension(&self, task: &Rc<dyn Stepper>) -> bool {
        let part = task.part();
        if part.take(Flag::Again) && !part.is_waiting() {
            // No await of this crate has begun since.
            part.set(Flag::MustCancel, true);
        }
        if part.is(Flag::PassedOn) && !part.is_waiting() {
            // It went to a future that the coroutine had polled and does not await any more.
            part.set(Flag::PassedOn, false);
            part.set(Flag::MustCancel, true);
        }
        if !part.is(Flag::MustCancel) {
            return true;
        }
        let woken = part.was_woken_in_step();
        if self.cancel_waits(task, &part.cancellation()) {
            // What has woken it already may be polled first: then that await delivers it.
            part.set(Flag::MustCancel, woken);
            part.set(Flag::PassedOn, !woken);
            return true;
        }
        (woken && !part.is(Flag::Due)) || part.is_waiting()
    }

    /// Cancels all that a task is suspended at; false if there is nothing.
    fn cancel_waits(&self, task: &Rc<dyn Stepper>, error: &CancelledError) -> bool {
        // Tasks may wait for each other in a circle.
        !task.part().is(Flag::PassingOn) && self.cancel_some(task, None, error)
    }

    /// Cancels all that a task is suspended at, or what of it the scope's body has polled; false if
    /// there is nothing.
    pub(super) fn cancel_some(
        &self,
        task: &Rc<dyn Stepper>,
        scope: Option<&Rc<Scope>>,
        error: &CancelledError,
    ) -> bool {
        let part = task.part();
        let mut waits = part.current_waits(scope);
        let by_wakers = part.waits_by_wakers(scope);
        // Whose wakers those are may not wake the task.
        let wake = waits.is_empty() && !by_wakers.is_empty();
        waits.extend(by_wakers);
        if waits.is_empty() {
            return false;
        }
        let as_task = scope.is_none();
        part.set(Flag::PassingOn, part.is(Flag::PassingOn) || as_task);
        let asking = as_task.then(|| task.clone() as Rc<dyn Cancel>);
        self.cancel_for(asking, waits, error);
        if wake {
            task.clone().wake();
        }
        true
    }
}
