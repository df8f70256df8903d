//! `Task`: when it starts, steps and ends.

use std::time::Duration;

use miniloop::{Exception, Result, all_tasks, current_task, get_running_loop, sleep};

use crate::common::{Boom, Trace, attempt, outcome, ticks, yields};

scenarios! {
    area: "tasks",
    calls: [],
    mains: [
        task_starts_in_the_next_tick,
        finished_task_to_awaiter,
        awaiting_a_coroutine_is_a_plain_call,
        task_error_reaches_the_awaiter,
        current_task_is_the_one_stepping,
        all_tasks_lists_the_unfinished,
        tasks_take_turns,
    ],
}

async fn task_starts_in_the_next_tick(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    event_loop.call_soon(trace.mark("before"));
    let body = trace.mark("body");
    let task = event_loop.create_task(async move {
        body();
        Ok(())
    });
    event_loop.call_soon(trace.mark("after"));
    trace.push("created");
    task.await?;
    trace.push("joined");
    Ok(())
}

async fn finished_task_to_awaiter(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (handle, log) = (event_loop.clone(), trace.clone());
    let child = event_loop.create_task(async move {
        log.push("child-starts");
        yields(1).await?;
        ticks(&handle, &log, 3);
        log.push("child-ends");
        Ok("r")
    });
    trace.push(format!("parent-got:{}", child.await?));
    Ok(())
}

async fn awaiting_a_coroutine_is_a_plain_call(trace: Trace) -> Result<()> {
    async fn inner(trace: &Trace) -> Result<&'static str> {
        trace.push("inner");
        Ok("value")
    }

    async fn middle(trace: &Trace) -> Result<&'static str> {
        trace.push("middle");
        inner(trace).await
    }

    ticks(&get_running_loop()?, &trace, 2);
    trace.push(format!("got:{}", middle(&trace).await?));
    yields(1).await?;
    trace.push("yielded-once");
    yields(1).await?;
    trace.push("yielded-twice");
    Ok(())
}

async fn task_error_reaches_the_awaiter(trace: Trace) -> Result<()> {
    let task = get_running_loop()?.create_task(async {
        yields(1).await?;
        Err::<(), Exception>(Boom("bad").into())
    });
    trace.push(outcome(task.clone()).await);
    trace.push(outcome(task.clone()).await);
    trace.push(format!("stored:{}", attempt(task.exception())));
    trace.push(format!("cancelled:{}", task.cancelled()));
    Ok(())
}

async fn current_task_is_the_one_stepping(trace: Trace) -> Result<()> {
    fn name() -> String {
        current_task().map_or_else(|| "none".into(), |task| task.get_name())
    }

    async fn nested(trace: &Trace) {
        trace.push(format!("nested:{}", name()));
    }

    let event_loop = get_running_loop()?;
    let log = trace.clone();
    let task = event_loop.task_builder().name("worker").create_task(async move {
        log.push(format!("body:{}", name()));
        nested(&log).await;
        yields(1).await?;
        log.push(format!("later:{}", name()));
        Ok(())
    });
    event_loop.call_soon(move || trace.push(format!("callback:{}", name())));
    task.await
}

async fn all_tasks_lists_the_unfinished(trace: Trace) -> Result<()> {
    fn names() -> String {
        let mut names: Vec<String> = all_tasks().iter().map(|task| task.get_name()).collect();
        names.sort_unstable();
        format!("[{}]", names.join(" "))
    }

    let event_loop = get_running_loop()?;
    current_task().expect("the main task").set_name("main");
    let done = event_loop
        .task_builder()
        .name("quick")
        .create_task(async { Ok(()) });
    let slow = async { sleep(Duration::from_secs(5)).await };
    let other = event_loop.task_builder().name("slow").create_task(slow);
    trace.push(names());
    done.await?;
    trace.push(names());
    other.await?;
    trace.push(names());
    Ok(())
}

async fn tasks_take_turns(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let tasks = [("a", 3), ("b", 1), ("c", 2)].map(|(name, rounds)| {
        let log = trace.clone();
        event_loop.create_task(async move {
            for i in 0..rounds {
                log.push(format!("{name}{i}"));
                yields(1).await?;
            }
            Ok(())
        })
    });
    for task in tasks {
        task.await?;
    }
    Ok(())
}
