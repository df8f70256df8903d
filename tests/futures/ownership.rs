//! Who keeps a pending operation alive, and what happens when nobody does.

use std::time::Duration;

use miniloop::{EventLoop, FakeClock};

use crate::common::{Trace, pair, send};
use crate::support::{Drops, nothing_is_left, settle, still_works, tick};

#[test]
fn a_future_dropped_with_its_done_callbacks_drops_them() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let future = event_loop.create_future::<u32>();
    future.add_done_callback(move |_| drop(captured));
    assert_eq!(drops.count(), 0);
    drop(future);
    assert_eq!(drops.count(), 1, "nobody can complete it any more");
}

#[test]
fn a_sleep_dropped_with_its_last_handle_cancels_its_timer() {
    let clock = FakeClock::auto();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let slept = event_loop.sleep(Duration::from_secs(60));
    let clone = slept.clone();
    drop(slept);
    drop(clone);
    // an auto clock would jump to the timer, were it still there
    nothing_is_left(&event_loop);
    assert_eq!(clock.time(), Duration::ZERO);
    still_works(&event_loop);
}

#[test]
fn a_sleep_with_a_done_callback_lives_on_without_a_handle() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let events = Trace::new();
    let mark = events.mark("slept");
    event_loop
        .sleep(Duration::from_secs(1))
        .add_done_callback(move |_| mark());
    tick(&event_loop);
    assert!(events.lines().is_empty());
    clock.advance(Duration::from_secs(1));
    settle(&event_loop);
    assert_eq!(events.lines(), ["slept"]);
}

#[test]
fn a_receive_dropped_with_its_last_handle_is_unregistered_and_takes_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    drop(received);
    nothing_is_left(&event_loop);
    send(&right, b"data");
    settle(&event_loop);
    let received = event_loop.run_until_complete(event_loop.sock_recv(&left, 10));
    assert_eq!(received.unwrap(), b"data");
    still_works(&event_loop);
}

#[test]
fn a_dropped_receive_lets_go_of_its_source() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    drop(received);
    assert!(
        left.into_inner().is_ok(),
        "a clone of the source is left somewhere"
    );
}

#[test]
fn a_receive_with_a_done_callback_lives_on_without_a_handle() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    let inner = events.clone();
    event_loop.sock_recv(&left, 10).add_done_callback(move |done| {
        let data = done.take_result().unwrap();
        inner.push(String::from_utf8(data).unwrap());
    });
    settle(&event_loop);
    assert!(events.lines().is_empty());
    send(&right, b"data");
    settle(&event_loop);
    assert_eq!(events.lines(), ["data"]);
    assert!(left.into_inner().is_ok());
}

#[test]
fn an_operation_whose_done_callback_was_removed_is_abandoned() {
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = pair();
    let drops = Drops::default();
    let captured = drops.counted();
    let received = event_loop.sock_recv(&left, 10);
    let key = received.add_done_callback(move |_| drop(captured));
    assert!(received.remove_done_callback(key));
    assert_eq!(drops.count(), 1);
    drop(received);
    nothing_is_left(&event_loop);
    assert!(left.into_inner().is_ok());
}

#[test]
fn a_dropped_send_gives_up_its_data() {
    /// Data whose drop is counted.
    struct Data(Vec<u8>, #[allow(dead_code)] crate::support::Counted);
    impl AsRef<[u8]> for Data {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let event_loop = EventLoop::new().unwrap();
    let (left, _right) = crate::common::pair_small();
    let drops = Drops::default();
    let data = Data(vec![0; 10_000_000], drops.counted());
    let sent = event_loop.sock_sendall(&left, data);
    settle(&event_loop);
    assert!(!sent.done());
    assert_eq!(drops.count(), 0);
    drop(sent);
    assert_eq!(drops.count(), 1);
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_task_goes_on_though_its_handle_was_dropped() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let future = event_loop.create_future();
    let (awaited, inner) = (future.clone(), events.clone());
    drop(event_loop.create_task(async move {
        let value: u32 = awaited.await?;
        inner.push(value.to_string());
        Ok(())
    }));
    tick(&event_loop);
    future.set_result(5).unwrap();
    settle(&event_loop);
    assert_eq!(events.lines(), ["5"]);
}

#[test]
fn a_finished_task_drops_its_coroutine_though_handles_are_kept() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        miniloop::sleep(Duration::ZERO).await?;
        drop(captured);
        Ok(1)
    });
    let captured = drops.counted();
    let cancelled = event_loop.create_task(async move {
        let _captured = captured;
        Ok(1)
    });
    cancelled.cancel();
    settle(&event_loop);
    assert_eq!(drops.count(), 2);
    assert_eq!(task.result().unwrap(), 1);
    assert!(cancelled.cancelled());
}

#[test]
fn a_pending_operation_whose_callback_holds_it_ends_with_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let slept = event_loop.sleep(Duration::from_secs(3600));
    let kept = (slept.clone(), event_loop.handle(), drops.counted());
    slept.add_done_callback(move |_| drop(kept));
    drop(slept);
    tick(&event_loop);
    assert_eq!(drops.count(), 0, "the callback waits");
    drop(event_loop);
    assert_eq!(
        drops.count(),
        1,
        "the cycle of future, callback and loop is broken"
    );
}

#[test]
fn a_pending_operation_kept_by_its_user_is_harmless_when_the_loop_is_gone() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let slept = event_loop.sleep(Duration::ZERO);
    tick(&event_loop);
    let pending = event_loop.sleep(Duration::from_secs(3600));
    drop(event_loop);
    send(&right, b"x");
    assert!(received.result().is_err());
    assert!(received.set_result(Vec::new()).is_err());
    assert!(pending.result().is_err());
    slept.result().unwrap();
    pending.cancel();
    received.add_done_callback(|_| {});
    drop(received);
    assert!(left.into_inner().is_ok(), "its source is free again");
}
