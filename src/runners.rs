//! `run`: one coroutine on a loop of its own (Python's `runners.py`).

use std::future::Future as StdFuture;

use crate::errors::Result;
use crate::event_loop::EventLoop;

/// Makes a loop, runs `main` on it, and cleans up (`asyncio.run`): tasks that are left over are
/// cancelled and awaited, then the loop is closed.
///
/// # Errors
/// What `main` raises, and what [`EventLoop::new`] and
/// [`run_until_complete`](EventLoop::run_until_complete) say.
///
/// ```
/// use miniloop::{run, sleep};
/// use std::time::Duration;
///
/// let greeting = run(async {
///     sleep(Duration::from_millis(1)).await?;
///     Ok("hello")
/// })?;
/// assert_eq!(greeting, "hello");
/// # Ok::<(), miniloop::Exception>(())
/// ```
pub fn run<T: 'static>(main: impl StdFuture<Output = Result<T>> + 'static) -> Result<T> {
    let event_loop = EventLoop::new()?;
    let outcome = event_loop.run_until_complete(main);
    let cleaned_up = cancel_what_is_left(&event_loop);
    event_loop.close()?;
    let value = outcome?;
    cleaned_up?;
    Ok(value)
}

fn cancel_what_is_left(event_loop: &EventLoop) -> Result<()> {
    if event_loop.core.unfinished_tasks() == 0 {
        return Ok(());
    }
    let mut left = event_loop.all_tasks();
    for task in &left {
        task.cancel();
    }
    // Those and no others, as in asyncio: what they start now is not waited for.
    event_loop.run_while(|| {
        left.retain(|task| !task.done());
        !left.is_empty()
    })
}
