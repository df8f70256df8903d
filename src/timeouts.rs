//! Timeouts: a scope and the timer that cancels it (Python's `timeouts.py`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future as StdFuture, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use slotmap::Key;

use crate::errors::{CancelledError, Result, RuntimeError, TimeoutError};
use crate::futures::Future;
use crate::handles::{Handle, Scheduler, TimerKey};
use crate::loop_core::{LoopHandle, Scope, get_running_loop, in_context, with_running_loop};
use crate::scopes::Body;

/// Limits the time of a block (`asyncio.timeout`): `delay` from now, or no limit with `None`.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, TimeoutError, sleep, timeout};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async {
///     let limit = timeout(Duration::from_secs(5));
///     let outcome = limit.run(async { sleep(Duration::from_secs(3600)).await }).await;
///     assert!(outcome.unwrap_err().is::<TimeoutError>() && limit.expired());
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn timeout(delay: impl Into<Option<Duration>>) -> Timeout {
    Timeout::with(match delay.into() {
        None => Deadline::Never,
        Some(delay) => match with_running_loop(LoopHandle::clone) {
            Some(event_loop) => Deadline::At(event_loop.time().saturating_add(delay)),
            None => Deadline::After(delay),
        },
    })
}

/// The same with a moment on the loop's clock (`asyncio.timeout_at`). One that has passed
/// interrupts the block at its first await that has to wait.
pub fn timeout_at(when: impl Into<Option<Duration>>) -> Timeout {
    Timeout::with(when.into().map_or(Deadline::Never, Deadline::At))
}

/// A limit for a block (`asyncio.Timeout`), made by [`timeout`] or [`timeout_at`]. Clones refer to
/// one limit.
///
/// When time runs out, the await that the block is suspended at yields `Err(CancelledError)`; the
/// block may clean up, and when it passes the error on, [`run`](Self::run) raises a
/// [`TimeoutError`]. A block that swallows the error goes on, without a limit. Only the block is
/// interrupted: other branches of a `join!` around it are not, which asyncio's can not tell apart.
/// A cancellation of the task comes first, also one that was asked for before the block and is
/// delivered in it; asyncio 3.13 reports a timeout then, and the cancellation is lost. (Requests are
/// counted, as in asyncio: one that is made after another was taken back in the block by `uncancel`
/// is not told from that.)
#[derive(Clone)]
pub struct Timeout {
    inner: Rc<Inner>,
}

struct Inner {
    scope: Rc<Scope>,
    phase: Cell<Phase>,
    expired: Cell<bool>,
    deadline: Cell<Deadline>,
    /// The timer for it; the null key if there is none.
    timer: Cell<TimerKey>,
    /// Instead of that, if the deadline had passed.
    soon: Cell<Option<Box<Handle>>>,
    /// While the block runs.
    event_loop: RefCell<Option<LoopHandle>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Entered,
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Deadline {
    Never,
    At(Duration),
    /// Counted from when it is entered.
    After(Duration),
}

impl Timeout {
    #[inline]
    fn with(deadline: Deadline) -> Timeout {
        // (`new_cyclic` for it makes it where it stays, as in `create_future`.)
        let inner = Rc::new_cyclic(|_| Inner {
            scope: Rc::default(),
            phase: Cell::new(Phase::New),
            expired: Cell::new(false),
            deadline: Cell::new(deadline),
            timer: Cell::default(),
            soon: Cell::default(),
            event_loop: RefCell::default(),
        });
        Timeout { inner }
    }

    /// The moment on the loop's clock when time runs out; `None` if it does not, or if the limit
    /// was made where no loop runs and has not been entered (`Timeout.when`).
    pub fn when(&self) -> Option<Duration> {
        match self.inner.deadline.get() {
            Deadline::At(when) => Some(when),
            Deadline::Never | Deadline::After(_) => None,
        }
    }

    /// Whether time has run out while the block ran (`Timeout.expired`).
    pub fn expired(&self) -> bool {
        self.inner.expired.get()
    }

    /// Sets another moment, or none, while the block runs (`Timeout.reschedule`). A moment that
    /// has passed interrupts it in the next tick.
    ///
    /// # Errors
    /// [`RuntimeError::NotEntered`] before the block, [`RuntimeError::Over`] after it and once
    /// time has run out.
    pub fn reschedule(&self, when: impl Into<Option<Duration>>) -> Result<(), RuntimeError> {
        match self.inner.phase.get() {
            Phase::New => return Err(RuntimeError::NotEntered),
            Phase::Entered if !self.expired() => {}
            Phase::Entered | Phase::Over => return Err(RuntimeError::Over),
        }
        let event_loop = self.inner.event_loop.borrow().clone();
        let event_loop = event_loop.ok_or(RuntimeError::NotEntered)?;
        let when = when.into();
        self.inner
            .deadline
            .set(when.map_or(Deadline::Never, Deadline::At));
        self.inner.set_timer(&event_loop, when);
        Ok(())
    }

    /// Runs the block, once, as a part of the calling task.
    ///
    /// # Errors
    /// [`TimeoutError`] if time ran out and the block has ended with that; what the block raises;
    /// [`RuntimeError::EnteredTwice`]; [`RuntimeError::NotInTask`].
    #[inline]
    pub fn run<T, F: StdFuture<Output = Result<T>>>(
        &self,
        block: F,
    ) -> impl StdFuture<Output = Result<T>> + use<T, F> {
        let mut limited = Limited::new(self.inner.clone(), Box::pin(block));
        poll_fn(move |cx| {
            limited
                .poll(cx)
                .map(|ended| ended?.ok_or_else(|| TimeoutError::new().into()))
        })
    }

    /// The same with `None` in place of the [`TimeoutError`] (`move_on_after` of trio and anyio).
    ///
    /// ```
    /// use miniloop::{EventLoop, FakeClock, sleep, timeout};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
    /// event_loop.run_until_complete(async {
    ///     let limit = timeout(Duration::from_secs(5));
    ///     let slept = limit.run_optional(async { sleep(Duration::from_secs(3600)).await }).await?;
    ///     assert_eq!(slept, None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`run`](Self::run), but for the timeout.
    #[inline]
    pub fn run_optional<T, F: StdFuture<Output = Result<T>>>(
        &self,
        block: F,
    ) -> impl StdFuture<Output = Result<Option<T>>> + use<T, F> {
        let mut limited = Limited::new(self.inner.clone(), Box::pin(block));
        poll_fn(move |cx| limited.poll(cx))
    }
}

impl Inner {
    /// The block begins, in the task that is being stepped.
    #[inline]
    fn enter<F>(self: &Rc<Self>, block: &mut Body<F>) -> Result<()> {
        if self.phase.get() != Phase::New {
            return Err(RuntimeError::EnteredTwice.into());
        }
        let event_loop = get_running_loop()?;
        block.enter(event_loop.clone())?;
        self.phase.set(Phase::Entered);
        if let Deadline::After(delay) = self.deadline.get() {
            let when = event_loop.time().saturating_add(delay);
            self.deadline.set(Deadline::At(when));
        }
        self.event_loop.replace(Some(event_loop.clone()));
        if let Deadline::At(when) = self.deadline.get() {
            self.set_timer(&event_loop, Some(when));
        }
        Ok(())
    }

    /// The block is over, or dropped.
    fn leave(&self) {
        self.phase.set(Phase::Over);
        let event_loop = self.event_loop.take();
        if let Some(event_loop) = event_loop {
            self.clear_timer(&event_loop);
        }
    }

    /// Sets the timer, or none, in place of the one that is there.
    fn set_timer(self: &Rc<Self>, event_loop: &LoopHandle, when: Option<Duration>) {
        self.clear_timer(event_loop);
        let Some(when) = when else { return };
        let inner = Rc::downgrade(self);
        let expire = move || {
            if let Some(inner) = inner.upgrade() {
                inner.expire();
            }
        };
        if event_loop.core.has_come(when) {
            self.soon.set(Some(Box::new(event_loop.call_soon(expire))));
        } else {
            self.timer
                .set(event_loop.core.add_timer(when, in_context(expire)));
        }
    }

    fn clear_timer(&self, event_loop: &LoopHandle) {
        let timer = self.timer.take();
        if !timer.is_null() {
            event_loop.core.cancel_timer(timer);
        }
        if let Some(soon) = self.soon.take() {
            soon.cancel();
        }
    }

    fn expire(&self) {
        if self.phase.get() == Phase::Entered {
            self.expired.set(true);
            self.scope.cancel(CancelledError::new());
        }
    }
}

/// A block that runs with a limit.
struct Limited<F> {
    block: Body<F>,
    limit: Limit,
}

/// The limit of a block, which has begun or not. (Apart, so as to be dropped after the block.)
struct Limit {
    inner: Rc<Inner>,
    is_entered: bool,
}

impl Limit {
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_entered) {
            self.inner.leave();
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<T, F: StdFuture<Output = Result<T>>> Limited<F> {
    #[inline]
    fn new(inner: Rc<Inner>, block: Pin<Box<F>>) -> Limited<F> {
        Limited {
            block: Body::new(inner.scope.clone(), block),
            limit: Limit {
                inner,
                is_entered: false,
            },
        }
    }

    /// Polls it once, which begins it if it has not begun.
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>>> {
        if !self.limit.is_entered {
            self.limit.inner.enter(&mut self.block)?;
            self.limit.is_entered = true;
        }
        self.block.poll(cx).map(|ended| {
            self.limit.leave();
            ended.into_optional()
        })
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout")
            .field("when", &self.when())
            .field("expired", &self.expired())
            .finish_non_exhaustive()
    }
}

/// Waits for something, but no longer than `timeout`; `None` waits as long as it takes
/// (`asyncio.wait_for`).
///
/// A coroutine runs as a part of the calling task. When time runs out, what is waited for is
/// cancelled, and the [`TimeoutError`] comes when its cleanup has ended (that of the first child, if
/// it is a [`gather`](crate::gather)). With a timeout of zero a
/// finished future gives its result, and anything else is cancelled before it begins. For
/// something that borrows, use [`timeout`].
///
/// # Errors
/// [`TimeoutError`]; what the awaitable raises; a cancellation of the calling task.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, TimeoutError, sleep, wait_for};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async {
///     let hour = sleep(Duration::from_secs(3600));
///     let error = wait_for(hour, Duration::from_secs(5)).await.unwrap_err();
///     assert!(error.is::<TimeoutError>());
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn wait_for<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
    awaitable: F,
    timeout: impl Into<Option<Duration>>,
) -> impl StdFuture<Output = Result<T>> {
    let (deadline, awaitable) = (timeout.into(), Box::new(awaitable));
    async move {
        let deadline = match deadline {
            Some(Duration::ZERO) => return without_time(awaitable).await,
            Some(delay) => Deadline::After(delay),
            None => Deadline::Never,
        };
        let mut limited = Limited::new(Timeout::with(deadline).inner, Box::into_pin(awaitable));
        let ended = poll_fn(|cx| limited.poll(cx)).await?;
        ended.ok_or_else(|| TimeoutError::new().into())
    }
}

async fn without_time<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
    awaitable: Box<F>,
) -> Result<T> {
    let event_loop = get_running_loop()?;
    let awaited = event_loop.ensure_future(*awaitable);
    if awaited.future.done() {
        return awaited.outcome();
    }
    let ended = event_loop.create_future();
    let waiter = ended.clone();
    let key = awaited.future.when_done(move || {
        // It may have been cancelled meanwhile.
        let _ = waiter.set_result(());
    });
    let watched = Watched(&awaited.future, key);
    awaited.future.cancel();
    ended.await?;
    drop(watched);
    match awaited.outcome() {
        Err(exception) if exception.is_cancelled() => Err(TimeoutError::new().into()),
        outcome => outcome,
    }
}

/// A callback on a future, which goes when this does.
struct Watched<'a, T: 'static>(&'a Future<T>, u32);

impl<T: 'static> Drop for Watched<'_, T> {
    fn drop(&mut self) {
        self.0.forget_when_done(self.1);
    }
}
