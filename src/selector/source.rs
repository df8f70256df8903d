//! `Source<T>`: something the loop can watch, kept open for as long as it does.

mod receiver;

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use socket2::SockRef;

use super::Selector;
use super::poller::Raw;
use crate::errors::{Exception, RuntimeError};
use crate::handles::SourceKey;
use receiver::Receiver;

/// What a loop can watch: on Unix everything with a file descriptor (`AsFd`), on Windows every
/// socket (`AsSocket`).
#[cfg(unix)]
pub trait Pollable: std::os::fd::AsFd {}
#[cfg(unix)]
impl<T: std::os::fd::AsFd> Pollable for T {}

/// What a loop can watch: on Unix everything with a file descriptor (`AsFd`), on Windows every
/// socket (`AsSocket`).
#[cfg(windows)]
pub trait Pollable: std::os::windows::io::AsSocket {}
#[cfg(windows)]
impl<T: std::os::windows::io::AsSocket> Pollable for T {}

fn raw_of<T: Pollable>(io: &T) -> Raw {
    #[cfg(unix)]
    return std::os::fd::AsRawFd::as_raw_fd(&io.as_fd());
    #[cfg(windows)]
    return std::os::windows::io::AsRawSocket::as_raw_socket(&io.as_socket());
}

/// A socket, pipe or the like, shared with the loop that watches it.
///
/// It takes the place of the bare descriptor that Python's `add_reader` and `sock_recv` are
/// given. Clones share one object. While any is left the descriptor stays open; when the last
/// goes, the loop forgets the source (its reader and writer are dropped) and then it is closed:
/// the loop can never watch a number that has got another owner.
///
/// Non-blocking mode is set on the way in. [`into_inner`](Self::into_inner) sets the mode that was
/// found again, and so does the drop of a source of standard input, output or error. (What was
/// duplicated, by `try_clone`, shares its mode with the duplicate.) The object is given out as
/// `&T` only; reading and writing go through it
/// (`(&*source).read(..)`, where `&T: Read`). A source belongs to one loop at a time.
///
/// ```
/// use miniloop::Source;
/// use std::io::{ErrorKind, Read};
/// use std::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let client = Source::new(TcpStream::connect(listener.local_addr()?)?)?;
/// let error = (&*client).read(&mut [0; 16]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::WouldBlock);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Source<T> {
    shared: Rc<Shared<T>>,
}

struct Shared<T> {
    /// The loop it belongs to, and its name there.
    home: Cell<Option<(Rc<Selector>, SourceKey)>>,
    mode: Mode,
    to_be_waited_for: Cell<bool>,
    last_was_long: Cell<bool>,
    receiver: Cell<Receiver>,
    /// What the wait of its receiver has ended with, if not with readiness.
    ended_with: Cell<Option<Box<Exception>>>,
    /// `None` only once `into_inner` has taken it.
    io: Option<T>,
}

/// The mode in which a source came in.
#[derive(Clone, Copy)]
enum Mode {
    NonBlocking,
    Blocking,
    BlockingStandard(Standard),
}

impl Mode {
    fn of(raw: Raw, was_blocking: bool) -> Mode {
        match (was_blocking, Standard::of(raw)) {
            (false, _) => Mode::NonBlocking,
            (true, None) => Mode::Blocking,
            (true, Some(standard)) => Mode::BlockingStandard(standard),
        }
    }
}

/// A descriptor that the whole process shares, and does not close.
#[derive(Clone, Copy)]
enum Standard {
    Input = 0,
    Output = 1,
    Error = 2,
}

impl Standard {
    fn of(raw: Raw) -> Option<Standard> {
        match raw {
            _ if cfg!(windows) => None,
            0 => Some(Standard::Input),
            1 => Some(Standard::Output),
            2 => Some(Standard::Error),
            _ => None,
        }
    }
}

impl<T: Pollable + 'static> Source<T> {
    /// Takes a source over and sets it to non-blocking mode. A source that is forgotten
    /// (`std::mem::forget`) stays open for good, for the loop may be watching it: hence the
    /// `'static`, which keeps out what others may close.
    ///
    /// ```compile_fail,E0597
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    /// // Whoever owns the listener could close it while a loop watches it.
    /// let borrowed = miniloop::Source::new(&listener).unwrap();
    /// ```
    ///
    /// # Errors
    /// What the system says when it can not set the mode.
    pub fn new(io: T) -> io::Result<Source<T>> {
        let socket = SockRef::from(&io);
        // Windows does not tell the mode; a socket there starts as a blocking one.
        #[cfg(unix)]
        let was_blocking = !socket.nonblocking()?;
        #[cfg(windows)]
        let was_blocking = true;
        if was_blocking {
            socket.set_nonblocking(true)?;
        }
        Ok(Source::from_parts(io, was_blocking))
    }

    /// Takes over what this crate made itself, and set to non-blocking mode: `into_inner` gives it
    /// out in the mode that sockets have elsewhere.
    pub(crate) fn of_nonblocking(io: T) -> Source<T> {
        Source::from_parts(io, true)
    }

    fn from_parts(io: T, was_blocking: bool) -> Source<T> {
        Source {
            shared: Rc::new(Shared {
                home: Cell::new(None),
                mode: Mode::of(raw_of(&io), was_blocking),
                to_be_waited_for: Cell::new(false),
                last_was_long: Cell::new(false),
                receiver: Cell::new(Receiver::Nobody),
                ended_with: Cell::new(None),
                io: Some(io),
            }),
        }
    }
}

impl<T: 'static> Source<T> {
    /// Whether it is one of the standard library's own sockets. Anything else may be something
    /// that can not be watched, or may have a buffer of its own.
    pub(crate) fn is_system_socket(&self) -> bool {
        #[cfg(unix)]
        if TypeId::of::<T>() == TypeId::of::<UnixStream>() {
            return true;
        }
        TypeId::of::<T>() == TypeId::of::<TcpStream>()
    }
}

impl<T: Pollable + 'static> Source<T> {
    /// Its name in this loop, under which it is entered now if it was not. `replaced` is called if
    /// that took the reader or writer of another source away.
    #[inline]
    pub(crate) fn key_in(&self, selector: &Rc<Selector>, replaced: impl FnOnce()) -> io::Result<SourceKey> {
        match self.known_in(selector) {
            Some(key) if selector.knows(key) => Ok(key),
            _ => self.enter(selector, replaced),
        }
    }

    #[inline(never)]
    fn enter(&self, selector: &Rc<Selector>, replaced: impl FnOnce()) -> io::Result<SourceKey> {
        if let Some((old, key)) = self.shared.home.take() {
            if !Rc::ptr_eq(&old, selector) && old.is_watching(key) {
                self.shared.home.set(Some((old, key)));
                return Err(RuntimeError::OtherLoop.into());
            }
            old.forget(key);
        }
        let (key, old) = selector.enter(raw_of(self.get_ref()))?;
        self.shared.home.set(Some((selector.clone(), key)));
        // All is in order before anybody's code runs, which may come back here.
        let in_the_way = || {
            io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another source with the same descriptor took its place in the loop",
            )
        };
        if old.is_some_and(|old| selector.dispose(old, in_the_way)) {
            replaced();
        }
        if !self.is_system_socket() {
            selector.probe(key)?;
        }
        Ok(key)
    }

    /// Gives the object back, forgotten by the loop and in the mode it came in.
    ///
    /// # Errors
    /// The source itself, while another clone is alive (a pending operation holds one).
    pub fn into_inner(self) -> Result<T, Source<T>> {
        let mut shared = Rc::try_unwrap(self.shared).map_err(|shared| Source { shared })?;
        shared.leave();
        let mode = shared.mode;
        let io = shared.io.take();
        let io = io.unwrap_or_else(|| unreachable!("taken once, by value"));
        if !matches!(mode, Mode::NonBlocking) {
            // Best effort: there is nobody to tell on the way out.
            let _ = SockRef::from(&io).set_nonblocking(false);
        }
        Ok(io)
    }
}

impl<T> Source<T> {
    /// The object inside.
    pub fn get_ref(&self) -> &T {
        // `into_inner` takes it from a source that nobody else holds.
        self.shared
            .io
            .as_ref()
            .expect("a source holds its object until `into_inner`")
    }

    /// Its name in this loop, if it has one.
    #[inline]
    pub(crate) fn known_in(&self, selector: &Rc<Selector>) -> Option<SourceKey> {
        let home = self.shared.home.take();
        let known = match &home {
            Some((home, key)) if Rc::ptr_eq(home, selector) => Some(*key),
            _ => None,
        };
        // There is none: nothing is dropped.
        std::mem::forget(self.shared.home.replace(home));
        known
    }

    /// Whether the next receive had better wait for readiness than try.
    pub(crate) fn is_to_be_waited_for(&self) -> bool {
        self.shared.to_be_waited_for.get()
    }

    pub(crate) fn set_to_be_waited_for(&self, wait: bool) {
        self.shared.to_be_waited_for.set(wait);
    }

    /// Whether the last receive brought much: then the next probably does too.
    #[cfg(unix)]
    pub(crate) fn last_was_long(&self) -> bool {
        self.shared.last_was_long.get()
    }

    pub(crate) fn set_last_was_long(&self, long: bool) {
        self.shared.last_was_long.set(long);
    }
}

impl<T> Shared<T> {
    /// The loop forgets it.
    fn leave(&mut self) {
        if let Some((selector, key)) = self.home.get_mut().take() {
            selector.forget(key);
        }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.leave();
        if let Mode::BlockingStandard(standard) = self.mode
            && self.io.is_some()
        {
            super::poller::set_blocking(&(standard as Raw));
        }
    }
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Source<T> {
        Source {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Deref for Source<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get_ref()
    }
}

impl<T: fmt::Debug> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Source").field(self.get_ref()).finish()
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    #[test]
    fn a_source_is_small() {
        assert_eq!(size_of::<super::Shared<std::net::TcpStream>>(), 32);
    }
}
