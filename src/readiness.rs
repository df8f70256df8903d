//! Readers and writers: callbacks for the readiness of a source.

use std::io;

use crate::contexts;
use crate::errors::RuntimeError;
use crate::handles::{Direction, SourceKey};
use crate::hooks::ExceptionContext;
use crate::loop_core::LoopHandle;
use crate::selector::Watcher;
use crate::selector::source::{Pollable, Source};

/// A watcher that is called in the context of this place.
fn in_context(mut watcher: Watcher) -> Watcher {
    match contexts::captured() {
        None => watcher,
        Some(context) => Box::new(move || context.enter(&mut watcher)),
    }
}

impl LoopHandle {
    /// Has `callback` called in every tick in which `source` can be read, until it is removed
    /// (`loop.add_reader`): also at the end of the stream, after a hang-up or an error. Readiness
    /// is level-triggered: what is left unread is reported again. A reader that was there is
    /// replaced. A reader that panics is reported and stays.
    ///
    /// # Errors
    /// What the system says to a source that can not be watched (a regular file), or
    /// [`RuntimeError::OtherLoop`] or [`RuntimeError::LoopClosed`] inside an `io::Error`.
    ///
    /// ```no_run
    /// use miniloop::{EventLoop, Source};
    /// use std::io::Read;
    /// use std::net::TcpStream;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let stream = Source::new(TcpStream::connect("127.0.0.1:8888")?)?;
    /// let (reader, handle) = (stream.clone(), event_loop.handle());
    /// event_loop.add_reader(&stream, move || {
    ///     let mut buffer = [0; 4096];
    ///     match (&*reader).read(&mut buffer) {
    ///         Ok(0) => handle.stop(),
    ///         Ok(n) => println!("{} bytes", n),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// })?;
    /// event_loop.run_forever()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_reader<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
        callback: impl FnMut() + 'static,
    ) -> io::Result<()> {
        self.add_watcher(source, Direction::Read, Box::new(callback))
    }

    /// Takes the reader of `source` off and drops it; false if it has none
    /// (`loop.remove_reader`). Pending operations are not touched.
    pub fn remove_reader<T>(&self, source: &Source<T>) -> bool {
        self.remove_watcher(source, Direction::Read)
    }

    /// The same as [`add_reader`](Self::add_reader) for a source that can be written
    /// (`loop.add_writer`). A socket can nearly always be written: add a writer only while there
    /// is something to write.
    ///
    /// # Errors
    /// As for [`add_reader`](Self::add_reader).
    pub fn add_writer<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
        callback: impl FnMut() + 'static,
    ) -> io::Result<()> {
        self.add_watcher(source, Direction::Write, Box::new(callback))
    }

    /// Takes the writer of `source` off and drops it; false if it has none
    /// (`loop.remove_writer`).
    pub fn remove_writer<T>(&self, source: &Source<T>) -> bool {
        self.remove_watcher(source, Direction::Write)
    }

    fn add_watcher<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
        direction: Direction,
        watcher: Watcher,
    ) -> io::Result<()> {
        let key = self.source_key(source)?;
        self.core
            .selector()
            .set_watcher(key, direction, in_context(watcher))
    }

    fn remove_watcher<T>(&self, source: &Source<T>, direction: Direction) -> bool {
        let selector = self.core.selector();
        source
            .known_in(selector)
            .is_some_and(|key| selector.clear_watcher(key, direction))
    }

    /// A source's name in this loop, under which it is entered now if it was not.
    pub(crate) fn source_key<T: Pollable + 'static>(&self, source: &Source<T>) -> io::Result<SourceKey> {
        if self.is_closed() {
            return Err(RuntimeError::LoopClosed.into());
        }
        source.key_in(self.core.selector(), || {
            self.call_exception_handler(&ExceptionContext::new(
                "A source was replaced by another one with the same descriptor; its reader and writer are removed",
            ));
        })
    }

    /// The same, and whether an operation waits for the source in this direction.
    pub(crate) fn source_in_use<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
        direction: Direction,
    ) -> io::Result<(SourceKey, bool)> {
        let selector = self.core.selector();
        // (A loop that is being closed refuses what its selector still knows.)
        if !self.is_closed()
            && let Some(key) = source.known_in(selector)
            && let Some(is_busy) = selector.is_busy(key, direction)
        {
            return Ok((key, is_busy));
        }
        Ok((self.source_key(source)?, false))
    }
}
