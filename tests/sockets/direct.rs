//! Receives that a task calls for itself: they have no future unless somebody asks for one.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::join;
use miniloop::{EventLoop, LoopHandle, RuntimeError, SockRecv, Source};

use crate::common::{Stream, pair, recv, send};
use crate::support::{OnDrop, misuse, nothing_is_left, raised, settle, tick};

/// Polls a receive once, which has to wait, and puts it aside.
pub async fn poll_once(receive: &mut SockRecv) {
    poll_fn(|cx| {
        assert!(receive.poll_unpin(cx).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A task that receives, and a place where what it got is to be seen.
pub fn receiving(event_loop: &EventLoop, source: &Source<Stream>) -> miniloop::Task<Vec<u8>> {
    let (handle, source) = (event_loop.handle(), source.clone());
    event_loop.create_task(async move { handle.sock_recv(&source, 10).await })
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
