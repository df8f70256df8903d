//! Readiness: hang-ups (BR-03) and level-triggered reading and writing (BR-07).

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

use miniloop::{EventLoop, Source};

use crate::common::{Stream, pair, pair_small, recv, send, stream_pair};
use crate::faults::tick;
use crate::support::{
    Direction, Log, Watchdog, assert_sleeps, fill, read_up_to, reset, tcp_pair, ticks_until,
};

/// Registers and removes a callback, lets the peer hang up, and expects the loop
/// to sleep until somebody watches again: gives what the reader of then reads.
fn paused_while_the_peer_leaves<T>(
    near: T,
    far: T,
    hang_up: fn(T),
    direction: Direction,
    seen_by_the_selector: bool,
) -> io::Result<Vec<u8>>
where
    T: miniloop::Pollable + 'static,
    for<'a> &'a T: Read,
{
    let event_loop = EventLoop::new().unwrap();
    let near = Source::new(near).unwrap();
    direction.add(&event_loop, &near, || {});
    if seen_by_the_selector {
        tick(&event_loop);
    }
    assert!(direction.remove(&event_loop, &near));
    hang_up(far);
    assert_sleeps(&event_loop);

    let log = Log::new();
    let (handle, source, read) = (event_loop.handle(), near.clone(), log.clone());
    event_loop
        .add_reader(&near, move || {
            read.push(read_up_to(source.get_ref(), 10));
            handle.remove_reader(&source);
            handle.stop();
        })
        .unwrap();
    event_loop.run_forever().unwrap();
    assert_sleeps(&event_loop);
    let mut reads = log.take();
    assert_eq!(reads.len(), 1);
    reads.remove(0)
}

// field: BR-03
#[test]
fn the_end_of_a_peer_nobody_watches_does_not_wake_the_loop() {
    let _watchdog = Watchdog::start();
    for direction in Direction::BOTH {
        for seen in [false, true] {
            let (near, far) = stream_pair();
            let end = paused_while_the_peer_leaves::<Stream>(near, far, drop, direction, seen);
            assert_eq!(end.unwrap(), b"");
        }
    }
}

// field: BR-03
#[test]
fn a_reset_by_a_peer_nobody_watches_does_not_wake_the_loop() {
    let _watchdog = Watchdog::start();
    for direction in Direction::BOTH {
        let (near, far) = tcp_pair();
        let end = paused_while_the_peer_leaves::<TcpStream>(near, far, reset, direction, true);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}

// field: BR-03
#[test]
fn a_hang_up_calls_the_reader_where_there_is_only_a_reader() {
    let _watchdog = Watchdog::start();
    for hang_up in [drop, reset] {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = tcp_pair();
        let near = Source::new(near).unwrap();
        let log = Log::new();
        event_loop.add_reader(&near, log.entry("reader")).unwrap();
        tick(&event_loop);
        assert!(log.take().is_empty());
        hang_up(far);
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), ["reader"]);
    }
}

// field: BR-03
#[test]
fn a_hang_up_calls_the_writer_where_there_is_only_a_writer() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    fill(near.get_ref());
    let log = Log::new();
    event_loop.add_writer(&near, log.entry("writer")).unwrap();
    tick(&event_loop);
    assert!(log.take().is_empty(), "the buffers are full");
    drop(far);
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["writer"]);
}

// field: BR-03
#[test]
fn a_reset_calls_the_writer_where_there_is_only_a_writer() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = tcp_pair();
    let near = Source::new(near).unwrap();
    fill(near.get_ref());
    let log = Log::new();
    event_loop.add_writer(&near, log.entry("writer")).unwrap();
    reset(far);
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["writer"]);
}

/// A source with `data` to read whose reader takes one byte in each call.
fn one_byte_a_call(event_loop: &EventLoop, near: &Source<Stream>, log: &Log<String>) {
    let (source, log) = (near.clone(), log.clone());
    event_loop
        .add_reader(near, move || {
            log.push(String::from_utf8(recv(&source, 1)).unwrap());
        })
        .unwrap();
}

// field: BR-07
#[test]
fn a_reader_that_leaves_bytes_behind_is_called_again_until_they_are_read() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let log = Log::new();
    send(&far, b"abcd");
    one_byte_a_call(&event_loop, &near, &log);
    for expected in ["a", "b", "c", "d"] {
        tick(&event_loop);
        assert_eq!(log.take(), [expected]);
    }
    tick(&event_loop);
    assert!(log.take().is_empty());
    send(&far, b"e");
    tick(&event_loop);
    assert_eq!(log.take(), ["e"]);
}

// field: BR-07
#[test]
fn one_event_with_both_directions_calls_the_reader_first() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let log = Log::new();
    send(&far, b"x");
    // Whichever was registered first.
    event_loop.add_writer(&near, log.entry("writer")).unwrap();
    event_loop.add_reader(&near, log.entry("reader")).unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["reader", "writer"]);
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["reader", "writer"]);
}

// field: BR-07
#[test]
fn a_writer_removed_by_the_reader_of_its_socket_is_not_called_and_the_reader_stays() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let log = Log::new();
    send(&far, b"abcd");
    event_loop.add_writer(&near, log.entry("w".into())).unwrap();
    let (handle, source, read) = (event_loop.handle(), near.clone(), log.clone());
    event_loop
        .add_reader(&near, move || {
            handle.remove_writer(&source);
            read.push(String::from_utf8(recv(&source, 1)).unwrap());
        })
        .unwrap();
    for expected in ["a", "b", "c", "d"] {
        tick(&event_loop);
        assert_eq!(log.take(), [expected]);
    }
    send(&far, b"e");
    tick(&event_loop);
    assert_eq!(log.take(), ["e"]);
    tick(&event_loop);
    assert!(log.take().is_empty());
}

// field: BR-07
#[test]
fn each_direction_is_removed_without_the_other() {
    for removed in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair();
        let log = Log::new();
        send(&far, b"x");
        for direction in Direction::BOTH {
            direction.add(&event_loop, &near, log.entry(direction));
        }
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), Direction::BOTH);
        assert!(removed.remove(&event_loop, &near));
        for _ in 0..2 {
            tick(&event_loop);
            let left: Vec<_> = Direction::BOTH
                .into_iter()
                .filter(|&direction| direction != removed)
                .collect();
            assert_eq!(log.take(), left);
        }
        removed.add(&event_loop, &near, log.entry(removed));
        tick(&event_loop);
        assert_eq!(log.take(), Direction::BOTH);
    }
}

// field: BR-07
#[test]
fn a_reader_turned_off_and_on_again_still_sees_what_it_left() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let log = Log::new();
    send(&far, b"ab");
    one_byte_a_call(&event_loop, &near, &log);
    tick(&event_loop);
    assert_eq!(log.take(), ["a"]);
    // Within one tick, and over several.
    for ticks_off in [0, 2] {
        assert!(event_loop.remove_reader(&near));
        for _ in 0..ticks_off {
            tick(&event_loop);
        }
        assert!(log.take().is_empty());
        one_byte_a_call(&event_loop, &near, &log);
        tick(&event_loop);
        assert_eq!(log.take(), ["b"]);
        send(&far, b"b");
    }
}

// field: BR-07
#[test]
fn a_writer_is_called_again_each_time_the_peer_has_made_room() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let sent = Rc::new(RefCell::new(0));
    let (source, counted) = (near.clone(), Rc::clone(&sent));
    event_loop
        .add_writer(&near, move || {
            let mut socket = source.get_ref();
            // Some systems call a socket writable that has no room for a whole block.
            if let Ok(count) = socket.write(&[7; 512]) {
                *counted.borrow_mut() += count;
            }
        })
        .unwrap();
    let mut received = 0;
    ticks_until(&event_loop, 2_000, || {
        while let Ok(data) = read_up_to(far.get_ref(), 1000) {
            received += data.len();
        }
        received > 100_000
    });
    tick(&event_loop);
    assert!(*sent.borrow() >= received);
}
