//! Blocks that panic and are kept, and clocks that come back to the timeout that asks them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use miniloop::{CancelScope, Clock, EventLoop, Idle, Result, RuntimeError, TaskGroup, sleep, timeout};

use crate::play::{nap, play, secs, this_loop};
use crate::support::{Drops, nothing_is_left};

/// Polls a future once, from the task that awaits this; `None` if it panics.
async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Option<Poll<F::Output>> {
    poll_fn(|cx| Poll::Ready(catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))).ok())).await
}

/// A block that panics each time it is polled; its end is counted.
fn panicking(drops: &Drops) -> impl Future<Output = Result<()>> + use<> {
    let held = drops.counted();
    poll_fn(move |_| {
        let _held = &held;
        panic!("in the block")
    })
}

#[test]
fn a_block_that_has_panicked_is_over_though_its_future_is_kept() {
    play(|_| async {
        let drops = Drops::default();
        let limit = timeout(secs(1));
        let mut running = Box::pin(limit.run(panicking(&drops)));
        assert!(poll_once(&mut running).await.is_none());
        assert_eq!(drops.count(), 1);
        assert_eq!(limit.reschedule(secs(9)), Err(RuntimeError::Over));
        nap(5).await?;
        assert!(!limit.expired());
        // As a coroutine's: it is not begun anew.
        assert!(poll_once(&mut running).await.is_none());
        Ok(())
    });
}

#[test]
fn so_it_is_in_a_scope_and_in_a_group() {
    play(|_| async {
        let drops = Drops::default();
        let (scope, group) = (CancelScope::new(), TaskGroup::new());
        let mut in_scope = Box::pin(scope.run(panicking(&drops)));
        let mut in_group = Box::pin(group.run(panicking(&drops)));
        assert!(poll_once(&mut in_scope).await.is_none());
        assert!(poll_once(&mut in_group).await.is_none());
        assert_eq!(drops.count(), 2);
        assert!(!scope.cancel());
        assert!(group.create_task(async { Ok(()) }).is_err());
        nap(1).await
    });
}

#[test]
fn polled_once_more_after_its_end_a_timeout_panics_as_a_coroutine_does() {
    play(|_| async {
        let limit = timeout(secs(1));
        let mut running = Box::pin(limit.run(async { Ok(1) }));
        assert_eq!((&mut running).await?, 1);
        assert!(poll_once(&mut running).await.is_none());
        Ok(())
    });
}

type Hook = Rc<RefCell<Option<Box<dyn FnOnce()>>>>;

/// Does something once before it is read.
struct Hooked {
    now: Cell<Duration>,
    hook: Hook,
}

impl Clock for Hooked {
    fn now(&self) -> Duration {
        let hook = self.hook.take();
        hook.into_iter().for_each(|hook| hook());
        self.now.get()
    }

    fn idle(&self, deadline: Option<Duration>) -> Idle {
        deadline.map_or(Idle::Wait(None), |_| Idle::Jump)
    }

    fn jump(&self, deadline: Duration) {
        self.now.set(self.now.get().max(deadline));
    }
}

fn hooked_loop() -> (EventLoop, Hook) {
    let hook = Hook::default();
    let clock = Hooked {
        now: Cell::default(),
        hook: hook.clone(),
    };
    (EventLoop::with_clock(clock).unwrap(), hook)
}

#[test]
fn of_two_reschedules_one_inside_the_other_the_outer_one_counts() {
    let (event_loop, hook) = hooked_loop();
    let main = event_loop.create_task(async move {
        let limit = timeout(secs(100));
        let inner = limit.clone();
        let slept = limit.run(async {
            hook.replace(Some(Box::new(move || inner.reschedule(secs(1)).unwrap())));
            limit.reschedule(secs(20))?;
            assert_eq!(limit.when(), Some(secs(20)));
            sleep(secs(10)).await
        });
        slept.await?;
        assert!(!limit.expired());
        assert_eq!(this_loop().time(), secs(10));
        Ok(())
    });
    event_loop.run_until_complete(main).unwrap();
    nothing_is_left(&event_loop);
}

#[test]
fn a_clock_that_panics_when_the_block_begins_leaves_no_timer() {
    let (event_loop, hook) = hooked_loop();
    let main = event_loop.create_task(async move {
        let drops = Drops::default();
        let limit = timeout(secs(1));
        hook.replace(Some(Box::new(|| panic!("in the clock"))));
        let mut running = Box::pin(limit.run(panicking(&drops)));
        assert!(poll_once(&mut running).await.is_none());
        assert_eq!(drops.count(), 1);
        assert_eq!(limit.reschedule(secs(5)), Err(RuntimeError::Over));
        assert_eq!(this_loop().timer_count(), 0);
        Ok(())
    });
    event_loop.run_until_complete(main).unwrap();
    nothing_is_left(&event_loop);
}
