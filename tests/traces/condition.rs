//! Conditions: who is notified, and who has the lock meanwhile.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{Condition, Result, create_task, sleep};

use crate::common::{Trace, attempt, outcome, state, yields};

scenarios! {
    area: "condition",
    calls: [],
    mains: [
        condition_needs_its_lock,
        notify_counts,
        notified_waiters_take_the_lock_in_turn,
        condition_wait_for_a_predicate,
        cancelled_condition_waiter_retakes_the_lock,
    ],
}

async fn condition_needs_its_lock(trace: Trace) -> Result<()> {
    let condition = Condition::new();
    trace.push(outcome(condition.wait()).await);
    trace.push(attempt(condition.notify(1)));
    trace.push(attempt(condition.notify_all()));
    let _held = condition.acquire().await?;
    trace.push(attempt(condition.notify(1)));
    trace.push(format!("locked:{}", condition.locked()));
    Ok(())
}

async fn notify_counts(trace: Trace) -> Result<()> {
    let condition = Condition::new();
    let tasks = ["a", "b", "c", "d"].map(|name| {
        let (condition, trace) = (condition.clone(), trace.clone());
        create_task(async move {
            let _held = condition.acquire().await?;
            condition.wait().await?;
            trace.push(name);
            Ok(())
        })
    });
    yields(1).await?;
    {
        let _held = condition.acquire().await?;
        condition.notify(2)?;
        trace.push("notified-2");
    }
    yields(5).await?;
    {
        let _held = condition.acquire().await?;
        condition.notify(1)?;
        trace.push("notified-1");
    }
    yields(5).await?;
    let states = tasks.map(|task| state(&task));
    trace.push(format!("[{}]", states.join(" ")));
    Ok(())
}

async fn notified_waiters_take_the_lock_in_turn(trace: Trace) -> Result<()> {
    let condition = Condition::new();
    let tasks = ["a", "b"].map(|name| {
        let (condition, trace) = (condition.clone(), trace.clone());
        create_task(async move {
            let _held = condition.acquire().await?;
            condition.wait().await?;
            trace.push(format!("{name}-in"));
            sleep(Duration::from_secs(1)).await?;
            trace.push(format!("{name}-out"));
            Ok(())
        })
    });
    yields(1).await?;
    {
        let _held = condition.acquire().await?;
        condition.notify_all()?;
        sleep(Duration::from_secs(1)).await?;
        trace.push("notifier-out");
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn condition_wait_for_a_predicate(trace: Trace) -> Result<()> {
    let condition = Condition::new();
    let stock = Rc::new(Cell::new(0));
    let (changed, left, log) = (condition.clone(), stock.clone(), trace.clone());
    let task = create_task(async move {
        let _held = changed.acquire().await?;
        let enough = || {
            log.push(format!("checks:{}", left.get()));
            left.get() >= 2
        };
        changed.wait_for(enough).await?;
        log.push("enough");
        Ok(())
    });
    yields(1).await?;
    for _ in 0..2 {
        {
            let _held = condition.acquire().await?;
            stock.set(stock.get() + 1);
            condition.notify(1)?;
        }
        yields(3).await?;
    }
    task.await
}

async fn cancelled_condition_waiter_retakes_the_lock(trace: Trace) -> Result<()> {
    let condition = Condition::new();
    let (waited_for, log) = (condition.clone(), trace.clone());
    let task = create_task(async move {
        let _held = waited_for.acquire().await?;
        let waited = waited_for.wait().await;
        log.push(format!("leaving locked:{}", waited_for.locked()));
        waited
    });
    yields(1).await?;
    condition.acquire().await?.forget();
    task.cancel();
    yields(3).await?;
    trace.push(format!("while-locked:{}", state(&task)));
    condition.release()?;
    trace.push(outcome(task).await);
    trace.push(format!("locked:{}", condition.locked()));
    Ok(())
}
