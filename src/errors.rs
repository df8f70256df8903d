//! What a coroutine raises, and the errors of the loop itself (Python's `exceptions.py`).

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The result of everything that can raise: `Err` is a raise, `?` passes it on.
pub type Result<T, E = Exception> = std::result::Result<T, E>;

/// An error that was raised: one shared value that every waiter of a failed future sees.
///
/// It mirrors a Python exception object. `?` makes one of every type that implements
/// [`std::error::Error`] and is `Send + Sync`; cloning copies a pointer. Like the boxed errors of
/// other crates it does not implement `Error` itself: [`as_error`](Self::as_error) gives the error
/// inside, and it converts into a `Box<dyn Error + Send + Sync>`.
///
/// ```
/// use miniloop::Exception;
///
/// fn port(text: &str) -> miniloop::Result<u16> {
///     Ok(text.parse()?)
/// }
/// let error = port("http").unwrap_err();
/// assert!(error.is::<std::num::ParseIntError>());
/// assert_eq!(Exception::new("no such thing").to_string(), "no such thing");
/// ```
#[derive(Clone)]
pub struct Exception {
    error: Arc<dyn Error + Send + Sync + 'static>,
}

impl Exception {
    /// An exception that is nothing but a message.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Exception {
        Exception::from(Message(message.into()))
    }

    /// An exception from an error that is boxed already; it is not boxed twice.
    pub fn from_boxed(error: Box<dyn Error + Send + Sync + 'static>) -> Exception {
        Exception {
            error: Arc::from(error),
        }
    }

    /// Whether this is a [`CancelledError`]. Code that catches every error should let this one
    /// pass, as Python's `except Exception` does.
    pub fn is_cancelled(&self) -> bool {
        self.is::<CancelledError>()
    }

    /// Whether the error inside is an `E`.
    pub fn is<E: Error + 'static>(&self) -> bool {
        self.error.is::<E>()
    }

    /// The error inside, if it is an `E` (Python's `except E as error`).
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref::<E>()
    }

    /// The error inside, with its `source` chain.
    pub fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    /// What a panic becomes: an `Exception` given to `panic_any` arrives as it is, everything
    /// else as a [`PanicError`] with the message.
    pub(crate) fn from_panic(payload: Box<dyn Any + Send>) -> Exception {
        let payload = match payload.downcast::<Exception>() {
            Ok(exception) => return *exception,
            Err(payload) => payload,
        };
        let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Cow::Borrowed(*text)
        } else if let Some(text) = payload.downcast_ref::<String>() {
            Cow::Owned(text.clone())
        } else {
            Cow::Borrowed("a value that is not text")
        };
        // A payload may panic once more when it is dropped; that second one is let go.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        PanicError { message }.into()
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Exception {
    fn from(error: E) -> Exception {
        // `add_reader` returns an `io::Error`; one of ours inside it comes out again as itself.
        if let Some(error) = (&error as &dyn Any).downcast_ref::<io::Error>()
            && let Some(error) = error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<RuntimeError>())
        {
            let error = Arc::new(*error);
            return Exception { error };
        }
        Exception {
            error: Arc::new(error),
        }
    }
}

impl From<Exception> for Box<dyn Error + Send + Sync + 'static> {
    fn from(exception: Exception) -> Self {
        Box::new(Shared(exception.error))
    }
}

impl From<Exception> for Box<dyn Error + 'static> {
    fn from(exception: Exception) -> Self {
        Box::new(Shared(exception.error))
    }
}

impl fmt::Debug for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

/// The shared error as an owned one, for code that wants a `Box<dyn Error>`.
struct Shared(Arc<dyn Error + Send + Sync + 'static>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Shared {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// See [`Exception::new`].
struct Message(Cow<'static, str>);

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exception({:?})", self.0)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Message {}

/// A future or task was cancelled (`asyncio.CancelledError`).
///
/// An await yields it when the task was asked to stop; a coroutine that returns it ends cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelledError {}

impl CancelledError {
    /// The error that says "cancelled".
    pub fn new() -> CancelledError {
        CancelledError::default()
    }
}

impl fmt::Display for CancelledError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled")
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
    /// The result is being read at this moment (`Clone::clone` of the result moved it out).
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
        })
    }
}

impl Error for RuntimeError {}

impl From<RuntimeError> for io::Error {
    fn from(error: RuntimeError) -> io::Error {
        io::Error::other(error)
    }
}

/// A panic, caught and passed on as an error: the exception of a task whose coroutine panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicError {
    message: Cow<'static, str>,
}

impl PanicError {
    /// The text that the panic was given.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl Error for PanicError {}
