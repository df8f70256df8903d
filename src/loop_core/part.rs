//! What the loop knows of a task, beyond a future and its coroutine: its phase, its cancellation,
//! what it waits for.
//!
//! The loop keeps this of every task that it steps, and an await finds it there: see
//! [`Core::awaiting`](super::Core::awaiting).

use std::cell::Cell;
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

/// Whether a step was begun.
pub(crate) enum Begun {
    Yes,
    /// It is done, or in the middle of one.
    NotNow,
    /// It is not stepped any more, but ends.
    Cancelled,
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
    /// `waits` is not empty.
    Waits = 1 << 6,
    /// There is an `Extra`.
    Extra = 1 << 7,
    // Those of a second byte. (Two bytes and not a word: to read a word of which a byte was written
    // just now takes as long as a dozen instructions.)
    /// Nothing can deliver the cancellation: the next step drops the coroutine instead.
    Doomed = 1 << 8,
    /// The step began with a cancellation to deliver, and no await has taken it yet.
    Due = 1 << 9,
    /// Its cancellation is being passed on: tasks may wait for each other in a circle.
    PassingOn = 1 << 10,
}

/// With none of these no await has anything to deliver.
const INTERRUPTED: u8 =
    Flag::MustCancel as u8 | Flag::PassedOn as u8 | Flag::Again as u8 | Flag::ScopeCancelled as u8;

thread_local! {
    /// Whether the step that is being made on this thread may have a cancellation to deliver: for its
    /// awaits, which are many, and nearly never have one.
    static INTERRUPTED_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Whether an await of the step that is being made may have a cancellation to deliver. It may say so
/// in vain, but never fails to.
#[inline]
pub(crate) fn step_is_interrupted() -> bool {
    INTERRUPTED_STEP.get()
}

/// From here on another step is being made than the one that was begun last.
pub(super) fn may_be_interrupted() {
    INTERRUPTED_STEP.set(true);
}

/// What a task has beyond a future, but for the coroutine. In this order, for then what every step
/// touches is together, and beside the coroutine.
#[repr(C)]
pub(crate) struct TaskPart {
    pub(crate) number: u64,
    /// What few tasks have.
    extra: Cell<Option<Box<Extra>>>,
    waits: Cell<Few<Wait>>,
    pub(crate) cancel_requests: Cell<u32>,
    /// Scopes around some of its awaits that are cancelled.
    scope_requests: Cell<u32>,
    /// Its place among what the loop owns, from its first suspension on.
    pub(crate) key: Cell<OwnedKey>,
    /// Counts the steps.
    pub(crate) steps: Cell<u32>,
    flags: [Cell<u8>; 2],
    pub(crate) phase: Cell<Phase>,
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

/// Whether what was polled in the one scope counts for the other; everything counts for none.
fn is_in(polled_in: Option<&Rc<Scope>>, scope: Option<&Rc<Scope>>) -> bool {
    scope.is_none_or(|scope| polled_in.is_some_and(|inner| inner.is_in(scope)))
}

impl TaskPart {
    #[inline]
    pub(crate) fn new(number: u64) -> TaskPart {
        TaskPart {
            phase: Cell::new(Phase::New),
            flags: [Cell::new(0), Cell::new(0)],
            steps: Cell::new(0),
            cancel_requests: Cell::new(0),
            scope_requests: Cell::new(0),
            key: Cell::new(OwnedKey::null()),
            number,
            waits: Cell::new(Few::None),
            extra: Cell::new(None),
        }
    }

    /// The byte that a flag is in, and its bit there.
    #[inline]
    fn place(&self, flag: Flag) -> (&Cell<u8>, u8) {
        match flag as u16 {
            bit @ ..=0xff => (&self.flags[0], bit as u8),
            bit => (&self.flags[1], (bit >> 8) as u8),
        }
    }

    #[inline]
    pub(crate) fn is(&self, flag: Flag) -> bool {
        let (flags, bit) = self.place(flag);
        flags.get() & bit != 0
    }

    #[inline]
    pub(crate) fn set(&self, flag: Flag, is_so: bool) {
        let (flags, bit) = self.place(flag);
        let others = flags.get() & !bit;
        flags.set(if is_so { others | bit } else { others });
        if is_so && flag as u16 & u16::from(INTERRUPTED) != 0 {
            may_be_interrupted();
        }
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
        self.flags[0].get() & INTERRUPTED != 0
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

    #[inline]
    pub(crate) fn begin_step(&self) -> Begun {
        let flags = self.flags[0].get();
        self.flags[0].set(flags & !(Flag::Scheduled as u8));
        let doomed = self.take(Flag::Doomed);
        self.set(Flag::Due, false);
        let phase = self.phase.get();
        if phase == Phase::Done || phase == Phase::Stepping {
            return Begun::NotNow;
        }
        if flags & Flag::MustCancel as u8 != 0 {
            // One that was cancelled before it began never runs.
            if phase == Phase::New || doomed {
                return Begun::Cancelled;
            }
            self.set(Flag::Due, true);
        }
        self.phase.set(Phase::Stepping);
        self.steps.set(self.steps.get().wrapping_add(1));
        INTERRUPTED_STEP.set(flags & INTERRUPTED != 0);
        Begun::Yes
    }

    /// Something that it waits for has happened. True if a step is to be scheduled.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        match self.phase.get() {
            Phase::Done => false,
            Phase::Stepping => {
                self.set(Flag::WokenInStep, true);
                false
            }
            Phase::New | Phase::Suspended => self.is_to_be_scheduled(),
        }
    }

    /// True if there is no step in the ready queue; then the caller is to put one there.
    #[inline]
    pub(super) fn is_to_be_scheduled(&self) -> bool {
        let is_scheduled = self.is(Flag::Scheduled);
        self.set(Flag::Scheduled, true);
        !is_scheduled
    }

    // No code of a user's runs while the list or the extra is taken out.

    fn with_waits<R>(&self, look: impl FnOnce(&mut Few<Wait>) -> R) -> R {
        let mut waits = self.waits.take();
        let seen = look(&mut waits);
        self.waits.set(waits);
        seen
    }

    /// Looks at what few tasks have, if this one has it.
    #[inline]
    fn with_extra<R: Default>(&self, look: impl FnOnce(&mut Extra) -> R) -> R {
        if !self.is(Flag::Extra) {
            return R::default();
        }
        let mut extra = self.extra.take();
        let seen = extra.as_deref_mut().map(look);
        self.extra.set(extra);
        seen.unwrap_or_default()
    }

    pub(crate) fn edit_extra<R>(&self, edit: impl FnOnce(&mut Extra) -> R) -> R {
        let mut extra = self.extra.take().unwrap_or_default();
        let edited = edit(&mut extra);
        self.extra.set(Some(extra));
        self.set(Flag::Extra, true);
        edited
    }

    /// It waits for this future; `registration` tells it from others on the same one.
    #[inline]
    pub(crate) fn wait_for(&self, future: Rc<dyn Cancel>, registration: u32, scope: Option<Rc<Scope>>) {
        let wait = Wait {
            future,
            registration,
            step: self.steps.get(),
            scope,
        };
        if self.is(Flag::Waits) {
            self.with_waits(|waits| waits.push(wait));
        } else {
            self.waits.set(Few::One(wait));
            self.set(Flag::Waits, true);
        }
    }

    /// It does not any more.
    #[inline]
    pub(crate) fn stop_waiting_for(&self, future: *const (), registration: u32) {
        let is_it = |wait: &Wait| {
            wait.registration == registration && std::ptr::addr_eq(Rc::as_ptr(&wait.future), future)
        };
        match self.waits.take() {
            Few::One(wait) if is_it(&wait) => self.set(Flag::Waits, false),
            mut waits => {
                let ended = waits.remove(is_it);
                self.set(Flag::Waits, !waits.is_empty());
                self.waits.set(waits);
                drop(ended);
            }
        }
    }

    /// The end: it waits for nothing.
    pub(crate) fn stop_waiting(&self) {
        if self.take(Flag::Waits) {
            let ended = self.waits.take();
            drop(ended);
        }
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

    pub(crate) fn set_remote(&self, remote: &Arc<RemoteWaker>) {
        self.edit_extra(|extra| extra.remote = Arc::downgrade(remote));
    }

    /// Whether it is suspended at a future of this crate.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_current = |wait: &Wait| wait.step == self.steps.get();
        self.with_waits(|waits| waits.as_slice().iter().any(is_current))
            || !self.waits_by_wakers(None).is_empty()
    }

    /// Enters a future that something in the task waits for by a waker of its own.
    pub(crate) fn wait_by_waker(
        &self,
        future: Weak<dyn Cancel>,
        registration: u32,
        scope: Option<Rc<Scope>>,
    ) {
        const SMALLEST: usize = 32;
        let wait = WakerWait {
            future,
            registration,
            scope,
        };
        let ended = self.edit_extra(|extra| {
            extra.by_wakers.push(wait);
            if extra.by_wakers.len() <= extra.next_clearing.max(SMALLEST) {
                return Vec::new();
            }
            let (awaited, over) = std::mem::take(&mut extra.by_wakers)
                .into_iter()
                .partition(|wait| wait.awaited().is_some());
            extra.by_wakers = awaited;
            extra.next_clearing = 2 * extra.by_wakers.len();
            over
        });
        drop(ended);
    }

    /// What is waited for by other wakers than the task's own, in a scope or anywhere.
    pub(crate) fn waits_by_wakers(&self, scope: Option<&Rc<Scope>>) -> Vec<Rc<dyn Cancel>> {
        self.with_extra(|extra| {
            let waits = extra.by_wakers.iter();
            let waits = waits.filter(|wait| is_in(wait.scope.as_ref(), scope));
            waits.filter_map(WakerWait::awaited).collect()
        })
    }

    /// Whether it is suspended at something that the scope's body has polled.
    pub(crate) fn waits_in(&self, scope: &Rc<Scope>) -> bool {
        !self.current_waits(Some(scope)).is_empty() || !self.waits_by_wakers(Some(scope)).is_empty()
    }

    /// What it is suspended at, in a scope or anywhere. All of it is pending: what is done has left
    /// the list.
    pub(crate) fn current_waits(&self, scope: Option<&Rc<Scope>>) -> Vec<Rc<dyn Cancel>> {
        let counts = |wait: &&Wait| wait.step == self.steps.get() && is_in(wait.scope.as_ref(), scope);
        self.with_waits(|waits| {
            let current = waits.as_slice().iter().filter(counts);
            current.map(|wait| wait.future.clone()).collect()
        })
    }

    /// The task has been stepped: what it still waits for may have counted on being polled then.
    pub(crate) fn tell_waits_of_step(&self) {
        if !self.is(Flag::Waits) {
            return;
        }
        // A copy, for whoever is told may leave the list.
        let mut told = Few::None;
        self.with_waits(|waits| {
            for wait in waits.as_slice() {
                if wait.step != self.steps.get() {
                    told.push(wait.future.clone());
                }
            }
        });
        told.for_each(|future| future.awaiter_stepped());
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
            let own = contexts::exchange(None);
            let before = self.edit_extra(|extra| std::mem::replace(&mut extra.context, own));
            drop(before);
        }
    }

    /// Runs code, which does not panic, in its context.
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
    use crate::futures::State;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_task_is_small() {
        assert_eq!(size_of::<TaskPart>(), 80);
        assert_eq!(size_of::<State<()>>(), 48);
    }
}
