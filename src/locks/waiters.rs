//! Those who wait for one thing, in the order they came.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future as StdFuture;

use crate::errors::Result;
use crate::futures::Future;
use crate::loop_core::LoopHandle;

/// A queue in which entering, waking and leaving cost O(log n), however many of the waiters were
/// woken or cancelled. Nothing is woken or dropped while it is borrowed.
#[derive(Default)]
pub(super) struct Waiters {
    queue: RefCell<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The number of the newest place.
    last: u64,
    /// Everybody until they leave; so also those that were woken or cancelled, and have not gone
    /// on since.
    present: BTreeMap<u64, Future<()>>,
    /// Those that were not woken. One that was cancelled is struck off when it is met at the front.
    asleep: BTreeSet<u64>,
    /// How many of those present were woken.
    woken: usize,
}

impl Queue {
    /// The one that waits longest, and was neither woken nor cancelled.
    fn first_asleep(&mut self) -> Option<u64> {
        while let Some(&number) = self.asleep.first() {
            if self.present.get(&number).is_some_and(|future| !future.done()) {
                return Some(number);
            }
            self.asleep.remove(&number);
        }
        None
    }

    /// Counts it as woken; the future is to be completed at once.
    fn mark_woken(&mut self, number: u64) -> Option<Future<()>> {
        let future = self.present.get(&number)?.clone();
        self.asleep.remove(&number);
        self.woken += 1;
        Some(future)
    }
}

impl Waiters {
    /// Stands in the queue.
    pub(super) fn enter(&self, event_loop: &LoopHandle) -> Place<'_> {
        let future = event_loop.create_future();
        let mut queue = self.queue.borrow_mut();
        queue.last += 1;
        let number = queue.last;
        queue.present.insert(number, future.clone());
        queue.asleep.insert(number);
        Place {
            waiters: self,
            number,
            future,
        }
    }

    /// How many are in the queue.
    pub(super) fn len(&self) -> usize {
        self.queue.borrow().present.len()
    }

    /// Whether there is anybody who was not cancelled.
    pub(super) fn anybody(&self) -> bool {
        let mut queue = self.queue.borrow_mut();
        queue.woken > 0 || queue.first_asleep().is_some()
    }

    /// Wakes the one at the head, unless it was woken or cancelled already: then it is going to
    /// step, and passes on what it does not take.
    pub(super) fn wake_head(&self) {
        let head = {
            let mut queue = self.queue.borrow_mut();
            let head = queue.present.first_key_value();
            match head.map(|(number, future)| (*number, future.done())) {
                Some((number, false)) => queue.mark_woken(number),
                _ => None,
            }
        };
        wake(head);
    }

    /// Wakes the first that can be woken; false if there is none.
    pub(super) fn wake_next(&self) -> bool {
        self.wake_up_to(u64::MAX)
    }

    /// Wakes so many of those that are in the queue now, in order.
    pub(super) fn wake_many(&self, most: usize) {
        // Waking may run a foreign waker, and that anything: those who come meanwhile are not meant.
        let last = self.queue.borrow().last;
        for _ in 0..most {
            if !self.wake_up_to(last) {
                break;
            }
        }
    }

    fn wake_up_to(&self, last: u64) -> bool {
        let next = {
            let mut queue = self.queue.borrow_mut();
            match queue.first_asleep() {
                Some(number) if number <= last => queue.mark_woken(number),
                _ => None,
            }
        };
        wake(next)
    }

    /// Takes a place out of the queue; true if it was there until now, and had been woken.
    fn leave(&self, number: u64) -> bool {
        let mut queue = self.queue.borrow_mut();
        let Some(future) = queue.present.remove(&number) else {
            return false;
        };
        queue.asleep.remove(&number);
        let woken = future.done() && !future.cancelled();
        if woken {
            queue.woken -= 1;
        }
        drop(queue);
        woken
    }
}

fn wake(future: Option<Future<()>>) -> bool {
    // It was pending a moment ago, and no other code ran since.
    future.is_some_and(|future| future.set_result(()).is_ok())
}

/// A place in the queue. Dropping it is leaving.
pub(super) struct Place<'a> {
    waiters: &'a Waiters,
    number: u64,
    future: Future<()>,
}

impl Place<'_> {
    /// Waits to be woken. The place stays in the queue; it is for the caller to leave.
    pub(super) fn woken(&mut self) -> impl StdFuture<Output = Result<()>> {
        &mut self.future
    }

    /// Leaves the queue; true if it was in it until now, and had been woken.
    pub(super) fn leave(&self) -> bool {
        self.waiters.leave(self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
