//! Timeouts: a scope with a deadline (Python's `timeouts.py`). How the deadline is watched stands in
//! `loop_core/limit.rs`, how the block is run in `scopes.rs`.

use std::fmt;
use std::future::{Future as StdFuture, poll_fn};
use std::rc::Rc;
use std::time::Duration;

use crate::errors::{Result, RuntimeError, TimeoutError};
use crate::futures::Future;
use crate::loop_core::{Deadline, LoopHandle, Scope, get_running_loop, with_running_loop};
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
    scope: Rc<Scope>,
}

impl Timeout {
    #[inline]
    fn with(deadline: Deadline) -> Timeout {
        let scope = Rc::<Scope>::default();
        scope.limit.deadline.set(deadline);
        Timeout { scope }
    }

    /// The moment on the loop's clock when time runs out; `None` if it does not, or if the limit
    /// was made where no loop runs and has not been entered (`Timeout.when`).
    pub fn when(&self) -> Option<Duration> {
        match self.scope.limit.deadline.get() {
            Deadline::At(when) => Some(when),
            Deadline::Never | Deadline::After(_) => None,
        }
    }

    /// Whether time has run out while the block ran (`Timeout.expired`).
    pub fn expired(&self) -> bool {
        self.scope.limit.expired.get()
    }

    /// Sets another moment, or none, while the block runs (`Timeout.reschedule`). A moment that
    /// has passed interrupts it in the next tick.
    ///
    /// # Errors
    /// [`RuntimeError::NotEntered`] before the block, [`RuntimeError::Over`] after it and once
    /// time has run out.
    pub fn reschedule(&self, when: impl Into<Option<Duration>>) -> Result<(), RuntimeError> {
        if self.scope.is_new() {
            return Err(RuntimeError::NotEntered);
        }
        let event_loop = self.scope.event_loop().filter(|_| !self.expired());
        let event_loop = event_loop.ok_or(RuntimeError::Over)?;
        self.scope.set_deadline(&event_loop, when.into());
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
        let mut block = Body::new(self.scope.clone(), Box::pin(block));
        poll_fn(move |cx| {
            block
                .poll(cx)
                .map(|ended| ended?.into_optional()?.ok_or_else(|| TimeoutError::new().into()))
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
        let mut block = Body::new(self.scope.clone(), Box::pin(block));
        poll_fn(move |cx| block.poll(cx).map(|ended| ended?.into_optional()))
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
        let mut block = Body::new(Timeout::with(deadline).scope, Box::into_pin(awaitable));
        let ended = poll_fn(|cx| block.poll(cx)).await?;
        ended.into_optional()?.ok_or_else(|| TimeoutError::new().into())
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
