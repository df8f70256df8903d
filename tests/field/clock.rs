//! Far deadlines (BR-10), timers without delay (BR-11) and the fake clock (BR-18).

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use miniloop::testing::advance;
use miniloop::{EventLoop, FakeClock, LoopHandle, TimerHandle, sleep};

use crate::common::{pair, recv, send, stopper, yields};
use crate::faults::{Drops, still_works, tick};
use crate::support::{Log, Watchdog};

const HOUR: Duration = Duration::from_secs(3600);
/// A little more than an `i32` holds in milliseconds.
const THIRTY_DAYS: Duration = Duration::from_secs(30 * 24 * 3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs the loop with a real clock for 10 ms.
fn run_for_ten_ms(event_loop: &EventLoop) {
    event_loop.call_later(ms(10), stopper(event_loop));
    event_loop.run_forever().unwrap();
}

// field: BR-10
#[test]
fn a_far_timer_neither_fires_nor_holds_up_a_near_one_and_can_be_cancelled() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let spans = [
        Duration::MAX,
        Duration::MAX - ms(1),
        THIRTY_DAYS,
        THIRTY_DAYS * 1000,
    ];
    for span in spans {
        let (log, drops) = (Log::<&str>::new(), Drops::default());
        let timers = [
            event_loop.call_later(span, log_and_hold(&log, &drops)),
            event_loop.call_at(span, log_and_hold(&log, &drops)),
        ];
        run_for_ten_ms(&event_loop);
        for timer in &timers {
            assert!(timer.when() >= span);
            timer.cancel();
        }
        assert_eq!(drops.count(), 2);
        run_for_ten_ms(&event_loop);
        assert!(log.take().is_empty());
    }
    still_works(&event_loop);
}

/// A callback that must not run, and whose drop is counted.
fn log_and_hold(log: &Log<&'static str>, drops: &Drops) -> impl FnOnce() + 'static + use<> {
    let (fired, counted) = (log.entry("fired"), drops.counted());
    move || {
        fired();
        drop(counted);
    }
}

// field: BR-10
#[test]
fn a_far_sleep_neither_ends_nor_holds_up_a_near_one_and_can_be_cancelled() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    for span in [Duration::MAX, THIRTY_DAYS] {
        let future = event_loop.sleep(span);
        let task = event_loop.create_task(async move { sleep(span).await });
        run_for_ten_ms(&event_loop);
        assert!(!future.done() && !task.done());
        assert!(future.cancel() && task.cancel());
        run_for_ten_ms(&event_loop);
        assert!(future.cancelled() && task.cancelled());
    }
}

// field: BR-10
#[test]
fn a_timer_of_thirty_days_fires_once_and_not_before() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let log = Log::new();
    event_loop.call_later(THIRTY_DAYS, log.entry("fired"));
    clock.advance(THIRTY_DAYS - Duration::from_nanos(1));
    tick(&event_loop);
    assert!(log.take().is_empty());
    clock.advance(Duration::from_nanos(1));
    tick(&event_loop);
    assert_eq!(log.take(), ["fired"]);
    clock.advance(THIRTY_DAYS);
    tick(&event_loop);
    assert!(log.take().is_empty());
}

// field: BR-10
#[test]
fn a_delay_that_ends_past_the_end_of_time_neither_overflows_nor_fires_before_it() {
    // What the clock can count: nanoseconds in 64 bits.
    let end = Duration::from_nanos(u64::MAX);
    let clock = FakeClock::new().starting_at(end - HOUR);
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let (log, drops) = (Log::<&str>::new(), Drops::default());
    let timers = [HOUR, HOUR + ms(1), Duration::MAX]
        .map(|delay| event_loop.call_later(delay, log_and_hold(&log, &drops)));
    assert!(timers.iter().all(|timer| timer.when() >= end));
    clock.advance(HOUR - Duration::from_nanos(1));
    tick(&event_loop);
    assert!(log.take().is_empty());
    for (timer, cancelled) in timers.iter().zip(1..) {
        timer.cancel();
        assert_eq!(drops.count(), cancelled);
    }
}

/// Makes a timer without delay whose callback makes the next one, and so on.
fn rearm(event_loop: &LoopHandle, rounds: &Rc<Cell<u32>>) -> TimerHandle {
    let (again, rounds) = (event_loop.clone(), Rc::clone(rounds));
    event_loop.call_later(Duration::ZERO, move || {
        rounds.set(rounds.get() + 1);
        rearm(&again, &rounds);
    })
}

// field: BR-11
#[test]
fn a_timer_without_delay_made_by_a_callback_runs_in_the_next_tick_after_what_is_queued() {
    for by_hand in [true, false] {
        let event_loop = match by_hand {
            true => EventLoop::with_clock(FakeClock::new()).unwrap(),
            false => EventLoop::new().unwrap(),
        };
        let log = Log::new();
        let (handle, inside) = (event_loop.handle(), log.clone());
        event_loop.call_soon(move || {
            inside.push("a");
            handle.call_later(Duration::ZERO, inside.entry("later"));
            handle.call_soon(inside.entry("soon"));
        });
        event_loop.call_soon(log.entry("b"));
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), ["a", "b"]);
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), ["soon", "later"]);
    }
}

// field: BR-11
#[test]
fn a_timer_that_rearms_itself_without_delay_runs_once_a_tick() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock).unwrap();
    let rounds = Rc::new(Cell::new(0));
    rearm(&event_loop, &rounds);
    for round in 1..=100 {
        event_loop.run_once().unwrap();
        assert_eq!(rounds.get(), round);
    }
}

// field: BR-11
#[test]
fn a_timer_that_rearms_itself_without_delay_keeps_neither_a_reader_nor_a_stop_waiting() {
    let _watchdog = Watchdog::start();
    for by_hand in [true, false] {
        let event_loop = match by_hand {
            true => EventLoop::with_clock(FakeClock::new()).unwrap(),
            false => EventLoop::new().unwrap(),
        };
        let rounds = Rc::new(Cell::new(0));
        rearm(&event_loop, &rounds);
        let (near, far) = pair();
        send(&far, b"x");
        let (handle, source) = (event_loop.handle(), near.clone());
        event_loop
            .add_reader(&near, move || {
                recv(&source, 10);
                let stopped = handle.clone();
                handle.call_soon(move || stopped.stop());
            })
            .unwrap();
        event_loop.run_forever().unwrap();
        // The poll may be left out for some ticks under the real clock, never for many.
        let limit = if by_hand { 3 } else { 100 };
        assert!(rounds.get() <= limit, "{} rounds", rounds.get());
    }
}

// field: BR-11
#[test]
fn a_callback_that_requeues_itself_keeps_neither_a_timer_nor_a_reader_waiting() {
    fn requeue(event_loop: &LoopHandle, rounds: &Rc<Cell<u32>>) {
        let (again, rounds) = (event_loop.clone(), Rc::clone(rounds));
        event_loop.call_soon(move || {
            rounds.set(rounds.get() + 1);
            requeue(&again, &rounds);
        });
    }
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let rounds = Rc::new(Cell::new(0));
    requeue(&event_loop, &rounds);
    let log = Log::new();
    let (near, far) = pair();
    send(&far, b"x");
    let (handle, source, read, at) = (event_loop.handle(), near.clone(), log.clone(), Rc::clone(&rounds));
    event_loop
        .add_reader(&near, move || {
            recv(&source, 10);
            read.push(("reader", at.get()));
            let (log, at, stopped) = (read.clone(), Rc::clone(&at), handle.clone());
            handle.call_later(Duration::ZERO, move || {
                log.push(("timer", at.get()));
                stopped.stop();
            });
        })
        .unwrap();
    event_loop.run_forever().unwrap();
    let log = log.take();
    assert_eq!(
        log.iter().map(|entry| entry.0).collect::<Vec<_>>(),
        ["reader", "timer"]
    );
    assert!(log[0].1 <= 100 && log[1].1 - log[0].1 <= 100, "{log:?}");
}

async fn yield_for_ever() -> miniloop::Result<()> {
    loop {
        sleep(Duration::ZERO).await?;
    }
}

// field: BR-18
#[test]
fn a_step_of_the_fake_clock_runs_what_is_due_within_it_each_at_its_own_time() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let log = Log::new();
    for span in [100, 250, 900] {
        let (handle, log) = (event_loop.handle(), log.clone());
        event_loop.create_task(async move {
            sleep(ms(span)).await?;
            log.push((span, handle.time()));
            Ok(())
        });
    }
    // Neither a task that only yields nor one that waits for a socket moves the time.
    event_loop.create_task(yield_for_ever());
    let (near, far) = pair();
    let (handle, received) = (event_loop.handle(), log.clone());
    event_loop.create_task(async move {
        let data = handle.sock_recv(&near, 10).await?;
        received.push((u64::from(data[0]), handle.time()));
        Ok(())
    });

    for _ in 0..5 {
        tick(&event_loop);
    }
    assert_eq!(event_loop.time(), Duration::ZERO);
    advance(&event_loop, &clock, ms(99)).unwrap();
    assert!(log.take().is_empty());
    advance(&event_loop, &clock, ms(1)).unwrap();
    assert_eq!(log.take(), [(100, ms(100))]);
    send(&far, &[7]);
    for _ in 0..5 {
        tick(&event_loop);
    }
    assert_eq!(log.take(), [(7, ms(100))]);
    advance(&event_loop, &clock, ms(150)).unwrap();
    assert_eq!(log.take(), [(250, ms(250))]);
    advance(&event_loop, &clock, HOUR).unwrap();
    assert_eq!(log.take(), [(900, ms(900))]);
    assert_eq!(event_loop.time(), ms(250) + HOUR);
}

// field: BR-18
#[test]
fn a_step_of_the_fake_clock_runs_timers_made_by_timers_within_it() {
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    let log = Log::new();
    fn every(event_loop: &LoopHandle, log: &Log<Duration>, period: Duration) {
        let (again, log) = (event_loop.clone(), log.clone());
        event_loop.call_later(period, move || {
            log.push(again.time());
            every(&again, &log, period);
        });
    }
    every(&event_loop, &log, ms(100));
    advance(&event_loop, &clock, ms(550)).unwrap();
    assert_eq!(log.take(), [100, 200, 300, 400, 500].map(ms));
    advance(&event_loop, &clock, ms(50)).unwrap();
    assert_eq!(log.take(), [ms(600)]);

    // The same through a task, which needs a tick more for each of its sleeps.
    let (handle, inside) = (event_loop.handle(), Log::new());
    let seen = inside.clone();
    event_loop.create_task(async move {
        for _ in 0..3 {
            sleep(ms(30)).await?;
            inside.push(handle.time() - ms(600));
        }
        Ok(())
    });
    advance(&event_loop, &clock, ms(95)).unwrap();
    assert_eq!(seen.take(), [30, 60, 90].map(ms));
}

// field: BR-18
#[test]
fn a_clock_moved_by_hand_does_not_move_while_the_loop_waits_for_a_socket() {
    let _watchdog = Watchdog::start();
    let clock = FakeClock::new();
    let event_loop = EventLoop::with_clock(clock).unwrap();
    let log = Log::<&str>::new();
    event_loop.call_later(ms(1), log.entry("fired"));
    let (near, far) = pair();
    let far = far.into_inner().unwrap_or_else(|_| panic!("the only holder"));
    let writer = thread::spawn(move || (&far).write_all(b"x").map(|()| far));
    let future = event_loop.sock_recv(&near, 10);
    assert_eq!(event_loop.run_until_complete(future).unwrap(), b"x");
    writer.join().unwrap().unwrap();
    assert_eq!(event_loop.time(), Duration::ZERO);
    assert!(log.take().is_empty());
}

// field: BR-18
#[test]
fn an_automatic_clock_does_not_jump_while_anything_is_ready() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let log = Log::new();
    event_loop.call_later(ms(1), log.entry("fired"));
    event_loop.run_until_complete(yields(1_000)).unwrap();
    assert_eq!(event_loop.time(), Duration::ZERO);
    assert!(log.take().is_empty());
    event_loop.run_until_complete(event_loop.sleep(HOUR)).unwrap();
    assert_eq!(event_loop.time(), HOUR);
    assert_eq!(log.take(), ["fired"]);
}

// field: BR-18
#[test]
fn an_automatic_clock_that_is_held_does_not_jump_over_a_thread_that_will_post() {
    let _watchdog = Watchdog::start();
    let clock = FakeClock::auto();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    clock.hold();
    let timer_log = Log::new();
    event_loop.call_later(ms(1), timer_log.entry("fired"));
    let (future, completer) = event_loop.create_threadsafe_future::<u32>();
    let thread = thread::spawn(move || completer.set_result(42).unwrap());
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 42);
    thread.join().unwrap();
    assert_eq!(event_loop.time(), Duration::ZERO);
    assert!(timer_log.take().is_empty());
    clock.release();
    event_loop.run_until_complete(event_loop.sleep(ms(5))).unwrap();
    assert_eq!(event_loop.time(), ms(5));
    assert_eq!(timer_log.take(), ["fired"]);
}
