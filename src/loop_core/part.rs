//! What the loop knows of a task, beyond a future and its coroutine: its phase, its cancellation,
//! what it waits for.
//!
//! The loop keeps this of every task that it steps, and an await finds it there: see
//! [`Core::awaiting`](super::Core::awaiting).

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};

use slotmap::Key;

use super::scope::Scope;
use crate::contexts::{self, Context};
use crate::errors::CancelledError;
use crate::few::Few;
use crate::handles::{Cancel, OwnedKey};
use crate::threadsafe::RemoteWaker;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its first step has not begun.
    New,
    Suspended,
    Stepping,
    Done,
}

/// What is true of a task at the moment. Each is a bit, so that one look shows that nothing unusual
/// is going on, which is nearly always so.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// A step is in the ready queue.
    Scheduled = 1,
    /// It was woken while it was being stepped.
    WokenInStep = 1 << 1,
    /// A cancellation that no await has delivered yet.
    MustCancel = 1 << 2,
    /// A cancellation was passed on to what the task waits for, and has not come back yet.
    PassedOn = 1 << 3,
    /// A cancellation that was delivered is to be delivered once more, at the next await that begins.
    Again = 1 << 4,
    /// A scope around some of its awaits is cancelled.
    ScopeCancelled = 1 << 5,
    /// Nothing can deliver the cancellation: the next step drops the coroutine instead.
    Doomed = 1 << 6,
    /// The step began with a cancellation to deliver, and no await has taken it yet.
    Due = 1 << 7,
    /// Its cancellation is being passed on: tasks may wait for each other in a circle.
    PassingOn = 1 << 8,
}

/// With none of these no await has anything to deliver.
const INTERRUPTED: u16 =
    Flag::MustCancel as u16 | Flag::PassedOn as u16 | Flag::Again as u16 | Flag::ScopeCancelled as u16;

/// What a task has beyond a future, but for the coroutine.
pub(crate) struct TaskPart {
    pub(crate) phase: Cell<Phase>,
    flags: Cell<u16>,
    /// Counts the steps.
    pub(crate) steps: Cell<u32>,
    pub(crate) cancel_requests: Cell<u32>,
    /// Scopes around some of its awaits that are cancelled.
    scope_requests: Cell<u32>,
    /// Its place among what the loop owns, from its first suspension on.
    pub(crate) key: Cell<OwnedKey>,
    pub(crate) number: u64,
    waits: RefCell<Few<Wait>>,
    /// What few tasks have.
    extra: RefCell<Option<Box<Extra>>>,
}

/// A future that the task is registered with.
struct Wait {
    future: Rc<dyn Cancel>,
    registration: u32,
    /// The step in which it was polled. If that is not the last one, then the coroutine keeps the
    /// future but is suspended at something else.
    step: u32,
    /// The innermost scope it was polled in.
    scope: Option<Rc<Scope>>,
}

#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<String>,
    /// Its context, once it is not empty.
    pub(crate) context: Option<Context>,
    /// What the last request is to be delivered as, if there is more to say than "cancelled".
    pub(crate) cancellation: Option<CancelledError>,
    /// What the clones of its waker share. Weak: see `RemoteWaker`.
    pub(crate) remote: sync::Weak<RemoteWaker>,
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
    pub(crate) fn new(number: u64) -> TaskPart {
        TaskPart {
            phase: Cell::new(Phase::New),
            flags: Cell::new(0),
            steps: Cell::new(0),
            cancel_requests: Cell::new(0),
            scope_requests: Cell::new(0),
            key: Cell::new(OwnedKey::null()),
            number,
            waits: RefCell::new(Few::None),
            extra: RefCell::new(None),
        }
    }

    #[inline]
    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.flags.get() & flag as u16 != 0
    }

    #[inline]
    pub(crate) fn set(&self, flag: Flag, is_so: bool) {
        let others = self.flags.get() & !(flag as u16);
        self.flags.set(if is_so { others | flag as u16 } else { others });
    }

    /// Takes a flag away and tells whether it was set.
    #[inline]
    pub(crate) fn take(&self, flag: Flag) -> bool {
        let was_so = self.is(flag);
        self.set(flag, false);
        was_so
    }

    /// Whether an await of the task may have a cancellation to deliver, its own or that of a scope.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.flags.get() & INTERRUPTED != 0
    }

    /// Counts a scope around some of its awaits that is cancelled, or one that is over.
    pub(crate) fn count_scope(&self, cancelled: bool) {
        let count = self.scope_requests.get();
        let count = if cancelled {
            count + 1
        } else {
            count.saturating_sub(1)
        };
        self.scope_requests.set(count);
        self.set(Flag::ScopeCancelled, count > 0);
    }

    pub(crate) fn scope_requests(&self) -> u32 {
        self.scope_requests.get()
    }

    /// It waits for this future; `registration` tells it from others on the same one.
    #[inline]
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        self.waits.borrow_mut().push(Wait {
            future,
            registration,
            step: self.steps.get(),
            scope,
        });
    }

    /// It does not any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        let is_it = |wait: &Wait| {
            wait.registration == registration && std::ptr::addr_eq(Rc::as_ptr(&wait.future), future)
        };
        let ended = self.waits.borrow_mut().remove(is_it);
        drop(ended);
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        let ended = self.waits.take();
        drop(ended);
    }

    /// Takes the cancellation that is due at an await in this scope, if there is one.
    pub(crate) fn take_cancellation(&self, scope: Option<&Rc<Scope>>) -> Option<CancelledError> {
        let of_scope = scope.and_then(|scope| scope.take_pending());
        let of_task = self.take(Flag::MustCancel);
        if !of_task && of_scope.is_none() {
            return None;
        }
        // One interruption is for the task and for all scopes that this await is in.
        self.set(Flag::Due, false);
        self.resumed(scope);
        if of_task {
            Some(self.cancellation())
        } else {
            of_scope
        }
    }

    /// An await that had suspended goes on: a cancellation that was passed on has arrived. True if
    /// one of the task's was on its way.
    pub(crate) fn resumed(&self, scope: Option<&Rc<Scope>>) -> bool {
        if let Some(scope) = scope {
            scope.resumed();
        }
        self.take(Flag::PassedOn)
    }

    /// An await begins: takes what is to be delivered once more, for the task or for a scope that
    /// the await is in.
    pub(crate) fn take_again(&self, scope: Option<&Rc<Scope>>) -> Option<CancelledError> {
        let of_scope = scope.and_then(|scope| scope.take_again());
        of_scope.or_else(|| {
            self.take(Flag::Again).then(|| {
                self.set(Flag::PassedOn, true);
                self.cancellation()
            })
        })
    }

    /// What was delivered is to be delivered once more, at the next await that begins.
    pub(crate) fn cancel_again(&self, error: &CancelledError) {
        self.keep_cancellation(error);
        self.set(Flag::Again, true);
    }

    /// It was asked to stop, and no await has delivered that yet.
    pub(crate) fn owes_cancellation(&self) -> bool {
        self.is(Flag::MustCancel) || self.is(Flag::PassedOn)
    }

    pub(crate) fn remote(&self) -> Option<Arc<RemoteWaker>> {
        self.extra.borrow().as_ref()?.remote.upgrade()
    }

    pub(crate) fn set_remote(&self, remote: &Arc<RemoteWaker>) {
        self.extra.borrow_mut().get_or_insert_default().remote = Arc::downgrade(remote);
    }

    /// Whether it is suspended at a future of this crate.
    pub(crate) fn is_waiting(&self) -> bool {
        let waits = self.waits.borrow();
        waits.as_slice().iter().any(|wait| wait.step == self.steps.get())
            || !self.waits_by_wakers(|_| true).is_empty()
    }

    /// Enters a future that something in the task waits for by a waker of its own.
    pub(crate) fn wait_by_waker(
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
    pub(crate) fn waits_by_wakers(&self, counts: impl Fn(Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        let extra = self.extra.borrow();
        let waits = extra.as_ref().map_or(&[][..], |extra| &extra.by_wakers);
        waits
            .iter()
            .filter(|wait| counts(wait.scope.as_ref()))
            .filter_map(WakerWait::awaited)
            .collect()
    }

    /// Whether it is suspended at something that the scope's body has polled.
    pub(crate) fn waits_in(&self, scope: &Rc<Scope>) -> bool {
        let counts = |inner: Option<&Rc<Scope>>| inner.is_some_and(|inner| inner.is_in(scope));
        !self.current_waits(counts).is_empty() || !self.waits_by_wakers(counts).is_empty()
    }

    /// What it is suspended at, in the scopes that count. All of it is pending: what is done has left
    /// the list.
    pub(crate) fn current_waits(&self, counts: impl Fn(Option<&Rc<Scope>>) -> bool) -> Vec<Rc<dyn Cancel>> {
        let waits = self.waits.borrow();
        let current = |wait: &&Wait| wait.step == self.steps.get() && counts(wait.scope.as_ref());
        waits
            .as_slice()
            .iter()
            .filter(current)
            .map(|wait| wait.future.clone())
            .collect()
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    #[inline]
    pub(crate) fn tell_waits_of_step(&self) {
        let not_polled = |wait: &Wait| wait.step != self.steps.get();
        if self.waits.borrow().as_slice().iter().any(not_polled) {
            self.tell_those_not_polled();
        }
    }

    fn tell_those_not_polled(&self) {
        // A copy, for whoever is told may leave the list.
        let mut told = Few::None;
        for wait in self.waits.borrow().as_slice() {
            if wait.step != self.steps.get() {
                told.push(wait.future.clone());
            }
        }
        told.for_each(|future| future.awaiter_stepped());
    }

    pub(crate) fn name(&self) -> String {
        let extra = self.extra.borrow();
        let name = extra.as_ref().and_then(|extra| extra.name.clone());
        name.unwrap_or_else(|| format!("Task-{}", self.number))
    }

    pub(crate) fn edit_extra(&self, edit: impl FnOnce(&mut Extra)) {
        edit(self.extra.borrow_mut().get_or_insert_default());
    }

    /// Keeps what an await is to deliver.
    pub(crate) fn keep_cancellation(&self, error: &CancelledError) {
        let kept = (!error.is_plain(self.number)).then(|| error.clone());
        if kept.is_some() || self.extra.borrow().is_some() {
            self.edit_extra(|extra| extra.cancellation = kept);
        }
    }

    /// What an await is to deliver.
    pub(crate) fn cancellation(&self) -> CancelledError {
        let extra = self.extra.borrow();
        let kept = extra.as_ref().and_then(|extra| extra.cancellation.clone());
        kept.unwrap_or_else(|| CancelledError::new().of_task(self.number))
    }

    /// The end: its context, to be dropped.
    pub(crate) fn take_context(&self) -> Option<Context> {
        self.extra.borrow_mut().as_mut()?.context.take()
    }

    /// Makes its context the current one; returns the one before, to be given to `leave_context`.
    #[inline]
    pub(crate) fn enter_context(&self) -> Option<Context> {
        let extra = self.extra.borrow();
        if extra.is_none() && !contexts::in_use() {
            return None;
        }
        contexts::exchange(extra.as_ref().and_then(|extra| extra.context.clone()))
    }

    #[inline]
    pub(crate) fn leave_context(&self, outer: Option<Context>) {
        if outer.is_some() || contexts::in_use() {
            self.keep_context(outer);
        }
    }

    pub(crate) fn keep_context(&self, outer: Option<Context>) {
        let own = contexts::exchange(outer);
        if own.is_some() {
            self.edit_extra(|extra| extra.context = own);
        }
    }
}
