//! `close`: when it is refused, and what a closed loop refuses.

use std::time::Duration;

use crate::common::{Trace, attempt, pair};
use crate::registry::VirtualLoop;

scenarios! {
    area: "shutdown",
    calls: [closing_rules, closed_loop_refuses_work],
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
