//! A task from the inside: its coroutine, which is polled by the loop's steps, and its end.
//!
//! When it is stepped is decided in the loop (`loop_core/step.rs`), which does not know the type of
//! the coroutine. Here are the parts that do.

use std::future::Future as StdFuture;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use slotmap::Key;

use crate::contexts::Context;
use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Owned, OwnedKey, TaskControl};
use crate::loop_core::part::{Flag, Phase, TaskPart};
use crate::loop_core::{LoopHandle, Step, Stepper};
use crate::raw_task::Pinned;
use crate::selector::Operation;

pub(super) type TaskCell<T, F> = Pinned<Shared<T>, F>;

#[repr(C)]
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

    /// The coroutine is over: it is dropped, and the outcome set.
    fn end(self: &Rc<Self>, outcome: Outcome<T>) {
        let part = self.part();
        if part.phase.replace(Phase::Done) == Phase::Done {
            return;
        }
        let event_loop = self.event_loop();
        // Its destructors see the task's context, as its steps do.
        part.in_its_context(|| {
            event_loop.guard("Exception while a task's coroutine was dropped", || {
                self.drop_coroutine();
            });
        });
        event_loop.core.task_ends();
        if part.waits() {
            if !event_loop.is_closed() {
                // A future that it has polled and given away is still in the list.
                part.tell_waits_of_step();
            }
            part.stop_waiting();
        }
        if let Some(context) = part.take_context() {
            event_loop.guard("Exception while a task's context was dropped", || drop(context));
        }
        if let Err(outcome) = self.shared.state.finish_alone(outcome) {
            let _ = finish(self.clone(), outcome);
        }
        let key = part.key.replace(OwnedKey::null());
        if !key.is_null() {
            event_loop.core.disown(key);
        }
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Stepper for Pinned<Shared<T>, F> {
    fn part(&self) -> &TaskPart {
        &self.shared.part
    }

    fn step(self: Rc<Self>, event_loop: &LoopHandle, waker: Option<&Waker>) {
        event_loop.step(self, waker);
    }

    fn wakeup(self: Rc<Self>, event_loop: &LoopHandle, future: *const (), registration: u32) {
        event_loop.wakeup(self, future, registration);
    }

    #[inline(always)] // into the step
    fn poll(self: &Rc<Self>, step: Step<'_>, cx: &mut PollContext<'_>) -> bool {
        let polled = catch_unwind(AssertUnwindSafe(|| self.poll_coroutine(cx)));
        if matches!(polled, Ok(Some(Poll::Pending))) {
            // (By itself, for then no outcome has to be kept meanwhile.)
            step.over();
            return true;
        }
        step.over();
        let result = match polled {
            Ok(Some(Poll::Ready(result))) => result,
            Ok(_) => return false,
            Err(panic) => Err(Exception::from_panic(panic)),
        };
        self.end(match result {
            // It cancelled itself, and finished without another await.
            Ok(_) if self.part().is(Flag::MustCancel) => Outcome::cancelled(&self.part().cancellation()),
            Ok(value) => Outcome::Result(value),
            Err(exception) if exception.is_cancelled() => Outcome::Cancelled(exception),
            Err(exception) => Outcome::Failed(exception),
        });
        false
    }

    fn end_cancelled(self: Rc<Self>) {
        self.end(Outcome::cancelled(&self.part().cancellation()));
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Owned for Pinned<Shared<T>, F> {
    fn wake(self: Rc<Self>) {
        let event_loop = self.event_loop().clone();
        event_loop.wake_task(self);
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
        !self.part().is_done()
    }
}

/// A task that receives stands in the source's queue itself, with no future between: see
/// `sockets/sock_recv.rs`.
impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Operation for Pinned<Shared<T>, F> {
    fn ready(self: Rc<Self>) {
        self.wake();
    }

    fn look(self: Rc<Self>) {}

    fn fail(self: Rc<Self>, error: io::Error) {
        if self.part().lose_source(&error.into()) {
            self.ready();
        }
    }

    fn stop_waiting(&self, source: *const ()) {
        self.part().stop_waiting_for_source(source);
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
        let event_loop = self.event_loop().clone();
        event_loop.cancel_task(self, error);
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
#[inline]
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
    #[inline]
    pub(super) fn start(self: Rc<Self>, eager: bool) -> Future<T> {
        let event_loop = self.event_loop();
        if event_loop.is_closed() {
            event_loop.core.refuse("a task");
            self.shared.state.set_seen();
            return self.refuse(RuntimeError::LoopClosed.into());
        }
        if eager && event_loop.is_running() {
            event_loop.step_at_once(self.clone());
        } else if self.part().is_to_be_scheduled() {
            event_loop.core.schedule_step(self.clone());
        }
        Future::of(self)
    }

    /// It has failed from the start; its coroutine is dropped.
    pub(super) fn refuse(self: Rc<Self>, error: Exception) -> Future<T> {
        self.end(Outcome::Failed(error));
        Future::of(self)
    }
}
