//! `Condition`: waiting, with a lock given back meanwhile, to be notified.

use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use super::lock::{Lock, LockGuard};
use super::waiters::{Place, Waiters};
use crate::errors::{Result, RuntimeError};
use crate::loop_core::get_running_loop;

/// A condition variable (`asyncio.Condition`): a task that holds the lock waits, without the lock,
/// to be notified by another one that holds it, and goes on when it has the lock again.
///
/// Clones are one condition. Several conditions can share a lock: [`with_lock`](Self::with_lock).
///
/// A notification is neither lost nor doubled. A waiter that is cancelled or dropped after it was
/// notified passes the notification on to the next; one that was not notified wakes nobody.
/// (asyncio's notifies one more waiter there, without need.)
///
/// ```
/// use miniloop::{Condition, Exception, create_task, sleep};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// # miniloop::run(async {
/// let (changed, stock) = (Condition::new(), Rc::new(Cell::new(0)));
/// let (condition, shelf) = (changed.clone(), stock.clone());
/// let buyer = create_task(async move {
///     let _held = condition.acquire().await?;
///     condition.wait_for(|| shelf.get() >= 2).await?;
///     shelf.set(shelf.get() - 2);
///     Ok::<(), Exception>(())
/// });
/// sleep(Duration::ZERO).await?;
/// {
///     let _held = changed.acquire().await?;
///     stock.set(3);
///     changed.notify(1)?;
/// }
/// buyer.await?;
/// assert_eq!(stock.get(), 1);
/// # Ok::<(), Exception>(()) })?;
/// # Ok::<(), Exception>(())
/// ```
#[derive(Clone, Default)]
pub struct Condition {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    lock: Lock,
    waiters: Waiters,
}

impl Condition {
    /// A condition with a lock of its own.
    pub fn new() -> Condition {
        Condition::default()
    }

    /// A condition that uses this lock (`asyncio.Condition(lock)`).
    pub fn with_lock(lock: Lock) -> Condition {
        let waiters = Waiters::default();
        Condition {
            inner: Rc::new(Inner { lock, waiters }),
        }
    }

    /// The lock.
    pub fn lock(&self) -> &Lock {
        &self.inner.lock
    }

    /// Takes the lock: [`Lock::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(&self) -> impl StdFuture<Output = Result<LockGuard>> + use<> {
        self.inner.lock.acquire()
    }

    /// Gives the lock back: [`Lock::release`].
    ///
    /// # Errors
    /// [`RuntimeError::NotLocked`] if nobody holds it.
    pub fn release(&self) -> Result<(), RuntimeError> {
        self.inner.lock.release()
    }

    /// Whether somebody holds the lock.
    pub fn locked(&self) -> bool {
        self.inner.lock.locked()
    }

    /// Gives the lock back, waits to be notified, and takes the lock again
    /// (`asyncio.Condition.wait`). A guard that the caller has for the lock is good for it before
    /// and after.
    ///
    /// A cancelled wait takes the lock again, too, before it yields the error, however often it is
    /// cancelled meanwhile. A wait that is dropped in the middle (in the branch of a `select!` that
    /// lost) can not do that: then the lock stays with those who have it, the guard has nothing
    /// left to release, and the caller is to take the lock anew before it waits or notifies again;
    /// for like asyncio's it only looks whether *somebody* holds the lock. A guard that is dropped
    /// during the wait releases nothing either: keep it until the wait is over.
    ///
    /// # Errors
    /// [`RuntimeError::NotLocked`] if nobody holds the lock;
    /// [`CancelledError`](crate::CancelledError) if the wait is cancelled, the last one if it was
    /// several times; [`RuntimeError::NoRunningLoop`] where no loop is running.
    pub fn wait(&self) -> impl StdFuture<Output = Result<()>> + use<> {
        let inner = self.inner.clone();
        async move { inner.wait().await }
    }

    /// [Waits](Self::wait) until the predicate holds; it is asked first, and again after each
    /// notification, always with the lock held (`asyncio.Condition.wait_for`).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait), if the predicate does not hold at once.
    pub fn wait_for<P: FnMut() -> bool>(&self, predicate: P) -> impl StdFuture<Output = Result<()>> + use<P> {
        let inner = self.inner.clone();
        let mut predicate = predicate;
        async move {
            while !predicate() {
                inner.wait().await?;
            }
            Ok(())
        }
    }

    /// Wakes the `n` longest waiting, or as many as there are (`asyncio.Condition.notify`). They
    /// go on one after the other, when the caller has given the lock back.
    ///
    /// # Errors
    /// [`RuntimeError::NotLocked`] if nobody holds the lock.
    pub fn notify(&self, n: usize) -> Result<(), RuntimeError> {
        if !self.locked() {
            return Err(RuntimeError::NotLocked);
        }
        self.inner.waiters.wake_many(n);
        Ok(())
    }

    /// Wakes all who wait (`asyncio.Condition.notify_all`).
    ///
    /// # Errors
    /// As for [`notify`](Self::notify).
    pub fn notify_all(&self) -> Result<(), RuntimeError> {
        self.notify(usize::MAX)
    }

    /// Wakes all who wait, whoever holds the lock.
    pub(super) fn wake_all(&self) {
        self.inner.waiters.wake_many(usize::MAX);
    }
}

impl Inner {
    async fn wait(&self) -> Result<()> {
        let hold = self.lock.hold().ok_or(RuntimeError::NotLocked)?;
        let event_loop = get_running_loop()?;
        let mut wait = Wait {
            waiters: &self.waiters,
            place: self.waiters.enter(&event_loop),
            notified: false,
        };
        self.lock.give_back(hold);
        let mut outcome = wait.place.woken().await;
        wait.leave();
        while let Err(error) = self.lock.take_again(hold, &event_loop).await {
            let again = error.is_cancelled();
            outcome = Err(error);
            if !again {
                break;
            }
        }
        if outcome.is_ok() {
            wait.notified = false;
        }
        outcome
    }
}

/// A wait for a notification.
struct Wait<'a> {
    waiters: &'a Waiters,
    place: Place<'a>,
    /// It has got one, and has not returned with it.
    notified: bool,
}

impl Wait<'_> {
    fn leave(&mut self) {
        self.notified |= self.place.leave();
    }
}

impl Drop for Wait<'_> {
    /// A notification that is of no use here is the next one's.
    fn drop(&mut self) {
        self.leave();
        if self.notified {
            self.waiters.wake_next();
        }
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition")
            .field("locked", &self.locked())
            .field("waiters", &self.inner.waiters.len())
            .finish()
    }
}
