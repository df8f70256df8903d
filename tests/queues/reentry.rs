//! The queue is used from callbacks, destructors and wakers while it is being used.

use std::cell::{Cell, RefCell};
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::poll;
use miniloop::{EventLoop, Queue, Result, create_task};

use crate::common::{Trace, virtual_loop, yields};
use crate::support::{OnDrop, settle, still_works};

type Action = Box<dyn FnOnce()>;

/// A queue of items that use it when they are dropped, and of others.
type Items = Queue<Option<Box<OnDrop<Action>>>>;

fn returning(action: impl FnOnce() + 'static) -> Option<Box<OnDrop<Action>>> {
    Some(Box::new(OnDrop::new(Box::new(action))))
}

thread_local! {
    /// What each `Returning` does when it wakes: a waker has to be `Send`, and a queue is not.
    static WHEN_WOKEN: RefCell<Vec<Option<Action>>> = const { RefCell::new(Vec::new()) };
}

/// A waker that comes back to the queue that wakes it: the index of what it does.
struct Returning(usize);

impl Wake for Returning {
    fn wake(self: Arc<Self>) {
        let action = WHEN_WOKEN.with_borrow_mut(|actions| actions[self.0].take());
        if let Some(action) = action {
            action();
        }
    }
}

/// Polls on a running loop, with a waker that does `action` when it wakes.
fn poll_returning<F: StdFuture + 'static>(
    event_loop: &EventLoop,
    mut future: Pin<Box<F>>,
    action: impl FnOnce() + 'static,
) -> Pin<Box<F>> {
    let index = WHEN_WOKEN.with_borrow_mut(|actions| {
        actions.push(Some(Box::new(action)));
        actions.len() - 1
    });
    let polled = event_loop.run_until_complete(async move {
        let waker = Waker::from(Arc::new(Returning(index)));
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        Ok(Cell::new(Some(future)))
    });
    polled.unwrap().take().unwrap()
}

fn finish<F: StdFuture<Output = Result<T>>, T>(mut future: Pin<Box<F>>) -> Result<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

// brief: XT-9
#[test]
fn callbacks_put_and_get_without_waiting() {
    let (event_loop, _) = virtual_loop();
    let (queue, trace) = (Queue::new(1), Trace::new());
    for item in 0..3 {
        let (producer, log) = (queue.clone(), trace.clone());
        event_loop.call_soon(move || {
            let put = producer.put_nowait(item).is_ok();
            log.push(format!("put {item}: {put}"));
        });
    }
    let (consumer, log) = (queue.clone(), trace.clone());
    event_loop.call_soon(move || log.push(format!("got {}", consumer.get_nowait().unwrap())));
    settle(&event_loop);
    assert_eq!(
        trace.lines(),
        ["put 0: true", "put 1: false", "put 2: false", "got 0"]
    );
}

// brief: XT-9
#[test]
fn a_waker_may_take_the_item_it_is_woken_for() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(0);
    let (robber, robbed) = (queue.clone(), Rc::new(Cell::new(0)));
    let loot = robbed.clone();
    let getter = poll_returning(&event_loop, Box::pin(queue.get()), move || {
        loot.set(robber.get_nowait().unwrap());
    });
    queue.put_nowait(5).unwrap();
    assert_eq!(robbed.get(), 5);
    assert!(queue.empty());
    queue.put_nowait(6).unwrap();
    assert_eq!(finish(getter).unwrap(), 6);
    still_works(&event_loop);
}

// brief: XT-9
#[test]
fn a_waker_may_put_another_item_which_wakes_the_next_getter() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(0);
    let producer = queue.clone();
    let first = poll_returning(&event_loop, Box::pin(queue.get()), move || {
        producer.put_nowait(2).unwrap();
    });
    let second = event_loop.create_task(queue.get());
    settle(&event_loop);
    queue.put_nowait(1).unwrap();
    assert_eq!(queue.qsize(), 2);
    assert_eq!(finish(first).unwrap(), 1);
    assert_eq!(event_loop.run_until_complete(second).unwrap(), 2);
}

// brief: XT-9
#[test]
fn a_waker_may_shut_the_queue_down() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(0);
    let closer = queue.clone();
    let getter = poll_returning(&event_loop, Box::pin(queue.get()), move || {
        assert_eq!(closer.shutdown(true), [1]);
    });
    queue.put_nowait(1).unwrap();
    assert!(queue.empty());
    assert!(queue.put_nowait(2).unwrap_err().is_shut_down());
    assert!(finish(getter).is_err());
}

// brief: XT-9
#[test]
fn a_waker_that_puts_and_joins_while_all_joiners_are_woken_keeps_its_own_wait() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(0);
    queue.put_nowait(1).unwrap();
    let late = Rc::new(RefCell::new(None));
    let (again, handle, slot) = (queue.clone(), event_loop.handle(), late.clone());
    let joiner = poll_returning(&event_loop, Box::pin(queue.join()), move || {
        again.put_nowait(2).unwrap();
        let builder = handle.task_builder().eager_start(true);
        slot.replace(Some(builder.create_task(again.join())));
    });
    let done = queue.clone();
    event_loop.call_soon(move || done.task_done().unwrap());
    settle(&event_loop);
    finish(joiner).unwrap();
    let late = late.take().unwrap();
    assert!(!late.done(), "its item is not done");
    queue.task_done().unwrap();
    settle(&event_loop);
    assert!(late.done());
}

// brief: XT-9
#[test]
fn a_waker_may_drop_another_getter() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::<()>::new(0);
    let other = Rc::new(RefCell::new(None));
    let slot = other.clone();
    let first = poll_returning(&event_loop, Box::pin(queue.get()), move || {
        let dropped = slot.take();
        assert!(dropped.is_some());
    });
    other.replace(Some(poll_returning(&event_loop, Box::pin(queue.get()), || {})));
    assert!(queue.shutdown(false).is_empty());
    assert!(other.take().is_none());
    assert!(finish(first).is_err());
}

// brief: XT-9
#[test]
fn the_destructor_of_an_item_uses_the_queue() {
    let (event_loop, _) = virtual_loop();
    let queue: Items = Queue::new(1);
    let count = Rc::new(Cell::new(0));
    let item = |queue: &Items| {
        let (queue, count) = (queue.clone(), count.clone());
        returning(move || {
            count.set(count.get() + 1);
            let _ = queue.get_nowait();
            let put = queue.put_nowait(None);
            assert!(put.is_ok() || put.unwrap_err().is_shut_down());
        })
    };
    queue.put_nowait(None).unwrap();
    drop(queue.put_nowait(item(&queue)).unwrap_err());
    assert_eq!(count.get(), 1);

    let putter = queue.clone().put(item(&queue));
    let task = event_loop.create_task(putter);
    settle(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(count.get(), 2);

    queue.get_nowait().unwrap();
    queue.put_nowait(item(&queue)).unwrap();
    drop(queue.shutdown(true));
    assert_eq!(count.get(), 3);
    assert!(queue.empty());
}

// brief: XT-9
#[test]
fn the_destructor_of_an_item_whose_putter_is_dropped_finds_the_next_putter_woken() {
    let (event_loop, _) = virtual_loop();
    let done = event_loop.run_until_complete(async {
        let queue: Items = Queue::new(1);
        queue.put_nowait(None)?;
        let (seen, state) = (queue.clone(), Rc::new(RefCell::new(String::new())));
        let shown = state.clone();
        let item = returning(move || *shown.borrow_mut() = format!("{seen:?}"));
        let mut first = Box::pin(queue.put(item));
        assert!(poll!(&mut first).is_pending());
        let producer = queue.clone();
        let second = create_task(producer.put(None));
        yields(2).await?;
        assert!(format!("{queue:?}").contains("putters: 2"));
        queue.get_nowait()?;
        drop(first);
        assert!(state.borrow().contains("putters: 0"), "{state:?}");
        second.await
    });
    done.unwrap();
}

// brief: XT-9
#[test]
fn a_queue_that_goes_away_drops_its_items_which_may_use_another() {
    let other = Queue::new(0);
    let queue = Queue::new(0);
    for number in 0..3 {
        let heir = other.clone();
        queue
            .put_nowait(OnDrop::new(move || heir.put_nowait(number).unwrap()))
            .unwrap_or_else(|_| panic!("there is room"));
    }
    drop(queue);
    let inherited: Vec<_> = std::iter::from_fn(|| other.get_nowait().ok()).collect();
    assert_eq!(inherited, [0, 1, 2]);
}
