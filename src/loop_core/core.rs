//! What a loop consists of, and what the rooms above do with it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use slotmap::{Key, SlotMap};

use super::LoopHandle;
use super::failures::Marked;
use super::limit::Due;
use super::poll_bound::PollBound;
use super::scope::Scope;
use super::step::Stepper;
use crate::clock::{Clock, Idle, MonotonicClock};
use crate::errors::CancelledError;
use crate::handles::{Callback, Cancel, Owned, OwnedKey, Scheduler, TimerKey};
use crate::hooks::Hooks;
use crate::raw_task::{NO_WAKER, WakerIdentity};
use crate::ready::ReadyQueue;
use crate::selector::Selector;
use crate::threadsafe::{Home, Inbox, Letter, RemoteWaker};
use crate::timers::Timers;

/// How many socket operations may complete at once, without a turn of the loop, in one step.
const COMPLETIONS_PER_STEP: u32 = 16;
/// The largest receive buffer that the loop keeps, and the most that one receive gives.
pub(crate) const SCRATCH_LIMIT: usize = 256 * 1024;

pub(super) enum LoopClock {
    Real(MonotonicClock),
    Injected(Box<dyn Clock>),
}

/// An operation's place among what the loop owns, for as long as it is to live without a handle.
#[derive(Default)]
pub(crate) struct Kept(Cell<OwnedKey>);

impl Kept {
    pub(crate) fn keep(&self, event_loop: &LoopHandle, operation: Rc<dyn Owned>) {
        if self.0.get().is_null() {
            self.0.set(event_loop.core.own(operation));
        }
    }

    pub(crate) fn release(&self, event_loop: &LoopHandle) {
        let key = self.0.take();
        if !key.is_null() {
            event_loop.core.disown(key);
        }
    }
}

/// A step of passing a cancellation on.
pub(super) enum Cancelling {
    Ask(Rc<dyn Cancel>, CancelledError),
    /// All that this one asked for was asked.
    Done(Rc<dyn Cancel>),
}

pub(crate) struct Core {
    pub(super) id: u64,
    pub(super) clock: LoopClock,
    pub(super) ready: RefCell<ReadyQueue<dyn Stepper>>,
    pub(super) timers: RefCell<Timers<Due>>,
    pub(super) selector: Rc<Selector>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) hooks: Hooks<LoopHandle>,
    /// What the loop keeps alive: suspended tasks, and operations that only callbacks wait for.
    pub(super) owned: RefCell<SlotMap<OwnedKey, Rc<dyn Owned>>>,
    /// Tasks that have not finished.
    pub(super) tasks: Cell<usize>,
    tasks_made: Cell<u64>,
    /// The task that is being stepped, and the waker it is polled with.
    pub(super) stepping: Cell<Option<Rc<dyn Stepper>>>,
    pub(super) stepping_waker: Cell<WakerIdentity>,
    /// The steps around that one, if it was begun eagerly.
    pub(super) outer_steps: RefCell<Vec<(Rc<dyn Stepper>, WakerIdentity)>>,
    /// The innermost scope whose body is being polled.
    scope: RefCell<Option<Rc<Scope>>>,
    /// Whether there is one: asked often.
    in_scope: Cell<bool>,
    moments: Cell<u64>,
    pub(super) running: Cell<bool>,
    pub(super) stopping: Cell<bool>,
    pub(super) closed: Cell<bool>,
    completions_left: Cell<u32>,
    /// Cancellations that are being passed on from task to task: see `cancel_for`.
    pub(super) cancelling: RefCell<Vec<Cancelling>>,
    /// The loop is being closed: what is woken now waits for its turn to be let go of.
    pub(super) closing: Cell<bool>,
    /// A refusal is being logged.
    refusing: Cell<bool>,
    pub(super) poll_bound: PollBound,
    /// An empty `Vec` to exchange for the inbox's.
    letters: RefCell<Vec<Letter>>,
    /// Several came at once, the last time that any did, and the loop has not looked for more yet.
    many_letters: Cell<bool>,
    pub(super) scratch: Cell<Vec<u8>>,
    /// The future of a send that completed at once, to be given again (see `LoopHandle::sent`). Its type
    /// is of a room above this one.
    pub(crate) sent: RefCell<Option<Box<dyn Any>>>,
}

impl Core {
    pub(super) fn new(clock: Option<Box<dyn Clock>>, selector: Rc<Selector>) -> Core {
        static LOOPS: AtomicU64 = AtomicU64::new(1);
        let id = LOOPS.fetch_add(1, Ordering::Relaxed);
        Core {
            id,
            clock: match clock {
                None => LoopClock::Real(MonotonicClock::new()),
                Some(clock) => LoopClock::Injected(clock),
            },
            ready: RefCell::default(),
            timers: RefCell::default(),
            inbox: Inbox::new(id, selector.notifier()),
            selector,
            hooks: Hooks::new(),
            owned: RefCell::default(),
            tasks: Cell::new(0),
            tasks_made: Cell::new(0),
            stepping: Cell::new(None),
            stepping_waker: Cell::new(NO_WAKER),
            outer_steps: RefCell::default(),
            scope: RefCell::new(None),
            in_scope: Cell::new(false),
            moments: Cell::new(0),
            running: Cell::new(false),
            stopping: Cell::new(false),
            closed: Cell::new(false),
            completions_left: Cell::new(COMPLETIONS_PER_STEP),
            cancelling: RefCell::default(),
            closing: Cell::new(false),
            refusing: Cell::new(false),
            poll_bound: PollBound::new(),
            letters: RefCell::default(),
            many_letters: Cell::new(false),
            scratch: Cell::default(),
            sent: RefCell::default(),
        }
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        match &self.clock {
            LoopClock::Real(clock) => clock,
            LoopClock::Injected(clock) => &**clock,
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Duration {
        match &self.clock {
            LoopClock::Real(clock) => clock.now(),
            LoopClock::Injected(clock) => clock.now(),
        }
    }

    /// Whether the moment `when` has come.
    #[inline]
    pub(crate) fn has_come(&self, when: Duration) -> bool {
        match &self.clock {
            LoopClock::Real(clock) => clock.has_come(when),
            LoopClock::Injected(clock) => when <= clock.now(),
        }
    }

    /// What the clock says that an idle loop does; `None` if the loop is idle no more, for the clock may be
    /// anybody's code, and have scheduled something.
    #[inline]
    pub(super) fn idle(&self, deadline: Option<Duration>) -> Option<Idle> {
        match &self.clock {
            LoopClock::Real(clock) => Some(clock.idle(deadline)),
            LoopClock::Injected(clock) => {
                let idle = clock.idle(deadline);
                let is_idle =
                    self.nothing_ready() && !self.stopping.get() && self.next_deadline() == deadline;
                is_idle.then_some(idle)
            }
        }
    }

    /// The null key if the loop is closed.
    pub(super) fn add_timer(&self, when: Duration, due: impl FnOnce() -> Due) -> TimerKey {
        if self.closed.get() {
            self.refuse("a timer");
            return TimerKey::null();
        }
        self.timers.borrow_mut().add(when, due)
    }

    #[inline]
    pub(super) fn move_due_timers(&self) {
        if !self.timers.borrow().is_empty() {
            self.move_due_timers_now();
        }
    }

    fn move_due_timers_now(&self) {
        // The clock may be anybody's code.
        let now = self.now();
        let moved = self.timers.borrow_mut().move_due(now);
        self.ready.borrow_mut().push_timers(moved);
    }

    #[inline]
    pub(super) fn read_inbox(&self) {
        if self.inbox.has_mail() {
            self.take_letters();
        }
    }

    fn take_letters(&self) {
        let mut letters = self.inbox.take(self.letters.take());
        self.many_letters.set(letters.len() > 1);
        for letter in letters.drain(..) {
            match letter {
                Letter::Callback(callback) => {
                    self.ready.borrow_mut().push_callback(callback);
                }
                Letter::Wake(waker) => self.wake(waker.key()),
            }
        }
        self.letters.replace(letters);
    }

    /// Whether the next letters are probably on their way: then it costs both sides less to look once
    /// more than to fall asleep. Not under another clock than the real one.
    pub(super) fn expects_letters(&self) -> bool {
        self.many_letters.take() && matches!(self.clock, LoopClock::Real(_))
    }

    /// Whether this tick may do without a poll, something being ready. Not under another clock
    /// than the real one: there every tick is to be the same.
    #[inline]
    pub(super) fn may_leave_poll_out(&self) -> bool {
        matches!(self.clock, LoopClock::Real(_))
            && (self.selector.is_idle() || self.poll_bound.one_more_tick())
    }

    #[cold]
    pub(crate) fn refuse(&self, what: &str) {
        // A logger may use the loop too.
        if !self.refusing.get() {
            let _refusing = Marked::set(&self.refusing);
            log::warn!(target: "miniloop", "{what} was scheduled on a closed event loop and is dropped");
        }
    }

    // -- for the rooms above ------------------------------------------------------------------

    pub(crate) fn selector(&self) -> &Rc<Selector> {
        &self.selector
    }

    /// Schedules a step. A closed loop lets go of it at once.
    #[inline(always)] // a look, and a push
    pub(crate) fn schedule_step(&self, step: Rc<dyn Stepper>) {
        if self.closed.get() && !self.closing.get() {
            step.abandon();
        } else {
            self.ready.borrow_mut().push_step(step);
        }
    }

    /// Keeps something alive until it is disowned or the loop closes. A closed loop does not.
    pub(crate) fn own(&self, runnable: Rc<dyn Owned>) -> OwnedKey {
        if self.closed.get() {
            return OwnedKey::default();
        }
        self.owned.borrow_mut().insert(runnable)
    }

    pub(crate) fn disown(&self, key: OwnedKey) {
        let disowned = self.owned.borrow_mut().remove(key);
        drop(disowned);
    }

    /// Counts a task in and gives it its number.
    pub(crate) fn task_begins(&self) -> u64 {
        self.tasks.set(self.tasks.get() + 1);
        self.tasks_made.set(self.tasks_made.get() + 1);
        self.tasks_made.get()
    }

    pub(crate) fn task_ends(&self) {
        self.tasks.set(self.tasks.get() - 1);
    }

    /// All there is that may be a task: what is owned, and what waits for its first step or is
    /// making it.
    pub(crate) fn runnables(&self) -> Vec<Rc<dyn Owned>> {
        let (owned, ready) = (self.owned.borrow(), self.ready.borrow());
        let (inner, outer) = (self.stepping(), self.outer_steps.borrow());
        let stepping = outer.iter().map(|(task, _)| task).chain(inner.as_ref());
        let stepping = stepping.map(|task| task.clone() as Rc<dyn Owned>);
        let ready = ready.steps().map(|step| step.clone() as Rc<dyn Owned>);
        owned.values().cloned().chain(ready).chain(stepping).collect()
    }

    /// Names the batch that is running: see [`ReadyQueue::batch`].
    #[inline]
    pub(crate) fn batch(&self) -> u64 {
        self.ready.borrow().batch()
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.timers.borrow_mut().next_deadline()
    }

    pub(crate) fn nothing_ready(&self) -> bool {
        self.ready.borrow().is_empty() && !self.inbox.has_mail()
    }

    pub(crate) fn new_remote_waker(&self) -> Arc<RemoteWaker> {
        RemoteWaker::new(&self.inbox)
    }

    #[inline(always)] // a look, mostly
    pub(crate) fn scope(&self) -> Option<Rc<Scope>> {
        if self.in_scope.get() {
            self.scope_entered()
        } else {
            None
        }
    }

    #[inline(never)]
    fn scope_entered(&self) -> Option<Rc<Scope>> {
        self.scope.borrow().clone()
    }

    /// Moments in the life of scopes, counted.
    pub(super) fn next_moment(&self) -> u64 {
        self.moments.set(self.moments.get() + 1);
        self.moments.get()
    }

    /// Makes a scope the innermost one and returns what was that before.
    #[inline]
    pub(crate) fn exchange_scope(&self, scope: Option<Rc<Scope>>) -> Option<Rc<Scope>> {
        self.in_scope.set(scope.is_some());
        self.scope.replace(scope)
    }

    #[inline]
    pub(super) fn renew_completions(&self) {
        self.completions_left.set(COMPLETIONS_PER_STEP);
    }

    /// Whether one more operation may complete without a turn of the loop: no task is to starve
    /// the others through sockets that are always ready.
    pub(crate) fn may_complete_at_once(&self) -> bool {
        let left = self.completions_left.get();
        self.completions_left.set(left.saturating_sub(1));
        left > 0
    }

    /// Lends the loop's receive buffer, of `size` bytes at least (and [`SCRATCH_LIMIT`] at most). Where it is
    /// lent already, for the `Read` of a user's source may come back here, that is another one.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn lend_scratch(&self, size: usize) -> Vec<u8> {
        let mut scratch = self.scratch.take();
        if scratch.len() < size {
            scratch.resize(size.min(SCRATCH_LIMIT), 0);
        }
        scratch
    }

    /// Takes it back.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn give_scratch_back(&self, scratch: Vec<u8>) {
        // (Nearly always there is none meanwhile, and nothing to drop.)
        drop(self.scratch.replace(scratch));
    }
}

impl Scheduler for Core {
    fn cancel_callback(&self, position: u64) {
        let cancelled = self.ready.borrow_mut().cancel(position);
        drop(cancelled);
    }

    fn cancel_timer(&self, key: TimerKey) {
        let cancelled = self.timers.borrow_mut().cancel(key);
        drop(cancelled);
    }
}

impl Home for Core {
    fn schedule(&self, callback: Callback) {
        let callback = super::in_context(callback);
        self.ready.borrow_mut().push_callback(callback);
    }

    fn wake(&self, key: OwnedKey) {
        let runnable = self.owned.borrow().get(key).cloned();
        if let Some(runnable) = runnable {
            runnable.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;

    /// Has letters read, as many as were sent since the last time, and asks whether more are expected.
    fn expects_more_after(event_loop: &LoopHandle, letters: usize) -> bool {
        let sender = event_loop.threadsafe_handle();
        let send = move || (0..letters).for_each(|_| sender.call_soon_threadsafe(|| ()).unwrap());
        std::thread::spawn(send).join().unwrap();
        event_loop.core.read_inbox();
        event_loop.core.expects_letters()
    }

    #[test]
    fn more_letters_are_expected_once_after_several() {
        let event_loop = LoopHandle::new(None).unwrap();
        assert!(!expects_more_after(&event_loop, 1));
        assert!(expects_more_after(&event_loop, 2));
        assert!(!event_loop.core.expects_letters());
    }

    #[test]
    fn under_a_fake_clock_letters_change_no_tick() {
        let event_loop = LoopHandle::new(Some(Box::new(FakeClock::new()))).unwrap();
        assert!(!expects_more_after(&event_loop, 2));
    }
}
