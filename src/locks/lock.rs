//! `Lock`: one holder at a time.

use std::cell::Cell;
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use super::waiters::{Place, Waiters};
use crate::errors::{Result, RuntimeError};
use crate::loop_core::{LoopHandle, get_running_loop};

/// A lock for tasks (`asyncio.Lock`): one holds it, the others wait in the order they asked.
///
/// Clones are one lock. `async with lock:` is a guard in a block; a lock that is held from one
/// function to the next is [`acquire`](Self::acquire) with [`LockGuard::forget`], and
/// [`release`](Self::release).
///
/// A lock that was released reads as unlocked until the first waiter has stepped, but nobody can
/// take it past that waiter. It is never lost: a waiter that is cancelled or dropped after its
/// turn came passes it on. (asyncio does so for a cancellation; a coroutine that is closed there
/// leaves the others waiting.) A wait that was begun, and is kept without being polled, keeps its
/// place in the queue.
///
/// It belongs to no loop, and can be used in several, one after the other. (Who waits on a loop that
/// stands still keeps its turn.)
///
/// ```
/// use miniloop::{Exception, Lock, create_task, sleep};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// # miniloop::run(async {
/// let (lock, total) = (Lock::new(), Rc::new(Cell::new(0)));
/// let add = |amount: i32| {
///     let (lock, total) = (lock.clone(), total.clone());
///     create_task(async move {
///         let _held = lock.acquire().await?;
///         let before = total.get();
///         sleep(Duration::ZERO).await?;
///         total.set(before + amount);
///         Ok::<(), Exception>(())
///     })
/// };
/// let (one, two) = (add(1), add(2));
/// one.await?;
/// two.await?;
/// assert_eq!(total.get(), 3);
/// assert!(!lock.locked());
/// # Ok::<(), Exception>(()) })?;
/// # Ok::<(), Exception>(())
/// ```
#[derive(Clone, Default)]
pub struct Lock {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The number under which it is held.
    hold: Cell<Option<u64>>,
    /// The newest number: every acquisition has its own.
    last: Cell<u64>,
    waiters: Waiters,
}

impl Lock {
    /// A lock that nobody holds.
    pub fn new() -> Lock {
        Lock::default()
    }

    /// Waits until the lock is free and takes it (`asyncio.Lock.acquire`). A free lock for which
    /// nobody waits is taken without yielding, and needs no loop.
    ///
    /// # Errors
    /// [`CancelledError`](crate::CancelledError) if the wait is cancelled;
    /// [`RuntimeError::NoRunningLoop`] if it has to wait where no loop is running.
    pub fn acquire(&self) -> impl StdFuture<Output = Result<LockGuard>> + use<> {
        let lock = self.clone();
        async move {
            let hold = lock.inner.new_hold();
            lock.inner.take(hold, get_running_loop).await?;
            let hold = Some(hold);
            Ok(LockGuard { lock, hold })
        }
    }

    /// Whether somebody holds it (`asyncio.Lock.locked`).
    pub fn locked(&self) -> bool {
        self.inner.hold.get().is_some()
    }

    /// Gives the lock back, whoever took it, and wakes the first waiter
    /// (`asyncio.Lock.release`). A guard that is still there then has nothing left to release.
    ///
    /// # Errors
    /// [`RuntimeError::NotLocked`] if nobody holds it.
    pub fn release(&self) -> Result<(), RuntimeError> {
        let hold = self.hold().ok_or(RuntimeError::NotLocked)?;
        self.give_back(hold);
        Ok(())
    }

    /// The number under which it is held.
    pub(super) fn hold(&self) -> Option<u64> {
        self.inner.hold.get()
    }

    /// Gives the lock back if it is held under this number.
    pub(super) fn give_back(&self, hold: u64) {
        if self.hold() == Some(hold) {
            self.inner.hold.set(None);
            self.inner.waiters.wake_head();
        }
    }

    /// Waits for the lock and takes it under a number that it had before.
    pub(super) async fn take_again(&self, hold: u64, event_loop: &LoopHandle) -> Result<()> {
        self.inner.take(hold, || Ok(event_loop.clone())).await
    }
}

impl Inner {
    fn new_hold(&self) -> u64 {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Waits for the lock, if need be, and takes it under this number.
    async fn take(&self, hold: u64, event_loop: impl FnOnce() -> Result<LoopHandle>) -> Result<()> {
        if self.hold.get().is_none() && !self.waiters.anybody() {
            self.hold.set(Some(hold));
            return Ok(());
        }
        let mut turn = Turn {
            lock: self,
            place: self.waiters.enter(&event_loop()?),
        };
        turn.place.woken().await?;
        self.hold.set(Some(hold));
        Ok(())
    }
}

/// A wait for the lock.
struct Turn<'a> {
    lock: &'a Inner,
    place: Place<'a>,
}

impl Drop for Turn<'_> {
    /// Whoever leaves while nobody holds the lock has not taken it: the next one is to have it.
    fn drop(&mut self) {
        self.place.leave();
        if self.lock.hold.get().is_none() {
            self.lock.waiters.wake_head();
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("locked", &self.locked())
            .field("waiters", &self.inner.waiters.len())
            .finish()
    }
}

/// A lock that is held; dropping it gives the lock back (the end of `async with lock:`).
///
/// It releases its own acquisition only. If the lock was [released](Lock::release) by hand, or a
/// [`Condition::wait`](crate::Condition::wait) that had given it back was dropped in the middle,
/// then dropping the guard does nothing, even where somebody else holds the lock by now.
#[must_use = "the lock is given back when this is dropped"]
pub struct LockGuard {
    lock: Lock,
    hold: Option<u64>,
}

impl LockGuard {
    /// Gives the lock back, as dropping does.
    pub fn release(self) {}

    /// Leaves the lock held, to be given back by [`Lock::release`]: `await lock.acquire()`
    /// outside of `async with`.
    pub fn forget(mut self) {
        self.hold = None;
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(hold) = self.hold {
            self.lock.give_back(hold);
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("lock", &self.lock).finish()
    }
}
