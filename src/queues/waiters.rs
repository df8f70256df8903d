//! Those who wait for a queue, in order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::errors::Result;
use crate::futures::Future;
use crate::loop_core::LoopHandle;

/// Getters, putters or joiners, in the order they came (a deque of futures in asyncio, where
/// taking one out of the middle is a search).
#[derive(Default)]
pub(super) struct Waiters {
    waiting: RefCell<BTreeMap<u64, Future<()>>>,
    arrivals: Cell<u64>,
}

impl Waiters {
    pub(super) fn len(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Waits to be woken. One that is cancelled or dropped after it was woken wakes the next one,
    /// if there is something `for_another` to do.
    pub(super) async fn wait(&self, event_loop: &LoopHandle, for_another: impl Fn() -> bool) -> Result<()> {
        let arrival = self.arrivals.get();
        self.arrivals.set(arrival + 1);
        let future = event_loop.create_future();
        self.waiting.borrow_mut().insert(arrival, future.clone());
        let mut place = Place {
            waiters: self,
            arrival,
            future,
            for_another,
            served: false,
        };
        let woken = (&mut place.future).await;
        place.served = woken.is_ok();
        woken
    }

    /// Wakes the first one that is not cancelled.
    pub(super) fn wake_next(&self) {
        while let Some(waiter) = self.pop() {
            if waiter.set_result(()).is_ok() {
                return;
            }
        }
    }

    /// Wakes all who are here now.
    pub(super) fn wake_all(&self) {
        for waiter in self.waiting.take().into_values() {
            // One that is cancelled learns of it by itself.
            let _ = waiter.set_result(());
        }
    }

    fn pop(&self) -> Option<Future<()>> {
        let first = self.waiting.borrow_mut().pop_first();
        first.map(|(_, waiter)| waiter)
    }

    fn remove(&self, arrival: u64) {
        let removed = self.waiting.borrow_mut().remove(&arrival);
        drop(removed);
    }
}

/// A place among those who wait, given up in whatever way the wait ends.
struct Place<'a, F: Fn() -> bool> {
    waiters: &'a Waiters,
    arrival: u64,
    future: Future<()>,
    for_another: F,
    served: bool,
}

impl<F: Fn() -> bool> Drop for Place<'_, F> {
    fn drop(&mut self) {
        if self.served {
            return;
        }
        self.waiters.remove(self.arrival);
        let woken = self.future.done() && !self.future.cancelled();
        if woken && (self.for_another)() {
            self.waiters.wake_next();
        }
    }
}
