//! Locks: taking turns, waiting for a word, meeting (Python's `locks.py`).
//!
//! They are built on [`Future`](crate::Future) alone. Everybody who has to wait stands in a queue
//! (`waiters.rs`) with a future of their own, and leaves it by one way out, the `Drop` of a guard,
//! whether the wait succeeded, was cancelled, or was dropped in the middle. [`Condition`] is built
//! on [`Lock`], [`Barrier`] on [`Condition`].

mod barrier;
mod condition;
mod event;
mod lock;
mod semaphore;
mod waiters;

pub use barrier::Barrier;
pub use condition::Condition;
pub use event::Event;
pub use lock::{Lock, LockGuard};
pub use semaphore::{BoundedSemaphore, Semaphore, SemaphoreGuard};
