//! Operations that were polled once and then only watched with `done()`, or not at all: they go
//! on by themselves, as a future of asyncio does, which needs no polling.

use std::cell::RefCell;
use std::future::{Future as StdFuture, poll_fn};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use miniloop::{EventLoop, LoopHandle, Source};

use crate::common::{Stream, listener, pair, pair_small, recv, send};
use crate::support::{nothing_is_left, settle, still_works, tick, wake_and_yield};

/// Counts its wakes, and does nothing else about them.
#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn is_pending<F: StdFuture + Unpin>(future: &mut F, waker: &Waker) -> bool {
    Pin::new(future)
        .poll(&mut Context::from_waker(waker))
        .is_pending()
}

/// Polls a pending future with whatever waker the calling task has, and does not suspend.
async fn look_once<F: StdFuture + Unpin>(future: &RefCell<F>) {
    poll_fn(|cx| {
        assert!(is_pending(&mut *future.borrow_mut(), cx.waker()));
        Poll::Ready(())
    })
    .await;
}

/// How a pending operation is looked at once.
#[derive(Clone, Copy, Debug)]
enum Look {
    WithAForeignWaker,
    ByATaskThatEnds,
    ByATaskThatWaitsForSomethingElse,
    ByATaskThatYields,
    ByATaskThatYieldsInAForeignWay,
    ByATaskThatIsCancelled,
}

impl Look {
    const ALL: [Look; 6] = [
        Look::WithAForeignWaker,
        Look::ByATaskThatEnds,
        Look::ByATaskThatWaitsForSomethingElse,
        Look::ByATaskThatYields,
        Look::ByATaskThatYieldsInAForeignWay,
        Look::ByATaskThatIsCancelled,
    ];

    /// Looks, and leaves the operation registered with whoever looked.
    fn at<F: StdFuture + Unpin + 'static>(self, event_loop: &EventLoop, operation: F) -> Rc<RefCell<F>> {
        let operation = Rc::new(RefCell::new(operation));
        if let Look::WithAForeignWaker = self {
            let waker = Waker::from(Arc::new(Counter::default()));
            assert!(is_pending(&mut *operation.borrow_mut(), &waker));
            return operation;
        }
        let (handle, looked_at) = (event_loop.handle(), Rc::clone(&operation));
        let task = event_loop.create_task(async move {
            look_once(&looked_at).await;
            self.after(handle).await
        });
        settle(event_loop);
        if let Look::ByATaskThatIsCancelled = self {
            task.cancel();
            settle(event_loop);
        }
        operation
    }

    async fn after(self, event_loop: LoopHandle) -> miniloop::Result<()> {
        match self {
            Look::WithAForeignWaker | Look::ByATaskThatEnds => Ok(()),
            Look::ByATaskThatWaitsForSomethingElse => event_loop.create_future().await,
            Look::ByATaskThatYields => loop {
                event_loop.sleep(Duration::ZERO).await?;
            },
            Look::ByATaskThatYieldsInAForeignWay => loop {
                wake_and_yield().await;
            },
            Look::ByATaskThatIsCancelled => {
                let first = event_loop.create_future::<()>().await;
                assert!(first.unwrap_err().is_cancelled());
                event_loop.create_future().await
            }
        }
    }
}

#[test]
fn a_receive_that_was_looked_at_once_completes() {
    for look in Look::ALL {
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair();
        let received = look.at(&event_loop, event_loop.sock_recv(&left, 10));
        send(&right, b"x");
        settle(&event_loop);
        let received = received.borrow();
        if let Look::ByATaskThatIsCancelled = look {
            // the task waited for it too, and waiting for it was what was cancelled
            assert!(received.cancelled(), "{look:?}");
            assert_eq!(recv(&left, 10), b"x");
        } else {
            assert!(received.done(), "{look:?}");
            assert_eq!(received.result().unwrap(), b"x");
        }
    }
}

#[test]
fn a_receive_into_a_buffer_that_was_looked_at_once_completes() {
    for look in Look::ALL {
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair();
        let received = look.at(&event_loop, event_loop.sock_recv_into(&left, vec![0; 10]));
        send(&right, b"x");
        settle(&event_loop);
        assert!(received.borrow().done(), "{look:?}");
    }
}

#[test]
fn a_send_that_was_looked_at_once_sends_all() {
    let length = 300_000;
    for look in Look::ALL {
        if let Look::ByATaskThatIsCancelled = look {
            continue; // then it stops
        }
        let event_loop = EventLoop::new().unwrap();
        let (left, right) = pair_small();
        let sent = look.at(&event_loop, event_loop.sock_sendall(&left, vec![7; length]));
        assert!(!sent.borrow().done());
        assert_eq!(read_all(&event_loop, right, length), length, "{look:?}");
        settle(&event_loop);
        assert!(sent.borrow().done(), "{look:?}");
    }
}

/// Reads by readiness alone, so that nothing polls for the sender. Gives up after many ticks.
fn read_all(event_loop: &EventLoop, source: Source<Stream>, length: usize) -> usize {
    let mut count = 0;
    let mut buffer = vec![0; 65536];
    for _ in 0..100 * length / 4096 {
        if count == length {
            break;
        }
        tick(event_loop);
        count += (&*source).read(&mut buffer).unwrap_or(0);
    }
    count
}

#[test]
fn an_accept_that_was_looked_at_once_takes_its_client() {
    for look in Look::ALL {
        if let Look::ByATaskThatIsCancelled = look {
            continue;
        }
        let event_loop = EventLoop::new().unwrap();
        let server = listener();
        let accepted = event_loop.sock_accept(&server);
        let _held = look.at(&event_loop, accepted.clone().take());
        let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        for _ in 0..1000 {
            tick(&event_loop);
        }
        assert!(accepted.done(), "{look:?}");
        let (_stream, address) = accepted.take_result().unwrap();
        assert_eq!(address, client.local_addr().unwrap());
    }
}

#[test]
fn a_foreign_waker_is_woken_once_the_receive_is_done() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let mut received = event_loop.sock_recv(&left, 10);
    let counter = Arc::new(Counter::default());
    assert!(is_pending(&mut received, &Waker::from(Arc::clone(&counter))));
    settle(&event_loop);
    assert_eq!(counter.0.load(Ordering::SeqCst), 0);
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    assert!(received.done());
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_receive_outlives_the_timeout_of_a_select_and_completes_by_itself() {
    let event_loop = EventLoop::new().unwrap();
    let (left, mut right) = crate::common::stream_pair();
    let left = Source::new(left).unwrap();
    let handle = event_loop.handle();
    let task = event_loop.create_task(async move {
        let mut received = handle.sock_recv(&left, 10);
        match select(&mut received, handle.sleep(Duration::from_millis(1))).await {
            Either::Left(_) => unreachable!("nothing was sent"),
            Either::Right((slept, _)) => slept?,
        }
        right.write_all(b"x").unwrap();
        for ticks in 0..100 {
            if received.done() {
                return Ok((ticks, received.result()?));
            }
            handle.sleep(Duration::ZERO).await?;
        }
        unreachable!("the receive never completes");
    });
    let (ticks, data) = event_loop.run_until_complete(task).unwrap();
    assert_eq!(data, b"x");
    assert!(ticks > 0, "it was not polled in between");
}

#[test]
fn a_receive_that_nobody_ever_looked_at_completes() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let mut looked_at = event_loop.sock_recv(&left, 1);
    assert!((&mut looked_at).now_or_never().is_none());
    let never_looked_at = event_loop.sock_recv(&left, 1);
    send(&right, b"xy");
    settle(&event_loop);
    assert_eq!(looked_at.result().unwrap(), b"x");
    assert_eq!(never_looked_at.result().unwrap(), b"y");
}

#[test]
fn a_receive_looked_at_by_one_task_can_be_awaited_by_another() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    for look in [
        Look::WithAForeignWaker,
        Look::ByATaskThatEnds,
        Look::ByATaskThatWaitsForSomethingElse,
        Look::ByATaskThatYields,
    ] {
        let received = look.at(&event_loop, event_loop.sock_recv(&left, 10));
        // the very handle, with its registration
        let received = received.replace(event_loop.create_future());
        let awaiting = event_loop.create_task(received);
        settle(&event_loop);
        send(&right, b"x");
        settle(&event_loop);
        assert!(awaiting.done(), "{look:?}");
        assert_eq!(awaiting.result().unwrap(), b"x");
    }
}

/// The other half of the bargain: what is told to its task is left to its task.
#[test]
fn a_receive_whose_task_is_cancelled_at_the_last_moment_takes_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move { handle.sock_recv(&source, 10).await });
    tick(&event_loop);
    let cancelled = task.clone();
    // runs in the tick in which readiness is seen, behind nothing and before the task's step
    event_loop
        .add_reader(&left, move || {
            cancelled.cancel();
        })
        .unwrap();
    send(&right, b"x");
    tick(&event_loop);
    event_loop.remove_reader(&left);
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(recv(&left, 10), b"x");
}
