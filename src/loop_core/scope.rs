//! A scope: a part of a task's awaits that can be cancelled by itself.
//!
//! A timeout or a task group interrupts what its own body awaits, and no other branch of the task.
//! Apart from that a scope is cancelled as a task is: what the body waits for is cancelled, so
//! that its await yields the error. If a step is due already, the first await of the body that is
//! resumed delivers it; if the body has not suspended yet, what it suspends at is cancelled.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use super::LoopHandle;
use super::limit::Limit;
use super::part::{Flag, Phase};
use super::step::Stepper;
use crate::errors::{CancelledError, Exception};
use crate::handles::TaskControl;

/// The state of a scope. What polls the body is in `scopes.rs`.
pub(crate) struct Scope {
    /// Where the body is, while it is alive.
    place: RefCell<Option<Place>>,
    /// What wakes the body, if something inside the task polls it with a waker of its own.
    waker: RefCell<Option<Waker>>,
    stage: Cell<Stage>,
    /// It was asked to stop, with this error.
    error: RefCell<Option<CancelledError>>,
    /// When, if it was entered then.
    cancelled: Cell<u64>,
    /// No await has delivered that yet.
    pending: Cell<bool>,
    /// The poll of the body began with that to deliver, and no await has taken it yet.
    due: Cell<bool>,
    /// It was passed on to what the body waits for, and has not come back yet.
    passed_on: Cell<bool>,
    /// It is to be delivered once more, at the next await that begins.
    again: Cell<bool>,
    /// The body is being polled.
    polling: Cell<bool>,
    /// When it is to be cancelled by itself.
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Entered,
    Over,
}

/// A place inside a task, and what had been asked of the task and of the scopes around it when it
/// was entered.
#[derive(Clone)]
pub(crate) struct Place {
    event_loop: LoopHandle,
    task: Rc<dyn Stepper>,
    /// The innermost scope around it.
    parent: Option<Rc<Scope>>,
    /// How many requests to cancel the task there had been before.
    requests: u32,
    /// Whether one of them had not been delivered.
    task_owes: bool,
    /// When it was entered, in the order of such moments, and of cancellations.
    entered: u64,
    /// The outermost scope around it that had been cancelled before without delivering it.
    undelivered: Option<Rc<Scope>>,
}

impl Place {
    /// Inside the task that is being stepped; `None` if there is none.
    #[inline(always)] // for the same reason as in `Scope::default`
    pub(crate) fn here(event_loop: &LoopHandle) -> Option<Place> {
        let task = event_loop.core.stepping()?;
        let parent = event_loop.core.scope();
        let undelivered = parent
            .as_ref()
            .and_then(|scope| scope.outermost(|scope| scope.pending.get() || scope.passed_on.get()));
        Some(Place {
            event_loop: event_loop.clone(),
            parent,
            requests: task.requests(),
            task_owes: task.part().owes_cancellation(),
            entered: event_loop.core.next_moment(),
            undelivered,
            task,
        })
    }

    /// Who has asked for a cancellation from outside since: the task's own, or that of the outermost
    /// scope around; also one that was asked for before and is delivered by `exception` here.
    pub(crate) fn outside(&self, exception: Option<&Exception>) -> Option<Outside> {
        let error = exception.and_then(|exception| exception.downcast_ref::<CancelledError>());
        let of_task = error.is_some_and(|error| error.is_of_task(self.task.number()));
        if (of_task && self.task_owes) || self.task.requests() > self.requests {
            return Some(Outside::Task(self.task.clone()));
        }
        let here = |scope: &Rc<Scope>| {
            let undelivered = self.undelivered.as_ref();
            let delivered = undelivered.is_some_and(|other| Rc::ptr_eq(other, scope) && !scope.pending.get());
            delivered || scope.cancelled.get() > self.entered
        };
        self.parent.as_ref()?.outermost(here).map(Outside::Scope)
    }
}

/// Where an interruption came from that was not the scope's own.
pub(crate) enum Outside {
    Task(Rc<dyn TaskControl>),
    Scope(Rc<Scope>),
}

impl Default for Scope {
    #[inline]
    fn default() -> Scope {
        // (A constant: what is put together in memory and copied at once is copied slowly.)
        const {
            Scope {
                place: RefCell::new(None),
                waker: RefCell::new(None),
                stage: Cell::new(Stage::New),
                error: RefCell::new(None),
                cancelled: Cell::new(0),
                pending: Cell::new(false),
                due: Cell::new(false),
                passed_on: Cell::new(false),
                again: Cell::new(false),
                polling: Cell::new(false),
                limit: Limit::never(),
            }
        }
    }
}

impl Scope {
    /// The body is begun inside the task that is being stepped; false if there is none.
    pub(crate) fn enter(&self, event_loop: &LoopHandle) -> bool {
        let mut place = self.place.borrow_mut();
        *place = Place::here(event_loop);
        let Some(place) = &*place else {
            return false;
        };
        if self.was_cancelled() {
            place.task.count_scope(true);
        }
        self.stage.set(Stage::Entered);
        true
    }

    pub(crate) fn is_new(&self) -> bool {
        self.stage.get() == Stage::New
    }

    #[inline]
    pub(crate) fn is_entered(&self) -> bool {
        self.stage.get() == Stage::Entered
    }

    /// The body is over, or dropped.
    pub(crate) fn leave(&self) {
        self.stage.set(Stage::Over);
        self.pending.set(false);
        let (place, waker) = (self.place.take(), self.waker.take());
        drop(waker);
        let Some(place) = place else { return };
        self.limit.end(&place.event_loop);
        if self.was_cancelled() {
            place.task.count_scope(false);
        }
    }

    pub(crate) fn was_cancelled(&self) -> bool {
        self.error.borrow().is_some()
    }

    /// Its loop, while the body is alive.
    pub(crate) fn event_loop(&self) -> Option<LoopHandle> {
        Some(self.place.borrow().as_ref()?.event_loop.clone())
    }

    fn place(&self) -> Option<Place> {
        self.place.borrow().clone()
    }

    /// Interrupts the body, or will do so when it is entered. False if it is over.
    pub(crate) fn cancel(self: &Rc<Self>, error: CancelledError) -> bool {
        if self.stage.get() == Stage::Over {
            return false;
        }
        let first = self.error.replace(Some(error.clone())).is_none();
        let Some(place) = self.place() else {
            self.pending.set(true);
            return true;
        };
        self.cancelled.set(place.event_loop.core.next_moment());
        if first {
            place.task.count_scope(true);
        }
        if self.polling.get() {
            // From inside: what it suspends at will be cancelled.
            self.pending.set(true);
            return true;
        }
        // During a step of the task the body may have been polled already, or may still be.
        let due = place.task.part().is(Flag::Scheduled);
        let stepping = place.task.part().phase.get() == Phase::Stepping;
        let event_loop = &place.event_loop;
        let passed_on = !stepping && event_loop.cancel_some(&place.task, Some(self), &error);
        if passed_on && !due {
            self.passed_on.set(true);
        } else {
            self.pending.set(true);
        }
        if !passed_on {
            let waker = self.waker.borrow().clone();
            match waker {
                Some(waker) => waker.wake(),
                None => place.task.clone().wake(),
            }
        }
        true
    }

    /// Has it delivered once more, at the next await that begins in the body: it was delivered, but
    /// something else took precedence.
    fn cancel_again(&self) {
        self.again
            .set(self.was_cancelled() && self.stage.get() != Stage::Over);
    }

    /// An await begins in this scope: takes that, for this scope or one around it.
    pub(crate) fn take_again(self: &Rc<Self>) -> Option<CancelledError> {
        let scope = self.outermost(|scope| scope.again.get())?;
        scope.again.set(false);
        scope.passed_on.set(true);
        scope.error.borrow().clone()
    }

    /// Before the body is polled. `waker`: that of something inside the task, if it is not the
    /// task's own.
    #[inline]
    pub(crate) fn begin_poll(&self, event_loop: &LoopHandle, waker: Option<&Waker>) {
        self.follow(event_loop);
        if waker.is_some() || self.waker.borrow().is_some() {
            let before = self.waker.replace(waker.cloned());
            drop(before);
        }
        self.polling.set(true);
        self.due.set(self.pending.get());
    }

    /// The body may have been moved to another task in the middle.
    fn follow(&self, event_loop: &LoopHandle) {
        let is_same = match &*self.place.borrow() {
            Some(place) => event_loop.core.is_stepping(&place.task),
            None => true,
        };
        if is_same {
            return;
        }
        if let Some(place) = Place::here(event_loop) {
            let cancelled = self.was_cancelled();
            if cancelled {
                place.task.count_scope(true);
            }
            let before = self.place.replace(Some(place));
            if let Some(before) = before.filter(|_| cancelled) {
                before.task.count_scope(false);
            }
        }
    }

    pub(crate) fn end_poll(&self) {
        self.polling.set(false);
    }

    /// After a poll that suspended the body. False if it is cancelled and nothing of this crate can
    /// deliver that: the body is to be dropped where it is.
    pub(crate) fn suspended(self: &Rc<Self>) -> bool {
        if !self.passed_on.get() && !self.pending.get() && !self.again.get() {
            return true;
        }
        let Some(place) = self.place() else {
            return true;
        };
        let waits = place.task.part().waits_in(self);
        if self.again.replace(false) && !waits {
            // No await of this crate has begun since.
            self.pending.set(true);
        }
        if self.passed_on.get() && !waits {
            // It went to something that the body does not await any more.
            self.passed_on.set(false);
            self.pending.set(true);
        }
        if !self.pending.get() {
            return true;
        }
        let woken = place.task.part().was_woken_in_step();
        let error = self.error.borrow().clone().unwrap_or_default();
        if place.event_loop.cancel_some(&place.task, Some(self), &error) {
            // What has woken it already may be polled first: then that await delivers it.
            self.pending.set(woken);
            self.passed_on.set(!woken);
            return true;
        }
        !self.due.get() && woken
    }

    /// Takes what is to be delivered at an await in this scope: its own, or that of one around it.
    /// One interruption is for all of them.
    pub(crate) fn take_pending(self: &Rc<Self>) -> Option<CancelledError> {
        let mut taken = None;
        self.for_each_outwards(|scope| {
            if scope.pending.replace(false) {
                scope.due.set(false);
                taken = scope.error.borrow().clone();
            }
        });
        taken
    }

    /// An await in this scope that had suspended goes on.
    pub(crate) fn resumed(self: &Rc<Self>) {
        self.for_each_outwards(|scope| scope.passed_on.set(false));
    }

    /// Whether this scope is `outer` or inside it.
    pub(crate) fn is_in(self: &Rc<Self>, outer: &Rc<Scope>) -> bool {
        let mut found = false;
        self.for_each_outwards(|scope| found |= Rc::ptr_eq(scope, outer));
        found
    }

    fn outermost(self: &Rc<Self>, mut is_it: impl FnMut(&Rc<Scope>) -> bool) -> Option<Rc<Scope>> {
        let mut found = None;
        self.for_each_outwards(|scope| {
            if is_it(scope) {
                found = Some(scope.clone());
            }
        });
        found
    }

    fn for_each_outwards(self: &Rc<Self>, mut visit: impl FnMut(&Rc<Scope>)) {
        let mut next = Some(self.clone());
        while let Some(scope) = next {
            visit(&scope);
            let place = scope.place.borrow();
            next = place.as_ref().and_then(|place| place.parent.clone());
        }
    }

    /// Whose cancellation it was that ended the body, if it was not this scope's own. Who is further
    /// outside comes first: that one is to see it.
    pub(crate) fn outside(&self, exception: &Exception) -> Option<Outside> {
        self.place()?.outside(Some(exception))
    }
}

impl Outside {
    /// Something else took precedence over the interruption: it comes again, at the next await that
    /// begins. Other branches of the task were interrupted as well and do not hear of it again.
    pub(crate) fn deliver_again(self, event_loop: &LoopHandle, exception: Option<&Exception>) {
        match self {
            Outside::Scope(scope) => scope.cancel_again(),
            // The count of requests stays as it is.
            Outside::Task(task) if task.requests() > 0 => {
                let error = exception.and_then(|exception| exception.downcast_ref::<CancelledError>());
                let error = error.cloned().unwrap_or_default().of_task(task.number());
                if let Some(stepper) = event_loop.core.stepping() {
                    stepper.part().cancel_again(&error);
                }
            }
            Outside::Task(_) => {}
        }
    }
}
