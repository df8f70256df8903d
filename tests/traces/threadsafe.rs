//! Other threads: waking a loop that is blocked.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use miniloop::{FakeClock, Result, get_running_loop};

use crate::common::{Trace, elapsed, stopper};
use crate::registry::VirtualLoop;

scenarios! {
    area: "threadsafe",
    calls: [thread_wakes_a_blocked_loop, thread_beats_a_far_timer],
    mains: [thread_completes_a_future],
}

/// Starts the thread from a callback, so that the loop runs before it calls in;
/// then runs the loop until it stops, and joins the thread.
fn run_with_thread(event_loop: &VirtualLoop, worker: impl FnOnce() + Send + 'static) {
    let started = Rc::new(OnceCell::<JoinHandle<()>>::new());
    let slot = started.clone();
    event_loop.call_soon(move || {
        slot.set(thread::spawn(worker)).expect("an empty slot");
    });
    event_loop.run_forever().expect("the loop runs");
    let worker = Rc::into_inner(started).and_then(OnceCell::into_inner);
    let ended = worker.expect("the thread was started").join();
    assert!(ended.is_ok(), "the thread panicked");
}

fn thread_wakes_a_blocked_loop(event_loop: &VirtualLoop, trace: &Trace) {
    let (calls, mark) = (event_loop.threadsafe_handle(), trace.mark("from-thread"));
    run_with_thread(event_loop, move || {
        calls.call_soon_threadsafe(mark).expect("an open loop");
        let stop = || get_running_loop().expect("the loop runs").stop();
        calls.call_soon_threadsafe(stop).expect("an open loop");
    });
    trace.push("stopped");
}

fn thread_beats_a_far_timer(event_loop: &VirtualLoop, trace: &Trace) {
    thread_local! {
        // A clock can not cross threads: the callback finds it where it runs.
        static CLOCK: RefCell<Option<FakeClock>> = const { RefCell::new(None) };
    }

    let (calls, log) = (event_loop.threadsafe_handle(), trace.clone());
    let called = move || {
        let event_loop = get_running_loop().expect("the loop runs");
        log.push(format!("called@{}", elapsed(&event_loop)));
        CLOCK.take().expect("the clock of this thread").release();
    };
    event_loop.clock.hold();
    CLOCK.set(Some(event_loop.clock.clone()));
    event_loop.call_later(Duration::from_secs(3600), stopper(event_loop));
    run_with_thread(event_loop, move || {
        calls.call_soon_threadsafe(called).expect("an open loop");
    });
    trace.push(format!("stopped@{}", elapsed(event_loop)));
}

async fn thread_completes_a_future(trace: Trace) -> Result<()> {
    let (future, completer) = get_running_loop()?.create_threadsafe_future();
    let worker = thread::spawn(move || completer.set_result("by-thread"));
    trace.push(future.await?);
    worker.join().expect("the thread did not panic")?;
    Ok(())
}
