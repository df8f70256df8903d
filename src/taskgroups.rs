//! `TaskGroup`: tasks that end before the block that has started them (Python's `taskgroups.py`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future as StdFuture, poll_fn};
use std::pin::Pin;
use std::rc::Rc;

use crate::errors::{CancelledError, Exception, ExceptionGroup, Result, RuntimeError};
use crate::futures::Future;
use crate::handles::TaskControl;
use crate::hooks::ExceptionContext;
use crate::loop_core::{LoopHandle, Place, Scope, get_running_loop};
use crate::scopes::{Body, Ended};
use crate::tasks::{Task, TaskBuilder};

/// Tasks that belong together (`asyncio.TaskGroup`): none of them outlives the group's block.
///
/// [`run`](Self::run) runs the block and then waits for every task that was made by
/// [`create_task`](Self::create_task), in the block or in another task of the group. If one fails,
/// or the block does, the block and the other tasks are cancelled, and when all have ended the
/// errors are raised together in an [`ExceptionGroup`], in the order in which they came, that of
/// the block last.
/// [`cancel`](Self::cancel) stops the group without an error. Clones refer to one group.
///
/// If the task that runs the block is cancelled, so are the tasks of the group. If errors come
/// up then, they are raised, and the cancellation comes again at the next await. (Only one
/// that came while the group ran: asyncio delivers one again, too, that was used up before.) If the block is
/// dropped in the middle (in the branch of a `select!` that lost), its tasks are cancelled, and
/// each reports its own failure. Other branches of a `join!` around the group are not touched.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, TaskGroup, sleep};
/// use std::time::Duration;
///
/// async fn fetch(page: u32) -> miniloop::Result<u32> {
///     sleep(Duration::from_secs(1)).await?;
///     Ok(page * 10)
/// }
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// let sum = event_loop.run_until_complete(async {
///     let group = TaskGroup::new();
///     let (one, two) = group
///         .run(async { Ok((group.create_task(fetch(1))?, group.create_task(fetch(2))?)) })
///         .await?;
///     Ok(one.result()? + two.result()?)
/// })?;
/// assert_eq!(sum, 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct TaskGroup {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// What the block awaits.
    scope: Rc<Scope>,
    phase: Cell<Phase>,
    event_loop: RefCell<Option<LoopHandle>>,
    /// The tasks that have not ended, by their numbers.
    tasks: RefCell<BTreeMap<u64, Rc<dyn TaskControl>>>,
    /// While the block is over and tasks are not.
    all_ended: RefCell<Option<Future<()>>>,
    errors: RefCell<Vec<Exception>>,
    /// What the block has raised.
    block_error: RefCell<Option<Exception>>,
    /// Everything in it was cancelled.
    aborting: Cell<bool>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Entered,
    /// The block is over.
    Waiting,
    Over,
}

impl TaskGroup {
    /// A group that has not been entered.
    pub fn new() -> TaskGroup {
        TaskGroup::default()
    }

    /// Has the loop run a coroutine as a task of the group (`TaskGroup.create_task`).
    ///
    /// # Errors
    /// [`RuntimeError::NotEntered`] before the block, [`RuntimeError::Over`] after it,
    /// [`RuntimeError::ShuttingDown`] when the group is being cancelled. The coroutine is dropped.
    pub fn create_task<T: 'static>(
        &self,
        coroutine: impl StdFuture<Output = Result<T>> + 'static,
    ) -> Result<Task<T>, RuntimeError> {
        let event_loop = self.inner.accept()?;
        Ok(self.inner.take_in(event_loop.create_task(coroutine)))
    }

    /// The same for a task with a name, a context, or an eager start.
    ///
    /// # Errors
    /// As for [`create_task`](Self::create_task), and [`RuntimeError::OtherLoop`] for a builder of
    /// another loop.
    pub fn create_task_with<T: 'static>(
        &self,
        builder: TaskBuilder,
        coroutine: impl StdFuture<Output = Result<T>> + 'static,
    ) -> Result<Task<T>, RuntimeError> {
        let event_loop = self.inner.accept()?;
        if !builder.event_loop().is_same(&event_loop) {
            return Err(RuntimeError::OtherLoop);
        }
        Ok(self.inner.take_in(builder.create_task(coroutine)))
    }

    /// Stops the group on purpose: the block and the tasks in it are cancelled, and no error comes
    /// of that (`TaskGroup.cancel`, which asyncio has from 3.15 on). What they raise meanwhile is
    /// raised by the group. Before the block it stops the block at its first await that has to
    /// wait; after it, and the second time, it does nothing.
    pub fn cancel(&self) {
        if self.inner.phase.get() != Phase::Over && !self.inner.aborting.get() {
            self.inner.abort();
            self.inner.scope.cancel(CancelledError::new());
        }
    }

    /// Runs the group's block, once, as a part of the calling task, and waits for its tasks.
    ///
    /// # Errors
    /// [`ExceptionGroup`] with what the tasks and the block have raised; the cancellation of the
    /// calling task; [`RuntimeError::Stopped`] if [`cancel`](Self::cancel) stopped the block before
    /// it had a value; [`RuntimeError::EnteredTwice`]; [`RuntimeError::NotInTask`].
    pub fn run<T, F: StdFuture<Output = Result<T>>>(
        &self,
        block: F,
    ) -> impl StdFuture<Output = Result<T>> + use<T, F> {
        let running = self.run_optional(block);
        async move { running.await?.ok_or_else(|| RuntimeError::Stopped.into()) }
    }

    /// The same for a group that may be stopped by [`cancel`](Self::cancel): `None` if the block
    /// was stopped before it had a value.
    ///
    /// ```
    /// use miniloop::{EventLoop, FakeClock, TaskGroup, sleep};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
    /// let outcome = event_loop.run_until_complete(async {
    ///     let group = TaskGroup::new();
    ///     group
    ///         .run_optional(async {
    ///             let stop = group.clone();
    ///             group.create_task(async move {
    ///                 sleep(Duration::from_secs(1)).await?;
    ///                 stop.cancel();
    ///                 Ok(())
    ///             })?;
    ///             sleep(Duration::from_secs(3600)).await
    ///         })
    ///         .await
    /// })?;
    /// assert_eq!(outcome, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_optional<T, F: StdFuture<Output = Result<T>>>(
        &self,
        block: F,
    ) -> impl StdFuture<Output = Result<Option<T>>> + use<T, F> {
        let (inner, block) = (self.inner.clone(), Box::pin(block));
        async move { inner.run(block).await }
    }
}

impl Inner {
    /// Whether one more task may come in.
    fn accept(&self) -> Result<LoopHandle, RuntimeError> {
        match self.phase.get() {
            Phase::New => Err(RuntimeError::NotEntered),
            Phase::Over => Err(RuntimeError::Over),
            Phase::Waiting if self.tasks.borrow().is_empty() => Err(RuntimeError::Over),
            _ if self.aborting.get() => Err(RuntimeError::ShuttingDown),
            _ => self.event_loop.borrow().clone().ok_or(RuntimeError::NotEntered),
        }
    }

    fn take_in<T: 'static>(self: &Rc<Self>, task: Task<T>) -> Task<T> {
        let control = task.to_any().control().clone();
        if control.done() {
            // An eager one.
            self.task_ended(&control);
            return task;
        }
        self.tasks.borrow_mut().insert(control.number(), control.clone());
        let (group, ended) = (Rc::downgrade(self), Rc::downgrade(&control));
        if self.aborting.get() {
            // Its eager step has ended the group.
            control.clone().cancel(&CancelledError::new());
        }
        control.when_done(Box::new(move || {
            if let (Some(group), Some(ended)) = (group.upgrade(), ended.upgrade()) {
                group.task_ended(&ended);
            }
        }));
        task
    }

    fn task_ended(&self, task: &Rc<dyn TaskControl>) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.remove(&task.number());
        let last = tasks.is_empty();
        drop(tasks);
        if last && let Some(all_ended) = self.all_ended.take() {
            // It is cancelled already if the task that waits was.
            let _ = all_ended.set_result(());
        }
        if self.phase.get() == Phase::Over {
            // Nobody waits for the group any more: the task reports its failure itself.
            return;
        }
        let Some(error) = task.failure() else { return };
        self.errors.borrow_mut().push(error);
        if !self.aborting.get() {
            self.abort();
            self.scope.cancel(CancelledError::new());
            // The one that waits for the tasks is stepped once more, as in asyncio.
            if let Some(all_ended) = self.all_ended.take() {
                let _ = all_ended.set_result(());
            }
        }
    }

    /// Cancels every task in it.
    fn abort(&self) {
        self.aborting.set(true);
        let tasks: Vec<_> = self.tasks.borrow().values().cloned().collect();
        for task in tasks {
            if !task.done() {
                task.cancel(&CancelledError::new());
            }
        }
    }

    async fn run<T, F: StdFuture<Output = Result<T>>>(
        self: Rc<Self>,
        block: Pin<Box<F>>,
    ) -> Result<Option<T>> {
        if self.phase.get() != Phase::New {
            return Err(RuntimeError::EnteredTwice.into());
        }
        let event_loop = get_running_loop()?;
        let place = Place::here(&event_loop).ok_or(RuntimeError::NotInTask)?;
        self.phase.set(Phase::Entered);
        self.event_loop.replace(Some(event_loop.clone()));
        let entered = Entered(&self);
        let mut block = Body::new(self.scope.clone(), block);
        let ended = poll_fn(|cx| block.poll(cx)).await?;
        self.phase.set(Phase::Waiting);
        let mut value = None;
        let mut outside = None;
        match ended {
            Ended::With(Ok(result)) => value = Some(result),
            Ended::With(Err(exception)) => drop(self.block_error.replace(Some(exception))),
            Ended::Cancelled(exception) => outside = Some(exception),
            Ended::Interrupted => {}
        }
        if (self.block_error.borrow().is_some() || outside.is_some()) && !self.aborting.get() {
            self.abort();
        }
        let interrupted = self.wait_for_tasks(&event_loop).await?;
        let outside = outside.or(interrupted);
        let mut errors = self.errors.take();
        errors.extend(self.block_error.take());
        drop(entered);
        if errors.is_empty() {
            return outside.map_or(Ok(value), Err);
        }
        // The errors come first, but a cancellation that came meanwhile is not lost.
        if let Some(source) = place.outside(outside.as_ref()) {
            source.deliver_again(&event_loop, outside.as_ref());
        }
        Err(ExceptionGroup::new("unhandled errors in a TaskGroup", errors).into())
    }

    /// Waits until every task has ended, however often the waiting task is cancelled meanwhile:
    /// the first such cancellation is returned.
    async fn wait_for_tasks(&self, event_loop: &LoopHandle) -> Result<Option<Exception>> {
        let mut first = None;
        while !self.tasks.borrow().is_empty() {
            let all_ended = event_loop.create_future();
            self.all_ended.replace(Some(all_ended.clone()));
            if let Err(exception) = all_ended.await {
                if !exception.is_cancelled() {
                    return Err(exception);
                }
                first.get_or_insert(exception);
                if !self.aborting.get() {
                    self.abort();
                }
            }
        }
        Ok(first)
    }
}

/// The group is in use for as long as this lives.
struct Entered<'a>(&'a Rc<Inner>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let group = self.0;
        group.phase.set(Phase::Over);
        let event_loop = group.event_loop.take();
        // Only if it is dropped in the middle there are tasks left, and errors that nobody will see.
        if !group.aborting.get() {
            group.abort();
        }
        let mut errors = group.errors.take();
        errors.extend(group.block_error.take());
        if let Some(event_loop) = event_loop {
            for error in errors {
                let context = ExceptionContext::new("Exception in a task group that was dropped");
                event_loop.call_exception_handler(&context.with_exception(error));
            }
        }
    }
}

impl fmt::Debug for TaskGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.inner.phase.get() {
            Phase::New => "new",
            Phase::Entered => "entered",
            Phase::Waiting => "waiting",
            Phase::Over => "over",
        };
        f.debug_struct("TaskGroup")
            .field("phase", &phase)
            .field("tasks", &self.inner.tasks.borrow().len())
            .field("errors", &self.inner.errors.borrow().len())
            .finish_non_exhaustive()
    }
}
