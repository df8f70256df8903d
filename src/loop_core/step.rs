//! Making a step of a task, and waking it (Python's `__step` and `__wakeup`).
//!
//! A task is always in one of these states:
//!
//! * **waiting**: suspended. It is in the loop's table, and registered with what it awaits, or its
//!   waker is somewhere.
//! * **scheduled**: a step is in the ready queue, once, however often it was woken.
//! * **stepping**: its coroutine is being polled. A wake now means one more step afterwards.
//! * **done**: the coroutine is dropped, the outcome set.
//!
//! All this is the same for every task. What depends on the type of its coroutine is behind
//! [`Stepper`]; the step itself is compiled with it, for each type.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as PollContext, Waker};

use slotmap::Key;

use super::LoopHandle;
use super::core::Core;
use super::part::{Begun, Phase, TaskPart, may_be_interrupted};
use crate::contexts;
use crate::handles::{Owned, TaskControl};
use crate::raw_task::{Lent, NO_WAKER, WakerIdentity, identity};
use crate::selector::Operation;
use crate::threadsafe::RemoteWaker;

/// A task, as the loop and the futures it awaits see it.
pub(crate) trait Stepper: Owned + TaskControl + Operation {
    fn part(&self) -> &TaskPart;
    /// [`LoopHandle::step`], of this type.
    fn step(self: Rc<Self>, event_loop: &LoopHandle, waker: Option<&Waker>);
    /// [`LoopHandle::wakeup`], of this type.
    fn wakeup(self: Rc<Self>, event_loop: &LoopHandle, future: *const (), registration: u32);
    /// Polls the coroutine and says that the step is over. If the coroutine is over too, the task ends
    /// then. True if it has suspended.
    fn poll(self: &Rc<Self>, step: Step<'_>, cx: &mut PollContext<'_>) -> bool
    where
        Self: Sized;
    /// Drops the coroutine where it is; the task has been cancelled.
    fn end_cancelled(self: Rc<Self>);
}

/// A step that is being made.
pub(crate) struct Step<'a> {
    core: &'a Core,
    part: &'a TaskPart,
}

impl Step<'_> {
    /// The coroutine has been polled.
    #[inline]
    pub(crate) fn over(self) {
        self.part.leave_context();
        self.core.clear_stepping();
        self.part.phase.set(Phase::Suspended);
    }
}

impl Core {
    /// Says which task is being stepped, and with which waker.
    #[inline]
    fn set_stepping(&self, task: Rc<dyn Stepper>, waker: WakerIdentity) {
        self.stepping_waker.set(waker);
        // There was none (see `suspend_stepping`), and so there is nothing to drop.
        let none = self.stepping.replace(Some(task));
        debug_assert!(none.is_none());
        std::mem::forget(none);
    }

    /// The step is over.
    #[inline]
    fn clear_stepping(&self) {
        self.stepping_waker.set(NO_WAKER);
        // Whoever steps it has it too: nothing is dropped but the reference. (`set` would copy what is
        // there, which is slow so soon after it was written.)
        if let Some(task) = self.stepping.take() {
            drop(task);
        }
    }

    /// Another task's step is begun inside of one. False if none is being made.
    fn suspend_stepping(&self) -> bool {
        let outer = self.stepping.take();
        let waker = self.stepping_waker.replace(NO_WAKER);
        let is_inner = outer.is_some();
        let outer = outer.map(|task| (task, waker));
        self.outer_steps.borrow_mut().extend(outer);
        is_inner
    }

    /// That one is over.
    fn resume_stepping(&self) {
        let outer = self.outer_steps.borrow_mut().pop();
        if let Some((task, waker)) = outer {
            self.stepping_waker.set(waker);
            self.stepping.set(Some(task));
        }
    }
}

impl LoopHandle {
    /// Makes a step of a task, with this waker or a lent one.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn step<S: Stepper + 'static>(&self, task: Rc<S>, waker: Option<&Waker>) {
        let (core, part) = (&*self.core, task.part());
        // Only a task that is not has a waker of its own, or a context.
        let usual = part.is_usual();
        if !usual
            && waker.is_none()
            && let Some(remote) = part.remote()
        {
            return self.step_with(task, &remote);
        }
        let waited = part.waits();
        match part.begin_step() {
            Begun::Yes => {}
            Begun::NotNow => return,
            Begun::Cancelled => return task.end_cancelled(),
        }
        let lent = Lent::new(&core.inbox, part.woken_in_step());
        let suspended = lent.lend(|lent| {
            let waker = waker.unwrap_or(lent);
            core.set_stepping(task.clone(), identity(waker));
            if !usual {
                part.enter_context();
            }
            task.poll(Step { core, part }, &mut PollContext::from_waker(waker))
        });
        if lent.was_cloned() {
            part.keep_remote(lent);
        } else {
            lent.forget();
        }
        if !suspended {
            return;
        }
        if part.key.get().is_null() {
            self.own_task(task.clone());
        }
        if part.is_interrupted() && !self.cancel_at_suspension(&(task.clone() as Rc<dyn Stepper>)) {
            return task.end_cancelled();
        }
        if waited {
            part.tell_waits_of_step();
        }
        if part.take_woken_in_step() && part.is_to_be_scheduled() {
            core.schedule_step(task);
        }
    }

    /// The same for a task of whose waker somebody has a clone: that is used, and recognised, from then on.
    #[cold]
    fn step_with(&self, task: Rc<dyn Stepper>, remote: &Arc<RemoteWaker>) {
        remote.stepped();
        task.step(self, Some(&remote.waker()));
    }

    /// The first step of a task, inside of a callback or another task's step, of whose scope and
    /// context it is to know nothing.
    pub(crate) fn step_at_once(&self, task: Rc<dyn Stepper>) {
        let core = &*self.core;
        let is_inner = core.suspend_stepping();
        let scope = core.exchange_scope(None);
        let context = contexts::exchange(None);
        task.step(self, None);
        contexts::exchange(context);
        core.exchange_scope(scope);
        if is_inner {
            core.resume_stepping();
            may_be_interrupted();
        }
    }

    /// The task has suspended for the first time: the loop keeps it from now on.
    fn own_task(&self, task: Rc<dyn Stepper>) {
        let key = self.core.own(task.clone());
        let part = task.part();
        part.key.set(key);
        if let Some(remote) = part.remote() {
            remote.set_key(key);
        }
    }

    /// Something that a task waits for has happened: it is scheduled, once.
    #[inline(always)] // at both places where a task is woken
    pub(crate) fn wake_task<S: Stepper + 'static>(&self, task: Rc<S>) {
        if task.part().wake() {
            self.core.schedule_step(task);
        }
    }

    /// A future that a task waits for is done.
    #[inline]
    pub(crate) fn wakeup<S: Stepper + 'static>(&self, task: Rc<S>, future: *const (), registration: u32) {
        task.part().stop_waiting_for(future, registration);
        self.wake_task(task);
    }

    /// Puts a step in the ready queue, if there is none.
    pub(crate) fn schedule_task(&self, task: Rc<dyn Stepper>) {
        if task.part().is_to_be_scheduled() {
            self.core.schedule_step(task);
        }
    }
}
