//! Recurring timers: `interval` for coroutines, `call_every` for callbacks. asyncio has none; this
//! is its recipe of a callback that schedules itself again with `call_at`, without the traps.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::contexts::{self, Context};
use crate::errors::Result;
use crate::handles::TimerHandle;
use crate::loop_core::{LoopHandle, get_running_loop};

/// What becomes of ticks whose moment has passed before they could be waited for: the loop was
/// blocked, or the work of a tick took longer than the period.
///
/// The next tick is fixed when the work of one is over: when the callback returns, or when
/// [`tick`](Interval::tick) is called again. A tick that is merely late, and whose successor is
/// not, changes nothing: none of these drifts in ordinary use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MissedTicks {
    /// They follow, as fast as the loop turns: one in each pass, never several in one. No tick is
    /// ever left out.
    #[default]
    Burst,
    /// They are dropped, and the next tick is a full period after the late work was over: the
    /// ticks move to a new grid.
    Delay,
    /// They are dropped, and the next tick is the first one of the original grid that has not
    /// passed.
    Skip,
}

impl MissedTicks {
    /// The moment of the tick that follows the one of `due`, as seen at `now`.
    fn following(self, due: Duration, period: Duration, now: Duration) -> Duration {
        if period.is_zero() {
            return due.max(now);
        }
        let next = due.saturating_add(period);
        if next >= now {
            return next;
        }
        match self {
            MissedTicks::Burst => next,
            MissedTicks::Delay => now.saturating_add(period),
            MissedTicks::Skip => match remainder(now.saturating_sub(due), period) {
                Duration::ZERO => now,
                passed => now.saturating_add(period.saturating_sub(passed)),
            },
        }
    }
}

/// What is left of a span when it is divided into periods, which are not zero.
fn remainder(span: Duration, period: Duration) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let left = span.as_nanos() % period.as_nanos();
    // Less than the period, so both parts fit.
    Duration::new((left / SECOND) as u64, (left % SECOND) as u32)
}

/// Ticks at fixed moments, for a coroutine to wait for: made by [`interval`] and [`interval_at`].
///
/// Tick n is due at `start + n * period` exactly: the time that the work takes, and the moments at
/// which the loop gets round to it, do not add up. What becomes of ticks that are missed is set by
/// [`set_missed_ticks`](Self::set_missed_ticks). It holds no timer while nobody waits for a tick.
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    missed: MissedTicks,
    next: Next,
}

/// What an interval knows of its next tick.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// No loop was running: it starts when the first tick is waited for.
    NotStarted,
    Due(Duration),
    /// The one before was due then, and the next one was not asked for yet.
    After(Duration),
}

/// Ticks every `period`, the first time *one period from now*, and not at once. Where no loop is
/// running, "now" is the first call of [`tick`](Interval::tick).
///
/// A period of zero ticks once in each pass of the loop.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, get_running_loop, interval};
/// use std::time::Duration;
///
/// let clock = FakeClock::auto();
/// let event_loop = EventLoop::with_clock(clock.clone())?;
/// event_loop.run_until_complete(async move {
///     let second = Duration::from_secs(1);
///     let mut ticks = interval(second);
///     for number in 1..=3 {
///         assert_eq!(ticks.tick().await?, number * second);
///         clock.advance(second / 3); // the work takes its time, and the ticks do not drift
///     }
///     assert_eq!(get_running_loop()?.time(), 3 * second + second / 3);
///     Ok::<(), miniloop::Exception>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn interval(period: Duration) -> Interval {
    let next = match get_running_loop() {
        Ok(event_loop) => Next::Due(event_loop.time().saturating_add(period)),
        Err(_) => Next::NotStarted,
    };
    Interval {
        period,
        missed: MissedTicks::default(),
        next,
    }
}

/// Ticks at `start`, a moment on the loop's clock, and every `period` from then on. Give it
/// [`time()`](LoopHandle::time) for a first tick in the next pass of the loop. A start in the past
/// is a tick that is late.
pub fn interval_at(start: Duration, period: Duration) -> Interval {
    Interval {
        period,
        missed: MissedTicks::default(),
        next: Next::Due(start),
    }
}

impl Interval {
    /// Waits for the next tick, and gives the moment at which it was due. It always waits for one
    /// pass of the loop, so that no run of missed ticks starves anybody.
    ///
    /// It may be cancelled, or dropped in the middle (in a `select!`): the tick is not lost then,
    /// it is what the next call waits for.
    ///
    /// # Errors
    /// [`CancelledError`](crate::CancelledError) if the task was cancelled meanwhile;
    /// [`RuntimeError::NoRunningLoop`](crate::RuntimeError::NoRunningLoop) outside of a loop.
    pub async fn tick(&mut self) -> Result<Duration> {
        let event_loop = get_running_loop()?;
        let now = event_loop.time();
        let due = match self.next {
            Next::NotStarted => now.saturating_add(self.period),
            Next::Due(due) => due,
            Next::After(last) => self.missed.following(last, self.period, now),
        };
        // From here on it is this one, however often the wait is given up.
        self.next = Next::Due(due);
        event_loop.sleep_until(due).await?;
        self.next = Next::After(due);
        Ok(due)
    }

    /// Sets what becomes of missed ticks: [`MissedTicks::Burst`] where this was never called. It
    /// does not touch a tick that was waited for already, and not had yet.
    pub fn set_missed_ticks(&mut self, missed: MissedTicks) {
        self.missed = missed;
    }

    /// What becomes of missed ticks.
    pub fn missed_ticks(&self) -> MissedTicks {
        self.missed
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }
}

/// The handle of a recurring callback: see [`LoopHandle::call_every`].
///
/// Dropping it does not cancel, as with [`TimerHandle`].
pub struct IntervalHandle {
    shared: Rc<Shared>,
}

/// What the handle knows. The callback is not in it: that belongs to the loop, and goes with it.
struct Shared {
    due: Cell<Duration>,
    missed: Cell<MissedTicks>,
    cancelled: Cell<bool>,
    /// `None` while the callback is running.
    timer: RefCell<Option<TimerHandle>>,
}

impl IntervalHandle {
    /// Ends it: the callback is not called again, also if it is due in this very tick, and is
    /// dropped at once; if it is running, when it returns. Harmless twice.
    pub fn cancel(&self) {
        self.shared.cancelled.set(true);
        let timer = self.shared.timer.take();
        if let Some(timer) = timer {
            timer.cancel();
        }
    }

    /// Whether [`cancel`](Self::cancel) was called, or a closed loop refused it.
    pub fn cancelled(&self) -> bool {
        self.shared.cancelled.get()
    }

    /// The moment at which the next call is due, on the loop's clock; in the callback that of the
    /// call itself.
    pub fn when(&self) -> Duration {
        self.shared.due.get()
    }

    /// Sets what becomes of missed ticks: [`MissedTicks::Burst`] where this was never called. It
    /// counts from the next call on; in the callback, from this one on.
    pub fn set_missed_ticks(&self, missed: MissedTicks) {
        self.shared.missed.set(missed);
    }
}

impl fmt::Debug for IntervalHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalHandle")
            .field("when", &self.when())
            .field("cancelled", &self.cancelled())
            .finish_non_exhaustive()
    }
}

/// Timers do not count any further: what is due then would be due for ever.
const END_OF_TIME: Duration = Duration::from_nanos(u64::MAX);

/// A recurring callback. It is owned by its timer, and while it runs by that call.
struct Recurring<F> {
    event_loop: LoopHandle,
    period: Duration,
    shared: Rc<Shared>,
    /// Of the place where it was made; all calls share it, as those of a reader do.
    context: Option<Context>,
    callback: F,
}

impl<F: FnMut() + 'static> Recurring<F> {
    fn schedule(self: Box<Self>) {
        let (event_loop, shared) = (self.event_loop.clone(), self.shared.clone());
        let timer = event_loop.set_timer(shared.due.get(), Box::new(move || self.run()));
        if timer.cancelled() {
            // The loop is closed.
            shared.cancelled.set(true);
        }
        // The callback may have been dropped in there, and may have cancelled.
        let before = shared.timer.replace(Some(timer));
        drop(before);
    }

    fn run(mut self: Box<Self>) {
        self.shared.timer.take();
        let event_loop = self.event_loop.clone();
        event_loop.guard("Exception in callback", || match self.context.clone() {
            None => (self.callback)(),
            Some(context) => context.enter(&mut self.callback),
        });
        let (shared, now) = (&self.shared, event_loop.time());
        if now >= END_OF_TIME {
            shared.cancelled.set(true);
        }
        if !shared.cancelled.get() {
            let missed = shared.missed.get();
            shared
                .due
                .set(missed.following(shared.due.get(), self.period, now));
            self.schedule();
        }
    }
}

impl LoopHandle {
    /// Has `callback` called every `period`, the first time *one period from now*, until the
    /// handle is [cancelled](IntervalHandle::cancel) or the loop closes, which drops it.
    ///
    /// Call n is due at `start + n * period` exactly, however long the calls take; what becomes of
    /// those that are missed is set by
    /// [`set_missed_ticks`](IntervalHandle::set_missed_ticks). There is never more than one
    /// call in a pass of the loop: a period of zero calls it once in each. A call that panics is
    /// reported, and the next one comes all the same. On a closed loop the callback is dropped,
    /// and the handle is born cancelled.
    ///
    /// ```
    /// use miniloop::{EventLoop, FakeClock};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
    /// let (handle, mut calls) = (event_loop.handle(), 0);
    /// event_loop.call_every(Duration::from_secs(10), move || {
    ///     calls += 1;
    ///     if calls == 3 {
    ///         handle.stop();
    ///     }
    /// });
    /// event_loop.run_forever()?;
    /// assert_eq!(event_loop.time(), Duration::from_secs(30));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_every(&self, period: Duration, callback: impl FnMut() + 'static) -> IntervalHandle {
        let shared = Rc::new(Shared {
            due: Cell::new(self.time().saturating_add(period)),
            missed: Cell::default(),
            cancelled: Cell::new(false),
            timer: RefCell::new(None),
        });
        let recurring = Recurring {
            event_loop: self.clone(),
            period,
            shared: shared.clone(),
            context: contexts::captured(),
            callback,
        };
        Box::new(recurring).schedule();
        IntervalHandle { shared }
    }
}
