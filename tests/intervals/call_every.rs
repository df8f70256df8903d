//! `call_every`: recurring callbacks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{ContextVar, EventLoop, FakeClock, IntervalHandle, LoopHandle, MissedTicks};

use super::common::{Boom, START, Trace, elapsed, raise, run_for, ticks, virtual_loop};
use super::support::{Drops, OnDrop, Reports, Watchdog, nothing_is_left, still_works, tick};
use super::{ALL, seconds};

type Slot = Rc<RefCell<Option<IntervalHandle>>>;

/// A callback that leaves the time of each of its calls.
fn timestamps(event_loop: &LoopHandle, trace: &Trace) -> impl FnMut() + 'static + use<> {
    let (event_loop, trace) = (event_loop.clone(), trace.clone());
    move || trace.push(elapsed(&event_loop))
}

/// Calls every ten seconds, each of which takes as long as the next of `work` says.
fn worked(missed: MissedTicks, mut work: Vec<u64>) -> Vec<String> {
    let (event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let mut stamp = timestamps(&event_loop, &trace);
    let handle = event_loop.handle();
    let interval = event_loop.call_every(seconds(10), move || {
        stamp();
        clock.advance(seconds(work.remove(0)));
        if work.is_empty() {
            handle.stop();
        }
    });
    interval.set_missed_ticks(missed);
    event_loop.run_forever().unwrap();
    trace.lines()
}

// brief: XT-13
#[test]
fn the_first_call_comes_one_period_from_now_and_the_others_on_the_grid() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let interval = event_loop.call_every(seconds(10), timestamps(&event_loop, &trace));
    assert_eq!(interval.when(), START + seconds(10));
    run_for(&event_loop, 35);
    assert_eq!(trace.lines(), ["10", "20", "30"]);
    assert_eq!(interval.when(), START + seconds(40));
    assert!(!interval.cancelled());
}

// brief: XT-13
#[test]
fn work_shorter_than_the_period_moves_no_call() {
    for missed in ALL {
        let seen = worked(missed, vec![3, 9, 10, 1, 0]);
        assert_eq!(seen, ["10", "20", "30", "40", "50"], "{missed:?}");
    }
}

// brief: XT-13
#[test]
fn work_longer_than_the_period_is_dealt_with_as_was_set() {
    let work = vec![0, 35, 0, 0, 15, 15, 0];
    let burst = ["10", "20", "55", "55", "55", "70", "85"];
    assert_eq!(worked(MissedTicks::Burst, work.clone()), burst);
    let delay = ["10", "20", "65", "75", "85", "110", "135"];
    assert_eq!(worked(MissedTicks::Delay, work.clone()), delay);
    let skip = ["10", "20", "60", "70", "80", "100", "120"];
    assert_eq!(worked(MissedTicks::Skip, work), skip);
}

// brief: XT-13
#[test]
fn a_burst_is_one_call_in_each_pass_of_the_loop() {
    let (event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let interval = event_loop.call_every(seconds(1), trace.mark("call"));
    clock.advance(seconds(3));
    ticks(&event_loop, &trace, 4);
    for _ in 0..4 {
        event_loop.run_once().unwrap();
    }
    let expected = ["tick1", "call", "tick2", "call", "tick3", "call", "tick4"];
    assert_eq!(trace.lines(), expected);
    interval.cancel();
}

// brief: XT-13
#[test]
fn a_period_of_zero_is_one_call_in_each_pass() {
    let _watchdog = Watchdog::start();
    for missed in ALL {
        let (event_loop, _) = virtual_loop();
        let calls = Rc::new(Cell::new(0));
        let counted = calls.clone();
        let interval = event_loop.call_every(Duration::ZERO, move || counted.set(counted.get() + 1));
        interval.set_missed_ticks(missed);
        for expected in 1..=5 {
            event_loop.run_once().unwrap();
            assert_eq!(calls.get(), expected, "{missed:?}");
        }
        still_works(&event_loop);
        interval.cancel();
        nothing_is_left(&event_loop);
    }
}

// brief: XT-13
#[test]
fn the_next_call_is_armed_when_the_policy_is_set_in_the_callback() {
    let (event_loop, clock) = virtual_loop();
    let (trace, slot) = (Trace::new(), Slot::default());
    let (mut stamp, own) = (timestamps(&event_loop, &trace), slot.clone());
    let interval = event_loop.call_every(seconds(10), move || {
        stamp();
        let interval = own.borrow();
        let interval = interval.as_ref().unwrap();
        assert_eq!(interval.when(), clock.time());
        interval.set_missed_ticks(MissedTicks::Skip);
        clock.advance(seconds(25));
    });
    slot.replace(Some(interval));
    run_for(&event_loop, 75);
    assert_eq!(trace.lines(), ["10", "40", "70"]);
}

// brief: XT-13
#[test]
fn cancelling_drops_the_callback_at_once() {
    let (event_loop, _) = virtual_loop();
    let (trace, drops) = (Trace::new(), Drops::default());
    let (mut stamp, counted) = (timestamps(&event_loop, &trace), drops.counted());
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &counted;
        stamp();
    });
    run_for(&event_loop, 25);
    interval.cancel();
    assert_eq!((drops.count(), interval.cancelled()), (1, true));
    interval.cancel();
    nothing_is_left(&event_loop);
    assert_eq!(trace.lines(), ["10", "20"]);
}

// brief: XT-13
#[test]
fn a_call_that_is_due_in_this_very_tick_can_still_be_cancelled() {
    let (event_loop, clock) = virtual_loop();
    let (trace, slot, drops) = (Trace::new(), Slot::default(), Drops::default());
    let (cancelled, seen, log) = (slot.clone(), drops.clone(), trace.clone());
    event_loop.call_later(seconds(5), move || {
        cancelled.borrow().as_ref().unwrap().cancel();
        log.push(format!("dropped:{}", seen.count()));
    });
    let (called, counted) = (trace.mark("called"), drops.counted());
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &counted;
        called();
    });
    slot.replace(Some(interval));
    clock.advance(seconds(20));
    tick(&event_loop);
    assert_eq!(trace.lines(), ["dropped:1"]);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn a_callback_that_cancels_itself_is_dropped_when_it_returns() {
    let (event_loop, _) = virtual_loop();
    let (trace, slot) = (Trace::new(), Slot::default());
    let (own, log) = (slot.clone(), trace.clone());
    let dropped = OnDrop::new(trace.mark("dropped"));
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &dropped;
        own.borrow().as_ref().unwrap().cancel();
        log.push("cancelled");
    });
    slot.replace(Some(interval));
    event_loop.call_later(seconds(10), trace.mark("next in the same tick"));
    run_for(&event_loop, 50);
    assert_eq!(trace.lines(), ["cancelled", "dropped", "next in the same tick"]);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn a_panic_is_reported_and_the_interval_goes_on() {
    let (event_loop, _) = virtual_loop();
    let (reports, trace) = (Reports::of(&event_loop), Trace::new());
    let mut stamp = timestamps(&event_loop, &trace);
    let interval = event_loop.call_every(seconds(10), move || {
        stamp();
        raise("bad");
    });
    run_for(&event_loop, 25);
    assert_eq!(trace.lines(), ["10", "20"]);
    let report = format!("Exception in callback: {}", Boom("bad"));
    assert_eq!(reports.take(), [report.clone(), report]);
    interval.cancel();
    still_works(&event_loop);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn a_callback_that_cancels_itself_and_panics_is_dropped_even_if_that_panics_too() {
    let (event_loop, _) = virtual_loop();
    let (reports, slot) = (Reports::of(&event_loop), Slot::default());
    let (own, dropped) = (slot.clone(), OnDrop::new(|| raise("in drop")));
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &dropped;
        own.borrow().as_ref().unwrap().cancel();
        raise("in call");
    });
    slot.replace(Some(interval));
    run_for(&event_loop, 50);
    let report = |name| format!("Exception in callback: {}", Boom(name));
    assert_eq!(reports.take(), [report("in call"), report("in drop")]);
    still_works(&event_loop);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn the_exception_handler_may_cancel_what_has_panicked() {
    let (event_loop, _) = virtual_loop();
    let (slot, drops) = (Slot::default(), Drops::default());
    let cancelled = slot.clone();
    event_loop.set_exception_handler(move |_, _| cancelled.borrow().as_ref().unwrap().cancel());
    let counted = drops.counted();
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &counted;
        raise("once");
    });
    slot.replace(Some(interval));
    run_for(&event_loop, 50);
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn dropping_the_handle_does_not_cancel() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    drop(event_loop.call_every(seconds(10), timestamps(&event_loop, &trace)));
    run_for(&event_loop, 25);
    assert_eq!(trace.lines(), ["10", "20"]);
}

// brief: XT-13
#[test]
fn a_loop_that_closes_drops_the_callback_though_the_handle_is_kept() {
    let (event_loop, _) = virtual_loop();
    let (drops, slot) = (Drops::default(), Slot::default());
    let (counted, own) = (drops.counted(), slot.clone());
    // The callback's destructor cancels, which is nothing any more.
    let cancelling = OnDrop::new(move || own.borrow().as_ref().unwrap().cancel());
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = (&counted, &cancelling);
    });
    slot.replace(Some(interval));
    run_for(&event_loop, 15);
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 1);
    slot.borrow().as_ref().unwrap().cancel();
    assert_eq!(drops.count(), 1);
}

// brief: XT-13
#[test]
fn a_closed_loop_refuses_and_drops_the_callback() {
    let (event_loop, _) = virtual_loop();
    event_loop.close().unwrap();
    let drops = Drops::default();
    let counted = drops.counted();
    let interval = event_loop.call_every(seconds(10), move || {
        let _captured = &counted;
    });
    assert_eq!((drops.count(), interval.cancelled()), (1, true));
    interval.cancel();
}

// brief: XT-13
#[test]
fn a_callback_may_start_and_end_intervals_and_destructors_may_as_well() {
    let (event_loop, _) = virtual_loop();
    let (trace, inner) = (Trace::new(), Slot::default());
    let (handle, log, slot) = (event_loop.handle(), trace.clone(), inner.clone());
    let outer = event_loop.call_every(seconds(10), move || {
        log.push(format!("outer@{}", elapsed(&handle)));
        let before = slot.take();
        if let Some(before) = before {
            before.cancel();
        }
        let (again, mark, seen) = (handle.clone(), log.mark("from a destructor"), log.clone());
        let dropped = OnDrop::new(move || drop(again.call_soon(mark)));
        let at = handle.clone();
        let interval = handle.call_every(seconds(4), move || {
            let _captured = &dropped;
            seen.push(format!("inner@{}", elapsed(&at)));
        });
        slot.replace(Some(interval));
    });
    run_for(&event_loop, 25);
    outer.cancel();
    inner.take().unwrap().cancel();
    tick(&event_loop);
    let expected = [
        "outer@10",
        "inner@14",
        "inner@18",
        "outer@20",
        "from a destructor",
        "inner@24",
        "from a destructor",
    ];
    assert_eq!(trace.lines(), expected);
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn calls_run_in_the_context_of_the_place_where_the_interval_was_made() {
    static VAR: ContextVar<u32> = ContextVar::new("var");
    let (event_loop, _) = virtual_loop();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    let token = VAR.set(1);
    event_loop.call_every(seconds(10), move || {
        let value = VAR.get().unwrap();
        log.borrow_mut().push(value);
        // Its context is its own, and one for all its calls.
        VAR.set(value + 1);
    });
    VAR.reset(token).unwrap();
    event_loop.call_later(seconds(15), || drop(VAR.set(100)));
    run_for(&event_loop, 35);
    assert_eq!(*seen.borrow(), [1, 2, 3]);
    assert_eq!(VAR.get(), None);
}

// brief: XT-13
#[test]
fn a_context_is_let_go_of_with_the_interval_and_old_values_before() {
    static VAR: ContextVar<Rc<Drops>> = ContextVar::new("var");
    let (event_loop, _) = virtual_loop();
    let weak = {
        let value = Rc::new(Drops::default());
        let weak = Rc::downgrade(&value);
        let token = VAR.set(value);
        let interval = event_loop.call_every(seconds(10), || {
            VAR.set(Rc::default());
        });
        VAR.reset(token).unwrap();
        assert!(weak.upgrade().is_some());
        run_for(&event_loop, 15);
        (weak, interval)
    };
    assert!(weak.0.upgrade().is_none(), "replaced in the first call");
    weak.1.cancel();
    nothing_is_left(&event_loop);
}

// brief: XT-13
#[test]
fn a_huge_period_saturates_and_is_never_called() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    clock.advance(seconds(1));
    let trace = Trace::new();
    let interval = event_loop.call_every(Duration::MAX, trace.mark("called"));
    assert_eq!(interval.when(), Duration::MAX);
    clock.advance(seconds(1 << 33));
    tick(&event_loop);
    assert!(trace.lines().is_empty());
    interval.cancel();
}

// brief: XT-13
#[test]
fn a_huge_period_on_a_clock_that_jumps_ends_at_the_end_of_time() {
    let _watchdog = Watchdog::start();
    for missed in ALL {
        let (event_loop, _) = virtual_loop();
        let (trace, drops) = (Trace::new(), Drops::default());
        let (called, held) = (trace.mark("called"), drops.counted());
        let interval = event_loop.call_every(Duration::MAX, move || {
            let _ = &held;
            called();
        });
        interval.set_missed_ticks(missed);
        event_loop.run_once().unwrap();
        for _ in 0..20 {
            tick(&event_loop);
        }
        assert!(trace.lines().len() <= 1, "{:?}", trace.lines());
        assert!(interval.cancelled());
        assert_eq!((drops.count(), event_loop.timer_count()), (1, 0));
        nothing_is_left(&event_loop);
    }
}
