//! One socket under two names: duplicates, which share their mode, and two sources of one
//! descriptor.

use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use miniloop::{EventLoop, Exception, Source};

use crate::common::{Stream, Trace, pair, pair_small, recv, send, stream_pair};
use crate::support::{Reports, Watchdog, io_error_kind, nothing_is_left, settle, still_works, tick};

/// The two halves of a connection, as `try_clone` makes them, and its other end.
fn halves() -> (Source<Stream>, Source<Stream>, Stream) {
    let (near, far) = stream_pair();
    let first = Source::new(near.try_clone().unwrap()).unwrap();
    // this one finds the socket in non-blocking mode already
    let second = Source::new(near).unwrap();
    (first, second, far)
}

/// A loop that would block in a read hangs here for ever.
fn can_wait_for_data(source: &Source<Stream>, mut far: Stream) {
    let event_loop = EventLoop::new().unwrap();
    #[cfg(unix)]
    assert!(crate::is_non_blocking(source.get_ref()));
    let received = event_loop.sock_recv(source, 10);
    settle(&event_loop);
    assert!(!received.done());
    far.write_all(b"x").unwrap();
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn a_duplicate_stays_non_blocking_when_the_first_source_is_dropped() {
    let _watchdog = Watchdog::start();
    let (first, second, far) = halves();
    drop(first);
    can_wait_for_data(&second, far);
}

#[test]
fn a_duplicate_stays_non_blocking_when_the_second_source_is_dropped() {
    let _watchdog = Watchdog::start();
    let (first, second, far) = halves();
    drop(second);
    can_wait_for_data(&first, far);
}

#[test]
fn a_half_dropped_by_its_task_leaves_the_other_task_working() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (reader, writer, far) = halves();
    let far = Source::new(far).unwrap();
    let handle = event_loop.handle();
    let reading = event_loop.create_task(async move {
        let received = handle.sock_recv(&reader, 10).await?;
        drop(reader);
        Ok(received)
    });
    let handle = event_loop.handle();
    let length = 3_000_000;
    let writing = event_loop.create_task(async move { handle.sock_sendall(&writer, vec![7; length]).await });
    settle(&event_loop);
    send(&far, b"x");
    assert_eq!(event_loop.run_until_complete(reading).unwrap(), b"x");
    // far more than the buffers hold: a write that blocks would never end
    assert!(!writing.done());
    let handle = event_loop.handle();
    let drained = event_loop.run_until_complete(async move {
        let mut count = 0;
        while count < length {
            count += handle.sock_recv(&far, 65536).await?.len();
        }
        Ok(count)
    });
    assert_eq!(drained.unwrap(), length);
    event_loop.run_until_complete(writing).unwrap();
    still_works(&event_loop);
}

/// What the loop did not make stays as the loop needed it: another part of the program may be
/// using it through another loop.
#[cfg(unix)]
#[test]
fn dropping_a_source_does_not_touch_the_mode_of_a_duplicate_outside() {
    let (near, _far) = stream_pair();
    let duplicate = near.try_clone().unwrap();
    drop(Source::new(near).unwrap());
    assert!(crate::is_non_blocking(&duplicate));
}

/// Whoever reads standard input after this process (the shell) expects it to block.
#[cfg(unix)]
#[test]
fn standard_input_blocks_again_once_its_source_is_dropped() {
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    const NAME: &str = "shared_descriptors::standard_input_blocks_again_once_its_source_is_dropped";
    const CHILD: &str = "MINILOOP_TEST_STANDARD_INPUT";
    if std::env::var_os(CHILD).is_some() {
        let source = Source::new(std::io::stdin()).unwrap();
        let clone = source.clone();
        drop(source);
        assert!(crate::is_non_blocking(clone.get_ref()));
        return drop(clone);
    }
    let (input, _far) = stream_pair();
    let same = input.try_clone().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact"])
        .env(CHILD, "1")
        .stdin(Stdio::from(OwnedFd::from(input)))
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    // a misspelt name would run nothing, and succeed
    assert!(child.status.success() && out.contains("1 passed"), "{out}");
    assert!(!crate::is_non_blocking(&same));
}

const REPLACED: &str =
    "A source was replaced by another one with the same descriptor; its reader and writer are removed";

/// A stream that several sources may hold.
struct Twin(Rc<Stream>);

pollable!(Twin);

impl Read for &Twin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(buffer)
    }
}

/// Two sources of one descriptor, which the library can not know of, and its other end.
fn twins() -> (Source<Twin>, Source<Twin>, Source<Stream>) {
    let (near, far) = stream_pair();
    let near = Rc::new(near);
    (
        Source::new(Twin(near.clone())).unwrap(),
        Source::new(Twin(near)).unwrap(),
        Source::new(far).unwrap(),
    )
}

#[test]
fn a_reader_lost_to_a_second_source_of_the_descriptor_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    let events = Trace::new();
    event_loop.add_reader(&first, events.mark("first")).unwrap();
    settle(&event_loop);
    event_loop.add_writer(&second, events.mark("second")).unwrap();
    assert_eq!(reports.take(), [REPLACED]);
    send(&far, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["second"], "the newcomer has the place");
    assert!(!event_loop.remove_reader(&first));
    assert!(event_loop.remove_writer(&second));
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_writer_lost_to_a_second_source_of_the_descriptor_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (first, second, _far) = twins();
    event_loop.add_writer(&first, || {}).unwrap();
    let received = event_loop.sock_recv(&second, 10);
    // only an operation that has to wait takes the place
    settle(&event_loop);
    assert!(!received.done());
    assert_eq!(reports.take(), [REPLACED]);
    assert!(!event_loop.remove_writer(&first));
}

#[test]
fn an_operation_lost_to_a_second_source_of_the_descriptor_fails() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    let (handle, source) = (event_loop.handle(), first.clone());
    let awaited = event_loop.create_task(async move { handle.sock_recv(&source, 10).await });
    tick(&event_loop);
    let behind = event_loop.sock_recv(&first, 10);
    let events = Trace::new();
    event_loop.add_reader(&second, events.mark("readable")).unwrap();
    for lost in [
        event_loop.run_until_complete(awaited),
        event_loop.run_until_complete(behind),
    ] {
        assert_eq!(io_error_kind(lost), ErrorKind::AlreadyExists);
    }
    assert_eq!(reports.take(), [""; 0], "the futures have said it");
    send(&far, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["readable"]);
    still_works(&event_loop);
}

#[test]
fn a_second_source_of_a_descriptor_that_nobody_waits_for_takes_nothing_away() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    for source in [&first, &second, &first, &second] {
        event_loop.add_reader(source, || {}).unwrap();
        assert!(event_loop.remove_reader(source));
        let received = event_loop.sock_recv(source, 10);
        send(&far, b"x");
        assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    }
    assert_eq!(reports.take(), [""; 0]);
    nothing_is_left(&event_loop);
}

#[test]
fn a_source_that_was_replaced_can_take_the_place_back() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    let events = Trace::new();
    event_loop.add_reader(&first, || {}).unwrap();
    event_loop.add_reader(&second, events.mark("second")).unwrap();
    event_loop.add_reader(&first, events.mark("first")).unwrap();
    assert_eq!(reports.take(), [REPLACED, REPLACED]);
    send(&far, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["first"]);
    drop((first, second));
    nothing_is_left(&event_loop);
}

#[test]
fn dropping_the_source_that_was_replaced_leaves_the_other_watched() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    let events = Trace::new();
    event_loop.add_reader(&first, || {}).unwrap();
    event_loop.add_reader(&second, events.mark("second")).unwrap();
    settle(&event_loop);
    drop(first);
    send(&far, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["second"]);
    assert_eq!(recv(&second, 10), b"x");
}

#[test]
fn the_handler_that_hears_of_a_lost_reader_may_use_the_newcomer() {
    let event_loop = EventLoop::new().unwrap();
    let (first, second, far) = twins();
    let events = Trace::new();
    let (newcomer, mark) = (second.clone(), events.mark("from the handler"));
    let mark = Rc::new(mark);
    event_loop.set_exception_handler(move |event_loop, _| {
        let mark = Rc::clone(&mark);
        event_loop.add_reader(&newcomer, move || mark()).unwrap();
    });
    event_loop.add_reader(&first, || {}).unwrap();
    event_loop.add_writer(&second, events.mark("writer")).unwrap();
    send(&far, b"x");
    event_loop.run_once().unwrap();
    let mut lines = events.lines();
    lines.sort();
    assert_eq!(lines, ["from the handler", "writer"]);
    event_loop.clear_exception_handler();
    assert!(event_loop.remove_reader(&second) && event_loop.remove_writer(&second));
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_destructor_of_a_lost_reader_may_use_the_newcomer() {
    use crate::support::OnDrop;

    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (first, second, far) = twins();
    let events = Trace::new();
    let (handle, newcomer, mark) = (event_loop.handle(), second.clone(), events.mark("from the drop"));
    let held = OnDrop::new(move || handle.add_reader(&newcomer, mark).unwrap());
    event_loop
        .add_reader(&first, move || {
            let _held = &held;
        })
        .unwrap();
    event_loop.add_writer(&second, events.mark("writer")).unwrap();
    send(&far, b"x");
    event_loop.run_once().unwrap();
    let mut lines = events.lines();
    lines.sort();
    assert_eq!(lines, ["from the drop", "writer"]);
    assert!(event_loop.remove_reader(&second) && event_loop.remove_writer(&second));
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn sources_of_different_sockets_take_nothing_from_each_other() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let pairs = [pair(), pair(), pair_small()];
    let received: Vec<_> = pairs
        .iter()
        .map(|(near, _)| event_loop.sock_recv(near, 10))
        .collect();
    for (near, far) in &pairs {
        event_loop.add_writer(near, || {}).unwrap();
        send(far, b"x");
    }
    settle(&event_loop);
    assert!(received.iter().all(|received| received.done()));
    assert_eq!(reports.take(), [""; 0]);
    let all: Result<Vec<_>, Exception> = received.iter().map(|received| received.result()).collect();
    assert_eq!(all.unwrap(), [b"x", b"x", b"x"]);
}
