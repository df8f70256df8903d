//! How long one tick may wait in the selector.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{Clock, EventLoop, Future, Idle, LoopHandle};

use crate::common::{Trace, pair, send};
use crate::seconds;
use crate::support::{Watchdog, still_works, tick};

/// A clock that stands still, writes down what the loop would wait for, and never lets it.
#[derive(Clone, Default)]
struct AskedClock(Rc<RefCell<Vec<Option<Duration>>>>);

impl Clock for AskedClock {
    fn now(&self) -> Duration {
        seconds(10)
    }

    fn idle(&self, deadline: Option<Duration>) -> Idle {
        self.0.borrow_mut().push(deadline);
        Idle::DoNotBlock
    }
}

fn asked_loop() -> (EventLoop, AskedClock) {
    let clock = AskedClock::default();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    (event_loop, clock)
}

// brief: TM-6
#[test]
fn with_ready_callbacks_the_loop_does_not_wait() {
    let (event_loop, clock) = asked_loop();
    event_loop.call_later(seconds(5), || {});
    event_loop.call_soon(|| {});
    event_loop.run_once().unwrap();
    assert_eq!(clock.0.take(), []);
    assert_eq!(event_loop.pass_count(), 1, "it polls nevertheless");
}

// brief: TM-6
#[test]
fn with_timers_the_loop_waits_until_the_next_deadline() {
    let (event_loop, clock) = asked_loop();
    event_loop.call_later(seconds(5), || {});
    event_loop.call_later(seconds(2), || {});
    event_loop.call_later(seconds(1), || {}).cancel();
    event_loop.run_once().unwrap();
    assert_eq!(clock.0.take(), [Some(seconds(12))]);
}

// brief: TM-6
#[test]
fn with_neither_the_loop_waits_for_io_alone() {
    let (event_loop, clock) = asked_loop();
    event_loop.run_once().unwrap();
    assert_eq!(clock.0.take(), [None]);
}

// brief: TM-6
#[test]
fn with_a_stop_asked_for_the_loop_does_not_wait() {
    let (event_loop, clock) = asked_loop();
    event_loop.call_later(seconds(5), || {});
    event_loop.stop();
    event_loop.run_forever().unwrap();
    assert_eq!(clock.0.take(), []);
}

// brief: TM-6
#[test]
fn a_wait_for_a_timer_ends_early_when_a_source_is_readable() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.call_later(seconds(3600), events.mark("timer"));
    event_loop.add_reader(&left, events.mark("reader")).unwrap();
    send(&right, b"x");
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["reader"]);
}

#[test]
fn a_real_timer_is_waited_for_and_never_early() {
    let event_loop = EventLoop::new().unwrap();
    // fractions of a millisecond: a timeout rounded down would end the wait too soon
    for micros in [1, 300, 999, 1_001, 2_500, 10_400] {
        let (handle, ran) = (event_loop.handle(), Trace::new());
        let mark = ran.clone();
        let due = event_loop.time() + Duration::from_micros(micros);
        event_loop.call_at(due, move || {
            assert!(handle.time() >= due);
            mark.push("in time");
        });
        let passes = event_loop.pass_count();
        while ran.lines().is_empty() {
            event_loop.run_once().unwrap();
            assert!(event_loop.pass_count() < passes + 100, "the loop spins");
        }
    }
}

#[test]
fn one_tick_that_waited_for_a_timer_also_runs_it() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    event_loop.call_later(Duration::from_millis(5), events.mark("timer"));
    event_loop.run_once().unwrap();
    assert_eq!(events.lines(), ["timer"]);
}

#[test]
fn a_wait_with_nothing_to_do_ends_when_a_thread_calls_in() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let (threadsafe, mark) = (event_loop.threadsafe_handle(), events.mark("called"));
    let caller = std::thread::spawn(move || threadsafe.call_soon_threadsafe(mark).unwrap());
    while events.lines().is_empty() {
        event_loop.run_once().unwrap();
    }
    caller.join().unwrap();
    assert!(event_loop.pass_count() <= 2, "{}", event_loop.pass_count());
    tick(&event_loop);
}

#[test]
fn a_clock_that_panics_leaves_a_loop_that_can_run_again() {
    /// Panics once, when it is asked what an idle loop does.
    #[derive(Clone)]
    struct Panicking(Rc<Cell<bool>>);

    impl Clock for Panicking {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn idle(&self, _: Option<Duration>) -> Idle {
            assert!(!self.0.take(), "in the clock");
            Idle::DoNotBlock
        }
    }

    let clock = Panicking(Rc::new(Cell::new(true)));
    let event_loop = EventLoop::with_clock(clock).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| event_loop.run_once()));
    assert!(panic.is_err());
    assert!(!event_loop.is_running());
    assert!(miniloop::get_running_loop().is_err());
    still_works(&event_loop);
}

#[test]
fn a_clock_may_use_the_loop_whenever_it_is_asked() {
    /// Arms a timer and cancels it each time that it is asked, with the loop it has been given.
    #[derive(Clone, Default)]
    struct Arming(Rc<RefCell<Option<LoopHandle>>>);

    impl Arming {
        fn arm(&self) {
            // Taken out, for arming asks for no time and yet might one day.
            let event_loop = self.0.take();
            if let Some(event_loop) = &event_loop {
                event_loop.call_at(seconds(3600), || ()).cancel();
                event_loop.call_soon(|| ());
            }
            self.0.replace(event_loop);
        }
    }

    impl Clock for Arming {
        fn now(&self) -> Duration {
            self.arm();
            seconds(10)
        }

        fn idle(&self, _: Option<Duration>) -> Idle {
            self.arm();
            Idle::DoNotBlock
        }
    }

    let clock = Arming::default();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    clock.0.replace(Some(event_loop.handle()));
    let events = Trace::new();
    event_loop.call_later(seconds(0), events.mark("due"));
    event_loop.call_later(seconds(1), events.mark("not yet"));
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(events.lines(), ["due"]);
    clock.0.take();
    still_works(&event_loop);
}

/// What a clock does with its loop when that asks what to do while it is idle.
type WhenIdle = Box<dyn Fn(&LoopHandle)>;

/// A loop whose clock does that the first time, and never has a reason not to wait.
fn loop_of_a_busy_clock(when_idle: impl Fn(&LoopHandle) + 'static) -> EventLoop {
    #[derive(Clone, Default)]
    struct Busy(Rc<RefCell<Option<(LoopHandle, WhenIdle)>>>);

    impl Clock for Busy {
        fn now(&self) -> Duration {
            seconds(10)
        }

        fn idle(&self, _: Option<Duration>) -> Idle {
            if let Some((event_loop, when_idle)) = self.0.take() {
                when_idle(&event_loop);
            }
            Idle::Wait(None)
        }
    }

    let clock = Busy::default();
    let event_loop = EventLoop::with_clock(clock.clone()).unwrap();
    clock.0.replace(Some((event_loop.handle(), Box::new(when_idle))));
    event_loop
}

#[test]
fn what_a_clock_schedules_when_it_is_asked_how_long_to_wait_is_not_waited_for() {
    let _watchdog = Watchdog::start();
    type Schedule = fn(&LoopHandle, Box<dyn FnOnce()>);
    let schedules: [Schedule; 3] = [
        |event_loop, callback| drop(event_loop.call_soon(callback)),
        |event_loop, callback| drop(event_loop.call_at(seconds(10), callback)),
        |event_loop, callback| drop(event_loop.call_at(seconds(0), callback)),
    ];
    for schedule in schedules {
        let done = Rc::new(RefCell::new(None::<Future<u32>>));
        let completed = done.clone();
        let event_loop = loop_of_a_busy_clock(move |event_loop| {
            let future: Option<Future<u32>> = completed.take();
            schedule(
                event_loop,
                Box::new(move || future.expect("there is one").set_result(7).unwrap()),
            );
        });
        let future = event_loop.create_future();
        done.replace(Some(future.clone()));
        assert_eq!(event_loop.run_until_complete(future).unwrap(), 7);
    }
}

#[test]
fn a_clock_may_stop_its_loop_when_it_is_asked_how_long_to_wait() {
    let _watchdog = Watchdog::start();
    let event_loop = loop_of_a_busy_clock(LoopHandle::stop);
    event_loop.run_forever().unwrap();
    assert!(!event_loop.is_running());
}
