//! Running and stopping the loop: nested runs, leftover stops (BR-21) and turns (BR-20).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, Exception, FakeClock, RuntimeError, sleep};

use crate::common::{Boom, pair, recv, send, stopper};
use crate::faults::{misuse, still_works, tick};
use crate::support::{Log, Watchdog, wake_and_yield};

/// Calls `each_step`, wakes itself and starts over.
async fn wake_for_ever(mut each_step: impl FnMut()) -> miniloop::Result<()> {
    loop {
        each_step();
        wake_and_yield().await;
    }
}

// field: BR-20
#[test]
fn tasks_that_wake_themselves_take_turns() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    for name in ["A", "B"] {
        event_loop.create_task(wake_for_ever(log.entry(name)));
    }
    for _ in 0..50 {
        tick(&event_loop);
        assert_eq!(log.take(), ["A", "B"]);
    }
}

// field: BR-20
#[test]
fn a_task_that_wakes_itself_goes_behind_what_is_queued() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let inside = log.clone();
    let handle = event_loop.handle();
    event_loop.create_task(async move {
        handle.call_soon(inside.entry("queued before the wake"));
        wake_and_yield().await;
        inside.push("task");
        Ok(())
    });
    event_loop.call_soon(log.entry("beside"));
    tick(&event_loop);
    assert_eq!(log.take(), ["beside"]);
    tick(&event_loop);
    assert_eq!(log.take(), ["queued before the wake", "task"]);
}

// field: BR-20
#[test]
fn a_task_that_wakes_itself_for_ever_starves_neither_a_timer_nor_a_reader() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let rounds = Rc::new(Cell::new(0_u32));
    let inside = Rc::clone(&rounds);
    event_loop.create_task(wake_for_ever(move || inside.set(inside.get() + 1)));
    let log = Log::new();
    let (near, far) = pair();
    send(&far, b"x");
    let (source, read, at) = (near.clone(), log.clone(), Rc::clone(&rounds));
    event_loop
        .add_reader(&near, move || {
            recv(&source, 10);
            read.push(at.get());
        })
        .unwrap();
    let (fired, at, stop) = (log.clone(), Rc::clone(&rounds), stopper(&event_loop));
    event_loop.call_later(Duration::ZERO, move || fired.push(at.get()));
    event_loop.call_later(Duration::from_millis(20), stop);
    event_loop.run_forever().unwrap();
    let log = log.take();
    assert_eq!(log.len(), 2);
    assert!(log.iter().all(|&rounds| rounds <= 100), "{log:?}");
}

// field: BR-20
#[test]
fn a_task_on_a_socket_that_always_has_bytes_lets_others_have_their_turns() {
    const BYTES: usize = 10_000;
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    send(&far, &[7; BYTES]);
    let read = Rc::new(Cell::new(0));
    let (handle, counted) = (event_loop.handle(), Rc::clone(&read));
    event_loop.create_task(async move {
        while counted.get() < BYTES {
            counted.set(counted.get() + handle.sock_recv(&near, 1).await?.len());
        }
        Ok(())
    });
    // How far the task had come at each turn of a callback beside it.
    let turns = Log::new();
    while read.get() < BYTES {
        let (turns, at) = (turns.clone(), Rc::clone(&read));
        event_loop.call_soon(move || turns.push(at.get()));
        event_loop.run_once().unwrap();
    }
    let turns = turns.take();
    let longest = turns.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= BYTES / 10, "{longest} reads without a turn for others");
}

/// Tries to run and close `inner` where a loop is running already.
fn refusals(inner: &EventLoop) -> [RuntimeError; 4] {
    [
        misuse(inner.run_forever()),
        misuse(inner.run_once()),
        misuse(inner.run_until_complete(async { Ok(()) })),
        misuse(inner.close()),
    ]
}

// field: BR-21
#[test]
fn a_running_loop_refuses_to_be_run_or_closed_from_a_callback_and_goes_on() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let inside = Rc::clone(&event_loop);
    let log = Log::new();
    let refused = log.clone();
    event_loop.call_soon(move || refused.push(refusals(&inside)));
    event_loop.call_soon(stopper(&event_loop));
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), [[RuntimeError::LoopRunning; 4]]);
    assert!(!event_loop.is_closed() && !event_loop.is_running());
    still_works(&event_loop);
}

// field: BR-21
#[test]
fn a_running_loop_refuses_to_be_run_or_closed_from_a_task_and_goes_on() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let inside = Rc::clone(&event_loop);
    let task = event_loop.create_task(async move {
        let before = refusals(&inside);
        sleep(Duration::ZERO).await?;
        Ok([before, refusals(&inside)])
    });
    let refused = event_loop.run_until_complete(task).unwrap();
    assert_eq!(refused, [[RuntimeError::LoopRunning; 4]; 2]);
    still_works(&event_loop);
}

// field: BR-21
#[test]
fn a_second_loop_can_not_run_inside_the_first_and_both_go_on() {
    let outer = EventLoop::new().unwrap();
    let inner = Rc::new(EventLoop::new().unwrap());
    let log = Log::<&str>::new();
    inner.call_soon(log.entry("queued"));
    let inside = Rc::clone(&inner);
    let task = outer.create_task(async move {
        let refused = [
            misuse(inside.run_forever()),
            misuse(inside.run_once()),
            misuse(inside.run_until_complete(async { Ok(()) })),
        ];
        sleep(Duration::ZERO).await?;
        Ok(refused)
    });
    let refused = outer.run_until_complete(task).unwrap();
    assert_eq!(refused, [RuntimeError::OtherLoopRunning; 3]);
    assert!(log.take().is_empty(), "nothing of the other loop ran");
    tick(&inner);
    assert_eq!(log.take(), ["queued"]);
    still_works(&outer);
    still_works(&inner);
}

// field: BR-21
#[test]
fn loops_may_take_turns_on_one_thread() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    for _ in 0..2 {
        still_works(&first);
        still_works(&second);
    }
}

// field: BR-21
#[test]
fn a_run_that_ends_with_an_error_leaves_no_stop_behind_and_loses_no_callback() {
    type Main = fn() -> Result<(), Exception>;
    let mains: [Main; 2] = [|| Err(Boom("main").into()), || panic!("the main task panics")];
    for main in mains {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let (handle, inside) = (event_loop.handle(), log.clone());
        let task = async move {
            // Runs in the tick that ends this run, or in the next run.
            let entry = inside.entry("queued by the failing run");
            let again = handle.clone();
            handle.call_soon(move || {
                entry();
                again.call_soon(inside.entry("queued in its last tick"));
            });
            main()
        };
        event_loop.run_until_complete(task).unwrap_err();
        event_loop.call_later(Duration::from_millis(10), {
            let (entry, stop) = (log.entry("timer"), stopper(&event_loop));
            move || {
                entry();
                stop();
            }
        });
        event_loop.run_forever().unwrap();
        let expected = ["queued by the failing run", "queued in its last tick", "timer"];
        assert_eq!(log.take(), expected);
        still_works(&event_loop);
    }
}

// field: BR-21
#[test]
fn a_run_stopped_before_its_future_is_done_does_not_stop_a_later_run_when_it_is() {
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let future = event_loop.create_future::<u32>();
    event_loop.call_soon(stopper(&event_loop));
    let stopped = event_loop.run_until_complete(future.clone());
    assert_eq!(misuse(stopped), RuntimeError::StoppedBeforeDone);
    assert!(!future.done());

    future.set_result(42).unwrap();
    let log = Log::new();
    let (entry, stop) = (log.entry("timer"), stopper(&event_loop));
    event_loop.call_later(Duration::from_secs(1), move || {
        entry();
        stop();
    });
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["timer"]);
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 42);
}

// field: BR-21
#[test]
fn a_stop_before_the_run_gives_one_tick_with_what_was_queued_before_and_after_it() {
    // Under a clock that is not the real one every tick polls, so passes count ticks.
    let event_loop = EventLoop::with_clock(FakeClock::auto()).unwrap();
    let log = Log::new();
    let (handle, inside) = (event_loop.handle(), log.clone());
    event_loop.call_soon(move || {
        inside.push("before");
        handle.call_soon(inside.entry("next run"));
    });
    event_loop.stop();
    event_loop.call_soon(log.entry("after"));
    let passes = event_loop.pass_count();
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["before", "after"]);
    assert_eq!(event_loop.pass_count() - passes, 1);

    // The stop is used up.
    event_loop.call_soon(stopper(&event_loop));
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["next run"]);
    still_works(&event_loop);
}

// field: BR-21
#[test]
fn a_stop_does_not_make_a_ready_reader_run_twice() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    send(&far, b"x");
    let log = Log::new();
    event_loop.add_reader(&near, log.entry("reader")).unwrap();
    for _ in 0..3 {
        event_loop.stop();
        event_loop.run_forever().unwrap();
        assert_eq!(log.take(), ["reader"]);
    }
}

// field: BR-21
#[test]
fn a_stop_from_within_ends_the_run_with_its_tick() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let (handle, inside) = (event_loop.handle(), log.clone());
    let kept = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&kept);
    event_loop.call_soon(move || {
        handle.stop();
        handle.stop();
        slot.replace(Some(handle.call_soon(inside.entry("next run"))));
    });
    event_loop.call_soon(log.entry("beside"));
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["beside"]);
    tick(&event_loop);
    assert_eq!(log.take(), ["next run"]);
}
