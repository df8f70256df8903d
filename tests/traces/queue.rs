//! Queues: order, waiting for room and for items, joining, shutting down.

use std::future::Future as StdFuture;

use miniloop::{BaseQueue, LifoQueue, Order, PriorityQueue, Queue, Result, create_task, get_running_loop};

use crate::common::{Trace, attempt, outcome, state, ticks, yields};

scenarios! {
    area: "queue",
    calls: [],
    mains: [
        queue_first_in_first_out,
        bounded_queue_blocks_putters,
        getters_are_served_in_order,
        nowait_refusals,
        join_waits_for_task_done,
        other_queue_orders,
        cancelled_getter_passes_its_item_on,
        queue_shut_down_gently,
        queue_shut_down_now,
    ],
}

/// A consumer of one item.
fn consumer<T>(
    name: &'static str,
    queue: &Queue<T>,
    trace: &Trace,
) -> impl StdFuture<Output = Result<()>> + use<T>
where
    T: std::fmt::Display,
{
    let (queue, trace) = (queue.clone(), trace.clone());
    async move {
        trace.push(format!("{name}:{}", queue.get().await?));
        Ok(())
    }
}

async fn queue_first_in_first_out(trace: Trace) -> Result<()> {
    let queue = Queue::new(0);
    ticks(&get_running_loop()?, &trace, 1);
    for item in ["x", "y", "z"] {
        queue.put(item).await?;
    }
    trace.push(format!("size:{}", queue.qsize()));
    for _ in 0..3 {
        trace.push(queue.get().await?);
    }
    trace.push(format!("empty:{}", queue.empty()));
    yields(1).await
}

async fn bounded_queue_blocks_putters(trace: Trace) -> Result<()> {
    let queue = Queue::new(1);
    let tasks = ["a", "b", "c"].map(|name| {
        let (queue, trace) = (queue.clone(), trace.clone());
        create_task(async move {
            queue.put(name).await?;
            trace.push(format!("put:{name}"));
            Ok(())
        })
    });
    yields(2).await?;
    trace.push(format!("full:{}", queue.full()));
    for _ in 0..3 {
        trace.push(format!("got:{}", queue.get().await?));
        yields(2).await?;
    }
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn getters_are_served_in_order(trace: Trace) -> Result<()> {
    let queue = Queue::new(0);
    let tasks = ["a", "b", "c"].map(|name| create_task(consumer(name, &queue, &trace)));
    yields(1).await?;
    queue.put_nowait(1)?;
    queue.put_nowait(2)?;
    trace.push(format!("size:{}", queue.qsize()));
    yields(2).await?;
    queue.put_nowait(3)?;
    for task in tasks {
        task.await?;
    }
    Ok(())
}

async fn nowait_refusals(trace: Trace) -> Result<()> {
    let queue = Queue::new(1);
    trace.push(attempt(queue.get_nowait()));
    trace.push(attempt(queue.put_nowait("a")));
    trace.push(attempt(queue.put_nowait("b")));
    trace.push(attempt(queue.get_nowait()));
    trace.push(attempt(queue.get_nowait()));
    Ok(())
}

async fn join_waits_for_task_done(trace: Trace) -> Result<()> {
    let queue = Queue::new(0);
    for item in [1, 2] {
        queue.put_nowait(item)?;
    }
    let (joined, log) = (queue.clone(), trace.clone());
    let task = create_task(async move {
        joined.join().await?;
        log.push("joined");
        Ok(())
    });
    yields(1).await?;
    for _ in 0..2 {
        trace.push(format!("got:{}", queue.get_nowait()?));
    }
    yields(2).await?;
    trace.push(state(&task));
    queue.task_done()?;
    yields(2).await?;
    trace.push(state(&task));
    queue.task_done()?;
    task.await?;
    trace.push(attempt(queue.task_done()));
    Ok(())
}

async fn other_queue_orders(trace: Trace) -> Result<()> {
    async fn fill_and_empty<O: Order<u32>>(queue: BaseQueue<u32, O>, trace: &Trace) -> Result<()> {
        for item in [3, 1, 2] {
            queue.put_nowait(item)?;
        }
        let mut got = Vec::new();
        for _ in 0..3 {
            got.push(queue.get().await?.to_string());
        }
        trace.push(format!("[{}]", got.join(" ")));
        Ok(())
    }

    fill_and_empty(LifoQueue::new(0), &trace).await?;
    fill_and_empty(PriorityQueue::new(0), &trace).await
}

async fn cancelled_getter_passes_its_item_on(trace: Trace) -> Result<()> {
    let queue = Queue::new(0);
    let [a, b] = ["a", "b"].map(|name| create_task(consumer(name, &queue, &trace)));
    yields(1).await?;
    queue.put_nowait("item")?;
    a.cancel();
    trace.push(outcome(a).await);
    trace.push(outcome(b).await);
    trace.push(format!("size:{}", queue.qsize()));
    Ok(())
}

async fn queue_shut_down_gently(trace: Trace) -> Result<()> {
    let queue = Queue::new(1);
    queue.put_nowait("last")?;
    let producer = queue.clone();
    let blocked = create_task(producer.put("more"));
    yields(1).await?;
    queue.shutdown(false);
    trace.push(format!("putter:{}", outcome(blocked).await));
    trace.push(attempt(queue.put_nowait("x")));
    trace.push(outcome(queue.get()).await);
    trace.push(outcome(queue.get()).await);
    trace.push(attempt(queue.get_nowait()));
    Ok(())
}

async fn queue_shut_down_now(trace: Trace) -> Result<()> {
    let queue = Queue::new(0);
    queue.put_nowait(1)?;
    queue.put_nowait(2)?;
    let (joined, log) = (queue.clone(), trace.clone());
    let task = create_task(async move {
        joined.join().await?;
        log.push("joined");
        Ok(())
    });
    yields(1).await?;
    queue.shutdown(true);
    task.await?;
    trace.push(format!("size:{}", queue.qsize()));
    trace.push(outcome(queue.get()).await);
    trace.push(outcome(queue.put(3)).await);
    Ok(())
}
