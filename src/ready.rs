//! The ready queue: what can run now, first in first out (the brief's `_ready` deque).
//!
//! Most jobs are callbacks. The three other kinds (a task's step, a due timer, a ready source)
//! wait in a lane of their own, and the queue only says "the next `n` of that lane": so a job is
//! two words, and a step needs no box. (The lane of the timers is in `timers.rs`.) A callback is found
//! again by its position, counted from the first job the queue ever held, which is all that a
//! `Handle` needs for cancelling it.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::handles::{Callback, IoEvent};

/// What the queue holds.
pub(crate) enum Entry {
    Callback(Callback),
    /// So many jobs of that lane.
    Next(Lane, u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Step,
    Timer,
    Io,
}

/// The queue; `S` is what is stepped, a task.
pub(crate) struct ReadyQueue<S: ?Sized> {
    entries: VecDeque<Entry>,
    steps: VecDeque<Rc<S>>,
    events: VecDeque<IoEvent>,
    /// Position of the first entry.
    front: u64,
    /// Entries before this position belong to the batch that is running.
    batch_end: u64,
    /// How many batches there were, the empty ones included.
    batches: u64,
}

impl<S: ?Sized> Default for ReadyQueue<S> {
    fn default() -> ReadyQueue<S> {
        ReadyQueue {
            entries: VecDeque::new(),
            steps: VecDeque::new(),
            events: VecDeque::new(),
            front: 0,
            batch_end: 0,
            batches: 0,
        }
    }
}

impl<S: ?Sized> ReadyQueue<S> {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    fn end(&self) -> u64 {
        self.front + self.entries.len() as u64
    }

    /// Adds a callback and tells its position.
    #[inline]
    pub(crate) fn push_callback(&mut self, callback: Callback) -> u64 {
        let position = self.end();
        self.entries.push_back(Entry::Callback(callback));
        position
    }

    #[inline]
    pub(crate) fn push_step(&mut self, step: Rc<S>) {
        self.steps.push_back(step);
        self.one_more(Lane::Step);
    }

    /// So many timers are due, as `timers.rs` has them in order.
    pub(crate) fn push_timers(&mut self, mut count: usize) {
        while count > 0 {
            let next = u32::try_from(count).unwrap_or(u32::MAX);
            self.entries.push_back(Entry::Next(Lane::Timer, next));
            count -= next as usize;
        }
    }

    pub(crate) fn push_event(&mut self, event: IoEvent) {
        self.events.push_back(event);
        self.one_more(Lane::Io);
    }

    /// Counts up the last entry if it is of this lane and not part of the running batch.
    #[inline]
    fn one_more(&mut self, lane: Lane) {
        let in_batch = self.end() <= self.batch_end;
        match self.entries.back_mut() {
            Some(Entry::Next(last, count)) if *last == lane && !in_batch && *count < u32::MAX => {
                *count += 1;
            }
            _ => self.entries.push_back(Entry::Next(lane, 1)),
        }
    }

    /// Takes the callback at this position out, if it has not run; its place stays, empty.
    pub(crate) fn cancel(&mut self, position: u64) -> Option<Callback> {
        let index = usize::try_from(position.checked_sub(self.front)?).ok()?;
        match self.entries.get_mut(index)? {
            // The closure captures nothing, so that this box allocates nothing.
            Entry::Callback(callback) => Some(std::mem::replace(callback, Box::new(|| ()))),
            Entry::Next(..) => None,
        }
    }

    /// What is ready now is the batch, of so many entries; later jobs are not part of it.
    pub(crate) fn begin_batch(&mut self) -> usize {
        self.batch_end = self.end();
        self.batches += 1;
        self.entries.len()
    }

    /// Names the batch that is running, or was the last to run: each has another number.
    pub(crate) fn batch(&self) -> u64 {
        self.batches
    }

    /// Takes the first entry. Whoever takes it also takes the jobs of the lane that it stands for.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.front += 1;
        Some(entry)
    }

    #[inline]
    pub(crate) fn next_step(&mut self) -> Option<Rc<S>> {
        self.steps.pop_front()
    }

    pub(crate) fn next_event(&mut self) -> Option<IoEvent> {
        self.events.pop_front()
    }

    /// The tasks and operations that wait for a step.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Rc<S>> {
        self.steps.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = ReadyQueue<u32>;

    /// Takes a batch, and names its jobs.
    fn batch(queue: &mut Queue) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..queue.begin_batch() {
            match queue.next() {
                Some(Entry::Next(Lane::Step, count)) => {
                    names.extend((0..count).map(|_| queue.next_step().unwrap().to_string()));
                }
                Some(Entry::Next(_, count)) => names.push(format!("{count} timers")),
                _ => names.push("callback".to_string()),
            }
        }
        names
    }

    #[test]
    fn kinds_of_work_keep_one_common_order() {
        let mut queue = Queue::default();
        queue.push_step(Rc::new(1));
        queue.push_step(Rc::new(2));
        queue.push_callback(Box::new(|| ()));
        queue.push_timers(2);
        queue.push_step(Rc::new(3));
        assert_eq!(batch(&mut queue), ["1", "2", "callback", "2 timers", "3"]);
    }

    #[test]
    fn a_batch_does_not_grow_while_it_runs() {
        let mut queue = Queue::default();
        queue.push_step(Rc::new(1));
        assert_eq!(queue.begin_batch(), 1);
        queue.push_step(Rc::new(2));
        assert!(matches!(queue.next(), Some(Entry::Next(Lane::Step, 1))));
        assert_eq!(queue.next_step().as_deref(), Some(&1));
        assert_eq!(batch(&mut queue), ["2"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_comes_while_a_lane_is_run_is_for_the_next_batch() {
        let mut queue = Queue::default();
        queue.push_step(Rc::new(1));
        queue.push_step(Rc::new(2));
        assert_eq!(queue.begin_batch(), 1);
        assert!(matches!(queue.next(), Some(Entry::Next(Lane::Step, 2))));
        assert_eq!(queue.next_step().as_deref(), Some(&1));
        queue.push_step(Rc::new(3));
        queue.push_step(Rc::new(4));
        assert_eq!(queue.next_step().as_deref(), Some(&2));
        assert_eq!(batch(&mut queue), ["3", "4"]);
    }

    #[test]
    fn each_batch_has_another_name() {
        let mut queue = Queue::default();
        let before = queue.batch();
        queue.begin_batch();
        assert_ne!(queue.batch(), before);
    }

    #[test]
    fn a_position_names_one_callback_for_ever() {
        let mut queue = Queue::default();
        let first = queue.push_callback(Box::new(|| ()));
        queue.push_timers(1);
        let second = queue.push_callback(Box::new(|| ()));
        assert!(queue.cancel(second).is_some());
        assert_eq!(batch(&mut queue).len(), 3);
        assert!(queue.cancel(first).is_none());
        assert!(queue.cancel(second).is_none());
        assert!(queue.cancel(u64::MAX).is_none());
    }

    #[test]
    fn an_entry_is_two_words() {
        assert_eq!(size_of::<Entry>(), 2 * size_of::<usize>());
    }
}
