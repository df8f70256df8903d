//! Events: who is woken by set().

use miniloop::{Event, Result, create_task, get_running_loop};

use crate::common::{Trace, state, ticks, yields};

scenarios! {
    area: "event",
    calls: [],
    mains: [event_wakes_everyone, waiting_on_a_set_event, event_set_and_cleared_at_once],
}

async fn event_wakes_everyone(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let event = Event::new();
    let tasks = ["a", "b", "c"].map(|name| {
        let (event, trace) = (event.clone(), trace.clone());
        create_task(async move {
            event.wait().await?;
            trace.push(format!("{name}:true"));
            Ok(())
        })
    });
    yields(1).await?;
    event.set();
    ticks(&event_loop, &trace, 2);
    trace.push(format!("set:{}", event.is_set()));
    for task in tasks {
        task.await?;
    }
    yields(1).await
}

async fn waiting_on_a_set_event(trace: Trace) -> Result<()> {
    let event = Event::new();
    event.set();
    ticks(&get_running_loop()?, &trace, 1);
    event.wait().await?;
    trace.push("true");
    event.clear();
    trace.push(format!("set:{}", event.is_set()));
    yields(1).await
}

async fn event_set_and_cleared_at_once(trace: Trace) -> Result<()> {
    let event = Event::new();
    let waiter = |name: &'static str| {
        let (event, trace) = (event.clone(), trace.clone());
        create_task(async move {
            event.wait().await?;
            trace.push(format!("{name} set:{}", event.is_set()));
            Ok(())
        })
    };
    let early = waiter("early");
    yields(1).await?;
    event.set();
    event.clear();
    let late = waiter("late");
    yields(3).await?;
    trace.push(format!("early:{} late:{}", state(&early), state(&late)));
    Ok(())
}
