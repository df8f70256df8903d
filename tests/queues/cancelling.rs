//! A getter, putter or joiner is cancelled at every moment of its wait.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{CancelledError, EventLoop, PutError, Queue, Task, TimeoutError, wait_for};

use crate::common::virtual_loop;
use crate::support::{nothing_is_left, raised, settle, tick};

/// When the first of two waiters is cancelled.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    BeforeItBegins,
    WhileItWaits,
    /// In the same tick, before what it waits for happens.
    BeforeItIsWoken,
    /// In the same tick, after what it waits for has happened.
    AfterItIsWoken,
}

const MOMENTS: [Moment; 4] = [
    Moment::BeforeItBegins,
    Moment::WhileItWaits,
    Moment::BeforeItIsWoken,
    Moment::AfterItIsWoken,
];

impl Moment {
    /// Cancels `first` at this moment, and has `happen` happen for those who wait.
    fn play<T: 'static>(self, event_loop: &EventLoop, first: &Task<T>, happen: impl FnOnce()) {
        let cancel_at = |now| {
            if self == now {
                assert!(first.cancel());
            }
        };
        cancel_at(Moment::BeforeItBegins);
        settle(event_loop);
        cancel_at(Moment::WhileItWaits);
        if self == Moment::WhileItWaits {
            settle(event_loop);
        }
        cancel_at(Moment::BeforeItIsWoken);
        happen();
        cancel_at(Moment::AfterItIsWoken);
        settle(event_loop);
        assert!(first.cancelled(), "{self:?}");
    }
}

// brief: XT-9
#[test]
fn the_item_of_a_cancelled_getter_goes_to_the_next_one() {
    for moment in MOMENTS {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(0);
        let first = event_loop.create_task(queue.get());
        let second = event_loop.create_task(queue.get());
        moment.play(&event_loop, &first, || queue.put_nowait("item").unwrap());
        assert_eq!(second.result().unwrap(), "item", "{moment:?}");
        assert!(queue.empty());
        nothing_is_left(&event_loop);
    }
}

// brief: XT-9
#[test]
fn the_item_of_a_cancelled_getter_stays_where_nobody_else_waits() {
    for moment in MOMENTS {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(0);
        let getter = event_loop.create_task(queue.get());
        moment.play(&event_loop, &getter, || queue.put_nowait("item").unwrap());
        assert_eq!(queue.qsize(), 1, "{moment:?}");
        let late = event_loop.run_until_complete(queue.get());
        assert_eq!(late.unwrap(), "item");
    }
}

// brief: XT-9
#[test]
fn the_room_of_a_cancelled_putter_goes_to_the_next_one_and_its_item_comes_back() {
    for moment in MOMENTS {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(1);
        queue.put_nowait(0).unwrap();
        let returned = Rc::new(RefCell::new(Vec::new()));
        let [first, second] = [1, 2].map(|item| {
            let (queue, returned) = (queue.clone(), returned.clone());
            event_loop.create_task(async move {
                let put = queue.put_or_return(item).await;
                if let Err(error) = &put {
                    assert!(error.is_cancelled() && !error.is_full());
                }
                put.map_err(|error: PutError<u32>| {
                    let exception = error.exception().clone();
                    returned.borrow_mut().push(error.into_item());
                    exception
                })
            })
        });
        moment.play(&event_loop, &first, || {
            assert_eq!(queue.get_nowait().unwrap(), 0);
        });
        second.result().unwrap();
        assert_eq!(queue.get_nowait().unwrap(), 2, "{moment:?}");
        let came_back = (moment != Moment::BeforeItBegins).then_some(1);
        assert_eq!(*returned.borrow(), Vec::from_iter(came_back), "{moment:?}");
        nothing_is_left(&event_loop);
    }
}

// brief: XT-9
#[test]
fn a_cancelled_joiner_does_not_keep_another_from_going_on() {
    for moment in MOMENTS {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(0);
        queue.put_nowait(()).unwrap();
        let first = event_loop.create_task(queue.join());
        let second = event_loop.create_task(queue.join());
        moment.play(&event_loop, &first, || queue.task_done().unwrap());
        second.result().unwrap();
        nothing_is_left(&event_loop);
    }
}

// brief: XT-9
#[test]
fn a_chain_of_getters_cancelled_in_one_tick_leaves_the_item_to_the_last() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let getters: Vec<_> = (0..100).map(|_| event_loop.create_task(queue.get())).collect();
    settle(&event_loop);
    queue.put_nowait("item").unwrap();
    let (last, others) = getters.split_last().unwrap();
    for getter in others {
        getter.cancel();
    }
    settle(&event_loop);
    assert!(others.iter().all(|getter| getter.cancelled()));
    assert_eq!(last.result().unwrap(), "item");
}

// brief: XT-9
#[test]
fn two_woken_getters_of_which_one_is_cancelled_leave_the_second_item_to_the_third() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let getters = [(); 3].map(|()| event_loop.create_task(queue.get()));
    settle(&event_loop);
    queue.put_nowait(1).unwrap();
    queue.put_nowait(2).unwrap();
    getters[0].cancel();
    settle(&event_loop);
    assert!(getters[0].cancelled());
    assert_eq!(getters[1].result().unwrap(), 1);
    assert_eq!(getters[2].result().unwrap(), 2);
}

// brief: XT-9
#[test]
fn a_getter_robbed_and_then_cancelled_wakes_nobody() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let first = event_loop.create_task(queue.get());
    let second = event_loop.create_task(queue.get());
    settle(&event_loop);
    queue.put_nowait("item").unwrap();
    assert_eq!(queue.get_nowait().unwrap(), "item");
    first.cancel();
    settle(&event_loop);
    assert!(first.cancelled() && !second.done());
    let shown = format!("{queue:?}");
    assert!(shown.contains("getters: 1"), "the second kept its place: {shown}");
    second.cancel();
    settle(&event_loop);
}

// brief: XT-9
#[test]
fn the_message_of_a_cancellation_comes_with_the_item() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(1);
    queue.put_nowait("inside").unwrap();
    let producer = queue.clone();
    let putter =
        event_loop.create_task(async move { Ok(producer.put_or_return("outside").await.unwrap_err()) });
    tick(&event_loop);
    putter.cancel_with("enough");
    settle(&event_loop);
    let error = putter.take_result().unwrap();
    let cancelled = error.exception().downcast_ref::<CancelledError>().unwrap();
    assert_eq!(cancelled.message(), Some("enough"));
    assert_eq!(error.into_item(), "outside");
}

// brief: XT-9
#[test]
fn a_getter_that_survives_its_cancellation_waits_again_at_the_back() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(0);
    let stubborn = queue.clone();
    let first = event_loop.create_task(async move {
        raised::<CancelledError, _>(stubborn.get().await);
        stubborn.get().await
    });
    let second = event_loop.create_task(queue.get());
    settle(&event_loop);
    first.cancel();
    settle(&event_loop);
    queue.put_nowait(1).unwrap();
    queue.put_nowait(2).unwrap();
    settle(&event_loop);
    assert_eq!(second.result().unwrap(), 1);
    assert_eq!(first.result().unwrap(), 2);
}

// brief: XT-9
#[test]
fn a_getter_that_times_out_as_its_item_comes_leaves_it_in_the_queue() {
    let second = Duration::from_secs(1);
    for put_first in [false, true] {
        let (event_loop, _) = virtual_loop();
        let queue = Queue::new(0);
        let producer = queue.clone();
        let put = move || producer.put_nowait("item").unwrap();
        let getter = wait_for(queue.get(), second);
        let getter = if put_first {
            event_loop.call_later(second, put);
            event_loop.create_task(getter)
        } else {
            let getter = event_loop.create_task(getter);
            settle(&event_loop);
            event_loop.call_later(second, put);
            getter
        };
        // Both timers are due in one tick, whichever is first: the timeout wins.
        raised::<TimeoutError, _>(event_loop.run_until_complete(getter));
        assert_eq!(queue.get_nowait().unwrap(), "item", "put first: {put_first}");
        nothing_is_left(&event_loop);
    }
}
