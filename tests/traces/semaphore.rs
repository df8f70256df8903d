//! Semaphores: who gets a permit next, and that none is lost.

use std::time::Duration;

use miniloop::{BoundedSemaphore, Result, Semaphore, create_task, get_running_loop, sleep};

use crate::common::{Trace, attempt, elapsed, outcome, yields};

scenarios! {
    area: "semaphore",
    calls: [],
    mains: [
        semaphore_limits_users,
        semaphore_cannot_be_snatched,
        cancelled_semaphore_waiter_loses_no_permit,
        bounded_semaphore_overflow,
    ],
}

async fn semaphore_limits_users(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let semaphore = Semaphore::new(2);
    let users = [("a", 3), ("b", 1), ("c", 1), ("d", 4)].map(|(name, seconds)| {
        let (semaphore, event_loop, trace) = (semaphore.clone(), event_loop.clone(), trace.clone());
        create_task(async move {
            let _permit = semaphore.acquire().await?;
            trace.push(format!("{name}-in@{}", elapsed(&event_loop)));
            sleep(Duration::from_secs(seconds)).await
        })
    });
    for user in users {
        user.await?;
    }
    Ok(())
}

async fn semaphore_cannot_be_snatched(trace: Trace) -> Result<()> {
    async fn user(semaphore: Semaphore, trace: Trace, name: &str) -> Result<()> {
        semaphore.acquire().await?.forget();
        trace.push(format!("{name}-in"));
        semaphore.release();
        Ok(())
    }
    let semaphore = Semaphore::new(1);
    semaphore.acquire().await?.forget();
    let waiter = create_task(user(semaphore.clone(), trace.clone(), "waiter"));
    yields(1).await?;
    semaphore.release();
    trace.push(format!("locked:{}", semaphore.locked()));
    user(semaphore, trace, "releaser").await?;
    waiter.await
}

async fn cancelled_semaphore_waiter_loses_no_permit(trace: Trace) -> Result<()> {
    let semaphore = Semaphore::new(0);
    let [a, b] = ["a", "b"].map(|name| {
        let (semaphore, trace) = (semaphore.clone(), trace.clone());
        create_task(async move {
            semaphore.acquire().await?.forget();
            trace.push(format!("{name}-in"));
            Ok(())
        })
    });
    yields(1).await?;
    semaphore.release();
    a.cancel();
    trace.push(outcome(a).await);
    trace.push(outcome(b).await);
    trace.push(format!("locked:{}", semaphore.locked()));
    Ok(())
}

async fn bounded_semaphore_overflow(trace: Trace) -> Result<()> {
    let bounded = BoundedSemaphore::new(1);
    bounded.acquire().await?.forget();
    trace.push(attempt(bounded.release()));
    trace.push(attempt(bounded.release()));
    let plain = Semaphore::new(1);
    plain.release();
    trace.push("none");
    plain.acquire().await?.forget();
    trace.push(format!("locked:{}", plain.locked()));
    plain.acquire().await?.forget();
    trace.push(format!("locked:{}", plain.locked()));
    Ok(())
}
