//! Stepping a coroutine, and stopping it: the inside of a task.
//!
//! A task is always in one of these states:
//!
//! * **waiting**: suspended. It is in the loop's table, and registered with what it awaits
//!   (`waits`), or its waker is somewhere.
//! * **scheduled**: a step is in the ready queue, once, however often it was woken.
//! * **stepping**: its coroutine is being polled. A wake now means one more step afterwards.
//! * **done**: the coroutine is dropped, the outcome set.
//!
//! `run` is Python's `__step`, and `wake` its `__wakeup`.

use std::future::Future as StdFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context as PollContext, Poll};

use slotmap::Key;

use crate::contexts::Context;
use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, OwnedKey, TaskControl};
use crate::loop_core::part::{Flag, Phase, TaskPart};
use crate::loop_core::{LoopHandle, Scope, Stepper};
use crate::raw_task::{Lent, Pinned};
use crate::ready::Runnable;

pub(super) type TaskCell<T, F> = Pinned<Shared<T>, F>;

pub(super) struct Shared<T> {
    pub(super) state: State<T>,
    part: TaskPart,
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.state.report_unseen(|| Some(self.part.name()));
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Pinned<Shared<T>, F> {
    pub(super) fn part(&self) -> &TaskPart {
        &self.shared.part
    }

    fn event_loop(&self) -> &LoopHandle {
        &self.shared.state.event_loop
    }

    /// Polls the coroutine once. `None` if there is nothing to poll.
    fn poll_once(self: &Rc<Self>) -> Option<std::thread::Result<Poll<Result<T>>>> {
        let (part, core) = (self.part(), &self.event_loop().core);
        let poll = |waker: &std::task::Waker| {
            // Another task is being stepped if this one is started eagerly.
            let is_inner = core.set_stepping(self.clone(), waker);
            let scope = core.exchange_scope(None);
            let context = part.enter_context();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                self.poll(&mut PollContext::from_waker(waker))
            }));
            part.leave_context(context);
            if scope.is_some() {
                core.exchange_scope(scope);
            }
            core.clear_stepping(is_inner);
            polled.transpose()
        };
        if let Some(remote) = part.remote() {
            // Somebody has a clone of its waker: that waker is used, and recognised, from then on.
            remote.stepped();
            return poll(&remote.waker());
        }
        let lent = Lent::new(core.inbox());
        let polled = lent.lend(poll);
        if lent.was_woken() {
            part.set(Flag::WokenInStep, true);
        }
        if let Some(remote) = lent.into_cloned() {
            remote.set_key(part.key.get());
            part.set_remote(&remote);
        }
        polled
    }

    /// After a step that suspended the coroutine.
    fn suspended(self: Rc<Self>) {
        let part = self.part();
        if part.key.get().is_null() {
            let key = self.event_loop().core.own(self.clone());
            part.key.set(key);
            if let Some(remote) = part.remote() {
                remote.set_key(key);
            }
        }
        if part.is_interrupted() && !self.cancel_at_suspension() {
            // Nothing of ours can deliver it: the coroutine is dropped where it is.
            return self.end(Outcome::cancelled(&part.cancellation()));
        }
        part.tell_waits_of_step();
        if part.take(Flag::WokenInStep) {
            self.schedule();
        }
    }

    /// It has suspended, and was cancelled before that: what it suspended on is cancelled now. False
    /// if there is nothing that could deliver it.
    fn cancel_at_suspension(self: &Rc<Self>) -> bool {
        let part = self.part();
        if part.take(Flag::Again) && !part.is_waiting() {
            // No await of this crate has begun since.
            part.set(Flag::MustCancel, true);
        }
        if part.is(Flag::PassedOn) && !part.is_waiting() {
            // It went to a future that the coroutine had polled and does not await any more.
            part.set(Flag::PassedOn, false);
            part.set(Flag::MustCancel, true);
        }
        if !part.is(Flag::MustCancel) {
            return true;
        }
        let woken = part.is(Flag::WokenInStep);
        if self.cancel_waits(&part.cancellation()) {
            // What has woken it already may be polled first: then that await delivers it.
            part.set(Flag::MustCancel, woken);
            part.set(Flag::PassedOn, !woken);
            return true;
        }
        (woken && !part.is(Flag::Due)) || part.is_waiting()
    }

    /// Cancels all that the task is suspended at; false if there is nothing.
    fn cancel_waits(self: &Rc<Self>, error: &CancelledError) -> bool {
        // Tasks may wait for each other in a circle.
        !self.part().is(Flag::PassingOn) && self.cancel_some(|_| true, error, true)
    }

    /// Cancels what it is suspended at in the scopes that count; false if there is nothing.
    fn cancel_some(
        self: &Rc<Self>,
        counts: impl Fn(Option<&Rc<Scope>>) -> bool,
        error: &CancelledError,
        as_task: bool,
    ) -> bool {
        let part = self.part();
        let mut waits = part.current_waits(&counts);
        let by_wakers = part.waits_by_wakers(&counts);
        // Whose wakers those are may not wake the task.
        let wake = waits.is_empty() && !by_wakers.is_empty();
        waits.extend(by_wakers);
        if waits.is_empty() {
            return false;
        }
        part.set(Flag::PassingOn, part.is(Flag::PassingOn) || as_task);
        let task = as_task.then(|| self.clone() as Rc<dyn Cancel>);
        self.event_loop().cancel_for(task, waits, error);
        if wake {
            self.clone().wake();
        }
        true
    }

    /// Puts a step in the ready queue, if there is none.
    fn schedule(self: Rc<Self>) {
        let part = self.part();
        if !part.is(Flag::Scheduled) {
            part.set(Flag::Scheduled, true);
            let event_loop = self.event_loop().clone();
            event_loop.core.schedule_step(self);
        }
    }

    /// The coroutine is over: it is dropped, and the outcome set.
    fn end(self: &Rc<Self>, outcome: Outcome<T>) {
        let part = self.part();
        if part.phase.replace(Phase::Done) == Phase::Done {
            return;
        }
        let event_loop = self.event_loop();
        // Its destructors see the task's context, as its steps do.
        let outer = part.enter_context();
        event_loop.guard("Exception while a task's coroutine was dropped", || {
            self.drop_coroutine();
        });
        part.leave_context(outer);
        event_loop.core.task_ends();
        if !event_loop.is_closed() {
            // A future that it has polled and given away is still in the list.
            part.tell_waits_of_step();
        }
        part.stop_waiting();
        let context = part.take_context();
        if context.is_some() {
            event_loop.guard("Exception while a task's context was dropped", || drop(context));
        }
        let _ = finish(self.clone(), outcome);
        let key = part.key.replace(OwnedKey::null());
        if !key.is_null() {
            event_loop.core.disown(key);
        }
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Runnable for Pinned<Shared<T>, F> {
    fn run(self: Rc<Self>) {
        let part = self.part();
        part.set(Flag::Scheduled, false);
        match part.phase.get() {
            Phase::Done | Phase::Stepping => return,
            // Cancelled before it began: the body never runs.
            Phase::New if part.is(Flag::MustCancel) => {
                return self.end(Outcome::cancelled(&part.cancellation()));
            }
            Phase::Suspended if part.take(Flag::Doomed) && part.is(Flag::MustCancel) => {
                return self.end(Outcome::cancelled(&part.cancellation()));
            }
            Phase::New | Phase::Suspended => part.phase.set(Phase::Stepping),
        }
        part.steps.set(part.steps.get().wrapping_add(1));
        part.set(Flag::Due, part.is(Flag::MustCancel));
        let polled = self.poll_once();
        part.phase.set(Phase::Suspended);
        match polled {
            Some(Ok(Poll::Pending)) => self.suspended(),
            Some(Ok(Poll::Ready(result))) => self.end(match result {
                // It cancelled itself, and finished without another await.
                Ok(_) if part.is(Flag::MustCancel) => Outcome::cancelled(&part.cancellation()),
                Ok(value) => Outcome::Result(value),
                Err(exception) if exception.is_cancelled() => Outcome::Cancelled(exception),
                Err(exception) => Outcome::Failed(exception),
            }),
            Some(Err(panic)) => self.end(match Exception::from_panic(panic) {
                exception if exception.is_cancelled() => Outcome::Cancelled(exception),
                exception => Outcome::Failed(exception),
            }),
            None => {}
        }
    }

    fn wake(self: Rc<Self>) {
        match self.part().phase.get() {
            Phase::Done => {}
            Phase::Stepping => self.part().set(Flag::WokenInStep, true),
            Phase::New | Phase::Suspended => self.schedule(),
        }
    }

    fn abandon(self: Rc<Self>) {
        // Counted in one report for all of them.
        self.shared.state.set_seen();
        self.end(Outcome::Failed(RuntimeError::LoopClosed.into()));
    }

    fn task(self: Rc<Self>) -> Option<Rc<dyn TaskControl>> {
        Some(self)
    }

    fn is_unfinished(&self) -> bool {
        self.part().phase.get() != Phase::Done
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Stepper for Pinned<Shared<T>, F> {
    fn part(&self) -> &TaskPart {
        &self.shared.part
    }

    fn woken_by(self: Rc<Self>, future: *const (), registration: u32) {
        self.part().stop_waiting_for(future, registration);
        self.wake();
    }

    fn cancel_waits_in(self: Rc<Self>, scope: &Rc<Scope>, error: &CancelledError) -> bool {
        let counts = |inner: Option<&Rc<Scope>>| inner.is_some_and(|inner| inner.is_in(scope));
        self.cancel_some(counts, error, false)
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Cancel for Pinned<Shared<T>, F> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let part = self.part();
        if self.shared.state.done() || part.phase.get() == Phase::Done {
            // Asking counts as having looked at its error, as in asyncio.
            self.shared.state.set_seen();
            return false;
        }
        part.cancel_requests.set(part.cancel_requests.get() + 1);
        let error = &error.clone().of_task(part.number);
        part.keep_cancellation(error);
        // A step that is scheduled already may find another future done than those cancelled now.
        let due = part.is(Flag::Scheduled);
        if part.phase.get() == Phase::Suspended && self.cancel_waits(error) && !due {
            part.set(Flag::PassedOn, true);
            return true;
        }
        part.set(Flag::MustCancel, true);
        if part.phase.get() == Phase::Suspended && !part.is(Flag::Scheduled) {
            // Suspended on something foreign, which can not deliver it.
            part.set(Flag::Doomed, true);
            self.schedule();
        }
        true
    }

    fn cancelled_for(self: Rc<Self>) {
        self.part().set(Flag::PassingOn, false);
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.shared.state.has_waiter(registration)
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> FutureCell<T> for TaskCell<T, F> {
    fn state(&self) -> &State<T> {
        &self.shared.state
    }

    fn task(self: Rc<Self>) -> Option<Rc<dyn TaskControl>> {
        Some(self)
    }
}

/// Makes a task of a coroutine, which is not scheduled yet.
pub(super) fn new_task<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
    event_loop: &LoopHandle,
    coroutine: F,
) -> Rc<TaskCell<T, F>> {
    let shared = Shared {
        state: State::pending(event_loop.clone(), Kind::Task),
        part: TaskPart::new(event_loop.core.task_begins()),
    };
    Pinned::new(shared, coroutine)
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Pinned<Shared<T>, F> {
    /// Sets what it is not to have by default.
    pub(super) fn furnish(&self, name: Option<String>, context: Option<Context>) {
        if name.is_some() || context.is_some() {
            self.part()
                .edit_extra(|extra| (extra.name, extra.context) = (name, context));
        }
    }

    /// Schedules its first step; if it is to be eager, and the loop is running, makes it now.
    pub(super) fn start(self: Rc<Self>, eager: bool) -> Future<T> {
        let event_loop = self.event_loop();
        if event_loop.is_closed() {
            event_loop.core.refuse("a task");
            self.shared.state.set_seen();
            return self.refuse(RuntimeError::LoopClosed.into());
        }
        if eager && event_loop.is_running() {
            self.clone().run();
        } else {
            self.clone().schedule();
        }
        Future::of(self)
    }

    /// It has failed from the start; its coroutine is dropped.
    pub(super) fn refuse(self: Rc<Self>, error: Exception) -> Future<T> {
        self.end(Outcome::Failed(error));
        Future::of(self)
    }
}
