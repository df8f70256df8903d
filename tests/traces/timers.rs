//! `call_later` and `call_at`: deadlines, ties, the zero delay.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::TimerHandle;

use crate::common::{START, Trace, elapsed, run_for, stopper, ticks};
use crate::registry::VirtualLoop;

scenarios! {
    area: "timers",
    calls: [
        timers_by_deadline_not_by_age,
        two_timers_same_deadline,
        zero_delay_loses_to_call_soon,
        timer_cancels_its_twin,
        call_at_is_absolute,
        zero_timer_from_timer_waits_a_tick,
        slow_callback_bunches_timers,
    ],
    mains: [],
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn timers_by_deadline_not_by_age(event_loop: &VirtualLoop, trace: &Trace) {
    for delay in [7, 2, 5, 1] {
        let (handle, log) = (event_loop.handle(), trace.clone());
        event_loop.call_later(secs(delay), move || {
            log.push(format!("{delay}@{}", elapsed(&handle)));
        });
    }
    run_for(event_loop, 8);
}

fn two_timers_same_deadline(event_loop: &VirtualLoop, trace: &Trace) {
    event_loop.call_later(secs(3), trace.mark("older"));
    event_loop.call_later(secs(3), trace.mark("newer"));
    let (handle, log) = (event_loop.handle(), trace.clone());
    // A third timer for the same moment, made late.
    event_loop.call_later(Duration::from_millis(2500), move || {
        let inner = handle.clone();
        handle.call_later(Duration::from_millis(500), move || ticks(&inner, &log, 2));
    });
    run_for(event_loop, 4);
}

fn zero_delay_loses_to_call_soon(event_loop: &VirtualLoop, trace: &Trace) {
    event_loop.call_later(Duration::ZERO, trace.mark("early-timer"));
    event_loop.call_soon(trace.mark("early-soon"));
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        handle.call_later(Duration::ZERO, log.mark("timer"));
        handle.call_soon(log.mark("soon"));
        ticks(&handle, &log, 3);
        handle.call_later(secs(1), stopper(&handle));
    });
    event_loop.run_forever().expect("the loop runs");
}

fn timer_cancels_its_twin(event_loop: &VirtualLoop, trace: &Trace) {
    let twin = Rc::new(OnceCell::<TimerHandle>::new());
    let (target, log) = (twin.clone(), trace.clone());
    event_loop.call_later(secs(2), move || {
        log.push("one");
        target.get().expect("the twin is scheduled").cancel();
    });
    let scheduled = twin.set(event_loop.call_later(secs(2), trace.mark("twin")));
    assert!(scheduled.is_ok());
    run_for(event_loop, 3);
    let twin = twin.get().expect("the twin");
    trace.push(format!("twin-cancelled:{}", twin.cancelled()));
}

fn call_at_is_absolute(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_later(secs(6), move || {
        let (inner, done) = (handle.clone(), log.clone());
        let timer = handle.call_at(handle.time() + secs(4), move || {
            done.push(format!("fired:{}", elapsed(&inner)));
            inner.stop();
        });
        log.push(format!("when:{}", (timer.when() - START).as_secs_f64()));
    });
    event_loop.run_forever().expect("the loop runs");
}

fn zero_timer_from_timer_waits_a_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_later(secs(1), move || {
        log.push("outer");
        ticks(&handle, &log, 2);
        handle.call_later(Duration::ZERO, log.mark("inner"));
    });
    event_loop.call_later(secs(1), trace.mark("sibling"));
    run_for(event_loop, 2);
}

fn slow_callback_bunches_timers(event_loop: &VirtualLoop, trace: &Trace) {
    event_loop.call_later(secs(6), trace.mark("six"));
    event_loop.call_later(secs(4), trace.mark("four"));
    let (handle, log, clock) = (event_loop.handle(), trace.clone(), event_loop.clock.clone());
    event_loop.call_later(secs(1), move || {
        log.push("slow");
        clock.advance(secs(10));
        ticks(&handle, &log, 2);
    });
    run_for(event_loop, 12);
}
