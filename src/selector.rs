//! The selector: who waits for which direction of which source (Python's `selectors`).
//!
//! Each source has two sides, and each side at most one reader or writer callback and any number
//! of pending operations, of which the first is served. Readiness is level-triggered. A change of
//! interest is noted and told to the system at the next poll, so that what is taken off and put
//! on again within a tick costs nothing. Nothing of the user's is called or dropped while the
//! table is borrowed.

pub(crate) mod poller;
pub(crate) mod source;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};
use std::time::Duration;

use slotmap::{Key, SlotMap};

use crate::errors::RuntimeError;
use crate::few::Few;
use crate::handles::{Direction, IoEvent, SourceKey};
use poller::{Interest, Notifier, Poller, Raw};

/// A reader or writer: called again and again.
pub(crate) type Watcher = Box<dyn FnMut()>;

/// An operation that waits for a source (`sock_recv` and its like).
pub(crate) trait Operation {
    /// The source may be ready: go on.
    fn ready(self: Rc<Self>);
    /// The system refuses to watch the source.
    fn fail(self: Rc<Self>, error: io::Error);
}

/// How an operation stands in the queue of its source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Others come first.
    Later,
    First,
    /// It is the first, was told that the source is ready, and has not made use of that yet.
    Signalled,
}

pub(crate) struct Selector {
    table: RefCell<Table>,
    /// `None` once the loop is closed.
    poller: RefCell<Option<Poller>>,
    polls: Cell<u64>,
}

#[derive(Default)]
struct Table {
    entries: SlotMap<SourceKey, Entry>,
    /// The key whose slot has this index, which is the token that the system reports.
    by_token: Vec<SourceKey>,
    by_raw: HashMap<Raw, SourceKey>,
    /// Entries whose interest has changed since the last poll.
    changed: Vec<SourceKey>,
    /// How many entries are being watched.
    watched: usize,
}

struct Entry {
    raw: Raw,
    /// What the system was told; `None` when it does not know the source.
    told: Option<Interest>,
    /// What is wanted.
    wanted: Interest,
    in_changed: bool,
    /// The system is to be told again: a watcher was replaced, perhaps because another socket has
    /// taken over the number.
    tell_again: bool,
    sides: [Side; 2],
}

#[derive(Default)]
struct Side {
    watcher: WatcherSlot,
    /// Counts the watchers that were here, so that an event finds only the one it is for.
    generation: u32,
    operations: Few<Weak<dyn Operation>>,
    /// The first operation knows that the source is ready and has not made use of it yet.
    signalled: bool,
}

#[derive(Default)]
enum WatcherSlot {
    #[default]
    Empty,
    Waiting(Watcher),
    /// It is being called at this moment and comes back afterwards.
    Running,
}

impl Side {
    fn has_watcher(&self) -> bool {
        !matches!(self.watcher, WatcherSlot::Empty)
    }

    fn wants_readiness(&self) -> bool {
        self.has_watcher() || (!self.signalled && !self.operations.is_empty())
    }

    fn is_first(&self, operation: &Weak<dyn Operation>) -> bool {
        self.operations
            .as_slice()
            .first()
            .is_some_and(|first| Weak::ptr_eq(first, operation))
    }

    /// Takes the watcher off; the caller drops what is returned.
    fn take_watcher(&mut self) -> WatcherSlot {
        self.generation = self.generation.wrapping_add(1);
        std::mem::take(&mut self.watcher)
    }
}

/// What the system calls the source with this key. Keys of one slot follow each other in time.
fn token(key: SourceKey) -> usize {
    (key.data().as_ffi() & 0xffff_ffff) as usize
}

impl Table {
    fn side(&mut self, key: SourceKey, direction: Direction) -> Option<&mut Side> {
        Some(&mut self.entries.get_mut(key)?.sides[direction as usize])
    }

    /// Works out what is wanted of this source now, and notes it if the system must be told.
    fn refresh(&mut self, key: SourceKey) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let before = entry.wanted;
        entry.wanted = Interest {
            read: entry.sides[Direction::Read as usize].wants_readiness(),
            write: entry.sides[Direction::Write as usize].wants_readiness(),
        };
        match (before.is_none(), entry.wanted.is_none()) {
            (true, false) => self.watched += 1,
            (false, true) => self.watched -= 1,
            _ => {}
        }
        let differs = entry.tell_again || entry.told.unwrap_or_default() != entry.wanted;
        if differs && !entry.in_changed {
            entry.in_changed = true;
            self.changed.push(key);
        }
    }

    /// Takes an entry out. The caller drops it with no borrow held.
    fn remove(&mut self, key: SourceKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        if !entry.wanted.is_none() {
            self.watched -= 1;
        }
        if self.by_raw.get(&entry.raw) == Some(&key) {
            self.by_raw.remove(&entry.raw);
        }
        Some(entry)
    }
}

impl Selector {
    pub(crate) fn new() -> io::Result<Rc<Selector>> {
        Ok(Selector::with(Some(Poller::new()?)))
    }

    /// A selector that is closed from the start.
    pub(crate) fn closed() -> Rc<Selector> {
        Selector::with(None)
    }

    fn with(poller: Option<Poller>) -> Rc<Selector> {
        Rc::new(Selector {
            table: RefCell::default(),
            poller: RefCell::new(poller),
            polls: Cell::new(0),
        })
    }

    pub(crate) fn notifier(&self) -> Option<Notifier> {
        self.poller.borrow().as_ref().map(Poller::notifier)
    }

    /// How often the system was asked.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.get()
    }

    /// How many sources are being watched.
    pub(crate) fn watched(&self) -> usize {
        self.table.borrow().watched
    }

    /// Whether a poll would do nothing: no source is watched, and the system is to be told nothing.
    pub(crate) fn is_idle(&self) -> bool {
        let table = self.table.borrow();
        table.watched == 0 && table.changed.is_empty()
    }

    // -- sources ------------------------------------------------------------------------------

    pub(crate) fn knows(&self, key: SourceKey) -> bool {
        self.table.borrow().entries.contains_key(key)
    }

    pub(crate) fn is_watching(&self, key: SourceKey) -> bool {
        let table = self.table.borrow();
        table.entries.get(key).is_some_and(|entry| {
            entry
                .sides
                .iter()
                .any(|side| side.has_watcher() || !side.operations.is_empty())
        })
    }

    /// Enters a source. If its number is entered already, then its owner was closed behind our
    /// back (or wraps the same descriptor): the newcomer takes the place, and the old entry is
    /// returned for [`dispose`](Self::dispose).
    fn enter(&self, raw: Raw) -> io::Result<(SourceKey, Option<Entry>)> {
        if self.poller.borrow().is_none() {
            return Err(RuntimeError::LoopClosed.into());
        }
        let old = self.table.borrow().by_raw.get(&raw).copied();
        let old = old.and_then(|old| self.take_out(old));
        let mut table = self.table.borrow_mut();
        let key = table.entries.insert(Entry {
            raw,
            told: None,
            wanted: Interest::default(),
            in_changed: false,
            tell_again: false,
            sides: Default::default(),
        });
        let token = token(key);
        if table.by_token.len() <= token {
            table.by_token.resize(token + 1, SourceKey::null());
        }
        table.by_token[token] = key;
        table.by_raw.insert(raw, key);
        Ok((key, old))
    }

    /// Asks the system whether it can watch this source at all; a regular file, which could be
    /// read and written for a while without being watched, is refused here and now.
    fn probe(&self, key: SourceKey) -> io::Result<()> {
        let raw = self.table.borrow().entries.get(key).map(|entry| entry.raw);
        let refusal = match (raw, &*self.poller.borrow()) {
            (Some(raw), Some(poller)) => {
                let added = poller.add(raw, Interest::default(), token(key));
                poller.delete(raw);
                added
            }
            _ => Err(RuntimeError::LoopClosed.into()),
        };
        refusal.inspect_err(|_| self.forget(key))
    }

    /// The source is about to be closed: the system and the table forget it, and its callbacks
    /// are dropped.
    fn forget(&self, key: SourceKey) {
        let entry = self.take_out(key);
        drop(entry);
    }

    /// Takes an entry out of the table and the system. The caller drops it.
    fn take_out(&self, key: SourceKey) -> Option<Entry> {
        let entry = self.table.borrow_mut().remove(key)?;
        if entry.told.is_some()
            && let Some(poller) = &*self.poller.borrow()
        {
            poller.delete(entry.raw);
        }
        Some(entry)
    }

    /// Lets go of an entry for which somebody may still be waiting: its operations fail. True if
    /// a reader or writer is lost with it.
    fn dispose(&self, mut entry: Entry, error: impl Fn() -> io::Error) -> bool {
        let had_watcher = entry.sides.iter().any(Side::has_watcher);
        for side in &mut entry.sides {
            side.operations.take().for_each(|operation| {
                if let Some(operation) = operation.upgrade() {
                    operation.fail(error());
                }
            });
        }
        had_watcher
    }

    // -- readers and writers ------------------------------------------------------------------

    /// Sets the reader or writer of a source, in place of one that was there.
    pub(crate) fn set_watcher(
        &self,
        key: SourceKey,
        direction: Direction,
        watcher: Watcher,
    ) -> io::Result<()> {
        let old = {
            let mut table = self.table.borrow_mut();
            let side = table.side(key, direction).ok_or(RuntimeError::LoopClosed)?;
            let old = side.take_watcher();
            side.watcher = WatcherSlot::Waiting(watcher);
            if let (Some(entry), false) = (table.entries.get_mut(key), matches!(old, WatcherSlot::Empty)) {
                entry.tell_again = true;
            }
            table.refresh(key);
            old
        };
        drop(old);
        self.tell_of_new(key).inspect_err(|_| {
            self.clear_watcher(key, direction);
        })
    }

    /// Takes the reader or writer of a source off; false if there was none.
    pub(crate) fn clear_watcher(&self, key: SourceKey, direction: Direction) -> bool {
        let old = {
            let mut table = self.table.borrow_mut();
            let Some(side) = table.side(key, direction) else {
                return false;
            };
            let old = side.take_watcher();
            table.refresh(key);
            old
        };
        !matches!(old, WatcherSlot::Empty)
    }

    // -- operations ---------------------------------------------------------------------------

    /// Whether an operation waits in this direction: a newcomer has to queue behind it.
    pub(crate) fn is_busy(&self, key: SourceKey, direction: Direction) -> bool {
        let mut table = self.table.borrow_mut();
        table
            .side(key, direction)
            .is_some_and(|side| !side.operations.is_empty())
    }

    /// Puts an operation in the queue of a source.
    pub(crate) fn push_operation(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: Weak<dyn Operation>,
    ) -> io::Result<()> {
        {
            let mut table = self.table.borrow_mut();
            let side = table.side(key, direction).ok_or(RuntimeError::LoopClosed)?;
            side.operations.push(operation.clone());
            table.refresh(key);
        }
        self.tell_of_new(key).inspect_err(|_| {
            self.remove_operation(key, direction, &operation);
        })
    }

    /// Takes an operation out of the queue. If it was the first, the next is returned.
    pub(crate) fn remove_operation(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: &Weak<dyn Operation>,
    ) -> Option<Weak<dyn Operation>> {
        let mut table = self.table.borrow_mut();
        let side = table.side(key, direction)?;
        let was_first = side.is_first(operation);
        // A weak reference to what is alive: nothing is dropped here but the reference.
        side.operations.remove(|other| Weak::ptr_eq(other, operation));
        let next = side.operations.as_slice().first().filter(|_| was_first).cloned();
        if was_first {
            side.signalled = false;
        }
        table.refresh(key);
        next
    }

    /// How this operation stands in the queue.
    pub(crate) fn turn_of(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: &Weak<dyn Operation>,
    ) -> Turn {
        match self.table.borrow_mut().side(key, direction) {
            Some(side) if !side.is_first(operation) => Turn::Later,
            Some(side) if side.signalled => Turn::Signalled,
            Some(_) => Turn::First,
            None => Turn::Later,
        }
    }

    /// Notes that the first operation was told of readiness, or has made use of that: until then
    /// the source is not watched for it. Nothing happens if this operation is not the first.
    pub(crate) fn set_signalled(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: &Weak<dyn Operation>,
        signalled: bool,
    ) {
        let mut table = self.table.borrow_mut();
        if let Some(side) = table.side(key, direction)
            && side.is_first(operation)
            && side.signalled != signalled
        {
            side.signalled = signalled;
            table.refresh(key);
        }
    }

    // -- polling ------------------------------------------------------------------------------

    /// Tells the system of a source that it does not know, at once: if it refuses (a regular
    /// file), then whoever asked is to hear it.
    fn tell_of_new(&self, key: SourceKey) -> io::Result<()> {
        let mut table = self.table.borrow_mut();
        match (table.entries.get_mut(key), &*self.poller.borrow()) {
            (Some(entry), Some(poller)) if entry.told.is_none() && !entry.wanted.is_none() => {
                poller.add(entry.raw, entry.wanted, token(key))?;
                entry.told = Some(entry.wanted);
                Ok(())
            }
            (Some(_), Some(_)) => Ok(()),
            _ => Err(RuntimeError::LoopClosed.into()),
        }
    }

    /// Tells the system what has changed; the sources that it refuses are returned.
    fn tell_changes(&self, poller: &Poller) -> Vec<(SourceKey, io::Error)> {
        let mut refused = Vec::new();
        let table = &mut *self.table.borrow_mut();
        for key in table.changed.drain(..) {
            let Some(entry) = table.entries.get_mut(key) else {
                continue;
            };
            entry.in_changed = false;
            let tell_again = std::mem::take(&mut entry.tell_again);
            let wanted = Some(entry.wanted).filter(|wanted| !wanted.is_none());
            let told = match (entry.told, wanted) {
                (told, wanted) if told == wanted && !tell_again => Ok(()),
                (None, Some(wanted)) => poller.add(entry.raw, wanted, token(key)),
                (Some(_), Some(wanted)) => poller.modify(entry.raw, wanted, token(key)),
                // Without any interest it would still report a hang-up, for ever.
                (_, None) => {
                    poller.delete(entry.raw);
                    Ok(())
                }
            };
            match told {
                Ok(()) => entry.told = wanted,
                Err(error) => {
                    entry.told = None;
                    refused.push((key, error));
                }
            }
        }
        refused
    }

    /// Asks the system what is ready, waiting for at most `timeout` (`None`: without limit), and
    /// reports one event for each direction that somebody waits for, the readable one first.
    /// Sources that the system refuses are returned.
    pub(crate) fn poll(
        &self,
        timeout: Option<Duration>,
        mut report: impl FnMut(IoEvent),
    ) -> io::Result<Vec<(SourceKey, io::Error)>> {
        let mut poller = self.poller.borrow_mut();
        let poller = poller.as_mut().ok_or(RuntimeError::LoopClosed)?;
        let refused = self.tell_changes(poller);
        self.polls.set(self.polls.get() + 1);
        // Whoever was refused is to hear of it now, not after a wait.
        let timeout = if refused.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let table = &self.table;
        poller.wait(timeout, |(token, ready)| {
            let table = table.borrow();
            let Some(source) = table.by_token.get(token).copied() else {
                return;
            };
            let Some(entry) = table.entries.get(source) else {
                return;
            };
            for (is_ready, direction) in [(ready.read, Direction::Read), (ready.write, Direction::Write)] {
                let side = &entry.sides[direction as usize];
                // A full hang-up reports both directions, asked for or not.
                if is_ready && side.wants_readiness() {
                    report(IoEvent {
                        source,
                        direction,
                        generation: side.generation,
                    });
                }
            }
        })?;
        Ok(refused)
    }

    /// Calls whom an event is for, if they are still there.
    pub(crate) fn dispatch(&self, event: IoEvent) {
        let watcher_panicked = self.call_watcher(event).err();
        let first = {
            let mut table = self.table.borrow_mut();
            table
                .side(event.source, event.direction)
                .filter(|side| !side.signalled)
                .and_then(|side| side.operations.as_slice().first()?.upgrade())
        };
        if let Some(operation) = first {
            operation.ready();
        }
        if let Some(panic) = watcher_panicked {
            resume_unwind(panic);
        }
    }

    /// The panic of the reader or writer is returned: it is not to keep operations waiting.
    fn call_watcher(&self, event: IoEvent) -> std::thread::Result<()> {
        let taken = {
            let mut table = self.table.borrow_mut();
            let Some(side) = table.side(event.source, event.direction) else {
                return Ok(());
            };
            if side.generation != event.generation || !matches!(side.watcher, WatcherSlot::Waiting(_)) {
                return Ok(());
            }
            std::mem::replace(&mut side.watcher, WatcherSlot::Running)
        };
        let WatcherSlot::Waiting(mut watcher) = taken else {
            return Ok(());
        };
        let outcome = catch_unwind(AssertUnwindSafe(&mut watcher));
        // It may have been removed or replaced by its own call: then it is dropped here, after it.
        let mut returned = Some(watcher);
        {
            let mut table = self.table.borrow_mut();
            if let Some(side) = table.side(event.source, event.direction)
                && side.generation == event.generation
                && let Some(watcher) = returned.take()
            {
                side.watcher = WatcherSlot::Waiting(watcher);
            }
        }
        drop(returned);
        outcome
    }

    /// The system refuses to watch this source: its operations fail. True if a reader or writer
    /// was lost with it.
    pub(crate) fn refuse(&self, key: SourceKey, error: &io::Error) -> bool {
        let copy = || match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        self.take_out(key).is_some_and(|entry| self.dispose(entry, copy))
    }

    /// Lets go of everything. The system's descriptors are closed; the watchers are returned, to
    /// be dropped by the caller one by one.
    pub(crate) fn close(&self) -> Vec<Watcher> {
        let table = std::mem::take(&mut *self.table.borrow_mut());
        let poller = self.poller.borrow_mut().take();
        let mut watchers = Vec::new();
        for (_, entry) in table.entries {
            if let (Some(poller), Some(_)) = (&poller, entry.told) {
                poller.delete(entry.raw);
            }
            for side in entry.sides {
                if let WatcherSlot::Waiting(watcher) = side.watcher {
                    watchers.push(watcher);
                }
            }
        }
        watchers
    }
}
