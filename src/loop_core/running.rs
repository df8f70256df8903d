//! Which loop runs on this thread.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use super::LoopHandle;
use crate::contexts::{self, Context};
use crate::errors::{Result, RuntimeError};
use crate::threadsafe::set_home;

thread_local! {
    /// (Nothing is left in it to be dropped when the thread ends: see `Running`.)
    static RUNNING: ManuallyDrop<RefCell<Option<LoopHandle>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// The loop that is running on this thread (`asyncio.get_running_loop`).
///
/// # Errors
/// [`RuntimeError::NoRunningLoop`] outside of callbacks and coroutines.
///
/// ```
/// use miniloop::{EventLoop, get_running_loop};
///
/// assert!(get_running_loop().is_err());
/// let event_loop = EventLoop::new()?;
/// let time = event_loop.run_until_complete(async { Ok(get_running_loop()?.time()) })?;
/// assert!(time <= event_loop.time());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn get_running_loop() -> Result<LoopHandle> {
    with_running_loop(LoopHandle::clone).ok_or_else(|| RuntimeError::NoRunningLoop.into())
}

/// The same without a handle of its own, if there is one. No user's code may run in `look`.
#[inline]
pub(crate) fn with_running_loop<R>(look: impl FnOnce(&LoopHandle) -> R) -> Option<R> {
    RUNNING.with(|running| running.borrow().as_ref().map(look))
}

fn set_running(event_loop: Option<LoopHandle>) {
    let before = RUNNING.with(|running| running.replace(event_loop));
    drop(before);
}

pub(super) fn a_loop_is_running() -> bool {
    with_running_loop(|_| ()).is_some()
}

/// The loop is running for as long as this lives.
pub(super) struct Running {
    event_loop: LoopHandle,
    /// That of whoever runs it.
    context: Option<Context>,
}

impl Drop for Running {
    fn drop(&mut self) {
        set_home(None);
        set_running(None);
        drop(contexts::exchange(self.context.take()));
        let core = &self.event_loop.core;
        core.stepping.take();
        core.exchange_scope(None);
        core.running.set(false);
        core.stopping.set(false);
    }
}

impl LoopHandle {
    pub(super) fn enter(&self) -> Result<Running> {
        self.check_runnable()?;
        self.core.running.set(true);
        set_running(Some(self.clone()));
        set_home(Some((self.core.id, self.core.clone())));
        Ok(Running {
            event_loop: self.clone(),
            context: contexts::exchange(None),
        })
    }
}
