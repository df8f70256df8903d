//! Waiting for several at once (the second half of Python's `tasks.py`): `gather`, `wait`,
//! `as_completed`, `shield`.
//!
//! All of them watch what they wait for with done callbacks. A callback holds the one that waits
//! weakly, and goes when that is dropped: so there is no cycle, and dropping only detaches.

mod as_completed;
mod gather;
mod shield;
mod wait;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future as StdFuture;
use std::rc::{Rc, Weak};

use crate::errors::{Exception, Result, RuntimeError};
use crate::futures::Future;
use crate::handles::{Callback, Cancel};
use crate::loop_core::{LoopHandle, get_running_loop};
use crate::tasks::ensure::{Ensured, future_of};
pub use as_completed::{AsCompleted, as_completed};
pub use gather::{Gather, gather, gather_results};
pub use shield::shield;
pub use wait::{ReturnWhen, Wait, Waitable, wait};

/// The loop that awaitables are waited for on.
#[derive(Default)]
pub(crate) struct LoopChoice {
    /// That of the futures among them.
    given: Option<LoopHandle>,
    /// They have not all the same one.
    mixed: bool,
    /// Something is to become a task.
    coroutines: bool,
}

impl LoopChoice {
    pub(crate) fn see<T: 'static>(&mut self, awaitable: &dyn Any) {
        let Some(future) = future_of::<T>(awaitable) else {
            self.coroutines = true;
            return;
        };
        let event_loop = future.get_loop();
        if future.done() && event_loop.is_closed() {
            // It may have failed without ever having had a loop.
            return;
        }
        match &self.given {
            Some(given) => self.mixed |= !given.is_same(&event_loop),
            None => self.given = Some(event_loop),
        }
    }

    /// The running loop for coroutines, that of the futures for futures.
    pub(crate) fn choose(self) -> Result<LoopHandle, RuntimeError> {
        let running = get_running_loop().ok();
        let chosen = match &self.given {
            Some(given) if !self.coroutines => given.clone(),
            given => match running.or_else(|| given.clone()) {
                Some(event_loop) => event_loop,
                None if self.coroutines => return Err(RuntimeError::NoRunningLoop),
                None => LoopHandle::closed(),
            },
        };
        let strange = |given: &LoopHandle| !given.is_same(&chosen);
        if self.mixed || self.given.as_ref().is_some_and(strange) {
            return Err(RuntimeError::OtherLoop);
        }
        Ok(chosen)
    }
}

/// A future that has failed because there was no loop to wait on.
fn refused<T: 'static>(error: RuntimeError) -> Future<T> {
    let event_loop = get_running_loop().unwrap_or_else(|_| LoopHandle::closed());
    Future::failed(&event_loop, error)
}

/// What is told when something that it waits for is done.
pub(crate) trait Told {
    fn child_done(self: Rc<Self>, index: usize);
    /// The callback was dropped instead, for the loop is closed.
    fn loop_closed(self: Rc<Self>, index: usize);
    fn event_loop(&self) -> &LoopHandle;
}

/// The callback that tells it.
pub(crate) struct Watcher {
    /// Until it has been called.
    told: Option<Weak<dyn Told>>,
    index: usize,
}

impl Watcher {
    pub(crate) fn new(told: &Weak<dyn Told>, index: usize) -> Watcher {
        Watcher {
            told: Some(told.clone()),
            index,
        }
    }

    pub(crate) fn into_callback(mut self) -> Callback {
        Box::new(move || {
            let told = self.told.take();
            if let Some(told) = told.and_then(|told| told.upgrade()) {
                told.child_done(self.index);
            }
        })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let index = self.index;
        let told = self.told.take().and_then(|told| told.upgrade());
        if let Some(told) = told.filter(|told| told.event_loop().is_closed()) {
            in_turn(move || told.loop_closed(index));
        }
    }
}

/// A future with a done callback that goes when this is dropped.
struct Watch<T: 'static> {
    future: Future<T>,
    key: Cell<u32>,
}

impl<T: 'static> Watch<T> {
    fn stop(&self) {
        let key = self.key.replace(0);
        if key != 0 {
            self.future.forget_when_done(key);
        }
    }
}

impl<T: 'static> Drop for Watch<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A future or task that was given, or the task that a coroutine became, being watched.
pub(crate) struct Child<T: 'static, F> {
    watch: Watch<T>,
    ensured: Ensured<T, F>,
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Child<T, F> {
    pub(crate) fn new(event_loop: &LoopHandle, awaitable: F) -> Child<T, F> {
        let ensured = event_loop.ensure_future(awaitable);
        Child {
            watch: Watch {
                future: ensured.future.clone(),
                key: Cell::new(0),
            },
            ensured,
        }
    }

    fn future(&self) -> &Future<T> {
        &self.watch.future
    }

    /// The outcome, once it is done. The result is moved out if nobody else can read it.
    pub(crate) fn outcome(self) -> Result<T> {
        let Child { watch, ensured } = self;
        drop(watch);
        ensured.outcome()
    }

    /// Lets go of it without ending it: an operation that has no other handle goes on as well.
    fn leave_running(self) {
        let Child { watch, ensured } = self;
        watch.stop();
        let future = watch.future.clone();
        drop((watch, ensured));
        if !future.done() && Rc::strong_count(future.cell()) == 1 {
            future.when_done(|| ());
        }
    }
}

/// A child, whatever its result is.
pub(crate) trait AnyChild {
    fn done(&self) -> bool;
    /// What it has failed with, which then counts as looked at; `Err` if it was cancelled.
    fn exception(&self) -> Result<Option<Exception>>;
    fn is_cancelled(&self) -> bool;
    /// Whether it has failed; that is not looking at the exception.
    fn has_failed(&self) -> bool;
    fn canceller(&self) -> Rc<dyn Cancel>;
    /// Has the watcher called when it is done.
    fn watch(&self, watcher: Watcher);
    fn stop_watching(&self);
    /// A failure, be it a later one, is not to be reported.
    fn set_seen(&self);
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> AnyChild for Child<T, F> {
    fn done(&self) -> bool {
        self.future().done()
    }

    fn exception(&self) -> Result<Option<Exception>> {
        self.future().exception()
    }

    fn is_cancelled(&self) -> bool {
        self.future().cancelled()
    }

    fn has_failed(&self) -> bool {
        self.future().cell().state().is_failed()
    }

    fn canceller(&self) -> Rc<dyn Cancel> {
        self.future().cell().clone()
    }

    fn watch(&self, watcher: Watcher) {
        self.watch
            .key
            .set(self.future().when_done(watcher.into_callback()));
    }

    fn stop_watching(&self) {
        self.watch.stop();
    }

    fn set_seen(&self) {
        self.future().cell().state().set_seen();
    }
}

type Jobs = Vec<Box<dyn FnOnce()>>;

thread_local! {
    /// What waits for its turn, while something has it.
    static IN_TURN: RefCell<Option<Jobs>> = const { RefCell::new(None) };
}

/// Does something that may come back here: then that is done afterwards, and not inside it. So a
/// long chain, where each holds the next, is let go of without recursion.
fn in_turn(job: impl FnOnce() + 'static) {
    /// Ends the turn, also if a job panics; what is left over is dropped.
    struct Turn;
    impl Drop for Turn {
        fn drop(&mut self) {
            let left_over = IN_TURN.try_with(|jobs| jobs.borrow_mut().take());
            drop(left_over);
        }
    }

    let mut job = Some(job);
    let queued = IN_TURN.try_with(|jobs| match &mut *jobs.borrow_mut() {
        Some(jobs) => {
            if let Some(job) = job.take() {
                jobs.push(Box::new(job));
            }
        }
        jobs => *jobs = Some(Vec::new()),
    });
    let Some(job) = job else { return };
    if queued.is_err() {
        // The thread is ending.
        return job();
    }
    let _turn = Turn;
    job();
    let next = || IN_TURN.with(|jobs| jobs.borrow_mut().as_mut().and_then(Vec::pop));
    while let Some(job) = next() {
        job();
    }
}
