//! Queues: order, waiting, cancelling, dropping, shutting down; and faults.

mod common;
mod support;

#[path = "queues/cancelling.rs"]
mod cancelling;
#[path = "queues/composing.rs"]
mod composing;
#[path = "queues/dropping.rs"]
mod dropping;
#[path = "queues/like_asyncio.rs"]
mod like_asyncio;
#[path = "queues/loops.rs"]
mod loops;
#[path = "queues/priorities.rs"]
mod priorities;
#[path = "queues/random.rs"]
mod random;
#[path = "queues/reentry.rs"]
mod reentry;
#[path = "queues/shutting_down.rs"]
mod shutting_down;

use std::cell::Cell;
use std::rc::Rc;

use miniloop::{
    EventLoop, Exception, LifoQueue, PriorityQueue, Queue, QueueEmpty, QueueFull, Result, ValueError,
    create_task,
};

use common::{Trace, virtual_loop, yields};
use support::{Watchdog, raised, settle, still_works};

/// Gets one item and leaves `NAME:ITEM`.
async fn consumer<T: std::fmt::Display>(name: u32, queue: Queue<T>, trace: Trace) -> Result<()> {
    let item = queue.get().await?;
    trace.push(format!("{name}:{item}"));
    Ok(())
}

// brief: XT-9
#[test]
fn the_three_kinds_give_the_oldest_the_newest_and_the_smallest_first() {
    let (queue, stack, heap) = (Queue::new(0), LifoQueue::new(0), PriorityQueue::new(0));
    for item in [2, 3, 1] {
        queue.put_nowait(item).unwrap();
        stack.put_nowait(item).unwrap();
        heap.put_nowait(item).unwrap();
    }
    assert_eq!([(); 3].map(|()| queue.get_nowait().unwrap()), [2, 3, 1]);
    assert_eq!([(); 3].map(|()| stack.get_nowait().unwrap()), [1, 3, 2]);
    assert_eq!([(); 3].map(|()| heap.get_nowait().unwrap()), [1, 2, 3]);
}

// brief: XT-9
#[test]
fn a_queue_says_how_much_is_in_it() {
    let queue = Queue::new(2);
    assert!(queue.empty() && !queue.full());
    assert_eq!((queue.qsize(), queue.maxsize()), (0, 2));
    queue.put_nowait('a').unwrap();
    assert!(!queue.empty() && !queue.full());
    queue.clone().put_nowait('b').unwrap();
    assert!(queue.full(), "a clone is the same queue");
    assert_eq!(queue.qsize(), 2);
    queue.get_nowait().unwrap();
    assert!(!queue.full());

    let unlimited = Queue::default();
    (0..1000).for_each(|number| unlimited.put_nowait(number).unwrap());
    assert!(!unlimited.full());
    assert_eq!((unlimited.qsize(), unlimited.maxsize()), (1000, 0));
}

// brief: XT-9
#[test]
fn what_can_not_be_done_without_waiting_is_refused() {
    let queue = Queue::new(1);
    raised::<QueueEmpty, _>(queue.get_nowait());
    queue.put_nowait(String::from("first")).unwrap();
    let refused = queue.put_nowait(String::from("second")).unwrap_err();
    assert!(refused.is_full() && !refused.is_shut_down() && !refused.is_cancelled());
    assert_eq!(refused.exception().downcast_ref(), Some(&QueueFull));
    assert_eq!(refused.to_string(), "the queue is full");
    assert_eq!(refused.into_item(), "second");
    assert_eq!(queue.get_nowait().unwrap(), "first");
    raised::<QueueEmpty, _>(queue.get_nowait());
}

// brief: XT-9
#[test]
fn items_are_neither_cloned_nor_sent() {
    struct Item(Rc<Cell<u32>>);

    let event_loop = EventLoop::new().unwrap();
    let seen = Rc::new(Cell::new(0));
    let queue = Queue::new(1);
    let (producer, inside) = (queue.clone(), seen.clone());
    event_loop.create_task(async move {
        for _ in 0..3 {
            // `?` needs no `Send` either.
            producer.put(Item(inside.clone())).await?;
        }
        Ok(())
    });
    let consumed = event_loop.run_until_complete(async move {
        for _ in 0..3 {
            let item: Item = queue.get().await?;
            item.0.set(item.0.get() + 1);
        }
        Ok(())
    });
    consumed.unwrap();
    assert_eq!(seen.get(), 3);
    assert_eq!(Rc::strong_count(&seen), 1);
}

// brief: XT-9
#[test]
fn nothing_happens_before_the_first_poll() {
    let queue = Queue::new(0);
    let put = queue.put(1);
    assert!(queue.empty());
    drop(put);
    queue.put_nowait(2).unwrap();
    let before = format!("{queue:?}");
    drop((queue.get(), queue.join(), queue.put(3)));
    assert_eq!(format!("{queue:?}"), before);
}

// brief: XT-9
#[test]
fn a_queue_shows_who_waits() {
    let event_loop = EventLoop::new().unwrap();
    let queue = Queue::new(1);
    let getter = event_loop.create_task(queue.get());
    settle(&event_loop);
    assert_eq!(
        format!("{queue:?}"),
        "Queue { maxsize: 1, qsize: 0, getters: 1, putters: 0, joiners: 0, unfinished: 0, shut_down: false, .. }"
    );
    for item in 0..3 {
        let producer = queue.clone();
        event_loop.create_task(producer.put(item));
    }
    event_loop.create_task(queue.join());
    settle(&event_loop);
    assert!(getter.done());
    queue.shutdown(false);
    let shown = format!("{queue:?}");
    assert!(
        shown.contains("joiners: 1, unfinished: 2, shut_down: true"),
        "{shown}"
    );
    assert!(format!("{:?}", LifoQueue::<()>::new(0)).starts_with("LifoQueue"));
    assert!(format!("{:?}", PriorityQueue::<()>::new(0)).starts_with("PriorityQueue"));
    event_loop.set_exception_handler(|_, _| {});
}

// brief: XT-9
#[test]
fn one_that_was_woken_and_robbed_goes_to_the_back() {
    let (event_loop, _) = virtual_loop();
    let (queue, trace) = (Queue::new(0), Trace::new());
    for name in [1, 2] {
        event_loop.create_task(consumer(name, queue.clone(), trace.clone()));
    }
    settle(&event_loop);
    queue.put_nowait('x').unwrap();
    assert_eq!(
        queue.get_nowait().unwrap(),
        'x',
        "before the first getter is stepped"
    );
    settle(&event_loop);
    queue.put_nowait('y').unwrap();
    settle(&event_loop);
    queue.put_nowait('z').unwrap();
    settle(&event_loop);
    assert_eq!(trace.lines(), ["2:y", "1:z"]);
}

// brief: XT-9
#[test]
fn a_putter_that_was_woken_and_robbed_goes_to_the_back() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(1);
    queue.put_nowait("first").unwrap();
    for item in ["a", "b"] {
        let producer = queue.clone();
        event_loop.create_task(producer.put(item));
    }
    settle(&event_loop);
    assert_eq!(queue.get_nowait().unwrap(), "first");
    queue.put_nowait("robber").unwrap();
    settle(&event_loop);
    let mut got = Vec::new();
    while let Ok(item) = queue.get_nowait() {
        got.push(item);
        settle(&event_loop);
    }
    assert_eq!(got, ["robber", "b", "a"]);
}

// brief: XT-9
#[test]
fn producers_and_consumers_end_in_order() {
    const PRODUCERS: u32 = 3;
    const CONSUMERS: usize = 2;
    const ITEMS: u32 = 100;

    async fn main() -> Result<Vec<(u32, u32)>> {
        let queue = Queue::new(4);
        let mut consumers = Vec::new();
        for _ in 0..CONSUMERS {
            let queue = queue.clone();
            consumers.push(create_task(async move {
                let mut seen = Vec::new();
                while let Some(item) = queue.get().await? {
                    yields(1).await?;
                    seen.push(item);
                    queue.task_done()?;
                }
                queue.task_done()?;
                Ok(seen)
            }));
        }
        let mut producers = Vec::new();
        for producer in 0..PRODUCERS {
            let queue = queue.clone();
            producers.push(create_task(async move {
                for number in 0..ITEMS {
                    queue.put(Some((producer, number))).await?;
                }
                Ok(())
            }));
        }
        for producer in producers {
            producer.await?;
        }
        for _ in 0..CONSUMERS {
            queue.put(None).await?;
        }
        queue.join().await?;
        assert!(queue.empty());
        assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
        let mut all = Vec::new();
        for consumer in consumers {
            let seen = consumer.await?;
            for producer in 0..PRODUCERS {
                let of_one = seen.iter().filter(|item| item.0 == producer);
                assert!(of_one.is_sorted(), "one producer's items overtook each other");
            }
            all.extend(seen);
        }
        Ok(all)
    }

    let _watchdog = Watchdog::start();
    let (event_loop, _) = virtual_loop();
    let mut all = event_loop.run_until_complete(main()).unwrap();
    all.sort_unstable();
    let wanted: Vec<_> = (0..PRODUCERS)
        .flat_map(|producer| (0..ITEMS).map(move |number| (producer, number)))
        .collect();
    assert_eq!(all, wanted);
    still_works(&event_loop);
}

// brief: XT-9
#[test]
fn ten_thousand_getters_are_served_in_order() {
    const GETTERS: u32 = 10_000;
    let _watchdog = Watchdog::start();
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let getters: Vec<_> = (0..GETTERS)
        .map(|_| event_loop.create_task(queue.get()))
        .collect();
    settle(&event_loop);
    // The later half leaves from the back, every second one of the others from the front.
    let half = getters.len() / 2;
    getters[half..].iter().rev().for_each(|getter| {
        getter.cancel();
    });
    getters[..half].iter().step_by(2).for_each(|getter| {
        getter.cancel();
    });
    settle(&event_loop);
    for number in 0..GETTERS / 4 {
        queue.put_nowait(number).unwrap();
    }
    settle(&event_loop);
    for (number, getter) in getters.iter().enumerate() {
        assert_eq!(getter.cancelled(), number >= half || number % 2 == 0);
        if !getter.cancelled() {
            assert_eq!(getter.take_result().unwrap() as usize, number / 2);
        }
    }
    assert!(queue.empty());
}

// brief: XT-9
#[test]
fn a_refusal_becomes_any_kind_of_error() {
    fn as_exception(queue: &Queue<Rc<()>>) -> Result<()> {
        Ok(queue.put_nowait(Rc::default())?)
    }
    fn as_error(queue: &Queue<Rc<()>>) -> Result<(), Box<dyn std::error::Error>> {
        Ok(queue.put_nowait(Rc::default())?)
    }
    fn as_sent_error(queue: &Queue<Rc<()>>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(queue.put_nowait(Rc::default())?)
    }
    let queue = Queue::new(1);
    as_exception(&queue).unwrap();
    assert!(as_exception(&queue).unwrap_err().is::<QueueFull>());
    let exception: Exception = queue.put_nowait(Rc::default()).unwrap_err().into();
    assert!(exception.is::<QueueFull>());
    assert_eq!(as_error(&queue).unwrap_err().to_string(), "the queue is full");
    assert_eq!(
        as_sent_error(&queue).unwrap_err().to_string(),
        "the queue is full"
    );
}
