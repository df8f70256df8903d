//! The future of a getter, putter or joiner is dropped at every moment of its wait, which is what
//! `select!` does to the branch that lost.

use std::pin::pin;

use futures_util::future::{Either, select};
use futures_util::poll;
use miniloop::{Queue, create_task};

use crate::common::{virtual_loop, yields};
use crate::support::{Drops, settle};

// brief: XT-9
#[test]
fn the_item_of_a_dropped_getter_goes_to_the_next_one() {
    for woken in [false, true] {
        let (event_loop, _) = virtual_loop();
        let got = event_loop.run_until_complete(async move {
            let queue = Queue::new(0);
            let mut first = Box::pin(queue.get());
            assert!(poll!(&mut first).is_pending());
            let second = create_task(queue.get());
            yields(2).await?;
            if woken {
                queue.put_nowait("item")?;
                drop(first);
            } else {
                drop(first);
                queue.put_nowait("item")?;
            }
            second.await
        });
        assert_eq!(got.unwrap(), "item", "woken before: {woken}");
    }
}

// brief: XT-9
#[test]
fn a_dropped_getter_leaves_its_item_in_the_queue() {
    let (event_loop, _) = virtual_loop();
    let left = event_loop.run_until_complete(async {
        let queue = Queue::new(0);
        let mut getter = Box::pin(queue.get());
        assert!(poll!(&mut getter).is_pending());
        queue.put_nowait("item")?;
        drop(getter);
        queue.get_nowait()
    });
    assert_eq!(left.unwrap(), "item");
}

// brief: XT-9
#[test]
fn the_room_of_a_dropped_putter_goes_to_the_next_one_and_its_item_is_dropped_once() {
    for woken in [false, true] {
        let (event_loop, _) = virtual_loop();
        let drops = Drops::default();
        let items = drops.clone();
        let done = event_loop.run_until_complete(async move {
            let queue = Queue::new(1);
            queue.put_nowait(items.counted())?;
            let mut first = Box::pin(queue.put(items.counted()));
            assert!(poll!(&mut first).is_pending());
            let (producer, item) = (queue.clone(), items.counted());
            let second = create_task(producer.put(item));
            yields(2).await?;
            let got = if woken {
                let got = queue.get_nowait()?;
                assert_eq!(items.count(), 0);
                drop(first);
                got
            } else {
                drop(first);
                queue.get_nowait()?
            };
            assert_eq!(items.count(), 1, "the item of the dropped one");
            drop(got);
            second.await?;
            assert_eq!(items.count(), 2);
            assert!(queue.full());
            Ok(())
        });
        done.unwrap();
        assert_eq!(drops.count(), 3, "woken before: {woken}");
    }
}

// brief: XT-9
#[test]
fn a_put_that_is_never_polled_drops_its_item_once() {
    let drops = Drops::default();
    drop(Queue::new(0).put(drops.counted()));
    assert_eq!(drops.count(), 1);
}

// brief: XT-9
#[test]
fn a_dropped_joiner_leaves_nothing_behind() {
    let (event_loop, _) = virtual_loop();
    let joined = event_loop.run_until_complete(async {
        let queue = Queue::new(0);
        queue.put_nowait(())?;
        let before = format!("{queue:?}");
        let mut joiner = Box::pin(queue.join());
        assert!(poll!(&mut joiner).is_pending());
        assert_ne!(format!("{queue:?}"), before);
        drop(joiner);
        assert_eq!(format!("{queue:?}"), before);
        queue.task_done()?;
        queue.join().await
    });
    joined.unwrap();
}

// brief: XT-9
#[test]
fn the_branch_of_a_select_that_lost_takes_nothing() {
    let (event_loop, _) = virtual_loop();
    let got = event_loop.run_until_complete(async {
        let (left, right) = (Queue::new(0), Queue::new(0));
        let (to_left, to_right) = (left.clone(), right.clone());
        create_task(async move {
            // Both are woken in one tick: the one that is looked at first wins.
            to_right.put_nowait("right")?;
            to_left.put_nowait("left")?;
            Ok(())
        });
        match select(pin!(left.get()), pin!(right.get())).await {
            Either::Left((won, _lost)) => assert_eq!(won?, "left"),
            Either::Right(_) => panic!("the left one is looked at first"),
        }
        right.get_nowait()
    });
    assert_eq!(got.unwrap(), "right");
}

// brief: XT-9
#[test]
fn many_getters_in_one_task_are_served_in_order() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let (a, b, c) = (queue.get(), queue.get(), queue.get());
    let joined = event_loop.create_task(async move { Ok(futures_util::join!(a, b, c)) });
    settle(&event_loop);
    for item in 1..=3 {
        queue.put_nowait(item).unwrap();
    }
    settle(&event_loop);
    let (a, b, c) = joined.take_result().unwrap();
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], [1, 2, 3]);
}

// brief: XT-9
#[test]
fn a_getter_held_by_a_task_that_is_destroyed_passes_its_item_on() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let getter = queue.get();
    // Suspended on something foreign besides: a cancellation drops the coroutine where it is.
    let doomed = event_loop.create_task(async move {
        let mut getter = Box::pin(getter);
        assert!(poll!(&mut getter).is_pending());
        std::future::pending::<()>().await;
        getter.await
    });
    let second = event_loop.create_task(queue.get());
    settle(&event_loop);
    queue.put_nowait("item").unwrap();
    doomed.cancel();
    settle(&event_loop);
    assert!(doomed.cancelled());
    assert_eq!(second.result().unwrap(), "item");
}
