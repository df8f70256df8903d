//! What a coroutine raises, and the errors of the loop itself (Python's `exceptions.py`).

mod group;
mod kinds;

use std::any::Any;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use group::ExceptionGroup;
pub use kinds::{
    BrokenBarrierError, CancelledError, InvalidStateError, RuntimeError, TimeoutError, ValueError,
};

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
        Exception::inside(&*error).unwrap_or_else(|| Exception {
            error: Arc::from(error),
        })
    }

    /// The exception that was turned into this error, by `?` into a `Box<dyn Error>` or with
    /// [`io::Error::other`]: so that a cancellation is known as one behind code that speaks other
    /// errors. Turning such an error into an `Exception` gives the first one back by itself.
    ///
    /// ```
    /// use miniloop::{CancelledError, Exception};
    /// use std::{error::Error, io};
    ///
    /// let error: Box<dyn Error> = Exception::from(CancelledError::new()).into();
    /// assert!(Exception::inside(&*error).unwrap().is_cancelled());
    /// let error = io::Error::other(Exception::from(CancelledError::new()));
    /// assert!(Exception::from(error).is_cancelled());
    /// ```
    pub fn inside(error: &(dyn Error + 'static)) -> Option<Exception> {
        if let Some(Shared(error)) = error.downcast_ref::<Shared>() {
            let error = error.clone();
            return Some(Exception { error });
        }
        let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
        if let Some(error) = inner.downcast_ref::<RuntimeError>() {
            let error = Arc::new(*error);
            return Some(Exception { error });
        }
        if let Some(error) = inner.downcast_ref::<CancelledError>() {
            let error = Arc::new(error.clone());
            return Some(Exception { error });
        }
        Exception::inside(inner)
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
        // `add_reader` returns an `io::Error`; what of ours is inside it comes out again as itself.
        let known = (&error as &dyn Any).downcast_ref::<io::Error>();
        if let Some(exception) = known.and_then(|error| Exception::inside(error)) {
            return exception;
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
