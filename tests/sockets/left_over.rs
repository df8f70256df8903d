//! Operations that share a source or a task with something that goes its own way: they are not
//! left over.

use std::cell::RefCell;
use std::future::{Future as StdFuture, poll_fn};
use std::io::{self, Read};
use std::panic::panic_any;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::{Either, select};
use miniloop::{EventLoop, Exception, Future, Source};

use crate::common::{Boom, Stream, pair, send};
use crate::support::{Reports, settle, tick};

#[test]
fn receives_that_a_task_polled_and_left_when_it_ended_are_all_completed() {
    let event_loop = EventLoop::new().unwrap();
    let (pairs, done) = ([pair(), pair(), pair()], event_loop.create_future::<()>());
    let receives: Vec<_> = pairs
        .iter()
        .map(|(near, _)| event_loop.sock_recv(near, 5))
        .collect();
    let receives = Rc::new(RefCell::new(receives));
    let (polled, mut until) = (Rc::clone(&receives), done.clone());
    event_loop.create_task(async move {
        poll_fn(move |cx| {
            if until.done() {
                return Poll::Ready(Ok(()));
            }
            assert!(Pin::new(&mut until).poll(cx).is_pending());
            for receive in polled.borrow_mut().iter_mut() {
                assert!(Pin::new(receive).poll(cx).is_pending());
            }
            Poll::Pending
        })
        .await
    });
    tick(&event_loop);
    for (_, far) in &pairs {
        send(far, b"hello");
    }
    event_loop.call_soon(move || done.set_result(()).unwrap());
    settle(&event_loop);
    let results: Vec<_> = receives
        .borrow()
        .iter()
        .map(|receive| receive.result().unwrap())
        .collect();
    assert_eq!(results, [b"hello", b"hello", b"hello"]);
}

#[test]
fn a_reader_that_panics_each_time_does_not_keep_a_receive_waiting() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (near, far) = pair();
    event_loop
        .add_reader(&near, || panic_any(Exception::from(Boom("reader"))))
        .unwrap();
    let received = event_loop.sock_recv(&near, 5);
    received.add_done_callback(|_| ());
    tick(&event_loop);
    send(&far, b"hello");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"hello");
    assert_eq!(reports.take()[0], "Exception in callback: error:reader");
    assert!(event_loop.remove_reader(&near), "it stays");
}

/// Takes all that is there from its socket, and gives it out piece by piece.
struct Buffered {
    socket: Stream,
    buffer: RefCell<Vec<u8>>,
}

impl Read for &Buffered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            let mut all = [0; 100];
            let received = (&self.socket).read(&mut all)?;
            buffer.extend(&all[..received]);
        }
        let count = into.len().min(buffer.len());
        into[..count].copy_from_slice(&buffer[..count]);
        buffer.drain(..count);
        Ok(count)
    }
}

/// A connection whose near end is such a stream.
fn buffered_pair() -> (Source<Buffered>, Source<Stream>) {
    let (near, far) = pair();
    let near = Buffered {
        socket: near.into_inner().unwrap(),
        buffer: RefCell::default(),
    };
    (Source::new(near).unwrap(), far)
}

#[cfg(unix)]
impl std::os::fd::AsFd for Buffered {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Buffered {
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.socket.as_socket()
    }
}

#[test]
fn a_receive_that_lost_a_select_gets_what_its_stream_holds_through_its_clone() {
    let event_loop = EventLoop::new().unwrap();
    let (stream, far) = buffered_pair();
    let handle = event_loop.handle();
    let (first, second): (Future<()>, Future<()>) = (handle.create_future(), handle.create_future());
    let (signal, finish) = (first.clone(), second.clone());
    let receive = event_loop.sock_recv(&stream, 3);
    let kept = receive.clone();
    let task = event_loop.create_task(async move {
        match select(first, receive).await {
            Either::Left((signalled, _lost)) => signalled?,
            Either::Right(_) => panic!("there was nothing to receive"),
        }
        second.await
    });
    tick(&event_loop);
    // Ready in the very tick in which the other branch wins.
    send(&far, b"abcdef");
    event_loop.call_soon(move || signal.set_result(()).unwrap());
    settle(&event_loop);
    assert_eq!(event_loop.run_until_complete(kept).unwrap(), b"abc");
    assert_eq!(
        event_loop
            .run_until_complete(event_loop.sock_recv(&stream, 3))
            .unwrap(),
        b"def"
    );
    finish.set_result(()).unwrap();
    event_loop.run_until_complete(task).unwrap();
}

#[test]
fn a_receive_that_lost_a_select_does_not_overtake_the_one_before_it() {
    let event_loop = EventLoop::new().unwrap();
    let (stream, far) = buffered_pair();
    let first = event_loop.sock_recv(&stream, 3);
    first.add_done_callback(|_| ());
    let second = event_loop.sock_recv(&stream, 3);
    let (kept, signal) = (second.clone(), event_loop.create_future::<()>());
    let signalled = signal.clone();
    let task = event_loop.create_task(async move {
        match select(signalled, second).await {
            Either::Left((_, lost)) => drop(lost),
            Either::Right(_) => panic!("there was nothing to receive"),
        }
        // Before the system can be asked again.
        send(&far, b"abc");
        Ok(far)
    });
    settle(&event_loop);
    event_loop.call_soon(move || signal.set_result(()).unwrap());
    let far = event_loop.run_until_complete(task.take()).unwrap();
    settle(&event_loop);
    assert_eq!(first.result().unwrap(), b"abc");
    assert!(!kept.done());
    send(&far, b"def");
    assert_eq!(event_loop.run_until_complete(kept).unwrap(), b"def");
}

#[test]
fn a_loop_that_is_never_idle_forgets_the_sources_that_come_and_go() {
    // Real time, for only there polls are left out; what is told to the system late is told.
    let event_loop = EventLoop::new().unwrap();
    let before = event_loop.pass_count();
    event_loop.call_soon({
        let handle = event_loop.handle();
        move || come_and_go(handle, 1000)
    });
    event_loop.run_forever().unwrap();
    let passes = event_loop.pass_count() - before;
    assert!(
        passes >= 1000 / 61,
        "{passes} passes in 1,000 ticks with changes to tell"
    );

    fn come_and_go(event_loop: miniloop::LoopHandle, left: u32) {
        if left == 0 {
            return event_loop.stop();
        }
        let (near, _far) = pair();
        event_loop.add_reader(&near, || ()).unwrap();
        event_loop.remove_reader(&near);
        drop(near);
        let handle = event_loop.clone();
        event_loop.call_soon(move || come_and_go(handle, left - 1));
    }
}
