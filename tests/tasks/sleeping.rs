//! Sleep: a future that a timer completes.

use std::time::Duration;

use miniloop::{EventLoop, FakeClock, sleep};

use crate::common::{Trace, pair, send, ticks};
use crate::support::{settle, still_works, tick};

fn fake_loop() -> (EventLoop, FakeClock) {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    (event_loop, clock)
}

// brief: SL-1
#[test]
fn sleep_does_not_complete_immediately() {
    let (event_loop, clock) = fake_loop();
    let slept = event_loop.sleep(Duration::from_secs(1));
    assert!(!slept.done());
    tick(&event_loop);
    assert!(!slept.done());
    clock.advance(Duration::from_millis(999));
    tick(&event_loop);
    assert!(!slept.done());
}

// brief: SL-2
#[test]
fn sleep_completes_after_time_advances() {
    let (event_loop, clock) = fake_loop();
    let slept = event_loop.sleep(Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    tick(&event_loop);
    assert!(slept.done());
    slept.result().unwrap();
}

// brief: SL-3
#[test]
fn a_coroutine_resumes_after_its_sleep() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let inner = events.clone();
    let task = event_loop.create_task(async move {
        inner.push("before");
        sleep(Duration::from_secs(1)).await?;
        inner.push("after");
        Ok(())
    });
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(events.lines(), ["before"]);
    clock.advance(Duration::from_secs(1));
    settle(&event_loop);
    assert_eq!(events.lines(), ["before", "after"]);
    assert!(task.done());
}

// brief: SL-4
#[test]
fn other_callbacks_tasks_and_readers_run_during_a_sleep() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    let (left, right) = pair();
    let sleeper = events.mark("sleeper");
    event_loop.create_task(async move {
        sleep(Duration::from_secs(10)).await?;
        sleeper();
        Ok(())
    });
    tick(&event_loop);
    event_loop.call_soon(events.mark("callback"));
    event_loop.call_later(Duration::from_secs(1), events.mark("timer"));
    let task = events.mark("task");
    event_loop.create_task(async move {
        sleep(Duration::from_secs(2)).await?;
        task();
        Ok(())
    });
    let (handle, watched, reader) = (event_loop.handle(), left.clone(), events.mark("reader"));
    event_loop
        .add_reader(&left, move || {
            reader();
            handle.remove_reader(&watched);
        })
        .unwrap();
    settle(&event_loop);
    miniloop::testing::advance(&event_loop, &clock, Duration::from_secs(5)).unwrap();
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!(events.lines(), ["callback", "timer", "task", "reader"]);
    miniloop::testing::advance(&event_loop, &clock, Duration::from_secs(5)).unwrap();
    settle(&event_loop);
    assert_eq!(events.lines().last().unwrap(), "sleeper");
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    let (event_loop, clock) = fake_loop();
    let events = Trace::new();
    for (word, delay) in [("three", 3), ("one", 1), ("two", 2), ("two again", 2)] {
        let mark = events.mark(word);
        event_loop.create_task(async move {
            sleep(Duration::from_secs(delay)).await?;
            mark();
            Ok(())
        });
    }
    tick(&event_loop);
    miniloop::testing::advance(&event_loop, &clock, Duration::from_secs(3)).unwrap();
    settle(&event_loop);
    assert_eq!(events.lines(), ["one", "two", "two again", "three"]);
}

#[test]
fn a_sleep_of_zero_lets_exactly_one_tick_pass() {
    let (event_loop, _clock) = fake_loop();
    let events = Trace::new();
    let (before, after) = (events.mark("before"), events.mark("after"));
    event_loop.create_task(async move {
        before();
        sleep(Duration::ZERO).await?;
        after();
        Ok(())
    });
    ticks(&event_loop, &events, 3);
    for _ in 0..3 {
        event_loop.run_once().unwrap();
    }
    // the sleeper is in the queue before the mark of its tick, as it was in the first
    assert_eq!(events.lines(), ["before", "tick1", "after", "tick2", "tick3"]);
}

#[test]
fn a_real_sleep_does_not_use_the_processor() {
    let event_loop = EventLoop::new().unwrap();
    let before = event_loop.pass_count();
    event_loop
        .run_until_complete(async { sleep(Duration::from_millis(30)).await })
        .unwrap();
    let passes = event_loop.pass_count() - before;
    assert!(passes < 20, "{passes} passes for one sleep");
    still_works(&event_loop);
}

#[test]
fn a_cancelled_sleep_never_fires() {
    let (event_loop, clock) = fake_loop();
    let slept = event_loop.sleep(Duration::from_secs(1));
    assert!(slept.cancel());
    clock.advance(Duration::from_secs(1));
    settle(&event_loop);
    assert!(slept.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_sleep_of_for_ever_is_accepted() {
    let (event_loop, clock) = fake_loop();
    clock.advance(Duration::from_secs(1));
    let slept = event_loop.sleep(Duration::MAX);
    settle(&event_loop);
    assert!(!slept.done());
    still_works(&event_loop);
}
