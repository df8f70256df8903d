//! Items that are compared: ties, comparisons that panic, comparisons that come back.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use miniloop::{PanicError, PriorityQueue, QueueEmpty};

use crate::common::virtual_loop;
use crate::support::{Drops, nothing_is_left, raised, settle};

/// Numbers without an order, the same in every run.
fn scrambled(count: u32) -> impl Iterator<Item = u32> {
    let mut number = 12_345_u32;
    (0..count).map(move |_| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number >> 16
    })
}

/// An item with a key; comparing it is the closure's business.
struct Item<'a> {
    key: u32,
    name: u32,
    compared: &'a dyn Fn(),
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Item<'_> {}

impl PartialOrd for Item<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.compared)();
        self.key.cmp(&other.key)
    }
}

/// Panics when it is called for the `n`th time after `panic_at(n)`.
#[derive(Default)]
struct Fuse(Cell<u32>);

impl Fuse {
    fn panic_at(&self, calls: u32) {
        self.0.set(calls);
    }

    fn burn(&self) {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        assert!(left != 1, "the fuse has burnt down");
    }

    fn is_burning(&self) -> bool {
        self.0.take() > 0
    }
}

fn panics<R>(code: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(code)).is_err()
}

// brief: XT-9
#[test]
fn any_number_of_items_come_out_sorted() {
    for count in 0..70 {
        let queue = PriorityQueue::new(0);
        let mut sorted: Vec<_> = scrambled(count).collect();
        for item in &sorted {
            queue.put_nowait(*item).unwrap();
        }
        sorted.sort_unstable();
        let got: Vec<_> = std::iter::from_fn(|| queue.get_nowait().ok()).collect();
        assert_eq!(got, sorted);
    }
}

// brief: XT-9
#[test]
fn puts_and_gets_in_any_mixture_give_the_smallest() {
    let queue = PriorityQueue::new(0);
    let mut inside = Vec::new();
    for number in scrambled(2000) {
        if number % 3 == 0 {
            inside.sort_unstable();
            let smallest = (!inside.is_empty()).then(|| inside.remove(0));
            assert_eq!(queue.get_nowait().ok(), smallest);
        } else {
            inside.push(number);
            queue.put_nowait(number).unwrap();
        }
    }
    assert_eq!(queue.qsize(), inside.len());
}

// brief: XT-9
#[test]
fn equal_items_come_out_in_the_order_they_were_put() {
    let queue = PriorityQueue::new(0);
    let mut sorted: Vec<_> = (0..)
        .zip(scrambled(500))
        .map(|(name, number)| (number % 5, name))
        .collect();
    for &(key, name) in &sorted {
        let compared = &|| {};
        queue.put_nowait(Item { key, name, compared }).unwrap();
    }
    sorted.sort_by_key(|item| item.0);
    let got: Vec<_> = std::iter::from_fn(|| queue.get_nowait().ok())
        .map(|item| (item.key, item.name))
        .collect();
    assert_eq!(got, sorted);
}

// brief: XT-9
#[test]
fn a_comparison_that_panics_in_a_put_changes_nothing() {
    let fuse = Fuse::default();
    let compared = &|| fuse.burn();
    let queue = PriorityQueue::new(0);
    for (name, key) in (0..).zip([40, 30, 20, 10]) {
        queue.put_nowait(Item { key, name, compared }).unwrap();
    }
    for (calls, key) in [(1, 5), (2, 5)] {
        fuse.panic_at(calls);
        let name = 9;
        assert!(panics(|| queue.put_nowait(Item { key, name, compared })));
        assert!(!queue.full() && queue.qsize() == 4);
    }
    queue
        .put_nowait(Item {
            key: 25,
            name: 4,
            compared,
        })
        .unwrap();
    let got: Vec<_> = std::iter::from_fn(|| queue.get_nowait().ok())
        .map(|item| item.key)
        .collect();
    assert_eq!(got, [10, 20, 25, 30, 40]);
    for _ in 0..5 {
        queue.task_done().unwrap();
    }
    queue.task_done().unwrap_err();
}

// brief: XT-9
#[test]
fn a_comparison_that_panics_in_a_get_loses_no_item_whichever_it_is() {
    let fuse = Fuse::default();
    let compared = &|| fuse.burn();
    let queue = PriorityQueue::new(0);
    for (name, number) in (0..).zip(scrambled(40)) {
        let key = number;
        queue.put_nowait(Item { key, name, compared }).unwrap();
    }
    let mut sorted: Vec<_> = scrambled(40).collect();
    sorted.sort_unstable();
    let mut panicked = 0;
    for smallest in sorted {
        // At the first comparison, at the second, and so on, until it needs fewer.
        for calls in 1.. {
            fuse.panic_at(calls);
            let before = queue.qsize();
            let mut got = None;
            if !panics(|| got = queue.get_nowait().ok()) {
                assert!(fuse.is_burning(), "it was not reached");
                assert_eq!(got.unwrap().key, smallest);
                break;
            }
            panicked += 1;
            assert_eq!(queue.qsize(), before);
        }
    }
    assert!(queue.empty());
    assert!(panicked > 100, "{panicked}");
}

// brief: XT-9
#[test]
fn a_putter_whose_comparison_panics_leaves_the_room_to_the_next_one() {
    let (event_loop, _) = virtual_loop();
    let fuse = Rc::new(Fuse::default());
    let inside = fuse.clone();
    let compared: &'static dyn Fn() = Box::leak(Box::new(move || inside.burn()));
    let queue = PriorityQueue::new(2);
    for key in [1, 2] {
        queue
            .put_nowait(Item {
                key,
                name: 0,
                compared,
            })
            .unwrap();
    }
    let putters = [3, 4].map(|key| {
        let producer = queue.clone();
        event_loop.create_task(async move {
            producer
                .put(Item {
                    key,
                    name: 0,
                    compared,
                })
                .await
        })
    });
    settle(&event_loop);
    assert_eq!(queue.get_nowait().unwrap().key, 1);
    fuse.panic_at(1);
    settle(&event_loop);
    raised::<PanicError, _>(putters[0].result());
    putters[1].result().unwrap();
    assert_eq!(queue.get_nowait().unwrap().key, 2);
    assert_eq!(queue.get_nowait().unwrap().key, 4);
    nothing_is_left(&event_loop);
}

// brief: XT-9
#[test]
fn a_getter_whose_comparison_panics_leaves_the_item_to_the_next_one() {
    let (event_loop, _) = virtual_loop();
    let fuse = Rc::new(Fuse::default());
    let inside = fuse.clone();
    let compared: &'static dyn Fn() = Box::leak(Box::new(move || inside.burn()));
    let queue = PriorityQueue::new(0);
    // The third waits without having been woken for an item of its own.
    let getters = [(); 4].map(|()| event_loop.create_task(queue.get()));
    settle(&event_loop);
    for key in [1, 2, 3] {
        queue
            .put_nowait(Item {
                key,
                name: 0,
                compared,
            })
            .unwrap();
    }
    fuse.panic_at(1);
    settle(&event_loop);
    raised::<PanicError, _>(getters[0].take_result());
    let got = [1, 2, 3].map(|index: usize| getters[index].take_result().unwrap().key);
    assert_eq!(got, [1, 2, 3]);
    nothing_is_left(&event_loop);
}

// brief: XT-9
#[test]
fn an_item_whose_comparison_panicked_is_dropped_once() {
    struct Counted(
        u32,
        #[expect(dead_code, reason = "its drop counts")] crate::support::Counted,
    );

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Counted {}
    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            assert!(self.0 + other.0 < 10, "compared with a large one");
            self.0.cmp(&other.0)
        }
    }

    let drops = Drops::default();
    let queue = PriorityQueue::new(0);
    queue.put_nowait(Counted(2, drops.counted())).unwrap();
    queue.put_nowait(Counted(1, drops.counted())).unwrap();
    assert!(panics(|| queue.put_nowait(Counted(9, drops.counted()))));
    assert_eq!(drops.count(), 1);
    assert_eq!(queue.get_nowait().unwrap().0, 1);
    assert_eq!(queue.get_nowait().unwrap().0, 2);
    assert_eq!(drops.count(), 3);
}

// brief: XT-9
#[test]
fn a_comparison_that_comes_back_is_refused_and_loses_nothing() {
    type Returning = Item<'static>;
    thread_local! {
        static QUEUE: RefCell<Option<PriorityQueue<Returning>>> = const { RefCell::new(None) };
        static RETURNS: Cell<u32> = const { Cell::new(0) };
    }
    fn come_back() {
        let Some(queue) = QUEUE.with_borrow(|queue| queue.clone()) else {
            return;
        };
        RETURNS.set(RETURNS.get() + 1);
        assert!(
            !queue.empty() && !queue.full(),
            "what is compared is still counted"
        );
        let item = Item {
            key: 0,
            name: 7,
            compared: &come_back,
        };
        let refused = queue.put_nowait(item).unwrap_err();
        assert!(refused.is_full());
        assert_eq!(refused.into_item().name, 7);
        raised::<QueueEmpty, _>(queue.get_nowait());
        assert!(format!("{queue:?}").contains("qsize"));
    }

    let queue = PriorityQueue::new(0);
    let compared: &'static dyn Fn() = &come_back;
    QUEUE.set(Some(queue.clone()));
    for key in [3, 1, 2] {
        queue
            .put_nowait(Item {
                key,
                name: 0,
                compared,
            })
            .unwrap();
    }
    let got: Vec<_> = std::iter::from_fn(|| queue.get_nowait().ok())
        .map(|item| item.key)
        .collect();
    QUEUE.set(None);
    assert_eq!(got, [1, 2, 3]);
    assert!(RETURNS.get() >= 3);
}

// brief: XT-9
#[test]
fn a_comparison_that_shuts_the_queue_down_loses_nothing() {
    let shut_down: &'static _ = Box::leak(Box::new(RefCell::new(None::<Box<dyn Fn() -> usize>>)));
    let compared: &'static dyn Fn() = &*Box::leak(Box::new(|| {
        if let Some(shut_down) = &*shut_down.borrow() {
            assert_eq!(shut_down(), 0, "what is being compared is not thrown out");
        }
    }));
    let queue = PriorityQueue::new(0);
    for key in [2, 1] {
        queue
            .put_nowait(Item {
                key,
                name: 0,
                compared,
            })
            .unwrap();
    }
    let again = queue.clone();
    *shut_down.borrow_mut() = Some(Box::new(move || {
        let before = again.qsize();
        let thrown_out = again.shutdown(true).len();
        assert_eq!(again.qsize(), before);
        thrown_out
    }));
    // It was let in before the queue was shut down.
    queue
        .put_nowait(Item {
            key: 3,
            name: 0,
            compared,
        })
        .unwrap();
    let refused = queue
        .put_nowait(Item {
            key: 0,
            name: 0,
            compared,
        })
        .map_err(|error| error.is_shut_down());
    assert_eq!(refused, Err(true));
    let got: Vec<_> = std::iter::from_fn(|| queue.get_nowait().ok())
        .map(|item| item.key)
        .collect();
    assert_eq!(got, [1, 2, 3]);
    shut_down.take();
}

// brief: XT-9
#[test]
fn throwing_out_needs_no_comparison_and_keeps_the_order_of_the_puts() {
    let fuse = Fuse::default();
    let compared: &dyn Fn() = &|| fuse.burn();
    let queue = PriorityQueue::new(0);
    for (name, key) in (0..).zip([3, 1, 3, 2, 1]) {
        queue.put_nowait(Item { key, name, compared }).unwrap();
    }
    fuse.panic_at(1);
    let mut thrown_out = queue.shutdown(true);
    fuse.panic_at(0);
    let names = |items: &[Item<'_>]| items.iter().map(|item| item.name).collect::<Vec<_>>();
    assert_eq!(names(&thrown_out), [0, 1, 2, 3, 4]);
    thrown_out.sort();
    assert_eq!(
        names(&thrown_out),
        [1, 4, 3, 0, 2],
        "what the queue would have given"
    );
}
