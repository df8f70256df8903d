//! What a task consists of beyond a future and its coroutine: its phase, its cancellation, what it
//! waits for.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use slotmap::Key;

use crate::contexts::{self, Context};
use crate::errors::CancelledError;
use crate::few::Few;
use crate::handles::{Cancel, OwnedKey};
use crate::loop_core::Scope;
use crate::threadsafe::RemoteWaker;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its first step has not begun.
    New,
    Suspended,
    Stepping,
    Done,
}

/// What a task has beyond a future, but for the coroutine.
pub(super) struct TaskPart {
    pub(super) phase: Cell<Phase>,
    /// A step is in the ready queue.
    pub(super) scheduled: Cell<bool>,
    /// It was woken while it was being stepped.
    pub(super) woken_in_step: Cell<bool>,
    /// A cancellation that no await has delivered yet.
    pub(super) must_cancel: Cell<bool>,
    /// A cancellation was passed on to what the task waits for, and has not come back yet.
    pub(super) passed_on: Cell<bool>,
    /// Nothing can deliver the cancellation: the next step drops the coroutine instead.
    pub(super) doomed: Cell<bool>,
    /// The step began with a cancellation to deliver, and no await has taken it yet.
    pub(super) due: Cell<bool>,
    /// A cancellation that was delivered is to be delivered once more, at the next await that begins.
    pub(super) again: Cell<bool>,
    /// Its cancellation is being passed on: tasks may wait for each other in a circle.
    pub(super) passing_on: Cell<bool>,
    pub(super) cancel_requests: Cell<u32>,
    /// Scopes around some of its awaits that are cancelled.
    pub(super) scope_requests: Cell<u32>,
    /// Its place among what the loop owns, from its first suspension on.
    pub(super) key: Cell<OwnedKey>,
    pub(super) waits: RefCell<Few<Wait>>,
    /// Counts the steps.
    pub(super) steps: Cell<u32>,
    pub(super) number: u64,
    /// What few tasks have.
    pub(super) extra: RefCell<Option<Box<Extra>>>,
}

/// A future that the task is registered with.
pub(super) struct Wait {
    pub(super) future: Rc<dyn Cancel>,
    pub(super) registration: u32,
    /// The innermost scope it was polled in.
    pub(super) scope: Option<Rc<Scope>>,
    /// The step in which it was polled. If that is not the last one, then the coroutine keeps the
    /// future but is suspended at something else.
    pub(super) step: u32,
}

#[derive(Default)]
pub(super) struct Extra {
    pub(super) name: Option<String>,
    /// Its context, once it is not empty.
    pub(super) context: Option<Context>,
    /// What the last request is to be delivered as, if there is more to say than "cancelled".
    pub(super) cancellation: Option<CancelledError>,
    /// What the clones of its waker share. Weak: see `RemoteWaker`.
    pub(super) remote: sync::Weak<RemoteWaker>,
    by_wakers: Vec<WakerWait>,
    /// The list is cleared of what is over when it gets as long as this.
    next_clearing: usize,
}

/// A future that something in the task has polled with a waker of its own, as `FuturesUnordered`
/// does. It is asked when it matters whether that still waits.
struct WakerWait {
    future: Weak<dyn Cancel>,
    registration: u32,
    scope: Option<Rc<Scope>>,
}

impl WakerWait {
    fn awaited(&self) -> Option<Rc<dyn Cancel>> {
        let future = self.future.upgrade()?;
        future.is_awaited(self.registration).then_some(future)
    }
}

impl TaskPart {
    pub(super) fn new(number: u64) -> TaskPart {
        TaskPart {
            phase: Cell::new(Phase::New),
            scheduled: Cell::new(false),
            woken_in_step: Cell::new(false),
            must_cancel: Cell::new(false),
            passed_on: Cell::new(false),
            doomed: Cell::new(false),
            due: Cell::new(false),
            again: Cell::new(false),
            passing_on: Cell::new(false),
            cancel_requests: Cell::new(0),
            scope_requests: Cell::new(0),
            key: Cell::new(OwnedKey::null()),
            waits: RefCell::new(Few::None),
            steps: Cell::new(0),
            number,
            extra: RefCell::new(None),
        }
    }

    pub(super) fn remote(&self) -> Option<Arc<RemoteWaker>> {
        self.extra.borrow().as_ref()?.remote.upgrade()
    }

    pub(super) fn set_remote(&self, remote: &Arc<RemoteWaker>) {
        self.extra.borrow_mut().get_or_insert_default().remote = Arc::downgrade(remote);
    }

    /// Whether it is suspended at a future of this crate.
    pub(super) fn is_waiting(&self) -> bool {
        let waits = self.waits.borrow();
        waits.as_slice().iter().any(|wait| wait.step == self.steps.get())
            || !self.waits_by_wakers(|_| true).is_empty()
    }

    /// Enters a future that something in the task waits for by a waker of its own.
    pub(super) fn wait_by_waker(
        &self,
        future: Weak<dyn Cancel>,
        registration: u32,
        scope: Option<Rc<Scope>>,
    ) {
        const SMALLEST: usize = 32;
        let ended = {
            let mut extra = self.extra.borrow_mut();
            let extra = extra.get_or_insert_default();
            extra.by_wakers.push(WakerWait {
                future,
                registration,
                scope,
            });
            let mut ended = Vec::new();
            if extra.by_wakers.len() > extra.next_clearing.max(SMALLEST) {
                let (awaited, over) = std::mem::take(&mut extra.by_wakers)
                    .into_iter()
                    .partition(|wait| wait.awaited().is_some());
                (extra.by_wakers, ended) = (awaited, over);
                extra.next_clearing = 2 * extra.by_wakers.len();
            }
            ended
        };
        drop(ended);
    }

    /// What is waited for by other wakers than the task's own, in the scopes that count.
    pub(super) fn waits_by_wakers(&self, counts: impl Fn(Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        let extra = self.extra.borrow();
        let waits = extra.as_ref().map_or(&[][..], |extra| &extra.by_wakers);
        waits
            .iter()
            .filter(|wait| counts(wait.scope.as_ref()))
            .filter_map(WakerWait::awaited)
            .collect()
    }

    /// What it is suspended at, in the scopes that count. All of it is pending: what is done has left
    /// the list.
    pub(super) fn current_waits(&self, counts: impl Fn(Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        let waits = self.waits.borrow();
        let current = |wait: &&Wait| wait.step == self.steps.get() && counts(wait.scope.as_ref());
        waits
            .as_slice()
            .iter()
            .filter(current)
            .map(|wait| wait.future.clone())
            .collect()
    }

    /// The task has been stepped: what it still waits for may have counted on that.
    #[inline]
    pub(super) fn tell_waits_of_step(&self) {
        if !self.waits.borrow().is_empty() {
            self.tell_waits();
        }
    }

    fn tell_waits(&self) {
        // A copy, for whoever is told may leave the list; mostly it is of one.
        let mut told = Few::None;
        for wait in self.waits.borrow().as_slice() {
            told.push(wait.future.clone());
        }
        told.for_each(|future| future.awaiter_stepped());
    }

    pub(super) fn name(&self) -> String {
        let extra = self.extra.borrow();
        let name = extra.as_ref().and_then(|extra| extra.name.clone());
        name.unwrap_or_else(|| format!("Task-{}", self.number))
    }

    pub(super) fn edit_extra(&self, edit: impl FnOnce(&mut Extra)) {
        edit(self.extra.borrow_mut().get_or_insert_default());
    }

    /// Keeps what an await is to deliver.
    pub(super) fn keep_cancellation(&self, error: &CancelledError) {
        let kept = (!error.is_plain(self.number)).then(|| error.clone());
        if kept.is_some() || self.extra.borrow().is_some() {
            self.edit_extra(|extra| extra.cancellation = kept);
        }
    }

    /// What an await is to deliver.
    pub(super) fn cancellation(&self) -> CancelledError {
        let extra = self.extra.borrow();
        let kept = extra.as_ref().and_then(|extra| extra.cancellation.clone());
        kept.unwrap_or_else(|| CancelledError::new().of_task(self.number))
    }

    /// Makes its context the current one; returns the one before, to be given to `leave_context`.
    #[inline]
    pub(super) fn enter_context(&self) -> Option<Context> {
        let extra = self.extra.borrow();
        if extra.is_none() && !contexts::in_use() {
            return None;
        }
        contexts::exchange(extra.as_ref().and_then(|extra| extra.context.clone()))
    }

    #[inline]
    pub(super) fn leave_context(&self, outer: Option<Context>) {
        if outer.is_some() || contexts::in_use() {
            self.keep_context(outer);
        }
    }

    pub(super) fn keep_context(&self, outer: Option<Context>) {
        let own = contexts::exchange(outer);
        if own.is_some() {
            self.edit_extra(|extra| extra.context = own);
        }
    }
}
