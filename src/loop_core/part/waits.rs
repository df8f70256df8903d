//! What a task waits for: so that cancelling the task can cancel that.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use super::{Flag, Scope, TaskPart};
use crate::few::remove_from;
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

/// A place for one of them, that was polled in no scope: mostly the only one.
#[derive(Default)]
pub(super) struct FirstWait {
    future: Cell<Option<Rc<dyn Cancel>>>,
    registration: Cell<u32>,
    step: Cell<u32>,
}

impl FirstWait {
    /// There is none before.
    #[inline]
    fn set(&self, future: Rc<dyn Cancel>, registration: u32, step: u32) {
        self.registration.set(registration);
        self.step.set(step);
        let none = self.future.replace(Some(future));
        debug_assert!(none.is_none());
        std::mem::forget(none);
    }

    #[inline]
    fn take_if(&self, is_it: impl FnOnce(&Rc<dyn Cancel>, u32) -> bool) -> Option<Rc<dyn Cancel>> {
        let future = self.future.take()?;
        if is_it(&future, self.registration.get()) {
            return Some(future);
        }
        self.future.set(Some(future));
        None
    }

    fn get(&self) -> Option<(Rc<dyn Cancel>, u32)> {
        let future = self.future.take()?;
        self.future.set(Some(future.clone()));
        Some((future, self.step.get()))
    }
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
    /// It waits for this future, in no scope, and for nothing else; `registration` tells it from others
    /// on the same one.
    #[inline]
    pub(crate) fn wait_first(&self, future: Rc<dyn Cancel>, registration: u32) {
        self.first_wait.set(future, registration, self.steps.get());
        self.set(Flag::Waits, true);
    }

    /// It waits for this future, perhaps in a scope and among others.
    #[inline(never)]
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        let wait = Wait {
            future,
            registration,
            step: self.steps.get(),
            scope,
        };
        self.edit_extra(|extra| extra.more_waits.push(wait));
        self.set(Flag::MoreWaits, true);
    }

    /// It does not any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        let is_it = |other: &Rc<dyn Cancel>, its_registration: u32| {
            its_registration == registration && std::ptr::addr_eq(Rc::as_ptr(other), future)
        };
        match self.first_wait.take_if(is_it) {
            Some(ended) => {
                self.set(Flag::Waits, false);
                drop(ended);
            }
            None if self.is(Flag::MoreWaits) => {
                self.stop_one_of_more(|wait| is_it(&wait.future, wait.registration));
            }
            None => {}
        }
    }

    fn stop_one_of_more(&self, is_it: impl Fn(&Wait) -> bool) {
        let (ended, none_left) = self.edit_extra(|extra| {
            let ended = remove_from(&mut extra.more_waits, is_it);
            (ended, extra.more_waits.is_empty())
        });
        self.set(Flag::MoreWaits, !none_left);
        drop(ended);
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        if self.take(Flag::Waits) {
            drop(self.first_wait.take_if(|_, _| true));
        }
        if self.take(Flag::MoreWaits) {
            let ended = self.edit_extra(|extra| std::mem::take(&mut extra.more_waits));
            drop(ended);
        }
    }

    /// Those of its waits that count, for the step and the scope they were polled in; the oldest first.
    fn waits_that(&self, count: impl Fn(u32, Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        if !self.waits() {
            return Vec::new();
        }
        let first = self.first_wait.get().filter(|(_, step)| count(*step, None));
        let mut waits: Vec<_> = first.map(|(future, _)| future).into_iter().collect();
        if self.is(Flag::MoreWaits) {
            self.edit_extra(|extra| {
                let more = extra.more_waits.iter();
                let more = more.filter(|wait| count(wait.step, wait.scope.as_ref()));
                waits.extend(more.map(|wait| wait.future.clone()));
            });
        }
        waits
    }

    /// Whether it is suspended at a future of this crate.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.current_waits(None).is_empty() || !self.waits_by_wakers(None).is_empty()
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
        self.waits_that(|step, polled_in| step == self.steps.get() && is_in(polled_in, scope))
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    pub(crate) fn tell_waits_of_step(&self) {
        if !self.is(Flag::MoreWaits) && self.first_wait.step.get() == self.steps.get() {
            return;
        }
        // A copy, for whoever is told may leave the list.
        let told = self.waits_that(|step, _| step != self.steps.get());
        told.into_iter().for_each(|future| future.awaiter_stepped());
    }
}
