//! Several receives of tasks on one source, or in one task; and those that are put aside or given away.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;

use futures_util::FutureExt;
use futures_util::future::{join, select};
use miniloop::{EventLoop, SockRecv};

use crate::common::{pair, recv, send};
use crate::direct::{poll_once, receiving};
use crate::support::{nothing_is_left, raised, settle, still_works, tick};

/// How often a task is stepped in ten ticks in which nothing happens but a callback each.
fn steps_while_idle(event_loop: &EventLoop, steps: &Cell<u32>) -> u32 {
    let before = steps.get();
    settle(event_loop);
    steps.get() - before
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
