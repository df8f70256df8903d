//! `Semaphore` and `BoundedSemaphore`: so many at a time.

use std::cell::Cell;
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use super::waiters::{Place, Waiters};
use crate::errors::{Result, ValueError};
use crate::loop_core::get_running_loop;

/// A number of permits, for which tasks wait in the order they asked (`asyncio.Semaphore`).
///
/// Clones are one semaphore. `async with semaphore:` is a guard in a block. A permit that is given
/// back goes to the first waiter at once, and nobody can take it past that waiter. No permit is
/// lost or doubled: a waiter that is cancelled or dropped after its permit came gives it to the
/// next. (asyncio does so for a cancellation; the permit of a coroutine that is closed there, or
/// of an `acquire` cancelled after it returned, is gone.)
///
/// It belongs to no loop, and can be used in several, one after the other.
///
/// ```
/// use miniloop::{EventLoop, Exception, FakeClock, Semaphore, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// let two_at_a_time = Semaphore::new(2);
/// let tasks: Vec<_> = (0..6)
///     .map(|_| {
///         let semaphore = two_at_a_time.clone();
///         event_loop.create_task(async move {
///             let _permit = semaphore.acquire().await?;
///             sleep(Duration::from_secs(10)).await
///         })
///     })
///     .collect();
/// for task in tasks {
///     event_loop.run_until_complete(task)?;
/// }
/// assert_eq!(event_loop.time(), Duration::from_secs(30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    inner: Rc<Inner>,
}

/// A [`Semaphore`] that never has more permits than it began with (`asyncio.BoundedSemaphore`).
/// (asyncio's can get one more, by a release between the waking of a waiter and its cancellation.)
///
/// ```
/// use miniloop::{BoundedSemaphore, ValueError};
///
/// let semaphore = BoundedSemaphore::new(1);
/// assert_eq!(semaphore.release(), Err(ValueError::ReleasedTooOften));
/// ```
#[derive(Clone)]
pub struct BoundedSemaphore {
    inner: Rc<Inner>,
}

struct Inner {
    /// The permits that nobody has. One for a waiter is counted off when it is woken.
    permits: Cell<usize>,
    bound: Option<usize>,
    waiters: Waiters,
}

impl Inner {
    fn new(permits: usize, bound: Option<usize>) -> Rc<Inner> {
        Rc::new(Inner {
            permits: Cell::new(permits),
            bound,
            waiters: Waiters::default(),
        })
    }

    fn locked(&self) -> bool {
        self.permits.get() == 0 || self.waiters.anybody()
    }

    async fn acquire(self: Rc<Inner>) -> Result<SemaphoreGuard> {
        if self.locked() {
            let mut turn = Turn {
                semaphore: &self,
                place: self.waiters.enter(&get_running_loop()?),
                taken: false,
            };
            turn.place.woken().await?;
            turn.taken = true;
        } else {
            self.permits.set(self.permits.get() - 1);
        }
        Ok(SemaphoreGuard { inner: Some(self) })
    }

    fn release(&self) -> Result<(), ValueError> {
        if self.bound.is_some_and(|bound| self.permits.get() >= bound) {
            return Err(ValueError::ReleasedTooOften);
        }
        self.add_permit();
        self.serve_next();
        Ok(())
    }

    /// Above the bound there is no permit: one that a cancelled waiter gives back may have been
    /// released in its place meanwhile.
    fn add_permit(&self) {
        let more = self.permits.get().saturating_add(1);
        self.permits.set(more.min(self.bound.unwrap_or(more)));
    }

    /// Gives a permit to the first waiter; false if there is no permit, or nobody.
    fn serve_next(&self) -> bool {
        let permits = self.permits.get();
        if permits == 0 {
            return false;
        }
        // Counted off before: a foreign waker that is woken may come back here.
        self.permits.set(permits - 1);
        let served = self.waiters.wake_next();
        if !served {
            self.permits.set(permits);
        }
        served
    }

    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("locked", &self.locked())
            .field("permits", &self.permits.get())
            .field("waiters", &self.waiters.len())
            .finish()
    }
}

/// A wait for a permit.
struct Turn<'a> {
    semaphore: &'a Inner,
    place: Place<'a>,
    /// The permit has come, and is used.
    taken: bool,
}

impl Drop for Turn<'_> {
    /// Gives back a permit that came in vain; and those who had to wait behind this one only for
    /// the order's sake are served.
    fn drop(&mut self) {
        if self.place.leave() && !self.taken {
            self.semaphore.add_permit();
        }
        while self.semaphore.serve_next() {}
    }
}

impl Semaphore {
    /// A semaphore with so many permits. With none, every acquisition waits for a release.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore {
            inner: Inner::new(permits, None),
        }
    }

    /// Waits for a permit and takes it (`asyncio.Semaphore.acquire`). Where one is free and nobody
    /// waits it is taken without yielding, and without a loop.
    ///
    /// # Errors
    /// [`CancelledError`](crate::CancelledError) if the wait is cancelled;
    /// [`RuntimeError::NoRunningLoop`](crate::RuntimeError::NoRunningLoop) if it has to wait where
    /// no loop is running.
    pub fn acquire(&self) -> impl StdFuture<Output = Result<SemaphoreGuard>> + use<> {
        self.inner.clone().acquire()
    }

    /// Whether an acquisition would have to wait: no permit is free, or somebody waits who was
    /// not cancelled (`asyncio.Semaphore.locked`).
    pub fn locked(&self) -> bool {
        self.inner.locked()
    }

    /// Adds a permit, and gives it to the first waiter (`asyncio.Semaphore.release`). It gives
    /// back one that was taken with [`SemaphoreGuard::forget`]; it may also be one more than there
    /// were.
    pub fn release(&self) {
        // There is no bound that could refuse it.
        let _ = self.inner.release();
    }
}

impl BoundedSemaphore {
    /// A semaphore with so many permits, and never more.
    pub fn new(permits: usize) -> BoundedSemaphore {
        BoundedSemaphore {
            inner: Inner::new(permits, Some(permits)),
        }
    }

    /// Waits for a permit and takes it: [`Semaphore::acquire`].
    ///
    /// # Errors
    /// As there.
    pub fn acquire(&self) -> impl StdFuture<Output = Result<SemaphoreGuard>> + use<> {
        self.inner.clone().acquire()
    }

    /// Whether an acquisition would have to wait: [`Semaphore::locked`].
    pub fn locked(&self) -> bool {
        self.inner.locked()
    }

    /// Gives back a permit that was taken with [`SemaphoreGuard::forget`]
    /// (`asyncio.BoundedSemaphore.release`).
    ///
    /// # Errors
    /// [`ValueError::ReleasedTooOften`] if all permits are there already.
    pub fn release(&self) -> Result<(), ValueError> {
        self.inner.release()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.debug("Semaphore", f)
    }
}

impl fmt::Debug for BoundedSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.debug("BoundedSemaphore", f)
    }
}

/// A permit of a [`Semaphore`] or [`BoundedSemaphore`]; dropping it gives it back (the end of
/// `async with semaphore:`).
///
/// Permits have no names: `release` by hand while the guard is there makes two of one, where a
/// bounded semaphore does not refuse the second.
#[must_use = "the permit is given back when this is dropped"]
pub struct SemaphoreGuard {
    inner: Option<Rc<Inner>>,
}

impl SemaphoreGuard {
    /// Gives the permit back, as dropping does.
    pub fn release(self) {}

    /// Keeps the permit taken, to be given back by the semaphore's `release`, or never:
    /// `await semaphore.acquire()` outside of `async with`.
    pub fn forget(mut self) {
        self.inner = None;
    }
}

impl Drop for SemaphoreGuard {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            // A bounded one may have got it back by hand.
            let _ = inner.release();
        }
    }
}

impl fmt::Debug for SemaphoreGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphoreGuard").finish_non_exhaustive()
    }
}
