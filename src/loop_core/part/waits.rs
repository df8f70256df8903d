//! What a task waits for: so that cancelling the task can cancel that.

use std::rc::{Rc, Weak};

use super::{Beyond, Extra, Flag, Scope, TaskPart};
use crate::few::remove_from;
use crate::handles::Cancel;

/// A future that the task is registered with, in its `Extra`.
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
    /// It waits for this future, in no scope, and there is nothing else beyond; `registration` tells it
    /// from others on the same one.
    #[inline]
    pub(crate) fn wait_first(&self, future: Rc<dyn Cancel>, registration: u32) {
        self.registration.set(registration);
        self.set(Flag::Waits, true);
        self.set(Flag::WaitIsCurrent, true);
        let nothing = self.beyond.replace(Beyond::Wait(future));
        debug_assert!(matches!(nothing, Beyond::Extra(None)));
        std::mem::forget(nothing);
    }

    /// It waits for this future, perhaps in a scope and among others.
    #[inline(never)]
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        self.edit_extra(|extra| {
            extra.waits.push(Wait {
                future,
                registration,
                step: extra.steps,
                scope,
            });
        });
        self.set(Flag::MoreWaits, true);
    }

    /// A first `Extra`, with what it waits for.
    pub(super) fn with_first_wait(&self, future: Rc<dyn Cancel>) -> Box<Extra> {
        let mut extra = Box::new(Extra {
            steps: 1,
            ..Extra::default()
        });
        extra.waits.push(Wait {
            future,
            registration: self.registration.get(),
            step: u32::from(self.is(Flag::WaitIsCurrent)),
            scope: None,
        });
        self.set(Flag::Waits, false);
        self.set(Flag::MoreWaits, true);
        extra
    }

    /// A step is begun: what it waits for was not polled in that one.
    #[inline]
    pub(super) fn waits_get_older(&self) {
        self.set(Flag::WaitIsCurrent, false);
        if self.is(Flag::MoreWaits) {
            self.edit_extra(|extra| extra.steps = extra.steps.wrapping_add(1));
        }
    }

    /// It does not wait for this one any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        if self.is(Flag::Waits) {
            self.stop_only_wait(future, registration);
        } else if self.is(Flag::MoreWaits) {
            self.stop_one_of_more(future, registration);
        }
    }

    #[inline]
    fn stop_only_wait(&self, future: *const (), registration: u32) {
        if self.registration.get() != registration {
            return;
        }
        match self.beyond.take() {
            Beyond::Wait(only) if std::ptr::addr_eq(Rc::as_ptr(&only), future) => {
                self.set(Flag::Waits, false);
                drop(only);
            }
            other => self.beyond.set(other),
        }
    }

    #[inline(never)]
    fn stop_one_of_more(&self, future: *const (), registration: u32) {
        let (ended, none_left) = self.edit_extra(|extra| {
            let ended = remove_from(&mut extra.waits, |wait| {
                wait.registration == registration && std::ptr::addr_eq(Rc::as_ptr(&wait.future), future)
            });
            (ended, extra.waits.is_empty())
        });
        self.set(Flag::MoreWaits, !none_left);
        drop(ended);
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        if self.take(Flag::Waits) {
            drop(self.beyond.take());
        }
        if self.take(Flag::MoreWaits) {
            let ended = self.edit_extra(|extra| std::mem::take(&mut extra.waits));
            drop(ended);
        }
    }

    /// Those of its waits that count, by whether they were polled in the last step, and in which scope;
    /// the oldest first.
    fn waits_that(&self, count: impl Fn(bool, Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        if !self.waits() {
            return Vec::new();
        }
        // (Where there is but one, it is seldom asked for.)
        self.edit_extra(|extra| {
            let waits = extra.waits.iter();
            let waits = waits.filter(|wait| count(wait.step == extra.steps, wait.scope.as_ref()));
            waits.map(|wait| wait.future.clone()).collect()
        })
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
        self.waits_that(|is_current, polled_in| is_current && is_in(polled_in, scope))
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    pub(crate) fn tell_waits_of_step(&self) {
        if !self.is(Flag::MoreWaits) && self.is(Flag::WaitIsCurrent) {
            return;
        }
        // A copy, for whoever is told may leave the list.
        let told = self.waits_that(|is_current, _| !is_current);
        told.into_iter().for_each(|future| future.awaiter_stepped());
    }
}
