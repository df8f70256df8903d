//! The selector: who waits for which direction of which source (Python's `selectors`).
//!
//! Each source has two sides, and each side at most one reader or writer callback and any number
//! of pending operations, of which the first is served. Readiness is level-triggered. A change of
//! interest is noted and told to the system at the next poll, so that what is taken off and put
//! on again within a tick costs nothing. Nothing of the user's is called or dropped while the
//! table is borrowed.

pub(crate) mod poller;
pub(crate) mod source;
mod table;

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::errors::RuntimeError;
use crate::handles::{Direction, IoEvent, SourceKey};
use poller::{Interest, Notifier, Poller, Raw};
pub(crate) use table::OperationId;
use table::{Entry, Side, Table, id_of, token};

/// A reader or writer: called again and again.
pub(crate) type Watcher = Box<dyn FnMut()>;

/// An operation that waits for a source (`sock_recv` and its like).
pub(crate) trait Operation {
    /// The source may be ready: go on. Until it says that it has done so (see
    /// [`Selector::set_signalled`]), the source is not watched for it.
    fn ready(self: Rc<Self>);
    /// The source may be ready for reasons that the system knows nothing of: go on if it is the first.
    fn look(self: Rc<Self>);
    /// The system refuses to watch the source.
    fn fail(self: Rc<Self>, error: io::Error);
    /// A task that waits for a source by itself, which is at this place: the wait is over.
    fn stop_waiting(&self, source: *const ()) {
        let _ = source;
    }
}

pub(crate) struct Selector {
    table: RefCell<Table>,
    /// `None` once the loop is closed.
    poller: RefCell<Option<Poller>>,
    polls: Cell<u64>,
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

    /// Whether any source is being watched.
    pub(crate) fn is_watching_any(&self) -> bool {
        self.table.borrow_mut().is_watching_any()
    }

    /// Whether a poll would do nothing: no source is watched, and the system is to be told nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.table.borrow().is_idle()
    }

    // -- sources ------------------------------------------------------------------------------

    #[inline]
    pub(crate) fn knows(&self, key: SourceKey) -> bool {
        self.table.borrow().entries.contains_key(key)
    }

    pub(crate) fn is_watching(&self, key: SourceKey) -> bool {
        let table = self.table.borrow();
        table.entries.get(key).is_some_and(|entry| {
            entry
                .sides()
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
        let key = table.entries.insert(Entry::new(raw));
        table.by_raw.insert(raw, key);
        Ok((key, old))
    }

    /// Asks the system whether it can watch this source at all; a regular file, which could be
    /// read and written for a while without being watched, is refused here and now.
    fn probe(&self, key: SourceKey) -> io::Result<()> {
        let raw = self.table.borrow().entries.get(key).map(|entry| entry.raw);
        let refusal = match (raw, &*self.poller.borrow()) {
            (Some(raw), Some(poller)) => {
                let added = poller.add(raw, Interest::None, token(key, raw));
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
        if entry.told != Interest::None
            && let Some(poller) = &*self.poller.borrow()
        {
            poller.delete(entry.raw);
        }
        Some(entry)
    }

    /// Lets go of an entry for which somebody may still be waiting: its operations fail. True if
    /// a reader or writer is lost with it.
    fn dispose(&self, mut entry: Entry, error: impl Fn() -> io::Error) -> bool {
        let had_watcher = entry.sides().any(Side::has_watcher);
        for side in entry.sides_mut() {
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
            let entry = table.entries.get_mut(key).ok_or(RuntimeError::LoopClosed)?;
            entry.tell_again |= entry.make_side(direction).has_watcher();
            table.change(key, direction, |side| {
                let old = side.take_watcher();
                side.watcher = Some(watcher);
                old
            })
        };
        drop(old);
        self.tell_of_new(key).inspect_err(|_| {
            self.clear_watcher(key, direction);
        })
    }

    /// Takes the reader or writer of a source off; false if there was none.
    pub(crate) fn clear_watcher(&self, key: SourceKey, direction: Direction) -> bool {
        let old = self.table.borrow_mut().change(key, direction, |side| {
            let had_watcher = side.has_watcher();
            (had_watcher, side.take_watcher())
        });
        old.is_some_and(|(had_watcher, _)| had_watcher)
    }

    // -- operations ---------------------------------------------------------------------------

    /// Whether an operation waits in this direction: a newcomer has to queue behind it. `None` if the
    /// source is not known.
    pub(crate) fn is_busy(&self, key: SourceKey, direction: Direction) -> Option<bool> {
        let table = self.table.borrow();
        let side = table.entries.get(key)?.side(direction);
        Some(side.is_some_and(|side| !side.operations.is_empty()))
    }

    /// Puts an operation in the queue of a source.
    pub(crate) fn push_operation(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: Weak<dyn Operation>,
    ) -> io::Result<()> {
        self.push(key, direction, operation, true)?;
        Ok(())
    }

    /// The same if nobody is in the queue. False if somebody is.
    pub(crate) fn push_first(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: Weak<dyn Operation>,
    ) -> io::Result<bool> {
        self.push(key, direction, operation, false)
    }

    #[inline]
    fn push(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: Weak<dyn Operation>,
        behind_others: bool,
    ) -> io::Result<bool> {
        let id = id_of(&operation);
        let is_known = {
            let table = &mut *self.table.borrow_mut();
            let entry = table.entries.get_mut(key).ok_or(RuntimeError::LoopClosed)?;
            let operations = &mut entry.make_side(direction).operations;
            if !behind_others && !operations.is_empty() {
                return Ok(false);
            }
            operations.push(operation);
            entry.note_change(key, &mut table.changed);
            entry.told != Interest::None
        };
        if !is_known {
            self.tell_of_new(key).inspect_err(|_| {
                self.remove_operation(key, direction, id);
            })?;
        }
        Ok(true)
    }

    /// Takes an operation out of the queue. If it was the first, the next is returned.
    pub(crate) fn remove_operation(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: OperationId,
    ) -> Option<Weak<dyn Operation>> {
        let mut table = self.table.borrow_mut();
        table.change(key, direction, |side| side.remove(operation))?
    }

    /// The first operation of the queue, and whether it was told of readiness and has made no use of it yet.
    pub(crate) fn first(&self, key: SourceKey, direction: Direction) -> Option<(OperationId, bool)> {
        let table = self.table.borrow();
        let side = table.side(key, direction)?;
        Some((id_of(side.first()?), side.signalled))
    }

    /// The last of the queue goes to its front.
    pub(crate) fn last_to_front(&self, key: SourceKey, direction: Direction) {
        let mut table = self.table.borrow_mut();
        table.change(key, direction, Side::last_to_front);
    }

    /// Takes the first operation out of the queue.
    pub(crate) fn take_first(&self, key: SourceKey, direction: Direction) -> Option<Rc<dyn Operation>> {
        let mut table = self.table.borrow_mut();
        let taken = table.change(key, direction, |side| {
            let first = side.first()?.clone();
            side.remove(id_of(&first));
            Some(first)
        });
        taken??.upgrade()
    }

    /// Notes that the first operation was told of readiness, or has made use of that: until then
    /// the source is not watched for it. False, and nothing happens, if this operation is not the
    /// first.
    pub(crate) fn set_signalled(
        &self,
        key: SourceKey,
        direction: Direction,
        operation: OperationId,
        signalled: bool,
    ) -> bool {
        let changed = self.table.borrow_mut().change(key, direction, |side| {
            let is_first = side.is_first(operation);
            if is_first {
                side.signalled = signalled;
            }
            is_first
        });
        changed == Some(true)
    }

    // -- polling ------------------------------------------------------------------------------

    /// Tells the system of a source that it does not know, at once: if it refuses (a regular
    /// file), then whoever asked is to hear it.
    fn tell_of_new(&self, key: SourceKey) -> io::Result<()> {
        let table = &mut *self.table.borrow_mut();
        match (table.entries.get_mut(key), &*self.poller.borrow()) {
            (Some(entry), Some(poller)) => {
                entry.work_out_wanted(&mut table.watched);
                if entry.told == Interest::None && entry.wanted != Interest::None {
                    poller.add(entry.raw, entry.wanted, token(key, entry.raw))?;
                    entry.told = entry.wanted;
                }
                Ok(())
            }
            _ => Err(RuntimeError::LoopClosed.into()),
        }
    }

    /// Tells the system what has changed; the sources that it refuses are returned.
    ///
    /// Where an operation has been told of readiness, and its task is about to make use of that,
    /// the interest is mostly back a moment later: before a poll that does not wait the system is
    /// not told that it was gone meanwhile. What it then reports is left out.
    #[inline(always)] // see loop_core.rs
    fn tell_changes(&self, poller: &Poller, waits: bool) -> Vec<(SourceKey, io::Error)> {
        let mut refused = Vec::new();
        let table = &mut *self.table.borrow_mut();
        let (entries, watched) = (&mut table.entries, &mut table.watched);
        table.changed.retain(|&key| {
            let Some(entry) = entries.get_mut(key) else {
                return false;
            };
            entry.work_out_wanted(watched);
            if entry.is_to_be_told() {
                if !waits && entry.is_about_to_want_again() {
                    return true;
                }
                if let Err(error) = entry.tell(poller, token(key, entry.raw)) {
                    refused.push((key, error));
                }
            }
            entry.in_changed = false;
            false
        });
        refused
    }

    /// Asks the system what is ready, waiting for at most `timeout` (`None`: without limit). Sources that
    /// the system refuses are returned.
    ///
    /// The ready queue is not borrowed meanwhile: where `polling` is traced, a subscriber may schedule
    /// something.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn poll(&self, timeout: Option<Duration>) -> io::Result<Vec<(SourceKey, io::Error)>> {
        let mut poller = self.poller.borrow_mut();
        let poller = poller.as_mut().ok_or(RuntimeError::LoopClosed)?;
        let refused = self.tell_changes(poller, timeout != Some(Duration::ZERO));
        self.polls.set(self.polls.get() + 1);
        // Whoever was refused is to hear of it now, not after a wait.
        let timeout = if refused.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        poller.wait(timeout)?;
        Ok(refused)
    }

    /// Reports what the last poll has found: one event for each direction that somebody waits for, the
    /// readable one first.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn report(&self, mut report: impl FnMut(IoEvent)) {
        let (poller, table) = (self.poller.borrow(), self.table.borrow());
        if let Some(poller) = &*poller {
            // (Two closures, so that the first, which is the usual one, becomes part of the loop.)
            if !poller.found_directly(|found| table.report(found, &mut report)) {
                poller.found_by_polling(&mut |found| table.report(found, &mut report));
            }
        }
    }

    /// Calls whom an event is for, if they are still there: the watcher, then the first operation.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn dispatch(&self, event: IoEvent) {
        let (watcher, operation) = {
            let table = &mut *self.table.borrow_mut();
            let Some(entry) = table.entries.get_mut(event.source) else {
                return;
            };
            let side = entry.side_mut(event.direction);
            match side.and_then(|side| side.lend_watcher(event.generation)) {
                Some(watcher) => (Some(watcher), None),
                None => (None, entry.tell_first(event, &mut table.changed)),
            }
        };
        if let Some(watcher) = watcher {
            return self.dispatch_to_watcher(watcher, event);
        }
        if let Some(operation) = operation {
            operation.ready();
        }
    }

    /// The same where there is a watcher. Its panic is not to keep operations waiting.
    #[inline(always)] // see loop_core.rs
    fn dispatch_to_watcher(&self, watcher: Watcher, event: IoEvent) {
        let outcome = self.call_watcher(watcher, event);
        let operation = self.table.borrow_mut().tell_first(event);
        if let Some(operation) = operation {
            operation.ready();
        }
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }

    /// Calls a watcher that was lent and gives it back, unless it was removed or replaced by its
    /// own call: then it is dropped here, after it.
    #[inline(always)] // see loop_core.rs
    fn call_watcher(&self, mut watcher: Watcher, event: IoEvent) -> std::thread::Result<()> {
        let outcome = catch_unwind(AssertUnwindSafe(&mut watcher));
        let mut returned = Some(watcher);
        {
            let mut table = self.table.borrow_mut();
            let entry = table.entries.get_mut(event.source);
            let side = entry.and_then(|entry| entry.side_mut(event.direction));
            if let Some(side) = side.filter(|side| side.generation == event.generation) {
                side.watcher_is_called = false;
                side.watcher = returned.take();
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
        for (_, mut entry) in table.entries {
            if let Some(poller) = &poller
                && entry.told != Interest::None
            {
                poller.delete(entry.raw);
            }
            watchers.extend(entry.sides_mut().filter_map(|side| side.watcher.take()));
        }
        watchers
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// An operation that only notes that it was told.
    #[derive(Default)]
    struct Noted(Cell<u32>);

    impl Operation for Noted {
        fn ready(self: Rc<Self>) {
            self.0.set(self.0.get() + 1);
        }

        fn look(self: Rc<Self>) {}

        fn fail(self: Rc<Self>, _: io::Error) {}
    }

    /// Polls without waiting, or for long at the most, and dispatches what is reported.
    fn poll(selector: &Selector, waits: bool) -> usize {
        let longest = Duration::from_millis(if waits { 1 } else { 0 });
        let mut events = Vec::new();
        assert!(selector.poll(Some(longest)).unwrap().is_empty());
        selector.report(|event| events.push(event));
        events.iter().for_each(|event| selector.dispatch(*event));
        events.len()
    }

    #[test]
    fn an_operation_that_was_told_is_unwatched_only_before_a_wait() {
        const READ: Direction = Direction::Read;
        let (left, mut right) = UnixStream::pair().unwrap();
        let selector = Selector::new().unwrap();
        let (key, _) = selector.enter(left.as_raw_fd()).unwrap();
        let noted = Rc::new(Noted::default());
        let id = Rc::as_ptr(&noted).cast();
        let told = |selector: &Selector| selector.table.borrow().entries[key].told;
        let weak: Weak<Noted> = Rc::downgrade(&noted);
        selector.push_operation(key, READ, weak).unwrap();
        right.write_all(b"x").unwrap();
        assert_eq!(poll(&selector, false), 1);
        assert_eq!(poll(&selector, false), 0);
        assert_eq!(told(&selector), Interest::Read);
        assert_eq!(poll(&selector, true), 0);
        assert_eq!(told(&selector), Interest::None);
        assert!(selector.set_signalled(key, READ, id, false));
        assert_eq!(poll(&selector, false), 1);
        assert_eq!(noted.0.get(), 2);
        // One that is gone for good is not waited for.
        selector.remove_operation(key, READ, id);
        assert_eq!(poll(&selector, false), 0);
        assert_eq!(told(&selector), Interest::None);
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_watched() {
        let selector = Selector::new().unwrap();
        let noted = Rc::new(Noted::default());
        let sockets: [_; 2] = std::array::from_fn(|_| UnixStream::pair().unwrap());
        let keys = sockets
            .each_ref()
            .map(|(left, _)| selector.enter(left.as_raw_fd()).unwrap().0);
        for key in keys {
            let weak: Weak<Noted> = Rc::downgrade(&noted);
            selector.push_operation(key, Direction::Read, weak).unwrap();
        }
        for key in keys {
            assert!(selector.is_watching_any());
            selector.remove_operation(key, Direction::Read, Rc::as_ptr(&noted).cast());
        }
        assert!(!selector.is_watching_any());
    }
}
