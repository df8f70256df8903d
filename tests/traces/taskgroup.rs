//! `TaskGroup`: what it waits for, what an error or a cancellation does to it, what it refuses.

use std::time::Duration;

use miniloop::{Result, TaskGroup, create_task, current_task, get_running_loop, sleep};

use crate::common::{Boom, Trace, attempt, elapsed, outcome, state, ticks, word, yields};

scenarios! {
    area: "taskgroup",
    calls: [],
    mains: [
        group_waits_for_its_tasks,
        group_without_tasks,
        group_error_cancels_siblings_and_body,
        group_collects_errors_of_one_tick,
        group_body_error,
        group_cancelled_from_outside,
        group_grows_while_running,
        group_refuses_new_tasks,
        group_fails_and_is_cancelled,
    ],
}

async fn nap(seconds: u64) -> Result<()> {
    sleep(Duration::from_secs(seconds)).await
}

fn requests() -> u32 {
    current_task().expect("in a task").cancelling()
}

async fn fail_after(seconds: u64, name: &'static str) -> Result<()> {
    nap(seconds).await?;
    Err(Boom(name).into())
}

async fn group_waits_for_its_tasks(trace: Trace) -> Result<()> {
    async fn work(trace: Trace, name: &'static str, seconds: u64) -> Result<&'static str> {
        nap(seconds).await?;
        trace.push(format!("{name}@{}", elapsed(&get_running_loop()?)));
        Ok(name)
    }

    let group = TaskGroup::new();
    let body = async {
        let a = group.create_task(work(trace.clone(), "a", 3))?;
        let b = group.create_task(work(trace.clone(), "b", 1))?;
        trace.push("body-ends");
        Ok((a, b))
    };
    let (a, b) = group.run(body).await?;
    trace.push(format!("{} {}", state(&a), state(&b)));
    Ok(())
}

async fn group_without_tasks(trace: Trace) -> Result<()> {
    ticks(&get_running_loop()?, &trace, 1);
    let body = async {
        trace.push("body");
        Ok(())
    };
    TaskGroup::new().run(body).await?;
    trace.push("left");
    yields(1).await
}

async fn group_error_cancels_siblings_and_body(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let sibling = async move {
        let slept = nap(60).await;
        log.push("sibling-cleanup");
        nap(2).await?;
        log.push("sibling-ends");
        slept
    };
    let group = TaskGroup::new();
    let body = async {
        group.create_task(sibling)?;
        group.create_task(fail_after(1, "bad"))?;
        let came = outcome(nap(60)).await;
        trace.push(format!("body:{came}@{}", elapsed(&event_loop)));
        Ok(())
    };
    if let Err(exception) = group.run(body).await {
        trace.push(format!("{}@{}", word(&exception), elapsed(&event_loop)));
    }
    trace.push(format!("requests:{}", requests()));
    Ok(())
}

async fn group_collects_errors_of_one_tick(trace: Trace) -> Result<()> {
    let group = TaskGroup::new();
    let body = async {
        group.create_task(fail_after(1, "one"))?;
        group.create_task(fail_after(1, "two"))?;
        Ok(())
    };
    trace.push(outcome(group.run(body)).await);
    Ok(())
}

async fn group_body_error(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let work = async move {
        nap(60).await.inspect_err(|exception| {
            if exception.is_cancelled() {
                log.push("work-interrupted");
            }
        })
    };
    let (group, mut task) = (TaskGroup::new(), None);
    let body = async {
        task = Some(group.create_task(work)?);
        yields(1).await?;
        Err::<(), _>(Boom("body").into())
    };
    trace.push(outcome(group.run(body)).await);
    trace.push(state(&task.expect("the body ran")));
    Ok(())
}

async fn group_cancelled_from_outside(trace: Trace) -> Result<()> {
    let log = trace.clone();
    let work = async move {
        let slept = nap(60).await;
        log.push("work-interrupted");
        nap(1).await?;
        slept
    };
    let task = create_task(async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(work)?;
            Ok(())
        };
        group.run(body).await
    });
    yields(3).await?;
    task.cancel();
    trace.push(outcome(task).await);
    trace.push(elapsed(&get_running_loop()?));
    Ok(())
}

async fn group_grows_while_running(trace: Trace) -> Result<()> {
    async fn work(group: TaskGroup, trace: Trace, level: u32) -> Result<()> {
        nap(1).await?;
        trace.push(format!("level{level}"));
        if level < 3 {
            group.create_task(Box::pin(work(group.clone(), trace, level + 1)))?;
        }
        Ok(())
    }

    let group = TaskGroup::new();
    let body = async {
        group.create_task(work(group.clone(), trace.clone(), 1))?;
        trace.push("body-ends");
        Ok(())
    };
    group.run(body).await?;
    trace.push("left");
    Ok(())
}

async fn group_refuses_new_tasks(trace: Trace) -> Result<()> {
    let group = TaskGroup::new();
    let add = || attempt(group.create_task(async { Ok(()) }).map(|_| "accepted"));

    trace.push(format!("before:{}", add()));
    let body = async {
        group.create_task(async { Err::<(), _>(Boom("bad").into()) })?;
        let _ = outcome(nap(60)).await;
        trace.push(format!("shutting-down:{}", add()));
        Ok(())
    };
    if let Err(exception) = group.run(body).await {
        trace.push(word(&exception));
    }
    trace.push(format!("after:{}", add()));
    Ok(())
}

async fn group_fails_and_is_cancelled(trace: Trace) -> Result<()> {
    let sibling = async {
        let _ = nap(60).await;
        Err::<(), _>(Boom("cleanup").into())
    };
    let log = trace.clone();
    let task = create_task(async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(sibling)?;
            Ok(())
        };
        if let Err(exception) = group.run(body).await {
            log.push(word(&exception));
        }
        log.push(format!("requests:{}", requests()));
        yields(1).await?;
        log.push("went-on");
        Ok(())
    });
    yields(3).await?;
    task.cancel();
    trace.push(outcome(task).await);
    Ok(())
}
