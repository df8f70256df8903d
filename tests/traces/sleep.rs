//! `sleep`: the bare yield, and the tick from the timer to the sleeper.

use std::time::Duration;

use miniloop::{Result, ReturnWhen, get_running_loop, sleep, wait};

use crate::common::{Trace, elapsed, ticks, ticks_named, yields};

scenarios! {
    area: "sleep",
    calls: [],
    mains: [
        sleepers_wake_by_duration,
        zero_sleep_is_one_tick,
        sleep_wakes_one_tick_after_its_timer,
        equal_sleeps_wake_in_start_order,
    ],
}

async fn sleepers_wake_by_duration(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let tasks = [3, 1, 2].map(|seconds| {
        let (handle, log) = (event_loop.clone(), trace.clone());
        event_loop.create_task(async move {
            sleep(Duration::from_secs(seconds)).await?;
            log.push(format!("{seconds}@{}", elapsed(&handle)));
            Ok(())
        })
    });
    wait(tasks, None, ReturnWhen::AllCompleted).await?;
    Ok(())
}

async fn zero_sleep_is_one_tick(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    ticks(&event_loop, &trace, 3);
    sleep(Duration::ZERO).await?;
    trace.push("after-zero");
    // What a caller gets who computes a time that has passed already.
    let negative = Duration::from_secs(5).saturating_sub(Duration::from_secs(10));
    sleep(negative).await?;
    trace.push("after-negative");
    sleep(Duration::ZERO).await?;
    trace.push(format!("elapsed:{}", elapsed(&event_loop)));
    Ok(())
}

async fn sleep_wakes_one_tick_after_its_timer(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.create_task(async move {
        sleep(Duration::from_secs(5)).await?;
        log.push("woke");
        Ok(())
    });
    yields(1).await?;
    let handle = event_loop.clone();
    event_loop.call_later(Duration::from_secs(5), move || {
        trace.push("timer");
        ticks(&handle, &trace, 2);
    });
    task.await?;
    yields(1).await
}

async fn equal_sleeps_wake_in_start_order(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let naps = [("early", "early-tick"), ("late", "late-tick")].map(|(name, tick)| {
        let (handle, log) = (event_loop.clone(), trace.clone());
        event_loop.create_task(async move {
            sleep(Duration::from_secs(2)).await?;
            log.push(name);
            ticks_named(&handle, &log, 1, tick);
            Ok(())
        })
    });
    for nap in naps {
        nap.await?;
    }
    yields(1).await
}
