//! Passing a cancellation on from a task to what it waits for.

use std::rc::Rc;

use super::LoopHandle;
use super::core::Cancelling;
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
}
