//! Who waits: an entry for each source, with a side for each direction.

use std::collections::HashMap;
use std::io;
use std::rc::{Rc, Weak};

use slotmap::SlotMap;
#[cfg(target_pointer_width = "64")]
use slotmap::{Key, KeyData};

use super::poller::{Interest, Poller, Raw, Report};
use super::{Operation, Watcher};
use crate::few::Few;
use crate::handles::{Direction, IoEvent, SourceKey};

/// What tells one operation from another: where it is.
pub(crate) type OperationId = *const ();

pub(super) fn id_of(operation: &Weak<dyn Operation>) -> OperationId {
    operation.as_ptr().cast()
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) entries: SlotMap<SourceKey, Entry>,
    pub(super) by_raw: HashMap<Raw, SourceKey>,
    /// Entries that have changed since the last poll.
    pub(super) changed: Vec<SourceKey>,
    /// How many entries are being watched, but for the changes.
    pub(super) watched: usize,
}

pub(super) struct Entry {
    pub(super) raw: Raw,
    /// What the system was told; it does not know a source in which there is no interest.
    pub(super) told: Interest,
    /// What is wanted, but for the changes.
    pub(super) wanted: Interest,
    pub(super) in_changed: bool,
    /// The system is to be told again: a watcher was replaced, perhaps because another socket has
    /// taken over the number.
    pub(super) tell_again: bool,
    pub(super) read: Side,
    /// Made when somebody first waits to write: with most sources nobody ever does.
    pub(super) write: Option<Box<Side>>,
}

impl Entry {
    pub(super) fn new(raw: Raw) -> Entry {
        Entry {
            raw,
            told: Interest::None,
            wanted: Interest::None,
            in_changed: false,
            tell_again: false,
            read: Side::default(),
            write: None,
        }
    }

    pub(super) fn side(&self, direction: Direction) -> Option<&Side> {
        match direction {
            Direction::Read => Some(&self.read),
            Direction::Write => self.write.as_deref(),
        }
    }

    pub(super) fn side_mut(&mut self, direction: Direction) -> Option<&mut Side> {
        match direction {
            Direction::Read => Some(&mut self.read),
            Direction::Write => self.write.as_deref_mut(),
        }
    }

    pub(super) fn make_side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => self.write.get_or_insert_default(),
        }
    }

    /// What is wanted of it is to be worked out again.
    #[inline]
    pub(super) fn note_change(&mut self, key: SourceKey, changed: &mut Vec<SourceKey>) {
        if !self.in_changed {
            self.in_changed = true;
            changed.push(key);
        }
    }

    /// Works out what is wanted now, and counts it in or out of those that are watched.
    #[inline]
    pub(super) fn work_out_wanted(&mut self, watched: &mut usize) {
        let write = self.write.as_deref().is_some_and(Side::wants_readiness);
        let wanted = Interest::new(self.read.wants_readiness(), write);
        match (self.wanted, wanted) {
            _ if self.wanted == wanted => return,
            (Interest::None, _) => *watched += 1,
            (_, Interest::None) => *watched -= 1,
            _ => {}
        }
        self.wanted = wanted;
    }

    /// The operation that is to be told of an event, and counts as told from now on.
    pub(super) fn tell_first(
        &mut self,
        event: IoEvent,
        changed: &mut Vec<SourceKey>,
    ) -> Option<Rc<dyn Operation>> {
        let told = self.side_mut(event.direction)?.tell_first()?;
        self.note_change(event.source, changed);
        Some(told)
    }

    /// Whether the system is to be told of what is wanted, as far as that is worked out.
    pub(super) fn is_to_be_told(&self) -> bool {
        self.tell_again || self.told != self.wanted
    }

    /// Tells the system what is wanted. If it refuses, it does not know the source any more.
    pub(super) fn tell(&mut self, poller: &Poller, token: usize) -> io::Result<()> {
        self.tell_again = false;
        let told = match (self.told, self.wanted) {
            // Without any interest it would still report a hang-up, for ever.
            (_, Interest::None) => {
                poller.delete(self.raw);
                Ok(())
            }
            (Interest::None, wanted) => poller.add(self.raw, wanted, token),
            (_, wanted) => poller.modify(self.raw, wanted, token),
        };
        self.told = match told {
            Ok(()) => self.wanted,
            Err(_) => Interest::None,
        };
        told
    }

    /// Whether the system watches it for just what will be wanted again if the operations that were
    /// told of readiness make use of that, and others follow.
    pub(super) fn is_about_to_want_again(&self) -> bool {
        let soon = |direction| {
            self.side(direction)
                .is_some_and(|side| side.signalled || side.wants_readiness())
        };
        !self.tell_again && self.told == Interest::new(soon(Direction::Read), soon(Direction::Write))
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = &Side> {
        [Some(&self.read), self.write.as_deref()].into_iter().flatten()
    }

    pub(super) fn sides_mut(&mut self) -> impl Iterator<Item = &mut Side> {
        [Some(&mut self.read), self.write.as_deref_mut()]
            .into_iter()
            .flatten()
    }
}

#[derive(Default)]
pub(super) struct Side {
    /// Not here while it is being called: it comes back afterwards.
    pub(super) watcher: Option<Watcher>,
    pub(super) watcher_is_called: bool,
    /// The first operation knows that the source is ready and has not made use of it yet.
    pub(super) signalled: bool,
    /// Counts the watchers that were here, so that an event finds only the one it is for.
    pub(super) generation: u32,
    pub(super) operations: Few<Weak<dyn Operation>>,
}

impl Side {
    pub(super) fn has_watcher(&self) -> bool {
        self.watcher.is_some() || self.watcher_is_called
    }

    pub(super) fn wants_readiness(&self) -> bool {
        self.has_watcher() || (!self.signalled && !self.operations.is_empty())
    }

    pub(super) fn first(&self) -> Option<&Weak<dyn Operation>> {
        self.operations.as_slice().first()
    }

    pub(super) fn is_first(&self, operation: OperationId) -> bool {
        self.first().is_some_and(|first| id_of(first) == operation)
    }

    /// The operation that is to be told of readiness, and counts as told from now on.
    fn tell_first(&mut self) -> Option<Rc<dyn Operation>> {
        let operation = self.first().filter(|_| !self.signalled)?.upgrade();
        self.signalled = operation.is_some();
        operation
    }

    /// Takes an operation out. If it was the first, the next is returned.
    #[inline]
    pub(super) fn remove(&mut self, operation: OperationId) -> Option<Weak<dyn Operation>> {
        match &self.operations {
            Few::One(only) if id_of(only) == operation => {
                // A weak reference to what is alive: nothing is dropped here but the reference.
                if let Few::One(removed) = self.operations.take() {
                    drop(removed);
                }
                self.signalled = false;
                None
            }
            _ => self.remove_one_of_many(operation),
        }
    }

    #[inline(never)]
    fn remove_one_of_many(&mut self, operation: OperationId) -> Option<Weak<dyn Operation>> {
        let was_first = self.is_first(operation);
        self.operations.remove(|other| id_of(other) == operation);
        if !was_first {
            return None;
        }
        self.signalled = false;
        self.first().cloned()
    }

    /// The last operation goes to the front; nobody there was told of readiness yet.
    pub(super) fn last_to_front(&mut self) {
        if let Few::Others(Some(many)) = &mut self.operations {
            many.rotate_right(1);
        }
    }

    /// Takes the watcher off, to be dropped by the caller. One that is being called does not come
    /// back.
    pub(super) fn take_watcher(&mut self) -> Option<Watcher> {
        self.generation = self.generation.wrapping_add(1);
        self.watcher_is_called = false;
        self.watcher.take()
    }

    /// Takes the watcher that an event is for, to be called and given back.
    pub(super) fn lend_watcher(&mut self, generation: u32) -> Option<Watcher> {
        let lent = self.watcher.take_if(|_| self.generation == generation);
        self.watcher_is_called |= lent.is_some();
        lent
    }
}

/// What the system reports a source by: its key, where a token has room for one.
#[cfg(target_pointer_width = "64")]
pub(super) fn token(key: SourceKey, _: Raw) -> usize {
    key.data().as_ffi() as usize
}

/// What the system reports a source by: its own name for it.
#[cfg(not(target_pointer_width = "64"))]
pub(super) fn token(_: SourceKey, raw: Raw) -> usize {
    raw as usize
}

impl Table {
    /// The key of a source that is reported by this token.
    #[cfg(target_pointer_width = "64")]
    pub(super) fn reported(&self, token: usize) -> SourceKey {
        KeyData::from_ffi(token as u64).into()
    }

    /// The key of a source that is reported by this token.
    #[cfg(not(target_pointer_width = "64"))]
    pub(super) fn reported(&self, token: usize) -> SourceKey {
        self.by_raw.get(&(token as Raw)).copied().unwrap_or_default()
    }

    /// One event for each direction in which a source was found ready and somebody waits for that.
    #[inline(always)] // into the loop over what was found
    pub(super) fn report(&self, (token, ready): Report, report: &mut impl FnMut(IoEvent)) {
        let source = self.reported(token);
        let Some(entry) = self.entries.get(source) else {
            return;
        };
        for direction in [Direction::Read, Direction::Write] {
            // A full hang-up reports both directions, asked for or not.
            if ready.includes(direction)
                && let Some(side) = entry.side(direction).filter(|side| side.wants_readiness())
            {
                report(IoEvent {
                    source,
                    direction,
                    generation: side.generation,
                });
            }
        }
    }

    pub(super) fn side(&self, key: SourceKey, direction: Direction) -> Option<&Side> {
        self.entries.get(key)?.side(direction)
    }

    /// Changes a side, and notes that what is wanted of the source is to be worked out again: at the
    /// next poll, for mostly that changes several times between two. `None` if the source is not
    /// known, or nobody has waited in this direction yet.
    #[inline]
    pub(super) fn change<R>(
        &mut self,
        key: SourceKey,
        direction: Direction,
        change: impl FnOnce(&mut Side) -> R,
    ) -> Option<R> {
        let entry = self.entries.get_mut(key)?;
        let result = change(entry.side_mut(direction)?);
        entry.note_change(key, &mut self.changed);
        Some(result)
    }

    /// The operation that is to be told of an event, and counts as told from now on.
    pub(super) fn tell_first(&mut self, event: IoEvent) -> Option<Rc<dyn Operation>> {
        let entry = self.entries.get_mut(event.source)?;
        entry.tell_first(event, &mut self.changed)
    }

    /// Whether any entry is being watched.
    pub(super) fn is_watching_any(&mut self) -> bool {
        // Each change takes away one of them at the most.
        if self.watched <= self.changed.len() {
            for key in &self.changed {
                if let Some(entry) = self.entries.get_mut(*key) {
                    entry.work_out_wanted(&mut self.watched);
                }
            }
        }
        self.watched > 0
    }

    /// Whether no entry is being watched, and the system is to be told nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.watched == 0 && self.changed.is_empty()
    }

    /// Takes an entry out. The caller drops it with no borrow held.
    pub(super) fn remove(&mut self, key: SourceKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if entry.wanted != Interest::None {
            self.watched -= 1;
        }
        if self.by_raw.get(&entry.raw) == Some(&key) {
            self.by_raw.remove(&entry.raw);
        }
        Some(entry)
    }
}
