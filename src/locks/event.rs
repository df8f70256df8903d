//! `Event`: a flag that can be waited for.

use std::cell::Cell;
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use super::waiters::Waiters;
use crate::errors::Result;
use crate::loop_core::get_running_loop;

/// A flag that tasks wait for (`asyncio.Event`). Clones are one flag; it starts unset.
///
/// It belongs to no loop, and can be used in several, one after the other.
///
/// ```
/// use miniloop::{Event, Exception, create_task};
///
/// # miniloop::run(async {
/// let ready = Event::new();
/// let waiter = create_task(ready.wait());
/// ready.set();
/// waiter.await?;
/// ready.wait().await?; // it is set: this does not wait
/// # Ok::<(), Exception>(()) })?;
/// # Ok::<(), Exception>(())
/// ```
#[derive(Clone, Default)]
pub struct Event {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    set: Cell<bool>,
    waiters: Waiters,
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Event {
        Event::default()
    }

    /// Whether it is set (`asyncio.Event.is_set`).
    pub fn is_set(&self) -> bool {
        self.inner.set.get()
    }

    /// Sets it and wakes all who wait, in the order they began to (`asyncio.Event.set`). They
    /// are woken even if it is [cleared](Self::clear) at once.
    pub fn set(&self) {
        if !self.inner.set.replace(true) {
            self.inner.waiters.wake_many(usize::MAX);
        }
    }

    /// Unsets it: who comes now waits for the next [`set`](Self::set) (`asyncio.Event.clear`).
    pub fn clear(&self) {
        self.inner.set.set(false);
    }

    /// Waits until it is set (`asyncio.Event.wait`); one that is set is not waited for, and needs
    /// no loop.
    ///
    /// # Errors
    /// [`CancelledError`](crate::CancelledError) if the wait is cancelled;
    /// [`RuntimeError::NoRunningLoop`](crate::RuntimeError::NoRunningLoop) if it has to wait where
    /// no loop is running.
    pub fn wait(&self) -> impl StdFuture<Output = Result<()>> + use<> {
        let inner = self.inner.clone();
        async move {
            if inner.set.get() {
                return Ok(());
            }
            let mut place = inner.waiters.enter(&get_running_loop()?);
            place.woken().await
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .field("waiters", &self.inner.waiters.len())
            .finish()
    }
}
