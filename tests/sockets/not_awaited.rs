//! Receives and accepts that are dropped before anybody awaited them: as a coroutine of asyncio
//! that was never awaited, they have taken nothing.

use std::net::TcpStream;
use std::time::Duration;

use futures_util::future::{Either, select};
use miniloop::{EventLoop, sleep};

use crate::common::{listener, pair, recv, send};
use crate::support::{Watchdog, nothing_is_left, settle};

#[test]
fn a_receive_dropped_before_it_was_awaited_has_taken_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"hello");
    drop(event_loop.sock_recv(&left, 10));
    drop(event_loop.sock_recv_into(&left, vec![0; 10]));
    assert_eq!(recv(&left, 10), b"hello");
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_cancelled_before_it_was_awaited_has_taken_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"hello");
    assert!(event_loop.sock_recv(&left, 10).cancel());
    settle(&event_loop);
    assert_eq!(recv(&left, 10), b"hello");
}

#[test]
fn a_receive_that_a_select_never_looked_at_has_taken_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"hello");
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let ready = handle.create_future();
        ready.set_result(1)?;
        match select(ready, handle.sock_recv(&source, 10)).await {
            Either::Left((value, _)) => value,
            Either::Right(_) => unreachable!("the first was ready"),
        }
    });
    settle(&event_loop);
    assert_eq!(task.result().unwrap(), 1);
    assert_eq!(recv(&left, 10), b"hello");
}

#[test]
fn a_receive_that_is_awaited_late_takes_what_is_there_then() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let handle = event_loop.handle();
    let received = event_loop.run_until_complete(async move {
        let received = handle.sock_recv(&left, 10);
        send(&right, b"hello");
        received.await
    });
    assert_eq!(received.unwrap(), b"hello");
}

#[test]
fn an_accept_dropped_before_it_was_awaited_has_taken_no_client() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    drop(event_loop.sock_accept(&server));
    let (handle, listening) = (event_loop.handle(), server.clone());
    let accepted = event_loop.run_until_complete(async move {
        let ready = sleep(Duration::ZERO);
        match select(ready, handle.sock_accept(&listening).take()).await {
            // whichever it was, the client is not lost
            Either::Left((slept, accepting)) => {
                slept?;
                accepting.await
            }
            Either::Right((accepted, _)) => accepted,
        }
    });
    let (_stream, address) = accepted.unwrap();
    assert_eq!(address, client.local_addr().unwrap());
}
