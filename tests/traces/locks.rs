//! Locks: who gets it next, and what a cancellation does to the queue.

use std::time::Duration;

use miniloop::{Lock, Result, Task, create_task, get_running_loop, sleep};

use crate::common::{Trace, attempt, outcome, state, ticks, yields};

scenarios! {
    area: "locks",
    calls: [],
    mains: [
        free_lock_does_not_yield,
        lock_serves_in_order,
        released_lock_cannot_be_snatched,
        releasing_a_free_lock,
        cancelled_lock_waiter_is_skipped,
        waiter_cancelled_after_its_turn_came,
    ],
}

fn user(lock: &Lock, trace: &Trace, name: &'static str) -> Task<()> {
    let (lock, trace) = (lock.clone(), trace.clone());
    create_task(async move {
        let _held = lock.acquire().await?;
        trace.push(format!("{name}-in"));
        Ok(())
    })
}

async fn free_lock_does_not_yield(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    ticks(&get_running_loop()?, &trace, 1);
    for i in 0..2 {
        let _held = lock.acquire().await?;
        trace.push(format!("held{i}:{}", lock.locked()));
    }
    trace.push(format!("locked:{}", lock.locked()));
    yields(1).await
}

async fn lock_serves_in_order(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    let slow_user = |name: &'static str| {
        let (lock, trace) = (lock.clone(), trace.clone());
        create_task(async move {
            let _held = lock.acquire().await?;
            trace.push(format!("{name}-in"));
            sleep(Duration::from_secs(1)).await?;
            trace.push(format!("{name}-out"));
            Ok(())
        })
    };
    for task in ["a", "b", "c"].map(slow_user) {
        task.await?;
    }
    Ok(())
}

async fn released_lock_cannot_be_snatched(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    lock.acquire().await?.forget();
    let first = user(&lock, &trace, "waiter");
    yields(1).await?;
    lock.release()?;
    trace.push(format!("locked:{}", lock.locked()));
    {
        let _held = lock.acquire().await?;
        trace.push("releaser-in");
    }
    first.await
}

async fn releasing_a_free_lock(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    trace.push(attempt(lock.release()));
    lock.acquire().await?.forget();
    trace.push(attempt(lock.release()));
    trace.push(attempt(lock.release()));
    Ok(())
}

async fn cancelled_lock_waiter_is_skipped(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    lock.acquire().await?.forget();
    let [a, b] = ["a", "b"].map(|name| user(&lock, &trace, name));
    yields(1).await?;
    a.cancel();
    yields(2).await?;
    trace.push(format!("a:{} b:{}", state(&a), state(&b)));
    lock.release()?;
    b.await?;
    trace.push(format!("locked:{}", lock.locked()));
    Ok(())
}

async fn waiter_cancelled_after_its_turn_came(trace: Trace) -> Result<()> {
    let lock = Lock::new();
    lock.acquire().await?.forget();
    let [a, b] = ["a", "b"].map(|name| user(&lock, &trace, name));
    yields(1).await?;
    lock.release()?;
    a.cancel();
    trace.push(outcome(a).await);
    trace.push(outcome(b).await);
    trace.push(format!("locked:{}", lock.locked()));
    Ok(())
}
