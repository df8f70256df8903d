//! The trace itself, the virtual loop, and what leaves marks in one from the other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use miniloop::{EventLoop, Exception, FakeClock, LoopHandle, Result, sleep};

use super::words::{Boom, error_kind, word};

/// What happened, line by line. Clones share one list; threads may write to it too.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    /// An empty trace.
    pub fn new() -> Trace {
        Trace::default()
    }

    /// Adds a line.
    pub fn push(&self, line: impl Into<String>) {
        self.0.lock().expect("the trace").push(line.into());
    }

    /// A callback that adds this line each time it is called.
    pub fn mark(&self, line: &'static str) -> impl Fn() + Send + 'static + use<> {
        let trace = self.clone();
        move || trace.push(line)
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().expect("the trace").clone()
    }
}

/// Where the clock of [`virtual_loop`] starts: not at 0, so that moments and
/// spans can not be mixed up unnoticed.
pub const START: Duration = Duration::from_secs(100);

/// A loop that jumps to its next timer where it would wait, and its clock.
pub fn virtual_loop() -> (EventLoop, FakeClock) {
    let clock = FakeClock::auto().starting_at(START);
    let event_loop = EventLoop::with_clock(clock.clone()).expect("an event loop");
    (event_loop, clock)
}

/// The time a virtual loop has been through, in seconds.
pub fn elapsed(event_loop: &LoopHandle) -> String {
    (event_loop.time() - START).as_secs_f64().to_string()
}

/// A callback that stops the loop.
pub fn stopper(event_loop: &LoopHandle) -> impl Fn() + 'static + use<> {
    let event_loop = event_loop.clone();
    move || event_loop.stop()
}

/// Runs the loop until its clock is this many seconds further.
pub fn run_for(event_loop: &EventLoop, seconds: u64) {
    event_loop.call_later(Duration::from_secs(seconds), stopper(event_loop));
    event_loop.run_forever().expect("the loop runs");
}

/// Leaves `tick1` to `tickN` in the trace, one in each of the next ticks.
pub fn ticks(event_loop: &LoopHandle, trace: &Trace, count: u32) {
    ticks_named(event_loop, trace, count, "tick");
}

/// [`ticks`] with another word than `tick`.
pub fn ticks_named(event_loop: &LoopHandle, trace: &Trace, count: u32, name: &'static str) {
    tick_from(event_loop, trace, 1, count, name);
}

fn tick_from(event_loop: &LoopHandle, trace: &Trace, number: u32, last: u32, name: &'static str) {
    let (again, trace) = (event_loop.clone(), trace.clone());
    event_loop.call_soon(move || {
        trace.push(format!("{name}{number}"));
        if number < last {
            tick_from(&again, &trace, number + 1, last, name);
        }
    });
}

/// Lets the loop run this many ticks.
pub async fn yields(count: u32) -> Result<()> {
    for _ in 0..count {
        sleep(Duration::ZERO).await?;
    }
    Ok(())
}

/// Raises `Boom(name)` in a callback, which has no result to return it in.
pub fn raise(name: &'static str) -> ! {
    std::panic::panic_any(Exception::from(Boom(name)))
}

/// Installs an exception handler that writes what it is told to the trace.
pub fn watch(event_loop: &LoopHandle, trace: &Trace) {
    let trace = trace.clone();
    event_loop.set_exception_handler(move |_, context| {
        let kind = error_kind(&context.message);
        trace.push(match &context.exception {
            Some(exception) => format!("handler:{kind}:{}", word(exception)),
            None => format!("handler:{kind}"),
        });
    });
}
