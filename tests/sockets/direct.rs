//! Receives that a task calls for itself: they have no future unless somebody asks for one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use miniloop::{
    CancelScope, EventLoop, FakeClock, Future, InvalidStateError, LoopHandle, RuntimeError, SockRecv, Source,
    gather, timeout,
};

use crate::common::{Stream, pair, recv, send};
use crate::support::{
    OnDrop, Reports, invalid_state, misuse, nothing_is_left, raised, settle, still_works, tick,
};

/// Polls a receive once, which has to wait, and puts it aside.
async fn poll_once(receive: &mut SockRecv) {
    poll_fn(|cx| {
        assert!(receive.poll_unpin(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A task that receives, and a place where what it got is to be seen.
fn receiving(event_loop: &EventLoop, source: &Source<Stream>) -> miniloop::Task<Vec<u8>> {
    let (handle, source) = (event_loop.handle(), source.clone());
    event_loop.create_task(async move { handle.sock_recv(&source, 10).await })
}

/// How often a task is stepped in ten ticks in which nothing happens but a callback each.
fn steps_while_idle(event_loop: &EventLoop, steps: &Cell<u32>) -> u32 {
    let before = steps.get();
    settle(event_loop);
    steps.get() - before
}

#[test]
fn a_receive_ends_in_the_step_that_readiness_has_scheduled() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let task = receiving(&event_loop, &left);
    tick(&event_loop);
    send(&right, b"x");
    // The source is seen to be ready, and the task is woken;
    tick(&event_loop);
    assert!(!task.done());
    // its step receives.
    tick(&event_loop);
    assert_eq!(task.result().unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn what_is_there_already_is_received_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    send(&right, b"x");
    let task = receiving(&event_loop, &left);
    tick(&event_loop);
    assert_eq!(task.result().unwrap(), b"x");
}

#[test]
fn a_cancelled_receive_says_why_and_takes_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let task = receiving(&event_loop, &left);
    tick(&event_loop);
    assert!(task.cancel_with("enough"));
    send(&right, b"x");
    settle(&event_loop);
    let error = raised::<miniloop::CancelledError, _>(task.result());
    assert_eq!(error.message(), Some("enough"));
    let next = receiving(&event_loop, &left);
    assert_eq!(event_loop.run_until_complete(next).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_was_told_and_is_cancelled_before_its_step_takes_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let task = receiving(&event_loop, &left);
    tick(&event_loop);
    send(&right, b"x");
    tick(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(recv(&left, 10), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn a_cancellation_that_is_caught_leaves_the_next_receive_alone() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let first = handle.sock_recv(&source, 10).await;
        assert!(first.unwrap_err().is_cancelled());
        handle.sock_recv(&source, 10).await
    });
    tick(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(!task.done());
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
}

#[test]
fn a_receive_that_is_put_aside_takes_nothing_keeps_nobody_waiting_and_does_not_spin() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let turn = event_loop.create_future::<()>();
    let (rest, steps) = (turn.clone(), Rc::new(Cell::new(0)));
    let counted = steps.clone();
    let task = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        let mut rest = rest;
        poll_fn(|cx| {
            counted.set(counted.get() + 1);
            rest.poll_unpin(cx)
        })
        .await?;
        receive.await
    });
    tick(&event_loop);
    // It is told, and makes no use of that.
    send(&right, b"one");
    settle(&event_loop);
    assert_eq!(steps_while_idle(&event_loop, &steps), 0);
    let other = receiving(&event_loop, &left);
    assert_eq!(event_loop.run_until_complete(other).unwrap(), b"one");
    turn.set_result(()).unwrap();
    settle(&event_loop);
    assert!(!task.done());
    send(&right, b"two");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"two");
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_is_put_aside_and_told_gives_its_turn_to_the_next() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let aside = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        handle.create_future::<()>().await
    });
    tick(&event_loop);
    let next = receiving(&event_loop, &left);
    tick(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(next).unwrap(), b"x");
    // (It still has its receive, and drops it now.)
    let third = receiving(&event_loop, &left);
    tick(&event_loop);
    aside.cancel();
    settle(&event_loop);
    send(&right, b"y");
    assert_eq!(event_loop.run_until_complete(third).unwrap(), b"y");
    nothing_is_left(&event_loop);
}

#[test]
fn dropping_a_receive_that_lost_its_turn_does_not_end_the_wait_of_another() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let kept: Rc<RefCell<Option<SockRecv>>> = Rc::default();
    let keeper = kept.clone();
    let aside = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        keeper.replace(Some(receive));
        handle.create_future::<()>().await
    });
    tick(&event_loop);
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!(recv(&left, 10), b"x");
    let other = receiving(&event_loop, &left);
    tick(&event_loop);
    drop(kept.take().unwrap());
    send(&right, b"y");
    assert_eq!(event_loop.run_until_complete(other).unwrap(), b"y");
    aside.cancel();
    settle(&event_loop);
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_loses_a_select_takes_nothing_and_wins_the_next() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let first = event_loop.create_future::<()>();
    let signal = first.clone();
    let task = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        select(signal, &mut receive).await;
        receive.await
    });
    tick(&event_loop);
    first.set_result(()).unwrap();
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn one_task_receives_from_two_sources_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let ((left, right), (left_too, right_too)) = (pair(), pair());
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move {
        let both = join(handle.sock_recv(&left, 10), handle.sock_recv(&left_too, 10)).await;
        Ok((both.0?, both.1?))
    });
    settle(&event_loop);
    send(&right_too, b"two");
    settle(&event_loop);
    assert!(!task.done());
    send(&right, b"one");
    let both = event_loop.run_until_complete(task).unwrap();
    assert_eq!(both, (b"one".to_vec(), b"two".to_vec()));
    nothing_is_left(&event_loop);
}

#[test]
fn cancelling_a_task_ends_both_of_its_receives() {
    let event_loop = EventLoop::new().unwrap();
    let ((left, right), (left_too, right_too)) = (pair(), pair());
    let (handle, sources) = (event_loop.handle(), (left.clone(), left_too.clone()));
    let task = event_loop.create_task(async move {
        let (one, two) = (handle.sock_recv(&sources.0, 10), handle.sock_recv(&sources.1, 10));
        let both = join(one, two).await;
        assert!(both.0.unwrap_err().is_cancelled());
        assert!(both.1.unwrap_err().is_cancelled());
        Ok(())
    });
    settle(&event_loop);
    assert!(task.cancel());
    event_loop.run_until_complete(task).unwrap();
    send(&right, b"x");
    send(&right_too, b"x");
    assert_eq!(recv(&left, 10), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn receives_on_one_source_are_served_in_the_order_they_were_awaited() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let (late, early) = (handle.sock_recv(&source, 3), handle.sock_recv(&source, 3));
        let both = join(early, late).await;
        Ok((both.0?, both.1?))
    });
    let third = receiving(&event_loop, &left);
    settle(&event_loop);
    send(&right, b"onetwothree");
    let both = event_loop.run_until_complete(task).unwrap();
    assert_eq!(both, (b"one".to_vec(), b"two".to_vec()));
    assert_eq!(event_loop.run_until_complete(third).unwrap(), b"three");
    nothing_is_left(&event_loop);
}

#[test]
fn in_callback_code_a_receive_has_its_place_from_the_call_on() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, heard) = (event_loop.handle(), Rc::new(RefCell::new(Vec::new())));
    let log = heard.clone();
    event_loop.call_soon(move || {
        let (first, second) = (handle.sock_recv(&left, 3), handle.sock_recv(&left, 3));
        for (name, receive) in [("second", second), ("first", first)] {
            let log = log.clone();
            receive.add_done_callback(move |received| {
                log.borrow_mut().push((name, received.result().unwrap()));
            });
        }
    });
    tick(&event_loop);
    send(&right, b"onetwo");
    settle(&event_loop);
    let expected = [("first", b"one".to_vec()), ("second", b"two".to_vec())];
    assert_eq!(*heard.borrow(), expected);
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_moved_to_another_task_ends_there() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let given: Rc<RefCell<Option<SockRecv>>> = Rc::default();
    let giver = given.clone();
    let first = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        giver.replace(Some(receive));
        handle.create_future::<()>().await
    });
    tick(&event_loop);
    let second = event_loop.create_task(async move { given.take().unwrap().await });
    tick(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"x");
    assert!(!first.done());
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled());
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

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
fn a_scope_a_timeout_and_wakers_of_others_find_a_future() {
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

#[test]
fn a_reader_beside_a_receive_is_called_first() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let task = receiving(&event_loop, &left);
    let calls = Rc::new(Cell::new(0));
    let counted = calls.clone();
    event_loop
        .add_reader(&left, move || counted.set(counted.get() + 1))
        .unwrap();
    tick(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    assert!(calls.get() > 0);
    assert!(event_loop.remove_reader(&left));
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_whose_data_somebody_else_took_waits_on_without_spinning() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let task = receiving(&event_loop, &left);
    tick(&event_loop);
    send(&right, b"x");
    tick(&event_loop);
    assert_eq!(recv(&left, 10), b"x");
    settle(&event_loop);
    assert!(!task.done());
    send(&right, b"y");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"y");
}

#[test]
fn a_source_that_another_loop_waits_for_is_refused() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let (left, right) = pair();
    let waiting = receiving(&first, &left);
    settle(&first);
    let refused = receiving(&second, &left);
    assert_eq!(
        misuse(second.run_until_complete(refused)),
        RuntimeError::OtherLoop
    );
    send(&right, b"x");
    assert_eq!(first.run_until_complete(waiting).unwrap(), b"x");
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
fn a_task_that_panics_after_its_receive_has_begun_frees_the_source() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let mut receive = handle.sock_recv(&source, 10);
        poll_once(&mut receive).await;
        if !receive.done() {
            panic!("oh");
        }
        Ok(())
    });
    settle(&event_loop);
    assert!(task.exception().unwrap().is_some());
    let next = receiving(&event_loop, &left);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(next).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn the_end_of_the_stream_is_no_bytes() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let first = handle.sock_recv(&source, 10).await?;
        let end = handle.sock_recv(&source, 10).await?;
        let again = handle.sock_recv(&source, 10).await?;
        Ok((first, end, again))
    });
    tick(&event_loop);
    send(&right, b"x");
    drop(right);
    let received = event_loop.run_until_complete(task).unwrap();
    assert_eq!(received, (b"x".to_vec(), Vec::new(), Vec::new()));
    nothing_is_left(&event_loop);
}

#[test]
fn what_goes_with_the_last_handle_of_a_source_may_use_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, heard) = (event_loop.handle(), Rc::new(Cell::new(false)));
    let (flag, user) = (heard.clone(), event_loop.handle());
    let when_dropped = OnDrop::new(move || {
        user.call_soon(move || flag.set(true));
    });
    let reader = move || {
        let _ = &when_dropped;
    };
    event_loop.add_reader(&left, reader).unwrap();
    let task = event_loop.create_task(async move {
        let receive = handle.sock_recv(&left, 10);
        drop(left);
        receive.await
    });
    tick(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    settle(&event_loop);
    assert!(heard.get());
    nothing_is_left(&event_loop);
}

#[test]
fn a_step_that_a_receive_did_not_ask_for_does_not_disturb_it() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source): (LoopHandle, _) = (event_loop.handle(), left.clone());
    let signal = event_loop.create_future::<()>();
    let other = signal.clone();
    let task = event_loop.create_task(async move {
        let both = join(handle.sock_recv(&source, 10), other).await;
        both.0
    });
    tick(&event_loop);
    signal.set_result(()).unwrap();
    settle(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    send(&right, b"x");
    assert_eq!(recv(&left, 10), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_ended_with_a_cancellation_and_is_dropped_unseen_disturbs_nobody() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let first = event_loop.create_task(async move {
        let never = handle.create_future::<()>();
        let (_, received) = futures_util::try_join!(never, handle.sock_recv(&source, 10))?;
        Ok(received)
    });
    tick(&event_loop);
    let second = receiving(&event_loop, &left);
    // The other task begins between the request and the step that it leads to.
    assert!(first.cancel());
    settle(&event_loop);
    assert!(first.cancelled());
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn two_tasks_on_one_source_get_each_its_own_cancellation() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = receiving(&event_loop, &left);
    tick(&event_loop);
    let second = receiving(&event_loop, &left);
    first.cancel_with("first");
    event_loop.call_soon({
        let second = second.clone();
        move || assert!(second.cancel_with("second"))
    });
    settle(&event_loop);
    for (task, message) in [(first, "first"), (second, "second")] {
        let error = raised::<miniloop::CancelledError, _>(task.result());
        assert_eq!(error.message(), Some(message));
    }
    send(&right, b"x");
    assert_eq!(recv(&left, 10), b"x");
    nothing_is_left(&event_loop);
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
fn a_task_that_has_ended_is_in_no_queue() {
    for is_kept in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair();
        let (handle, source) = (event_loop.handle(), left.clone());
        let slot: Rc<RefCell<Option<SockRecv>>> = Rc::default();
        let place = slot.clone();
        let task = event_loop.create_task(async move {
            let mut receive = handle.sock_recv(&source, 10);
            poll_once(&mut receive).await;
            place.replace(Some(receive));
            Ok(())
        });
        settle(&event_loop);
        assert!(task.done());
        let kept = is_kept.then_some(task);
        let next = receiving(&event_loop, &left);
        tick(&event_loop);
        send(&right, b"x");
        assert_eq!(event_loop.run_until_complete(next).unwrap(), b"x");
        // Whoever has the receive may still await it.
        let last = event_loop.create_task(async move { slot.take().unwrap().await });
        tick(&event_loop);
        send(&right, b"y");
        assert_eq!(event_loop.run_until_complete(last).unwrap(), b"y");
        nothing_is_left(&event_loop);
        drop(kept);
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
