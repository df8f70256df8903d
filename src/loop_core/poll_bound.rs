//! How long the poll may be left out while callbacks are ready.
//!
//! A poll costs as much as some hundred callbacks, so a chain of them (one each tick) is not to
//! pay for one every time. Sources wait for as long as this allows and no longer.
//!
//! A look at the clock costs as much as a tick, so most ticks do without: the next look is when
//! the time would be over if ticks went on as before, or a bit earlier, for they may not.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::{Clock, MonotonicClock};

/// The system is asked after this many ticks at the latest,
const TICKS: u32 = 61;
/// or this many callbacks,
const CALLBACKS: u64 = 1000;
/// or this much real time, counted from the first tick without a poll;
const TIME: Duration = Duration::from_millis(4);
/// of ticks that suddenly become slow, so many may go by before that is seen.
const TICKS_UNSEEN: u32 = 30;

/// What has happened since the last poll.
pub(super) struct PollBound {
    ticks: Cell<u32>,
    callbacks: Cell<u64>,
    first_tick: Cell<Duration>,
    /// Which tick looks at the clock.
    next_look: Cell<u32>,
    /// Real time, whatever the loop's own clock shows.
    clock: MonotonicClock,
}

impl PollBound {
    pub(super) fn new() -> PollBound {
        PollBound {
            ticks: Cell::new(0),
            callbacks: Cell::new(0),
            first_tick: Cell::new(Duration::ZERO),
            next_look: Cell::new(1),
            clock: MonotonicClock::new(),
        }
    }

    /// Counts a tick, and tells whether it may do without a poll.
    #[inline]
    pub(super) fn one_more_tick(&self) -> bool {
        self.one_more_tick_by(|| self.clock.now())
    }

    #[inline]
    fn one_more_tick_by(&self, clock: impl FnOnce() -> Duration) -> bool {
        let tick = self.ticks.get() + 1;
        self.ticks.set(tick);
        self.callbacks.get() < CALLBACKS && (tick < self.next_look.get() || self.look(tick, clock))
    }

    #[inline(never)]
    fn look(&self, tick: u32, clock: impl FnOnce() -> Duration) -> bool {
        if tick >= TICKS {
            return false;
        }
        let now = clock();
        if tick == 1 {
            self.first_tick.set(now);
            self.next_look.set(2);
            return true;
        }
        let passed = now.saturating_sub(self.first_tick.get());
        if passed >= TIME {
            return false;
        }
        // How many ticks like those before fit into the rest: where hardly any time has passed, the
        // greatest number.
        let fit_in = ((TIME - passed).div_duration_f32(passed) * (tick - 1) as f32) as u32;
        let next = tick + fit_in.clamp(1, TICKS_UNSEEN);
        self.next_look.set(next.min(TICKS));
        true
    }

    #[inline]
    pub(super) fn callback_runs(&self) {
        self.callbacks.set(self.callbacks.get() + 1);
    }

    pub(super) fn polled(&self) {
        self.ticks.set(0);
        self.callbacks.set(0);
        self.next_look.set(1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// How many ticks do without a poll, if `time` has passed before each and so many callbacks run
    /// in each.
    fn left_out(bound: &PollBound, callbacks: u64, time: impl Fn(u32) -> Duration) -> u32 {
        bound.polled();
        let mut ticks = 0;
        while bound.one_more_tick_by(|| time(ticks)) {
            (0..callbacks).for_each(|_| bound.callback_runs());
            ticks += 1;
        }
        ticks
    }

    #[test]
    fn the_sixty_first_tick_polls() {
        let bound = PollBound::new();
        for _ in 0..2 {
            assert_eq!(left_out(&bound, 1, |_| Duration::ZERO), 60);
        }
    }

    #[test]
    fn many_callbacks_use_the_bound_up() {
        let bound = PollBound::new();
        assert_eq!(left_out(&bound, CALLBACKS, |_| Duration::ZERO), 1);
        assert_eq!(left_out(&bound, CALLBACKS / 4, |_| Duration::ZERO), 4);
    }

    #[test]
    fn steady_ticks_keep_the_time_to_a_tick() {
        let bound = PollBound::new();
        for tick in (70..10_000).map(Duration::from_micros) {
            let time = tick * left_out(&bound, 1, |ticks| tick * ticks);
            assert!(TIME <= time && time < TIME + tick, "{tick:?}: {time:?}");
        }
    }

    #[test]
    fn ticks_that_become_slow_are_seen_soon() {
        let bound = PollBound::new();
        for quick in 1..TICKS {
            let ticks = left_out(&bound, 1, |ticks| TIME * ticks.saturating_sub(quick));
            assert!(
                ticks <= quick + TICKS_UNSEEN,
                "{quick} and then {}",
                ticks - quick
            );
        }
    }

    #[test]
    fn quick_ticks_seldom_look_at_the_clock() {
        let looks = RefCell::<Vec<u32>>::default();
        left_out(&PollBound::new(), 1, |ticks| {
            looks.borrow_mut().push(ticks + 1);
            Duration::ZERO
        });
        assert_eq!(looks.take(), [1, 2, 32]);
    }
}
