//! Helpers for tests of code that runs on miniloop.

use std::time::Duration;

use crate::clock::FakeClock;
use crate::errors::Result;
use crate::event_loop::EventLoop;

/// Moves a loop's clock on by `span`, from deadline to deadline: every timer that comes due runs
/// with its own deadline as the loop's time, also those that are scheduled on the way. What is
/// ready before and after runs as well, until nothing is. What never stops being ready (a task
/// that yields again and again) gets 1,000 ticks at each deadline, and does not move the time. A
/// timer that is due again at once, 1,000 times, ends the stepping: the time moves to the end.
///
/// `clock` is the clock of `event_loop`, made by [`FakeClock::new`].
///
/// # Errors
/// Those of [`EventLoop::run_once`].
///
/// ```
/// use miniloop::{EventLoop, FakeClock, testing};
/// use std::{cell::RefCell, rc::Rc, time::Duration};
///
/// let clock = FakeClock::new();
/// let event_loop = EventLoop::with_clock(clock.clone())?;
/// let times = Rc::new(RefCell::new(Vec::new()));
/// for seconds in [3, 1] {
///     let (handle, times) = (event_loop.handle(), times.clone());
///     event_loop.call_later(Duration::from_secs(seconds), move || {
///         times.borrow_mut().push(handle.time().as_secs());
///     });
/// }
/// testing::advance(&event_loop, &clock, Duration::from_secs(10))?;
/// assert_eq!(*times.borrow(), [1, 3]);
/// assert_eq!(event_loop.time().as_secs(), 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn advance(event_loop: &EventLoop, clock: &FakeClock, span: Duration) -> Result<()> {
    let end = clock.time().saturating_add(span);
    run_until_idle(event_loop)?;
    let mut rounds_at_this_time = 0;
    while let Some(deadline) = event_loop
        .core
        .next_deadline()
        .filter(|deadline| *deadline <= end)
    {
        rounds_at_this_time = if deadline > clock.time() {
            0
        } else {
            rounds_at_this_time + 1
        };
        if rounds_at_this_time > TICKS_AT_A_DEADLINE {
            break;
        }
        clock.advance(deadline.saturating_sub(clock.time()));
        run_until_idle(event_loop)?;
    }
    clock.advance(end.saturating_sub(clock.time()));
    run_until_idle(event_loop)
}

/// At one deadline no more ticks are done than these.
const TICKS_AT_A_DEADLINE: usize = 1000;

/// Ticks, none of which waits, until one leaves nothing ready.
fn run_until_idle(event_loop: &EventLoop) -> Result<()> {
    for _ in 0..TICKS_AT_A_DEADLINE {
        // Something is ready, so that the tick does not wait.
        event_loop.call_soon(|| ());
        event_loop.run_once()?;
        if event_loop.core.nothing_ready() {
            break;
        }
    }
    Ok(())
}
