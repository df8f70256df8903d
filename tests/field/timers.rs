//! Timers: cancelling (BR-08, BR-09, BR-12) and order (BR-14).

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use miniloop::{Clock, EventLoop, FakeClock, Idle, LoopHandle, TimerHandle};

use crate::common::{pair, recv, send, stopper};
use crate::faults::{Drops, tick};
#[cfg(unix)]
use crate::support::thread_cpu;
use crate::support::{Log, Watchdog};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A loop whose clock is moved by hand.
fn by_hand() -> (EventLoop, FakeClock) {
    let clock = FakeClock::new();
    (EventLoop::with_clock(clock.clone()).unwrap(), clock)
}

/// A clock that jumps, and writes down which deadlines the loop was about to wait for.
#[derive(Clone)]
struct NotingClock {
    clock: FakeClock,
    waits: Log<Option<Duration>>,
}

impl Clock for NotingClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn idle(&self, deadline: Option<Duration>) -> Idle {
        self.waits.push(deadline);
        self.clock.idle(deadline)
    }

    fn jump(&self, deadline: Duration) {
        self.clock.jump(deadline);
    }
}

// field: BR-08
#[test]
fn cancelling_the_sooner_timer_keeps_the_later_one_and_its_deadline() {
    let (event_loop, clock) = by_hand();
    let log = Log::new();
    for (name, delay) in [("late", 300), ("early", 200)] {
        let timer = event_loop.call_later(ms(delay), log.entry(name));
        if name == "early" {
            timer.cancel();
        }
    }
    for (step, expected) in [(200, None), (99, None), (1, Some("late"))] {
        clock.advance(ms(step));
        tick(&event_loop);
        assert_eq!(log.take(), Vec::from_iter(expected));
    }
}

// field: BR-08
#[test]
fn a_cancelled_timer_is_not_waited_for() {
    let clock = NotingClock {
        clock: FakeClock::auto(),
        waits: Log::new(),
    };
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    event_loop.call_later(ms(300), stopper(&event_loop));
    event_loop.call_later(ms(200), || {}).cancel();
    event_loop.run_forever().unwrap();
    assert_eq!(event_loop.time(), ms(300));
    for wait in clock.waits.take() {
        assert_eq!(wait, Some(ms(300)));
    }
}

// field: BR-08
#[test]
fn a_timer_added_by_a_reader_shortens_the_next_wait() {
    let _watchdog = Watchdog::start();
    // With no other timer, with a later one, and with a cancelled one.
    for (other, cancelled) in [(false, false), (true, false), (true, true)] {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair();
        if other {
            let timer = event_loop.call_later(HOUR, || {});
            if cancelled {
                timer.cancel();
            }
        }
        let (handle, source) = (event_loop.handle(), near.clone());
        event_loop
            .add_reader(&near, move || {
                recv(&source, 10);
                handle.call_later(ms(10), stopper(&handle));
            })
            .unwrap();
        // From another thread, so that the loop may be waiting already.
        let writer = thread::spawn({
            let far = far.into_inner().unwrap_or_else(|_| panic!("the only holder"));
            move || {
                use std::io::Write;
                (&far).write_all(b"x").unwrap();
                far
            }
        });
        event_loop.run_forever().unwrap();
        writer.join().unwrap();
    }
}

// field: BR-08
#[test]
fn a_timer_added_by_a_posted_callback_shortens_the_wait_that_goes_on() {
    let _watchdog = Watchdog::start();
    thread_local! {
        static LOOP: RefCell<Option<LoopHandle>> = const { RefCell::new(None) };
    }
    let event_loop = EventLoop::new().unwrap();
    event_loop.call_later(HOUR, || {});
    LOOP.set(Some(event_loop.handle()));
    let poster = event_loop.threadsafe_handle();
    let poster = thread::spawn(move || {
        let posted = poster.call_soon_threadsafe(|| {
            let handle = LOOP.take().unwrap();
            handle.call_later(ms(10), stopper(&handle));
        });
        posted.unwrap();
    });
    event_loop.run_forever().unwrap();
    poster.join().unwrap();
}

// field: BR-09
#[test]
fn a_timer_restarted_again_and_again_leaves_nothing_behind() {
    let (event_loop, _clock) = by_hand();
    let drops = Drops::default();
    for live in [0, 1_000] {
        let kept: Vec<_> = (0..live).map(|_| event_loop.call_later(HOUR, || {})).collect();
        let mut timer: Option<TimerHandle> = None;
        let before = drops.count();
        for round in 0..100_000 {
            if let Some(timer) = timer.take() {
                timer.cancel();
                assert!(timer.cancelled());
            }
            // What the closure captured goes when it is cancelled, not in an hour.
            assert_eq!(drops.count() - before, round);
            let counted = drops.counted();
            timer = Some(event_loop.call_later(HOUR, move || drop(counted)));
            let held = event_loop.timer_count();
            assert!(held <= 2 * (live + 1) + 128, "{held} entries in round {round}");
        }
        for timer in kept.into_iter().chain(timer) {
            timer.cancel();
        }
    }
    tick(&event_loop);
    assert!(event_loop.timer_count() <= 128);
}

// field: BR-09
#[test]
fn sleeps_given_up_leave_nothing_behind() {
    let (event_loop, _clock) = by_hand();
    for _ in 0..10_000 {
        drop(event_loop.sleep(HOUR));
        let task = event_loop.create_task(event_loop.sleep(HOUR));
        tick(&event_loop);
        task.cancel();
        tick(&event_loop);
        assert!(task.cancelled());
        assert!(event_loop.timer_count() <= 130);
    }
}

/// The least processor time that restarting a timer so often took.
#[cfg(unix)]
fn cost_of_restarts(rounds: u32) -> Duration {
    let (event_loop, _clock) = by_hand();
    let measure = || {
        let start = thread_cpu();
        for _ in 0..rounds {
            event_loop.call_later(HOUR, || {}).cancel();
        }
        thread_cpu() - start
    };
    (0..3).map(|_| measure()).min().unwrap()
}

// field: BR-09
#[cfg(unix)]
#[test]
fn the_cost_of_restarting_a_timer_does_not_grow_with_the_restarts() {
    let (few, many) = (cost_of_restarts(20_000), cost_of_restarts(160_000));
    // Eight times the rounds: a linear cost gives 8, a quadratic one 64.
    assert!(many < few * 24, "{few:?} for 20,000, {many:?} for 160,000");
}

// field: BR-12
#[test]
fn of_two_overdue_timers_the_first_can_cancel_the_second() {
    let (event_loop, clock) = by_hand();
    let (log, drops) = (Log::new(), Drops::default());
    let second = Rc::new(RefCell::new(None::<TimerHandle>));
    let (first_log, target, dropped) = (log.clone(), Rc::clone(&second), drops.clone());
    event_loop.call_later(ms(100), move || {
        first_log.push("first");
        let timer = target.borrow();
        let timer = timer.as_ref().unwrap();
        assert!(!timer.cancelled());
        timer.cancel();
        timer.cancel();
        assert!(timer.cancelled());
        assert_eq!(dropped.count(), 1);
    });
    let (entry, counted) = (log.entry("second"), drops.counted());
    let timer = event_loop.call_later(ms(200), move || {
        entry();
        drop(counted);
    });
    second.replace(Some(timer));
    clock.advance(ms(500));
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(log.take(), ["first"]);
    assert_eq!(drops.count(), 1);
    assert_eq!(second.borrow().as_ref().unwrap().when(), ms(200));
}

// field: BR-12
#[test]
fn a_queued_callback_can_cancel_the_one_behind_it() {
    let (event_loop, _clock) = by_hand();
    let (log, drops) = (Log::new(), Drops::default());
    let second = Rc::new(RefCell::new(None::<miniloop::Handle>));
    let (first_log, target, dropped) = (log.clone(), Rc::clone(&second), drops.clone());
    event_loop.call_soon(move || {
        first_log.push("first");
        for _ in 0..2 {
            target.borrow().as_ref().unwrap().cancel();
            assert_eq!(dropped.count(), 1);
        }
    });
    let (entry, counted) = (log.entry("second"), drops.counted());
    let handle = event_loop.call_soon(move || {
        entry();
        drop(counted);
    });
    second.replace(Some(handle));
    event_loop.call_soon(log.entry("third"));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["first", "third"]);
}

// field: BR-12
#[test]
fn a_timer_may_cancel_itself_and_be_cancelled_after_it_has_run() {
    let (event_loop, clock) = by_hand();
    let (log, drops) = (Log::new(), Drops::default());
    let own = Rc::new(RefCell::new(None::<TimerHandle>));
    let (inside, counted, dropped) = (Rc::clone(&own), drops.counted(), drops.clone());
    let ran = log.clone();
    let timer = event_loop.call_later(ms(100), move || {
        inside.borrow().as_ref().unwrap().cancel();
        assert_eq!(dropped.count(), 0, "it is still running");
        ran.push("ran");
        drop(counted);
    });
    own.replace(Some(timer));
    clock.advance(ms(100));
    tick(&event_loop);
    assert_eq!(log.take(), ["ran"]);
    assert_eq!(drops.count(), 1);

    let timer = own.take().unwrap();
    timer.cancel();
    timer.cancel();
    assert_eq!(timer.when(), ms(100));
    // A handle of the past must not hit a timer of the present.
    event_loop.call_later(ms(100), log.entry("successor"));
    timer.cancel();
    clock.advance(ms(100));
    tick(&event_loop);
    assert_eq!(log.take(), ["successor"]);
}

// field: BR-12
#[test]
fn the_handle_of_a_cancelled_timer_does_not_hit_its_successor() {
    let (event_loop, clock) = by_hand();
    let log = Log::new();
    let old = event_loop.call_later(ms(100), || {});
    old.cancel();
    let new = event_loop.call_later(ms(100), log.entry("successor"));
    old.cancel();
    assert!(!new.cancelled());
    clock.advance(ms(100));
    tick(&event_loop);
    assert_eq!(log.take(), ["successor"]);
    assert_eq!(old.when(), new.when());
}

/// A clock whose time passes while the loop waits.
struct SlowWait(FakeClock);

impl Clock for SlowWait {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn idle(&self, _deadline: Option<Duration>) -> Idle {
        self.0.advance(ms(100));
        Idle::DoNotBlock
    }
}

// field: BR-12
#[test]
fn a_timer_that_came_due_during_the_wait_can_be_cancelled_by_a_reader_of_that_wait() {
    let event_loop = EventLoop::with_clock(SlowWait(FakeClock::new())).unwrap();
    let log = Log::new();
    let (near, far) = pair();
    let target = Rc::new(RefCell::new(None::<TimerHandle>));
    let (inside, source, read) = (Rc::clone(&target), near.clone(), log.clone());
    event_loop
        .add_reader(&near, move || {
            recv(&source, 10);
            read.push("reader");
            inside.borrow().as_ref().unwrap().cancel();
        })
        .unwrap();
    let timer = event_loop.call_later(ms(100), log.entry("timer"));
    target.replace(Some(timer));
    send(&far, b"x");
    event_loop.run_once().unwrap();
    tick(&event_loop);
    assert_eq!(event_loop.time(), ms(100));
    assert_eq!(log.take(), ["reader"]);
}

// field: BR-14
#[test]
fn timers_with_one_deadline_run_in_the_order_in_which_they_were_made() {
    let (event_loop, clock) = by_hand();
    let log = Log::new();
    for number in 0..50 {
        event_loop.call_at(ms(100), log.entry(number));
    }
    clock.advance(ms(150));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), Vec::from_iter(0..50));
}

// field: BR-14
#[test]
fn timers_with_one_deadline_keep_their_order_when_a_third_of_them_is_cancelled() {
    let (event_loop, clock) = by_hand();
    let log = Log::new();
    // More than once, so that slots of cancelled timers are used again.
    for _ in 0..3 {
        let when = event_loop.time() + ms(100);
        let mut timers = Vec::new();
        for number in 0..300 {
            timers.push(event_loop.call_at(when, log.entry(number)));
            if number % 3 == 2 {
                timers[number - 1].cancel();
            }
        }
        let expected: Vec<_> = (0..300).filter(|number| number % 3 != 1).collect();
        clock.advance(ms(100));
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), expected);
    }
}

// field: BR-14
#[test]
fn timers_run_by_deadline_first_and_by_age_within_one() {
    let (event_loop, clock) = by_hand();
    let log = Log::new();
    for number in 0..60_u64 {
        let when = ms(100 + number * 7 % 5);
        let log = log.clone();
        event_loop.call_at(when, move || log.push((when, number)));
    }
    clock.advance(ms(200));
    event_loop.run_once().unwrap();
    let ran = log.take();
    assert_eq!(ran.len(), 60);
    assert!(ran.is_sorted(), "{ran:?}");
}
