//! `wait`: until some or all are done.

use std::time::Duration;

use miniloop::{Result, ReturnWhen, Task, create_task, get_running_loop, sleep, wait};

use crate::common::{Boom, Show, Trace, elapsed, state, ticks, yields};

scenarios! {
    area: "wait",
    calls: [],
    mains: [
        wait_for_all,
        wait_for_the_first,
        wait_for_the_first_error,
        wait_with_timeout_cancels_nothing,
        wait_for_something_already_done,
    ],
}

/// A task that sleeps and then ends as its name says.
fn work(name: &'static str, seconds: u64) -> Task<&'static str> {
    let task = create_task(async move {
        sleep(Duration::from_secs(seconds)).await?;
        match name {
            "bad" => Err(Boom(name).into()),
            _ => Ok(name),
        }
    });
    task.set_name(name);
    task
}

/// Their names, sorted.
fn names<T: 'static>(tasks: &[Task<T>]) -> String {
    let mut names: Vec<_> = tasks.iter().map(|task| task.get_name()).collect();
    names.sort_unstable();
    names.show()
}

async fn wait_for_all(trace: Trace) -> Result<()> {
    let tasks = [work("good", 1), work("bad", 2)];
    let (done, pending) = wait(tasks, None, ReturnWhen::AllCompleted).await?;
    let mut states: Vec<_> = done
        .iter()
        .map(|task| format!("{}={}", task.get_name(), state(task)))
        .collect();
    states.sort_unstable();
    trace.push(states.show());
    trace.push(format!("pending:{}", pending.len()));
    Ok(())
}

async fn wait_for_the_first(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let tasks = [work("a", 2), work("b", 9), work("c", 2)];
    let (done, pending) = wait(tasks, None, ReturnWhen::FirstCompleted).await?;
    trace.push(format!("done:{}@{}", names(&done), elapsed(&event_loop)));
    trace.push(format!("pending:{}", names(&pending)));
    Ok(())
}

async fn wait_for_the_first_error(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let tasks = [work("quick", 1), work("gone", 9), work("bad", 4), work("slow", 9)];
    let gone = tasks[1].clone();
    event_loop.call_later(Duration::from_secs(2), move || {
        gone.cancel();
    });
    let (done, pending) = wait(tasks, None, ReturnWhen::FirstException).await?;
    trace.push(format!("done:{}@{}", names(&done), elapsed(&event_loop)));
    trace.push(format!("pending:{}", names(&pending)));
    Ok(())
}

async fn wait_with_timeout_cancels_nothing(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let tasks = [("quick", 1), ("slow", 5)].map(|(name, seconds)| {
        let (handle, log) = (event_loop.clone(), trace.clone());
        let coroutine = async move {
            sleep(Duration::from_secs(seconds)).await?;
            log.push(format!("ends:{name}@{}", elapsed(&handle)));
            Ok(())
        };
        event_loop.task_builder().name(name).create_task(coroutine)
    });
    let slow = tasks[1].clone();
    let (done, pending) = wait(tasks, Duration::from_secs(3), ReturnWhen::AllCompleted).await?;
    trace.push(format!("done:{}@{}", names(&done), elapsed(&event_loop)));
    trace.push(format!("pending:{}", names(&pending)));
    slow.clone().await?;
    trace.push(state(&slow));
    Ok(())
}

async fn wait_for_something_already_done(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let future = event_loop.create_future();
    future.set_result(1)?;
    ticks(&event_loop, &trace, 3);
    let (done, pending) = wait([future], None, ReturnWhen::AllCompleted).await?;
    trace.push(format!("done:{} pending:{}", done.len(), pending.len()));
    yields(1).await
}
