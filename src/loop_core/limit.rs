//! The deadline of a scope, and the timer that watches it: what a timeout is beyond a scope.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::{LoopHandle, Scope, in_context};
use crate::errors::CancelledError;
use crate::handles::{Handle, Scheduler, TimerKey};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    Never,
    At(Duration),
    /// Counted from when the scope is entered.
    After(Duration),
}

/// A part of every scope: most are timeouts.
pub(crate) struct Limit {
    pub(crate) deadline: Cell<Deadline>,
    timer: Cell<Option<TimerKey>>,
    /// Instead of that, if the deadline had passed when it was set.
    soon: Cell<Option<Box<Handle>>>,
    /// Time has run out while the body ran.
    pub(crate) expired: Cell<bool>,
}

impl Limit {
    pub(super) const fn never() -> Limit {
        Limit {
            deadline: Cell::new(Deadline::Never),
            timer: Cell::new(None),
            soon: Cell::new(None),
            expired: Cell::new(false),
        }
    }

    /// There is nothing to watch any more.
    #[inline]
    pub(super) fn clear(&self, event_loop: &LoopHandle) {
        if let Some(timer) = self.timer.take() {
            event_loop.core.cancel_timer(timer);
        }
        if let Some(soon) = self.soon.take() {
            soon.cancel();
        }
    }
}

impl Scope {
    /// The body begins: its time is counted from now, if it is not already.
    #[inline]
    pub(crate) fn start_limit(self: &Rc<Self>, event_loop: &LoopHandle) {
        match self.limit.deadline.get() {
            Deadline::Never => {}
            Deadline::At(when) => self.watch_deadline(event_loop, when),
            Deadline::After(delay) => {
                self.set_deadline(event_loop, Some(event_loop.time().saturating_add(delay)));
            }
        }
    }

    /// Sets another deadline, or none, while the body runs.
    pub(crate) fn set_deadline(self: &Rc<Self>, event_loop: &LoopHandle, when: Option<Duration>) {
        self.limit.clear(event_loop);
        let deadline = when.map_or(Deadline::Never, Deadline::At);
        self.limit.deadline.set(deadline);
        if let Some(when) = when {
            self.watch_deadline(event_loop, when);
        }
    }

    fn watch_deadline(self: &Rc<Self>, event_loop: &LoopHandle, when: Duration) {
        let scope = Rc::downgrade(self);
        let expire = move || {
            if let Some(scope) = scope.upgrade() {
                scope.expire();
            }
        };
        let limit = &self.limit;
        if event_loop.core.has_come(when) {
            limit.soon.set(Some(Box::new(event_loop.call_soon(expire))));
        } else {
            let timer = event_loop.core.add_timer(when, in_context(expire));
            limit.timer.set(Some(timer));
        }
    }

    fn expire(self: &Rc<Self>) {
        if self.is_entered() {
            self.limit.expired.set(true);
            self.cancel(CancelledError::new());
        }
    }
}
