//! Receives that a task awaits: it is woken when the source is ready, and receives in its own step.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt;
use miniloop::{EventLoop, Future};

use crate::common::{pair, send};
use crate::support::{OnDrop, nothing_is_left, settle, still_works, tick};

/// Waits for a future, and counts how often it was polled until that was done.
async fn counting_polls<T: Clone + 'static>(
    mut future: Future<T>,
    polls: Rc<Cell<u32>>,
) -> miniloop::Result<T> {
    poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.poll_unpin(cx)
    })
    .await
}

#[test]
fn a_task_that_has_received_is_not_stepped_for_that_again() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (receiving, waiting) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let rest = event_loop.create_future::<()>();
    let received = counting_polls(event_loop.sock_recv(&left, 10), receiving.clone());
    let afterwards = counting_polls(rest.clone(), waiting.clone());
    let task = event_loop.create_task(async move {
        let data = received.await?;
        afterwards.await?;
        Ok(data)
    });
    settle(&event_loop);
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!((receiving.get(), waiting.get()), (2, 1));
    rest.set_result(()).unwrap();
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    assert_eq!((receiving.get(), waiting.get()), (2, 2));
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_that_its_task_gave_away_ends_for_the_one_who_polls_it_then() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let given: Rc<RefCell<Option<Future<Vec<u8>>>>> = Rc::default();
    let mut receiving = event_loop.sock_recv(&left, 10);
    let (giver, steps) = (given.clone(), Rc::new(Cell::new(0)));
    let counted = steps.clone();
    let first = event_loop.create_task(async move {
        poll_fn(|cx| {
            assert!(receiving.poll_unpin(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        giver.replace(Some(receiving));
        poll_fn(|_| {
            counted.set(counted.get() + 1);
            Poll::<()>::Pending
        })
        .await;
        Ok(())
    });
    let second = event_loop.create_future();
    let (turn, taker) = (second.clone(), given.clone());
    let second_task = event_loop.create_task(async move {
        turn.await?;
        let receiving = taker.take();
        receiving.expect("it was given away").await
    });
    tick(&event_loop);
    // In the tick in which the source is seen to be ready the other task goes first.
    send(&right, b"x");
    second.set_result(()).unwrap();
    assert_eq!(event_loop.run_until_complete(second_task).unwrap(), b"x");
    assert!(!first.done());
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled());
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn all_tasks_that_await_one_receive_get_its_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let receiving = event_loop.sock_recv(&left, 10);
    let tasks = [(); 3].map(|()| event_loop.create_task(receiving.clone()));
    tick(&event_loop);
    send(&right, b"x");
    for task in tasks {
        assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    }
    assert_eq!(receiving.result().unwrap(), b"x");
    drop(receiving);
    nothing_is_left(&event_loop);
}

#[test]
fn one_of_two_awaited_receives_does_not_wake_for_the_other() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (first_polls, second_polls) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let first = counting_polls(event_loop.sock_recv(&left, 3), first_polls.clone());
    let second = counting_polls(event_loop.sock_recv(&left, 3), second_polls.clone());
    let (first, second) = (event_loop.create_task(first), event_loop.create_task(second));
    settle(&event_loop);
    send(&right, b"one");
    settle(&event_loop);
    assert_eq!(first.result().unwrap(), b"one");
    assert_eq!((first_polls.get(), second_polls.get()), (2, 1));
    send(&right, b"two");
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"two");
    assert_eq!((first_polls.get(), second_polls.get()), (2, 2));
}

#[test]
fn a_receive_whose_data_another_has_taken_waits_on() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let polls = Rc::new(Cell::new(0));
    let received = counting_polls(event_loop.sock_recv(&left, 10), polls.clone());
    let received = event_loop.create_task(received);
    settle(&event_loop);
    send(&right, b"x");
    // Between the readiness and the step somebody reads past the loop.
    let (source, taken) = (left.clone(), Rc::new(Cell::new(0)));
    let taking = taken.clone();
    event_loop
        .add_reader(&left, move || {
            let mut buffer = [0; 10];
            taking.set(taking.get() + std::io::Read::read(&mut &*source, &mut buffer).unwrap_or(0));
        })
        .unwrap();
    settle(&event_loop);
    assert_eq!(taken.get(), 1);
    assert!(event_loop.remove_reader(&left));
    assert!(!received.done());
    send(&right, b"y");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"y");
    nothing_is_left(&event_loop);
}

/// Has a receive wait with the last handle of its source, whose reader does something when it is dropped: to
/// a clone of that receive. Gives what the one who awaits it got.
fn with_a_reader_that_goes(
    action: impl Fn(&Future<Vec<u8>>) + 'static,
    polls: Rc<Cell<u32>>,
) -> miniloop::Result<Vec<u8>> {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let clone = received.clone();
    let when_dropped = OnDrop::new(move || action(&clone));
    let reader = move || {
        let _ = &when_dropped;
    };
    event_loop.add_reader(&left, reader).unwrap();
    drop(left);
    let rest = event_loop.create_future::<()>();
    let afterwards = counting_polls(rest.clone(), polls);
    let task = event_loop.create_task(async move {
        let outcome = received.await;
        afterwards.await?;
        outcome
    });
    settle(&event_loop);
    send(&right, b"hello");
    settle(&event_loop);
    rest.set_result(()).unwrap();
    let outcome = event_loop.run_until_complete(task);
    nothing_is_left(&event_loop);
    outcome
}

#[test]
fn a_receive_that_is_cancelled_by_what_goes_with_it_is_cancelled() {
    let polls = Rc::new(Cell::new(0));
    let outcome = with_a_reader_that_goes(|receive| assert!(receive.cancel()), polls.clone());
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(polls.get(), 2);
}

#[test]
fn a_callback_that_is_added_by_what_goes_with_a_receive_is_called() {
    let (polls, heard) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    let log = heard.clone();
    let add = move |receive: &Future<Vec<u8>>| {
        let log = log.clone();
        receive.add_done_callback(move |receive| log.borrow_mut().push(receive.result().unwrap()));
    };
    let outcome = with_a_reader_that_goes(add, polls.clone());
    assert_eq!(outcome.unwrap(), b"hello");
    assert_eq!(*heard.borrow(), [b"hello"]);
    assert_eq!(polls.get(), 2);
}
