//! Readers and writers: the callbacks behind the socket operations.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::EventLoop;

use crate::common::{Trace, pair, pair_small, recv, send};
use crate::drain;
use crate::support::{nothing_is_left, settle, tick};

// brief: SO-2
#[test]
fn one_socket_may_have_a_reader_and_a_writer_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_writer(&left, events.mark("writable")).unwrap();
    event_loop.add_reader(&left, events.mark("readable")).unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["writable"], "there is nothing to read yet");
    send(&right, b"x");
    event_loop.run_once().unwrap();
    let mut both = events.lines().split_off(1);
    both.sort();
    assert_eq!(both, ["readable", "writable"]);
}

// brief: SO-2
#[test]
fn removing_the_reader_leaves_the_writer() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("readable")).unwrap();
    event_loop.add_writer(&left, events.mark("writable")).unwrap();
    send(&right, b"x");
    assert!(event_loop.remove_reader(&left));
    assert!(!event_loop.remove_reader(&left), "it says whether there was one");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["writable"]);
}

// brief: SO-2
#[test]
fn removing_the_writer_leaves_the_reader() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("readable")).unwrap();
    event_loop.add_writer(&left, events.mark("writable")).unwrap();
    send(&right, b"x");
    assert!(event_loop.remove_writer(&left));
    assert!(!event_loop.remove_writer(&left));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["readable"]);
    assert!(event_loop.remove_reader(&left));
    nothing_is_left(&event_loop);
}

// brief: SO-3
#[test]
fn readiness_callbacks_are_scheduled_behind_what_was_ready() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("reader")).unwrap();
    event_loop.call_soon(events.mark("first"));
    event_loop.call_soon(events.mark("second"));
    send(&right, b"x");
    // the poll comes before the callbacks of the tick: run inside it, the reader would be first
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["first", "second", "reader"]);
}

// brief: SO-3
#[test]
fn a_reader_removed_after_its_readiness_was_seen_is_not_called() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("reader")).unwrap();
    send(&right, b"x");
    let handle = event_loop.handle();
    event_loop.call_soon(move || assert!(handle.remove_reader(&left)));
    event_loop.run_once().unwrap();
    settle(&event_loop);
    assert!(events.lines().is_empty());
}

// brief: SO-3
#[test]
fn of_two_ready_readers_the_first_may_remove_the_second() {
    let event_loop = EventLoop::new().unwrap();
    let ends = [pair(), pair()];
    let calls = Rc::new(Cell::new(0));
    for index in 0..2 {
        let (handle, calls) = (event_loop.handle(), Rc::clone(&calls));
        let (own, other) = (ends[index].0.clone(), ends[1 - index].0.clone());
        event_loop
            .add_reader(&ends[index].0, move || {
                calls.set(calls.get() + 1);
                handle.remove_reader(&own);
                handle.remove_reader(&other);
            })
            .unwrap();
        send(&ends[index].1, b"x");
    }
    settle(&event_loop);
    assert_eq!(calls.get(), 1, "whichever was first");
}

// brief: SO-9
#[test]
fn half_read_data_is_reported_again() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    let (source, inner) = (left.clone(), events.clone());
    event_loop
        .add_reader(&left, move || {
            inner.push(String::from_utf8(recv(&source, 1)).unwrap());
        })
        .unwrap();
    send(&right, b"abc");
    settle(&event_loop);
    assert_eq!(events.lines(), ["a", "b", "c"]);
}

// brief: SO-9
#[test]
fn unread_data_is_reported_in_every_tick() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("readable")).unwrap();
    send(&right, b"x");
    for count in 1..=3 {
        event_loop.run_once().unwrap();
        assert_eq!(events.lines().len(), count);
    }
}

// brief: SO-9
#[test]
fn data_that_came_before_the_reader_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"early");
    tick(&event_loop);
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("readable")).unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["readable"]);
}

#[test]
fn a_second_reader_replaces_the_first() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("first")).unwrap();
    event_loop.add_reader(&left, events.mark("second")).unwrap();
    send(&right, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["second"]);
    assert!(event_loop.remove_reader(&left));
    assert!(!event_loop.remove_reader(&left));
}

#[test]
fn a_reader_replaced_after_its_readiness_was_seen_is_not_called() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("first")).unwrap();
    send(&right, b"x");
    let (handle, source, second) = (event_loop.handle(), left.clone(), events.mark("second"));
    event_loop.call_soon(move || handle.add_reader(&source, second).unwrap());
    settle(&event_loop);
    let lines = events.lines();
    assert!(lines.iter().all(|line| line == "second"), "{lines:?}");
    assert!(!lines.is_empty(), "the new one hears of the data");
}

#[test]
fn a_reader_taken_off_and_put_on_within_a_tick_loses_nothing() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, || {}).unwrap();
    tick(&event_loop);
    for _ in 0..5 {
        assert!(event_loop.remove_reader(&left));
        event_loop.add_reader(&left, events.mark("readable")).unwrap();
    }
    send(&right, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["readable"]);
}

#[test]
fn a_full_socket_is_writable_again_once_the_peer_has_read() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let full = event_loop.sock_sendall(&left, vec![0; 1_000_000]);
    settle(&event_loop);
    assert!(full.cancel());
    let writable = event_loop.create_future();
    let (handle, source, completed) = (event_loop.handle(), left.clone(), writable.clone());
    let writer = move || {
        handle.remove_writer(&source);
        completed.set_result("writable").unwrap();
    };
    event_loop.add_writer(&left, writer).unwrap();
    settle(&event_loop);
    assert!(!writable.done());
    let drained = event_loop.create_task(drain(event_loop.handle(), right));
    assert_eq!(event_loop.run_until_complete(writable).unwrap(), "writable");
    drop(left);
    assert!(!event_loop.run_until_complete(drained).unwrap().is_empty());
}

#[test]
fn removing_from_a_source_the_loop_never_saw_is_false() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    assert!(!event_loop.remove_reader(&left));
    assert!(!event_loop.remove_writer(&left));
}

#[test]
fn a_hang_up_nobody_watches_for_does_not_spin_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    event_loop.add_reader(&left, || {}).unwrap();
    event_loop.add_writer(&left, || {}).unwrap();
    tick(&event_loop);
    drop(right);
    assert!(event_loop.remove_reader(&left));
    assert!(event_loop.remove_writer(&left));
    let before = event_loop.pass_count();
    event_loop
        .run_until_complete(event_loop.sleep(Duration::from_millis(30)))
        .unwrap();
    let passes = event_loop.pass_count() - before;
    assert!(passes < 20, "{passes} passes while nothing was watched");
}

#[test]
fn a_hang_up_wakes_whichever_of_reader_and_writer_is_there() {
    for direction in ["reader", "writer"] {
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair();
        let events = Trace::new();
        if direction == "reader" {
            event_loop.add_reader(&left, events.mark(direction)).unwrap();
        } else {
            event_loop.add_writer(&left, events.mark(direction)).unwrap();
        }
        drop(right);
        event_loop.run_once().unwrap();
        assert_eq!(events.lines(), [direction]);
    }
}
