//! Callbacks: order, ticks, stopping, fairness; and what faults in them do.

mod common;
mod support;

#[path = "callbacks/closed.rs"]
mod closed;
#[path = "callbacks/dropped.rs"]
mod dropped;
#[path = "callbacks/handlers.rs"]
mod handlers;
#[path = "callbacks/panics.rs"]
mod panics;
#[path = "callbacks/reentry.rs"]
mod reentry;
#[path = "callbacks/running.rs"]
mod running;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, FakeClock, LoopHandle};

use common::{Trace, pair, send};
use support::tick;

// brief: CB-1
#[test]
fn a_callback_runs_in_the_next_tick_and_not_before() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_soon(events.mark("hello"));
    assert!(events.lines().is_empty());
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["hello"]);
}

// brief: CB-2
#[test]
fn callbacks_run_in_the_order_in_which_they_were_scheduled() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_soon(events.mark("first"));
    event_loop.call_soon(events.mark("second"));
    event_loop.call_soon(events.mark("third"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["first", "second", "third"]);
}

// brief: CB-3
#[test]
fn a_callback_scheduled_by_a_callback_runs_in_the_next_tick() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_soon({
        let (handle, events) = (event_loop.handle(), events.clone());
        move || {
            events.push("parent");
            handle.call_soon(events.mark("child"));
        }
    });
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["parent"]);
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["parent", "child"]);
}

// brief: CB-4
#[test]
fn a_boxed_callback_is_accepted_as_it_is() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let callbacks: Vec<Box<dyn FnOnce()>> =
        vec![Box::new(events.mark("boxed")), Box::new(events.mark("boxed too"))];
    for callback in callbacks {
        event_loop.call_soon(callback);
    }
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["boxed", "boxed too"]);
}

// brief: CB-5
#[test]
fn run_forever_runs_until_stop() {
    let event_loop = EventLoop::new().unwrap();
    let count = Rc::new(Cell::new(0));
    count_to_then_stop(event_loop.handle(), Rc::clone(&count), 100);
    event_loop.run_forever().unwrap();
    assert_eq!(count.get(), 100);
}

fn count_to_then_stop(handle: LoopHandle, count: Rc<Cell<u32>>, last: u32) {
    handle.clone().call_soon(move || {
        count.set(count.get() + 1);
        if count.get() == last {
            handle.stop();
        } else {
            count_to_then_stop(handle, count, last);
        }
    });
}

// brief: CB-5
#[test]
fn stop_lets_the_current_tick_finish_and_keeps_the_next_for_later() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_soon({
        let (handle, events) = (event_loop.handle(), events.clone());
        move || {
            handle.stop();
            handle.call_soon(events.mark("next tick"));
        }
    });
    event_loop.call_soon(events.mark("same tick"));
    event_loop.run_forever().unwrap();
    assert_eq!(events.lines(), ["same tick"]);
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["same tick", "next tick"]);
}

#[test]
fn a_stop_before_run_forever_leaves_it_one_tick() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.stop();
    event_loop.call_soon({
        let (handle, events) = (event_loop.handle(), events.clone());
        move || {
            events.push("first tick");
            handle.call_soon(events.mark("second tick"));
        }
    });
    event_loop.run_forever().unwrap();
    assert_eq!(events.lines(), ["first tick"]);
}

/// A callback that always schedules itself again, up to a limit that a fair loop
/// never reaches: the limit stops the loop, so that an unfair one fails and does not hang.
fn chain(handle: LoopHandle, length: Rc<Cell<u32>>, each: Rc<dyn Fn()>) {
    handle.clone().call_soon(move || {
        each();
        length.set(length.get() + 1);
        if length.get() < CHAIN_LIMIT {
            chain(handle, length, each);
        } else {
            handle.stop();
        }
    });
}

const CHAIN_LIMIT: u32 = 100_000;

// brief: CB-6
#[test]
fn a_chain_of_callbacks_does_not_starve_a_timer() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let length = Rc::new(Cell::new(0));
    let each = Rc::new(move || clock.advance(Duration::from_millis(1)));
    chain(event_loop.handle(), Rc::clone(&length), each);
    event_loop.call_later(Duration::from_millis(50), {
        let handle = event_loop.handle();
        move || handle.stop()
    });
    event_loop.run_forever().unwrap();
    // every link of the chain takes a millisecond: the timer runs within the tick of its deadline
    assert!((50..=51).contains(&length.get()), "{}", length.get());
}

// brief: CB-6
#[test]
fn two_chains_of_callbacks_do_not_starve_a_reader() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let length = Rc::new(Cell::new(0));
    for _ in 0..2 {
        chain(event_loop.handle(), Rc::clone(&length), Rc::new(|| ()));
    }
    let stop = event_loop.handle();
    event_loop.add_reader(&left, move || stop.stop()).unwrap();
    send(&right, b"x");
    event_loop.run_forever().unwrap();
    // a poll may be left out for some tens of ticks while callbacks are ready, no more
    assert!(length.get() < 1_000, "{}", length.get());
}

// brief: CB-7
#[test]
fn the_companions_first_program_prints_a_b_a2() {
    let event_loop = EventLoop::new().unwrap();
    let out = Trace::new();
    let a_cb = {
        let (handle, out) = (event_loop.handle(), out.clone());
        move || {
            out.push("a");
            handle.call_soon(out.mark("a2"));
        }
    };
    let b_cb = out.mark("b");
    event_loop.call_soon(a_cb);
    event_loop.call_soon(b_cb);
    while out.lines().len() < 3 {
        event_loop.run_once().unwrap();
    }
    assert_eq!(out.lines(), ["a", "b", "a2"]);
}

// brief: CB-8
#[test]
fn a_callback_that_blocks_stalls_everything_else() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    let mark = |what: &'static str| {
        let (handle, events) = (event_loop.handle(), events.clone());
        move || events.push(format!("{what} at {}", handle.time().as_secs()))
    };
    event_loop.call_later(Duration::from_secs(1), mark("timer of 1"));
    event_loop.add_reader(&left, mark("reader")).unwrap();
    event_loop.call_soon({
        let clock = clock.clone();
        move || {
            // what a blocking call does to the loop: the time passes inside the callback
            send(&right, b"x");
            clock.advance(Duration::from_secs(10));
        }
    });
    event_loop.call_soon(mark("callback queued at 0"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["callback queued at 0 at 10"]);
    event_loop.run_once().unwrap();
    let mut late = events.lines();
    late.sort();
    assert_eq!(
        late,
        ["callback queued at 0 at 10", "reader at 10", "timer of 1 at 10"]
    );
}

#[test]
fn a_cancelled_callback_does_not_run() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let handle = event_loop.call_soon(events.mark("cancelled"));
    event_loop.call_soon(events.mark("bystander"));
    assert!(!handle.cancelled());
    handle.cancel();
    assert!(handle.cancelled());
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["bystander"]);
}

#[test]
fn a_callback_can_cancel_one_that_waits_behind_it_in_the_same_tick() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let victim: Rc<Cell<Option<miniloop::Handle>>> = Rc::default();
    event_loop.call_soon({
        let victim = Rc::clone(&victim);
        move || victim.take().unwrap().cancel()
    });
    victim.set(Some(event_loop.call_soon(events.mark("victim"))));
    event_loop.call_soon(events.mark("bystander"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["bystander"]);
}

#[test]
fn cancelling_a_callback_that_ran_touches_no_other() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let first = event_loop.call_soon(events.mark("first"));
    event_loop.run_once().unwrap();
    event_loop.call_soon(events.mark("second"));
    first.cancel();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["first", "second"]);
}

#[test]
fn the_loop_says_whether_it_runs() {
    let event_loop = EventLoop::new().unwrap();
    let seen = Rc::new(Cell::new(None));
    event_loop.call_soon({
        let (handle, seen) = (event_loop.handle(), Rc::clone(&seen));
        move || seen.set(Some((handle.is_running(), handle.is_closed())))
    });
    assert!(!event_loop.is_running());
    tick(&event_loop);
    assert_eq!(seen.get(), Some((true, false)));
    assert!(!event_loop.is_running());
}
