//! What the loop holds is dropped in time: after a callback ran, when it is
//! cancelled, and with the loop.

use std::time::Duration;

use miniloop::EventLoop;

use crate::common::{pair, send};
use crate::support::{Drops, tick};

#[test]
fn a_callback_is_dropped_once_it_ran() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    event_loop.call_soon(move || {
        let _captured = &captured;
    });
    assert_eq!(drops.count(), 0);
    tick(&event_loop);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_cancelled_callback_is_dropped_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let handle = event_loop.call_soon(move || drop(captured));
    handle.cancel();
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_callback_runs_though_its_handle_was_dropped() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    drop(event_loop.call_soon(move || drop(captured)));
    assert_eq!(drops.count(), 0);
    tick(&event_loop);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_removed_reader_is_dropped_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let (left, _right) = pair();
    let captured = drops.counted();
    event_loop
        .add_reader(&left, move || {
            let _captured = &captured;
        })
        .unwrap();
    assert!(event_loop.remove_reader(&left));
    assert_eq!(drops.count(), 1);
}

#[test]
fn dropping_the_last_clone_of_a_source_drops_its_reader_and_writer() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let (left, right) = pair();
    for _ in 0..2 {
        let (first, second) = (drops.counted(), drops.counted());
        let reader = move || {
            let _captured = &first;
        };
        let writer = move || {
            let _captured = &second;
        };
        event_loop.add_reader(&left, reader).unwrap();
        event_loop.add_writer(&left, writer).unwrap();
    }
    assert_eq!(drops.count(), 2, "the second pair replaced the first");
    let clone = left.clone();
    drop(left);
    assert_eq!(drops.count(), 2);
    drop(clone);
    assert_eq!(drops.count(), 4);
    drop(right);
    tick(&event_loop);
}

/// Puts a counted closure in every place a loop keeps one; each also captures a
/// handle of the loop, which must not keep it alive.
fn fill(event_loop: &EventLoop, drops: &Drops) -> u32 {
    let held = || (event_loop.handle(), drops.counted());
    let captured = held();
    event_loop.call_soon(move || drop(captured));
    let captured = held();
    event_loop.call_later(Duration::from_secs(1), move || drop(captured));
    let captured = held();
    let pending = event_loop.create_future::<()>();
    event_loop.create_task(async move {
        let _captured = captured;
        pending.await
    });
    let captured = held();
    event_loop.create_task(async move {
        let _captured = captured;
        miniloop::sleep(Duration::from_secs(1)).await
    });
    let captured = held();
    event_loop
        .sleep(Duration::from_secs(1))
        .add_done_callback(move |_| drop(captured));
    let captured = held();
    event_loop
        .threadsafe_handle()
        .call_soon_threadsafe(|| {})
        .unwrap();
    event_loop.set_exception_handler(move |_, _| {
        let _captured = &captured;
    });
    6
}

#[test]
fn dropping_the_loop_drops_every_closure() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let count = fill(&event_loop, &drops);
    drop(event_loop);
    assert_eq!(drops.count(), count);
}

#[test]
fn dropping_a_loop_that_ran_drops_every_closure() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let count = fill(&event_loop, &drops);
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(drops.count(), 1, "only the callback was due");
    drop(event_loop);
    assert_eq!(drops.count(), count);
}

#[test]
fn close_drops_readers_writers_and_pending_operations() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let (left, right) = pair();
    let (near, _far) = pair();
    let (first, second, third) = (drops.counted(), drops.counted(), drops.counted());
    let kept = (event_loop.handle(), left.clone());
    let reader = move || {
        let _captured = (&first, &kept);
    };
    let writer = move || {
        let _captured = &second;
    };
    event_loop.add_reader(&left, reader).unwrap();
    event_loop.add_writer(&left, writer).unwrap();
    event_loop
        .sock_recv(&near, 10)
        .add_done_callback(move |_| drop(third));
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 3);
    // both ends are in our hands again: the loop forgot the descriptor
    assert!(left.into_inner().is_ok());
    assert!(near.into_inner().is_ok());
    send(&right, b"");
}

#[test]
fn what_a_finished_loop_leaves_behind_is_free_for_the_next() {
    let (left, right) = pair();
    let first = EventLoop::new().unwrap();
    first.add_reader(&left, || {}).unwrap();
    drop(first);
    let second = EventLoop::new().unwrap();
    send(&right, b"x");
    let received = second.run_until_complete(second.sock_recv(&left, 10));
    assert_eq!(received.unwrap(), b"x");
}
