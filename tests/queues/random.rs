//! Random getters and putters that are dropped at random: nothing is lost, nobody sleeps for ever.

use std::cell::RefCell;
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use miniloop::{BaseQueue, LifoQueue, Order, PriorityQueue, Queue, Result};

use crate::common::virtual_loop;

/// Notes that it was woken.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Chance(u32);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as usize % limit
    }
}

/// An item, which is in the list of the living until it is dropped.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Item(u32);

/// Where each item has gone: by its number.
#[derive(Default)]
struct Books {
    made: u32,
    got: Vec<u32>,
    dropped_with_its_put: Vec<u32>,
}

type Wait = Pin<Box<dyn StdFuture<Output = Option<Item>>>>;

struct Waiting {
    is_getter: bool,
    future: Wait,
    flag: Arc<Flag>,
    /// What it wanted to put.
    item: Option<u32>,
}

struct Game<O: Order<Item>> {
    queue: BaseQueue<Item, O>,
    waiting: Vec<Waiting>,
    books: Rc<RefCell<Books>>,
}

impl<O: Order<Item> + 'static> Game<O> {
    fn item(&self) -> Item {
        let mut books = self.books.borrow_mut();
        books.made += 1;
        Item(books.made)
    }

    fn add(&mut self, is_getter: bool) {
        let (future, item): (Wait, _) = if is_getter {
            let get = self.queue.get();
            (Box::pin(async move { get.await.ok() }), None)
        } else {
            let item = self.item();
            let number = item.0;
            let put = self.queue.put_or_return(item);
            let put = async move {
                assert!(put.await.is_ok());
                None
            };
            (Box::pin(put), Some(number))
        };
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        self.waiting.push(Waiting {
            is_getter,
            future,
            flag,
            item,
        });
    }

    /// Polls one that was woken; one that is done leaves.
    fn poll(&mut self, index: usize) {
        let waiting = &mut self.waiting[index];
        if !waiting.flag.0.swap(false, Ordering::SeqCst) {
            return;
        }
        let waker = Waker::from(waiting.flag.clone());
        if let Poll::Ready(got) = waiting.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.waiting.remove(index);
            self.books.borrow_mut().got.extend(got.map(|item| item.0));
        }
    }

    fn play(&mut self, step: usize, chance: &mut Chance) {
        let count = self.waiting.len();
        match step {
            0 => self.add(true),
            1 => self.add(false),
            2 | 3 if count > 0 => {
                let gone = self.waiting.remove(chance.below(count));
                self.books.borrow_mut().dropped_with_its_put.extend(gone.item);
            }
            4 => {
                let item = self.item();
                if let Err(error) = self.queue.put_nowait(item) {
                    let back = error.into_item().0;
                    self.books.borrow_mut().dropped_with_its_put.push(back);
                }
            }
            5 => {
                let got = self.queue.get_nowait().ok().map(|item| item.0);
                self.books.borrow_mut().got.extend(got);
            }
            _ if count > 0 => self.poll(chance.below(count)),
            _ => {}
        }
    }

    /// Polls whoever was woken, until nobody is.
    fn settle(&mut self) {
        while let Some(index) = self
            .waiting
            .iter()
            .position(|waiting| waiting.flag.0.load(Ordering::SeqCst))
        {
            self.poll(index);
        }
    }

    #[track_caller]
    fn check(&self) {
        let sleeps = |getter| self.waiting.iter().any(|waiting| waiting.is_getter == getter);
        assert!(
            !sleeps(true) || self.queue.empty(),
            "a getter sleeps beside an item"
        );
        assert!(!sleeps(false) || self.queue.full(), "a putter sleeps beside room");
        assert!(self.queue.qsize() <= self.queue.maxsize());
    }

    /// Every item is in one place.
    #[track_caller]
    fn close(self) {
        let mut all: Vec<_> = self.waiting.iter().filter_map(|waiting| waiting.item).collect();
        all.extend(self.queue.shutdown(true).iter().map(|item| item.0));
        let books = self.books.borrow();
        all.extend(&books.got);
        all.extend(&books.dropped_with_its_put);
        all.sort_unstable();
        assert_eq!(all, Vec::from_iter(1..=books.made));
    }
}

async fn play<O: Order<Item> + 'static>(queue: BaseQueue<Item, O>, seed: u32) -> Result<()> {
    let mut chance = Chance(seed);
    let mut game = Game {
        queue,
        waiting: Vec::new(),
        books: Rc::default(),
    };
    for _ in 0..20 {
        for _ in 0..chance.below(20) {
            let step = chance.below(9);
            game.play(step, &mut chance);
        }
        game.settle();
        game.check();
    }
    game.close();
    Ok(())
}

// brief: XT-9
#[test]
fn futures_dropped_at_random_lose_no_item_and_leave_nobody_asleep() {
    let (event_loop, _) = virtual_loop();
    for seed in 0..100 {
        let maxsize = 1 + seed as usize % 3;
        event_loop
            .run_until_complete(play(Queue::new(maxsize), seed))
            .unwrap();
        event_loop
            .run_until_complete(play(LifoQueue::new(maxsize), seed))
            .unwrap();
        event_loop
            .run_until_complete(play(PriorityQueue::new(maxsize), seed))
            .unwrap();
    }
}
