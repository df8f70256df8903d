//! Joining a queue, whatever its order (BR-42).

use miniloop::{BaseQueue, EventLoop, LifoQueue, Order, PriorityQueue, Queue, Task, ValueError};

use crate::faults::{OnDrop, nothing_is_left, settle, still_works};
use crate::support::Log;

/// One situation of the table, in which a queue of every order is put.
trait Situation {
    fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>);
}

#[track_caller]
fn in_every_order(situation: &impl Situation) {
    situation.play(Queue::new(0));
    situation.play(LifoQueue::new(0));
    situation.play(PriorityQueue::new(0));
}

/// A task that joins, and logs its name then.
fn joiner<O: Order<u32> + 'static>(
    event_loop: &EventLoop,
    queue: &BaseQueue<u32, O>,
    log: &Log<&'static str>,
    name: &'static str,
) -> Task<()> {
    let (join, joined) = (queue.join(), log.entry(name));
    event_loop.create_task(async move {
        join.await?;
        joined();
        Ok(())
    })
}

// field: BR-42
#[test]
fn a_join_returns_at_once_where_nothing_is_unfinished() {
    struct Empty;
    impl Situation for Empty {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            let task = joiner(&event_loop, &queue, &log, "joined");
            event_loop.run_once().unwrap();
            assert!(task.done(), "{queue:?}: without a yield");
            queue.put_nowait(1).unwrap();
            queue.get_nowait().unwrap();
            queue.task_done().unwrap();
            let again = joiner(&event_loop, &queue, &log, "again");
            event_loop.run_once().unwrap();
            assert!(again.done(), "{queue:?}: used before, and finished");
            still_works(&event_loop);
        }
    }
    in_every_order(&Empty);
}

// field: BR-42
#[test]
fn all_joiners_wake_when_the_count_is_zero_and_not_before() {
    struct Two;
    impl Situation for Two {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            queue.put_nowait(1).unwrap();
            joiner(&event_loop, &queue, &log, "first");
            joiner(&event_loop, &queue, &log, "second");
            settle(&event_loop);
            // Put while they join: it counts, whatever the kind of the queue.
            queue.put_nowait(2).unwrap();
            queue.get_nowait().unwrap();
            queue.get_nowait().unwrap();
            queue.task_done().unwrap();
            settle(&event_loop);
            assert!(log.take().is_empty(), "{queue:?}: empty, but one is unfinished");
            queue.task_done().unwrap();
            settle(&event_loop);
            assert_eq!(log.take(), ["first", "second"], "{queue:?}");
            nothing_is_left(&event_loop);
        }
    }
    in_every_order(&Two);
}

// field: BR-42
#[test]
fn the_item_of_a_consumer_cancelled_before_task_done_is_waited_for() {
    struct Trap;
    impl Situation for Trap {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            let (consumer, working) = (queue.clone(), event_loop.create_future::<()>());
            let consumer = event_loop.create_task(async move {
                consumer.get().await?;
                working.await?;
                Ok(consumer.task_done()?)
            });
            queue.put_nowait(1).unwrap();
            joiner(&event_loop, &queue, &log, "joined");
            settle(&event_loop);
            assert!(queue.empty());
            consumer.cancel();
            settle(&event_loop);
            assert!(consumer.cancelled() && log.take().is_empty(), "{queue:?}");
            queue.task_done().unwrap();
            settle(&event_loop);
            assert_eq!(log.take(), ["joined"], "{queue:?}");
        }
    }
    in_every_order(&Trap);
}

// field: BR-42
#[test]
fn a_consumer_with_a_guard_says_done_also_when_it_is_cancelled() {
    struct Guarded;
    impl Situation for Guarded {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            let (consumer, working) = (queue.clone(), event_loop.create_future::<()>());
            let consumer = event_loop.create_task(async move {
                consumer.get().await?;
                let _done = OnDrop::new(|| consumer.task_done().unwrap());
                working.await
            });
            queue.put_nowait(1).unwrap();
            joiner(&event_loop, &queue, &log, "joined");
            settle(&event_loop);
            consumer.cancel();
            settle(&event_loop);
            assert_eq!(log.take(), ["joined"], "{queue:?}");
        }
    }
    in_every_order(&Guarded);
}

// field: BR-42
#[test]
fn one_task_done_too_many_is_an_error_and_changes_nothing() {
    struct TooOften;
    impl Situation for TooOften {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
            queue.put_nowait(1).unwrap();
            queue.task_done().unwrap();
            assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
            queue.put_nowait(2).unwrap();
            joiner(&event_loop, &queue, &log, "joined");
            settle(&event_loop);
            assert!(log.take().is_empty(), "{queue:?}: the next item counts in full");
            queue.task_done().unwrap();
            settle(&event_loop);
            assert_eq!(log.take(), ["joined"], "{queue:?}");
        }
    }
    in_every_order(&TooOften);
}

// field: BR-42
#[test]
fn a_cancelled_joiner_leaves_nothing_behind() {
    struct Cancelled;
    impl Situation for Cancelled {
        fn play<O: Order<u32> + 'static>(&self, queue: BaseQueue<u32, O>) {
            let event_loop = EventLoop::new().unwrap();
            let log = Log::new();
            queue.put_nowait(1).unwrap();
            let other = joiner(&event_loop, &queue, &log, "other");
            settle(&event_loop);
            let before = format!("{queue:?}");
            let cancelled = joiner(&event_loop, &queue, &log, "cancelled");
            settle(&event_loop);
            assert_ne!(format!("{queue:?}"), before);
            cancelled.cancel();
            settle(&event_loop);
            assert!(cancelled.cancelled() && !other.done());
            assert_eq!(format!("{queue:?}"), before);
            queue.task_done().unwrap();
            settle(&event_loop);
            assert_eq!(log.take(), ["other"], "{queue:?}");
            nothing_is_left(&event_loop);
            still_works(&event_loop);
        }
    }
    in_every_order(&Cancelled);
}
