//! The deadline of a scope, and the timer that watches it: what a timeout is beyond a scope.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::{LoopHandle, Scope};
use crate::errors::CancelledError;
use crate::handles::{Callback, Handle, Scheduler, TimerKey};

/// What happens when a timer is due. (A callback would do for all, but needs a box, and timeouts are many.)
pub(crate) enum Due {
    Call(Callback),
    /// See [`expire`].
    Expire(Weak<Scope>),
}

/// The time of a scope is over.
pub(super) fn expire(scope: &Weak<Scope>) {
    if let Some(scope) = scope.upgrade()
        && scope.is_entered()
    {
        scope.limit.expired.set(true);
        scope.cancel(CancelledError::new());
    }
}

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
    watch: Cell<Watch>,
    /// Time has run out while the body ran.
    pub(crate) expired: Cell<bool>,
}

/// What will end the scope when its time is over.
#[derive(Default)]
enum Watch {
    #[default]
    Nothing,
    Timer(TimerKey),
    /// The deadline had passed when it was set.
    Soon(Box<Handle>),
}

impl Watch {
    fn end(self, event_loop: &LoopHandle) {
        match self {
            Watch::Nothing => {}
            Watch::Timer(key) => event_loop.core.cancel_timer(key),
            Watch::Soon(handle) => handle.cancel(),
        }
    }
}

impl Limit {
    pub(super) const fn never() -> Limit {
        Limit {
            deadline: Cell::new(Deadline::Never),
            watch: Cell::new(Watch::Nothing),
            expired: Cell::new(false),
        }
    }

    /// Nobody is interested in the time any more.
    #[inline]
    pub(super) fn end(&self, event_loop: &LoopHandle) {
        self.watch.take().end(event_loop);
    }
}

impl Scope {
    /// The body begins: its time is counted from now, if it is not already.
    #[inline]
    pub(crate) fn start_limit(self: &Rc<Self>, event_loop: &LoopHandle) {
        match self.limit.deadline.get() {
            Deadline::Never => {}
            Deadline::At(when) => self.watch_for(event_loop, when),
            Deadline::After(delay) => {
                self.set_deadline(event_loop, Some(event_loop.time().saturating_add(delay)));
            }
        }
    }

    /// Sets another deadline, or none, while the body runs.
    pub(crate) fn set_deadline(self: &Rc<Self>, event_loop: &LoopHandle, when: Option<Duration>) {
        match when {
            Some(when) => self.watch_for(event_loop, when),
            None => {
                self.limit.deadline.set(Deadline::Never);
                self.limit.end(event_loop);
            }
        }
    }

    fn watch_for(self: &Rc<Self>, event_loop: &LoopHandle, when: Duration) {
        let scope = Rc::downgrade(self);
        let watch = if event_loop.core.has_come(when) {
            Watch::Soon(Box::new(event_loop.call_soon(move || expire(&scope))))
        } else {
            Watch::Timer(event_loop.core.add_timer(when, || Due::Expire(scope)))
        };
        // (Not before: the clock may be anybody's code, which comes back here.)
        self.limit.deadline.set(Deadline::At(when));
        self.limit.watch.replace(watch).end(event_loop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_takes_no_more_room_than_a_callback() {
        assert_eq!(size_of::<Due>(), size_of::<Callback>());
    }
}
