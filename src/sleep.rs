//! `sleep`: a future and the timer that completes it.

use std::cell::RefCell;
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::errors::{CancelledError, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish, finish_with_result};
use crate::handles::{Cancel, Owned, TimerHandle};
use crate::loop_core::{Kept, LoopHandle, get_running_loop, take_cancellation, with_running_loop};

struct Sleep {
    state: State<()>,
    timer: RefCell<Option<TimerHandle>>,
    /// Set while a callback waits for it.
    kept: Kept,
}

impl FutureCell<()> for Sleep {
    fn state(&self) -> &State<()> {
        &self.state
    }

    fn polled(self: Rc<Self>) {
        if self.state.event_loop.is_closed() {
            // Its timer went with the loop.
            self.abandon();
        }
    }

    fn keep(self: Rc<Self>) {
        self.kept.keep(&self.state.event_loop, self.clone());
    }

    fn release(&self) {
        self.kept.release(&self.state.event_loop);
    }
}

impl Cancel for Sleep {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let pending = finish(self.clone(), Outcome::cancelled(error)).is_ok();
        if let Some(timer) = &*self.timer.borrow() {
            timer.cancel();
        }
        pending
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl Owned for Sleep {
    fn abandon(self: Rc<Self>) {
        self.state.set_seen();
        let _ = finish(self, Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
}

impl Drop for Sleep {
    /// Nobody waits any more: the timer goes with it.
    fn drop(&mut self) {
        if let Some(timer) = &*self.timer.borrow() {
            timer.cancel();
        }
    }
}

/// A sleep of zero, a bare yield. It is done as soon as somebody waits for it, who then goes to the
/// back of the ready queue; for whoever asks, it is done from the next batch on. So the loop need not
/// know of it.
struct Yield {
    state: State<()>,
    made_in_batch: u64,
}

impl Yield {
    fn new(event_loop: &LoopHandle) -> Rc<Yield> {
        Rc::new(Yield {
            state: State::pending(event_loop.clone(), Kind::Yield),
            made_in_batch: event_loop.core.batch(),
        })
    }

    /// Whether it is done, whoever asks.
    fn is_due(&self) -> bool {
        let event_loop = &self.state.event_loop;
        event_loop.core.batch() != self.made_in_batch || event_loop.is_closed()
    }

    /// It may be done, or have been cancelled.
    fn complete(self: Rc<Self>) {
        let event_loop = &self.state.event_loop;
        if event_loop.is_closed() && event_loop.core.batch() == self.made_in_batch {
            self.state.set_seen();
            let _ = finish(self, Outcome::Failed(RuntimeError::LoopClosed.into()));
        } else {
            let _ = finish_with_result(self, ());
        }
    }
}

impl FutureCell<()> for Yield {
    fn state(&self) -> &State<()> {
        &self.state
    }

    fn polled(self: Rc<Self>) {
        if self.is_due() {
            self.complete();
        }
    }

    fn waited_for(self: Rc<Self>) {
        self.complete();
    }

    fn yields(&self) -> bool {
        !self.is_due() && self.state.finish_alone(Outcome::Result(())).is_ok()
    }
}

impl Cancel for Yield {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        finish(self, Outcome::cancelled(error)).is_ok()
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl LoopHandle {
    /// A future that is done when `delay` has passed (`asyncio.sleep`). A delay of zero is a bare
    /// yield: everything else that is ready gets its turn, once.
    ///
    /// When the last handle is dropped or it is cancelled, its timer is gone at once.
    pub fn sleep(&self, delay: Duration) -> Future<()> {
        self.sleep_or_yield((!delay.is_zero()).then(|| self.time().saturating_add(delay)))
    }

    /// A future that is done when the time of the loop's clock is `when`. A moment that has come
    /// already is a bare yield, as a [`sleep`](Self::sleep) of zero is.
    ///
    /// So a wait for a moment does not drift, as a series of sleeps does: each of those begins
    /// when the loop got round to it.
    ///
    /// ```
    /// use miniloop::{EventLoop, FakeClock};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
    /// let when = event_loop.time() + Duration::from_secs(10);
    /// event_loop.run_until_complete(event_loop.sleep_until(when))?;
    /// assert_eq!(event_loop.time(), when);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleep_until(&self, when: Duration) -> Future<()> {
        self.sleep_or_yield((when > self.time()).then_some(when))
    }

    /// Sleeps until a moment; `None` is a bare yield.
    fn sleep_or_yield(&self, when: Option<Duration>) -> Future<()> {
        if self.is_closed() {
            return Future::failed(self, RuntimeError::LoopClosed);
        }
        let Some(when) = when else {
            return Future::of(Yield::new(self));
        };
        let sleep = Rc::new(Sleep {
            state: State::pending(self.clone(), Kind::Operation),
            timer: RefCell::new(None),
            kept: Kept::default(),
        });
        let sleeper = Rc::downgrade(&sleep);
        let wake = move || {
            if let Some(sleeper) = sleeper.upgrade() {
                // It may have been cancelled.
                let _ = finish(sleeper, Outcome::Result(()));
            }
        };
        let timer = self.set_timer(when, Box::new(wake));
        sleep.timer.replace(Some(timer));
        Future::of(sleep)
    }
}

/// Sleeps on the running loop (`asyncio.sleep`): see [`LoopHandle::sleep`]. The time counts from this
/// call, for it is a future and no coroutine. Where no loop is running it has failed with
/// [`RuntimeError::NoRunningLoop`].
///
/// ```
/// use miniloop::{EventLoop, FakeClock, sleep};
/// use std::time::Duration;
///
/// // The fake clock jumps, so that this hour takes no time.
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async { sleep(Duration::from_secs(3600)).await })?;
/// assert_eq!(event_loop.time(), Duration::from_secs(3600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn sleep(delay: Duration) -> Future<()> {
    // A handle that is made in the caller need not be copied to it.
    match yield_on_running_loop(delay) {
        Some(yielding) => Future::of(yielding),
        None => sleep_on_running_loop(delay),
    }
}

/// A sleep of zero on the running loop.
fn yield_on_running_loop(delay: Duration) -> Option<Rc<Yield>> {
    let made = |event_loop: &LoopHandle| {
        let is_yield = delay.is_zero() && !event_loop.is_closed();
        is_yield.then(|| Yield::new(event_loop))
    };
    with_running_loop(made).flatten()
}

fn sleep_on_running_loop(delay: Duration) -> Future<()> {
    match get_running_loop() {
        Ok(event_loop) => event_loop.sleep(delay),
        Err(error) => Future::failed(&LoopHandle::closed(), error),
    }
}

/// A bare yield: everything else that is ready gets its turn, once. It is `sleep(Duration::ZERO)`
/// (`asyncio.sleep(0)`) without a future of the loop, and so without an allocation; the tick in which
/// the task goes on is the same, and so is cancellation.
///
/// It can also be awaited in another executor, which is then woken at once.
///
/// ```
/// use miniloop::{EventLoop, create_task, yield_now};
/// use std::{cell::RefCell, rc::Rc};
///
/// let event_loop = EventLoop::new()?;
/// let seen = Rc::new(RefCell::new(String::new()));
/// let log = seen.clone();
/// event_loop.run_until_complete(async move {
///     let other = log.clone();
///     let task = create_task(async move { Ok(other.borrow_mut().push('b')) });
///     log.borrow_mut().push('a');
///     yield_now().await?;
///     log.borrow_mut().push('c');
///     task.await
/// })?;
/// assert_eq!(*seen.borrow(), "abc");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The awaitable that [`yield_now`] makes.
#[derive(Debug)]
#[must_use = "it yields when it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl StdFuture for YieldNow {
    type Output = Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.yielded {
            self.yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(match take_cancellation() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        })
    }
}
