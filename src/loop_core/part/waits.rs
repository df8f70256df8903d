//! What a task waits for: so that cancelling the task can cancel that.

use std::rc::{Rc, Weak};

use super::{Flag, Scope, TaskPart};
use crate::few::Few;
use crate::handles::Cancel;

/// A future that the task is registered with.
pub(super) struct Wait {
    future: Rc<dyn Cancel>,
    registration: u32,
    /// The step in which it was polled. If that is not the last one, then the coroutine keeps the
    /// future but is suspended at something else.
    step: u32,
    /// The innermost scope it was polled in.
    scope: Option<Rc<Scope>>,
}

/// A future that something in the task has polled with a waker of its own, as `FuturesUnordered`
/// does. It is asked when it matters whether that still waits.
pub(super) struct WakerWait {
    future: Weak<dyn Cancel>,
    registration: u32,
    scope: Option<Rc<Scope>>,
}

impl WakerWait {
    fn awaited(&self) -> Option<Rc<dyn Cancel>> {
        let future = self.future.upgrade()?;
        future.is_awaited(self.registration).then_some(future)
    }
}

/// Whether what was polled in the one scope counts for the other; everything counts for none.
fn is_in(polled_in: Option<&Rc<Scope>>, scope: Option<&Rc<Scope>>) -> bool {
    scope.is_none_or(|scope| polled_in.is_some_and(|inner| inner.is_in(scope)))
}

impl TaskPart {
    // No code of a user's runs while the list is taken out.

    fn with_waits<R>(&self, look: impl FnOnce(&mut Few<Wait>) -> R) -> R {
        let mut waits = self.waits.take();
        let seen = look(&mut waits);
        self.waits.set(waits);
        seen
    }

    /// It waits for this future; `registration` tells it from others on the same one.
    #[inline]
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        let wait = Wait {
            future,
            registration,
            step: self.steps.get(),
            scope,
        };
        if self.is(Flag::Waits) {
            self.with_waits(|waits| waits.push(wait));
        } else {
            self.waits.set(Few::One(wait));
            self.set(Flag::Waits, true);
        }
    }

    /// It does not any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        let is_it = |wait: &Wait| {
            wait.registration == registration && std::ptr::addr_eq(Rc::as_ptr(&wait.future), future)
        };
        match self.waits.take() {
            Few::One(wait) if is_it(&wait) => self.set(Flag::Waits, false),
            mut waits => {
                let ended = waits.remove(is_it);
                self.set(Flag::Waits, !waits.is_empty());
                self.waits.set(waits);
                drop(ended);
            }
        }
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        if self.take(Flag::Waits) {
            let ended = self.waits.take();
            drop(ended);
        }
    }

    /// Whether it is suspended at a future of this crate.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_current = |wait: &Wait| wait.step == self.steps.get();
        self.with_waits(|waits| waits.as_slice().iter().any(is_current))
            || !self.waits_by_wakers(None).is_empty()
    }

    /// Enters a future that something in the task waits for by a waker of its own.
    pub(crate) fn wait_by_waker(
        &self,
        future: Weak<dyn Cancel>,
        registration: u32,
        scope: Option<Rc<Scope>>,
    ) {
        const SMALLEST: usize = 32;
        let wait = WakerWait {
            future,
            registration,
            scope,
        };
        let ended = self.edit_extra(|extra| {
            extra.by_wakers.push(wait);
            if extra.by_wakers.len() <= extra.next_clearing.max(SMALLEST) {
                return Vec::new();
            }
            let (awaited, over) = std::mem::take(&mut extra.by_wakers)
                .into_iter()
                .partition(|wait| wait.awaited().is_some());
            extra.by_wakers = awaited;
            extra.next_clearing = 2 * extra.by_wakers.len();
            over
        });
        drop(ended);
    }

    /// What is waited for by other wakers than the task's own, in a scope or anywhere.
    pub(crate) fn waits_by_wakers(&self, scope: Option<&Rc<Scope>>) -> Vec<Rc<dyn Cancel>> {
        self.with_extra(|extra| {
            let waits = extra.by_wakers.iter();
            let waits = waits.filter(|wait| is_in(wait.scope.as_ref(), scope));
            waits.filter_map(WakerWait::awaited).collect()
        })
    }

    /// Whether it is suspended at something that the scope's body has polled.
    pub(crate) fn waits_in(&self, scope: &Rc<Scope>) -> bool {
        !self.current_waits(Some(scope)).is_empty() || !self.waits_by_wakers(Some(scope)).is_empty()
    }

    /// What it is suspended at, in a scope or anywhere. All of it is pending: what is done has left
    /// the list.
    pub(crate) fn current_waits(&self, scope: Option<&Rc<Scope>>) -> Vec<Rc<dyn Cancel>> {
        let counts = |wait: &&Wait| wait.step == self.steps.get() && is_in(wait.scope.as_ref(), scope);
        self.with_waits(|waits| {
            let current = waits.as_slice().iter().filter(counts);
            current.map(|wait| wait.future.clone()).collect()
        })
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    pub(crate) fn tell_waits_of_step(&self) {
        if !self.is(Flag::Waits) {
            return;
        }
        // A copy, for whoever is told may leave the list.
        let mut told = Few::None;
        self.with_waits(|waits| {
            for wait in waits.as_slice() {
                if wait.step != self.steps.get() {
                    told.push(wait.future.clone());
                }
            }
        });
        told.for_each(|future| future.awaiter_stepped());
    }
}
