//! The timers: a heap by deadline and, for equal ones, by the order of scheduling (`_scheduled`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use slotmap::SlotMap;

use crate::handles::{Callback, TimerKey};

/// Cancelled entries are left in the heap until they come up, or until they are more than these
/// and more than half of it (asyncio's rule): so cancelling is cheap and memory stays bounded.
const DEAD_ENTRIES_KEPT: usize = 64;

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: SlotMap<TimerKey, Slot>,
    scheduled: u64,
    /// How many entries of the heap are not cancelled.
    live: usize,
}

/// Ordered by its fields in turn: callbacks are never compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    deadline: u64,
    sequence: u64,
    key: TimerKey,
}

struct Slot {
    callback: Callback,
    /// It has left the heap and waits in the ready queue, where it can still be cancelled.
    due: bool,
}

/// Nanoseconds; what is too far away (584 years) saturates.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Timers {
    pub(crate) fn add(&mut self, when: Duration, callback: Callback) -> TimerKey {
        let key = self.slots.insert(Slot { callback, due: false });
        self.heap.push(Reverse(Entry {
            deadline: nanoseconds(when),
            sequence: self.scheduled,
            key,
        }));
        self.scheduled += 1;
        self.live += 1;
        key
    }

    /// Takes the callback out, to be dropped by the caller; `None` if it has run or was cancelled.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Callback> {
        let slot = self.slots.remove(key)?;
        if !slot.due {
            self.live -= 1;
            let dead = self.heap.len() - self.live;
            if dead > DEAD_ENTRIES_KEPT && dead > self.live {
                let slots = &self.slots;
                self.heap.retain(|Reverse(entry)| slots.contains_key(entry.key));
            }
        }
        Some(slot.callback)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Duration> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if self.slots.contains_key(entry.key) {
                return Some(Duration::from_nanos(entry.deadline));
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the next timer that is due out of the heap; it keeps its callback until it runs.
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<TimerKey> {
        let now = nanoseconds(now);
        while self
            .heap
            .peek()
            .is_some_and(|Reverse(entry)| entry.deadline <= now)
        {
            let Reverse(entry) = self.heap.pop()?;
            if let Some(slot) = self.slots.get_mut(entry.key) {
                slot.due = true;
                self.live -= 1;
                return Some(entry.key);
            }
        }
        None
    }

    /// The callback of a timer that is due, to be run now; `None` if it was cancelled meanwhile.
    pub(crate) fn take(&mut self, key: TimerKey) -> Option<Callback> {
        self.slots.remove(key).map(|slot| slot.callback)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How many entries there are in memory, the cancelled ones included.
    pub(crate) fn entries(&self) -> usize {
        self.heap.len()
    }

    /// Every callback there is, for the loop that closes.
    pub(crate) fn take_all(&mut self) -> Vec<Callback> {
        self.heap.clear();
        self.live = 0;
        self.slots.drain().map(|(_, slot)| slot.callback).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(timers: &mut Timers, seconds: u64) -> TimerKey {
        timers.add(Duration::from_secs(seconds), Box::new(|| ()))
    }

    #[test]
    fn equal_deadlines_come_in_scheduling_order() {
        let mut timers = Timers::default();
        let keys: Vec<_> = (0..50).map(|_| add(&mut timers, 5)).collect();
        let mut due = Vec::new();
        while let Some(key) = timers.next_due(Duration::from_secs(5)) {
            due.push(key);
        }
        assert_eq!(due, keys);
    }

    #[test]
    fn a_cancelled_head_is_no_deadline() {
        let mut timers = Timers::default();
        let first = add(&mut timers, 1);
        add(&mut timers, 2);
        assert!(timers.cancel(first).is_some());
        assert_eq!(timers.next_deadline(), Some(Duration::from_secs(2)));
    }

    #[test]
    fn memory_follows_the_live_timers() {
        let mut timers = Timers::default();
        add(&mut timers, 1);
        for _ in 0..100_000 {
            let key = add(&mut timers, 3600);
            timers.cancel(key);
            assert!(timers.entries() <= 2 + 2 * DEAD_ENTRIES_KEPT);
        }
    }

    #[test]
    fn what_is_beyond_the_clock_saturates() {
        let mut timers = Timers::default();
        timers.add(Duration::MAX, Box::new(|| ()));
        assert!(timers.next_due(Duration::from_secs(1 << 33)).is_none());
        assert!(timers.next_due(Duration::from_nanos(u64::MAX)).is_some());
    }
}
