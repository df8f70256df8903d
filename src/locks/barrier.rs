//! `Barrier`: waiting for each other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use super::condition::Condition;
use crate::errors::{BrokenBarrierError, Result, ValueError};

/// A place where so many tasks wait for each other (`asyncio.Barrier`), any number of times.
///
/// It is *filling* until all parties are there. Then it is *draining*: they go on, and who comes
/// meanwhile waits until the last of them has left. A [`reset`](Self::reset) sends those away who
/// wait, with [`BrokenBarrierError`], and until they have left who comes waits, too. An
/// [`abort`](Self::abort) leaves it *broken*: that error is for all who wait and all who come,
/// until a reset.
///
/// A waiter that is cancelled or dropped while the barrier fills has not arrived, and its number
/// is free for the next. (asyncio gives one number twice then.) One that is cancelled or dropped
/// while it drains has left; it never keeps the barrier from filling again.
///
/// ```
/// use miniloop::{Barrier, Exception, create_task};
///
/// # miniloop::run(async {
/// let barrier = Barrier::new(2)?;
/// let other = create_task(barrier.wait());
/// assert_eq!(barrier.wait().await? + other.await?, 0 + 1);
/// # Ok::<(), Exception>(()) })?;
/// # Ok::<(), Exception>(())
/// ```
#[derive(Clone)]
pub struct Barrier {
    inner: Rc<Inner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Filling,
    Draining,
    Resetting,
    Broken,
}

struct Inner {
    /// Those in the barrier wait on it for the phase to change; so do those before the door.
    changed: Condition,
    parties: usize,
    phase: Cell<Phase>,
    /// How many are in the barrier.
    inside: Cell<usize>,
    /// Numbers that were given out and given up again while the barrier fills.
    free_numbers: RefCell<BTreeSet<usize>>,
}

impl Barrier {
    /// A barrier for so many parties.
    ///
    /// # Errors
    /// [`ValueError::NoParties`] for none.
    pub fn new(parties: usize) -> Result<Barrier, ValueError> {
        if parties == 0 {
            return Err(ValueError::NoParties);
        }
        Ok(Barrier {
            inner: Rc::new(Inner {
                changed: Condition::new(),
                parties,
                phase: Cell::new(Phase::Filling),
                inside: Cell::new(0),
                free_numbers: RefCell::default(),
            }),
        })
    }

    /// Waits until all parties do, and gives each a number of its own, from 0 on in the order they
    /// came (`asyncio.Barrier.wait`). The last one to come does not wait.
    ///
    /// # Errors
    /// [`BrokenBarrierError`] if the barrier is broken, or is aborted or reset before the task has
    /// gone on; [`CancelledError`](crate::CancelledError) if the wait is cancelled;
    /// [`RuntimeError::NoRunningLoop`](crate::RuntimeError::NoRunningLoop) if it has to wait where
    /// no loop is running.
    pub fn wait(&self) -> impl StdFuture<Output = Result<usize>> + use<> {
        let inner = self.inner.clone();
        async move { inner.wait().await }
    }

    /// Empties the barrier and has it fill anew (`asyncio.Barrier.reset`): those who wait get
    /// [`BrokenBarrierError`]. So do those whom the open barrier has not let go on yet.
    ///
    /// # Errors
    /// Where it has to wait for the barrier's lock, as for [`Lock::acquire`](crate::Lock::acquire).
    pub fn reset(&self) -> impl StdFuture<Output = Result<()>> + use<> {
        let inner = self.inner.clone();
        async move {
            let _held = inner.changed.acquire().await?;
            let nobody = inner.inside.get() == 0;
            inner.enter_phase(if nobody { Phase::Filling } else { Phase::Resetting });
            Ok(())
        }
    }

    /// Breaks the barrier (`asyncio.Barrier.abort`): those who wait, and who come before the next
    /// [`reset`](Self::reset), get [`BrokenBarrierError`].
    ///
    /// # Errors
    /// As for [`reset`](Self::reset).
    pub fn abort(&self) -> impl StdFuture<Output = Result<()>> + use<> {
        let inner = self.inner.clone();
        async move {
            let _held = inner.changed.acquire().await?;
            inner.enter_phase(Phase::Broken);
            Ok(())
        }
    }

    /// How many it takes to open the barrier (`asyncio.Barrier.parties`).
    pub fn parties(&self) -> usize {
        self.inner.parties
    }

    /// How many wait for the others to come (`asyncio.Barrier.n_waiting`).
    pub fn n_waiting(&self) -> usize {
        match self.inner.phase.get() {
            Phase::Filling => self.inner.inside.get(),
            _ => 0,
        }
    }

    /// Whether it was aborted (`asyncio.Barrier.broken`).
    pub fn broken(&self) -> bool {
        self.inner.phase.get() == Phase::Broken
    }
}

impl Inner {
    async fn wait(&self) -> Result<usize> {
        let _held = self.changed.acquire().await?;
        let is_open = || !matches!(self.phase.get(), Phase::Draining | Phase::Resetting);
        self.changed.wait_for(is_open).await?;
        if self.phase.get() == Phase::Broken {
            return Err(BrokenBarrierError::default().into());
        }
        let visit = self.arrive();
        if self.inside.get() == self.parties {
            self.enter_phase(Phase::Draining);
            return Ok(visit.number);
        }
        let is_over = || self.phase.get() != Phase::Filling;
        self.changed.wait_for(is_over).await?;
        match self.phase.get() {
            Phase::Broken | Phase::Resetting => Err(BrokenBarrierError::default().into()),
            Phase::Filling | Phase::Draining => Ok(visit.number),
        }
    }

    fn enter_phase(&self, phase: Phase) {
        self.phase.set(phase);
        self.changed.wake_all();
    }

    fn arrive(&self) -> Visit<'_> {
        let inside = self.inside.get();
        self.inside.set(inside + 1);
        let given_up = self.free_numbers.borrow_mut().pop_first();
        Visit {
            barrier: self,
            number: given_up.unwrap_or(inside),
        }
    }

    fn leave(&self, number: usize) {
        let inside = self.inside.get() - 1;
        self.inside.set(inside);
        if inside > 0 {
            if self.phase.get() == Phase::Filling {
                self.free_numbers.borrow_mut().insert(number);
            }
            return;
        }
        self.free_numbers.borrow_mut().clear();
        self.enter_phase(match self.phase.get() {
            Phase::Broken => Phase::Broken,
            Phase::Filling | Phase::Draining | Phase::Resetting => Phase::Filling,
        });
    }
}

/// One who is in the barrier, until it leaves in whatever way.
struct Visit<'a> {
    barrier: &'a Inner,
    number: usize,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.barrier.leave(self.number);
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("phase", &self.inner.phase.get())
            .field("waiting", &self.n_waiting())
            .field("parties", &self.parties())
            .finish()
    }
}
