//! Scheduled work and how it is named: the callback box, its handles, the keys of the tables.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::errors::{CancelledError, Exception};

/// A scheduled callback. Python passes arguments beside it; here the closure captures them.
pub(crate) type Callback = Box<dyn FnOnce()>;

/// The box that a callback is already, if it is one. `Any` compares types at compile time here: for
/// every other type nothing is left of this.
fn ready_made<B: 'static, C: 'static>(callback: &mut Option<C>) -> Option<B> {
    (callback as &mut dyn Any).downcast_mut::<Option<B>>()?.take()
}

/// Boxes a callback; one that is a box already is taken as it is.
pub(crate) fn boxed(callback: impl FnOnce() + 'static) -> Callback {
    let mut callback = Some(callback);
    match (ready_made(&mut callback), callback) {
        (Some(ready_made), _) => ready_made,
        (None, Some(callback)) => Box::new(callback),
        (None, None) => Box::new(|| ()),
    }
}

/// Boxes what `make` gives. The box comes first: a closure that is put together elsewhere and copied into
/// it at once is copied slowly.
#[inline]
pub(crate) fn boxed_in_place<C: FnOnce() + 'static>(make: impl FnOnce() -> C) -> Callback {
    let room = Box::new_uninit();
    let callback: Box<C> = Box::write(room, make());
    callback
}

/// The same as [`boxed`] for one that another thread has made.
pub(crate) fn boxed_to_send(callback: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    let mut callback = Some(callback);
    match (ready_made(&mut callback), callback) {
        (Some(ready_made), _) => ready_made,
        (None, Some(callback)) => Box::new(callback),
        (None, None) => Box::new(|| ()),
    }
}

slotmap::new_key_type! {
    /// Names a timer; a key that is used up never hits a later timer.
    pub(crate) struct TimerKey;
    /// Names a source that the selector knows.
    pub(crate) struct SourceKey;
    /// Names what the loop keeps alive: a suspended task, an operation that callbacks wait for.
    pub(crate) struct OwnedKey;
}

/// A direction of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read = 0,
    Write = 1,
}

/// One ready direction of one source, as the selector reported it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoEvent {
    pub(crate) source: SourceKey,
    pub(crate) direction: Direction,
    /// Which reader or writer it was reported for: one that was replaced meanwhile is not called.
    pub(crate) generation: u32,
}

/// Something that can be asked to stop: what a task waits for.
pub(crate) trait Cancel {
    /// Asks it, with the error that whoever awaits it is to get. False if it was done already.
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool;

    /// All that it had asked to have cancelled was asked.
    fn cancelled_for(self: Rc<Self>) {}

    /// A task that waits for it has been stepped, and still waits.
    fn awaiter_stepped(self: Rc<Self>) {}

    /// A task that waits for it has ended.
    fn awaiter_ended(self: Rc<Self>) {}

    /// Whether the one who waits under this key still does.
    fn is_awaited(&self, registration: u32) -> bool;

    /// A source that is waited for by itself, and not by a future: fails the wait with this, if the loop
    /// does not know the source any more. True if it was so.
    fn fail_if_lost(&self, error: &Exception) -> bool {
        let _ = error;
        false
    }
}

/// A task, whatever its result is.
pub(crate) trait TaskControl: Cancel {
    fn number(&self) -> u64;
    /// Whether it belongs to the loop with this core.
    fn is_of_loop(&self, core: *const ()) -> bool;
    fn name(&self) -> String;
    fn set_name(&self, name: String);
    fn cancelling(&self) -> u32;
    fn uncancel(&self) -> u32;
    /// Counts a request that a scope around some of its awaits has made, or takes it back.
    fn count_scope(&self, cancelled: bool);
    /// How many requests there were that no scope has made.
    fn requests(&self) -> u32;
    fn done(&self) -> bool;
    fn cancelled(&self) -> bool;
    /// Whether it has ended with an exception; that is not looking at it.
    fn failed(&self) -> bool;
    /// The exception it has ended with, which counts as looked at from then on.
    fn failure(&self) -> Option<Exception>;
    /// Has `callback` called through the loop when it is done.
    fn when_done(self: Rc<Self>, callback: Callback) -> u32;
    fn forget_when_done(self: Rc<Self>, key: u32);
}

/// What the loop keeps alive: a task, an operation.
pub(crate) trait Owned {
    /// Something happened that it waits for.
    fn wake(self: Rc<Self>) {}
    /// The loop closes: let go of everything.
    fn abandon(self: Rc<Self>);
    /// It, if it is a task.
    fn task(self: Rc<Self>) -> Option<Rc<dyn TaskControl>> {
        None
    }
    /// Whether it is a task that has not ended.
    fn is_unfinished(&self) -> bool {
        false
    }
}

/// The queue behind the handles.
pub(crate) trait Scheduler {
    fn cancel_callback(&self, position: u64);
    fn cancel_timer(&self, key: TimerKey);
}

/// A callback given to [`call_soon`](crate::LoopHandle::call_soon) (`asyncio.Handle`).
///
/// Dropping the handle does not cancel the callback.
pub struct Handle {
    scheduler: Option<Rc<dyn Scheduler>>,
    position: u64,
    cancelled: Cell<bool>,
}

impl Handle {
    pub(crate) fn new(scheduler: Rc<dyn Scheduler>, position: u64) -> Handle {
        Handle {
            scheduler: Some(scheduler),
            position,
            cancelled: Cell::new(false),
        }
    }

    /// The handle of a callback that a closed loop refused.
    pub(crate) fn born_cancelled() -> Handle {
        Handle {
            scheduler: None,
            position: 0,
            cancelled: Cell::new(true),
        }
    }

    /// Keeps the callback from running and drops it at once; does nothing more than set the mark
    /// when it has run, and nothing at all the second time.
    pub fn cancel(&self) {
        if !self.cancelled.replace(true)
            && let Some(scheduler) = &self.scheduler
        {
            scheduler.cancel_callback(self.position);
        }
    }

    /// Whether [`cancel`](Self::cancel) was called, or a closed loop refused the callback.
    pub fn cancelled(&self) -> bool {
        self.cancelled.get()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("cancelled", &self.cancelled())
            .finish_non_exhaustive()
    }
}

/// A callback given to [`call_later`](crate::LoopHandle::call_later) or
/// [`call_at`](crate::LoopHandle::call_at) (`asyncio.TimerHandle`).
///
/// Dropping the handle does not cancel the timer.
pub struct TimerHandle {
    scheduler: Option<Rc<dyn Scheduler>>,
    key: TimerKey,
    when: Duration,
    cancelled: Cell<bool>,
}

impl TimerHandle {
    #[inline]
    pub(crate) fn new(scheduler: Rc<dyn Scheduler>, key: TimerKey, when: Duration) -> TimerHandle {
        TimerHandle {
            scheduler: Some(scheduler),
            key,
            when,
            cancelled: Cell::new(false),
        }
    }

    /// The handle of a timer that a closed loop refused.
    pub(crate) fn born_cancelled(when: Duration) -> TimerHandle {
        TimerHandle {
            scheduler: None,
            key: TimerKey::default(),
            when,
            cancelled: Cell::new(true),
        }
    }

    /// Keeps the callback from running, also when the timer is due in this very tick, and drops
    /// it at once. It is harmless twice, and after the timer has fired.
    #[inline]
    pub fn cancel(&self) {
        if !self.cancelled.replace(true)
            && let Some(scheduler) = &self.scheduler
        {
            scheduler.cancel_timer(self.key);
        }
    }

    /// Whether [`cancel`](Self::cancel) was called, or a closed loop refused the timer.
    pub fn cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// The moment it is or was due, on the loop's clock.
    pub fn when(&self) -> Duration {
        self.when
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHandle")
            .field("when", &self.when)
            .field("cancelled", &self.cancelled())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_not_boxed_again() {
        let ran = Rc::new(Cell::new(false));
        let flag = ran.clone();
        let callback: Callback = Box::new(move || flag.set(true));
        let address = &raw const *callback as *const ();
        let same = boxed(callback);
        assert_eq!(&raw const *same as *const (), address);
        same();
        assert!(ran.get());

        let callback: Box<dyn FnOnce() + Send> = Box::new({
            let number = std::hint::black_box(7);
            move || {
                std::hint::black_box(number);
            }
        });
        let address = &raw const *callback as *const ();
        assert_eq!(&raw const *boxed_to_send(callback) as *const (), address);
    }
}
