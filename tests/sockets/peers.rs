//! Peers that go away, at whatever moment.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};

use miniloop::{EventLoop, Source};
use socket2::SockRef;

use crate::common::{Trace, listener, pair, pair_small, send};
use crate::support::{io_error_kind, nothing_is_left, settle, still_works, tick};
use crate::{drain, pattern};

#[test]
fn data_sent_before_the_peer_closed_arrives_before_the_end() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"last words");
    drop(right);
    let all = event_loop.run_until_complete(drain(event_loop.handle(), left));
    assert_eq!(all.unwrap(), b"last words");
    still_works(&event_loop);
}

#[test]
fn a_peer_that_closes_while_a_receive_waits_ends_it() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 10);
    let second = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    let closing = std::cell::Cell::new(Some(right));
    event_loop.call_soon(move || drop(closing.take()));
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"");
    assert_eq!(first.result().unwrap(), b"");
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn sending_to_a_peer_that_is_gone_is_an_exception_and_no_signal() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    drop(right);
    let sent = event_loop.run_until_complete(event_loop.sock_sendall(&left, "x"));
    // TCP accepts the first bytes and learns of the end later
    if cfg!(unix) {
        assert_eq!(io_error_kind(sent), io::ErrorKind::BrokenPipe);
    }
    still_works(&event_loop);
}

#[test]
fn a_peer_that_closes_fails_every_send_that_waits() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let sends = [(); 3].map(|()| event_loop.sock_sendall(&left, pattern(300_000)));
    settle(&event_loop);
    drop(right);
    for sent in sends {
        io_error_kind(event_loop.run_until_complete(sent));
    }
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_half_closed_peer_can_still_be_written_to() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    right.shutdown(Shutdown::Write).unwrap();
    let end = event_loop.run_until_complete(event_loop.sock_recv(&left, 10));
    assert_eq!(end.unwrap(), b"");
    let data = pattern(300_000);
    let sent = event_loop.sock_sendall(&left, data.clone());
    let drained = event_loop.create_task(drain(event_loop.handle(), right));
    event_loop.run_until_complete(sent).unwrap();
    drop(left);
    assert!(event_loop.run_until_complete(drained).unwrap() == data);
}

/// A connection whose client is a plain blocking socket.
fn tcp_pair(event_loop: &EventLoop) -> (Source<TcpStream>, TcpStream) {
    let server = listener();
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let accepted = event_loop.sock_accept(&server).take();
    let (served, _) = event_loop.run_until_complete(accepted).unwrap();
    (served, client)
}

/// Closes with a reset instead of an orderly end.
fn reset(client: TcpStream) {
    SockRef::from(&client)
        .set_linger(Some(std::time::Duration::ZERO))
        .unwrap();
    drop(client);
}

#[test]
fn a_reset_is_the_exception_of_a_receive_that_waits() {
    let event_loop = EventLoop::new().unwrap();
    let (served, client) = tcp_pair(&event_loop);
    let received = event_loop.sock_recv(&served, 10);
    tick(&event_loop);
    reset(client);
    let kind = io_error_kind(event_loop.run_until_complete(received));
    assert_eq!(kind, io::ErrorKind::ConnectionReset);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_reset_is_the_exception_of_a_receive_that_comes_later() {
    let event_loop = EventLoop::new().unwrap();
    let (served, client) = tcp_pair(&event_loop);
    reset(client);
    let received = event_loop.run_until_complete(event_loop.sock_recv(&served, 10));
    assert_eq!(io_error_kind(received), io::ErrorKind::ConnectionReset);
    still_works(&event_loop);
}

#[test]
fn a_reset_wakes_reader_and_writer() {
    let event_loop = EventLoop::new().unwrap();
    let (served, client) = tcp_pair(&event_loop);
    let events = Trace::new();
    let (handle, source, mark) = (event_loop.handle(), served.clone(), events.mark("reader"));
    event_loop
        .add_reader(&served, move || {
            mark();
            handle.remove_reader(&source);
        })
        .unwrap();
    reset(client);
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["reader"]);
    let (handle, source, mark) = (event_loop.handle(), served.clone(), events.mark("writer"));
    event_loop
        .add_writer(&served, move || {
            mark();
            handle.remove_writer(&source);
        })
        .unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["reader", "writer"]);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_client_that_is_gone_before_it_was_accepted_does_no_harm() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let address = server.local_addr().unwrap();
    drop(TcpStream::connect(address).unwrap());
    let mut second = TcpStream::connect(address).unwrap();
    second.write_all(b"here").unwrap();
    let handle = event_loop.handle();
    let heard = event_loop.run_until_complete(async move {
        let (first, _) = handle.sock_accept(&server).await?;
        let silence = handle.sock_recv(&first, 10).await?;
        let (second, _) = handle.sock_accept(&server).await?;
        Ok((silence, handle.sock_recv(&second, 10).await?))
    });
    assert_eq!(heard.unwrap(), (Vec::new(), b"here".to_vec()));
    still_works(&event_loop);
}

#[test]
fn a_connection_that_nobody_waits_for_any_more_is_closed() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let connected = event_loop.sock_connect(server.local_addr().unwrap());
    drop(connected);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn one_broken_connection_leaves_the_others_alone() {
    let event_loop = EventLoop::new().unwrap();
    let (broken, gone) = pair_small();
    let (sound, friend) = pair();
    let failing = event_loop.sock_sendall(&broken, pattern(300_000));
    let received = event_loop.sock_recv(&sound, 10);
    tick(&event_loop);
    drop(gone);
    tick(&event_loop);
    send(&friend, b"fine");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"fine");
    settle(&event_loop);
    io_error_kind(failing.result());
    still_works(&event_loop);
}
