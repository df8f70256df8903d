//! Code of the user's inside an operation: its stream, its data, and awaiters that turn away.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt;
use miniloop::{EventLoop, Future, PanicError, Pollable, Source};

use crate::common::{Stream, Trace, attempt, pair, pair_small, send, stream_pair};
use crate::support::{Counted, Drops, Reports, nothing_is_left, raised, settle, still_works, tick};

/// A stream that would block until it is broken, and panics from then on.
struct Broken(Stream, Cell<bool>);

impl Broken {
    fn touch(&self) -> io::Result<usize> {
        assert!(!self.1.get(), "in the stream");
        Err(io::ErrorKind::WouldBlock.into())
    }
}

pollable!(Broken);

impl Read for &Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.touch()
    }
}

impl Write for &Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.touch()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pending operation on a stream that breaks, and how it ends.
fn broken_under<T: Clone + 'static>(start: impl FnOnce(&EventLoop, &Source<Broken>) -> Future<T>) {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (near, mut far) = stream_pair();
    let source = Source::new(Broken(near, Cell::new(false))).unwrap();
    let operation = start(&event_loop, &source);
    settle(&event_loop);
    assert!(!operation.done());
    source.1.set(true);
    far.write_all(b"x").unwrap();
    let outcome = event_loop.run_until_complete(operation);
    assert_eq!(raised::<PanicError, _>(outcome).message(), "in the stream");
    assert_eq!(reports.take(), [""; 0]);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_stream_that_panics_when_it_is_read_fails_the_receive() {
    broken_under(|event_loop, source| event_loop.sock_recv(source, 10));
    broken_under(|event_loop, source| event_loop.sock_recv_into(source, vec![0; 10]));
}

#[test]
fn a_stream_that_panics_when_it_is_written_fails_the_send() {
    broken_under(|event_loop, source| event_loop.sock_sendall(source, "x"));
}

/// Data that panics when it is dropped, or when it is looked at.
struct Data {
    bytes: Vec<u8>,
    panics_in_as_ref: bool,
    _counted: Counted,
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        assert!(!self.panics_in_as_ref, "in as_ref");
        &self.bytes
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        assert!(self.panics_in_as_ref, "in drop");
    }
}

#[test]
fn data_that_panics_when_it_is_looked_at_fails_the_send() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    let drops = Drops::default();
    let data = Data {
        bytes: Vec::new(),
        panics_in_as_ref: true,
        _counted: drops.counted(),
    };
    let sent = event_loop.run_until_complete(event_loop.sock_sendall(&left, data));
    assert_eq!(raised::<PanicError, _>(sent).message(), "in as_ref");
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn data_that_panics_when_it_is_dropped_does_not_keep_the_send_from_ending() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (left, right) = pair_small();
    let drops = Drops::default();
    let length = 300_000;
    let data = Data {
        bytes: vec![0; length],
        panics_in_as_ref: false,
        _counted: drops.counted(),
    };
    let sent = event_loop.sock_sendall(&left, data);
    settle(&event_loop);
    assert!(!sent.done());
    let handle = event_loop.handle();
    let drained = event_loop.create_task(async move {
        let mut count = 0;
        while count < length {
            count += handle.sock_recv(&right, 65536).await?.len();
        }
        Ok(count)
    });
    assert_eq!(event_loop.run_until_complete(drained).unwrap(), length);
    settle(&event_loop);
    assert!(sent.done());
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn data_that_panics_when_its_send_is_cancelled_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (left, _right) = pair_small();
    let drops = Drops::default();
    let data = Data {
        bytes: vec![0; 300_000],
        panics_in_as_ref: false,
        _counted: drops.counted(),
    };
    let sent = event_loop.sock_sendall(&left, data);
    settle(&event_loop);
    let _ = catch_unwind(AssertUnwindSafe(|| sent.cancel()));
    assert!(sent.cancelled());
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

/// A task that polls a future once, is woken by it, and then never looks at it again.
fn turns_away<T: Clone + 'static>(event_loop: &EventLoop, mut future: Future<T>) -> Rc<Cell<u32>> {
    let polls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&polls);
    let rest = event_loop.create_future::<()>();
    event_loop.create_task(async move {
        poll_fn(|cx| {
            counted.set(counted.get() + 1);
            if counted.get() == 1 {
                assert!(future.poll_unpin(cx).is_pending());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        // the future is still held, while the task waits for something else
        let outcome = rest.await;
        drop(future);
        outcome
    });
    polls
}

#[test]
fn an_operation_whose_awaiter_turned_away_still_completes_for_a_callback() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let polls = turns_away(&event_loop, received.clone());
    tick(&event_loop);
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!(polls.get(), 2, "the awaiter was woken");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
}

#[test]
fn an_operation_whose_awaiter_turned_away_does_not_hold_up_the_next() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 3);
    let polls = turns_away(&event_loop, first);
    let second = event_loop.sock_recv(&left, 3);
    tick(&event_loop);
    send(&right, b"onetwo");
    settle(&event_loop);
    assert_eq!(polls.get(), 2, "the awaiter was woken");
    // the first took its part, as it would have done without any awaiter
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"two");
}

#[test]
fn the_object_in_a_source_may_panic_when_it_is_closed() {
    /// A stream that panics when it is dropped.
    struct Closing(Stream);
    pollable!(Closing);
    impl Drop for Closing {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    fn watched<T: Pollable + 'static>(event_loop: &EventLoop, source: &Source<T>, drops: &Drops) {
        let captured = drops.counted();
        let reader = move || {
            let _captured = &captured;
        };
        event_loop.add_reader(source, reader).unwrap();
    }
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let (near, _far) = stream_pair();
    let source = Source::new(Closing(near)).unwrap();
    watched(&event_loop, &source, &drops);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(source)));
    assert!(panic.is_err(), "whoever drops it has it");
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

/// A stream that gives one line at a time and keeps what it has read beyond it, as a TLS session
/// does with records: of those the system knows nothing any more.
struct Lines(Stream, RefCell<Vec<u8>>);

pollable!(Lines);

impl Read for &Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut held = self.1.borrow_mut();
        if held.is_empty() {
            let mut chunk = [0; 1000];
            let count = (&self.0).read(&mut chunk)?;
            held.extend(&chunk[..count]);
        }
        let line = held.split_inclusive(|byte| *byte == b'\n').next();
        let count = line.map_or(0, <[u8]>::len).min(buffer.len());
        buffer[..count].copy_from_slice(&held[..count]);
        held.drain(..count);
        Ok(count)
    }
}

fn lines() -> (EventLoop, Source<Lines>, Stream) {
    let (near, far) = stream_pair();
    let source = Source::new(Lines(near, RefCell::default())).unwrap();
    (EventLoop::new().unwrap(), source, far)
}

/// Receives lines until there are `count` of them; at most as many as come within a few ticks.
fn received_in_a_task(event_loop: &EventLoop, source: &Source<Lines>, count: usize) -> Vec<Vec<u8>> {
    let (handle, source) = (event_loop.handle(), source.clone());
    let lines = Rc::new(RefCell::new(Vec::new()));
    let received = Rc::clone(&lines);
    let reading = event_loop.create_task(async move {
        for _ in 0..count {
            let line = handle.sock_recv(&source, 100).await?;
            received.borrow_mut().push(line);
        }
        Ok(())
    });
    settle(event_loop);
    assert!(reading.done(), "only {:?}", lines.borrow());
    lines.take()
}

#[test]
fn a_stream_with_a_buffer_of_its_own_is_read_before_it_is_waited_for() {
    let (event_loop, source, mut far) = lines();
    far.write_all(b"one\ntwo\nthree\n").unwrap();
    let lines = received_in_a_task(&event_loop, &source, 3);
    assert_eq!(lines, [&b"one\n"[..], b"two\n", b"three\n"]);
    let received = event_loop.sock_recv(&source, 100);
    settle(&event_loop);
    assert!(!received.done(), "there is nothing more, and no end");
}

#[test]
fn a_stream_with_a_buffer_of_its_own_is_read_before_it_is_waited_for_by_a_callback() {
    let (event_loop, source, mut far) = lines();
    far.write_all(b"one\ntwo\nthree\n").unwrap();
    let heard = Trace::new();
    for _ in 0..3 {
        let heard = heard.clone();
        event_loop
            .sock_recv(&source, 100)
            .add_done_callback(move |received| heard.push(attempt(received.result())));
        settle(&event_loop);
    }
    assert_eq!(heard.lines(), ["one/", "two/", "three/"]);
}

#[test]
fn a_stream_with_a_buffer_of_its_own_is_read_for_one_who_only_watches() {
    let (event_loop, source, mut far) = lines();
    far.write_all(b"one\ntwo\nthree\n").unwrap();
    for line in ["one\n", "two\n", "three\n"] {
        let received = event_loop.sock_recv_into(&source, vec![0; 100]);
        settle(&event_loop);
        let (count, buffer) = received.result().unwrap();
        assert_eq!(&buffer[..count], line.as_bytes());
    }
}

#[test]
fn a_receive_that_waited_leaves_the_buffer_to_the_next() {
    let (event_loop, source, mut far) = lines();
    let first = event_loop.create_task(event_loop.sock_recv(&source, 100));
    settle(&event_loop);
    far.write_all(b"one\ntwo\nthree\n").unwrap();
    settle(&event_loop);
    assert_eq!(first.result().unwrap(), b"one\n");
    let lines = received_in_a_task(&event_loop, &source, 2);
    assert_eq!(lines, [&b"two\n"[..], b"three\n"]);
}

#[test]
fn receives_that_wait_together_are_all_served_from_a_buffer_filled_at_once() {
    let (event_loop, source, mut far) = lines();
    let waiting = [(); 3].map(|()| event_loop.sock_recv(&source, 100));
    settle(&event_loop);
    far.write_all(b"one\ntwo\nthree\n").unwrap();
    settle(&event_loop);
    let lines: miniloop::Result<Vec<_>> = waiting.iter().map(|received| received.result()).collect();
    assert_eq!(lines.unwrap(), [&b"one\n"[..], b"two\n", b"three\n"]);
}
