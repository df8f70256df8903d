//! Running one coroutine under the virtual clock, with a check that it left nothing behind.

#![allow(dead_code, reason = "every test target uses a part")]

use std::future::Future;
use std::time::Duration;

use miniloop::{AnyTask, EventLoop, LoopHandle, Result, current_task, get_running_loop, sleep};

use crate::common::{Trace, virtual_loop, word};
use crate::support::{Reports, nothing_is_left, still_works};

/// Plays a main task on a fresh virtual loop. It has to leave no timer and no report.
#[track_caller]
pub fn play<F>(main: impl FnOnce(Trace) -> F) -> Vec<String>
where
    F: Future<Output = Result<()>> + 'static,
{
    let (event_loop, _clock) = virtual_loop();
    play_on(&event_loop, main)
}

/// [`play`] on a loop that the test has made.
#[track_caller]
pub fn play_on<F>(event_loop: &EventLoop, main: impl FnOnce(Trace) -> F) -> Vec<String>
where
    F: Future<Output = Result<()>> + 'static,
{
    let (trace, reports) = (Trace::new(), Reports::of(event_loop));
    let ended = event_loop.run_until_complete(main(trace.clone()));
    let lines = trace.lines();
    assert!(ended.is_ok(), "an error escaped: {ended:?}, after {lines:?}");
    let now = event_loop.time();
    nothing_is_left(event_loop);
    assert_eq!(event_loop.time(), now, "a timer was left, after {lines:?}");
    still_works(event_loop);
    let reported = reports.take();
    assert!(reported.is_empty(), "reported: {reported:?}, after {lines:?}");
    lines
}

/// This many seconds.
pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Sleeps for this many seconds.
pub async fn nap(seconds: u64) -> Result<()> {
    sleep(secs(seconds)).await
}

/// Sleeps, and leaves `NAME:slept@T` or `NAME:ERROR@T` in the trace; an error is passed on.
pub async fn noted_nap(trace: &Trace, name: &str, seconds: u64) -> Result<()> {
    let slept = nap(seconds).await;
    let how = slept.as_ref().map_or_else(word, |()| "slept".into());
    trace.push(format!("{name}:{how}@{}", now()));
    slept
}

/// The seconds that the running loop has been through.
pub fn now() -> String {
    crate::common::elapsed(&this_loop())
}

/// The running loop.
pub fn this_loop() -> LoopHandle {
    get_running_loop().expect("a loop is running")
}

/// The running task.
pub fn this_task() -> AnyTask {
    current_task().expect("a task is being stepped")
}

/// The running task's open cancellation requests.
pub fn requests() -> u32 {
    this_task().cancelling()
}
