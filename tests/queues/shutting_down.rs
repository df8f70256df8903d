//! `shutdown`, gentle and immediate, with those who wait on every side.

use miniloop::{LifoQueue, Queue, QueueShutDown, ValueError};

use crate::common::virtual_loop;
use crate::support::{Drops, nothing_is_left, raised, settle, tick};

// brief: XT-9
#[test]
fn after_a_gentle_shutdown_what_is_inside_can_be_got() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(2);
    queue.put_nowait(1).unwrap();
    queue.put_nowait(2).unwrap();
    let producer = queue.clone();
    let putter = event_loop.create_task(async move { Ok(producer.put_or_return(3).await.unwrap_err()) });
    settle(&event_loop);
    assert!(queue.shutdown(false).is_empty());
    settle(&event_loop);
    let refused = putter.take_result().unwrap();
    assert!(refused.is_shut_down() && !refused.is_full());
    assert_eq!(refused.into_item(), 3);
    assert!(queue.put_nowait(4).unwrap_err().is_shut_down());
    assert_eq!(event_loop.run_until_complete(queue.get()).unwrap(), 1);
    assert_eq!(queue.get_nowait().unwrap(), 2);
    raised::<QueueShutDown, _>(event_loop.run_until_complete(queue.get()));
    raised::<QueueShutDown, _>(queue.get_nowait());
    // There is room, and no use in waiting for it.
    let producer = queue.clone();
    let late = event_loop.run_until_complete(producer.put(5));
    raised::<QueueShutDown, _>(late);
}

// brief: XT-9
#[test]
fn an_immediate_shutdown_hands_back_what_was_inside() {
    let (queue, stack) = (Queue::new(0), LifoQueue::new(0));
    for item in [1, 2, 3] {
        queue.put_nowait(item).unwrap();
        stack.put_nowait(item).unwrap();
    }
    assert_eq!(queue.shutdown(true), [1, 2, 3]);
    assert_eq!(stack.shutdown(true), [3, 2, 1]);
    assert!(queue.empty() && stack.empty());
    raised::<QueueShutDown, _>(queue.get_nowait());
    assert!(queue.shutdown(true).is_empty(), "a second time there is nothing");
    assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
}

// brief: XT-9
#[test]
fn getters_and_putters_who_wait_at_once_are_all_woken() {
    for immediate in [false, true] {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(1);
        queue.put_nowait(0).unwrap();
        let putters = [1, 2].map(|item| {
            let producer = queue.clone();
            event_loop
                .create_task(async move { Ok(producer.put_or_return(item).await.unwrap_err().into_item()) })
        });
        settle(&event_loop);
        // The first putter is woken, and before it is stepped the queue is empty: a getter waits.
        let consumer = queue.clone();
        let getters = event_loop.run_until_complete(async move {
            consumer.get_nowait()?;
            let event_loop = miniloop::get_running_loop()?;
            let eager = || event_loop.task_builder().eager_start(true);
            let getters = [(); 2].map(|()| eager().create_task(consumer.get()));
            let shown = format!("{consumer:?}");
            assert!(shown.contains("getters: 2, putters: 1"), "{shown}");
            assert!(consumer.shutdown(immediate).is_empty());
            Ok(getters)
        });
        settle(&event_loop);
        for getter in getters.unwrap() {
            raised::<QueueShutDown, _>(getter.take_result());
        }
        assert_eq!(putters.map(|putter| putter.take_result().unwrap()), [1, 2]);
        nothing_is_left(&event_loop);
    }
}

// brief: XT-9
#[test]
fn a_getter_that_was_woken_gets_its_item_from_a_queue_shut_down_gently() {
    for immediate in [false, true] {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(0);
        let getters = [(); 2].map(|()| event_loop.create_task(queue.get()));
        settle(&event_loop);
        queue.put_nowait("item").unwrap();
        let thrown_out = queue.shutdown(immediate);
        settle(&event_loop);
        let got = getters[0].take_result();
        if immediate {
            assert_eq!(thrown_out, ["item"]);
            raised::<QueueShutDown, _>(got);
        } else {
            assert_eq!(got.unwrap(), "item");
        }
        raised::<QueueShutDown, _>(getters[1].take_result());
    }
}

// brief: XT-9
#[test]
fn joiners_go_on_at_an_immediate_shutdown_unless_an_item_is_being_worked_on() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    for item in 0..3 {
        queue.put_nowait(item).unwrap();
    }
    queue.get_nowait().unwrap();
    let joiner = event_loop.create_task(queue.join());
    settle(&event_loop);
    assert_eq!(queue.shutdown(true), [1, 2]);
    settle(&event_loop);
    assert!(!joiner.done(), "the first item is not done");
    queue.task_done().unwrap();
    tick(&event_loop);
    assert!(joiner.done(), "one tick later");
    assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
}

// brief: XT-9
#[test]
fn joiners_wait_on_after_a_gentle_shutdown() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    queue.put_nowait("item").unwrap();
    let joiner = event_loop.create_task(queue.join());
    settle(&event_loop);
    queue.shutdown(false);
    settle(&event_loop);
    assert!(!joiner.done());
    queue.get_nowait().unwrap();
    queue.task_done().unwrap();
    tick(&event_loop);
    assert!(joiner.done());
}

// brief: XT-9
#[test]
fn done_too_early_and_then_thrown_out_leaves_the_count_at_zero() {
    let queue = Queue::new(0);
    queue.put_nowait(1).unwrap();
    queue.put_nowait(2).unwrap();
    queue.task_done().unwrap();
    assert_eq!(queue.shutdown(true), [1, 2]);
    assert_eq!(queue.task_done(), Err(ValueError::TaskDoneTooOften));
}

// brief: XT-9
#[test]
fn the_items_thrown_out_are_dropped_by_the_caller_alone() {
    let drops = Drops::default();
    let queue = Queue::new(0);
    queue.put_nowait(drops.counted()).unwrap();
    queue.put_nowait(drops.counted()).unwrap();
    let thrown_out = queue.shutdown(true);
    assert_eq!(drops.count(), 0);
    drop(thrown_out);
    assert_eq!(drops.count(), 2);
}

// brief: XT-9
#[test]
fn a_getter_cancelled_in_the_tick_of_the_shutdown_ends_cancelled() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::<()>::new(0);
    let getters = [(); 2].map(|()| event_loop.create_task(queue.get()));
    settle(&event_loop);
    queue.shutdown(false);
    getters[0].cancel();
    settle(&event_loop);
    assert!(getters[0].cancelled());
    raised::<QueueShutDown, _>(getters[1].take_result());
    nothing_is_left(&event_loop);
}
