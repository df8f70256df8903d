//! Futures inside other crates' combinators: foreign wakers, and losers that are dropped.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::{FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{join, select_biased};

use miniloop::{EventLoop, Exception, Future};

use crate::common::{Boom, pair, send, virtual_loop};
use crate::support::{nothing_is_left, raised, settle, still_works, tick};

#[test]
fn futures_unordered_gives_results_in_the_order_of_completion() {
    let (event_loop, _clock) = virtual_loop();
    let handle = event_loop.handle();
    let order = event_loop.run_until_complete(async move {
        let mut waiting: FuturesUnordered<_> = [3, 1, 2]
            .map(|delay| {
                let slept = handle.sleep(Duration::from_secs(delay));
                async move { slept.await.map(|()| delay) }
            })
            .into_iter()
            .collect();
        let mut order = Vec::new();
        while let Some(delay) = waiting.next().await {
            order.push(delay?);
        }
        Ok(order)
    });
    assert_eq!(order.unwrap(), [1, 2, 3]);
    still_works(&event_loop);
}

#[test]
fn futures_unordered_of_plain_futures_is_woken_for_each() {
    let event_loop = EventLoop::new().unwrap();
    let futures: Vec<Future<u32>> = (0..100).map(|_| event_loop.create_future()).collect();
    let waiting: FuturesUnordered<_> = futures.iter().cloned().collect();
    let sum = event_loop.create_task(async move {
        let values: Vec<_> = waiting.collect().await;
        let mut sum = 0;
        for value in values {
            sum += value?;
        }
        Ok(sum)
    });
    tick(&event_loop);
    for (future, value) in futures.into_iter().zip(0..) {
        event_loop.call_soon(move || future.set_result(value).unwrap());
    }
    assert_eq!(event_loop.run_until_complete(sum).unwrap(), 4950);
}

#[test]
fn join_waits_for_all_of_them_at_once() {
    let (event_loop, clock) = virtual_loop();
    let before = clock.time();
    let handle = event_loop.handle();
    let (left, right) = pair();
    let joined = event_loop.run_until_complete(async move {
        let both = async {
            handle.sleep(Duration::from_secs(2)).await?;
            send(&right, b"x");
            Ok::<_, Exception>(1)
        };
        let received = handle.sock_recv(&left, 10);
        let failing = async {
            handle.sleep(Duration::from_secs(1)).await?;
            Err::<u32, _>(Exception::from(Boom("one")))
        };
        let (one, data, failed) = join!(both, received, failing);
        Ok((one?, data?, raised::<Boom, _>(failed)))
    });
    assert_eq!(joined.unwrap(), (1, b"x".to_vec(), Boom("one")));
    assert_eq!(
        clock.time() - before,
        Duration::from_secs(2),
        "not one after the other"
    );
    still_works(&event_loop);
}

#[test]
fn join_all_over_tasks_keeps_their_order() {
    let (event_loop, _clock) = virtual_loop();
    let handle = event_loop.handle();
    let joined = event_loop.run_until_complete(async move {
        let tasks: Vec<_> = [2, 1]
            .into_iter()
            .map(|delay| {
                let slept = handle.sleep(Duration::from_secs(delay));
                handle.create_task(async move { slept.await.map(|()| delay) })
            })
            .collect();
        join_all(tasks).await.into_iter().collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(joined.unwrap(), [2, 1]);
}

#[test]
fn the_loser_of_a_select_is_unregistered() {
    let (event_loop, _clock) = virtual_loop();
    let handle = event_loop.handle();
    let (left, right) = pair();
    let source = left.clone();
    let winner = event_loop.run_until_complete(async move {
        let mut received = handle.sock_recv(&source, 10).fuse();
        let mut slept = handle.sleep(Duration::from_secs(1)).fuse();
        Ok(select_biased! {
            data = received => data.map(|_| "received")?,
            done = slept => done.map(|()| "slept")?,
        })
    });
    assert_eq!(winner.unwrap(), "slept");
    nothing_is_left(&event_loop);
    // what comes later was not eaten by the loser
    send(&right, b"later");
    settle(&event_loop);
    let received = event_loop.run_until_complete(event_loop.sock_recv(&left, 10));
    assert_eq!(received.unwrap(), b"later");
    still_works(&event_loop);
}

#[test]
fn the_timer_of_a_losing_sleep_is_cancelled() {
    let (event_loop, clock) = virtual_loop();
    let before = clock.time();
    let handle = event_loop.handle();
    let winner = event_loop.run_until_complete(async move {
        let mut long = handle.sleep(Duration::from_secs(3600)).fuse();
        let mut short = handle.sleep(Duration::from_secs(1)).fuse();
        Ok(select_biased! {
            done = long => done.map(|()| "long")?,
            done = short => done.map(|()| "short")?,
        })
    });
    assert_eq!(winner.unwrap(), "short");
    // nothing is left that could complete this: a timer of the loser would be waited for
    nothing_is_left(&event_loop);
    assert_eq!(clock.time() - before, Duration::from_secs(1));
}

/// A waker of no executor at all.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T: Clone + 'static>(future: &mut Future<T>, waker: &Waker) -> Poll<miniloop::Result<T>> {
    Pin::new(future).poll_unpin(&mut Context::from_waker(waker))
}

#[test]
fn a_future_polled_by_hand_wakes_the_waker_it_was_given() {
    let event_loop = EventLoop::new().unwrap();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let future = event_loop.create_future();
    let mut polled = future.clone();
    assert!(poll(&mut polled, &waker).is_pending());
    assert_eq!(bell.0.load(Ordering::SeqCst), 0);
    future.set_result(1).unwrap();
    settle(&event_loop);
    assert_eq!(bell.0.load(Ordering::SeqCst), 1);
    match poll(&mut polled, &waker) {
        Poll::Ready(value) => assert_eq!(value.unwrap(), 1),
        Poll::Pending => panic!("it is done"),
    }
}

#[test]
fn a_future_polled_again_wakes_only_the_newest_waker() {
    let event_loop = EventLoop::new().unwrap();
    let bells = [(); 2].map(|()| Arc::new(Bell::default()));
    let future = event_loop.create_future();
    let mut polled = future.clone();
    for bell in &bells {
        assert!(poll(&mut polled, &Waker::from(Arc::clone(bell))).is_pending());
    }
    assert_eq!(Arc::strong_count(&bells[0]), 1, "the old waker was let go");
    future.set_result(1).unwrap();
    settle(&event_loop);
    let rung = bells.map(|bell| bell.0.load(Ordering::SeqCst));
    assert_eq!(rung, [0, 1]);
}

#[test]
fn dropping_a_polled_handle_takes_its_waker_with_it() {
    let event_loop = EventLoop::new().unwrap();
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let future = event_loop.create_future();
    let mut polled = future.clone();
    assert!(poll(&mut polled, &waker).is_pending());
    let unpolled = polled.clone();
    drop(waker);
    assert_eq!(Arc::strong_count(&bell), 2);
    drop(polled);
    assert_eq!(Arc::strong_count(&bell), 1, "the clone did not inherit it");
    future.set_result(1).unwrap();
    settle(&event_loop);
    assert_eq!(bell.0.load(Ordering::SeqCst), 0);
    assert_eq!(unpolled.result().unwrap(), 1);
}

#[test]
fn a_task_suspended_in_a_combinator_can_be_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let (one, two) = (
        event_loop.create_future::<u32>(),
        event_loop.create_future::<u32>(),
    );
    let task = event_loop.create_task({
        let (one, two) = (one.clone(), two.clone());
        async move {
            let (first, second) = join!(one, two);
            Ok((first?, second?))
        }
    });
    tick(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    // each future the task was waiting on was cancelled, so no branch keeps waiting
    assert!(one.cancelled() && two.cancelled());
    assert!(task.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_pinned_block_inside_a_coroutine_needs_nothing_special() {
    let event_loop = EventLoop::new().unwrap();
    let handle = event_loop.handle();
    let value = event_loop.run_until_complete(async move {
        let block = pin!(async {
            handle.sleep(Duration::ZERO).await?;
            Ok::<u32, Exception>(5)
        });
        block.await
    });
    assert_eq!(value.unwrap(), 5);
}
