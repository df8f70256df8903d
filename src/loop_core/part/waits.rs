//! What a task waits for: so that cancelling the task can cancel that.

use std::rc::{Rc, Weak};

use super::{Beyond, Flag, Scope, TaskPart};
use crate::errors::Exception;
use crate::few::remove_from;
use crate::handles::Cancel;

/// The future that the task is registered with, mostly the only one, and the innermost scope it was polled
/// in.
pub(super) struct FirstWait {
    pub(super) future: Rc<dyn Cancel>,
    pub(super) scope: Option<Rc<Scope>>,
}

/// A future that the task is registered with, beside the first wait.
pub(super) struct Wait {
    future: Rc<dyn Cancel>,
    registration: u32,
    /// The step in which it was polled: see `Flag::WaitIsCurrent`.
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

fn is_at(future: &Rc<dyn Cancel>, place: *const ()) -> bool {
    std::ptr::addr_eq(Rc::as_ptr(future), place)
}

/// The key of each wait for a source by itself: there is one for a source at most.
const FOR_SOURCE: u32 = 1;

/// Whether what was polled in the one scope counts for the other; everything counts for none.
fn is_in(polled_in: Option<&Rc<Scope>>, scope: Option<&Rc<Scope>>) -> bool {
    scope.is_none_or(|scope| polled_in.is_some_and(|inner| inner.is_in(scope)))
}

impl TaskPart {
    /// It waits for this future; `registration` tells it from others on the same one, `scope` is the
    /// innermost one that it was polled in.
    #[inline(always)] // into the few places where it is called
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        if self.waits() {
            return self.wait_for_one_more(future, registration, scope);
        }
        self.registration.set(registration);
        self.set(Flag::Waits, true);
        self.set(Flag::WaitIsCurrent, true);
        if scope.is_some() || self.is(Flag::Extra) {
            self.wait_first_in_extra(future, scope);
        } else {
            self.beyond.replace(Beyond::FirstWait(future)).forget();
        }
    }

    #[inline(never)]
    fn wait_first_in_extra(&self, future: Rc<dyn Cancel>, scope: Option<Rc<Scope>>) {
        self.edit_extra(|extra| extra.first_wait = Some(FirstWait { future, scope }));
    }

    #[inline(never)]
    fn wait_for_one_more(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        self.edit_extra(|extra| {
            extra.more_waits.push(Wait {
                future,
                registration,
                step: extra.steps,
                scope,
            });
        });
        self.set(Flag::MoreWaits, true);
    }

    /// It waits for this source itself.
    #[inline]
    pub(crate) fn wait_for_source(&self, source: Rc<dyn Cancel>, scope: Option<Rc<Scope>>) {
        self.wait_for(source, FOR_SOURCE, scope);
    }

    /// It does not wait for the source at this place any more.
    #[inline]
    pub(crate) fn stop_waiting_for_source(&self, source: *const ()) {
        self.stop_waiting_for(source, FOR_SOURCE);
    }

    /// The loop does not know a source any more. True if it waited for that, which has failed now.
    pub(crate) fn lose_source(&self, error: &Exception) -> bool {
        let mut waits = self.waits_that(|_, _| true);
        waits.retain(|wait| wait.fail_if_lost(error));
        waits
            .iter()
            .for_each(|lost| self.stop_waiting_for_source(Rc::as_ptr(lost).cast()));
        !waits.is_empty()
    }

    /// A step is begun: what it waits for was not polled in that one.
    pub(super) fn count_step(&self) {
        self.with_extra(|extra| extra.steps = extra.steps.wrapping_add(1));
    }

    /// It does not wait for this one any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        let may_be_first = self.is(Flag::Waits) && self.registration.get() == registration;
        if may_be_first && self.stop_first_wait(|first| is_at(first, future)) {
            return;
        }
        if self.is(Flag::MoreWaits) {
            self.stop_one_of_more(future, registration);
        }
    }

    /// Ends the first wait, if it is for this.
    #[inline]
    fn stop_first_wait(&self, is_it: impl Fn(&Rc<dyn Cancel>) -> bool) -> bool {
        if self.is(Flag::Extra) {
            return self.stop_first_wait_in_extra(is_it);
        }
        match self.beyond.take() {
            Beyond::FirstWait(first) if is_it(&first) => {
                self.set(Flag::Waits, false);
                true
            }
            other => {
                self.beyond.replace(other).forget();
                false
            }
        }
    }

    #[inline(never)]
    fn stop_first_wait_in_extra(&self, is_it: impl Fn(&Rc<dyn Cancel>) -> bool) -> bool {
        let ended = self.with_extra(|extra| extra.first_wait.take_if(|first| is_it(&first.future)));
        if ended.is_some() {
            self.set(Flag::Waits, false);
        }
        ended.is_some()
    }

    #[inline(never)]
    fn stop_one_of_more(&self, future: *const (), registration: u32) {
        let (ended, none_left) = self.with_extra(|extra| {
            let ended = remove_from(&mut extra.more_waits, |wait| {
                wait.registration == registration && is_at(&wait.future, future)
            });
            (ended, extra.more_waits.is_empty())
        });
        self.set(Flag::MoreWaits, !none_left);
        drop(ended);
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        let told = self.waits_that(|_, _| true);
        told.into_iter().for_each(|future| future.awaiter_ended());
        if self.is(Flag::Waits) {
            self.stop_first_wait(|_| true);
        }
        if self.take(Flag::MoreWaits) {
            let ended = self.with_extra(|extra| std::mem::take(&mut extra.more_waits));
            drop(ended);
        }
    }

    /// The first wait, if it counts, which may depend on its scope.
    fn first_wait_if(&self, counts: impl Fn(Option<&Rc<Scope>>) -> bool) -> Option<Rc<dyn Cancel>> {
        if self.is(Flag::Extra) {
            return self.with_extra(|extra| {
                let first = extra.first_wait.as_ref();
                let first = first.filter(|first| counts(first.scope.as_ref()))?;
                Some(first.future.clone())
            });
        }
        let beyond = self.beyond.take();
        let first = match &beyond {
            Beyond::FirstWait(first) if counts(None) => Some(first.clone()),
            _ => None,
        };
        self.beyond.replace(beyond).forget();
        first
    }

    /// Those of its waits that count, by whether they were polled in the last step, and in which scope;
    /// the oldest first.
    fn waits_that(&self, count: impl Fn(bool, Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        let mut waits = Vec::new();
        if self.is(Flag::Waits) {
            let is_current = self.is(Flag::WaitIsCurrent);
            waits.extend(self.first_wait_if(|scope| count(is_current, scope)));
        }
        if self.is(Flag::MoreWaits) {
            self.with_extra(|extra| {
                let more = extra.more_waits.iter();
                let more = more.filter(|wait| count(wait.step == extra.steps, wait.scope.as_ref()));
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
        self.waits_that(|is_current, polled_in| is_current && is_in(polled_in, scope))
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    #[inline]
    pub(crate) fn tell_waits_of_step(&self) {
        if self.is(Flag::MoreWaits) || !self.is(Flag::WaitIsCurrent) {
            self.tell_waits_of_before();
        }
    }

    #[inline(never)]
    fn tell_waits_of_before(&self) {
        // A copy, for whoever is told may leave the list.
        let told = self.waits_that(|is_current, _| !is_current);
        told.into_iter().for_each(|future| future.awaiter_stepped());
    }
}
