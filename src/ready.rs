//! The ready queue: what can run now, first in first out (the brief's `_ready` deque).
//!
//! Most jobs are callbacks. The three other kinds (a task's step, a due timer, a ready source)
//! wait in a lane of their own, and the queue only says "the next `n` of that lane": so a job is
//! two words, and a step needs no box. (The lane of the timers is in `timers.rs`.) The last such run
//! is still open: it is only counted, and enters the queue when something else comes after it. A
//! callback is found again by its position, counted from the first entry the queue ever held, which is
//! all that a `Handle` needs for cancelling it.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::handles::{Callback, IoEvent};

/// What the queue holds.
pub(crate) enum Entry {
    Callback(Callback),
    Next(Run),
}

/// So many jobs of that lane.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) lane: Lane,
    pub(crate) count: u32,
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
    /// What comes after all entries.
    open: Run,
    /// Position of the first entry.
    front: u64,
    /// How many batches there were, the empty ones included.
    batches: u64,
}

impl<S: ?Sized> Default for ReadyQueue<S> {
    fn default() -> ReadyQueue<S> {
        ReadyQueue {
            entries: VecDeque::new(),
            steps: VecDeque::new(),
            events: VecDeque::new(),
            open: Run {
                lane: Lane::Step,
                count: 0,
            },
            front: 0,
            batches: 0,
        }
    }
}

impl<S: ?Sized> ReadyQueue<S> {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.open.count == 0
    }

    /// Adds a callback and tells its position.
    #[inline]
    pub(crate) fn push_callback(&mut self, callback: Callback) -> u64 {
        if self.open.count > 0 {
            self.end_run();
        }
        let position = self.front + self.entries.len() as u64;
        self.entries.push_back(Entry::Callback(callback));
        position
    }

    #[inline]
    pub(crate) fn push_step(&mut self, step: Rc<S>) {
        self.steps.push_back(step);
        self.one_more(Lane::Step);
    }

    /// So many timers are due, as `timers.rs` has them in order.
    pub(crate) fn push_timers(&mut self, count: usize) {
        (0..count).for_each(|_| self.one_more(Lane::Timer));
    }

    pub(crate) fn push_event(&mut self, event: IoEvent) {
        self.events.push_back(event);
        self.one_more(Lane::Io);
    }

    #[inline]
    fn one_more(&mut self, lane: Lane) {
        if self.open.lane != lane || self.open.count == u32::MAX {
            self.end_run();
            self.open.lane = lane;
        }
        self.open.count += 1;
    }

    /// Enters the open run, if there is one.
    #[inline(never)]
    fn end_run(&mut self) {
        if self.open.count > 0 {
            self.entries.push_back(Entry::Next(self.open));
            self.open.count = 0;
        }
    }

    /// Takes the callback at this position out, if it has not run; its place stays, empty.
    pub(crate) fn cancel(&mut self, position: u64) -> Option<Callback> {
        let index = usize::try_from(position.checked_sub(self.front)?).ok()?;
        match self.entries.get_mut(index)? {
            // The closure captures nothing, so that this box allocates nothing.
            Entry::Callback(callback) => Some(std::mem::replace(callback, Box::new(|| ()))),
            Entry::Next(_) => None,
        }
    }

    /// What is ready now is the batch, of so many entries, or of none but [`only_run`](Self::only_run);
    /// later jobs are not part of it.
    #[inline]
    pub(crate) fn begin_batch(&mut self) -> usize {
        self.batches += 1;
        if self.open.count > 0 && !self.entries.is_empty() {
            self.end_run();
        }
        self.entries.len()
    }

    /// Takes what a batch without entries consists of.
    pub(crate) fn only_run(&mut self) -> Run {
        let run = self.open;
        self.open.count = 0;
        run
    }

    /// Names the batch that is running, or was the last to run: each has another number.
    pub(crate) fn batch(&self) -> u64 {
        self.batches
    }

    /// Takes the first entry. Whoever takes it also takes the jobs of the lane that it stands for.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Entry> {
        if self.entries.is_empty() {
            // Never in a batch, which knows how many there are: all is being taken, for the loop closes.
            self.end_run();
        }
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
        let entries = queue.begin_batch();
        if entries == 0 {
            let run = queue.only_run();
            return jobs(queue, run);
        }
        let mut names = Vec::new();
        for _ in 0..entries {
            match queue.next() {
                Some(Entry::Next(run)) => names.extend(jobs(queue, run)),
                _ => names.push("callback".to_string()),
            }
        }
        names
    }

    fn jobs(queue: &mut Queue, Run { lane, count }: Run) -> Vec<String> {
        match lane {
            Lane::Step => (0..count)
                .map(|_| queue.next_step().unwrap().to_string())
                .collect(),
            _ if count > 0 => vec![format!("{count} timers")],
            _ => Vec::new(),
        }
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
        queue.push_callback(Box::new(|| ()));
        queue.push_step(Rc::new(1));
        assert_eq!(queue.begin_batch(), 2);
        assert!(matches!(queue.next(), Some(Entry::Callback(_))));
        queue.push_step(Rc::new(2));
        let Some(Entry::Next(run)) = queue.next() else {
            panic!("there is a step");
        };
        assert_eq!(jobs(&mut queue, run), ["1"]);
        assert_eq!(batch(&mut queue), ["2"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_comes_while_a_lane_is_run_is_for_the_next_batch() {
        let mut queue = Queue::default();
        queue.push_step(Rc::new(1));
        queue.push_step(Rc::new(2));
        assert_eq!((queue.begin_batch(), queue.only_run().count), (0, 2));
        assert_eq!(queue.next_step().as_deref(), Some(&1));
        queue.push_step(Rc::new(3));
        queue.push_step(Rc::new(4));
        assert_eq!(queue.next_step().as_deref(), Some(&2));
        assert_eq!(batch(&mut queue), ["3", "4"]);
    }

    #[test]
    fn without_batches_the_order_is_the_same() {
        let mut queue = Queue::default();
        queue.push_step(Rc::new(1));
        queue.push_callback(Box::new(|| ()));
        queue.push_step(Rc::new(2));
        let mut names = Vec::new();
        while let Some(entry) = queue.next() {
            match entry {
                Entry::Callback(_) => names.push("callback".to_string()),
                Entry::Next(run) => names.extend(jobs(&mut queue, run)),
            }
        }
        assert_eq!(names, ["1", "callback", "2"]);
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
