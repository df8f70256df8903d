//! `sleep`: a future and the timer that completes it; and the bare yields, which have no timer.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::future::Future as StdFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::errors::{CancelledError, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, Take, finish, finish_with_result};
use crate::handles::{Cancel, Owned, TimerHandle};
use crate::loop_core::part::step_is_interrupted;
use crate::loop_core::{Kept, LoopHandle, get_running_loop, take_cancellation, with_running_loop};

struct SleepCell {
    state: State<()>,
    timer: RefCell<Option<TimerHandle>>,
    /// Set while a callback waits for it.
    kept: Kept,
}

impl FutureCell<()> for SleepCell {
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

impl Cancel for SleepCell {
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

impl Owned for SleepCell {
    fn abandon(self: Rc<Self>) {
        self.state.set_seen();
        let _ = finish(self, Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
}

impl Drop for SleepCell {
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
struct YieldCell {
    state: State<()>,
    made_in_batch: u64,
}

impl YieldCell {
    fn new(event_loop: &LoopHandle, made_in_batch: u64) -> Rc<YieldCell> {
        Rc::new(YieldCell {
            state: State::pending(event_loop.clone(), Kind::Yield),
            made_in_batch,
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

impl FutureCell<()> for YieldCell {
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

impl Cancel for YieldCell {
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
            return Future::of(YieldCell::new(self, self.core.batch()));
        };
        let sleep = Rc::new(SleepCell {
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
/// call, and not from the await. Where no loop is running it has failed with
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
pub fn sleep(delay: Duration) -> Sleep {
    if delay.is_zero()
        && let Some(event_loop) = running_loop()
        && !event_loop.is_closed()
    {
        let made_in_batch = event_loop.core.batch();
        return Sleep(Inner::Zero(Zero {
            event_loop,
            made_in_batch,
            progress: Progress::New,
            future: OnceCell::new(),
        }));
    }
    Sleep(Inner::Future(Future::of(sleep_on_running_loop(delay))))
}

/// As [`get_running_loop`], with no room for an error to be handed back: a yield takes a twentieth less.
#[inline]
fn running_loop() -> Option<LoopHandle> {
    with_running_loop(LoopHandle::clone)
}

/// (A cell comes back in registers. A handle would not, and a sleep of zero, whose place it shares, would be
/// put together in memory and copied at once, which takes a fifth of its time.)
fn sleep_on_running_loop(delay: Duration) -> Rc<dyn FutureCell<()>> {
    let future = match get_running_loop() {
        Ok(event_loop) => event_loop.sleep(delay),
        Err(error) => Future::failed(&LoopHandle::closed(), error),
    };
    future.cell().clone()
}

/// The awaitable that [`sleep`] makes. It has the methods of a [`Future<()>`](Future), it is one to
/// [`gather`](crate::gather), [`wait`](crate::wait) and their like, and `Future::from` makes one of it.
///
/// The future of a zero delay is made when somebody asks for it. Most are only awaited, by the task that made
/// them and at once, which needs none, and so no allocation.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async {
///     let hour = sleep(Duration::from_secs(3600));
///     assert!(!hour.done());
///     hour.cancel();
///     assert!(hour.await.unwrap_err().is_cancelled());
///     sleep(Duration::ZERO).await
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sleep(Inner);

enum Inner {
    Future(Future<()>),
    Zero(Zero),
}

/// A bare yield that is no [`YieldCell`] yet, and becomes one when it has to.
struct Zero {
    event_loop: LoopHandle,
    made_in_batch: u64,
    progress: Progress,
    /// (Boxed, for whoever awaits a sleep has room for this.)
    future: OnceCell<Box<Future<()>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    /// It is being awaited, and so it is done.
    Suspended,
    /// The await is over.
    Over,
}

impl Zero {
    /// Polls it, if it is no future so far and need not become one: in a step of its loop, with the
    /// task's own waker, and with no cancellation to deliver.
    #[inline]
    fn poll_alone(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<()>>> {
        if self.future.get().is_some() || step_is_interrupted() {
            return None;
        }
        if self.progress != Progress::New {
            self.progress = Progress::Over;
            return Some(Poll::Ready(Ok(())));
        }
        let core = &self.event_loop.core;
        if !core.is_stepping_with(cx.waker()) || core.batch() != self.made_in_batch {
            return None;
        }
        self.progress = Progress::Suspended;
        cx.waker().wake_by_ref();
        Some(Poll::Pending)
    }

    #[inline(never)]
    fn future(&self) -> &Future<()> {
        self.future.get_or_init(|| Box::new(self.make_future()))
    }

    fn make_future(&self) -> Future<()> {
        let cell = YieldCell::new(&self.event_loop, self.made_in_batch);
        let future = Future::of(cell.clone());
        if self.progress != Progress::New {
            let _ = cell.state.finish_alone(Outcome::Result(()));
        }
        if self.progress == Progress::Suspended {
            future.has_suspended();
        }
        future
    }
}

impl Deref for Sleep {
    type Target = Future<()>;

    fn deref(&self) -> &Future<()> {
        match &self.0 {
            Inner::Future(future) => future,
            Inner::Zero(zero) => zero.future(),
        }
    }
}

impl Sleep {
    /// An awaitable that moves the result out: see [`Future::take`].
    pub fn take(self) -> Take<()> {
        Future::from(self).take()
    }
}

/// Clones are of one future.
impl Clone for Sleep {
    fn clone(&self) -> Sleep {
        Sleep(Inner::Future(self.deref().clone()))
    }
}

impl From<Sleep> for Future<()> {
    /// The very handle: if it has been awaited, it still is.
    fn from(sleep: Sleep) -> Future<()> {
        match sleep.0 {
            Inner::Future(future) => future,
            Inner::Zero(mut zero) => {
                let made = zero.future.take();
                made.map_or_else(|| zero.make_future(), |made| *made)
            }
        }
    }
}

impl StdFuture for Sleep {
    type Output = Result<()>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Inner::Zero(zero) => zero
                .poll_alone(cx)
                .unwrap_or_else(|| zero.future().poll_inside(cx)),
            Inner::Future(future) => poll_future(future, cx),
        }
    }
}

/// (Kept apart from the way of the bare yield.)
#[inline(never)]
fn poll_future(future: &mut Future<()>, cx: &mut Context<'_>) -> Poll<Result<()>> {
    Pin::new(future).poll(cx)
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A bare yield: everything else that is ready gets its turn, once. It is `sleep(Duration::ZERO)`
/// (`asyncio.sleep(0)`) for those who only await it: the tick in which the task goes on is the same, and
/// so is cancellation, but there is no future that could be asked, and so it costs less still.
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
