//! `wait_for`: who wins when, and what becomes of what was waited for.

use std::time::Duration;

use miniloop::{Result, create_task, current_task, get_running_loop, sleep, wait_for};

use crate::common::{Boom, Trace, elapsed, outcome, state, ticks, yields};

scenarios! {
    area: "wait_for",
    calls: [],
    mains: [
        wait_for_in_time,
        wait_for_runs_out_of_time,
        wait_for_no_time_at_all,
        wait_for_without_limit,
        wait_for_runs_a_coroutine_in_place,
        wait_for_tie_goes_to_the_timeout,
        wait_for_result_set_in_timeout_tick,
        cancelling_the_waiter,
    ],
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn nap(seconds: u64) -> Result<()> {
    sleep(secs(seconds)).await
}

async fn wait_for_in_time(trace: Trace) -> Result<()> {
    async fn work(fail: bool) -> Result<&'static str> {
        nap(1).await?;
        if fail {
            return Err(Boom("work").into());
        }
        Ok("value")
    }

    trace.push(outcome(wait_for(work(false), secs(5))).await);
    trace.push(outcome(wait_for(work(true), secs(5))).await);
    trace.push(elapsed(&get_running_loop()?));
    Ok(())
}

async fn wait_for_runs_out_of_time(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (handle, log) = (event_loop.clone(), trace.clone());
    let task = event_loop.create_task(async move {
        let slept = nap(60).await;
        log.push(format!("cleanup@{}", elapsed(&handle)));
        nap(2).await?;
        slept
    });
    let came = outcome(wait_for(task.clone(), secs(3))).await;
    trace.push(format!("{came}@{}", elapsed(&event_loop)));
    trace.push(state(&task));
    Ok(())
}

async fn wait_for_no_time_at_all(trace: Trace) -> Result<()> {
    let started = trace.mark("started");
    let work = async move {
        started();
        Ok(())
    };
    trace.push(outcome(wait_for(work, Duration::ZERO)).await);
    let done = create_task(async { Ok("kept") });
    done.clone().await?;
    // The second one stands for asyncio's timeout of -1: there are no negative durations.
    for _ in 0..2 {
        trace.push(outcome(wait_for(done.clone(), Duration::ZERO)).await);
    }
    Ok(())
}

async fn wait_for_without_limit(trace: Trace) -> Result<()> {
    let work = async {
        nap(100_000).await?;
        Ok("at-last")
    };
    trace.push(outcome(wait_for(work, None)).await);
    trace.push(elapsed(&get_running_loop()?));
    Ok(())
}

async fn wait_for_runs_a_coroutine_in_place(trace: Trace) -> Result<()> {
    let (caller, log) = (current_task(), trace.clone());
    let work = async move {
        log.push(format!("same-task:{}", current_task() == caller));
        yields(1).await?;
        Ok("value")
    };
    ticks(&get_running_loop()?, &trace, 2);
    trace.push(outcome(wait_for(work, secs(5))).await);
    yields(1).await
}

async fn wait_for_tie_goes_to_the_timeout(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let work = async move {
        let slept = nap(5).await;
        log.push(if slept.is_ok() { "slept" } else { "interrupted" });
        slept
    };
    trace.push(outcome(wait_for(work, secs(5))).await);
    Ok(())
}

async fn wait_for_result_set_in_timeout_tick(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future();
    let (completed, set) = (future.clone(), trace.mark("set"));
    event_loop.call_later(secs(5), move || {
        completed.set_result("just-in-time").expect("pending until now");
        set();
    });
    trace.push(outcome(wait_for(future.clone(), secs(5))).await);
    trace.push(format!("future:{}", state(&future)));
    Ok(())
}

async fn cancelling_the_waiter(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let inner = create_task(async move {
        nap(60).await.inspect_err(|exception| {
            if exception.is_cancelled() {
                log.push("work-interrupted");
            }
        })
    });
    let outer = create_task(wait_for(inner.clone(), secs(10)));
    nap(1).await?;
    outer.cancel();
    trace.push(outcome(outer).await);
    trace.push(format!("{}@{}", state(&inner), elapsed(&get_running_loop()?)));
    Ok(())
}
