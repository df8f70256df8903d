//! What a future has come to: who waits for it, or an outcome.

use std::rc::Rc;
use std::task::Waker;

use super::Future;
use crate::errors::{CancelledError, Exception, Result};
use crate::few::Few;
use crate::handles::Callback;
use crate::loop_core::Stepper;

/// What a future has come to.
pub(crate) enum Outcome<T> {
    Result(T),
    Failed(Exception),
    Cancelled(Exception),
}

impl<T> Outcome<T> {
    pub(crate) fn cancelled(error: &CancelledError) -> Outcome<T> {
        Outcome::Cancelled(error.clone().into())
    }
}

impl<T> From<Result<T>> for Outcome<T> {
    fn from(result: Result<T>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::Result(value),
            Err(exception) => Outcome::Failed(exception),
        }
    }
}

/// A done callback.
pub(super) type DoneCallback<T> = Box<dyn FnOnce(&Future<T>)>;

/// Who is told when it is done, and the key of that registration (beside each, for so it takes no
/// room of its own).
pub(super) enum Waiter<T> {
    /// A task of this loop that awaits it: it is scheduled, without any waker.
    Task(u32, Rc<dyn Stepper>),
    /// Anything else that polled it.
    Waker(u32, Waker),
    Callback(u32, DoneCallback<T>),
    /// A callback of this crate's own, which knows the future.
    Knowing(u32, Callback),
}

impl<T> Waiter<T> {
    pub(super) fn key(&self) -> u32 {
        match self {
            Waiter::Task(key, _) | Waiter::Waker(key, _) | Waiter::Callback(key, _) => *key,
            Waiter::Knowing(key, _) => *key,
        }
    }

    pub(super) fn is_callback(&self) -> bool {
        matches!(self, Waiter::Callback(..) | Waiter::Knowing(..))
    }
}

/// Pending, or one of the outcomes. (An [`Outcome`] inside of it would take more room.)
pub(super) enum Phase<T> {
    /// Those who wait, in the order they came.
    Pending(Few<Waiter<T>>),
    Result(T),
    Failed(Exception),
    Cancelled(Exception),
    /// The result is not here any more, or somebody looks at whatever it is.
    Taken,
}

/// Which phase it is, in a byte: that is asked often.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Stage {
    /// Pending, and nobody waits.
    Fresh,
    /// Nobody but one task has waited since it was fresh.
    ForOneTask,
    /// Pending with whoever it may be.
    Pending,
    /// From here on it is done.
    Finished,
    /// Its result is being cloned.
    Lent,
    Failed,
    Cancelled,
}

impl<T> Phase<T> {
    #[inline]
    pub(super) fn stage(&self) -> Stage {
        match self {
            Phase::Pending(Few::Others(None)) => Stage::Fresh,
            Phase::Pending(_) => Stage::Pending,
            Phase::Failed(_) => Stage::Failed,
            Phase::Cancelled(_) => Stage::Cancelled,
            Phase::Result(_) | Phase::Taken => Stage::Finished,
        }
    }

    /// The task that waits, of a future in the stage [`ForOneTask`](Stage::ForOneTask), and only then.
    #[inline]
    pub(super) fn into_lone_task(self) -> Option<(u32, Rc<dyn Stepper>)> {
        match self {
            Phase::Pending(Few::One(Waiter::Task(key, task))) => Some((key, task)),
            other => {
                other.forget();
                None
            }
        }
    }

    /// Ends one that holds nothing. (To drop it is the same, but the compiler would look for something
    /// to drop, which takes longer than all the rest.)
    #[inline]
    pub(super) fn forget(self) {
        debug_assert!(matches!(self, Phase::Taken | Phase::Pending(Few::Others(None))));
        std::mem::forget(self);
    }
}

impl<T> From<Outcome<T>> for Phase<T> {
    #[inline]
    fn from(outcome: Outcome<T>) -> Phase<T> {
        match outcome {
            Outcome::Result(value) => Phase::Result(value),
            Outcome::Failed(exception) => Phase::Failed(exception),
            Outcome::Cancelled(exception) => Phase::Cancelled(exception),
        }
    }
}
