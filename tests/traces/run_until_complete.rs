//! `run_until_complete`: its last tick, and running what was stopped.

use std::time::Duration;

use miniloop::{Result, current_task, sleep};

use crate::common::{Boom, Trace, attempt, elapsed, state, stopper, ticks, yields};
use crate::registry::VirtualLoop;

scenarios! {
    area: "run_until_complete",
    calls: [
        runs_to_a_result_or_an_error,
        running_inside_running,
        stopped_before_completion,
        done_future_still_takes_a_tick,
        last_tick_of_a_run,
        run_on_a_loop_told_to_stop,
    ],
    mains: [],
}

fn runs_to_a_result_or_an_error(event_loop: &VirtualLoop, trace: &Trace) {
    async fn work(how: &str) -> Result<&'static str> {
        sleep(Duration::from_secs(1)).await?;
        match how {
            "fail" => return Err(Boom("work").into()),
            "cancel" => assert!(current_task().expect("a task").cancel()),
            _ => {}
        }
        yields(1).await?;
        Ok("value")
    }

    for how in ["finish", "fail", "cancel"] {
        trace.push(attempt(event_loop.run_until_complete(work(how))));
    }
    trace.push(format!("running:{}", event_loop.is_running()));
    trace.push(elapsed(event_loop));
}

fn running_inside_running(event_loop: &VirtualLoop, trace: &Trace) {
    let (running, log) = (event_loop.clone(), trace.clone());
    trace.push(attempt(event_loop.run_until_complete(async move {
        log.push(attempt(running.run_until_complete(async { Ok(()) })));
        log.push(attempt(running.run_forever()));
        yields(1).await?;
        Ok("unharmed")
    })));
}

fn stopped_before_completion(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    let task = event_loop.create_task(async move {
        log.push("starts");
        sleep(Duration::from_secs(5)).await?;
        log.push(format!("ends@{}", elapsed(&handle)));
        Ok("value")
    });
    event_loop.call_later(Duration::from_secs(1), stopper(event_loop));
    trace.push(attempt(event_loop.run_until_complete(task.clone())));
    trace.push(format!("{}@{}", state(&task), elapsed(event_loop)));
    trace.push(attempt(event_loop.run_until_complete(task)));
}

fn done_future_still_takes_a_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let future = event_loop.create_future();
    future.set_result("old").expect("a pending future");
    let (handle, log) = (event_loop.handle(), trace.clone());
    event_loop.call_soon(move || {
        log.push("first");
        handle.call_soon(log.mark("next-tick"));
    });
    trace.push(attempt(event_loop.run_until_complete(future.clone())));
    trace.push("returned");
    trace.push(attempt(event_loop.run_until_complete(future)));
}

fn last_tick_of_a_run(event_loop: &VirtualLoop, trace: &Trace) {
    let (handle, log) = (event_loop.handle(), trace.clone());
    trace.push(attempt(event_loop.run_until_complete(async move {
        log.push("last-step");
        ticks(&handle, &log, 3);
        Ok(())
    })));
    trace.push("returned");
    event_loop.call_soon(stopper(event_loop));
    event_loop.run_forever().expect("the loop runs");
    trace.push("returned-again");
}

fn run_on_a_loop_told_to_stop(event_loop: &VirtualLoop, trace: &Trace) {
    let log = trace.clone();
    let task = event_loop.create_task(async move {
        log.push("first-step");
        yields(1).await?;
        log.push("second-step");
        Ok("value")
    });
    event_loop.stop();
    trace.push(attempt(event_loop.run_until_complete(task.clone())));
    trace.push(state(&task));
    trace.push(attempt(event_loop.run_until_complete(task)));
}
