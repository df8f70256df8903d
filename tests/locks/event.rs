//! `Event`.

use miniloop::{Event, EventLoop};

use super::{at_once, begun, done_of, waiting};
use crate::support::{settle, tick};

// brief: XT-8
#[test]
fn set_wakes_all_who_wait_and_those_who_come_do_not_wait() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let waiters = [(); 3].map(|()| waiting(&event_loop, event.wait()));
    assert_eq!(done_of(&event_loop, &waiters), [false; 3]);
    event.set();
    assert!(event.is_set());
    tick(&event_loop);
    assert!(waiters.iter().all(|waiter| waiter.done()), "in the next tick");
    at_once(event.wait()).unwrap();
}

// brief: XT-8
#[test]
fn set_and_clear_at_once_wake_those_who_wait_now() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let early = waiting(&event_loop, event.wait());
    event.set();
    event.clear();
    let late = waiting(&event_loop, event.wait());
    settle(&event_loop);
    assert!(early.done() && !late.done() && !event.is_set());
}

#[test]
fn a_cancelled_waiter_leaves_and_the_others_are_woken() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let waiters = [(); 3].map(|()| waiting(&event_loop, event.wait()));
    waiters[0].cancel();
    event.set();
    waiters[1].cancel();
    assert_eq!(done_of(&event_loop, &waiters), [true; 3]);
    let cancelled = waiters.map(|waiter| waiter.cancelled());
    assert_eq!(cancelled, [true, true, false]);
    assert_eq!(format!("{event:?}"), "Event { set: true, waiters: 0 }");
}

// brief: XT-8
#[test]
fn a_dropped_waiter_leaves_nothing_behind() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    let before = begun(&event_loop, event.wait());
    let after = begun(&event_loop, event.wait());
    drop(before);
    event.set();
    drop(after);
    assert_eq!(format!("{event:?}"), "Event { set: true, waiters: 0 }");
}

#[test]
fn setting_what_is_set_wakes_nobody_twice() {
    let event_loop = EventLoop::new().unwrap();
    let event = Event::new();
    event.set();
    event.set();
    event.clear();
    event.clear();
    let waiter = waiting(&event_loop, event.wait());
    event.set();
    settle(&event_loop);
    assert!(waiter.done());
}
