//! Barriers: opening, being used again, breaking.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{Barrier, Result, create_task, get_running_loop, sleep};

use crate::common::{Trace, elapsed, outcome, yields};

scenarios! {
    area: "barrier",
    calls: [],
    mains: [barrier_opens_when_full, barrier_used_twice, barrier_aborted],
}

async fn barrier_opens_when_full(trace: Trace) -> Result<()> {
    let barrier = Barrier::new(3)?;
    let event_loop = get_running_loop()?;
    let tasks = [("a", 2), ("b", 1), ("c", 4)].map(|(name, seconds)| {
        let (barrier, event_loop, trace) = (barrier.clone(), event_loop.clone(), trace.clone());
        create_task(async move {
            sleep(Duration::from_secs(seconds)).await?;
            let waiting = barrier.n_waiting();
            trace.push(format!(
                "{name}-arrives@{} waiting:{waiting}",
                elapsed(&event_loop)
            ));
            let place = barrier.wait().await?;
            Ok(format!("{name}={place}@{}", elapsed(&event_loop)))
        })
    });
    let mut places = Vec::new();
    for task in tasks {
        places.push(task.await?);
    }
    trace.push(format!("[{}]", places.join(" ")));
    trace.push(format!("waiting:{}", barrier.n_waiting()));
    Ok(())
}

async fn barrier_used_twice(trace: Trace) -> Result<()> {
    let barrier = Barrier::new(2)?;
    let laps = Rc::new(RefCell::new(Vec::new()));
    let walkers = ["a", "b"].map(|name| {
        let (barrier, laps) = (barrier.clone(), laps.clone());
        create_task(async move {
            for lap in 0..2 {
                barrier.wait().await?;
                laps.borrow_mut().push(format!("{name}{lap}"));
            }
            Ok(())
        })
    });
    for walker in walkers {
        walker.await?;
    }
    let mut laps = laps.take();
    laps.sort();
    trace.push(format!("[{}]", laps.join(" ")));
    trace.push(format!("broken:{}", barrier.broken()));
    Ok(())
}

async fn barrier_aborted(trace: Trace) -> Result<()> {
    let barrier = Barrier::new(2)?;
    let waited_at = barrier.clone();
    let task = create_task(async move { waited_at.wait().await.map(|_| ()) });
    yields(1).await?;
    barrier.abort().await?;
    trace.push(outcome(task).await);
    trace.push(format!("broken:{}", barrier.broken()));
    trace.push(outcome(barrier.wait()).await);
    Ok(())
}
