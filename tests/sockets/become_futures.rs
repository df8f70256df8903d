//! Receives of tasks that somebody asks for their future, while they wait or later.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use futures_util::stream::{FuturesUnordered, StreamExt};
use miniloop::{
    CancelScope, EventLoop, FakeClock, Future, InvalidStateError, RuntimeError, SockRecv, Source, gather,
    timeout,
};

use crate::common::{Stream, pair, send};
use crate::direct::{poll_once, receiving};
use crate::support::{Reports, invalid_state, misuse, nothing_is_left, settle, tick};

/// Has a task wait for a receive that others can look at.
fn shared_receive(
    event_loop: &EventLoop,
    source: &Source<Stream>,
) -> (miniloop::Task<Vec<u8>>, Rc<RefCell<Option<SockRecv>>>) {
    let (handle, source) = (event_loop.handle(), source.clone());
    let shared: Rc<RefCell<Option<SockRecv>>> = Rc::default();
    let place = shared.clone();
    let task = event_loop.create_task(async move {
        place.replace(Some(handle.sock_recv(&source, 10)));
        poll_fn(|cx| match &mut *place.borrow_mut() {
            Some(receive) => receive.poll_unpin(cx),
            None => Poll::Pending,
        })
        .await
    });
    tick(event_loop);
    (task, shared)
}

#[test]
fn whoever_asks_for_the_future_of_a_receive_that_waits_shares_its_outcome() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (task, shared) = shared_receive(&event_loop, &left);
    let future: Future<Vec<u8>> = {
        let shared = shared.borrow();
        let receive = shared.as_ref().unwrap();
        assert!(!receive.done());
        Future::clone(receive)
    };
    settle(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    assert_eq!(future.result().unwrap(), b"x");
    drop((future, shared));
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_is_cancelled_by_others_is_cancelled_for_its_task() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    let (task, shared) = shared_receive(&event_loop, &left);
    assert!(shared.borrow().as_ref().unwrap().cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    drop(shared);
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_is_dropped_elsewhere_is_waited_for_no_more() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    let (task, shared) = shared_receive(&event_loop, &left);
    drop(shared.take());
    nothing_is_left(&event_loop);
    // Its task is suspended at nothing that could deliver it.
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert!(left.into_inner().is_ok());
}

#[test]
fn a_receive_has_a_futures_methods_before_and_after() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move {
        let receive = handle.sock_recv(&left, 10);
        assert!(receive.get_loop().create_future::<()>().cancel());
        assert!(!receive.done());
        assert!(receive.cancel());
        assert!(receive.await.unwrap_err().is_cancelled());

        send(&right, b"x");
        let mut receive = handle.sock_recv(&left, 10);
        assert_eq!((&mut receive).await.unwrap(), b"x");
        assert!(receive.done());
        // It was moved out, as out of the last handle of a future.
        assert_eq!(invalid_state(receive.result()), InvalidStateError::Taken);
        assert_eq!(invalid_state((&mut receive).await), InvalidStateError::Taken);

        send(&right, b"y");
        assert_eq!(handle.sock_recv(&left, 10).take().await.unwrap(), b"y");
        send(&right, b"z");
        let (one, two) = (handle.sock_recv(&left, 10).clone(), handle.sock_recv(&left, 10));
        assert_eq!(one.await.unwrap(), b"z");
        send(&right, b"a");
        assert_eq!(gather([two]).await.unwrap(), [b"a".to_vec()]);
        Ok(())
    });
    event_loop.run_until_complete(task).unwrap();
    nothing_is_left(&event_loop);
}

#[test]
fn a_failure_is_kept_for_whoever_asks() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    // Nothing can be received from it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let unconnected = socket2::Socket::from(listener);
    let source: Source<std::net::TcpStream> = Source::new(unconnected.into()).unwrap();
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        let first = (&mut receive).await.unwrap_err().to_string();
        assert_eq!(receive.exception().unwrap().unwrap().to_string(), first);
        assert_eq!(receive.await.unwrap_err().to_string(), first);
        Ok(())
    });
    event_loop.run_until_complete(task).unwrap();
    assert!(reports.take().is_empty());
    nothing_is_left(&event_loop);
}

#[test]
fn a_cancelled_scope_a_timeout_that_expires_and_wakers_of_others_find_a_future() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let (left, right) = pair();
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move {
        let late = timeout(Duration::from_secs(1))
            .run(handle.sock_recv(&left, 10))
            .await;
        assert!(late.is_err());
        let scope = CancelScope::new();
        scope.cancel();
        let _ = scope
            .run(async { handle.sock_recv(&left, 10).await.map(drop) })
            .await;
        send(&right, b"x");
        let mut receives: FuturesUnordered<_> = [handle.sock_recv(&left, 10)].into_iter().collect();
        assert_eq!(receives.next().await.unwrap().unwrap(), b"x");
        Ok(())
    });
    event_loop.run_until_complete(task).unwrap();
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_waits_is_taken_into_a_timeout_with_its_place() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        let late = timeout(Duration::from_secs(1)).run(&mut receive).await;
        assert!(late.is_err());
        drop(receive);
        send(&right, b"x");
        handle.sock_recv(&source, 10).await
    });
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

/// A second source of the descriptor that a source has.
#[cfg(unix)]
#[allow(unsafe_code)] // a number can not be given two owners without
fn twin_of(source: &Source<Stream>) -> Source<Stream> {
    use std::os::fd::{AsRawFd, FromRawFd};

    // SAFETY: the number is open, and the caller lets only one of the two owners close it.
    Source::new(unsafe { Stream::from_raw_fd(source.as_raw_fd()) }).unwrap()
}

#[cfg(unix)]
#[test]
fn a_receive_fails_when_another_source_takes_its_descriptor_over() {
    use std::io::ErrorKind;
    use std::os::fd::IntoRawFd;

    use crate::support::io_error_kind;

    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (waiting, queued) = (receiving(&event_loop, &left), receiving(&event_loop, &left));
    tick(&event_loop);
    let twin = twin_of(&left);
    let received = receiving(&event_loop, &twin);
    settle(&event_loop);
    assert_eq!(io_error_kind(waiting.result()), ErrorKind::AlreadyExists);
    assert_eq!(io_error_kind(queued.result()), ErrorKind::AlreadyExists);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    nothing_is_left(&event_loop);
    let _ = twin.into_inner().unwrap().into_raw_fd();
}

#[cfg(unix)]
#[test]
fn a_failure_that_nobody_looked_at_is_reported() {
    use std::os::fd::IntoRawFd;

    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (left, _right) = pair();
    let (task, shared) = shared_receive(&event_loop, &left);
    let twin = twin_of(&left);
    let other = receiving(&event_loop, &twin);
    // Lost, but its task has not been stepped for that yet.
    event_loop.call_soon(move || drop(shared.take()));
    tick(&event_loop);
    let reported = reports.take();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("Future exception was never retrieved"));
    task.cancel();
    other.cancel();
    settle(&event_loop);
    nothing_is_left(&event_loop);
    let _ = twin.into_inner().unwrap().into_raw_fd();
}

#[test]
fn a_loop_that_is_closed_lets_go_of_its_receives() {
    let (left, right) = pair();
    {
        let event_loop = EventLoop::new().unwrap();
        let task = receiving(&event_loop, &left);
        let (aside, shared) = shared_receive(&event_loop, &left);
        settle(&event_loop);
        event_loop.close().unwrap();
        assert_eq!(misuse(task.result()), RuntimeError::LoopClosed);
        assert_eq!(misuse(aside.result()), RuntimeError::LoopClosed);
        drop(shared);
    }
    let event_loop = EventLoop::new().unwrap();
    let task = receiving(&event_loop, &left);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    assert!(left.into_inner().is_ok());
}

#[test]
fn a_receive_that_is_asked_in_the_step_that_polled_it_still_wakes_its_task() {
    type Ask = fn(&SockRecv);
    let asks: [Ask; 4] = [
        |receive| assert!(!receive.done()),
        |receive| drop(format!("{receive:?}")),
        |receive| drop(receive.clone()),
        |receive| assert!(receive.cancel()),
    ];
    for (nth, ask) in asks.into_iter().enumerate() {
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair();
        let (handle, source) = (event_loop.handle(), left.clone());
        let task = event_loop.create_task(async move {
            let mut receive = handle.sock_recv(&source, 10);
            let mut is_first = true;
            poll_fn(|cx| {
                let polled = receive.poll_unpin(cx);
                if std::mem::take(&mut is_first) {
                    ask(&receive);
                }
                polled
            })
            .await
        });
        settle(&event_loop);
        send(&right, b"x");
        settle(&event_loop);
        let outcome = task.result();
        if nth == 3 {
            assert!(outcome.unwrap_err().is_cancelled());
        } else {
            assert_eq!(outcome.unwrap(), b"x");
        }
        nothing_is_left(&event_loop);
    }
}

#[test]
fn a_receive_that_has_outlived_its_loop_leaves_the_next_loop_alone() {
    let (left, right) = pair();
    let first = EventLoop::new().unwrap();
    let (_task, shared) = shared_receive(&first, &left);
    first.close().unwrap();
    let second = EventLoop::new().unwrap();
    let received = second.sock_recv(&left, 10);
    settle(&second);
    drop(shared.take());
    send(&right, b"x");
    assert_eq!(second.run_until_complete(received).unwrap(), b"x");
}

/// A task that receives beside a timeout, and one behind it in the queue.
fn beside_a_timeout(
    event_loop: &EventLoop,
    source: &Source<Stream>,
) -> (miniloop::Task<Vec<u8>>, miniloop::Task<Vec<u8>>) {
    let (handle, source_too) = (event_loop.handle(), source.clone());
    let first = event_loop.create_task(async move {
        let long = handle.sleep(Duration::from_secs(9));
        let beside = timeout(Duration::from_secs(1)).run(long);
        let (received, late) = join(handle.sock_recv(&source_too, 3), beside).await;
        assert!(late.is_err());
        received
    });
    tick(event_loop);
    (first, receiving(event_loop, source))
}

#[test]
fn a_receive_keeps_its_place_when_a_timeout_beside_it_fires() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let (left, right) = pair();
    let (first, second) = beside_a_timeout(&event_loop, &left);
    settle(&event_loop);
    clock.advance(Duration::from_secs(1));
    settle(&event_loop);
    send(&right, b"onetwo");
    settle(&event_loop);
    assert_eq!(first.result().unwrap(), b"one");
    assert_eq!(second.result().unwrap(), b"two");
}

#[test]
fn a_receive_that_was_told_when_a_timeout_beside_it_fires_is_not_late() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let (left, right) = pair();
    let (first, second) = beside_a_timeout(&event_loop, &left);
    settle(&event_loop);
    clock.advance(Duration::from_secs(1));
    send(&right, b"one");
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(first.result().unwrap(), b"one");
    assert!(second.cancel());
    settle(&event_loop);
}
