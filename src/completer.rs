//! A future that another thread completes.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use slotmap::Key;

use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Owned, OwnedKey};
use crate::loop_core::LoopHandle;
use crate::threadsafe::RemoteWaker;

/// What the two sides share: the outcome on its way.
type Parcel<T> = Arc<Mutex<Option<Result<T>>>>;

struct ThreadsafeCell<T> {
    state: State<T>,
    parcel: Parcel<T>,
    key: Cell<OwnedKey>,
}

impl<T: 'static> FutureCell<T> for ThreadsafeCell<T> {
    fn state(&self) -> &State<T> {
        &self.state
    }

    fn release(&self) {
        // The loop keeps it for as long as the completer may come.
        if self.state.done() {
            self.state
                .event_loop
                .core
                .disown(self.key.replace(OwnedKey::null()));
        }
    }
}

impl<T: 'static> Cancel for ThreadsafeCell<T> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let pending = finish(self.clone(), Outcome::cancelled(error)).is_ok();
        self.state.set_seen();
        pending
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl<T: 'static> Owned for ThreadsafeCell<T> {
    fn wake(self: Rc<Self>) {
        // In its turn, as `call_soon_threadsafe(future.set_result)` has it.
        let event_loop = self.state.event_loop.clone();
        event_loop.schedule(Box::new(move || {
            let arrived = self.parcel.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(result) = arrived {
                // Cancelled meanwhile: what comes too late is dropped.
                let _ = finish(self, result.into());
            }
        }));
    }

    fn abandon(self: Rc<Self>) {
        self.state.set_seen();
        let _ = finish(self, Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
}

/// Completes a future from any thread, once: see
/// [`create_threadsafe_future`](LoopHandle::create_threadsafe_future).
///
/// If it is dropped without having done so, the future fails with [`RuntimeError::Abandoned`]:
/// nobody waits for ever for a thread that has gone.
pub struct Completer<T> {
    parcel: Parcel<T>,
    waker: Arc<RemoteWaker>,
}

impl<T: Send> Completer<T> {
    /// Has the future finish with a result; the loop is woken if it sleeps.
    ///
    /// # Errors
    /// [`RuntimeError::LoopClosed`]; the value is dropped, on this thread.
    pub fn set_result(self, result: T) -> Result<(), RuntimeError> {
        self.send(Ok(result))
    }

    /// Has the future fail with an exception.
    ///
    /// # Errors
    /// As for [`set_result`](Self::set_result).
    pub fn set_exception(self, exception: impl Into<Exception>) -> Result<(), RuntimeError> {
        self.send(Err(exception.into()))
    }

    fn send(self, result: Result<T>) -> Result<(), RuntimeError> {
        if self.waker.is_closed() {
            return Err(RuntimeError::LoopClosed);
        }
        *self.parcel.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        // The drop of `self` sends it off.
        Ok(())
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.parcel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| Err(RuntimeError::Abandoned.into()));
        self.waker.wake();
    }
}

impl<T> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").finish_non_exhaustive()
    }
}

impl LoopHandle {
    /// A future, and the one thing that completes it, which may go to another thread.
    ///
    /// ```
    /// use miniloop::EventLoop;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let (future, completer) = event_loop.create_threadsafe_future();
    /// let thread = std::thread::spawn(move || completer.set_result(6 * 7));
    /// assert_eq!(event_loop.run_until_complete(future)?, 42);
    /// thread.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_threadsafe_future<T: Send + 'static>(&self) -> (Future<T>, Completer<T>) {
        let parcel = Parcel::<T>::default();
        let cell = Rc::new(ThreadsafeCell {
            state: State::pending(self.clone(), Kind::Operation),
            parcel: parcel.clone(),
            key: Cell::new(OwnedKey::null()),
        });
        let waker = self.core.new_remote_waker();
        let key = self.core.own(cell.clone());
        if key.is_null() {
            cell.clone().abandon();
        }
        cell.key.set(key);
        waker.set_key(key);
        (Future::of(cell), Completer { parcel, waker })
    }
}
