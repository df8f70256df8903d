//! What a queue refuses, and the item that it could not take.

use std::error::Error;
use std::fmt;

use crate::errors::Exception;

/// Nothing can be put without waiting (`asyncio.QueueFull`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFull;

impl fmt::Display for QueueFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full")
    }
}

impl Error for QueueFull {}

/// Nothing can be got without waiting (`asyncio.QueueEmpty`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueEmpty;

impl fmt::Display for QueueEmpty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is empty")
    }
}

impl Error for QueueEmpty {}

/// The queue takes no more items, or gives none any more (`asyncio.QueueShutDown`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueShutDown;

impl fmt::Display for QueueShutDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is shut down")
    }
}

impl Error for QueueShutDown {}

/// Why an item was not put, and the item itself, which asyncio's caller still has.
///
/// `?` makes an [`Exception`] of it and drops the item. As an [`Exception`] it does not implement
/// [`Error`] itself.
///
/// ```
/// use miniloop::Queue;
///
/// let queue = Queue::new(1);
/// queue.put_nowait("first")?;
/// let error = queue.put_nowait("second").unwrap_err();
/// assert!(error.is_full());
/// assert_eq!(error.into_item(), "second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PutError<T> {
    item: T,
    exception: Exception,
}

impl<T> PutError<T> {
    pub(super) fn new(item: T, exception: impl Into<Exception>) -> PutError<T> {
        PutError {
            item,
            exception: exception.into(),
        }
    }

    /// The item that was not put.
    pub fn into_item(self) -> T {
        self.item
    }

    /// What was raised.
    pub fn exception(&self) -> &Exception {
        &self.exception
    }

    /// Whether it is [`QueueFull`].
    pub fn is_full(&self) -> bool {
        self.exception.is::<QueueFull>()
    }

    /// Whether it is [`QueueShutDown`].
    pub fn is_shut_down(&self) -> bool {
        self.exception.is::<QueueShutDown>()
    }

    /// Whether the task was asked to stop while it waited for room.
    pub fn is_cancelled(&self) -> bool {
        self.exception.is_cancelled()
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutError")
            .field("exception", &self.exception)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.exception, f)
    }
}

impl<T> From<PutError<T>> for Exception {
    fn from(error: PutError<T>) -> Exception {
        error.exception
    }
}

impl<T> From<PutError<T>> for Box<dyn Error> {
    fn from(error: PutError<T>) -> Self {
        error.exception.into()
    }
}

impl<T> From<PutError<T>> for Box<dyn Error + Send + Sync> {
    fn from(error: PutError<T>) -> Self {
        error.exception.into()
    }
}
