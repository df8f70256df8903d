//! `close`: when it is refused, and what a closed loop refuses. `Runner`: what it does before.

use std::time::Duration;

use miniloop::{Result, Runner, create_task, sleep};

use crate::common::{Boom, Trace, attempt, elapsed, pair, virtual_loop, watch, yields};
use crate::registry::VirtualLoop;

scenarios! {
    area: "shutdown",
    calls: [
        closing_rules,
        closed_loop_refuses_work,
        runner_cancels_what_is_left,
        runner_reports_errors_of_the_cleanup,
    ],
    mains: [],
}

fn closing_rules(event_loop: &VirtualLoop, trace: &Trace) {
    let (running, log) = (event_loop.clone(), trace.clone());
    event_loop.call_soon(move || {
        log.push(format!("inside:{}", attempt(running.close())));
        running.stop();
    });
    event_loop.run_forever().expect("the loop runs");
    trace.push(format!("closed:{}", event_loop.is_closed()));
    trace.push(format!("close:{}", attempt(event_loop.close())));
    trace.push(format!("close:{}", attempt(event_loop.close())));
    trace.push(format!("closed:{}", event_loop.is_closed()));
}

fn closed_loop_refuses_work(event_loop: &VirtualLoop, trace: &Trace) {
    /// A closed loop refuses a callback by a handle that is born cancelled.
    fn scheduled(born_cancelled: bool) -> &'static str {
        if born_cancelled { "misuse" } else { "scheduled" }
    }

    let (_a, b) = pair();
    let second = Duration::from_secs(1);
    let never = || trace.mark("never");
    let handle = event_loop.call_later(second * 5, never());
    let future = event_loop.create_future::<()>();
    let threadsafe = event_loop.threadsafe_handle();
    event_loop.close().expect("a loop that is not running");

    trace.push(scheduled(event_loop.call_soon(never()).cancelled()));
    trace.push(attempt(threadsafe.call_soon_threadsafe(never())));
    trace.push(scheduled(event_loop.call_later(second, never()).cancelled()));
    trace.push(attempt(event_loop.run_forever()));
    trace.push(attempt(event_loop.run_until_complete(future)));
    trace.push(attempt(event_loop.add_reader(&b, never())));
    trace.push(format!("remove:{}", event_loop.remove_reader(&b)));
    handle.cancel();
    trace.push(format!("running:{}", event_loop.is_running()));
}

fn runner_cancels_what_is_left(_: &VirtualLoop, trace: &Trace) {
    let runner = Runner::with_loop(virtual_loop().0);
    let (event_loop, log) = (runner.get_loop(), trace.clone());
    let left_over = async move {
        let slept = sleep(Duration::from_secs(60)).await;
        log.push("cleanup");
        sleep(Duration::from_secs(2)).await?;
        log.push(format!("cleaned@{}", elapsed(&event_loop)));
        slept
    };
    let log = trace.clone();
    let main = async move {
        create_task(left_over);
        yields(1).await?;
        log.push("main-ends");
        Ok("value")
    };
    trace.push(attempt(runner.run(main)));
    let event_loop = runner.get_loop();
    runner.close().expect("a clean-up");
    trace.push(format!("closed:{}", event_loop.is_closed()));
}

fn runner_reports_errors_of_the_cleanup(_: &VirtualLoop, trace: &Trace) {
    let runner = Runner::with_loop(virtual_loop().0);
    let event_loop = runner.get_loop();
    watch(&event_loop, trace);
    let main = async {
        create_task(async {
            let _ = sleep(Duration::from_secs(60)).await;
            Err::<(), _>(Boom("cleanup").into())
        });
        yields(1).await?;
        let failed: Result<()> = Err(Boom("main").into());
        failed
    };
    trace.push(attempt(runner.run(main)));
    runner.close().expect("a clean-up");
    trace.push(format!("closed:{}", event_loop.is_closed()));
}
