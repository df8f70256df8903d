//! Receives inside of timeouts and scopes: those go the short way too, and are interrupted alone.

use std::future::Future;
use std::time::Duration;

use futures_util::future::join;
use miniloop::{CancelScope, EventLoop, FakeClock, TimeoutError, timeout};

use crate::common::{pair, send};
use crate::direct::poll_once;
use crate::support::{nothing_is_left, settle, tick};

/// Runs a coroutine on a loop of its own, whose clock jumps, and looks that nothing is left behind.
fn run<T: 'static>(coroutine: impl Future<Output = miniloop::Result<T>> + 'static) -> T {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let task = event_loop.create_task(coroutine);
    let result = event_loop.run_until_complete(task.take()).unwrap();
    nothing_is_left(&event_loop);
    result
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn one_that_a_timeout_has_interrupted_leaves_the_data_to_the_next() {
    run(async {
        let (left, right) = pair();
        let handle = miniloop::get_running_loop()?;
        for _ in 0..3 {
            let late = timeout(seconds(1)).run(handle.sock_recv(&left, 10)).await;
            assert!(late.unwrap_err().is::<TimeoutError>());
        }
        send(&right, b"x");
        assert_eq!(timeout(seconds(1)).run(handle.sock_recv(&left, 10)).await?, b"x");
        Ok(())
    });
}

#[test]
fn one_that_is_ready_when_its_scope_is_cancelled_receives_nothing() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let scope = CancelScope::new();
    let stop = scope.clone();
    let task = event_loop.create_task(async move {
        let interrupted = scope.run(handle.sock_recv(&source, 10)).await?;
        assert_eq!(interrupted, None);
        handle.sock_recv(&source, 10).await
    });
    tick(&event_loop);
    send(&right, b"x");
    // The source is seen to be ready, and the task is woken.
    tick(&event_loop);
    assert!(stop.cancel());
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    assert!(stop.cancelled_caught());
    nothing_is_left(&event_loop);
}

#[test]
fn two_in_scopes_of_one_task_are_interrupted_apart() {
    let (early, late) = run(async {
        let (left, right) = pair();
        let (other, other_end) = pair();
        let handle = miniloop::get_running_loop()?;
        handle.call_later(seconds(2), move || {
            send(&right, b"x");
            send(&other_end, b"y");
        });
        let one = timeout(seconds(1)).run_optional(handle.sock_recv(&left, 10));
        let two = timeout(seconds(3)).run_optional(handle.sock_recv(&other, 10));
        let (one, two) = join(one, two).await;
        assert_eq!(handle.sock_recv(&left, 10).await?, b"x");
        Ok((one?, two?))
    });
    assert_eq!(early, None);
    assert_eq!(late.unwrap(), b"y");
}

#[test]
fn one_begun_in_a_scope_goes_on_outside_of_it() {
    run(async {
        let (left, right) = pair();
        let handle = miniloop::get_running_loop()?;
        let mut receive = handle.sock_recv(&left, 10);
        let scope = CancelScope::new();
        let begun = scope.run(async {
            poll_once(&mut receive).await;
            Ok(())
        });
        assert_eq!(begun.await?, Some(()));
        assert!(!scope.cancel());
        handle.call_later(seconds(1), move || send(&right, b"x"));
        assert_eq!(receive.await?, b"x");
        Ok(())
    });
}

#[test]
fn one_begun_outside_of_a_scope_is_interrupted_with_it() {
    run(async {
        let (left, right) = pair();
        let handle = miniloop::get_running_loop()?;
        let mut receive = handle.sock_recv(&left, 10);
        poll_once(&mut receive).await;
        let late = timeout(seconds(1)).run_optional(&mut receive).await?;
        assert_eq!(late, None);
        send(&right, b"x");
        assert_eq!(handle.sock_recv(&left, 10).await?, b"x");
        Ok(())
    });
}

#[test]
fn one_in_a_timeout_is_interrupted_when_its_task_is_cancelled_and_that_is_no_timeout() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let (left, right) = pair();
    let (handle, source) = (event_loop.handle(), left.clone());
    let task = event_loop.create_task(async move {
        let interrupted = timeout(seconds(60)).run(handle.sock_recv(&source, 10)).await;
        assert!(interrupted.unwrap_err().is_cancelled());
        handle.sock_recv(&source, 10).await
    });
    settle(&event_loop);
    assert!(task.cancel());
    settle(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn in_nested_timeouts_the_outer_one_interrupts_it_too() {
    run(async {
        let (left, _right) = pair();
        let handle = miniloop::get_running_loop()?;
        let inner = timeout(seconds(2));
        let outcome = timeout(seconds(1))
            .run_optional(inner.run(handle.sock_recv(&left, 10)))
            .await?;
        assert_eq!(outcome, None);
        assert!(!inner.expired());
        Ok(())
    });
}
