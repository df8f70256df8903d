//! Cancellation: when it arrives, what a coroutine may do about it, how it is counted.

use std::time::Duration;

use miniloop::{AnyTask, Result, current_task, get_running_loop, sleep};

use crate::common::{Trace, elapsed, outcome, state, ticks, yields};

scenarios! {
    area: "cancellation",
    calls: [],
    mains: [
        cancel_before_first_step,
        cancel_reaches_a_sleeper_in_one_tick,
        swallowed_cancel,
        cleanup_may_await,
        second_cancel_interrupts_cleanup,
        two_cancels_before_the_step,
        counting_cancel_requests,
        cancel_passes_to_the_awaited_task,
        cancel_a_finished_task,
        cancelling_oneself,
        cancel_after_the_result_was_set,
        uncancel_withdraws_undelivered_cancel,
    ],
}

async fn nap(seconds: u64) -> Result<()> {
    sleep(Duration::from_secs(seconds)).await
}

/// What an `except CancelledError` that leaves a line and raises again does to an await.
fn noted<T>(trace: &Trace, line: &str, awaited: Result<T>) -> Result<T> {
    awaited.inspect_err(|exception| {
        if exception.is_cancelled() {
            trace.push(line);
        }
    })
}

/// The task that asks.
fn myself() -> AnyTask {
    current_task().expect("asked in a task")
}

async fn cancel_before_first_step(trace: Trace) -> Result<()> {
    let body = trace.mark("body");
    let task = get_running_loop()?.create_task(async move {
        body();
        Ok(())
    });
    trace.push(format!("cancel:{}", task.cancel()));
    trace.push(format!("at-once:{}", state(&task)));
    trace.push(outcome(task.clone()).await);
    trace.push(format!("end:{}", state(&task)));
    Ok(())
}

async fn cancel_reaches_a_sleeper_in_one_tick(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.create_task(async move { noted(&log, "interrupted", nap(60).await) });
    yields(1).await?;
    let called = trace.mark("done-callback");
    task.add_done_callback(move |_| called());

    let (cancelled, log) = (task.clone(), trace.clone());
    event_loop.call_soon(move || {
        log.push(format!("cancel:{}", cancelled.cancel()));
        log.push(state(&cancelled));
    });
    ticks(&event_loop, &trace, 3);
    yields(4).await?;
    trace.push(format!("{}@{}", state(&task), elapsed(&event_loop)));
    Ok(())
}

async fn swallowed_cancel(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let task = get_running_loop()?.create_task(async move {
        let _ = noted(&log, "swallowed", nap(60).await);
        nap(1).await?;
        Ok("finished")
    });
    yields(1).await?;
    task.cancel();
    trace.push(outcome(task.clone()).await);
    trace.push(format!("cancelled:{}", task.cancelled()));
    trace.push(format!("requests:{}", task.cancelling()));
    Ok(())
}

async fn cleanup_may_await(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.create_task(async move {
        let slept = nap(60).await;
        log.push("cleanup-starts");
        nap(3).await?;
        log.push("cleanup-ends");
        slept
    });
    yields(1).await?;
    task.cancel();
    yields(2).await?;
    trace.push(state(&task));
    trace.push(outcome(task).await);
    trace.push(elapsed(&event_loop));
    Ok(())
}

async fn second_cancel_interrupts_cleanup(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.create_task(async move {
        let slept = nap(60).await;
        noted(&log, "cleanup-interrupted", nap(3).await)?;
        log.push("cleanup-ends");
        slept
    });
    yields(1).await?;
    task.cancel();
    nap(1).await?;
    trace.push(format!("second:{}", task.cancel()));
    trace.push(outcome(task.clone()).await);
    trace.push(format!("requests:{}", task.cancelling()));
    trace.push(elapsed(&event_loop));
    Ok(())
}

async fn two_cancels_before_the_step(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let task = get_running_loop()?.create_task(async move {
        for i in 0..2 {
            match nap(2).await {
                Ok(()) => log.push(format!("slept{i}")),
                Err(_) => log.push(format!("interrupted{i}")),
            }
        }
        Ok("end")
    });
    yields(1).await?;
    trace.push(task.cancel().to_string());
    trace.push(task.cancel().to_string());
    trace.push(outcome(task.clone()).await);
    trace.push(format!("requests:{}", task.cancelling()));
    Ok(())
}

async fn counting_cancel_requests(trace: Trace) -> Result<()> {
    let body = async move {
        let me = myself();
        trace.push(format!("start:{}", me.cancelling()));
        me.cancel();
        if yields(1).await.is_err_and(|exception| exception.is_cancelled()) {
            trace.push(format!("caught:{}", me.cancelling()));
        }
        trace.push(format!("uncancel:{}", me.uncancel()));
        trace.push(format!("uncancel:{}", me.uncancel()));
        trace.push(format!("end:{}", me.cancelling()));
        Ok(())
    };
    get_running_loop()?.create_task(body).await
}

async fn cancel_passes_to_the_awaited_task(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let low = event_loop.create_task(async move { noted(&log, "inner-interrupted", nap(60).await) });
    let (inner, log) = (low.clone(), trace.clone());
    let high = event_loop.create_task(async move { noted(&log, "outer-interrupted", inner.await) });
    yields(2).await?;
    high.cancel();
    trace.push(format!("requests:{},{}", low.cancelling(), high.cancelling()));
    // asyncio's `wait` for one task: its outcome does not matter.
    let _ = high.clone().await;
    trace.push(format!("{},{}", state(&low), state(&high)));
    Ok(())
}

async fn cancel_a_finished_task(trace: Trace) -> Result<()> {
    let task = get_running_loop()?.create_task(async { Ok(3) });
    task.clone().await?;
    trace.push(format!("cancel:{}", task.cancel()));
    trace.push(format!("requests:{}", task.cancelling()));
    trace.push(state(&task));
    Ok(())
}

async fn cancelling_oneself(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.create_task(async move {
        myself().cancel();
        log.push("still-running");
        noted(&log, "interrupted", nap(60).await)
    });
    trace.push(outcome(task).await);
    trace.push(elapsed(&event_loop));
    Ok(())
}

async fn cancel_after_the_result_was_set(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future::<&str>();
    let (awaited, log) = (future.clone(), trace.clone());
    let task = event_loop.create_task(async move {
        let value = noted(&log, "interrupted", awaited.await)?;
        log.push(format!("got:{value}"));
        Ok(())
    });
    yields(1).await?;
    future.set_result("x")?;
    trace.push(format!("cancel:{}", task.cancel()));
    trace.push(outcome(task).await);
    trace.push(format!("future:{}", state(&future)));
    Ok(())
}

async fn uncancel_withdraws_undelivered_cancel(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let task = get_running_loop()?.create_task(async move {
        let me = myself();
        me.cancel();
        log.push(format!("left:{}", me.uncancel()));
        log.push(outcome(nap(1)).await);
        Ok("end")
    });
    trace.push(outcome(task).await);
    Ok(())
}
