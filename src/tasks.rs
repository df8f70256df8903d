//! `Task<T>`: a coroutine that the loop runs (Python's `tasks.py`).
//!
//! This is the handle; how the coroutine is stepped is in `stepping.rs`.

mod any;
mod control;
pub(crate) mod ensure;
mod stepping;

use std::borrow::Cow;
use std::fmt;
use std::future::Future as StdFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use crate::contexts::{self, Context};
use crate::errors::Result;
use crate::futures::{Future, Take};
use crate::handles::TaskControl;
use crate::loop_core::{LoopHandle, get_running_loop};
pub use any::{AnyTask, all_tasks, current_task};

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
        self.future.cell().clone().task().map(|task| of_task(&*task))
    }

    /// Asks the task to stop, as described [above](Task#cancellation), and tells whether it was
    /// unfinished until now (`Task.cancel`). [`Future::cancel`] does the same.
    pub fn cancel(&self) -> bool {
        self.future.cancel()
    }

    /// The same with a message, which the [`CancelledError`](crate::CancelledError) carries to
    /// the await it is delivered at, and through the tasks in between (`Task.cancel(msg)`).
    pub fn cancel_with(&self, message: impl Into<Cow<'static, str>>) -> bool {
        self.future.cancel_with(message)
    }

    /// Takes one cancellation request back and tells how many are left (`Task.uncancel`). At none,
    /// one that was not delivered yet is withdrawn, unless what the task waits for was cancelled
    /// already: then that await yields the error all the same.
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

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Result<T>> {
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
        let task = stepping::new_task(self, coroutine);
        task.furnish(None, contexts::captured());
        Task {
            future: task.start(false),
        }
    }

    /// Settings for a task: its name, its context, whether it starts at once.
    pub fn task_builder(&self) -> TaskBuilder {
        TaskBuilder {
            event_loop: self.clone(),
            name: None,
            context: None,
            eager: false,
        }
    }
}

/// Makes a task with settings of its own (the keywords of `create_task`): see
/// [`LoopHandle::task_builder`].
///
/// ```
/// use miniloop::{EventLoop, current_task};
///
/// let event_loop = EventLoop::new()?;
/// let task = event_loop.task_builder().name("worker").create_task(async {
///     Ok(current_task().map(|task| task.get_name()))
/// });
/// assert_eq!(event_loop.run_until_complete(task)?.unwrap(), "worker");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is made before `create_task`"]
pub struct TaskBuilder {
    event_loop: LoopHandle,
    name: Option<String>,
    context: Option<Context>,
    eager: bool,
}

impl TaskBuilder {
    /// The task's name (`name=`).
    pub fn name(mut self, name: impl Into<String>) -> TaskBuilder {
        self.name = Some(name.into());
        self
    }

    /// The context that all its steps run in, instead of a copy of the current one (`context=`).
    pub fn context(mut self, context: Context) -> TaskBuilder {
        self.context = Some(context);
        self
    }

    /// Whether the first step is made by `create_task` itself, up to the first await that has to
    /// wait (`eager_start=`). A coroutine that does not wait is then done at once, and was never
    /// scheduled. Where the loop is not running, the task is scheduled as always.
    pub fn eager_start(mut self, eager: bool) -> TaskBuilder {
        self.eager = eager;
        self
    }

    pub(crate) fn event_loop(&self) -> &LoopHandle {
        &self.event_loop
    }

    /// Has the loop run the coroutine: [`LoopHandle::create_task`].
    pub fn create_task<T: 'static>(self, coroutine: impl StdFuture<Output = Result<T>> + 'static) -> Task<T> {
        let task = stepping::new_task(&self.event_loop, coroutine);
        task.furnish(self.name, self.context.or_else(contexts::captured));
        Task {
            future: task.start(self.eager),
        }
    }
}

impl fmt::Debug for TaskBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("eager_start", &self.eager)
            .finish_non_exhaustive()
    }
}

/// Has the running loop run a coroutine (`asyncio.create_task`): see
/// [`LoopHandle::create_task`]. Where no loop is running the coroutine is dropped, and the task has
/// failed with [`RuntimeError::NoRunningLoop`](crate::RuntimeError::NoRunningLoop).
pub fn create_task<T: 'static>(coroutine: impl StdFuture<Output = Result<T>> + 'static) -> Task<T> {
    match get_running_loop() {
        Ok(event_loop) => event_loop.create_task(coroutine),
        Err(error) => {
            let task = stepping::new_task(&LoopHandle::closed(), coroutine);
            Task {
                future: task.refuse(error),
            }
        }
    }
}
