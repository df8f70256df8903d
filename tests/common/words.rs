//! The words of a trace: how values, errors and reports are written down.

use std::error::Error;
use std::fmt;
use std::io;

use miniloop::{
    BrokenBarrierError, Exception, ExceptionGroup, Future, InvalidStateError, QueueEmpty, QueueFull,
    QueueShutDown, Result, RuntimeError, TimeoutError, ValueError,
};

/// The only error a scenario raises itself; it carries a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boom(pub &'static str);

/// Displayed as its trace word, so that a log line shows which error it is about.
impl fmt::Display for Boom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error:{}", self.0)
    }
}

impl Error for Boom {}

/// The trace word for an exception.
pub fn word(exception: &Exception) -> String {
    if let Some(boom) = exception.downcast_ref::<Boom>() {
        boom.to_string()
    } else if exception.is_cancelled() {
        "cancelled".into()
    } else if let Some(group) = exception.downcast_ref::<ExceptionGroup>() {
        let words: Vec<String> = group.exceptions().iter().map(word).collect();
        format!("group({})", words.join(" "))
    } else if exception.is::<TimeoutError>() {
        "timeout".into()
    } else if exception.is::<InvalidStateError>() {
        "invalid-state".into()
    } else if exception.is::<RuntimeError>() {
        "misuse".into()
    } else if exception.is::<ValueError>() {
        "bad-value".into()
    } else if exception.is::<QueueFull>() {
        "queue-full".into()
    } else if exception.is::<QueueEmpty>() {
        "queue-empty".into()
    } else if exception.is::<QueueShutDown>() {
        "queue-shutdown".into()
    } else if exception.is::<BrokenBarrierError>() {
        "broken-barrier".into()
    } else if let Some(error) = exception.downcast_ref::<io::Error>() {
        io_word(error).into()
    } else {
        panic!("there is no trace word for {exception:?}")
    }
}

fn io_word(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            "connection-lost"
        }
        // Where only an `io::Error` can be returned, the refusal is inside it.
        _ if error.get_ref().is_some_and(|e| e.is::<RuntimeError>()) => "misuse",
        _ => panic!("there is no trace word for {error:?}"),
    }
}

/// A value that can stand in a trace.
pub trait Show {
    /// The trace text of the value.
    fn show(&self) -> String;
}

impl Show for () {
    fn show(&self) -> String {
        "none".into()
    }
}

/// Bytes are shown as text, `/` for a newline.
impl Show for [u8] {
    fn show(&self) -> String {
        if self.is_empty() {
            "empty".into()
        } else {
            String::from_utf8_lossy(self).replace('\n', "/")
        }
    }
}

impl Show for Vec<u8> {
    fn show(&self) -> String {
        self.as_slice().show()
    }
}

/// A list is shown in brackets.
fn list<T: Show>(things: &[T]) -> String {
    let shown: Vec<_> = things.iter().map(Show::show).collect();
    format!("[{}]", shown.join(" "))
}

impl<T: Show> Show for Result<T> {
    fn show(&self) -> String {
        match self {
            Ok(value) => value.show(),
            Err(exception) => exception.show(),
        }
    }
}

impl Show for Exception {
    fn show(&self) -> String {
        word(self)
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".into(), Show::show)
    }
}

macro_rules! show_as_displayed {
    ($($kind:ty),*) => {$(
        impl Show for $kind {
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

macro_rules! show_lists_of {
    ($($kind:ty),*) => {$(
        impl Show for Vec<$kind> {
            fn show(&self) -> String {
                list(self)
            }
        }
    )*};
}

show_lists_of!((), i32, u64, &str, String, Result<u64>);

show_as_displayed!(bool, i32, u32, u64, usize, &str, String);

/// `pending`, `cancelled`, `result:x`, or the word of the error.
pub fn state<T: Show + Clone + 'static>(future: &Future<T>) -> String {
    if future.done() {
        with_result(future.result())
    } else {
        "pending".into()
    }
}

/// What a call gave: the value as text, or the word of its error.
pub fn attempt<T: Show, E: Into<Exception>>(result: Result<T, E>) -> String {
    match result {
        Ok(value) => value.show(),
        Err(error) => word(&error.into()),
    }
}

/// Awaits something: `result:x`, or the word of its error, a cancellation of
/// the awaiting task included.
pub async fn outcome<T: Show>(awaitable: impl std::future::Future<Output = Result<T>>) -> String {
    with_result(awaitable.await)
}

fn with_result<T: Show>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("result:{}", value.show()),
        Err(exception) => word(&exception),
    }
}

/// The kind of a report, told from its message.
pub fn error_kind(message: &str) -> String {
    if message.starts_with("Exception in callback") {
        "callback-error".into()
    } else if message.contains("exception was never retrieved") {
        "never-retrieved".into()
    } else if message.contains("destroyed but") {
        "destroyed-pending".into()
    } else if message.starts_with("unhandled exception during run() shutdown") {
        "shutdown-error".into()
    } else if message.starts_with("Unhandled error in exception handler") {
        "handler-failed".into()
    } else {
        format!("says {message}")
    }
}
