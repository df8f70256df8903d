//! What the loop knows of a task, beyond a future and its coroutine: its phase, its cancellation,
//! what it waits for.
//!
//! The loop keeps this of every task that it steps, and an await finds it there: see
//! [`Core::awaiting`](super::Core::awaiting).

mod flags;
mod waits;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{self, Arc};

use slotmap::Key;

use super::scope::Scope;
use crate::contexts::{self, Context};
use crate::errors::CancelledError;
use crate::handles::{Cancel, OwnedKey};
use crate::raw_task::Lent;
use crate::threadsafe::RemoteWaker;
use flags::begin_interrupted_step;
pub(super) use flags::may_be_interrupted;
pub(crate) use flags::{Flag, step_is_interrupted};
use waits::{FirstWait, Wait, WakerWait};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its first step has not begun.
    New,
    Suspended,
    Stepping,
    Done,
}

/// Whether a step was begun.
pub(crate) enum Begun {
    Yes,
    /// It is done, or in the middle of one.
    NotNow,
    /// It is not stepped any more, but ends.
    Cancelled,
}

/// What a task has beyond a future, but for the coroutine. In this order, for then what every step
/// touches is together, and beside the coroutine.
#[repr(C)]
pub(crate) struct TaskPart {
    pub(crate) number: u64,
    beyond: Cell<Beyond>,
    /// Its place among what the loop owns, from its first suspension on.
    pub(crate) key: Cell<OwnedKey>,
    /// The key of the first wait.
    registration: Cell<u32>,
    flags: [Cell<u8>; 2],
    pub(crate) phase: Cell<Phase>,
    /// It was woken while it was being stepped. The waker that is lent to the step sets this, and a
    /// `&Waker` can reach another thread.
    woken_in_step: AtomicBool,
}

/// What there is of a task beyond its bare life.
enum Beyond {
    /// The first wait, if that is all, and in no scope.
    FirstWait(Rc<dyn Cancel>),
    /// The first wait is in here, if there is one.
    Extra(Option<Box<Extra>>),
}

impl Default for Beyond {
    fn default() -> Beyond {
        Beyond::Extra(None)
    }
}

impl Beyond {
    /// Ends one that holds nothing.
    #[inline]
    fn forget(self) {
        debug_assert!(matches!(self, Beyond::Extra(None)));
        std::mem::forget(self);
    }
}

/// What few tasks have.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<String>,
    /// Its context, once it is not empty.
    pub(crate) context: Option<Context>,
    /// What the last request is to be delivered as, if there is more to say than "cancelled".
    pub(crate) cancellation: Option<CancelledError>,
    pub(crate) cancel_requests: u32,
    /// Scopes around some of its awaits that are cancelled.
    scope_requests: u32,
    /// What the clones of its waker share. Weak: see `RemoteWaker`.
    pub(crate) remote: sync::Weak<RemoteWaker>,
    first_wait: Option<FirstWait>,
    /// What it waits for beside that.
    more_waits: Vec<Wait>,
    /// Counts the steps, those at least that begin with more waits.
    steps: u32,
    by_wakers: Vec<WakerWait>,
    /// That list is cleared of what is over when it gets as long as this.
    next_clearing: usize,
}

impl TaskPart {
    #[inline]
    pub(crate) fn new(number: u64) -> TaskPart {
        TaskPart {
            phase: Cell::new(Phase::New),
            woken_in_step: AtomicBool::new(false),
            flags: [Cell::new(0), Cell::new(0)],
            registration: Cell::new(0),
            key: Cell::new(OwnedKey::null()),
            number,
            beyond: Cell::default(),
        }
    }

    /// Counts a scope around some of its awaits that is cancelled, or one that is over.
    pub(crate) fn count_scope(&self, cancelled: bool) {
        let before = self.scope_requests();
        let count = if cancelled {
            before + 1
        } else {
            before.saturating_sub(1)
        };
        if count != before {
            self.edit_extra(|extra| extra.scope_requests = count);
        }
        self.set(Flag::ScopeCancelled, count > 0);
    }

    pub(crate) fn scope_requests(&self) -> u32 {
        self.with_extra(|extra| extra.scope_requests)
    }

    /// How often it was asked to stop, less the times that this was taken back.
    pub(crate) fn cancel_requests(&self) -> u32 {
        self.with_extra(|extra| extra.cancel_requests)
    }

    pub(crate) fn set_cancel_requests(&self, requests: u32) {
        if requests != self.cancel_requests() {
            self.edit_extra(|extra| extra.cancel_requests = requests);
        }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.phase.get() == Phase::Done
    }

    #[inline]
    pub(crate) fn begin_step(&self) -> Begun {
        self.set(Flag::Scheduled, false);
        let phase = self.phase.get();
        if phase == Phase::Done || phase == Phase::Stepping {
            return Begun::NotNow;
        }
        if self.is_usual() {
            self.phase.set(Phase::Stepping);
            self.forget_step();
            begin_interrupted_step(false);
            return Begun::Yes;
        }
        self.begin_unusual_step(phase)
    }

    #[inline(never)]
    fn begin_unusual_step(&self, phase: Phase) -> Begun {
        let due = self.is(Flag::MustCancel);
        // One that was cancelled before it began never runs.
        if due && (phase == Phase::New || self.is(Flag::Doomed)) {
            return Begun::Cancelled;
        }
        self.phase.set(Phase::Stepping);
        self.forget_step();
        self.set(Flag::Due, due);
        if self.is(Flag::MoreWaits) {
            self.count_step();
        }
        begin_interrupted_step(self.is_interrupted());
        Begun::Yes
    }

    /// Something that it waits for has happened. True if a step is to be scheduled.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        match self.phase.get() {
            Phase::Done => false,
            Phase::Stepping => {
                self.woken_in_step.store(true, Ordering::Release);
                false
            }
            Phase::New | Phase::Suspended => self.is_to_be_scheduled(),
        }
    }

    /// What the waker of its steps sets.
    #[inline]
    pub(super) fn woken_in_step(&self) -> &AtomicBool {
        &self.woken_in_step
    }

    #[inline]
    pub(super) fn was_woken_in_step(&self) -> bool {
        self.woken_in_step.load(Ordering::Acquire)
    }

    /// The step is over: whether it was woken meanwhile.
    #[inline]
    pub(super) fn take_woken_in_step(&self) -> bool {
        let was_woken = self.was_woken_in_step();
        if was_woken {
            // No waker is lent any more: nobody sets it in between.
            self.woken_in_step.store(false, Ordering::Relaxed);
        }
        was_woken
    }

    /// True if there is no step in the ready queue; then the caller is to put one there.
    #[inline]
    pub(crate) fn is_to_be_scheduled(&self) -> bool {
        let is_scheduled = self.is(Flag::Scheduled);
        self.set(Flag::Scheduled, true);
        !is_scheduled
    }

    // No code of a user's runs while the extra is taken out.

    /// Looks at what few tasks have, if this one has it.
    #[inline]
    fn with_extra<R: Default>(&self, look: impl FnOnce(&mut Extra) -> R) -> R {
        if !self.is(Flag::Extra) {
            return R::default();
        }
        let mut beyond = self.beyond.take();
        let seen = match &mut beyond {
            Beyond::Extra(Some(extra)) => look(extra),
            _ => R::default(),
        };
        self.beyond.replace(beyond).forget();
        seen
    }

    pub(crate) fn edit_extra<R>(&self, edit: impl FnOnce(&mut Extra) -> R) -> R {
        let mut extra = match self.beyond.take() {
            Beyond::Extra(extra) => extra.unwrap_or_default(),
            Beyond::FirstWait(future) => Box::new(Extra {
                first_wait: Some(FirstWait { future, scope: None }),
                ..Extra::default()
            }),
        };
        let edited = edit(&mut extra);
        self.beyond.replace(Beyond::Extra(Some(extra))).forget();
        self.set(Flag::Extra, true);
        edited
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

    #[inline]
    pub(crate) fn remote(&self) -> Option<Arc<RemoteWaker>> {
        self.with_extra(|extra| extra.remote.upgrade())
    }

    /// The waker of a step was cloned: what its clones share.
    #[cold]
    pub(super) fn keep_remote(&self, lent: Lent<'_>) {
        if let Some(remote) = lent.into_cloned() {
            remote.set_key(self.key.get());
            self.edit_extra(|extra| extra.remote = Arc::downgrade(&remote));
        }
    }

    pub(crate) fn name(&self) -> String {
        let name = self.with_extra(|extra| extra.name.clone());
        name.unwrap_or_else(|| format!("Task-{}", self.number))
    }

    /// Keeps what an await is to deliver.
    pub(crate) fn keep_cancellation(&self, error: &CancelledError) {
        let kept = (!error.is_plain(self.number)).then(|| error.clone());
        if kept.is_some() || self.is(Flag::Extra) {
            self.edit_extra(|extra| extra.cancellation = kept);
        }
    }

    /// What an await is to deliver.
    pub(crate) fn cancellation(&self) -> CancelledError {
        let kept = self.with_extra(|extra| extra.cancellation.clone());
        kept.unwrap_or_else(|| CancelledError::new().of_task(self.number))
    }

    /// The end: its context, to be dropped.
    #[inline]
    pub(crate) fn take_context(&self) -> Option<Context> {
        self.with_extra(|extra| extra.context.take())
    }

    /// Makes its context the current one; the one before was empty.
    #[inline]
    pub(crate) fn enter_context(&self) {
        if self.is(Flag::Extra) {
            contexts::exchange(self.with_extra(|extra| extra.context.clone()));
        }
    }

    /// Makes an empty one the current context; its own is kept, which it may have got just now.
    #[inline]
    pub(crate) fn leave_context(&self) {
        if contexts::in_use() {
            self.keep_context();
        }
    }

    #[inline(never)]
    fn keep_context(&self) {
        let own = contexts::exchange(None);
        let before = self.edit_extra(|extra| std::mem::replace(&mut extra.context, own));
        drop(before);
    }

    /// Runs code, which does not panic, in its context.
    #[inline]
    pub(crate) fn in_its_context(&self, code: impl FnOnce()) {
        let outer = contexts::in_use().then(|| contexts::exchange(None));
        self.enter_context();
        code();
        self.leave_context();
        if let Some(outer) = outer {
            contexts::exchange(outer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TaskPart;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_task_is_small() {
        assert_eq!(size_of::<TaskPart>(), 40);
    }
}
