//! The time the loop runs on, and what the loop does when it has nothing to run.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// The loop's source of time (the brief's injectable `clock`).
///
/// Times are durations since an origin of the clock's own; they never go back. (Timers count in
/// nanoseconds of 64 bits: moments more than 584 years from the origin are one to them.) The clock also
/// says what an idle loop does: only the clock knows how much real time a deadline is away.
pub trait Clock {
    /// The time since the clock's origin.
    fn now(&self) -> Duration;

    /// Asked when nothing is ready and the loop would wait until `deadline`, the next timer's
    /// (`None`: there is no timer). A clock that schedules something here, or asks for a stop, has the loop
    /// look for I/O and go on, whatever the answer.
    fn idle(&self, deadline: Option<Duration>) -> Idle;

    /// Called after [`Idle::Jump`] when no I/O came: `now` is to reach `deadline`.
    fn jump(&self, deadline: Duration) {
        let _ = deadline;
    }
}

/// What an idle loop is to do: the answer of [`Clock::idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Wait for I/O or another thread, for at most this much real time (`None`: without limit).
    Wait(Option<Duration>),
    /// Look for I/O, and if there is none call [`Clock::jump`] with the deadline.
    Jump,
    /// Look for I/O and return: somebody moves the clock by hand.
    DoNotBlock,
}

/// The operating system's monotonic clock, counted from its creation (`time.monotonic`).
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    origin: system::Moment,
}

impl MonotonicClock {
    /// A clock that reads zero now.
    pub fn new() -> MonotonicClock {
        MonotonicClock {
            origin: system::now(),
        }
    }

    /// Whether the moment `when` has come. (One that is far off is known to be without an exact look.)
    #[inline]
    pub(crate) fn has_come(&self, when: Duration) -> bool {
        !system::is_far_off(self.origin, when) && when <= self.now()
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Duration {
        system::since(self.origin)
    }

    #[inline]
    fn idle(&self, deadline: Option<Duration>) -> Idle {
        Idle::Wait(deadline.map(|deadline| deadline.saturating_sub(self.now())))
    }
}

/// A clock for tests, moved by hand or by the loop itself (the brief's `FakeClock`).
///
/// Clones share one time. [`FakeClock::new`] moves by [`advance`](Self::advance) alone: a loop
/// with a timer pending never waits for it. With [`FakeClock::auto`] the loop jumps to its next
/// timer whenever nothing else can happen, so that a test of an hour's sleep is instant; I/O
/// still works, for before a jump the loop looks whether any came (for up to 20 ms of real time
/// where a source is being watched).
///
/// ```
/// use miniloop::{EventLoop, FakeClock};
/// use std::{cell::RefCell, rc::Rc, time::Duration};
///
/// let clock = FakeClock::new();
/// let event_loop = EventLoop::with_clock(clock.clone())?;
/// let events = Rc::new(RefCell::new(Vec::new()));
/// let log = events.clone();
/// event_loop.call_later(Duration::from_secs(10), move || log.borrow_mut().push("later"));
/// event_loop.run_once()?;
/// assert!(events.borrow().is_empty());
/// clock.advance(Duration::from_secs(10));
/// event_loop.run_once()?;
/// assert_eq!(*events.borrow(), ["later"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FakeClock {
    shared: Rc<FakeTime>,
}

struct FakeTime {
    now: Cell<Duration>,
    automatic: bool,
    held: Cell<u32>,
}

impl FakeClock {
    /// A clock that reads zero and is moved by [`advance`](Self::advance) alone.
    pub fn new() -> FakeClock {
        FakeClock::with(false)
    }

    /// A clock that reads zero and lets the loop jump to its next timer instead of waiting.
    pub fn auto() -> FakeClock {
        FakeClock::with(true)
    }

    fn with(automatic: bool) -> FakeClock {
        FakeClock {
            shared: Rc::new(FakeTime {
                now: Cell::new(Duration::ZERO),
                automatic,
                held: Cell::new(0),
            }),
        }
    }

    /// The same clock, reading `now`.
    pub fn starting_at(self, now: Duration) -> FakeClock {
        self.shared.now.set(now);
        self
    }

    /// What the clock reads.
    pub fn time(&self) -> Duration {
        self.shared.now.get()
    }

    /// Moves the time on (it saturates), and nothing else: timers that came due meanwhile all
    /// fire in the loop's next tick. [`testing::advance`](crate::testing::advance) steps the loop
    /// from deadline to deadline instead.
    pub fn advance(&self, span: Duration) {
        self.shared.now.set(self.time().saturating_add(span));
    }

    /// Stops the jumping until as many calls of [`release`](Self::release): the loop really
    /// waits, for a thread that is about to call in.
    pub fn hold(&self) {
        self.shared.held.set(self.shared.held.get() + 1);
    }

    /// Takes one [`hold`](Self::hold) back; without one it does nothing.
    pub fn release(&self) {
        self.shared.held.set(self.shared.held.get().saturating_sub(1));
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        FakeClock::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.time()
    }

    fn idle(&self, deadline: Option<Duration>) -> Idle {
        match deadline {
            None => Idle::Wait(None),
            Some(_) if !self.shared.automatic => Idle::DoNotBlock,
            Some(_) if self.shared.held.get() > 0 => Idle::Wait(None),
            Some(_) => Idle::Jump,
        }
    }

    fn jump(&self, deadline: Duration) {
        self.shared.now.set(self.time().max(deadline));
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock")
            .field("now", &self.time())
            .field("automatic", &self.shared.automatic)
            .finish_non_exhaustive()
    }
}

/// The system's monotonic clock, by way of the standard library.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::{Duration, Instant};

    pub(super) type Moment = Instant;

    pub(super) fn now() -> Moment {
        Instant::now()
    }

    pub(super) fn since(origin: Moment) -> Duration {
        origin.elapsed()
    }

    pub(super) fn is_far_off(_: Moment, _: Duration) -> bool {
        false
    }
}

/// The same clock, read straight from the page where the kernel keeps it: that takes a fifth less, and
/// every timer that is set reads it.
#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_gettime};

    pub(super) type Moment = Timespec;

    pub(super) fn now() -> Moment {
        clock_gettime(ClockId::Monotonic)
    }

    pub(super) fn since(origin: Moment) -> Duration {
        between(origin, now())
    }

    /// Whether a moment is certainly to come. That is asked of the time of the kernel's last tick, which is
    /// read in a fifth of the time, and at most 10 ms ago while this thread runs.
    #[inline]
    pub(super) fn is_far_off(origin: Moment, when: Duration) -> bool {
        const FAR: Duration = Duration::from_millis(100);
        let last_tick = between(origin, clock_gettime(ClockId::MonotonicCoarse));
        when.saturating_sub(FAR) > last_tick
    }

    /// Zero before the origin: where the last tick was that, and from outside (in a child process with
    /// another time namespace).
    #[inline]
    fn between(origin: Moment, now: Moment) -> Duration {
        let (mut seconds, mut nanos) = (now.tv_sec - origin.tv_sec, now.tv_nsec - origin.tv_nsec);
        if nanos < 0 {
            seconds -= 1;
            nanos += 1_000_000_000;
        }
        u64::try_from(seconds).map_or(Duration::ZERO, |seconds| Duration::new(seconds, nanos as u32))
    }

    #[test]
    fn a_time_across_a_second_borrows_from_it() {
        let moment = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let origin = moment(1, 999_999_999);
        assert_eq!(between(origin, origin), Duration::ZERO);
        assert_eq!(between(origin, moment(2, 1)), Duration::from_nanos(2));
        assert_eq!(between(moment(1, 1), moment(3, 2)), Duration::new(2, 1));
        assert_eq!(between(moment(3, 2), moment(3, 1)), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_come_by_an_exact_look_or_is_far_off() {
        let clock = MonotonicClock::new();
        for milliseconds in (0..400).chain([3_600_000, u64::MAX]) {
            let before = clock.now();
            let when = Duration::from_millis(milliseconds);
            for when in [when, before.saturating_add(when), before.saturating_sub(when)] {
                let has_come = clock.has_come(when);
                assert!(has_come || when > before);
                assert!(!has_come || when <= clock.now());
            }
        }
    }
}
