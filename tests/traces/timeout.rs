//! `timeout`: when it expires, what comes out, nesting, moving it.

use std::time::Duration;

use miniloop::{Exception, Result, current_task, get_running_loop, sleep, timeout};

use crate::common::{Boom, Trace, attempt, elapsed, outcome, word};

scenarios! {
    area: "timeout",
    calls: [],
    mains: [
        timeout_not_needed,
        timeout_expires,
        nested_inner_expires,
        nested_outer_expires,
        timeout_rescheduled,
        timeout_swallowed_by_the_block,
        timeout_misused,
        error_in_block_passes_through,
    ],
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn nap(seconds: u64) -> Result<()> {
    sleep(secs(seconds)).await
}

fn requests() -> u32 {
    current_task().expect("in a task").cancelling()
}

async fn timeout_not_needed(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let limit = timeout(secs(5));
    limit.run(nap(1)).await?;
    trace.push(format!("expired:{}", limit.expired()));
    nap(10).await?;
    trace.push(format!("undisturbed@{}", elapsed(&event_loop)));
    Ok(())
}

async fn timeout_expires(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let limit = timeout(secs(2));
    let body = async {
        nap(60).await.inspect_err(|exception| {
            trace.push(format!("inside:{} expired:{}", word(exception), limit.expired()));
        })
    };
    if let Err(exception) = limit.run(body).await {
        trace.push(format!("outside:{}@{}", word(&exception), elapsed(&event_loop)));
    }
    trace.push(format!("requests:{}", requests()));
    nap(1).await?;
    trace.push("went-on");
    Ok(())
}

async fn nested_inner_expires(trace: Trace) -> Result<()> {
    let (outer, inner) = (timeout(secs(10)), timeout(secs(1)));
    let body = async {
        if let Err(exception) = inner.run(nap(60)).await {
            trace.push(format!("inner-{}", word(&exception)));
        }
        nap(2).await?;
        trace.push("outer-body-ends");
        Ok(())
    };
    outer.run(body).await?;
    trace.push(format!("expired:{},{}", inner.expired(), outer.expired()));
    Ok(())
}

async fn nested_outer_expires(trace: Trace) -> Result<()> {
    let (outer, inner) = (timeout(secs(1)), timeout(secs(10)));
    let body = async {
        inner.run(nap(60)).await.inspect_err(|exception| {
            trace.push(format!("inner:{}", word(exception)));
        })
    };
    if let Err(exception) = outer.run(body).await {
        trace.push(format!("outer:{}", word(&exception)));
    }
    trace.push(format!("expired:{},{}", inner.expired(), outer.expired()));
    Ok(())
}

async fn timeout_rescheduled(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let limit = timeout(secs(2));
    let body = async {
        limit.reschedule(event_loop.time() + secs(10))?;
        nap(5).await?;
        trace.push("moved-later");
        limit.reschedule(None)?;
        let when = limit.when().map(|when| when.as_secs());
        trace.push(format!("when:{}", attempt(Ok::<_, Exception>(when))));
        nap(50).await?;
        trace.push("switched-off");
        limit.reschedule(event_loop.time() + secs(1))?;
        trace.push(outcome(nap(60)).await);
        trace.push(elapsed(&event_loop));
        Ok(())
    };
    limit.run(body).await?;
    trace.push(format!("expired:{}", limit.expired()));
    Ok(())
}

async fn timeout_swallowed_by_the_block(trace: Trace) -> Result<()> {
    let limit = timeout(secs(1));
    let body = async {
        trace.push(outcome(nap(60)).await);
        trace.push("carried-on");
        Ok(())
    };
    limit.run(body).await?;
    trace.push(format!("expired:{}", limit.expired()));
    trace.push(format!("requests:{}", requests()));
    Ok(())
}

async fn timeout_misused(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let limit = timeout(secs(5));
    trace.push(format!("early:{}", attempt(limit.reschedule(event_loop.time()))));
    limit.run(async { Ok(()) }).await?;
    trace.push(format!("late:{}", attempt(limit.reschedule(event_loop.time()))));
    let again = limit.run(async {
        trace.push("entered-again");
        Ok(())
    });
    if let Err(exception) = again.await {
        trace.push(format!("again:{}", word(&exception)));
    }
    Ok(())
}

async fn error_in_block_passes_through(trace: Trace) -> Result<()> {
    let limit = timeout(secs(5));
    let body = async {
        nap(1).await?;
        Err::<(), _>(Boom("own").into())
    };
    trace.push(outcome(limit.run(body)).await);
    trace.push(format!("expired:{}", limit.expired()));
    Ok(())
}
