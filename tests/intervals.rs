//! Recurring timers: `interval` and `sleep_until` here, `call_every` in its own module.

mod common;
mod support;

#[path = "intervals/call_every.rs"]
mod call_every;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt, pin_mut, poll};
use miniloop::{
    EventLoop, FakeClock, Interval, MissedTicks, Result, RuntimeError, create_task, get_running_loop,
    interval, interval_at, sleep,
};

use common::{START, Trace, ticks, virtual_loop, yields};
use support::{Watchdog, misuse, nothing_is_left, raised, tick};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A moment on a virtual loop, in seconds since its start.
fn since_start(moment: Duration) -> u64 {
    (moment - START).as_secs()
}

/// Waits for so many ticks with work of these lengths after them; gives when each was due and
/// when it came.
async fn worked(ticks: &mut Interval, clock: &FakeClock, work: &[u64]) -> Result<Vec<(u64, u64)>> {
    let mut seen = Vec::new();
    for length in work {
        let due = ticks.tick().await?;
        seen.push((since_start(due), since_start(clock.time())));
        clock.advance(seconds(*length));
    }
    Ok(seen)
}

fn run_worked(missed: MissedTicks, work: &'static [u64]) -> Vec<(u64, u64)> {
    let (event_loop, clock) = virtual_loop();
    let seen = event_loop.run_until_complete(async move {
        let mut ticks = interval(seconds(10));
        ticks.set_missed_ticks(missed);
        worked(&mut ticks, &clock, work).await
    });
    seen.unwrap()
}

const ALL: [MissedTicks; 3] = [MissedTicks::Burst, MissedTicks::Delay, MissedTicks::Skip];

// brief: XT-13
#[test]
fn the_first_tick_comes_one_period_from_now() {
    let (event_loop, clock) = virtual_loop();
    let due = event_loop.run_until_complete(async { interval(seconds(3)).tick().await });
    assert_eq!(due.unwrap(), START + seconds(3));
    assert_eq!(clock.time(), START + seconds(3));
}

// brief: XT-13
#[test]
fn the_period_counts_from_where_the_interval_was_made() {
    let (event_loop, clock) = virtual_loop();
    let due = event_loop.run_until_complete(async move {
        let mut ticks = interval(seconds(10));
        sleep(seconds(4)).await?;
        ticks.tick().await
    });
    assert_eq!(due.unwrap(), START + seconds(10));
    assert_eq!(clock.time(), START + seconds(10));
}

// brief: XT-13
#[test]
fn made_outside_of_a_loop_it_starts_with_the_first_wait() {
    let (event_loop, clock) = virtual_loop();
    let mut ticks = interval(seconds(10));
    clock.advance(seconds(100));
    let due = event_loop.run_until_complete(async move {
        let first = ticks.tick().await?;
        Ok((first, ticks.tick().await?))
    });
    let first = START + seconds(110);
    assert_eq!(due.unwrap(), (first, first + seconds(10)));
}

// brief: XT-13
#[test]
fn interval_at_ticks_first_at_its_start() {
    let (event_loop, _) = virtual_loop();
    let seen = event_loop.run_until_complete(async {
        let start = get_running_loop()?.time() + seconds(7);
        let mut ticks = interval_at(start, seconds(10));
        Ok([ticks.tick().await?, ticks.tick().await?].map(since_start))
    });
    assert_eq!(seen.unwrap(), [7, 17]);
}

// brief: XT-13
#[test]
fn interval_at_now_ticks_in_the_next_pass() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let done = event_loop.run_until_complete(async move {
        let event_loop = get_running_loop()?;
        ticks(&event_loop, &log, 2);
        let due = interval_at(event_loop.time(), seconds(10)).tick().await?;
        log.push(format!("ticked@{}", since_start(due)));
        yields(2).await
    });
    done.unwrap();
    assert_eq!(trace.lines(), ["tick1", "ticked@0", "tick2"]);
}

// brief: XT-13
#[test]
fn work_shorter_than_the_period_does_not_add_up() {
    for missed in ALL {
        let seen = run_worked(missed, &[3, 9, 10, 1, 0, 0]);
        let on_time = [10, 20, 30, 40, 50, 60].map(|moment| (moment, moment));
        assert_eq!(seen, on_time, "{missed:?}");
    }
}

// brief: XT-13
#[test]
fn a_thousand_ticks_of_an_odd_period_do_not_drift() {
    let (event_loop, clock) = virtual_loop();
    let period = Duration::from_nanos(33_333_333);
    let last = event_loop.run_until_complete(async move {
        let mut ticks = interval(period);
        for _ in 1..1000 {
            ticks.tick().await?;
            clock.advance(Duration::from_nanos(1_234_567));
        }
        ticks.tick().await
    });
    assert_eq!(last.unwrap(), START + 1000 * period);
    assert_eq!(event_loop.time(), START + 1000 * period);
}

// brief: XT-13
#[test]
fn missed_ticks_follow_in_a_burst() {
    let seen = run_worked(MissedTicks::Burst, &[0, 35, 0, 0, 0, 0]);
    assert_eq!(seen, [(10, 10), (20, 20), (30, 55), (40, 55), (50, 55), (60, 60)]);
}

// brief: XT-13
#[test]
fn after_missed_ticks_a_delayed_interval_has_another_grid() {
    let seen = run_worked(MissedTicks::Delay, &[0, 35, 0, 0]);
    assert_eq!(seen, [(10, 10), (20, 20), (65, 65), (75, 75)]);
}

// brief: XT-13
#[test]
fn skipped_ticks_leave_the_grid_as_it_was() {
    let seen = run_worked(MissedTicks::Skip, &[0, 35, 20, 21, 0, 0]);
    // 80 was still to come when the work of 60 ended at that very moment.
    assert_eq!(
        seen,
        [(10, 10), (20, 20), (60, 60), (80, 80), (110, 110), (120, 120)]
    );
}

// brief: XT-13
#[test]
fn a_late_tick_whose_successor_is_not_late_changes_nothing() {
    for missed in ALL {
        let (event_loop, clock) = virtual_loop();
        let seen = event_loop.run_until_complete(async move {
            let mut ticks = interval(seconds(10));
            ticks.set_missed_ticks(missed);
            let blocker = clock.clone();
            get_running_loop()?.call_later(seconds(9), move || blocker.advance(seconds(5)));
            worked(&mut ticks, &clock, &[0, 0]).await
        });
        assert_eq!(seen.unwrap(), [(10, 14), (20, 20)], "{missed:?}");
    }
}

// brief: XT-13
#[test]
fn a_burst_is_one_tick_in_each_pass_of_the_loop() {
    let (event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let done = event_loop.run_until_complete(async move {
        let event_loop = get_running_loop()?;
        let mut ticks_of = interval(seconds(1));
        clock.advance(seconds(4));
        ticks(&event_loop, &log, 4);
        for _ in 0..4 {
            let due = ticks_of.tick().await?;
            log.push(format!("due{}", since_start(due)));
        }
        Ok(())
    });
    done.unwrap();
    let expected = ["tick1", "due1", "tick2", "due2", "tick3", "due3", "tick4", "due4"];
    assert_eq!(trace.lines(), expected);
}

/// Counts its ticks, for ever.
async fn count_ticks(mut ticks: Interval, count: Rc<Cell<u32>>) -> Result<()> {
    loop {
        ticks.tick().await?;
        count.set(count.get() + 1);
    }
}

// brief: XT-13
#[test]
fn a_period_of_zero_ticks_once_a_pass_and_starves_nobody() {
    let _watchdog = Watchdog::start();
    for missed in ALL {
        let clock = FakeClock::new();
        let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
        let count = Rc::new(Cell::new(0));
        let mut ticks = interval(Duration::ZERO);
        ticks.set_missed_ticks(missed);
        let ticking = event_loop.create_task(count_ticks(ticks, count.clone()));
        let counted = count.clone();
        // A task that yields, a timer, and the end of the run come through as well.
        let done = event_loop.run_until_complete(async move {
            for passes in 0..100 {
                assert_eq!(counted.get(), passes);
                clock.advance(seconds(1));
                yields(1).await?;
            }
            let slept = sleep(seconds(1));
            clock.advance(seconds(1));
            slept.await
        });
        done.unwrap();
        let before = count.get();
        for _ in 0..10 {
            event_loop.run_once().unwrap();
        }
        assert_eq!(count.get() - before, 10, "{missed:?}");
        assert!(ticking.cancel());
        assert!(event_loop.run_until_complete(ticking).unwrap_err().is_cancelled());
        nothing_is_left(&event_loop);
    }
}

// brief: XT-13
#[test]
fn a_wait_that_was_dropped_loses_no_tick() {
    let (event_loop, clock) = virtual_loop();
    let seen = event_loop.run_until_complete(async move {
        let mut ticks = interval(seconds(10));
        ticks.set_missed_ticks(MissedTicks::Skip);
        for _ in 0..3 {
            assert!(ticks.tick().now_or_never().is_none());
            sleep(seconds(2)).await?;
        }
        // It is dropped after its moment, and once more when its timer has fired.
        {
            let waiting = ticks.tick();
            pin_mut!(waiting);
            assert!(poll!(&mut waiting).is_pending());
            sleep(seconds(19)).await?;
        }
        assert!(ticks.tick().now_or_never().is_none());
        worked(&mut ticks, &clock, &[0, 0, 0]).await
    });
    // Asked for long ago, and had late; only then are those passed meanwhile dropped.
    assert_eq!(seen.unwrap(), [(10, 25), (30, 30), (40, 40)]);
}

// brief: XT-13
#[test]
fn the_branch_that_wins_a_select_takes_no_tick_away() {
    let (event_loop, _) = virtual_loop();
    let seen = event_loop.run_until_complete(async {
        let mut ticks = interval(seconds(10));
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let (tick, nap) = (ticks.tick(), sleep(seconds(3)));
            pin_mut!(tick);
            if let Either::Left((due, _)) = select(tick, nap).await {
                seen.push(since_start(due?));
            }
        }
        Ok(seen)
    });
    assert_eq!(seen.unwrap(), [10, 20, 30]);
}

// brief: XT-13
#[test]
fn a_cancelled_wait_loses_no_tick() {
    // Cancelled long before, in the pass in which the timer fires, and when it has fired.
    for (delay, passes) in [(4, 0), (10, 0), (10, 1)] {
        let (event_loop, clock) = virtual_loop();
        let seen = event_loop.run_until_complete(async move {
            let (log, event_loop) = (Rc::new(RefCell::new(Vec::new())), get_running_loop()?);
            let seen = log.clone();
            let task = create_task(async move {
                let mut ticks = interval(seconds(10));
                let cancelled = ticks.tick().await.unwrap_err();
                assert!(cancelled.is_cancelled());
                let had = worked(&mut ticks, &clock, &[0, 0]).await?;
                seen.replace(had);
                Ok(())
            });
            let cancelled = task.clone();
            let (handle, cancel) = (event_loop.clone(), move || assert!(cancelled.cancel()));
            event_loop.call_later(seconds(delay), move || match passes {
                0 => cancel(),
                _ => drop(handle.call_soon(cancel)),
            });
            task.await?;
            Ok(log.take())
        });
        // Had in the task's next turn.
        assert_eq!(seen.unwrap(), [(10, 10), (20, 20)], "{delay} and {passes}");
    }
}

// brief: XT-13
#[test]
fn without_a_running_loop_a_tick_is_refused_and_none_is_lost() {
    let (event_loop, _) = virtual_loop();
    let mut ticks = interval_at(START + seconds(5), seconds(10));
    let refused = ticks.tick().now_or_never().unwrap();
    assert_eq!(raised::<RuntimeError, _>(refused), RuntimeError::NoRunningLoop);
    let due = event_loop.run_until_complete(async move { ticks.tick().await });
    assert_eq!(due.unwrap(), START + seconds(5));
}

// brief: XT-13
#[test]
fn a_huge_period_saturates() {
    let (event_loop, clock) = virtual_loop();
    for missed in ALL {
        clock.advance(seconds(1));
        event_loop
            .run_until_complete(async move {
                let mut ticks = interval(Duration::MAX);
                ticks.set_missed_ticks(missed);
                assert!(ticks.tick().now_or_never().is_none());
                let mut late = interval_at(Duration::ZERO, Duration::MAX);
                late.set_missed_ticks(missed);
                assert_eq!(late.tick().await?, Duration::ZERO);
                assert!(late.tick().now_or_never().is_none());
                Ok(())
            })
            .unwrap();
    }
    let (event_loop, clock) = virtual_loop();
    clock.advance(Duration::MAX);
    let at_the_end = event_loop.run_until_complete(async move {
        let mut ticks = interval_at(Duration::from_nanos(1), Duration::from_nanos(7));
        ticks.set_missed_ticks(MissedTicks::Skip);
        Ok((ticks.tick().await?, ticks.tick().await?))
    });
    assert_eq!(at_the_end.unwrap(), (Duration::from_nanos(1), Duration::MAX));
}

// brief: XT-13
#[test]
fn an_interval_nobody_waits_for_holds_no_timer() {
    let (event_loop, _) = virtual_loop();
    let kept = event_loop.run_until_complete(async {
        let mut ticks = interval(seconds(10));
        ticks.tick().await?;
        assert!(ticks.tick().now_or_never().is_none());
        Ok(Rc::new(ticks))
    });
    assert_eq!(kept.as_ref().unwrap().period(), seconds(10));
    assert_eq!(kept.unwrap().missed_ticks(), MissedTicks::Burst);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn sleep_until_wakes_at_the_moment_and_not_before() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let slept = event_loop.sleep_until(seconds(10));
    clock.advance(seconds(10) - Duration::from_nanos(1));
    tick(&event_loop);
    assert!(!slept.done());
    clock.advance(Duration::from_nanos(1));
    tick(&event_loop);
    assert!(slept.done());
}

// brief: XT-13
#[test]
fn sleep_until_a_moment_that_has_come_is_a_bare_yield() {
    let (event_loop, _) = virtual_loop();
    for moment in [Duration::ZERO, START] {
        let trace = Trace::new();
        let log = trace.clone();
        let done = event_loop.run_until_complete(async move {
            let event_loop = get_running_loop()?;
            ticks(&event_loop, &log, 2);
            event_loop.sleep_until(moment).await?;
            log.push("woken");
            yields(2).await
        });
        done.unwrap();
        assert_eq!(trace.lines(), ["tick1", "woken", "tick2"]);
        let unwatched = event_loop.sleep_until(moment);
        tick(&event_loop);
        assert!(unwatched.done());
    }
}

// brief: XT-13
#[test]
fn a_sleep_until_that_is_dropped_or_cancelled_leaves_no_timer() {
    let (event_loop, _) = virtual_loop();
    drop(event_loop.sleep_until(START + seconds(10)));
    let cancelled = event_loop.sleep_until(START + seconds(10));
    assert!(cancelled.cancel());
    nothing_is_left(&event_loop);
    event_loop.close().unwrap();
    let refused = event_loop.sleep_until(START + seconds(10));
    assert_eq!(misuse(refused.result()), RuntimeError::LoopClosed);
}
