//! `EventLoop`: the owner of a loop, and the ways to run it (Python's `loop.py`).

use std::any::Any;
use std::fmt;
use std::future::Future as StdFuture;
use std::io;
use std::ops::Deref;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::clock::Clock;
use crate::errors::{Result, RuntimeError};
use crate::futures::{Future, Take};
use crate::loop_core::{LoopHandle, Mode};
use crate::tasks::Task;

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
    /// (`loop.run_until_complete`). A [`Future`], [`Task`] or [`Take`] of this crate is waited
    /// for; anything else becomes a task. The run ends one tick after the last step.
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
        match future_of(&awaitable) {
            Some(future) => self.run_until_done(future, awaitable),
            None => {
                let task = self.create_task(awaitable);
                self.run_until_done(task.future().clone(), task.take())
            }
        }
    }

    fn run_until_done<T: 'static>(
        &self,
        future: Future<T>,
        awaitable: impl StdFuture<Output = Result<T>>,
    ) -> Result<T> {
        if !future.get_loop().is_same(&self.handle) {
            // What is done already needs no loop, but its outcome is that of a run.
            if !future.done() {
                return Err(RuntimeError::OtherLoop.into());
            }
            drop(future);
            return outcome_of(awaitable);
        }
        let handle = self.handle();
        let stopper = future.add_done_callback(move |_| handle.stop());
        let run = self.handle.run(Mode::UntilComplete);
        if run.is_err() || !future.done() {
            future.remove_done_callback(stopper);
            run?;
            return Err(RuntimeError::StoppedBeforeDone.into());
        }
        drop(future);
        outcome_of(awaitable)
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

/// The outcome of what is done. Only the awaitable itself knows whether its result can be cloned
/// for other handles.
fn outcome_of<T>(awaitable: impl StdFuture<Output = Result<T>>) -> Result<T> {
    let awaitable = pin!(awaitable);
    match awaitable.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(RuntimeError::StoppedBeforeDone.into()),
    }
}

/// The future of this crate that an awaitable is, if it is one.
fn future_of<T: 'static>(awaitable: &dyn Any) -> Option<Future<T>> {
    if let Some(future) = awaitable.downcast_ref::<Future<T>>() {
        Some(future.clone())
    } else if let Some(task) = awaitable.downcast_ref::<Task<T>>() {
        Some(task.future().clone())
    } else {
        awaitable
            .downcast_ref::<Take<T>>()
            .map(|take| take.future.clone())
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
