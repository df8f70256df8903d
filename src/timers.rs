//! The timers, by deadline and, for equal ones, by the order of scheduling (`_scheduled`).
//!
//! asyncio has one heap. A large heap is slow: each of its steps misses the processor's cache.
//! So only the timers that come next are in a heap here, a small one. The later ones wait in
//! blocks, each for a span of time of its own; inside a block they are in no order.
//!
//! ```text
//!            fresh                next                     later
//!        (just armed)           (a heap)   (blocks, the nearest is the last of them)
//!             |                0 s .. 3 s      3 s .. 9 s   9 s .. 40 s   40 s ..
//!             +---------------------^---------------^------------^-----------^
//!                    where its deadline belongs, if it lives on
//! ```
//!
//! * A new timer goes to `fresh`, at the price of a push. Many (a timeout around something quick)
//!   are cancelled while they are there.
//! * The fresh timers are placed when there are `FRESH` of them, more than half of them alive, or
//!   when the loop looks for the first timer and it may be among them. A block that has more than
//!   `ROOM` then is parted at its median, and so is the heap: its later half becomes the nearest
//!   block.
//! * When the heap is used up, the nearest block becomes the heap.
//! * A timer that is due has no entry any more; its key waits in `due` for its turn to run.
//! * The callback is in a slot, found by the key. Cancelling empties the slot and leaves the
//!   entry behind, whose key leads nowhere now. When there are too many such entries, each further
//!   cancelling sweeps a few places, in rotation, until there are not.
//!
//! So a timer is moved a few times between its arming and its firing, and never among more than
//! `ROOM` others. That bounds the pauses. The longest are the placing of `FRESH` fresh timers
//! (0.1 ms with 100,000 or 1,000,000 pending, one in a hundred 0.33 ms) and a sweep (0.01 and
//! 0.03 ms; one heap, swept as a whole, took 1.2 and 15 ms). One thing grows with the number of
//! timers: when the nearest third of all was cancelled at one stroke, the next look leafs through
//! it, in 0.2 and 3.6 ms (the heap: 11 and 250 ms), which is less than the cancelling took. Those
//! are the pauses of this file. The allocator has some of its own: glibc's merges all the small
//! boxes that were freed, when a block's memory is asked for or given back (after half of 100,000
//! or 1,000,000 timers with captures were cancelled, once 5 or 70 ms).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use slotmap::SlotMap;

use crate::handles::TimerKey;

/// How many entries the heap and each block may have. (Few in this file's own tests, so that there are
/// many blocks.)
const ROOM: usize = if cfg!(test) { 8 } else { 1024 };

/// Of the fresh ones there may be more, for many of them are cancelled: a thousand tasks that each renew a
/// timeout in every tick have none of them placed.
const FRESH: usize = 2 * ROOM;

/// How many due timers are looked for in memory at once.
const LOOKED_FOR: usize = 16;

pub(crate) struct Timers<C> {
    /// The callbacks, also those of due timers, which have no entry any more.
    slots: SlotMap<TimerKey, C>,
    fresh: Vec<Entry>,
    /// No deadline in `fresh` is earlier.
    fresh_from: u64,
    /// Sooner than all of `later`.
    next: BinaryHeap<Entry>,
    /// The farthest first.
    later: Vec<Block>,
    /// How many entries there are in these three.
    entries: usize,
    /// Those that are due and have not been asked for to be run.
    due: VecDeque<TimerKey>,
    scheduled: u64,
    /// The block to be swept next.
    to_sweep: usize,
}

/// Ordered by its fields in turn: callbacks are never compared. Reversed, for a heap gives out the
/// greatest.
type Entry = Reverse<(Turn, TimerKey)>;

/// The place of a timer in the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    deadline: u64,
    sequence: u64,
}

struct Block {
    /// The first turn that belongs here; the last one is before the next block's first.
    from: Turn,
    entries: Vec<Entry>,
}

/// Nanoseconds; what is too far away (584 years) saturates.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<C> Default for Timers<C> {
    fn default() -> Timers<C> {
        Timers {
            slots: SlotMap::default(),
            fresh: Vec::new(),
            fresh_from: 0,
            next: BinaryHeap::new(),
            later: Vec::new(),
            entries: 0,
            due: VecDeque::new(),
            scheduled: 0,
            to_sweep: 0,
        }
    }
}

impl<C> Timers<C> {
    /// Adds a timer. (`callback` makes what is to be kept, in its place.)
    #[inline]
    pub(crate) fn add(&mut self, when: Duration, callback: impl FnOnce() -> C) -> TimerKey {
        let turn = Turn {
            deadline: nanoseconds(when),
            sequence: self.scheduled,
        };
        self.scheduled += 1;
        let key = self.slots.insert_with_key(|_| callback());
        self.fresh.push(Reverse((turn, key)));
        self.fresh_from = self.fresh_from.min(turn.deadline);
        self.entries += 1;
        if self.fresh.len() == FRESH {
            self.make_room();
        }
        key
    }

    #[inline(never)]
    fn make_room(&mut self) {
        self.sweep_fresh();
        if self.fresh.len() > FRESH / 2 {
            self.place_fresh();
        }
    }

    /// Takes the callback out, to be dropped by the caller; `None` if it has run or was cancelled.
    #[inline]
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<C> {
        let callback = self.slots.remove(key)?;
        if self.fresh.pop_if(|Reverse((_, newest))| *newest == key).is_some() {
            self.entries -= 1;
        }
        self.sweep_if_needed();
        Some(callback)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&mut self) -> Option<Duration> {
        if self.entries() == 0 {
            return None;
        }
        let (turn, _) = self.soonest(u64::MAX)?;
        Some(Duration::from_nanos(turn.deadline))
    }

    /// Makes the timers due whose time has come, in their order, and tells how many these are. Each
    /// keeps its callback until it runs.
    pub(crate) fn move_due(&mut self, now: Duration) -> usize {
        let (now, before) = (nanoseconds(now), self.due.len());
        while let Some((_, key)) = self.soonest(now) {
            self.drop_soonest();
            self.due.push_back(key);
        }
        self.due.len() - before
    }

    /// The callback of the first timer that is due, to be run now; `None` if it was cancelled.
    pub(crate) fn take_due(&mut self) -> Option<C> {
        if self.due.len().is_multiple_of(LOOKED_FOR) {
            self.look_for_due();
        }
        let key = self.due.pop_front()?;
        let callback = self.slots.remove(key);
        self.sweep_if_needed();
        callback
    }

    /// The slots of timers that come one after the other are far from each other in memory. The
    /// processor fetches many at once if nothing else is to be done in between.
    fn look_for_due(&self) {
        for key in self.due.iter().take(LOOKED_FOR) {
            std::hint::black_box(self.slots.contains_key(*key));
        }
    }

    /// Whether there is no timer that has not been run or cancelled.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many entries there are in memory, the cancelled ones included.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Every callback there is, for the loop that closes.
    pub(crate) fn take_all(&mut self) -> Vec<C> {
        self.fresh.clear();
        self.next.clear();
        self.later.clear();
        self.due.clear();
        self.entries = 0;
        self.slots.drain().map(|(_, callback)| callback).collect()
    }

    /// The first of all timers, unless its deadline is after `until`.
    fn soonest(&mut self, until: u64) -> Option<(Turn, TimerKey)> {
        loop {
            while self.next.is_empty()
                && let Some(nearest) = self.later.pop()
            {
                self.open(nearest);
            }
            let first = self.next.peek();
            let first = first.map_or(u64::MAX, |Reverse((turn, _))| turn.deadline);
            if self.fresh_from <= first.min(until) {
                self.place_fresh();
            }
            let Reverse((turn, key)) = *self.next.peek()?;
            if turn.deadline > until {
                return None;
            }
            if self.none_is_cancelled() || self.slots.contains_key(key) {
                return Some((turn, key));
            }
            self.drop_soonest();
        }
    }

    /// Makes a block the heap.
    fn open(&mut self, mut block: Block) {
        if !self.none_is_cancelled() {
            let before = block.entries.len();
            let is_live = |Reverse((_, key)): &Entry| self.slots.contains_key(*key);
            block.entries.retain(is_live);
            self.entries -= before - block.entries.len();
        }
        // Not the block's own memory: the heap's has grown to the right size.
        self.next.extend(block.entries);
    }

    /// If so, the slots need not be looked at. It may be false only because of a cancelled timer
    /// that is due.
    fn none_is_cancelled(&self) -> bool {
        self.entries + self.due.len() == self.slots.len()
    }

    fn drop_soonest(&mut self) {
        self.next.pop();
        self.entries -= 1;
    }

    fn place_fresh(&mut self) {
        while let Some(entry) = self.fresh.pop() {
            let turn = entry.0.0;
            let index = self.later.partition_point(|block| block.from > turn);
            if let Some(block) = self.later.get_mut(index) {
                block.entries.push(entry);
                if block.entries.len() > ROOM {
                    let later_half = part(&mut block.entries);
                    self.later.insert(index, later_half);
                }
            } else {
                self.next.push(entry);
                if self.next.len() > ROOM {
                    let mut entries = std::mem::take(&mut self.next).into_vec();
                    self.later.push(part(&mut entries));
                    self.next = entries.into();
                }
            }
        }
        self.fresh_from = u64::MAX;
    }

    /// Keeps the cancelled entries fewer than half of the live timers, or few: `entries` is at most
    /// 2 * live + 64 even while the sweeping, a bounded piece at each call, catches up.
    #[inline]
    fn sweep_if_needed(&mut self) {
        let enough = self.slots.len() + self.slots.len() / 2 + 32;
        if self.entries > enough {
            self.sweep_down_to(enough);
        }
    }

    #[inline(never)]
    fn sweep_down_to(&mut self, enough: usize) {
        let mut looked_at = 0;
        while self.entries > enough && looked_at < 2 * ROOM {
            looked_at += 16 + self.sweep_one_place();
        }
    }

    /// Sweeps a block or, after the last of them, the heap and `fresh`. Tells how many it looked at.
    fn sweep_one_place(&mut self) -> usize {
        let is_live = |Reverse((_, key)): &Entry| self.slots.contains_key(*key);
        let (before, after);
        if let Some(block) = self.later.get_mut(self.to_sweep) {
            before = block.entries.len();
            block.entries.retain(is_live);
            after = block.entries.len();
            block.entries.shrink_to(2 * after);
            if after == 0 {
                self.later.remove(self.to_sweep);
            } else {
                self.to_sweep += 1;
            }
        } else {
            before = self.next.len();
            self.next.retain(is_live);
            after = self.next.len();
            self.to_sweep = 0;
            self.sweep_fresh();
        }
        self.entries -= before - after;
        before
    }

    fn sweep_fresh(&mut self) {
        let before = self.fresh.len();
        self.fresh
            .retain(|Reverse((_, key))| self.slots.contains_key(*key));
        self.entries -= before - self.fresh.len();
        let deadlines = self.fresh.iter().map(|Reverse((turn, _))| turn.deadline);
        self.fresh_from = deadlines.min().unwrap_or(u64::MAX);
    }
}

/// Takes the later half away, as a block.
fn part(entries: &mut Vec<Entry>) -> Block {
    let middle = entries.len() / 2;
    entries.select_nth_unstable_by_key(middle, |Reverse((turn, _))| *turn);
    let later_half = entries.split_off(middle);
    Block {
        from: later_half[0].0.0,
        entries: later_half,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::handles::Callback;

    type Timers = super::Timers<Callback>;

    fn add(timers: &mut Timers, seconds: u64) -> TimerKey {
        timers.add(Duration::from_secs(seconds), || Box::new(|| ()))
    }

    #[test]
    fn equal_deadlines_come_in_scheduling_order() {
        let mut timers = Timers::default();
        let keys: Vec<_> = (0..50).map(|_| add(&mut timers, 5)).collect();
        assert_eq!(timers.move_due(Duration::from_secs(5)), 50);
        assert_eq!(timers.due, keys);
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
            assert!(timers.entries() <= 2 + 64);
        }
    }

    #[test]
    fn memory_follows_the_live_timers_among_many() {
        let mut timers = Timers::default();
        let mut keys: Vec<_> = (0..20_000).map(|number| add(&mut timers, number)).collect();
        timers.next_deadline(); // so that they are placed
        // The farthest first, so that whole blocks are cancelled.
        while let Some(key) = keys.pop() {
            timers.cancel(key);
            assert!(timers.entries() <= 2 * keys.len() + 64);
        }
        assert!(timers.is_empty());
        assert_eq!(timers.next_deadline(), None);
        assert_eq!(timers.entries(), 0);
    }

    #[test]
    fn timers_that_fire_leave_no_cancelled_ones_behind() {
        let mut timers = Timers::default();
        for number in 0..20_000 {
            add(&mut timers, number);
            let farther = add(&mut timers, 20_000 + number);
            if number % 3 == 0 {
                timers.next_deadline();
                timers.cancel(farther);
            }
        }
        for second in 0..40_000 {
            for _ in 0..timers.move_due(Duration::from_secs(second)) {
                assert!(timers.take_due().is_some());
            }
            assert!(timers.entries() <= 2 * timers.slots.len() + 64);
        }
        assert!(timers.is_empty());
    }

    #[test]
    fn one_that_is_due_can_be_cancelled_until_it_runs() {
        let mut timers = Timers::default();
        let (first, second) = (add(&mut timers, 1), add(&mut timers, 1));
        assert_eq!(timers.move_due(Duration::from_secs(1)), 2);
        assert_eq!(timers.due, [first, second]);
        assert!(timers.cancel(second).is_some());
        assert!(timers.take_due().is_some());
        assert!(timers.take_due().is_none());
        assert!(timers.is_empty());
    }

    #[test]
    fn many_that_are_due_run_one_after_the_other() {
        let mut timers = Timers::default();
        let ran = Rc::new(RefCell::new(Vec::new()));
        for number in 0..1000 {
            let log = ran.clone();
            let when = Duration::from_secs(number % 10);
            timers.add(when, || Box::new(move || log.borrow_mut().push(number)));
        }
        for _ in 0..timers.move_due(Duration::from_secs(10)) {
            timers.take_due().unwrap()();
        }
        let mut expected = Vec::from_iter(0..1000);
        expected.sort_by_key(|number| number % 10);
        assert_eq!(*ran.borrow(), expected);
    }

    #[test]
    fn deadlines_that_have_passed_come_first_and_in_their_order() {
        let mut timers = Timers::default();
        for number in 0..3000 {
            add(&mut timers, 10_000 + number);
        }
        timers.next_deadline();
        let past: Vec<_> = [7, 5, 6, 5].map(|seconds| add(&mut timers, seconds)).into();
        timers.move_due(Duration::from_secs(100));
        assert_eq!(timers.due, [past[1], past[3], past[2], past[0]]);
    }

    #[test]
    fn what_outlives_a_sweep_of_the_fresh_ones_is_not_late() {
        let mut timers = Timers::default();
        add(&mut timers, 50);
        let cancelled = [10, 10].map(|seconds| add(&mut timers, seconds));
        let (sooner, later) = (add(&mut timers, 20), add(&mut timers, 90));
        for key in cancelled {
            timers.cancel(key);
        }
        timers.sweep_fresh();
        timers.move_due(Duration::from_secs(30));
        assert_eq!(timers.due, [sooner]);
        assert_eq!(timers.next_deadline(), Some(Duration::from_secs(50)));
        assert!(timers.cancel(later).is_some());
    }

    #[test]
    fn taking_all_leaves_nothing() {
        let mut timers = Timers::default();
        let keys: Vec<_> = (0..5000).map(|number| add(&mut timers, number)).collect();
        timers.move_due(Duration::ZERO);
        timers.cancel(keys[1]);
        add(&mut timers, 3);
        assert_eq!(timers.take_all().len(), 5000);
        assert_eq!((timers.entries(), timers.next_deadline()), (0, None));
        assert!(timers.take_due().is_none());
    }

    #[test]
    fn what_is_beyond_the_clock_saturates() {
        let mut timers = Timers::default();
        timers.add(Duration::MAX, || Box::new(|| ()));
        assert_eq!(timers.move_due(Duration::from_secs(1 << 33)), 0);
        assert_eq!(timers.move_due(Duration::from_nanos(u64::MAX)), 1);
    }

    /// What the timers are to do, in the plainest way: a list, sorted.
    #[derive(Default)]
    struct Model {
        waiting: Vec<(Duration, u64, TimerKey)>,
        due: VecDeque<TimerKey>,
        now: Duration,
    }

    /// The same random life for the timers and for the model; `span` nanoseconds is how far ahead
    /// deadlines are, and so how often they are equal.
    fn live_like_the_model(mut seed: u64, span: u64, busy: u64) {
        let mut random = move |below: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        let (mut timers, mut model) = (Timers::default(), Model::default());
        let held = Rc::new(());
        for number in 0..20_000 {
            // Busy and quiet times in turn, so that there are many and few.
            let adding = if number / 4000 % 2 == 0 { busy } else { 1 };
            for _ in 0..random(adding + 1) {
                let since = model.now.saturating_sub(Duration::from_nanos(span / 8));
                let when = since + Duration::from_nanos(random(span));
                let captured = held.clone();
                let key = timers.add(when, || Box::new(move || drop(captured)));
                let place = model.waiting.partition_point(|(other, ..)| *other <= when);
                model.waiting.insert(place, (when, number, key));
            }
            if random(3) > 0 && !model.waiting.is_empty() {
                // The soonest, or one of the newest, or any.
                let count = model.waiting.len();
                let index = match random(3) {
                    0 => 0,
                    1 => (0..count)
                        .max_by_key(|index| model.waiting[*index].1)
                        .unwrap_or(0),
                    _ => random(count as u64) as usize,
                };
                let (_, _, key) = model.waiting.remove(index);
                assert!(timers.cancel(key).is_some());
                assert!(timers.cancel(key).is_none());
            }
            if random(2) == 0 {
                let soonest = model.waiting.first().map(|(when, ..)| *when);
                assert_eq!(timers.next_deadline(), soonest);
            }
            if random(4) == 0 {
                model.now += Duration::from_nanos(random(span / 100 + 2));
                let due = model.waiting.partition_point(|(when, ..)| *when <= model.now);
                model.due.extend(model.waiting.drain(..due).map(|(.., key)| key));
                assert_eq!(timers.move_due(model.now), due);
                assert_eq!(timers.due, model.due);
            }
            if random(8) == 0 {
                let cancelled = model.due.pop_back();
                if let Some(key) = cancelled {
                    assert!(timers.cancel(key).is_some());
                }
                for _ in model.due.drain(..) {
                    assert!(timers.take_due().is_some());
                }
                assert!(cancelled.is_none() || timers.take_due().is_none());
            }
            let live = model.waiting.len() + model.due.len();
            assert_eq!(Rc::strong_count(&held) - 1, live);
            assert_eq!(timers.is_empty(), live == 0);
            assert!(timers.entries() >= model.waiting.len());
            assert!(timers.entries() <= 2 * live + 64);
        }
    }

    #[test]
    fn a_random_life_is_that_of_a_sorted_list() {
        for (seed, (span, busy)) in [(40, 2), (1000, 4), (1_000_000_000, 4), (1 << 40, 8)]
            .into_iter()
            .enumerate()
        {
            live_like_the_model(seed as u64, span, busy);
        }
    }
}
