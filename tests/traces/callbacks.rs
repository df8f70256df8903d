//! `call_soon`, its handles, `stop`.

use std::cell::OnceCell;
use std::rc::Rc;

use miniloop::Handle;

use crate::common::{Trace, stopper, ticks};
use crate::registry::VirtualLoop;

scenarios! {
    area: "callbacks",
    calls: [
        soon_runs_in_order,
        soon_from_callback_waits_a_tick,
        cancel_later_callback_of_same_tick,
        cancel_handle_that_already_ran,
        stop_before_run_gives_one_tick,
        stop_inside_tick_lets_the_tick_finish,
        is_running_only_inside,
    ],
    mains: [],
}

fn run(event_loop: &VirtualLoop) {
    event_loop.run_forever().expect("the loop runs");
}

fn soon_runs_in_order(event_loop: &VirtualLoop, trace: &Trace) {
    for name in ["a", "b", "c"] {
        event_loop.call_soon(trace.mark(name));
    }
    trace.push("queued");
    event_loop.call_soon(stopper(event_loop));
    run(event_loop);
}

fn soon_from_callback_waits_a_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let handle = event_loop.handle();
    let log = trace.clone();
    event_loop.call_soon(move || {
        log.push("first");
        let inner = handle.clone();
        handle.call_soon(move || {
            log.push("child");
            let innermost = inner.clone();
            inner.call_soon(move || {
                log.push("grandchild");
                innermost.stop();
            });
        });
    });
    event_loop.call_soon(trace.mark("second"));
    ticks(event_loop, trace, 4);
    run(event_loop);
    trace.push("stopped");
}

fn cancel_later_callback_of_same_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let victim = Rc::new(OnceCell::<Handle>::new());
    let (target, log) = (victim.clone(), trace.clone());
    event_loop.call_soon(move || {
        log.push("killer");
        let target = target.get().expect("the victim is scheduled");
        target.cancel();
        log.push(format!("victim-cancelled:{}", target.cancelled()));
    });
    let scheduled = victim.set(event_loop.call_soon(trace.mark("victim")));
    assert!(scheduled.is_ok());
    event_loop.call_soon(trace.mark("bystander"));
    event_loop.call_soon(stopper(event_loop));
    run(event_loop);
}

fn cancel_handle_that_already_ran(event_loop: &VirtualLoop, trace: &Trace) {
    let ran = event_loop.call_soon(trace.mark("ran"));
    let (stop, log) = (stopper(event_loop), trace.clone());
    event_loop.call_soon(move || {
        log.push(format!("before:{}", ran.cancelled()));
        ran.cancel();
        ran.cancel();
        log.push(format!("after:{}", ran.cancelled()));
        stop();
    });
    run(event_loop);
}

fn stop_before_run_gives_one_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        log.push("first");
        handle.call_soon(log.mark("child"));
    });
    event_loop.call_soon(trace.mark("second"));
    for _ in 0..2 {
        event_loop.stop();
        run(event_loop);
        trace.push("returned");
    }
}

fn stop_inside_tick_lets_the_tick_finish(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        log.push("first");
        handle.call_soon(log.mark("newer"));
    });
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        log.push("stop");
        handle.stop();
        handle.call_soon(log.mark("newest"));
    });
    event_loop.call_soon(trace.mark("last-of-tick"));
    run(event_loop);
    trace.push("returned");
    event_loop.call_soon(stopper(event_loop));
    run(event_loop);
}

fn is_running_only_inside(event_loop: &VirtualLoop, trace: &Trace) {
    trace.push(format!("before:{}", event_loop.is_running()));
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        log.push(format!("inside:{}", handle.is_running()));
        handle.stop();
    });
    run(event_loop);
    trace.push(format!("after:{}", event_loop.is_running()));
}
