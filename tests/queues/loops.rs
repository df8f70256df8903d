//! Queues without a loop, with two, and with one that is closed.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures_util::poll;
use miniloop::{EventLoop, Queue, RuntimeError};

use crate::common::yields;
use crate::support::{Drops, Reports, misuse, settle, still_works, tick};

fn poll_now<F: std::future::Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn ready<F: std::future::Future>(future: F) -> F::Output {
    match poll_now(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

// brief: XT-9
#[test]
fn without_a_loop_everything_works_that_does_not_wait() {
    let queue = Queue::new(1);
    ready(queue.put_or_return(1)).unwrap();
    assert_eq!(ready(queue.get()).unwrap(), 1);
    queue.task_done().unwrap();
    ready(queue.join()).unwrap();
    assert!(queue.shutdown(true).is_empty());
    assert!(ready(queue.put_or_return(2)).unwrap_err().is_shut_down());
}

// brief: XT-9
#[test]
fn without_a_loop_a_wait_fails_and_the_item_comes_back() {
    let queue = Queue::new(1);
    assert_eq!(misuse(ready(queue.get())), RuntimeError::NoRunningLoop);
    queue.put_nowait("first").unwrap();
    let refused = ready(queue.put_or_return("second")).unwrap_err();
    let error = refused.exception().downcast_ref();
    assert_eq!(error, Some(&RuntimeError::NoRunningLoop));
    assert!(!refused.is_full() && !refused.is_cancelled());
    assert_eq!(refused.into_item(), "second");
    assert_eq!(misuse(ready(queue.join())), RuntimeError::NoRunningLoop);
    assert_eq!(queue.get_nowait().unwrap(), "first");
}

// brief: XT-9
#[test]
fn a_wait_on_another_loop_fails_while_the_first_is_open() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let queue = Queue::new(1);
    let getter = first.create_task(queue.get());
    settle(&first);
    let elsewhere = second.run_until_complete(queue.get());
    assert_eq!(misuse(elsewhere), RuntimeError::OtherLoop);
    // What does not wait may be done anywhere.
    let producer = queue.clone();
    let put = second.run_until_complete(producer.put("item"));
    put.unwrap();
    assert_eq!(first.run_until_complete(getter).unwrap(), "item");
}

// brief: XT-9
#[test]
fn a_queue_outlives_its_loop() {
    let queue = Queue::new(0);
    for round in 0..2 {
        let event_loop = EventLoop::new().unwrap();
        let getter = event_loop.create_task(queue.get());
        settle(&event_loop);
        queue.put_nowait(round).unwrap();
        assert_eq!(event_loop.run_until_complete(getter).unwrap(), round);
        event_loop.close().unwrap();
    }
}

// brief: XT-9
#[test]
fn a_loop_closed_while_getters_wait_takes_no_item_with_it() {
    for woken in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let reports = Reports::of(&event_loop);
        let queue = Queue::new(0);
        let getters = [(); 3].map(|()| event_loop.create_task(queue.get()));
        settle(&event_loop);
        if woken {
            queue.put_nowait("item").unwrap();
        }
        event_loop.close().unwrap();
        assert_eq!(
            reports.take(),
            ["3 tasks were destroyed but they are pending!"],
            "and nothing panicked"
        );
        for getter in &getters {
            assert_eq!(misuse(getter.result()), RuntimeError::LoopClosed);
        }
        let shown = format!("{queue:?}");
        assert!(shown.contains("getters: 0"), "{shown}");
        if !woken {
            queue.put_nowait("item").unwrap();
        }
        let next = EventLoop::new().unwrap();
        assert_eq!(next.run_until_complete(queue.get()).unwrap(), "item");
        still_works(&next);
    }
}

// brief: XT-9
#[test]
fn a_loop_closed_while_putters_wait_drops_their_items_once() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let drops = Drops::default();
    let queue = Queue::new(1);
    queue.put_nowait(drops.counted()).unwrap();
    for _ in 0..3 {
        let (producer, item) = (queue.clone(), drops.counted());
        event_loop.create_task(producer.put(item));
    }
    settle(&event_loop);
    drop(queue.get_nowait().unwrap());
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 4);
    assert!(queue.empty());
    let shown = format!("{queue:?}");
    assert!(shown.contains("putters: 0"), "{shown}");
    queue.put_nowait(drops.counted()).unwrap();
}

// brief: XT-9
#[test]
fn a_getter_polled_by_hand_gets_its_item_after_its_loop_is_closed() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(0);
    let mut getter = Box::pin(queue.get());
    let polled = event_loop.run_until_complete(async move {
        assert!(poll!(&mut getter).is_pending());
        yields(1).await?;
        Ok(getter)
    });
    let getter = polled.unwrap();
    event_loop.close().unwrap();
    queue.put_nowait("item").unwrap();
    assert_eq!(ready(getter).unwrap(), "item");
}

// brief: XT-9
#[test]
fn a_queue_that_is_dropped_with_its_last_handle_in_a_waiting_task_is_gone_with_the_loop() {
    let drops = Drops::default();
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let queue = Queue::new(1);
    queue.put_nowait(drops.counted()).unwrap();
    let (producer, item) = (queue.clone(), drops.counted());
    event_loop.create_task(producer.put(item));
    tick(&event_loop);
    drop((queue, producer));
    assert_eq!(drops.count(), 0);
    drop(event_loop);
    assert_eq!(drops.count(), 2);
}
