//! In which order items come out, and how they are kept for it.

use std::cmp::Ordering;
use std::collections::VecDeque;

/// How a queue keeps its items. Not open to other crates.
pub trait Items<T>: Default {
    fn len(&self) -> usize;

    /// Adds an item. If a comparison panics nothing was added, and nothing has moved.
    fn push(&mut self, item: T);

    /// Takes the next item out. If a comparison panics nothing was taken, and nothing has moved.
    fn pop(&mut self) -> Option<T>;

    /// Takes everything out, without a comparison.
    fn take_all(&mut self) -> Vec<T>;
}

/// In which order a [`BaseQueue`](super::BaseQueue) gives its items out: [`Fifo`], [`Lifo`] or
/// [`Priority`]. No other crate can implement it.
pub trait Order<T> {
    #[doc(hidden)]
    type Items: Items<T>;
    #[doc(hidden)]
    const NAME: &'static str;
}

/// The oldest item first: the order of a [`Queue`](super::Queue).
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

/// The newest item first: the order of a [`LifoQueue`](super::LifoQueue).
#[derive(Clone, Copy, Debug)]
pub struct Lifo;

/// The smallest item first: the order of a [`PriorityQueue`](super::PriorityQueue).
#[derive(Clone, Copy, Debug)]
pub struct Priority;

impl<T> Order<T> for Fifo {
    type Items = VecDeque<T>;
    const NAME: &'static str = "Queue";
}

impl<T> Order<T> for Lifo {
    type Items = Vec<T>;
    const NAME: &'static str = "LifoQueue";
}

impl<T: Ord> Order<T> for Priority {
    type Items = Heap<T>;
    const NAME: &'static str = "PriorityQueue";
}

impl<T> Items<T> for VecDeque<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn push(&mut self, item: T) {
        self.push_back(item);
    }

    fn pop(&mut self) -> Option<T> {
        self.pop_front()
    }

    fn take_all(&mut self) -> Vec<T> {
        std::mem::take(self).into()
    }
}

impl<T> Items<T> for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn push(&mut self, item: T) {
        self.push(item);
    }

    fn pop(&mut self) -> Option<T> {
        self.pop()
    }

    fn take_all(&mut self) -> Vec<T> {
        let mut items = std::mem::take(self);
        items.reverse();
        items
    }
}

/// A binary heap, the smallest item on top, equal ones in the order they came.
///
/// Not `BinaryHeap`, which loses an item when a comparison panics in its `pop`. Here the way
/// through the heap is found first, with all the comparisons, and things are moved afterwards.
pub struct Heap<T> {
    entries: Vec<Entry<T>>,
    arrivals: u64,
}

struct Entry<T> {
    item: T,
    arrival: u64,
}

impl<T: Ord> Entry<T> {
    fn comes_before(&self, other: &Entry<T>) -> bool {
        let order = self.item.cmp(&other.item);
        order.then(self.arrival.cmp(&other.arrival)) == Ordering::Less
    }
}

fn parent(place: usize) -> usize {
    (place - 1) / 2
}

impl<T: Ord> Heap<T> {
    /// The place to which the last entry sinks if it is put on top.
    fn place_of_last(&self) -> usize {
        let entries = &self.entries;
        let last = entries.len() - 1;
        let mut place = 0;
        loop {
            let left = 2 * place + 1;
            if left >= last {
                return place;
            }
            let right = left + 1;
            let first = if right < last && entries[right].comes_before(&entries[left]) {
                right
            } else {
                left
            };
            if !entries[first].comes_before(&entries[last]) {
                return place;
            }
            place = first;
        }
    }
}

impl<T> Default for Heap<T> {
    fn default() -> Heap<T> {
        Heap {
            entries: Vec::new(),
            arrivals: 0,
        }
    }
}

impl<T: Ord> Items<T> for Heap<T> {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, item: T) {
        let arrival = self.arrivals;
        let entry = Entry { item, arrival };
        let last = self.entries.len();
        let mut target = last;
        while target > 0 && entry.comes_before(&self.entries[parent(target)]) {
            target = parent(target);
        }
        self.arrivals += 1;
        self.entries.push(entry);
        let mut place = last;
        while place > target {
            self.entries.swap(place, parent(place));
            place = parent(place);
        }
    }

    fn pop(&mut self) -> Option<T> {
        if self.entries.is_empty() {
            return None;
        }
        let mut place = self.place_of_last();
        let top = self.entries.swap_remove(0);
        // From the bottom of the way to its top: all on it go up by one, the last entry down.
        while place > 0 {
            self.entries.swap(0, place);
            place = parent(place);
        }
        Some(top.item)
    }

    fn take_all(&mut self) -> Vec<T> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.item).collect()
    }
}
