//! `Task<T>`: a coroutine that the loop runs (Python's `tasks.py`).
//!
//! This is the handle; how the coroutine is stepped is in `stepping.rs`.

mod stepping;

use std::fmt;
use std::future::Future as StdFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::errors::{Result, RuntimeError};
use crate::futures::{Future, Take, TaskControl};
use crate::loop_core::LoopHandle;

/// A coroutine that the loop runs, and its outcome (`asyncio.Task`).
///
/// It is a [`Future`] (and derefs to it) whose value comes from stepping an async block. It can
/// be awaited, cloned and given done callbacks. Dropping it detaches the task and never cancels
/// it: the loop owns running tasks. Only its coroutine finishes it; `set_result` and
/// `set_exception` are refused.
///
/// # Cancellation
/// [`cancel`](Self::cancel) asks a task to stop. The future that it waits for is cancelled, so
/// that the await it is suspended at yields `Err(CancelledError)`. The coroutine may clean up,
/// await more, and pass the error on with `?`: then the task ends cancelled. If it swallows the
/// error, it goes on. A task that has not begun never runs. One that is suspended on something
/// that is not of this crate has no await that could yield the error: its coroutine is dropped
/// where it is.
///
/// ```
/// use miniloop::{EventLoop, Exception, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new()?;
/// let task = event_loop.create_task(async {
///     let slept = sleep(Duration::from_secs(3600)).await;
///     if let Err(error) = &slept {
///         assert!(error.is_cancelled());
///         // clean up here
///     }
///     slept
/// });
/// event_loop.run_once()?;
/// assert!(task.cancel());
/// let error = event_loop.run_until_complete(task.clone()).unwrap_err();
/// assert!(error.is_cancelled() && task.cancelled());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Task<T> {
    future: Future<T>,
}

impl<T: 'static> Task<T> {
    pub(crate) fn future(&self) -> &Future<T> {
        &self.future
    }

    fn control<R>(&self, of_task: impl FnOnce(&dyn TaskControl) -> R) -> Option<R> {
        self.future.cell().task().map(of_task)
    }

    /// Asks the task to stop, as described [above](Task#cancellation), and tells whether it was
    /// unfinished until now (`Task.cancel`). [`Future::cancel`] does the same.
    pub fn cancel(&self) -> bool {
        self.future.cancel()
    }

    /// Takes one cancellation request back and tells how many are left; at none, one that was
    /// not delivered yet is withdrawn (`Task.uncancel`).
    pub fn uncancel(&self) -> u32 {
        self.control(|task| task.uncancel()).unwrap_or(0)
    }

    /// How many cancellation requests there were, less those taken back (`Task.cancelling`).
    pub fn cancelling(&self) -> u32 {
        self.control(|task| task.cancelling()).unwrap_or(0)
    }

    /// The task's name, `Task-1` and so on where none was set (`Task.get_name`).
    pub fn get_name(&self) -> String {
        self.control(|task| task.name()).unwrap_or_default()
    }

    /// Names the task, for reports (`Task.set_name`).
    pub fn set_name(&self, name: impl Into<String>) {
        let name = name.into();
        self.control(|control| control.set_name(name));
    }

    /// An awaitable that moves the result out; other handles then find it taken.
    pub fn take(self) -> Take<T> {
        self.future.take()
    }
}

impl<T> Deref for Task<T> {
    type Target = Future<T>;

    fn deref(&self) -> &Future<T> {
        &self.future
    }
}

impl<T: Clone + 'static> StdFuture for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.future).poll(cx)
    }
}

impl<T> Clone for Task<T> {
    fn clone(&self) -> Task<T> {
        Task {
            future: self.future.clone(),
        }
    }
}

impl<T: 'static> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("name", &self.get_name())
            .field("future", &self.future)
            .finish()
    }
}

impl LoopHandle {
    /// Has the loop run a coroutine (`loop.create_task`). Its first step is scheduled like a
    /// callback; nothing of it runs in here.
    ///
    /// A coroutine is an async block or function that returns [`Result<T>`](crate::Result):
    /// returning `Err`, mostly by `?`, is raising. Where the type can not be inferred, end it in
    /// `Ok::<(), Exception>(())`, or write a function that returns `miniloop::Result<()>`.
    /// On a closed loop the coroutine is dropped and the task has failed.
    ///
    /// ```
    /// use miniloop::{EventLoop, Exception};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let task = event_loop.create_task(async {
    ///     let port: u16 = "8888".parse()?;
    ///     Ok::<_, Exception>(port + 1)
    /// });
    /// assert!(!task.done());
    /// assert_eq!(event_loop.run_until_complete(task)?, 8889);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_task<T: 'static>(
        &self,
        coroutine: impl StdFuture<Output = Result<T>> + 'static,
    ) -> Task<T> {
        if self.is_closed() {
            self.guard("Exception while a task's coroutine was dropped", || {
                drop(coroutine)
            });
            return Task {
                future: Future::failed(self, RuntimeError::LoopClosed),
            };
        }
        Task {
            future: stepping::begin(self, coroutine),
        }
    }
}
