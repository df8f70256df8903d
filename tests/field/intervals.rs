//! Recurring timers: drift, bursts, and work that takes longer than the period (BR-15).

use std::time::Duration;

use miniloop::{EventLoop, FakeClock, IntervalHandle, LoopHandle, MissedTicks, interval};

use crate::common::{pair, recv, send, stopper};
use crate::faults::{nothing_is_left, tick};
use crate::support::{Log, Watchdog};

const PERIOD: Duration = Duration::from_millis(10);

const POLICIES: [MissedTicks; 3] = [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip];

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A loop whose clock is moved by hand.
fn by_hand() -> (EventLoop, FakeClock) {
    let clock = FakeClock::new();
    (EventLoop::with_clock(clock.clone()).unwrap(), clock)
}

/// An interval of 10 ms whose calls take so many milliseconds, and log when they came.
fn calls_of(
    event_loop: &LoopHandle,
    clock: &FakeClock,
    missed: MissedTicks,
    work: u64,
) -> (IntervalHandle, Log<u128>) {
    let calls = Log::new();
    let (clock, log) = (clock.clone(), calls.clone());
    let interval = event_loop.call_every(PERIOD, move || {
        log.push(clock.time().as_millis());
        clock.advance(ms(work));
    });
    interval.set_missed_ticks(missed);
    (interval, calls)
}

// field: BR-15
#[test]
fn calls_that_take_their_time_do_not_drift() {
    for missed in POLICIES {
        let clock = FakeClock::auto();
        let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
        let (interval, calls) = calls_of(&event_loop, &clock, missed, 3);
        event_loop.call_later(1000 * PERIOD + ms(5), stopper(&event_loop));
        event_loop.run_forever().unwrap();
        let grid: Vec<u128> = (1..=1000).map(|number| number * 10).collect();
        assert_eq!(calls.take(), grid, "{missed:?}");
        assert_eq!(interval.when(), 1001 * PERIOD);
    }
}

// field: BR-15
#[test]
fn ticks_that_are_waited_for_do_not_drift() {
    let clock = FakeClock::auto();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let done = event_loop.run_until_complete(async move {
        let mut ticks = interval(PERIOD);
        for number in 1..=1000 {
            assert_eq!(ticks.tick().await?, number * PERIOD);
            assert_eq!(clock.time(), number * PERIOD);
            clock.advance(ms(3));
        }
        Ok(())
    });
    done.unwrap();
}

// field: BR-15
#[test]
fn after_a_block_the_overdue_calls_come_one_in_each_pass() {
    let (event_loop, clock) = by_hand();
    let (interval, calls) = calls_of(&event_loop, &clock, MissedTicks::Burst, 3);
    for _ in 0..5 {
        clock.advance(interval.when() - clock.time());
        tick(&event_loop);
    }
    assert_eq!(calls.take(), [10, 20, 30, 40, 50]);
    // It is 53 now, and then somebody keeps the thread.
    clock.advance(ms(100));
    let mut now = 153;
    let mut late = 0;
    while interval.when() <= clock.time() {
        tick(&event_loop);
        assert_eq!(calls.take(), [now], "one call in this pass");
        now += 3;
        late += 1;
    }
    // Those of 60 to 190: each made up for seven milliseconds.
    assert_eq!((late, interval.when()), (14, ms(200)));
    tick(&event_loop);
    assert!(calls.take().is_empty());
}

// field: BR-15
#[test]
fn after_a_block_no_burst_comes_where_none_is_wanted() {
    for (missed, next) in [(MissedTicks::Delay, 166), (MissedTicks::Skip, 160)] {
        let (event_loop, clock) = by_hand();
        let (interval, calls) = calls_of(&event_loop, &clock, missed, 3);
        clock.advance(ms(153));
        tick(&event_loop);
        tick(&event_loop);
        assert_eq!(calls.take(), [153], "{missed:?}");
        assert_eq!(interval.when(), ms(next), "{missed:?}");
    }
}

// field: BR-15
#[test]
fn work_longer_than_the_period_leaves_others_their_turn_in_each_pass() {
    let _watchdog = Watchdog::start();
    let (event_loop, clock) = by_hand();
    let (interval, calls) = calls_of(&event_loop, &clock, MissedTicks::Burst, 15);
    let (near, far) = pair();
    let (received, others) = (Log::new(), Log::new());
    let (source, log) = (near.clone(), received.clone());
    event_loop
        .add_reader(&near, move || log.push(recv(&source, 1)))
        .unwrap();
    clock.advance(PERIOD);
    for pass in 0..100 {
        send(&far, b"x");
        event_loop.call_soon(others.entry("callback"));
        event_loop.call_later(ms(1), others.entry("timer"));
        event_loop.run_once().unwrap();
        assert_eq!(calls.take(), [10 + 15 * pass]);
        assert_eq!(received.take(), [b"x"]);
        let mut seen = others.take();
        seen.sort_unstable();
        // A timer comes in the pass after the call that took so long.
        let expected: &[&str] = if pass == 0 {
            &["callback"]
        } else {
            &["callback", "timer"]
        };
        assert_eq!(seen, expected);
    }
    interval.cancel();
    event_loop.remove_reader(&near);
    clock.advance(PERIOD);
    tick(&event_loop);
    nothing_is_left(&event_loop);
}
