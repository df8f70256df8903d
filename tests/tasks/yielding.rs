//! `yield_now`: a yield that is no future of the loop, and behaves as `sleep(0)` does.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use miniloop::{CancelScope, Result, create_task, current_task, get_running_loop, sleep, timeout, yield_now};

use crate::common::{Trace, outcome, ticks, virtual_loop};

/// What a task leaves in the trace that yields by `yielding`, beside others, and cancels at times.
fn trace_of<F>(yielding: fn() -> F) -> Vec<String>
where
    F: Future<Output = Result<()>> + 'static,
{
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let main = async move {
        let event_loop = get_running_loop()?;
        ticks(&event_loop, &log, 6);
        for round in 0..2 {
            yielding().await?;
            log.push(format!("round{round}"));
        }
        // Cancelled while it is suspended at the yield, and before.
        let task = create_task(async move { yielding().await });
        yielding().await?;
        log.push(format!("cancel:{}", task.cancel()));
        log.push(outcome(task.clone()).await);
        let itself = create_task(async move {
            current_task().expect("inside a task").cancel();
            yielding().await
        });
        log.push(outcome(itself).await);
        // In scopes and timeouts, and swallowed.
        let scope = CancelScope::new();
        let stop = scope.clone();
        event_loop.call_soon(move || {
            stop.cancel();
        });
        let ended = scope.run(async {
            loop {
                yielding().await?;
            }
        });
        log.push(format!("{:?}", ended.await.map(|ended: Option<()>| ended)));
        let limited = timeout(Duration::ZERO).run(async {
            log.push(outcome(yielding()).await);
            log.push(outcome(yielding()).await);
            Ok(())
        });
        log.push(outcome(limited).await);
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
    trace.lines()
}

#[test]
fn it_takes_the_ticks_and_the_cancellations_of_a_sleep_of_zero() {
    assert_eq!(trace_of(yield_now), trace_of(|| sleep(Duration::ZERO)));
}

#[test]
fn everything_that_is_ready_gets_its_turn() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let main = async move {
        let event_loop = get_running_loop()?;
        event_loop.call_soon(log.mark("ready"));
        yield_now().await?;
        log.push("after");
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
    assert_eq!(trace.lines(), ["ready", "after"]);
}

#[test]
fn it_works_inside_other_combinators() {
    let (event_loop, _) = virtual_loop();
    let main = async {
        let mut all: FuturesUnordered<_> = (0..3)
            .map(|number| async move { yield_now().await.map(|()| number) })
            .collect();
        let mut sum = 0;
        while let Some(number) = all.next().await {
            sum += number?;
        }
        Ok(sum)
    };
    assert_eq!(event_loop.run_until_complete(main).unwrap(), 3);
}
