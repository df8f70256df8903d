//! Sockets: readiness, receiving, sending, accepting; and what can go wrong with them.

mod common;
mod support;

/// A wrapper around a stream can be watched as the stream in its first field.
macro_rules! pollable {
    ($wrapper:ty) => {
        #[cfg(unix)]
        impl std::os::fd::AsFd for $wrapper {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
        #[cfg(windows)]
        impl std::os::windows::io::AsSocket for $wrapper {
            fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
                self.0.as_socket()
            }
        }
    };
}

#[path = "sockets/awaited.rs"]
mod awaited;
#[path = "sockets/become_futures.rs"]
mod become_futures;
#[path = "sockets/direct.rs"]
mod direct;
#[path = "sockets/in_scopes.rs"]
mod in_scopes;
#[path = "sockets/left_over.rs"]
mod left_over;
#[path = "sockets/not_awaited.rs"]
mod not_awaited;
#[path = "sockets/peers.rs"]
mod peers;
#[path = "sockets/queues.rs"]
mod queues;
#[path = "sockets/readiness.rs"]
mod readiness;
#[path = "sockets/refused.rs"]
mod refused;
#[path = "sockets/shared_descriptors.rs"]
mod shared_descriptors;
#[path = "sockets/taking_turns.rs"]
mod taking_turns;
#[path = "sockets/user_code.rs"]
mod user_code;
#[path = "sockets/watched_only.rs"]
mod watched_only;

use std::cell::Cell;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, RuntimeError, Source};

use common::{Stream, Trace, listener, pair, pair_small, recv, send, stream_pair};
use support::{io_error_kind, misuse, nothing_is_left, settle, still_works, tick};

#[test]
fn a_short_receive_after_long_ones_holds_no_more_memory_than_it_needs() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let data = pattern(3 * 4096);
    send(&right, &data);
    for part in data.chunks(4096) {
        assert!(
            event_loop
                .run_until_complete(event_loop.sock_recv(&left, 4096))
                .unwrap()
                == part
        );
    }
    send(&right, b"short");
    let received = event_loop
        .run_until_complete(event_loop.sock_recv(&left, 4096))
        .unwrap();
    assert_eq!(received, b"short");
    assert!(received.capacity() < 100, "{}", received.capacity());
}

// brief: SO-1
#[test]
fn sock_recv_completes_when_the_other_end_sends() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 100);
    settle(&event_loop);
    assert!(!received.done());
    send(&right, b"hello");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"hello");
    nothing_is_left(&event_loop);
}

// brief: SO-1
#[test]
fn sock_recv_gives_what_is_there_up_to_its_limit() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"hello");
    for part in ["hel", "lo"] {
        let received = event_loop.run_until_complete(event_loop.sock_recv(&left, 3));
        assert_eq!(received.unwrap(), part.as_bytes());
    }
}

#[test]
fn sock_recv_with_data_waiting_does_not_pause_its_task() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"hello");
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move { handle.sock_recv(&left, 100).await });
    event_loop.run_once().unwrap();
    assert_eq!(task.result().unwrap(), b"hello");
}

#[test]
fn sock_recv_into_fills_the_buffer_it_was_given() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv_into(&left, vec![b'.'; 8]);
    tick(&event_loop);
    send(&right, b"hello");
    let (count, buffer) = event_loop.run_until_complete(received).unwrap();
    assert_eq!(count, 5);
    assert_eq!(&buffer[..count], b"hello");
    assert_eq!(buffer.len(), 8);
}

#[test]
fn an_end_of_stream_is_an_empty_result() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 100);
    tick(&event_loop);
    drop(right);
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"");
    let again = event_loop.run_until_complete(event_loop.sock_recv(&left, 100));
    assert_eq!(again.unwrap(), b"", "as often as one asks");
}

/// Bytes that show where a piece is missing or doubled.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8).collect()
}

/// Receives until the end of the stream.
async fn drain(handle: LoopHandle, source: Source<Stream>) -> miniloop::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let data = handle.sock_recv(&source, 1000).await?;
        if data.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&data);
    }
}

// brief: SO-4
#[test]
fn sock_sendall_sends_more_than_the_socket_buffer_holds() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let data = pattern(500_000);
    let sent = event_loop.sock_sendall(&left, data.clone());
    settle(&event_loop);
    assert!(!sent.done(), "the buffer is full and nobody reads yet");
    let drained = event_loop.create_task(drain(event_loop.handle(), right));
    event_loop.run_until_complete(sent).unwrap();
    drop(left);
    let received = event_loop.run_until_complete(drained).unwrap();
    assert!(received == data, "every byte once and in order");
    nothing_is_left(&event_loop);
}

#[test]
fn sock_sendall_of_nothing_is_done() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    event_loop
        .run_until_complete(event_loop.sock_sendall(&left, ""))
        .unwrap();
    send(&left, b"x");
    assert_eq!(recv(&right, 10), b"x");
}

// brief: SO-5
#[test]
fn sock_accept_accepts_clients_without_blocking_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let address = server.local_addr().unwrap();
    let events = Trace::new();
    let task = event_loop.create_task({
        let (handle, events) = (event_loop.handle(), events.clone());
        async move {
            for _ in 0..2 {
                let (client, peer) = handle.sock_accept(&server).await?;
                assert_eq!(client.peer_addr()?, peer);
                events.push("accepted");
            }
            Ok(())
        }
    });
    event_loop.call_soon(events.mark("callback"));
    settle(&event_loop);
    assert_eq!(
        events.lines(),
        ["callback"],
        "nobody has come, and the loop goes on"
    );
    let _one = TcpStream::connect(address).unwrap();
    let _two = TcpStream::connect(address).unwrap();
    event_loop.run_until_complete(task).unwrap();
    assert_eq!(events.lines(), ["callback", "accepted", "accepted"]);
    nothing_is_left(&event_loop);
}

// brief: SO-6
#[test]
fn a_socket_error_becomes_the_exception_of_the_future() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let sent = event_loop.sock_sendall(&left, pattern(500_000));
    tick(&event_loop);
    drop(right);
    let kind = io_error_kind(event_loop.run_until_complete(sent));
    assert!(
        matches!(
            kind,
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
        ),
        "{kind:?}"
    );
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

// brief: SO-6
#[test]
fn a_refused_connection_is_the_exception_of_sock_connect() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let address = server.local_addr().unwrap();
    drop(server);
    let connected = event_loop.run_until_complete(event_loop.sock_connect(address).take());
    assert_eq!(io_error_kind(connected), io::ErrorKind::ConnectionRefused);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

// brief: SO-7
#[test]
fn an_operation_that_completed_leaves_nothing_registered() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 1);
    tick(&event_loop);
    send(&right, b"xy");
    event_loop.run_until_complete(received).unwrap();
    // there is data to read still, and nobody is told
    nothing_is_left(&event_loop);
    assert!(left.into_inner().is_ok());
}

// brief: SO-7
#[test]
fn an_operation_that_failed_leaves_nothing_registered() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let sent = event_loop.sock_sendall(&left, pattern(500_000));
    tick(&event_loop);
    drop(right);
    event_loop.run_until_complete(sent).unwrap_err();
    nothing_is_left(&event_loop);
    assert!(left.into_inner().is_ok());
}

// brief: SO-7
#[test]
fn an_operation_that_was_cancelled_leaves_nothing_registered() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let server = listener();
    let accepted = event_loop.sock_accept(&server);
    tick(&event_loop);
    assert!(received.cancel());
    assert!(accepted.cancel());
    nothing_is_left(&event_loop);
    send(&right, b"kept");
    settle(&event_loop);
    assert!(received.cancelled());
    let received = event_loop.run_until_complete(event_loop.sock_recv(&left, 10));
    assert_eq!(received.unwrap(), b"kept");
    assert!(left.into_inner().is_ok() && server.into_inner().is_ok());
}

#[test]
fn operations_are_completed_by_the_loop_alone() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let refused = Err(miniloop::InvalidStateError::NotYours);
    assert_eq!(received.set_result(vec![]), refused);
    send(&right, b"real");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"real");
}

// brief: SO-8
#[test]
fn a_connection_with_nothing_to_send_causes_no_passes() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    event_loop
        .run_until_complete(event_loop.sock_sendall(&left, "hello"))
        .unwrap();
    let _received = event_loop.sock_recv(&left, 10);
    let before = event_loop.pass_count();
    event_loop
        .run_until_complete(event_loop.sleep(Duration::from_millis(30)))
        .unwrap();
    let passes = event_loop.pass_count() - before;
    assert!(passes < 20, "{passes} passes while nothing happened");
    assert_eq!(recv(&right, 10), b"hello");
}

// brief: SO-8
#[test]
fn a_sender_that_is_held_up_causes_no_passes() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair_small();
    let sent = event_loop.sock_sendall(&left, pattern(500_000));
    settle(&event_loop);
    let before = event_loop.pass_count();
    event_loop
        .run_until_complete(event_loop.sleep(Duration::from_millis(30)))
        .unwrap();
    let passes = event_loop.pass_count() - before;
    assert!(passes < 20, "{passes} passes while the buffer was full");
    assert!(!sent.done());
}

// brief: SO-10
#[test]
fn a_source_is_non_blocking_once_the_loop_has_it() {
    let (near, _far) = stream_pair();
    let source = Source::new(near).unwrap();
    #[cfg(unix)]
    assert!(is_non_blocking(&*source));
    let mut buffer = [0];
    let error = io::Read::read(&mut &*source, &mut buffer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[cfg(unix)]
fn is_non_blocking(io: &impl std::os::fd::AsFd) -> bool {
    rustix::fs::fcntl_getfl(io)
        .unwrap()
        .contains(rustix::fs::OFlags::NONBLOCK)
}

// brief: SO-10
#[cfg(unix)]
#[test]
fn accepted_and_connected_sockets_are_non_blocking_too() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let handle = event_loop.handle();
    let address = server.local_addr().unwrap();
    let (near, far) = event_loop
        .run_until_complete(async move {
            let connected = handle.sock_connect(address);
            let (far, _) = handle.sock_accept(&server).await?;
            Ok((connected.await?, far))
        })
        .unwrap();
    assert!(is_non_blocking(&*near) && is_non_blocking(&*far));
}

// brief: SO-10
#[cfg(unix)]
#[test]
fn a_source_given_back_has_the_mode_it_came_with() {
    let (near, far) = stream_pair();
    far.set_nonblocking(true).unwrap();
    let near = Source::new(near).unwrap().into_inner().ok().unwrap();
    let far = Source::new(far).unwrap().into_inner().ok().unwrap();
    assert!(!is_non_blocking(&near));
    assert!(is_non_blocking(&far));
}

// brief: SO-11
#[test]
fn localhost_sockets_with_port_0_take_the_place_of_a_socketpair() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let address = server.local_addr().unwrap();
    assert_ne!(address.port(), 0);
    let handle = event_loop.handle();
    let served = handle.create_task({
        let handle = event_loop.handle();
        async move {
            let (client, _) = handle.sock_accept(&server).await?;
            let data = handle.sock_recv(&client, 100).await?;
            handle.sock_sendall(&client, data).await
        }
    });
    let echoed = event_loop.run_until_complete(async move {
        let stream = handle.sock_connect(address).await?;
        handle.sock_sendall(&stream, "hello").await?;
        let echoed = handle.sock_recv(&stream, 100).await?;
        served.await?;
        Ok(echoed)
    });
    assert_eq!(echoed.unwrap(), b"hello");
    nothing_is_left(&event_loop);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_can_be_connected_and_accepted() {
    use std::os::unix::net::UnixListener;
    let place = std::env::temp_dir().join(format!("miniloop-test-{}", std::process::id()));
    let _ = std::fs::remove_file(&place);
    let server = Source::new(UnixListener::bind(&place).unwrap()).unwrap();
    let event_loop = EventLoop::new().unwrap();
    let (handle, path) = (event_loop.handle(), place.clone());
    let received = event_loop.run_until_complete(async move {
        let stream = handle.sock_connect_unix(&path).await?;
        let (client, _) = handle.sock_accept(&server).await?;
        handle.sock_sendall(&stream, "hello").await?;
        handle.sock_recv(&client, 100).await
    });
    std::fs::remove_file(&place).unwrap();
    assert_eq!(received.unwrap(), b"hello");
}

#[test]
fn a_sender_in_a_thread_wakes_a_loop_that_waits() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = stream_pair();
    let near = Source::new(near).unwrap();
    let sender = thread::spawn(move || io::Write::write_all(&mut &far, b"hello"));
    let received = event_loop.run_until_complete(event_loop.sock_recv(&near, 100));
    assert_eq!(received.unwrap(), b"hello");
    sender.join().unwrap().unwrap();
}

#[test]
fn a_task_on_sockets_that_are_always_ready_does_not_starve_the_others() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let handle = event_loop.handle();
    let rounds = Rc::new(Cell::new(0_u32));
    let counted = Rc::clone(&rounds);
    let ping = event_loop.create_task(async move {
        // every one of these could complete at once
        while counted.get() < 100_000 {
            counted.set(counted.get() + 1);
            handle.sock_sendall(&left, "x").await?;
            handle.sock_recv(&right, 1).await?;
        }
        Ok(())
    });
    let other = event_loop.create_task(async { Ok("had its turn") });
    assert_eq!(event_loop.run_until_complete(other).unwrap(), "had its turn");
    assert!(!ping.done());
    assert!(rounds.get() < 1_000, "{} rounds in one step", rounds.get());
}

#[test]
fn a_run_stopped_in_the_middle_of_an_operation_can_be_taken_up_again() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let stop = event_loop.handle();
    event_loop.call_soon(move || stop.stop());
    let stopped = event_loop.run_until_complete(received.clone());
    assert_eq!(misuse(stopped), RuntimeError::StoppedBeforeDone);
    send(&right, b"later");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"later");
}
