//! Errors that nobody caught: the exception handler and the log.

use std::time::Duration;

use miniloop::Exception;

use crate::common::{Boom, Trace, attempt, logged, raise, run_for, state, stopper, watch, word};
use crate::registry::VirtualLoop;

scenarios! {
    area: "exceptions",
    calls: [
        failing_callback_does_not_stop_the_loop,
        default_handler_logs,
        failing_exception_handler,
        task_error_nobody_asked_for,
        task_error_that_was_read,
        failing_done_callback,
    ],
    mains: [],
}

fn failing_callback_does_not_stop_the_loop(event_loop: &VirtualLoop, trace: &Trace) {
    watch(event_loop, trace);
    let log = trace.clone();
    let bad = move || {
        log.push("bad");
        raise("callback");
    };
    event_loop.call_soon(bad.clone());
    event_loop.call_soon(trace.mark("same-tick"));
    event_loop.call_later(Duration::from_secs(1), bad);
    run_for(event_loop, 2);
    trace.push("stopped");
}

/// One tick with a callback that fails and one behind it.
fn tick_with_a_failure(event_loop: &VirtualLoop, trace: &Trace) {
    let _capture = logged(trace);
    event_loop.call_soon(|| raise("callback"));
    event_loop.call_soon(trace.mark("goes-on"));
    event_loop.call_soon(stopper(event_loop));
    event_loop.run_forever().expect("the loop runs");
}

fn default_handler_logs(event_loop: &VirtualLoop, trace: &Trace) {
    tick_with_a_failure(event_loop, trace);
}

fn failing_exception_handler(event_loop: &VirtualLoop, trace: &Trace) {
    let log = trace.clone();
    event_loop.set_exception_handler(move |_, context| {
        let exception = context.exception.as_ref().expect("what was raised");
        log.push(format!("handler:{}", word(exception)));
        raise("handler");
    });
    tick_with_a_failure(event_loop, trace);
}

fn task_error_nobody_asked_for(event_loop: &VirtualLoop, trace: &Trace) {
    watch(event_loop, trace);
    let task = event_loop.create_task(async { Err::<(), Exception>(Boom("unread").into()) });
    run_for(event_loop, 1);
    trace.push("not-yet");
    drop(task);
    trace.push("dropped");
}

fn task_error_that_was_read(event_loop: &VirtualLoop, trace: &Trace) {
    watch(event_loop, trace);
    let tasks = ["read", "cancelled", "unread"]
        .map(|name| event_loop.create_task(async move { Err::<(), Exception>(Boom(name).into()) }));
    run_for(event_loop, 1);
    trace.push(attempt(tasks[0].exception()));
    trace.push(format!("cancel:{}", tasks[1].cancel()));
    drop(tasks);
}

fn failing_done_callback(event_loop: &VirtualLoop, trace: &Trace) {
    watch(event_loop, trace);
    let future = event_loop.create_future::<()>();
    let (before, after) = (trace.mark("before"), trace.mark("after"));
    future.add_done_callback(move |_| before());
    future.add_done_callback(|_| raise("done-callback"));
    future.add_done_callback(move |_| after());
    future.set_result(()).expect("a pending future");
    run_for(event_loop, 1);
    trace.push(state(&future));
}
