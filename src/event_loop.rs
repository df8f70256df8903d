//! `EventLoop`: the owner of a loop, and the ways to run it (Python's `loop.py`).

use std::fmt;
use std::future::Future as StdFuture;
use std::io::{self, Read};
use std::ops::Deref;

use crate::clock::Clock;
use crate::errors::{Result, RuntimeError};
use crate::futures::Future;
use crate::loop_core::{LoopHandle, Mode};
use crate::selector::source::{Pollable, Source};
use crate::tasks::ensure::Ensured;

/// An event loop (`asyncio.EventLoop`, the brief's `EventLoop`).
///
/// It owns what is scheduled on it, and derefs to the [`LoopHandle`] that does the scheduling;
/// callbacks and tasks hold clones of that. Dropping it closes it.
///
/// ```
/// use miniloop::EventLoop;
///
/// let event_loop = EventLoop::new()?;
/// assert_eq!(event_loop.run_until_complete(async { Ok(42) })?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventLoop {
    handle: LoopHandle,
}

impl EventLoop {
    /// A loop on the system's monotonic clock.
    ///
    /// # Errors
    /// What the system says when it can not give a poller (no file descriptors left).
    pub fn new() -> io::Result<EventLoop> {
        let handle = LoopHandle::new(None)?;
        Ok(EventLoop { handle })
    }

    /// A loop on a clock of your own, mostly a [`FakeClock`](crate::FakeClock).
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_clock(clock: impl Clock + 'static) -> io::Result<EventLoop> {
        let handle = LoopHandle::new(Some(Box::new(clock)))?;
        Ok(EventLoop { handle })
    }

    /// A handle to this loop, for closures and coroutines to hold.
    pub fn handle(&self) -> LoopHandle {
        self.handle.clone()
    }

    /// Does one tick, as asyncio's `_run_once` and the brief's `run_once`: it waits until
    /// something is ready, asks for I/O, and runs exactly what is ready then. With nothing to wait
    /// for it blocks; under a clock moved by hand it does not wait for timers.
    ///
    /// # Errors
    /// [`RuntimeError::LoopClosed`], [`RuntimeError::LoopRunning`],
    /// [`RuntimeError::OtherLoopRunning`], or what the system says to the poll.
    pub fn run_once(&self) -> Result<()> {
        self.handle.run(Mode::ByHand)
    }

    /// Runs until somebody calls [`stop`](LoopHandle::stop); the tick in which that happens is
    /// finished. After a stop before the run it does one tick (`loop.run_forever`).
    ///
    /// # Errors
    /// As for [`run_once`](Self::run_once), and [`RuntimeError::Deadlock`] under a clock moved by
    /// hand when only the clock could go on.
    pub fn run_forever(&self) -> Result<()> {
        self.handle.run(Mode::Forever)
    }

    /// Runs until a coroutine or future is done and gives its outcome
    /// (`loop.run_until_complete`). A [`Future`](crate::Future), [`Task`](crate::Task) or
    /// [`Take`](crate::Take) of this crate is waited for; anything else becomes a task. The run ends
    /// one tick after the last step.
    ///
    /// # Errors
    /// What the coroutine raises; [`RuntimeError::StoppedBeforeDone`] if the loop was stopped
    /// first (the task stays, and can be run on); [`RuntimeError::Deadlock`] if nothing is left
    /// that could ever wake the loop; [`RuntimeError::OtherLoop`] for a pending future of another
    /// loop; and those of [`run_once`](Self::run_once).
    pub fn run_until_complete<T: 'static>(
        &self,
        awaitable: impl StdFuture<Output = Result<T>> + 'static,
    ) -> Result<T> {
        // Before the coroutine becomes a task: where the loop can not run, nothing is scheduled.
        self.check_runnable()?;
        self.run_until_done(self.ensure_future(awaitable))
    }

    /// The same for what is a future or task already.
    pub(crate) fn run_until_done<T: 'static, F>(&self, awaited: Ensured<T, F>) -> Result<T>
    where
        F: StdFuture<Output = Result<T>> + 'static,
    {
        let future = awaited.future.clone();
        if !future.get_loop().is_same(&self.handle) {
            // What is done already needs no loop, but its outcome is that of a run.
            if !future.done() {
                return Err(RuntimeError::OtherLoop.into());
            }
            drop(future);
            return awaited.outcome();
        }
        let handle = self.handle();
        let stopper = future.when_done(move || handle.stop());
        let run = self.handle.run(Mode::UntilComplete);
        if run.is_err() || !future.done() {
            future.forget_when_done(stopper);
            run?;
            return Err(RuntimeError::StoppedBeforeDone.into());
        }
        drop(future);
        awaited.outcome()
    }

    /// [`LoopHandle::sock_recv`] as the brief has it: from outside of tasks, where it is a
    /// [`Future`](crate::Future) from the start.
    ///
    /// # Errors
    /// As there.
    pub fn sock_recv<T: Pollable + 'static>(&self, sock: &Source<T>, max_bytes: usize) -> Future<Vec<u8>>
    where
        for<'a> &'a T: Read,
    {
        self.handle.receive(sock, max_bytes)
    }

    /// Lets go of everything that is scheduled, pending or registered, and of the system's
    /// resources (`loop.close`). Every closure is dropped. Tasks that are still pending are
    /// dropped where they are, with one report that counts them; [`run`](crate::run) cancels them
    /// first. Closing twice is harmless.
    ///
    /// # Errors
    /// [`RuntimeError::LoopRunning`] from inside a run.
    pub fn close(&self) -> Result<()> {
        if self.is_running() {
            return Err(RuntimeError::LoopRunning.into());
        }
        if !self.is_closed() {
            self.handle.close_core();
        }
        Ok(())
    }
}

impl Deref for EventLoop {
    type Target = LoopHandle;

    fn deref(&self) -> &LoopHandle {
        &self.handle
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        // It can not be running: a run borrows it.
        let _ = self.close();
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventLoop").field(&self.handle).finish()
    }
}
