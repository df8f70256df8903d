//! `gather`: the results of several, together.

mod children;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use super::{LoopChoice, Told, Watcher, in_turn, refused};
use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Owned};
use crate::loop_core::{Kept, LoopHandle};
use children::Children;
pub use children::Gather;

/// The future of a gather: `C` are its children, `O` is what it results in.
struct Gathering<C: Children, O: 'static> {
    state: State<O>,
    /// Until it is done; if it has failed, until it is dropped.
    children: RefCell<Option<C>>,
    /// Children whose callbacks have not run.
    left: Cell<usize>,
    /// Whether errors stand among the results.
    collects: bool,
    gathered: fn(C) -> Result<O>,
    /// It was asked to stop.
    request: RefCell<Option<CancelledError>>,
    /// When it was asked, no child was left that could have been.
    overruled: Cell<bool>,
    kept: Kept,
}

impl<C: Children, O: 'static> Gathering<C, O> {
    fn end(self: &Rc<Self>, outcome: Outcome<O>) {
        let request = self.request.borrow().clone();
        let outcome = match request.filter(|_| self.overruled.get()) {
            Some(request) => Outcome::cancelled(&request),
            None => outcome,
        };
        let failed = matches!(outcome, Outcome::Failed(_));
        if finish(self.clone(), outcome).is_err() {
            return;
        }
        if let Some(children) = &*self.children.borrow() {
            children.each(|child| {
                child.stop_watching();
                if failed {
                    child.set_seen();
                }
            });
        }
    }

    /// The end, if this child that is done was not successful and that is the end of all.
    fn early_end(&self, index: usize) -> Option<Outcome<O>> {
        let children = self.children.borrow();
        let child = children.as_ref().filter(|_| !self.collects)?.get(index);
        if self.overruled.get() && child.has_failed() {
            // Not looked at: the child reports it.
            return Some(Outcome::cancelled(&CancelledError::new()));
        }
        match child.exception() {
            Ok(exception) => exception.map(Outcome::Failed),
            Err(cancelled) => Some(Outcome::Cancelled(cancelled)),
        }
    }

    /// Every child is done.
    fn all_done(self: &Rc<Self>) {
        let Some(children) = self.children.take() else {
            return;
        };
        let request = self.request.borrow().clone();
        if let Some(request) = request {
            let last = children.count().checked_sub(1).map(|index| children.get(index));
            let error = match last
                .filter(|child| child.is_cancelled())
                .map(|child| child.exception())
            {
                Some(Err(error)) => error,
                _ => request.into(),
            };
            self.end(Outcome::Cancelled(error));
            // Nobody has looked at their outcomes: they report their failures themselves.
            in_turn(move || drop(children));
            return;
        }
        // Results may be cloned, which is the user's code; a panic there must not keep the gather
        // pending.
        let gathered = catch_unwind(AssertUnwindSafe(|| (self.gathered)(children)));
        self.end(match gathered {
            Ok(result) => result.into(),
            Err(panic) => Outcome::Failed(Exception::from_panic(panic)),
        });
    }
}

impl<C: Children, O: 'static> Told for Gathering<C, O> {
    fn child_done(self: Rc<Self>, index: usize) {
        self.left.set(self.left.get().saturating_sub(1));
        if self.state.done() {
            return;
        }
        if let Some(outcome) = self.early_end(index) {
            self.end(outcome);
        } else if self.left.get() == 0 {
            self.all_done();
        }
    }

    fn loop_closed(self: Rc<Self>, _: usize) {
        self.abandon();
    }

    fn event_loop(&self) -> &LoopHandle {
        &self.state.event_loop
    }
}

impl<C: Children, O: 'static> FutureCell<O> for Gathering<C, O> {
    fn state(&self) -> &State<O> {
        &self.state
    }

    fn keep(self: Rc<Self>) {
        self.kept.keep(&self.state.event_loop, self.clone());
    }

    fn release(&self) {
        self.kept.release(&self.state.event_loop);
    }
}

impl<C: Children, O: 'static> Cancel for Gathering<C, O> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        if self.state.done() {
            return false;
        }
        let mut pending = Vec::new();
        if let Some(children) = &*self.children.borrow() {
            children.each(|child| {
                if !child.done() {
                    pending.push(child.canceller());
                }
            });
        }
        let before = self.request.replace(Some(error.clone()));
        drop(before);
        if pending.is_empty() {
            // It is done in a moment. Whoever has asked counts on an interruption.
            self.overruled.set(true);
        }
        self.state.event_loop.cancel_for(None, pending, error);
        true
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl<C: Children, O: 'static> Owned for Gathering<C, O> {
    fn abandon(self: Rc<Self>) {
        if !self.state.done() {
            self.state.set_seen();
            self.overruled.set(false);
            self.end(Outcome::Failed(RuntimeError::LoopClosed.into()));
        }
    }
}

impl<C: Children, O: 'static> Drop for Gathering<C, O> {
    /// The callbacks go with the children.
    fn drop(&mut self) {
        if let Some(children) = self.children.take() {
            if self.state.is_seen() && !self.state.done() {
                // A failure of this one did not matter any more; so theirs do not either.
                children.each(|child| child.set_seen());
            }
            in_turn(move || drop(children));
        }
    }
}

fn start<G: Gather, O: 'static>(
    awaitables: G,
    collects: bool,
    gathered: fn(G::Children) -> Result<O>,
) -> Future<O> {
    let mut choice = LoopChoice::default();
    awaitables.see(&mut choice);
    let event_loop = match choice.choose() {
        Ok(event_loop) => event_loop,
        Err(error) => return refused(error),
    };
    let children = awaitables.begin(&event_loop);
    let count = children.count();
    let gathering = Rc::new(Gathering {
        state: State::pending(event_loop.clone(), Kind::Operation),
        children: RefCell::new(None),
        left: Cell::new(count),
        collects,
        gathered,
        request: RefCell::new(None),
        overruled: Cell::new(false),
        kept: Kept::default(),
    });
    let mut done = Vec::new();
    let told: Weak<dyn Told> = Rc::<Gathering<_, _>>::downgrade(&gathering);
    for index in 0..count {
        let child = children.get(index);
        if child.done() {
            done.push(index);
        } else {
            child.watch(Watcher::new(&told, index));
        }
    }
    gathering.children.replace(Some(children));
    if count == 0 {
        gathering.all_done();
    }
    for index in done {
        gathering.clone().child_done(index);
    }
    if event_loop.is_closed() && !gathering.state.done() {
        gathering.end(Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
    Future::of(gathering)
}

/// Waits for all of several awaitables and gives their results, in the order of the arguments
/// (`asyncio.gather`).
///
/// It takes a `Vec` or an array of awaitables of one type, which gives a `Vec` of results, or a
/// tuple of up to twelve different ones, which gives a tuple. Coroutines become tasks of the
/// running loop at once; futures and tasks are waited for as they are, also twice. What is done
/// already is not waited for: a gather of nothing is done from the start.
///
/// The first failure is the gather's, at once; the others go on, and what they come to does not
/// matter any more: their failures are not reported. If a child is cancelled by somebody else, the
/// gather ends cancelled, with the error of that child: [`cancelled`](Future::cancelled) is then
/// true, where asyncio's gather holds the `CancelledError` as an exception. Failures of the other
/// children are reported then, where asyncio drops them.
///
/// Cancelling the gather cancels the children that are pending, with the same error. It is done
/// with the first of them that ends cancelled, or fails; if all suppress it, then when all are
/// done, and it is cancelled nevertheless. Asked when all children are done but it is not, which
/// takes a tick, asyncio's gather refuses; this one is cancelled.
///
/// Dropping the last handle of a pending gather only detaches it. Tasks run on, and each reports
/// its failure if nobody looks; operations (a sleep, a `sock_*`) that have no other handle are
/// abandoned. A done callback keeps a gather without a handle alive.
///
/// # Errors
/// The future has failed with [`RuntimeError::NoRunningLoop`] if there are coroutines, and no loop
/// is running that they could become tasks of, nor any future to take one from. It has failed with
/// [`RuntimeError::OtherLoop`] if not all belong to one loop. In both cases the coroutines are
/// dropped.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, gather, sleep};
/// use std::time::Duration;
///
/// async fn work(name: &'static str, seconds: u64) -> miniloop::Result<&'static str> {
///     sleep(Duration::from_secs(seconds)).await?;
///     Ok(name)
/// }
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async {
///     assert_eq!(gather([work("a", 3), work("b", 1)]).await?, ["a", "b"]);
///     let (name, number) = gather((work("c", 1), async { Ok(42) })).await?;
///     assert_eq!((name, number), ("c", 42));
///     Ok(())
/// })?;
/// assert_eq!(event_loop.time(), Duration::from_secs(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gather<G: Gather>(awaitables: G) -> Future<G::Output> {
    start::<G, G::Output>(awaitables, false, G::Children::output)
}

/// The same with the errors among the results (`asyncio.gather(.., return_exceptions=True)`): it
/// waits for all, whatever they come to, and fails only as [`gather`] does without a loop.
///
/// Cancelling it cancels the children, and once all are done it is cancelled. Failures among them
/// are then reported, for nobody gets the results; asyncio drops them.
///
/// ```
/// use miniloop::{EventLoop, Exception, gather_results};
///
/// let event_loop = EventLoop::new()?;
/// let (number, failed) = event_loop.run_until_complete(async {
///     gather_results((
///         async { Ok(42) },
///         async { Err::<(), _>(Exception::new("no such thing")) },
///     ))
///     .await
/// })?;
/// assert_eq!(number?, 42);
/// assert_eq!(failed.unwrap_err().to_string(), "no such thing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn gather_results<G: Gather>(awaitables: G) -> Future<G::Results> {
    start::<G, G::Results>(awaitables, true, |children| Ok(children.results()))
}
