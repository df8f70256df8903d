//! Timers: order, the clock, the time the selector may wait; and faults in them.

mod common;
mod support;

#[path = "timers/waiting.rs"]
mod waiting;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, FakeClock, LoopHandle, MonotonicClock, TimerHandle};

use common::{START, Trace, virtual_loop};
use support::{Drops, Reports, still_works, tick};

/// A loop whose time only moves when the test says so.
fn fake_loop() -> (EventLoop, FakeClock) {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    (event_loop, clock)
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

// brief: TM-1
#[test]
fn a_timer_has_not_run_before_time_advances() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_later(seconds(10), events.mark("later"));
    event_loop.run_once().unwrap();
    assert!(events.lines().is_empty());
    clock.advance(seconds(10) - Duration::from_nanos(1));
    event_loop.run_once().unwrap();
    assert!(events.lines().is_empty());
}

// brief: TM-2
#[test]
fn a_timer_runs_once_after_time_advances() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_later(seconds(10), events.mark("later"));
    event_loop.run_once().unwrap();
    clock.advance(seconds(10));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["later"]);
    clock.advance(seconds(10));
    tick(&event_loop);
    assert_eq!(events.lines(), ["later"]);
}

// brief: TM-3
#[test]
fn a_timer_at_one_second_runs_before_a_timer_at_five() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_later(seconds(5), events.mark("five"));
    event_loop.call_later(seconds(1), events.mark("one"));
    // both due in one tick: the deadline counts, not the order of scheduling
    clock.advance(seconds(5));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["one", "five"]);
}

// brief: TM-4, TM-7
#[test]
fn timers_at_one_moment_run_in_scheduling_order() {
    let (event_loop, clock) = fake_loop();
    let events: Rc<RefCell<Vec<u32>>> = Rc::default();
    // enough of them that a heap without a tie-breaker shuffles them; closures can not be compared
    for number in 0..100 {
        let events = Rc::clone(&events);
        let callback = move || events.borrow_mut().push(number);
        if number % 2 == 0 {
            event_loop.call_later(seconds(1), callback);
        } else {
            event_loop.call_at(seconds(1), callback);
        }
    }
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.take(), (0..100).collect::<Vec<_>>());
}

// brief: TM-7
#[test]
fn two_callbacks_that_can_not_be_compared_may_share_a_deadline() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let named: fn() = || {};
    let boxed: Box<dyn FnOnce()> = Box::new(events.mark("boxed"));
    event_loop.call_at(seconds(1), boxed);
    event_loop.call_at(seconds(1), named);
    event_loop.call_at(seconds(1), events.mark("plain"));
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["boxed", "plain"]);
}

// brief: TM-5
#[test]
fn the_time_of_a_loop_never_goes_back() {
    for event_loop in [
        EventLoop::new().unwrap(),
        EventLoop::with_clock(MonotonicClock::new()).unwrap(),
    ] {
        let mut before = event_loop.time();
        for _ in 0..1_000 {
            let now = event_loop.time();
            assert!(now >= before);
            before = now;
        }
    }
}

// brief: TM-5
#[test]
fn the_clock_can_be_injected() {
    let clock = FakeClock::new().starting_at(seconds(7));
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    assert_eq!(event_loop.time(), seconds(7));
    clock.advance(seconds(3));
    assert_eq!(event_loop.time(), seconds(10));
    assert_eq!(event_loop.call_later(seconds(5), || {}).when(), seconds(15));
}

// brief: TM-8
#[test]
fn the_mini_loop_with_call_later_runs_its_later_functions_by_time() {
    let (event_loop, clock) = fake_loop();
    let out = Trace::new();
    event_loop.call_later(seconds(2), out.mark("after 2"));
    event_loop.call_later(seconds(1), {
        let (handle, out) = (event_loop.handle(), out.clone());
        move || {
            out.push("after 1");
            handle.call_soon(out.mark("follow-up"));
        }
    });
    event_loop.call_soon(out.mark("a"));
    event_loop.call_soon(out.mark("b"));
    miniloop::testing::advance(&event_loop, &clock, seconds(2)).unwrap();
    assert_eq!(out.lines(), ["a", "b", "after 1", "follow-up", "after 2"]);
}

#[test]
fn stepping_the_clock_shows_each_timer_its_own_deadline() {
    let (event_loop, clock) = fake_loop();
    let seen: Rc<RefCell<Vec<u64>>> = Rc::default();
    for delay in [3, 1, 2, 9] {
        let (handle, seen) = (event_loop.handle(), Rc::clone(&seen));
        event_loop.call_later(seconds(delay), move || {
            seen.borrow_mut().push(handle.time().as_secs());
        });
    }
    miniloop::testing::advance(&event_loop, &clock, seconds(5)).unwrap();
    assert_eq!(seen.take(), [1, 2, 3]);
    assert_eq!(event_loop.time(), seconds(5));
}

#[test]
fn a_timer_without_delay_runs_after_what_was_ready_in_the_same_tick() {
    let (event_loop, _clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_later(Duration::ZERO, events.mark("timer"));
    event_loop.call_soon(events.mark("callback"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["callback", "timer"]);
}

#[test]
fn a_timer_without_delay_scheduled_by_a_callback_runs_in_the_next_tick() {
    let (event_loop, _clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_soon({
        let (handle, events) = (event_loop.handle(), events.clone());
        move || {
            handle.call_later(Duration::ZERO, events.mark("timer"));
        }
    });
    event_loop.run_once().unwrap();
    assert!(events.lines().is_empty());
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["timer"]);
}

#[test]
fn a_timer_that_rearms_itself_without_delay_starves_nothing() {
    fn rearm(handle: LoopHandle, count: Rc<Cell<u32>>) {
        handle.clone().call_later(Duration::ZERO, move || {
            count.set(count.get() + 1);
            rearm(handle, count);
        });
    }
    let (event_loop, _clock) = fake_loop();
    let count = Rc::new(Cell::new(0));
    let events = Trace::new();
    rearm(event_loop.handle(), Rc::clone(&count));
    event_loop.call_soon(events.mark("callback"));
    event_loop.run_once().unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["callback"]);
    assert_eq!(count.get(), 2, "once a tick");
}

#[test]
fn a_moment_in_the_past_is_due_at_once() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    clock.advance(seconds(10));
    let timer = event_loop.call_at(seconds(3), events.mark("past"));
    assert_eq!(timer.when(), seconds(3));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["past"]);
}

#[test]
fn a_huge_delay_saturates() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    clock.advance(seconds(1));
    let never = event_loop.call_later(Duration::MAX, events.mark("never"));
    event_loop.call_at(Duration::MAX, events.mark("never"));
    event_loop.call_later(seconds(1), events.mark("second"));
    assert_eq!(never.when(), Duration::MAX);
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["second"]);
}

#[test]
fn the_real_selector_accepts_a_huge_wait() {
    let event_loop = EventLoop::new().unwrap();
    event_loop.call_later(Duration::MAX, || {});
    let threadsafe = event_loop.threadsafe_handle();
    let events = Trace::new();
    let mark = events.mark("woken");
    std::thread::spawn(move || threadsafe.call_soon_threadsafe(mark).unwrap());
    while events.lines().is_empty() {
        event_loop.run_once().unwrap();
    }
    still_works(&event_loop);
}

#[test]
fn a_cancelled_timer_does_not_run_and_silences_no_other() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let first = event_loop.call_later(seconds(1), events.mark("first"));
    event_loop.call_later(seconds(2), events.mark("second"));
    assert!(!first.cancelled());
    first.cancel();
    first.cancel();
    assert!(first.cancelled());
    assert_eq!(first.when(), seconds(1));
    clock.advance(seconds(2));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["second"]);
}

#[test]
fn a_timer_can_be_cancelled_in_the_tick_in_which_it_is_due() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let victim: Rc<Cell<Option<TimerHandle>>> = Rc::default();
    event_loop.call_later(seconds(1), {
        let victim = Rc::clone(&victim);
        move || victim.take().unwrap().cancel()
    });
    victim.set(Some(event_loop.call_later(seconds(1), events.mark("victim"))));
    event_loop.call_later(seconds(1), events.mark("bystander"));
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["bystander"]);
}

#[test]
fn a_timer_may_cancel_itself_while_it_runs() {
    let (event_loop, clock) = fake_loop();
    let reports = Reports::of(&event_loop);
    let own: Rc<Cell<Option<TimerHandle>>> = Rc::default();
    let events = Trace::new();
    let timer = event_loop.call_later(seconds(1), {
        let (own, events) = (Rc::clone(&own), events.clone());
        move || {
            own.take().unwrap().cancel();
            events.push("ran");
        }
    });
    own.set(Some(timer));
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["ran"]);
    assert_eq!(reports.take(), [""; 0]);
    still_works(&event_loop);
}

#[test]
fn cancelling_a_timer_that_ran_touches_no_other() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let first = event_loop.call_later(seconds(1), events.mark("first"));
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    // the place of the first may have been given to the second
    event_loop.call_later(seconds(1), events.mark("second"));
    first.cancel();
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["first", "second"]);
}

#[test]
fn cancelled_timers_are_dropped_at_once_however_many() {
    let (event_loop, _clock) = fake_loop();
    let drops = Drops::default();
    for _ in 0..10_000 {
        let captured = drops.counted();
        let timer = event_loop.call_later(seconds(3600), move || drop(captured));
        timer.cancel();
    }
    assert_eq!(drops.count(), 10_000);
}

#[test]
fn a_timer_runs_though_its_handle_was_dropped() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    drop(event_loop.call_later(seconds(1), events.mark("ran")));
    clock.advance(seconds(1));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["ran"]);
}

#[test]
fn an_auto_clock_jumps_over_the_waits() {
    let (event_loop, clock) = virtual_loop();
    let events = Trace::new();
    event_loop.call_later(seconds(3600), {
        let (handle, events) = (event_loop.handle(), events.clone());
        move || {
            events.push("an hour later");
            handle.stop();
        }
    });
    event_loop.run_forever().unwrap();
    assert_eq!(events.lines(), ["an hour later"]);
    assert_eq!(clock.time(), START + seconds(3600));
}

#[test]
fn timers_due_after_a_long_callback_all_run_in_the_next_tick_by_deadline() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    event_loop.call_later(seconds(3), events.mark("three"));
    event_loop.call_later(seconds(2), events.mark("two"));
    event_loop.call_soon({
        let clock = clock.clone();
        move || clock.advance(seconds(10))
    });
    event_loop.run_once().unwrap();
    assert!(events.lines().is_empty());
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["two", "three"]);
}
