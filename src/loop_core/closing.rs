//! Closing a loop.

use super::LoopHandle;
use crate::handles::Owned;
use crate::hooks::ExceptionContext;
use crate::ready::{Entry, Lane};

impl LoopHandle {
    /// Empties everything, so that every closure is dropped and every source forgotten. What
    /// user code does meanwhile is refused by the closed loop.
    pub(crate) fn close_core(&self) {
        const WHERE: &str = "Exception in a destructor while the loop was closing";
        let core = &*self.core;
        core.closed.set(true);
        let letters = core.inbox.close();
        letters
            .into_iter()
            .for_each(|letter| self.guard(WHERE, || drop(letter)));
        let pending = core.tasks.get();
        // What is let go of wakes what waited for it, which is let go of in its turn: no recursion,
        // however long the chain.
        core.closing.set(true);
        let timers = core.timers.borrow_mut().take_all();
        timers
            .into_iter()
            .for_each(|timer| self.guard(WHERE, || drop(timer)));
        let owned = std::mem::take(&mut *core.owned.borrow_mut());
        for (_, runnable) in owned {
            self.guard(WHERE, || runnable.abandon());
        }
        let watchers = core.selector.close();
        watchers
            .into_iter()
            .for_each(|watcher| self.guard(WHERE, || drop(watcher)));
        loop {
            let entry = core.ready.borrow_mut().next();
            match entry {
                Some(Entry::Callback(callback)) => self.guard(WHERE, || drop(callback)),
                Some(Entry::Next(run)) if run.lane == Lane::Step => {
                    for _ in 0..run.count {
                        let step = core.ready.borrow_mut().next_step();
                        self.guard(WHERE, || step.into_iter().for_each(Owned::abandon));
                    }
                }
                // Keys hold nothing.
                Some(Entry::Next(_)) => {}
                None => break,
            }
        }
        core.closing.set(false);
        drop(core.scratch.take());
        drop(core.sent.take());
        let message = match pending {
            0 => None,
            1 => Some("Task was destroyed but it is pending!".to_string()),
            n => Some(format!("{n} tasks were destroyed but they are pending!")),
        };
        if let Some(message) = message {
            self.call_exception_handler(&ExceptionContext::new(message));
        }
        self.guard(WHERE, || drop(core.hooks.set(None)));
    }
}
