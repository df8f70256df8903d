//! Connects: refused, given up, and very many of them (BR-45, BR-43).

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use miniloop::{EventLoop, Source};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::common::{listener, send};
use crate::faults::{io_error_kind, still_works, tick};
use crate::support::{Watchdog, assert_sleeps, read_up_to};

/// A socket that is bound to a free port of the loopback interface.
fn bound() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&SockAddr::from(any)).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

// field: BR-45
#[test]
fn a_refused_connect_fails_once_with_the_error_of_the_system() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    // Bound but not listening: nobody else can get the port and answer.
    let (_closed, address) = bound();
    let completions = Rc::new(Cell::new(0));
    let connecting = event_loop.sock_connect(address);
    let counted = Rc::clone(&completions);
    connecting.add_done_callback(move |_| counted.set(counted.get() + 1));
    let refused = event_loop.run_until_complete(connecting);
    assert_eq!(io_error_kind(refused), io::ErrorKind::ConnectionRefused);
    // Nothing is left that the dead socket could wake.
    assert_sleeps(&event_loop);
    assert_eq!(completions.get(), 1);
    still_works(&event_loop);
}

// field: BR-45
#[test]
fn a_connect_that_succeeds_leaves_no_writer_and_no_error_behind() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let listener = listener();
    let accepting = event_loop.sock_accept(&listener);
    let connecting = event_loop.sock_connect(listener.local_addr().unwrap());
    let near = event_loop.run_until_complete(connecting).unwrap();
    assert!(!event_loop.remove_writer(&near));
    assert!(!event_loop.remove_reader(&near));
    assert!(near.take_error().unwrap().is_none());
    let (far, peer) = event_loop.run_until_complete(accepting.take()).unwrap();
    assert_eq!(peer, near.local_addr().unwrap());
    send(&near, b"hello");
    let received = event_loop.run_until_complete(event_loop.sock_recv(&far, 10));
    assert_eq!(received.unwrap(), b"hello");
}

/// As many connects at a time as fit into the queue of a listening socket.
const CROWD: usize = 100;
const CROWDS: usize = 20;

// field: BR-45
#[test]
fn two_thousand_connects_a_hundred_at_a_time_complete_once_each() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let completions = Rc::new(Cell::new(0));
    for crowd in 1..=CROWDS {
        let connecting: Vec<_> = (0..CROWD)
            .map(|_| {
                let future = event_loop.sock_connect(address);
                let counted = Rc::clone(&completions);
                future.add_done_callback(move |_| counted.set(counted.get() + 1));
                future
            })
            .collect();
        let (handle, listener) = (event_loop.handle(), listener.clone());
        let (nears, fars) = event_loop
            .run_until_complete(async move {
                let (mut nears, mut fars) = (Vec::new(), Vec::new());
                for _ in 0..CROWD {
                    fars.push(handle.sock_accept(&listener).take().await?.0);
                }
                for future in connecting {
                    nears.push(future.await?);
                }
                Ok((nears, fars))
            })
            .unwrap();
        tick(&event_loop);
        assert_eq!(completions.get(), crowd * CROWD);
        assert_eq!((nears.len(), fars.len()), (CROWD, CROWD));
    }
    still_works(&event_loop);
}

// field: BR-45
#[test]
fn very_many_refused_connects_fail_once_each() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (_closed, address) = bound();
    let completions = Rc::new(Cell::new(0));
    // Refusals take their time on some systems, so all of a crowd wait at once.
    for crowd in 1..=5 {
        let connecting: Vec<_> = (0..CROWD)
            .map(|_| {
                let future = event_loop.sock_connect(address);
                let counted = Rc::clone(&completions);
                future.add_done_callback(move |_| counted.set(counted.get() + 1));
                future
            })
            .collect();
        for future in connecting {
            let refused = event_loop.run_until_complete(future);
            assert_eq!(io_error_kind(refused), io::ErrorKind::ConnectionRefused);
        }
        tick(&event_loop);
        assert_eq!(completions.get(), crowd * CROWD);
    }
    assert_sleeps(&event_loop);
}

#[cfg(target_os = "linux")]
mod with_a_full_backlog {
    use std::fs::{self, File};
    use std::os::fd::{AsFd, AsRawFd};

    use miniloop::Future;

    use super::*;
    use crate::support::{Log, in_own_process};

    type Connecting = Future<Source<std::net::TcpStream>>;

    /// A listener whose queue is full, and a connect that waits for it.
    fn waiting_connect(
        event_loop: &EventLoop,
    ) -> (Source<std::net::TcpListener>, Vec<Connecting>, Connecting) {
        let (socket, address) = bound();
        socket.listen(0).unwrap();
        let listener = Source::new(socket.into()).unwrap();
        let mut queued = Vec::new();
        loop {
            let connecting = event_loop.sock_connect(address);
            for _ in 0..20 {
                tick(event_loop);
            }
            if !connecting.done() {
                return (listener, queued, connecting);
            }
            queued.push(connecting);
            assert!(queued.len() < 10, "the queue takes any number");
        }
    }

    // field: BR-45
    // field: BR-43
    #[test]
    fn a_waiting_connect_that_is_given_up_is_forgotten_and_can_be_tried_again() {
        let _watchdog = Watchdog::start();
        for by_drop in [false, true] {
            let event_loop = EventLoop::new().unwrap();
            let (listener, queued, connecting) = waiting_connect(&event_loop);
            let address = listener.local_addr().unwrap();
            if by_drop {
                drop(connecting);
            } else {
                assert!(connecting.cancel());
                assert!(!connecting.cancel());
            }
            assert_sleeps(&event_loop);
            for _ in &queued {
                let accepting = event_loop.sock_accept(&listener);
                event_loop.run_until_complete(accepting.take()).unwrap();
            }
            let again = event_loop.sock_connect(address);
            let near = event_loop.run_until_complete(again).unwrap();
            let accepting = event_loop.sock_accept(&listener);
            let (far, _) = event_loop.run_until_complete(accepting.take()).unwrap();
            send(&near, b"hello");
            let received = event_loop.run_until_complete(event_loop.sock_recv(&far, 10));
            assert_eq!(received.unwrap(), b"hello");
        }
    }

    // field: BR-45
    #[test]
    fn a_waiting_connect_is_given_up_and_its_number_used_by_another_socket_in_one_tick() {
        let _watchdog = Watchdog::start();
        let event_loop = EventLoop::new().unwrap();
        let (_listener, _queued, connecting) = waiting_connect(&event_loop);
        let (near, far) = crate::common::pair();
        let (handle, log) = (event_loop.handle(), Log::new());
        let received = log.clone();
        event_loop.call_soon(move || {
            drop(connecting);
            received.push(handle.sock_recv(&near, 10));
        });
        tick(&event_loop);
        send(&far, b"mine");
        let receiving = log.take().remove(0);
        let received = event_loop.run_until_complete(receiving);
        assert_eq!(received.unwrap(), b"mine");
    }

    fn open_descriptors() -> usize {
        // The listing itself holds one.
        fs::read_dir("/proc/self/fd").unwrap().count() - 1
    }

    // field: BR-45
    #[test]
    fn every_socket_of_a_connect_is_closed_exactly_once() {
        let name = "connecting::with_a_full_backlog::every_socket_of_a_connect_is_closed_exactly_once";
        in_own_process(name, || {
            let _watchdog = Watchdog::start();
            let event_loop = EventLoop::new().unwrap();
            let (_closed, refusing) = bound();
            let (listener, _queued, waiting) = waiting_connect(&event_loop);
            drop(waiting);
            let full = listener.local_addr().unwrap();
            let before = open_descriptors();

            // A second close would hit a canary that was opened after the first.
            let canaries = Log::new();
            let canary = |log: &Log<File>| log.push(File::open("/dev/null").unwrap());
            for _ in 0..50 {
                let connecting = event_loop.sock_connect(refusing);
                let opened = canaries.clone();
                connecting.add_done_callback(move |_| canary(&opened));
                event_loop.run_until_complete(connecting).unwrap_err();
                canary(&canaries);

                let cancelled = event_loop.sock_connect(full);
                tick(&event_loop);
                assert!(cancelled.cancel());
                canary(&canaries);
                tick(&event_loop);
                drop(cancelled);
                canary(&canaries);

                let dropped = event_loop.sock_connect(full);
                tick(&event_loop);
                drop(dropped);
                canary(&canaries);
                tick(&event_loop);
            }
            let canaries = canaries.take();
            assert_eq!(canaries.len(), 250);
            assert_eq!(open_descriptors(), before + 250);
            let mut numbers: Vec<_> = canaries.iter().map(AsRawFd::as_raw_fd).collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 250, "a number given out twice was closed between");
            for canary in &canaries {
                rustix::io::fcntl_getfd(canary.as_fd()).unwrap();
            }
        });
    }
}

// field: BR-45
#[test]
fn a_connect_whose_peer_closes_at_once_succeeds_and_reads_the_end() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let listener = listener();
    let connecting = event_loop.sock_connect(listener.local_addr().unwrap());
    let accepting = event_loop.sock_accept(&listener);
    drop(event_loop.run_until_complete(accepting.take()).unwrap());
    let near: Source<_> = event_loop.run_until_complete(connecting).unwrap();
    let received = event_loop.run_until_complete(event_loop.sock_recv(&near, 10));
    assert_eq!(received.unwrap(), b"");
    assert_eq!(read_up_to(near.get_ref(), 10).unwrap(), b"");
}
