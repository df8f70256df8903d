//! `gather`: several awaitables at once, and their results together.

use std::time::Duration;

use miniloop::{Result, create_task, gather, gather_results, get_running_loop, sleep};

use crate::common::{Boom, Show, Trace, elapsed, outcome, state, ticks, yields};

scenarios! {
    area: "gather",
    calls: [],
    mains: [
        gather_keeps_argument_order,
        gather_fails_at_the_first_error,
        gather_can_collect_errors,
        gather_of_nothing,
        cancelling_gather_cancels_children,
        cancelled_child_fails_gather,
        last_child_to_gather_awaiter,
    ],
}

async fn nap(seconds: u64) -> Result<()> {
    sleep(Duration::from_secs(seconds)).await
}

async fn gather_keeps_argument_order(trace: Trace) -> Result<()> {
    let works = [("a", 3), ("b", 1), ("c", 2)].map(|(name, seconds)| {
        let log = trace.clone();
        async move {
            nap(seconds).await?;
            log.push(format!("done:{name}"));
            Ok(name)
        }
    });
    trace.push(gather(works).await?.show());
    Ok(())
}

async fn gather_fails_at_the_first_error(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let bad = async {
        nap(1).await?;
        Err::<(), _>(Boom("first").into())
    };
    let (handle, log) = (event_loop.clone(), trace.clone());
    let good = async move {
        nap(3).await?;
        log.push(format!("good-ends@{}", elapsed(&handle)));
        Ok(())
    };
    let gathered = async {
        gather((good, bad)).await?;
        Ok(())
    };
    trace.push(format!("{}@{}", outcome(gathered).await, elapsed(&event_loop)));
    nap(5).await
}

async fn gather_can_collect_errors(trace: Trace) -> Result<()> {
    let works = [(1, Some("after1")), (2, None), (3, Some("after3"))].map(|(seconds, fail)| async move {
        nap(seconds).await?;
        match fail {
            Some(name) => Err(Boom(name).into()),
            None => Ok(seconds),
        }
    });
    trace.push(gather_results(works).await?.show());
    trace.push(elapsed(&get_running_loop()?));
    Ok(())
}

async fn gather_of_nothing(trace: Trace) -> Result<()> {
    ticks(&get_running_loop()?, &trace, 1);
    let nothing = Vec::<miniloop::Future<i32>>::new();
    let gathered = gather(nothing);
    trace.push(format!("at-once:{}", state(&gathered)));
    trace.push(gathered.await?.show());
    yields(1).await
}

async fn cancelling_gather_cancels_children(trace: Trace) -> Result<()> {
    let works = ["interrupted:a", "interrupted:b"].map(|line| {
        let log = trace.clone();
        async move {
            nap(60).await.inspect_err(|error| {
                if error.is_cancelled() {
                    log.push(line);
                }
            })
        }
    });
    let gathered = gather(works);
    yields(1).await?;
    trace.push(format!("cancel:{}", gathered.cancel()));
    trace.push(format!("at-once:{}", state(&gathered)));
    trace.push(outcome(gathered.clone()).await);
    trace.push(format!("again:{}", gathered.cancel()));
    Ok(())
}

async fn cancelled_child_fails_gather(trace: Trace) -> Result<()> {
    let [a, b] = ["a", "b"].map(|name| {
        let log = trace.clone();
        create_task(async move {
            nap(2).await?;
            log.push(format!("ends:{name}"));
            Ok(name)
        })
    });
    let gathered = gather([a.clone(), b.clone()]);
    yields(1).await?;
    a.cancel();
    trace.push(outcome(gathered).await);
    trace.push(format!("sibling:{}", state(&b)));
    trace.push(outcome(b).await);
    Ok(())
}

async fn last_child_to_gather_awaiter(trace: Trace) -> Result<()> {
    let (event_loop, log) = (get_running_loop()?, trace.clone());
    let child = async move {
        yields(2).await?;
        log.push("child-ends");
        ticks(&event_loop, &log, 3);
        Ok(())
    };
    gather([child]).await?;
    trace.push("gathered");
    yields(1).await
}
