//! The errors that the loop and what is built on it raise, by kind.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;

/// A future or task was cancelled (`asyncio.CancelledError`).
///
/// An await yields it when the task was asked to stop; a coroutine that returns it ends cancelled.
/// Code that handles errors should pass it on: see [`is_cancelled`](super::Exception::is_cancelled).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CancelledError {
    message: Option<Cow<'static, str>>,
    /// The number of the task that was asked to stop, 0 if it was none.
    of_task: u64,
}

impl CancelledError {
    /// The error that says "cancelled".
    pub fn new() -> CancelledError {
        CancelledError::default()
    }

    /// The error with a message of its own.
    pub fn with_message(message: impl Into<Cow<'static, str>>) -> CancelledError {
        CancelledError {
            message: Some(message.into()),
            of_task: 0,
        }
    }

    /// What [`cancel_with`](crate::Task::cancel_with) was given, if that was called.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// The same, for this task.
    pub(crate) fn of_task(mut self, number: u64) -> CancelledError {
        self.of_task = number;
        self
    }

    /// This one, when another is on its way already: that is the one that arrives, with its message.
    pub(crate) fn behind(self, arriving: &CancelledError) -> CancelledError {
        let of_task = if self.of_task == 0 {
            arriving.of_task
        } else {
            self.of_task
        };
        arriving.clone().of_task(of_task)
    }

    pub(crate) fn is_of_task(&self, number: u64) -> bool {
        self.of_task == number
    }

    /// Whether it says no more than that this task was asked to stop.
    pub(crate) fn is_plain(&self, number: u64) -> bool {
        self.message.is_none() && self.of_task == number
    }
}

/// Equal if the messages are.
impl PartialEq for CancelledError {
    fn eq(&self, other: &CancelledError) -> bool {
        self.message == other.message
    }
}

impl Eq for CancelledError {}

impl fmt::Display for CancelledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "cancelled: {message}"),
            None => f.write_str("cancelled"),
        }
    }
}

impl Error for CancelledError {}

/// A future was asked for what its state does not allow (`asyncio.InvalidStateError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidStateError {
    /// The result or exception was read before there was one.
    NotDone,
    /// It was completed a second time; the first outcome stays.
    AlreadyDone,
    /// The result was moved out before, by `take` or by the last handle's await.
    Taken,
    /// A task's future or an operation's future is completed by nobody but the task or operation.
    NotYours,
    /// The result is being read at this moment: it was asked for in its own `Clone::clone`.
    InUse,
}

impl fmt::Display for InvalidStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidStateError::NotDone => "the future has no result yet",
            InvalidStateError::AlreadyDone => "the future is done already",
            InvalidStateError::Taken => "the result was taken before",
            InvalidStateError::NotYours => "only its task or operation may complete this future",
            InvalidStateError::InUse => "the result is being read at this moment",
        })
    }
}

impl Error for InvalidStateError {}

/// A call that the loop's state does not allow (where asyncio raises `RuntimeError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The loop is closed.
    LoopClosed,
    /// The loop is running: it can be neither run again nor closed from inside.
    LoopRunning,
    /// Another loop is running on this thread.
    OtherLoopRunning,
    /// No loop is running on this thread.
    NoRunningLoop,
    /// `stop` ended the run before the future was done.
    StoppedBeforeDone,
    /// Nothing is left that could ever wake the loop, and the future is not done.
    Deadlock,
    /// A task awaits itself.
    AwaitsItself,
    /// The source is in use with another loop, or the future belongs to another one.
    OtherLoop,
    /// The [`Completer`](crate::Completer) was dropped without completing its future.
    Abandoned,
    /// It works inside a task only, and none is being stepped.
    NotInTask,
    /// A timeout, task group or scope was used before it was entered.
    NotEntered,
    /// A timeout, task group or scope was entered a second time.
    EnteredTwice,
    /// A timeout, task group or scope was used after it was over.
    Over,
    /// A task group takes no more tasks: it is being shut down.
    ShuttingDown,
    /// A task group was cancelled on purpose before its body had a value.
    Stopped,
    /// A lock was released, or a condition used, while nobody holds the lock.
    NotLocked,
    /// A context is entered already.
    ContextInUse,
    /// A token was used a second time, in another context, or with another variable.
    WrongToken,
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuntimeError::LoopClosed => "the event loop is closed",
            RuntimeError::LoopRunning => "this event loop is already running",
            RuntimeError::OtherLoopRunning => "another event loop is running on this thread",
            RuntimeError::NoRunningLoop => "no running event loop",
            RuntimeError::StoppedBeforeDone => "the event loop was stopped before the future was done",
            RuntimeError::Deadlock => "deadlock: nothing is left that could wake the event loop",
            RuntimeError::AwaitsItself => "a task can not await itself",
            RuntimeError::OtherLoop => "it belongs to another event loop",
            RuntimeError::Abandoned => "the completer was dropped without completing its future",
            RuntimeError::NotInTask => "it works inside a task only",
            RuntimeError::NotEntered => "it has not been entered",
            RuntimeError::EnteredTwice => "it was entered before",
            RuntimeError::Over => "it is over",
            RuntimeError::ShuttingDown => "the task group is shutting down",
            RuntimeError::Stopped => "the task group was cancelled before its body had a value",
            RuntimeError::NotLocked => "the lock is not held",
            RuntimeError::ContextInUse => "the context is entered already",
            RuntimeError::WrongToken => {
                "the token was used before, or belongs to another context or variable"
            }
        })
    }
}

impl Error for RuntimeError {}

impl From<RuntimeError> for io::Error {
    fn from(error: RuntimeError) -> io::Error {
        io::Error::other(error)
    }
}

/// A call with a value that makes no sense (where asyncio raises `ValueError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueError {
    /// `wait` was given nothing to wait for.
    NothingToWaitFor,
    /// A [`BoundedSemaphore`](crate::BoundedSemaphore) was released more often than acquired.
    ReleasedTooOften,
    /// `task_done` was called more often than items were put.
    TaskDoneTooOften,
    /// A [`Barrier`](crate::Barrier) for nobody.
    NoParties,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueError::NothingToWaitFor => "there is nothing to wait for",
            ValueError::ReleasedTooOften => "the semaphore was released too often",
            ValueError::TaskDoneTooOften => "task_done() was called more often than items were put",
            ValueError::NoParties => "a barrier needs at least one party",
        })
    }
}

impl Error for ValueError {}

/// Time ran out (`TimeoutError`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutError {}

impl TimeoutError {
    /// The error that says "timed out".
    pub fn new() -> TimeoutError {
        TimeoutError::default()
    }
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("timed out")
    }
}

impl Error for TimeoutError {}

/// A barrier was aborted or reset while it was waited for (`asyncio.BrokenBarrierError`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenBarrierError {}

impl BrokenBarrierError {
    /// The error that says "broken".
    pub fn new() -> BrokenBarrierError {
        BrokenBarrierError::default()
    }
}

impl fmt::Display for BrokenBarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the barrier is broken")
    }
}

impl Error for BrokenBarrierError {}
