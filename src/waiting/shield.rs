//! `shield`: to wait for something without being able to cancel it.

use std::cell::RefCell;
use std::future::Future as StdFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use super::{AnyChild, Child, LoopChoice, Told, Watcher, in_turn, refused};
use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Owned};
use crate::loop_core::{Kept, LoopHandle};

struct Shielding<T: 'static, F: StdFuture<Output = Result<T>> + 'static> {
    state: State<T>,
    /// Until it is done.
    inner: RefCell<Option<Child<T, F>>>,
    kept: Kept,
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Told for Shielding<T, F> {
    fn child_done(self: Rc<Self>, _: usize) {
        let Some(inner) = self.inner.take() else {
            return;
        };
        let cancelled = inner.is_cancelled();
        // The result may be cloned, which is the user's code.
        let outcome = match catch_unwind(AssertUnwindSafe(|| inner.outcome())) {
            Ok(Err(error)) if cancelled => Outcome::Cancelled(error),
            Ok(result) => result.into(),
            Err(panic) => Outcome::Failed(Exception::from_panic(panic)),
        };
        // It may have been cancelled by that code.
        let _ = finish(self, outcome);
    }

    fn loop_closed(self: Rc<Self>, _: usize) {
        self.abandon();
    }

    fn event_loop(&self) -> &LoopHandle {
        &self.state.event_loop
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> FutureCell<T> for Shielding<T, F> {
    fn state(&self) -> &State<T> {
        &self.state
    }

    fn keep(self: Rc<Self>) {
        self.kept.keep(&self.state.event_loop, self.clone());
    }

    fn release(&self) {
        self.kept.release(&self.state.event_loop);
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Cancel for Shielding<T, F> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let pending = finish(self.clone(), Outcome::cancelled(error)).is_ok();
        self.state.set_seen();
        if let Some(inner) = self.inner.take() {
            inner.leave_running();
        }
        pending
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Owned for Shielding<T, F> {
    fn abandon(self: Rc<Self>) {
        if !self.state.done() {
            self.state.set_seen();
            let _ = finish(self, Outcome::Failed(RuntimeError::LoopClosed.into()));
        }
    }
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Drop for Shielding<T, F> {
    /// The callback goes with the child.
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            if self.state.is_seen() && !self.state.done() {
                // A failure of this one did not matter any more; so that one does not either.
                inner.set_seen();
            }
            in_turn(move || drop(inner));
        }
    }
}

/// Waits for something without being able to cancel it (`asyncio.shield`).
///
/// The future has the outcome of the inner awaitable. When it is cancelled, by a task that awaits
/// it or by hand, it is done at once, and the inner one goes on; its failure is reported if nobody
/// else looks at it, where asyncio drops it. If the inner one is cancelled itself, so is the
/// shield. A coroutine becomes a task of the running loop. Of what is done already it gives the
/// future itself.
///
/// Dropping the last handle of a pending shield only detaches it; an operation (a sleep, a
/// `sock_*`) that has no other handle is then abandoned. A done callback keeps a shield without a
/// handle alive.
///
/// # Errors
/// The future has failed with [`RuntimeError::NoRunningLoop`] if a coroutine is given and no loop
/// is running; it is dropped.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, get_running_loop, shield, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// let saved = event_loop.run_until_complete(async {
///     let event_loop = get_running_loop()?;
///     let save = event_loop.create_task(async {
///         sleep(Duration::from_secs(1)).await?;
///         Ok("saved")
///     });
///     let shielded = shield(save.clone());
///     let request = event_loop.create_task(async move { shielded.await });
///     sleep(Duration::ZERO).await?;
///     request.cancel();
///     assert!(request.await.unwrap_err().is_cancelled());
///     save.await
/// })?;
/// assert_eq!(saved, "saved");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shield<T: 'static>(awaitable: impl StdFuture<Output = Result<T>> + 'static) -> Future<T> {
    let mut choice = LoopChoice::default();
    choice.see::<T>(&awaitable);
    match choice.choose() {
        Ok(event_loop) => cover(Child::new(&event_loop, awaitable)),
        Err(error) => refused(error),
    }
}

fn cover<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(inner: Child<T, F>) -> Future<T> {
    if inner.done() {
        return inner.future().clone();
    }
    let event_loop = inner.future().get_loop();
    let shielding = Rc::new(Shielding {
        state: State::pending(event_loop.clone(), Kind::Operation),
        inner: RefCell::new(None),
        kept: Kept::default(),
    });
    let told: Weak<dyn Told> = Rc::<Shielding<_, _>>::downgrade(&shielding);
    inner.watch(Watcher::new(&told, 0));
    shielding.inner.replace(Some(inner));
    if event_loop.is_closed() {
        let _ = finish(
            shielding.clone(),
            Outcome::Failed(RuntimeError::LoopClosed.into()),
        );
    }
    Future::of(shielding)
}
