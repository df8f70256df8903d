//! `Future`: done callbacks, final states, awaiting.

use std::time::Duration;

use miniloop::{Future, Result, get_running_loop};

use crate::common::{Boom, Show, Trace, attempt, run_for, state, ticks, yields};
use crate::registry::VirtualLoop;

scenarios! {
    area: "futures",
    calls: [
        done_callbacks_are_deferred,
        callback_added_after_completion,
        removed_callback_is_not_called,
        remove_after_completion_is_too_late,
        completing_twice_is_refused,
        reading_a_future_too_early,
        reading_each_final_state,
        cancelling_a_future,
        completing_a_future_inside_its_own_callback,
    ],
    mains: [awaiting_a_done_future_does_not_yield, result_to_awaiter_takes_one_tick],
}

/// A done callback that leaves a line.
fn leave<T>(trace: &Trace, line: &'static str) -> impl FnOnce(&Future<T>) + 'static + use<T> {
    let mark = trace.mark(line);
    move |_| mark()
}

/// A done callback that leaves a word and the state it finds.
fn report<T: Show + Clone + 'static>(
    trace: &Trace,
    word: &'static str,
) -> impl FnOnce(&Future<T>) + 'static + use<T> {
    let trace = trace.clone();
    move |future| trace.push(format!("{word}:{}", state(future)))
}

fn done_callbacks_are_deferred(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future::<i32>();
    for name in ["a", "b", "c"] {
        future.add_done_callback(leave(trace, name));
    }
    let log = trace.clone();
    event_loop.call_soon(move || {
        future.set_result(1).expect("a pending future");
        log.push(format!("set:{}", future.done()));
    });
    ticks(event_loop, trace, 2);
    run_for(event_loop, 1);
}

fn callback_added_after_completion(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future();
    future.set_result("x").expect("a pending future");
    let log = trace.clone();
    event_loop.call_soon(move || {
        future.add_done_callback(report(&log, "called"));
        log.push("added");
    });
    ticks(event_loop, trace, 2);
    run_for(event_loop, 1);
}

fn removed_callback_is_not_called(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future::<()>();
    // Added twice it has two keys, and counts as two.
    let first = future.add_done_callback(leave(trace, "twice"));
    future.add_done_callback(leave(trace, "once"));
    let second = future.add_done_callback(leave(trace, "twice"));
    for word in ["removed", "removed-again"] {
        let keys = [first, second].into_iter();
        let count = keys.filter(|key| future.remove_done_callback(*key)).count();
        trace.push(format!("{word}:{count}"));
    }
    future.set_result(()).expect("a pending future");
    run_for(event_loop, 1);
}

fn remove_after_completion_is_too_late(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future::<()>();
    let key = future.add_done_callback(leave(trace, "ran"));
    future.set_result(()).expect("a pending future");
    let count = usize::from(future.remove_done_callback(key));
    trace.push(format!("removed:{count}"));
    run_for(event_loop, 1);
}

fn completing_twice_is_refused(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future();
    future.set_result("kept").expect("a pending future");
    trace.push(attempt(future.set_result("other")));
    trace.push(attempt(future.set_exception(Boom("other"))));
    trace.push(format!("cancel:{}", future.cancel()));
    trace.push(state(&future));
}

fn reading_a_future_too_early(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future::<()>();
    trace.push(format!("result:{}", attempt(future.result())));
    trace.push(format!("exception:{}", attempt(future.exception())));
    trace.push(format!("done:{}", future.done()));
    trace.push(format!("cancelled:{}", future.cancelled()));
}

fn reading_each_final_state(event_loop: &VirtualLoop, trace: &Trace) {
    let [good, bad, gone] = std::array::from_fn(|_| event_loop.create_future::<i32>());
    good.set_result(5).expect("a pending future");
    bad.set_exception(Boom("bad")).expect("a pending future");
    gone.cancel();
    for future in [good, bad, gone] {
        trace.push(format!("result:{}", attempt(future.result())));
        trace.push(format!("exception:{}", attempt(future.exception())));
        trace.push(format!("cancelled:{}", future.cancelled()));
    }
}

fn cancelling_a_future(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future::<i32>();
    future.add_done_callback(report(trace, "callback"));
    trace.push(format!("first:{}", future.cancel()));
    trace.push(format!("second:{}", future.cancel()));
    trace.push(format!("set:{}", attempt(future.set_result(1))));
    trace.push(format!("done:{}", future.done()));
    run_for(event_loop, 1);
}

async fn awaiting_a_done_future_does_not_yield(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future();
    future.set_result("ready")?;
    ticks(&event_loop, &trace, 2);
    trace.push(format!("got:{}", future.clone().await?));
    trace.push(format!("again:{}", future.clone().await?));
    yields(2).await
}

async fn result_to_awaiter_takes_one_tick(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future::<&str>();
    let (awaited, log) = (future.clone(), trace.clone());
    let task = event_loop.create_task(async move {
        log.push(format!("woke:{}", awaited.await?));
        Ok(())
    });
    yields(1).await?;
    let log = trace.clone();
    event_loop.call_soon(move || {
        log.push("set");
        future.set_result("v").expect("a pending future");
    });
    ticks(&event_loop, &trace, 3);
    task.await
}

fn completing_a_future_inside_its_own_callback(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future();
    let log = trace.clone();
    future.add_done_callback(move |future: &Future<&str>| {
        log.push(format!("sees:{}", state(future)));
        log.push(format!("set:{}", attempt(future.set_result("second"))));
    });
    future.add_done_callback(report(trace, "sees"));
    event_loop.call_later(Duration::from_secs(1), move || {
        future.set_result("first").expect("a pending future");
    });
    run_for(event_loop, 2);
}
