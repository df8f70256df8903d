//! How long the poll may be left out while callbacks are ready.
//!
//! A poll costs as much as some hundred callbacks, so a chain of them (one each tick) is not to
//! pay for one every time. Sources wait for as long as this allows and no longer.

use std::cell::Cell;
use std::time::Duration;

/// The system is asked after this many ticks at the latest,
const TICKS: u32 = 61;
/// or this many callbacks,
const CALLBACKS: u32 = 1000;
/// or this much real time.
const TIME: Duration = Duration::from_millis(4);

/// What has happened since the last poll.
pub(super) struct PollBound {
    ticks: Cell<u32>,
    callbacks: Cell<u32>,
    last_poll: Cell<Duration>,
}

impl PollBound {
    pub(super) fn new() -> PollBound {
        PollBound {
            ticks: Cell::new(0),
            callbacks: Cell::new(0),
            last_poll: Cell::new(Duration::ZERO),
        }
    }

    /// Counts a tick, and tells whether it may do without a poll.
    pub(super) fn one_more_tick(&self) -> bool {
        self.one_more_tick_at(coarse_time())
    }

    fn one_more_tick_at(&self, now: Duration) -> bool {
        self.ticks.set(self.ticks.get() + 1);
        self.ticks.get() < TICKS
            && self.callbacks.get() < CALLBACKS
            && now.saturating_sub(self.last_poll.get()) < TIME
    }

    pub(super) fn callbacks_ran(&self, count: u32) {
        self.callbacks.set(self.callbacks.get().saturating_add(count));
    }

    pub(super) fn polled(&self) {
        self.polled_at(coarse_time());
    }

    fn polled_at(&self, now: Duration) {
        self.ticks.set(0);
        self.callbacks.set(0);
        self.last_poll.set(now);
    }
}

/// Real time, some milliseconds late at the worst, but cheap.
fn coarse_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Duration::try_from(time).unwrap_or_default()
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn just_polled() -> PollBound {
        let bound = PollBound::new();
        bound.polled_at(NOW);
        bound
    }

    #[test]
    fn a_tick_of_many_callbacks_uses_the_bound_up() {
        let bound = just_polled();
        assert!(bound.one_more_tick_at(NOW));
        bound.callbacks_ran(CALLBACKS);
        assert!(!bound.one_more_tick_at(NOW));
    }

    #[test]
    fn the_sixty_first_tick_polls() {
        let bound = just_polled();
        let left_out = (0..1000).take_while(|_| bound.one_more_tick_at(NOW)).count();
        assert_eq!(left_out, 60);
        bound.polled_at(NOW);
        assert!(bound.one_more_tick_at(NOW));
    }

    #[test]
    fn time_alone_ends_it() {
        let bound = just_polled();
        let almost = NOW + TIME - Duration::from_nanos(1);
        assert!(bound.one_more_tick_at(almost));
        assert!(!bound.one_more_tick_at(NOW + TIME));
    }
}
