//! The scheduling half of the loop: `LoopHandle`, the tick, the running loop (`BaseEventLoop`).
//!
//! Only [`LoopHandle::run_job`] calls what users scheduled; everything else appends to the ready queue.
//! No borrow of the loop's tables is held while user code runs or is dropped.
//!
//! Compiled, the loop is two functions (`run` and `poll`, and a third where a batch is of several kinds),
//! for what is between them and the callback or the system call is marked to become a part of them. It
//! saves a tenth of a callback or a step, and of a server with one connection 2 to 4 % of its time: after a
//! system call, which leaves little in the processor's caches and predictors, each function costs more than
//! its instructions. The calls that a task's step makes of the system are parts of it for the same reason: a
//! function around the receive alone costs a server with 50 connections 2 to 3 %.

mod awaiting;
mod cancelling;
mod closing;
mod core;
mod failures;
mod limit;
pub(crate) mod part;
mod poll_bound;
mod running;
mod scope;
mod step;

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::time::Duration;

use slotmap::Key;

use crate::clock::{Clock, Idle};
use crate::contexts;
use crate::errors::{Exception, Result, RuntimeError};
use crate::handles::{Callback, Handle, SourceKey, TimerHandle, boxed};
use crate::hooks::ExceptionContext;
use crate::ready::{Entry, Lane, Run};
use crate::selector::Selector;
use crate::threadsafe::ThreadsafeHandle;
pub(crate) use awaiting::{Awaiting, take_cancellation};
pub(crate) use core::{Core, Kept, SCRATCH_LIMIT};
pub(crate) use limit::Deadline;
use limit::{Due, expire};
use running::a_loop_is_running;
pub use running::get_running_loop;
pub(crate) use running::with_running_loop;
pub(crate) use scope::{Place, Scope};
pub(crate) use step::{Step, Stepper};

/// How long the system gets to deliver I/O before an automatic fake clock jumps.
const GRACE_BEFORE_JUMP: Duration = Duration::from_millis(20);

/// How the loop is run: it decides what an idle tick does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `run_once`: every tick polls.
    ByHand,
    Forever,
    /// A wait that nothing could ever end is an error.
    UntilComplete,
}

/// Boxes a callback that is to run in the context of this place.
#[inline]
pub(crate) fn in_context(callback: impl FnOnce() + 'static) -> Callback {
    match contexts::captured() {
        None => boxed(callback),
        Some(context) => Box::new(move || context.enter(callback)),
    }
}

/// A loop, for the callbacks and coroutines that use it (what `loop` is in Python code).
///
/// Clones are cheap and refer to one loop, on its thread. Its owner is the
/// [`EventLoop`](crate::EventLoop): when that is closed or dropped, the handle is inert.
/// Scheduling then gives a handle that is born cancelled (and a line in the log), and
/// what returns a future gives one that has failed with [`RuntimeError::LoopClosed`].
#[derive(Clone)]
pub struct LoopHandle {
    pub(crate) core: Rc<Core>,
}

impl LoopHandle {
    pub(crate) fn new(clock: Option<Box<dyn Clock>>) -> io::Result<LoopHandle> {
        Ok(LoopHandle::with(clock, Selector::new()?))
    }

    /// A loop that is closed from the start, for futures that have failed without one.
    pub(crate) fn closed() -> LoopHandle {
        let closed = LoopHandle::with(None, Selector::closed());
        closed.core.closed.set(true);
        closed
    }

    fn with(clock: Option<Box<dyn Clock>>, selector: Rc<Selector>) -> LoopHandle {
        let core = Rc::new(Core::new(clock, selector));
        LoopHandle { core }
    }

    // -- scheduling ---------------------------------------------------------------------------

    /// Has `callback` run in the next tick, after everything that is ready already
    /// (`loop.call_soon`; arguments are captured by the closure). A `Box<dyn FnOnce()>` is taken
    /// as it is.
    ///
    /// ```
    /// use miniloop::EventLoop;
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.call_soon(|| println!("hello"));
    /// event_loop.run_once()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_soon(&self, callback: impl FnOnce() + 'static) -> Handle {
        self.schedule(in_context(callback))
    }

    /// Schedules a callback that brings its context with it.
    #[inline(always)] // a look, and a push
    pub(crate) fn schedule(&self, callback: Callback) -> Handle {
        if self.core.closed.get() {
            return self.refuse_callback(callback);
        }
        let position = self.core.ready.borrow_mut().push_callback(callback);
        Handle::new(self.core.clone(), position)
    }

    /// (Kept apart so that `schedule` is small enough to go into the caller's code.)
    #[cold]
    fn refuse_callback(&self, callback: Callback) -> Handle {
        self.core.refuse("a callback");
        drop(callback);
        Handle::born_cancelled()
    }

    /// Has `callback` run when `delay` has passed (`loop.call_later`): never earlier, timers of
    /// one moment in scheduling order. A delay beyond what the clock can count saturates.
    #[inline]
    pub fn call_later(&self, delay: Duration, callback: impl FnOnce() + 'static) -> TimerHandle {
        self.call_at(self.time().saturating_add(delay), callback)
    }

    /// Has `callback` run at the moment `when` on the loop's clock, or in the next tick if that
    /// has passed (`loop.call_at`).
    #[inline]
    pub fn call_at(&self, when: Duration, callback: impl FnOnce() + 'static) -> TimerHandle {
        self.set_timer(when, in_context(callback))
    }

    /// Sets a timer for a callback that brings its context with it.
    #[inline]
    pub(crate) fn set_timer(&self, when: Duration, callback: Callback) -> TimerHandle {
        // Only the key crosses a call: a handle that is put together in there would be copied.
        let key = self.core.add_timer(when, || Due::Call(callback));
        if key.is_null() {
            return TimerHandle::born_cancelled(when);
        }
        TimerHandle::new(self.core.clone(), key, when)
    }

    /// The time on the loop's clock, since the clock's origin (`loop.time`). It never goes back.
    pub fn time(&self) -> Duration {
        self.core.now()
    }

    // -- state --------------------------------------------------------------------------------

    /// Has the run end when the current tick is finished (`loop.stop`). Asked of a loop that is
    /// not running, the next run does one tick.
    pub fn stop(&self) {
        self.core.stopping.set(true);
    }

    /// Whether the loop is inside one of its `run` methods (`loop.is_running`).
    pub fn is_running(&self) -> bool {
        self.core.running.get()
    }

    /// Whether the loop was closed (`loop.is_closed`).
    pub fn is_closed(&self) -> bool {
        self.core.closed.get()
    }

    /// Whether a task is being stepped on another loop.
    pub(crate) fn another_is_stepping(&self) -> bool {
        let running = get_running_loop().ok().filter(|running| !running.is_same(self));
        running.is_some_and(|running| running.core.stepping().is_some())
    }

    pub(crate) fn is_same(&self, other: &LoopHandle) -> bool {
        Rc::ptr_eq(&self.core, &other.core)
    }

    /// How often the loop has asked the operating system for I/O. A loop that spins shows here.
    pub fn pass_count(&self) -> u64 {
        self.core.selector.polls()
    }

    /// How many timers are held in memory, the cancelled ones that are not cleared away included.
    pub fn timer_count(&self) -> usize {
        self.core.timers.borrow().entries()
    }

    // -- other threads ------------------------------------------------------------------------

    /// A handle through which other threads schedule callbacks on this loop.
    pub fn threadsafe_handle(&self) -> ThreadsafeHandle {
        ThreadsafeHandle::new(self.core.inbox.clone())
    }

    // -- running ------------------------------------------------------------------------------

    /// Runs ticks: one by hand, or until somebody calls `stop`. The outermost guard of a run.
    pub(crate) fn run(&self, mode: Mode) -> Result<()> {
        let _running = self.enter()?;
        loop {
            self.tick(mode)?;
            if mode == Mode::ByHand || self.core.stopping.get() {
                return Ok(());
            }
        }
    }

    /// Runs ticks while `unfinished` says so, whoever calls `stop` meanwhile.
    pub(crate) fn run_while(&self, mut unfinished: impl FnMut() -> bool) -> Result<()> {
        let _running = self.enter()?;
        while unfinished() {
            self.core.stopping.set(false);
            self.tick(Mode::UntilComplete)?;
        }
        Ok(())
    }

    /// Whether it can be run now.
    pub(crate) fn check_runnable(&self) -> Result<(), RuntimeError> {
        if self.core.closed.get() {
            Err(RuntimeError::LoopClosed)
        } else if self.core.running.get() {
            Err(RuntimeError::LoopRunning)
        } else if a_loop_is_running() {
            Err(RuntimeError::OtherLoopRunning)
        } else {
            Ok(())
        }
    }

    /// One tick, the brief's heartbeat. The crate's page draws it with the same numbers.
    #[inline(always)] // see above
    fn tick(&self, mode: Mode) -> Result<()> {
        let core = &*self.core;
        // 1. What other threads have sent.
        core.read_inbox();
        // 2. Timers that are due become ready.
        core.move_due_timers();
        // 3. How long may the loop wait? Not at all while something is ready or a stop is asked, and
        // once more after other threads have sent several letters.
        let ready = !core.ready.borrow().is_empty();
        let stopping = core.stopping.get();
        let poll_left_out = ready && !stopping && mode != Mode::ByHand && core.may_leave_poll_out();
        if !poll_left_out {
            let may_wait = !ready && !stopping && (mode == Mode::ByHand || !core.expects_letters());
            // 4. Wait for I/O. 5. Each ready direction becomes a ready job.
            self.poll(mode, may_wait)?;
            // 6. What was sent, and what came due, meanwhile.
            core.read_inbox();
            core.move_due_timers();
        }
        // 7. Run exactly what is ready now; what that schedules is for the next tick.
        self.run_batch();
        Ok(())
    }

    /// How long an idle tick waits, which the clock says (`None`: without limit), and the deadline to jump
    /// to if nothing comes. `mail`: some may come from other threads meanwhile.
    #[inline(always)] // into `poll`
    fn how_long(&self, mode: Mode, mail: bool) -> Result<(Option<Duration>, Option<Duration>)> {
        let core = &*self.core;
        let nothing_can_wake = || !mail && !core.selector.is_watching_any();
        let deadline = core.timers.borrow_mut().next_deadline();
        let Some(idle) = core.idle(deadline) else {
            return Ok((Some(Duration::ZERO), None));
        };
        match idle {
            Idle::Wait(None) if mode == Mode::UntilComplete && nothing_can_wake() => {
                Err(RuntimeError::Deadlock.into())
            }
            Idle::Wait(limit) => Ok((limit, None)),
            Idle::Jump if core.selector.is_watching_any() => Ok((Some(GRACE_BEFORE_JUMP), deadline)),
            Idle::Jump => Ok((Some(Duration::ZERO), deadline)),
            Idle::DoNotBlock if mode == Mode::ByHand => Ok((Some(Duration::ZERO), None)),
            // The clock is moved by hand, and whoever could do that is waiting here.
            Idle::DoNotBlock if nothing_can_wake() => Err(RuntimeError::Deadlock.into()),
            Idle::DoNotBlock => Ok((None, None)),
        }
    }

    /// Asks the system for I/O and makes a job of each event. (Kept apart from `tick` for the compiler's
    /// sake: a chain hardly ever comes here.)
    #[inline(never)]
    fn poll(&self, mode: Mode, may_wait: bool) -> Result<()> {
        let core = &*self.core;
        // Asked once: the last who could send mail may leave at any moment, and has to be noticed
        // either here or below.
        let mail = may_wait && core.inbox.may_get_mail();
        let (mut timeout, jump_to) = if may_wait {
            self.how_long(mode, mail)?
        } else {
            (Some(Duration::ZERO), None)
        };
        core.poll_bound.polled();
        let sleeps = timeout != Some(Duration::ZERO) && mail;
        // Asked once more after falling asleep: the last one who could wake the loop may have
        // left in between.
        if sleeps && (!core.inbox.fall_asleep() || core.inbox.outside() == 0) {
            timeout = Some(Duration::ZERO);
        }
        let polled = core.selector.poll(timeout);
        if sleeps {
            core.inbox.wake_up();
        }
        let refused = polled?;
        let mut ready = core.ready.borrow_mut();
        core.selector.report(|event| ready.push_event(event));
        drop(ready);
        if !refused.is_empty() {
            self.report_refused(refused);
        }
        if let Some(deadline) = jump_to
            && core.nothing_ready()
        {
            core.clock().jump(deadline);
        }
        Ok(())
    }

    #[cold]
    fn report_refused(&self, refused: Vec<(SourceKey, io::Error)>) {
        const WHAT: &str = "The selector refused a source; its reader and writer are removed";
        for (source, error) in refused {
            if self.core.selector.refuse(source, &error) {
                let context = ExceptionContext::new(WHAT).with_exception(error.into());
                self.call_exception_handler(&context);
            }
        }
    }

    #[inline(always)] // see above
    fn run_batch(&self) {
        let core = &*self.core;
        let entries = core.ready.borrow_mut().begin_batch();
        if entries == 0 {
            let run = core.ready.borrow_mut().only_run();
            self.run_some(run);
        }
        for _ in 0..entries {
            self.run_entry();
        }
        core.renew_completions();
    }

    #[inline(always)] // see above
    fn run_entry(&self) {
        let entry = self.core.ready.borrow_mut().next();
        match entry {
            Some(Entry::Callback(callback)) => self.run_job(callback),
            Some(Entry::Next(run)) => self.run_some_of_many(run),
            None => {}
        }
    }

    /// [`run_some`](Self::run_some), where a batch is of several kinds.
    #[inline(never)]
    fn run_some_of_many(&self, run: Run) {
        self.run_some(run);
    }

    /// Runs the next jobs of a lane; a timer that was cancelled meanwhile is passed over.
    #[inline(always)] // see above; with `for_each` it would not become a part either
    fn run_some(&self, Run { lane, count }: Run) {
        let core = &*self.core;
        match lane {
            Lane::Step => {
                for _ in 0..count {
                    let step = core.ready.borrow_mut().next_step();
                    if let Some(step) = step {
                        self.run_job(|| step.step(self, None));
                    }
                }
            }
            Lane::Timer => {
                for _ in 0..count {
                    let due = core.timers.borrow_mut().take_due();
                    match due {
                        Some(Due::Call(callback)) => self.run_job(callback),
                        Some(Due::Expire(scope)) => self.run_expiry(&scope),
                        None => {}
                    }
                }
            }
            Lane::Io => {
                for _ in 0..count {
                    let event = core.ready.borrow_mut().next_event();
                    if let Some(event) = event {
                        self.run_job(|| core.selector.dispatch(event));
                    }
                }
            }
        }
    }

    /// (Kept apart from the way of the callbacks.)
    #[inline(never)]
    fn run_expiry(&self, scope: &Weak<Scope>) {
        self.run_job(|| expire(scope));
    }

    /// Runs one job: the only place where callbacks are called.
    #[inline]
    fn run_job(&self, job: impl FnOnce()) {
        self.core.poll_bound.callback_runs();
        self.core.renew_completions();
        let outcome = catch_unwind(AssertUnwindSafe(job));
        if contexts::in_use() {
            self.leave_context();
        }
        if let Err(payload) = outcome {
            self.callback_failed(payload);
        }
    }

    /// What a job has set was for itself and for what it has scheduled. (Like what follows, seldom
    /// needed and so not made part of each `run_job`.)
    #[inline(never)]
    fn leave_context(&self) {
        let ended = contexts::exchange(None);
        self.guard("Exception while a context was dropped", || drop(ended));
    }

    #[cold]
    fn callback_failed(&self, payload: Box<dyn Any + Send>) {
        let context = ExceptionContext::new("Exception in callback");
        self.call_exception_handler(&context.with_exception(Exception::from_panic(payload)));
    }
}

impl fmt::Debug for LoopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopHandle")
            .field("running", &self.is_running())
            .field("closed", &self.is_closed())
            .field("tasks", &self.core.tasks.get())
            .finish_non_exhaustive()
    }
}
