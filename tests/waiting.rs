//! `gather`, `wait`, `as_completed`, `shield`: what they give, how they are cancelled and dropped,
//! how deep and how many; and faults.

#![allow(
    clippy::redundant_async_block,
    reason = "a coroutine that awaits one future is what is tested"
)]

mod common;
mod support;

#[path = "waiting/as_completed.rs"]
mod as_completed;
#[path = "waiting/cancelling.rs"]
mod cancelling;
#[path = "waiting/closing.rs"]
mod closing;
#[path = "waiting/depth.rs"]
mod depth;
#[path = "waiting/dropping.rs"]
mod dropping;
#[path = "waiting/gather.rs"]
mod gather;
#[path = "waiting/gather_faults.rs"]
mod gather_faults;
#[path = "waiting/shield.rs"]
mod shield;
#[path = "waiting/wait.rs"]
mod wait;

use std::time::Duration;

use miniloop::{CancelledError, Exception, Result};

use common::Boom;

/// Sleeps for this many seconds, as a coroutine.
async fn nap(seconds: u64) -> Result<()> {
    miniloop::sleep(Duration::from_secs(seconds)).await
}

/// Sleeps, and gives a value.
async fn value_after<T>(seconds: u64, value: T) -> Result<T> {
    nap(seconds).await?;
    Ok(value)
}

/// Sleeps, and fails.
async fn fail_after(seconds: u64, name: &'static str) -> Result<()> {
    nap(seconds).await?;
    Err(Boom(name).into())
}

/// The message of a cancellation; anything else fails the test.
#[track_caller]
fn message(exception: &Exception) -> Option<String> {
    let cancelled = exception.downcast_ref::<CancelledError>();
    cancelled.expect("a cancellation").message().map(str::to_owned)
}
