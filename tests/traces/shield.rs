//! `shield`: awaiting what is not to be cancelled.

use std::time::Duration;

use miniloop::{Result, create_task, get_running_loop, shield, sleep};

use crate::common::{Boom, Trace, elapsed, outcome, state, ticks, yields};

scenarios! {
    area: "shield",
    calls: [],
    mains: [
        shield_keeps_the_inner_task_alive,
        shield_passes_result_and_error,
        shield_and_inner_cancel,
        shield_costs_one_more_tick,
        shield_of_a_finished_future,
    ],
}

async fn shield_keeps_the_inner_task_alive(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (handle, log) = (event_loop.clone(), trace.clone());
    let inner = event_loop.create_task(async move {
        sleep(Duration::from_secs(5)).await?;
        log.push(format!("work-ends@{}", elapsed(&handle)));
        Ok("done")
    });
    let shielded = inner.clone();
    let outer = event_loop.create_task(async move {
        shield(shielded).await?;
        Ok(())
    });
    sleep(Duration::from_secs(1)).await?;
    outer.cancel();
    trace.push(format!("{}@{}", outcome(outer).await, elapsed(&event_loop)));
    trace.push(format!("inner:{} requests:{}", state(&inner), inner.cancelling()));
    trace.push(outcome(inner).await);
    Ok(())
}

async fn shield_passes_result_and_error(trace: Trace) -> Result<()> {
    let work = async |fail: bool| {
        yields(1).await?;
        match fail {
            true => Err(Boom("inner").into()),
            false => Ok("fine"),
        }
    };
    trace.push(outcome(shield(work(false))).await);
    trace.push(outcome(shield(work(true))).await);
    Ok(())
}

async fn shield_and_inner_cancel(trace: Trace) -> Result<()> {
    let inner = create_task(async { sleep(Duration::from_secs(60)).await });
    let cover = shield(inner.clone());
    yields(1).await?;
    inner.cancel();
    trace.push(format!("at-once:{}", state(&cover)));
    trace.push(outcome(cover).await);
    Ok(())
}

async fn shield_costs_one_more_tick(trace: Trace) -> Result<()> {
    let (event_loop, log) = (get_running_loop()?, trace.clone());
    let inner = create_task(async move {
        yields(1).await?;
        log.push("work-ends");
        ticks(&event_loop, &log, 3);
        Ok(())
    });
    shield(inner).await?;
    trace.push("awaiter");
    yields(1).await
}

async fn shield_of_a_finished_future(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future();
    future.set_result("old")?;
    let cover = shield(future);
    ticks(&event_loop, &trace, 1);
    trace.push(format!("at-once:{}", state(&cover)));
    trace.push(outcome(cover).await);
    yields(1).await
}
