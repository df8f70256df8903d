//! `Runner` and `run`: coroutines on a loop of their own, and the clean-up after them (Python's
//! `runners.py`).

use std::fmt;
use std::future::Future as StdFuture;
use std::io;

use crate::contexts::{Context, copy_context};
use crate::errors::{Result, RuntimeError};
use crate::event_loop::EventLoop;
use crate::hooks::ExceptionContext;
use crate::loop_core::{LoopHandle, get_running_loop};
use crate::tasks::AnyTask;
use crate::tasks::ensure::Ensured;

/// For so many more ticks asyncio's runner runs its loop when the last task that was left has
/// ended (until its `gather` is done), and then always (to end async generators and the executor).
/// Done callbacks of those tasks rely on the first, and what they schedule on the second.
const TICKS_AFTER_THE_TASKS: u32 = 2;
const TICKS_BEFORE_CLOSING: u32 = 4;

/// Runs several main coroutines, one after the other, on one loop, and cleans up after the last
/// (`asyncio.Runner`).
///
/// Between the mains the loop lives on: its time, its tasks, what is scheduled on it. It stands
/// still meanwhile. All mains run in one context, a copy of the current one at the time the runner
/// was made: a [`ContextVar`](crate::ContextVar) that one of them sets is seen by the next.
///
/// [`close`](Self::close), or dropping it, ends it: the tasks that are left are cancelled and
/// awaited (those, and not what they start meanwhile), each that failed is reported to the
/// exception handler, and the loop is closed. A clean-up that fails is an error of `close`; a drop
/// gives it to the exception handler. Dropped inside a running loop a runner can not run the
/// clean-up: what is left is then dropped where it is.
///
/// ```
/// use miniloop::{Runner, create_task, sleep};
/// use std::time::Duration;
///
/// let runner = Runner::new()?;
/// let task = runner.run(async {
///     // It outlives this coroutine.
///     Ok(create_task(async {
///         sleep(Duration::from_millis(1)).await?;
///         Ok("done")
///     }))
/// })?;
/// assert!(!task.done());
/// assert_eq!(runner.run(task)?, "done");
/// runner.close()?;
/// # Ok::<(), miniloop::Exception>(())
/// ```
pub struct Runner {
    event_loop: EventLoop,
    /// That of all mains.
    context: Context,
}

impl Runner {
    /// A runner with a loop on the system's monotonic clock.
    ///
    /// # Errors
    /// As for [`EventLoop::new`].
    pub fn new() -> io::Result<Runner> {
        Ok(Runner::with_loop(EventLoop::new()?))
    }

    /// A runner of a loop that was made elsewhere (`Runner(loop_factory=..)`): one on a clock of
    /// its own, or with an exception handler.
    ///
    /// ```
    /// use miniloop::{EventLoop, FakeClock, Runner, sleep};
    /// use std::time::Duration;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let runner = Runner::with_loop(EventLoop::with_clock(FakeClock::auto())?);
    /// runner.run(async move { sleep(hour).await })?;
    /// assert_eq!(runner.get_loop().time(), hour);
    /// # Ok::<(), miniloop::Exception>(())
    /// ```
    pub fn with_loop(event_loop: EventLoop) -> Runner {
        Runner {
            event_loop,
            context: copy_context(),
        }
    }

    /// The loop (`Runner.get_loop`). It is closed with the runner.
    pub fn get_loop(&self) -> LoopHandle {
        self.event_loop.handle()
    }

    /// Runs `main` until it is done and gives its outcome (`Runner.run`). It may be called again,
    /// also after an error: a main that was stopped or that waits for nothing is then one of the
    /// tasks that are left, and goes on in the next run.
    ///
    /// A [`Future`](crate::Future) or [`Task`](crate::Task) is waited for as it is. So a main in
    /// a context of its own (`Runner.run(.., context=..)`) is a task from
    /// [`task_builder`](LoopHandle::task_builder).
    ///
    /// # Errors
    /// What `main` raises, and what
    /// [`run_until_complete`](EventLoop::run_until_complete) says. From inside a running loop,
    /// [`RuntimeError::LoopRunning`] or [`RuntimeError::OtherLoopRunning`]; nothing of `main` runs
    /// then.
    pub fn run<T: 'static>(&self, main: impl StdFuture<Output = Result<T>> + 'static) -> Result<T> {
        self.event_loop.check_runnable()?;
        let builder = self.event_loop.task_builder().context(self.context.clone());
        let main = Ensured::new(main, |coroutine| builder.create_task(coroutine));
        self.event_loop.run_until_done(main)
    }

    /// Cancels and awaits the tasks that are left, reports those that failed, and closes the loop
    /// (`Runner.close`).
    ///
    /// # Errors
    /// Those of the clean-up itself: [`RuntimeError::Deadlock`] if a task that was cancelled waits
    /// for something that nothing can bring; [`RuntimeError::OtherLoopRunning`] if tasks are left
    /// and this is called inside another loop; what the system says to the poll. The loop is
    /// closed all the same. A runner is closed once:
    ///
    /// ```compile_fail,E0382
    /// let runner = miniloop::Runner::new()?;
    /// runner.close()?;
    /// runner.close()?;
    /// # Ok::<(), miniloop::Exception>(())
    /// ```
    pub fn close(self) -> Result<()> {
        let cleaned_up = self.cancel_what_is_left();
        // What is dropped in the end finds a closed loop.
        let closed = self.event_loop.close();
        cleaned_up.and(closed)
    }

    fn cancel_what_is_left(&self) -> Result<()> {
        // Those and no others, as in asyncio: what they start now is not waited for.
        let left = self.event_loop.all_tasks();
        if self.event_loop.is_closed() || (left.is_empty() && self.event_loop.check_runnable().is_err()) {
            return Ok(());
        }
        for task in &left {
            task.cancel();
        }
        let ended = self.run_until_ended(&left);
        left.iter().for_each(|task| self.report_failure(task));
        ended
    }

    fn run_until_ended(&self, tasks: &[AnyTask]) -> Result<()> {
        let mut unfinished = tasks.iter().peekable();
        let mut ticks_left = TICKS_BEFORE_CLOSING;
        if !tasks.is_empty() {
            ticks_left += TICKS_AFTER_THE_TASKS;
        }
        self.event_loop.run_while(|| {
            while unfinished.next_if(|task| task.done()).is_some() {}
            if unfinished.peek().is_some() {
                return true;
            }
            if ticks_left == 0 {
                return false;
            }
            ticks_left -= 1;
            // Something is ready, so that the tick does not wait.
            self.event_loop.call_soon(|| ());
            true
        })
    }

    fn report_failure(&self, task: &AnyTask) {
        if let Some(exception) = task.exception() {
            let context = ExceptionContext::new("unhandled exception during run() shutdown")
                .with_exception(exception)
                .with_task_name(Some(task.get_name()));
            self.event_loop.call_exception_handler(&context);
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        const WHERE: &str = "Exception in the clean-up of a dropped runner";
        let event_loop = self.event_loop.handle();
        // This may be in the middle of an unwinding, which a second panic would turn into an abort.
        event_loop.guard(WHERE, || {
            // After `close` there is nothing left to do.
            if let Err(error) = self.cancel_what_is_left() {
                let context = ExceptionContext::new(WHERE).with_exception(error);
                event_loop.call_exception_handler(&context);
            }
        });
        let _ = self.event_loop.close();
        let context = std::mem::take(&mut self.context);
        event_loop.guard("Exception while a context was dropped", || drop(context));
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner")
            .field("event_loop", &self.event_loop)
            .finish_non_exhaustive()
    }
}

/// Makes a loop, runs `main` on it, and cleans up (`asyncio.run`): tasks that are left over are
/// cancelled and awaited, those that failed meanwhile are reported, then the loop is closed. A
/// [`Runner`] does the same for several mains, or on a loop of your own.
///
/// # Errors
/// What `main` raises, and what [`EventLoop::new`],
/// [`run_until_complete`](EventLoop::run_until_complete) and [`Runner::close`] say. From inside a
/// running loop, [`RuntimeError::OtherLoopRunning`].
///
/// ```
/// use miniloop::{run, sleep};
/// use std::time::Duration;
///
/// let greeting = run(async {
///     sleep(Duration::from_millis(1)).await?;
///     Ok("hello")
/// })?;
/// assert_eq!(greeting, "hello");
/// # Ok::<(), miniloop::Exception>(())
/// ```
pub fn run<T: 'static>(main: impl StdFuture<Output = Result<T>> + 'static) -> Result<T> {
    if get_running_loop().is_ok() {
        // Before a loop is made for nothing.
        return Err(RuntimeError::OtherLoopRunning.into());
    }
    let runner = Runner::new()?;
    let outcome = runner.run(main);
    let closed = runner.close();
    let value = outcome?;
    closed?;
    Ok(value)
}
