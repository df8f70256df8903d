//! A run that nothing can ever end is refused; one that a thread may still end is not.

use std::future::poll_fn;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use miniloop::{EventLoop, FakeClock, RuntimeError, Source};

use crate::common::{Trace, stream_pair};
use crate::support::{Watchdog, misuse, still_works, tick};

/// Tells a thread, from inside a tick of the loop, that the loop runs.
fn signal_when_running(event_loop: &EventLoop) -> Receiver<()> {
    let (sender, receiver) = channel();
    event_loop.call_soon(move || sender.send(()).unwrap());
    receiver
}

fn never(event_loop: &EventLoop) -> miniloop::Result<()> {
    let future = event_loop.create_future::<()>();
    let outcome = event_loop.run_until_complete(future.clone());
    assert!(!future.done());
    outcome
}

#[test]
fn a_future_nobody_completes_is_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn a_task_that_waits_for_nothing_is_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<u32>();
    let outcome = event_loop.run_until_complete(async move { future.await });
    assert_eq!(misuse(outcome), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn two_tasks_that_wait_for_each_other_are_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let (one, two) = (
        event_loop.create_future::<u32>(),
        event_loop.create_future::<u32>(),
    );
    let (first, second) = (one.clone(), two.clone());
    event_loop.create_task(async move {
        let value = first.await?;
        two.set_result(value)?;
        Ok(())
    });
    let outcome = event_loop.run_until_complete(async move {
        let value = second.await?;
        one.set_result(value)?;
        Ok(())
    });
    assert_eq!(misuse(outcome), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn a_threadsafe_handle_that_is_gone_already_prevents_nothing() {
    let event_loop = EventLoop::new().unwrap();
    let threadsafe = event_loop.threadsafe_handle();
    drop(threadsafe);
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn a_timer_that_is_left_is_waited_for_before_the_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_later(Duration::from_millis(2), events.mark("timer"));
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    assert_eq!(events.lines(), ["timer"]);
    still_works(&event_loop);
}

#[test]
fn a_watched_source_is_waited_for() {
    let event_loop = EventLoop::new().unwrap();
    let (left, mut right) = stream_pair();
    let left = Source::new(left).unwrap();
    let future = event_loop.create_future();
    let completed = future.clone();
    event_loop
        .add_reader(&left, move || {
            let _ = completed.set_result("read");
        })
        .unwrap();
    let running = signal_when_running(&event_loop);
    let sender = thread::spawn(move || {
        running.recv().unwrap();
        right.write_all(b"x").unwrap();
        right
    });
    assert_eq!(event_loop.run_until_complete(future).unwrap(), "read");
    let _right = sender.join().unwrap();
    event_loop.remove_reader(&left);
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn a_threadsafe_handle_in_a_thread_is_waited_for() {
    let event_loop = EventLoop::new().unwrap();
    let threadsafe = event_loop.threadsafe_handle();
    let (future, completer) = event_loop.create_threadsafe_future();
    let running = signal_when_running(&event_loop);
    let caller = thread::spawn(move || {
        running.recv().unwrap();
        // the call comes from a loop that is idle by now, or will be at once
        threadsafe
            .call_soon_threadsafe(move || completer.set_result("called").unwrap())
            .unwrap();
    });
    assert_eq!(event_loop.run_until_complete(future).unwrap(), "called");
    caller.join().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_threadsafe_handle_that_is_dropped_unused_leaves_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let (first, last) = (event_loop.threadsafe_handle(), event_loop.threadsafe_handle());
    let events = Trace::new();
    let mark = events.mark("the loop was still running");
    let running = signal_when_running(&event_loop);
    let holder = thread::spawn(move || {
        running.recv().unwrap();
        first.call_soon_threadsafe(mark).unwrap();
        drop(first);
        drop(last);
    });
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    holder.join().unwrap();
    assert_eq!(events.lines(), ["the loop was still running"]);
    still_works(&event_loop);
}

#[test]
fn a_completer_in_a_thread_is_waited_for() {
    let event_loop = EventLoop::new().unwrap();
    let (future, completer) = event_loop.create_threadsafe_future();
    let running = signal_when_running(&event_loop);
    let completing = thread::spawn(move || {
        running.recv().unwrap();
        completer.set_result(5)
    });
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 5);
    completing.join().unwrap().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_completer_that_fails_its_future_raises_there() {
    let event_loop = EventLoop::new().unwrap();
    let (future, completer) = event_loop.create_threadsafe_future::<u32>();
    let completing = thread::spawn(move || completer.set_exception(RuntimeError::OtherLoop));
    assert_eq!(
        misuse(event_loop.run_until_complete(future)),
        RuntimeError::OtherLoop
    );
    completing.join().unwrap().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_completer_dropped_unused_fails_its_future_and_no_longer_prevents_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let (future, completer) = event_loop.create_threadsafe_future::<u32>();
    let running = signal_when_running(&event_loop);
    let holder = thread::spawn(move || {
        running.recv().unwrap();
        drop(completer);
    });
    // another future, which the completer has nothing to do with
    assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock);
    holder.join().unwrap();
    assert_eq!(
        misuse(event_loop.run_until_complete(future)),
        RuntimeError::Abandoned
    );
    still_works(&event_loop);
}

/// A coroutine that gives its waker away and waits until it was woken by it.
fn gives_waker_away(
    to: std::sync::mpsc::Sender<Waker>,
) -> impl Future<Output = miniloop::Result<&'static str>> {
    let mut to = Some(to);
    poll_fn(move |cx| match to.take() {
        Some(to) => {
            to.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }
        None => Poll::Ready(Ok("woken")),
    })
}

#[test]
fn a_waker_in_a_thread_is_waited_for() {
    let event_loop = EventLoop::new().unwrap();
    let (sender, wakers) = channel::<Waker>();
    let waking = thread::spawn(move || wakers.recv().unwrap().wake());
    let outcome = event_loop.run_until_complete(gives_waker_away(sender));
    assert_eq!(outcome.unwrap(), "woken");
    waking.join().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_waker_that_is_dropped_unused_leaves_a_deadlock() {
    let event_loop = EventLoop::new().unwrap();
    let (sender, wakers) = channel::<Waker>();
    let dropping = thread::spawn(move || drop(wakers.recv().unwrap()));
    let outcome = event_loop.run_until_complete(gives_waker_away(sender));
    assert_eq!(misuse(outcome), RuntimeError::Deadlock);
    dropping.join().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_hand_moved_clock_that_nobody_moves_is_a_deadlock() {
    let event_loop = EventLoop::with_clock(FakeClock::new()).unwrap();
    let slept = event_loop.run_until_complete(event_loop.sleep(Duration::from_secs(1)));
    assert_eq!(misuse(slept), RuntimeError::Deadlock);
    still_works(&event_loop);
}

#[test]
fn a_run_that_was_stopped_before_its_future_was_done_says_so() {
    let event_loop = EventLoop::new().unwrap();
    let stop = event_loop.handle();
    event_loop.call_soon(move || stop.stop());
    assert_eq!(misuse(never(&event_loop)), RuntimeError::StoppedBeforeDone);
    tick(&event_loop);
    still_works(&event_loop);
}

/// The stages of a round of [`let_go_around_the_wait`].
const THREAD_IS_THERE: u32 = 1;
const LOOP_RUNS: u32 = 2;

fn wait_for(stage: &AtomicU32, wanted: u32) {
    for spins in 1_u32.. {
        if stage.load(Ordering::Acquire) == wanted {
            return;
        }
        std::hint::spin_loop();
        if spins.is_multiple_of(1000) {
            thread::yield_now(); // there may be no second processor
        }
    }
}

/// Lets go, in another thread, of what could wake the loop, again and again in slightly other
/// moments: in one of them it falls between the loop's last look and its sleep.
fn let_go_around_the_wait<T: Send + 'static>(start: impl Fn(&EventLoop) -> T) {
    const ROUNDS: u32 = 10_000;
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (sender, receiver) = channel::<(T, Arc<AtomicU32>)>();
    let dropping = thread::spawn(move || {
        for (round, (held, stage)) in receiver.iter().enumerate() {
            stage.store(THREAD_IS_THERE, Ordering::Release);
            wait_for(&stage, LOOP_RUNS);
            for _ in 0..round % 200 {
                std::hint::spin_loop();
            }
            drop(held);
        }
    });
    for round in 0..ROUNDS {
        let stage = Arc::new(AtomicU32::new(0));
        sender.send((start(&event_loop), Arc::clone(&stage))).unwrap();
        wait_for(&stage, THREAD_IS_THERE);
        event_loop.call_soon(move || stage.store(LOOP_RUNS, Ordering::Release));
        // the wait that follows is for one who leaves about now
        assert_eq!(misuse(never(&event_loop)), RuntimeError::Deadlock, "{round}");
    }
    drop(sender);
    dropping.join().unwrap();
    still_works(&event_loop);
}

#[test]
fn a_threadsafe_handle_dropped_at_the_moment_of_the_wait_leaves_a_deadlock() {
    let_go_around_the_wait(|event_loop| event_loop.threadsafe_handle());
}

#[test]
fn a_waker_dropped_at_the_moment_of_the_wait_leaves_a_deadlock() {
    let_go_around_the_wait(|event_loop| {
        let (sender, wakers) = channel::<Waker>();
        event_loop.create_task(gives_waker_away(sender));
        tick(event_loop);
        wakers.recv().unwrap()
    });
}
