//! Panics in callbacks, tasks, handlers and drops: each costs only itself (BR-30).

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::thread;
use std::time::Duration;

use miniloop::{EventLoop, PanicError};

use crate::common::{pair, recv, send};
use crate::faults::{Drops, Reports, still_works, tick};
use crate::support::Log;

/// Panics when it is dropped, unless a panic is on its way already.
#[derive(Clone)]
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("dropped");
        }
    }
}

fn two_ticks(event_loop: &EventLoop) {
    tick(event_loop);
    tick(event_loop);
}

// field: BR-30
#[test]
fn a_callback_that_panics_is_reported_and_the_ones_behind_it_run() {
    let event_loop = EventLoop::new().unwrap();
    let (log, drops, reports) = (Log::new(), Drops::default(), Reports::of(&event_loop));
    let counted = drops.counted();
    event_loop.call_soon(move || {
        let _counted = counted;
        panic!("first");
    });
    event_loop.call_soon(log.entry("second"));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["second"]);
    assert_eq!(drops.count(), 1);
    assert_eq!(reports.take(), ["Exception in callback: panicked: first"]);
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_panic_is_caught_wherever_the_loop_calls_something() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let report = "Exception in callback: panicked: here";

    event_loop.call_later(Duration::ZERO, || panic!("here"));
    two_ticks(&event_loop);
    assert_eq!(reports.take(), [report], "a timer");

    let future = event_loop.create_future::<()>();
    let log = Log::new();
    let entry = log.entry("next");
    future.add_done_callback(|_| panic!("here"));
    future.add_done_callback(move |_| entry());
    future.set_result(()).unwrap();
    two_ticks(&event_loop);
    assert_eq!(reports.take(), [report], "a done callback");
    assert_eq!(log.take(), ["next"]);

    let poster = event_loop.threadsafe_handle();
    let thread = thread::spawn(move || poster.call_soon_threadsafe(|| panic!("here")));
    thread.join().unwrap().unwrap();
    two_ticks(&event_loop);
    assert_eq!(reports.take(), [report], "a posted callback");
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_reader_or_writer_that_panics_is_reported_and_stays_registered() {
    let event_loop = EventLoop::new().unwrap();
    let (log, reports) = (Log::new(), Reports::of(&event_loop));
    let (near, far) = pair();
    send(&far, b"ab");
    let (source, read) = (near.clone(), log.clone());
    event_loop
        .add_reader(&near, move || {
            read.push(recv(&source, 1));
            panic!("reader");
        })
        .unwrap();
    event_loop.add_writer(&near, || panic!("writer")).unwrap();
    for byte in [b"a", b"b"] {
        event_loop.run_once().unwrap();
        assert_eq!(log.take(), [byte]);
        let expected = ["reader", "writer"];
        let expected = expected.map(|name| format!("Exception in callback: panicked: {name}"));
        assert_eq!(reports.take(), expected);
    }
    assert!(event_loop.remove_reader(&near));
    assert!(event_loop.remove_writer(&near));
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn the_panic_of_a_task_reaches_whoever_awaits_it_and_is_not_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let failing = event_loop.create_task::<u32>(async { panic!("in the task") });
    let awaiting = event_loop.create_task(async move {
        let error = failing.await.unwrap_err();
        Ok(error.downcast_ref::<PanicError>().unwrap().message().to_owned())
    });
    let message = event_loop.run_until_complete(awaiting).unwrap();
    assert_eq!(message, "in the task");
    two_ticks(&event_loop);
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn the_panic_of_a_task_nobody_awaits_is_reported_when_its_last_handle_goes() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task::<u32>(async { panic!("in the task") });
    two_ticks(&event_loop);
    assert!(task.done());
    assert!(reports.take().is_empty());
    drop(task);
    let report = "Task exception was never retrieved: panicked: in the task";
    assert_eq!(reports.take(), [report]);
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn the_panic_of_the_main_task_is_the_error_of_the_run() {
    let event_loop = EventLoop::new().unwrap();
    let error = event_loop
        .run_until_complete::<u32>(async { panic!("main") })
        .unwrap_err();
    assert_eq!(error.downcast_ref::<PanicError>().unwrap().message(), "main");
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_handler_that_panics_costs_neither_the_loop_nor_the_next_callback() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let handled = log.clone();
    event_loop.set_exception_handler(move |_, context| {
        handled.push(context.message.to_string());
        panic!("in the handler");
    });
    event_loop.call_soon(|| panic!("first"));
    event_loop.call_soon(log.entry("second".into()));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["Exception in callback", "second"]);

    // Also where the report comes from a drop.
    let task = event_loop.create_task::<u32>(async { panic!("in the task") });
    two_ticks(&event_loop);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_ok());
    assert_eq!(log.take(), ["Task exception was never retrieved"]);
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_handler_may_use_and_replace_itself_and_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let first = log.clone();
    event_loop.set_exception_handler(move |handle, _| {
        first.push("first");
        let second = first.clone();
        handle.set_exception_handler(move |_, _| second.push("second"));
        handle.call_soon(first.entry("soon"));
    });
    event_loop.call_soon(|| panic!());
    event_loop.call_soon(|| panic!());
    two_ticks(&event_loop);
    assert_eq!(log.take(), ["first", "second", "soon"]);
}

// field: BR-30
#[test]
fn a_result_whose_drop_panics_costs_neither_the_loop_nor_the_holder_of_the_handle() {
    // The handle goes before the task has finished, after it, or is gone with its result taken.
    for dropped_first in [true, false] {
        let event_loop = EventLoop::new().unwrap();
        let _reports = Reports::of(&event_loop);
        let task = event_loop.create_task(async { Ok(Grenade) });
        if dropped_first {
            drop(task);
            two_ticks(&event_loop);
        } else {
            two_ticks(&event_loop);
            assert!(task.done());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_ok());
        }
        still_works(&event_loop);
    }
}

// field: BR-30
#[test]
fn a_capture_whose_drop_panics_is_reported_and_the_callbacks_behind_it_run() {
    let event_loop = EventLoop::new().unwrap();
    let (log, reports) = (Log::new(), Reports::of(&event_loop));
    let grenade = Grenade;
    event_loop.call_soon(move || {
        let _ = &grenade;
    });
    event_loop.call_soon(log.entry("second"));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["second"]);
    assert_eq!(reports.take(), ["Exception in callback: panicked: dropped"]);
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_reader_whose_drop_panics_when_it_removes_itself_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (near, far) = pair();
    send(&far, b"x");
    let (handle, source, grenade) = (event_loop.handle(), near.clone(), Grenade);
    event_loop
        .add_reader(&near, move || {
            let _ = &grenade;
            handle.remove_reader(&source);
        })
        .unwrap();
    two_ticks(&event_loop);
    assert_eq!(reports.take().len(), 1);
    assert!(!event_loop.remove_reader(&near));
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn a_coroutine_whose_drop_panics_ends_its_task_all_the_same() {
    // By its end, by a panic within it, by a cancellation before its first step, and by one at
    // an await of something foreign.
    for way in ["returns", "panics", "never starts", "is dropped"] {
        let event_loop = EventLoop::new().unwrap();
        let _reports = Reports::of(&event_loop);
        let grenade = Grenade;
        let task = event_loop.create_task::<u32>(async move {
            let _grenade = grenade;
            match way {
                "returns" => Ok(42),
                "panics" => panic!("{way}"),
                _ => std::future::pending().await,
            }
        });
        if way == "is dropped" {
            tick(&event_loop);
        }
        if way == "never starts" || way == "is dropped" {
            assert!(task.cancel());
        }
        two_ticks(&event_loop);
        assert!(task.done(), "{way}");
        drop(task);
        still_works(&event_loop);
    }
}

// field: BR-30
#[test]
fn a_panic_whose_payload_panics_when_dropped_is_caught_as_well() {
    let event_loop = EventLoop::new().unwrap();
    let (log, reports) = (Log::new(), Reports::of(&event_loop));
    event_loop.call_soon(|| panic_any(Grenade));
    event_loop.call_soon(log.entry("second"));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["second"]);
    assert_eq!(reports.take().len(), 1);

    let task = event_loop.create_task::<u32>(async { panic_any(Grenade) });
    two_ticks(&event_loop);
    assert!(task.result().is_err());
    still_works(&event_loop);
}

// field: BR-30
#[test]
fn closing_a_loop_whose_contents_panic_when_dropped_closes_it() {
    for by_drop in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let drops = Drops::default();
        let handle = event_loop.handle();
        for _ in 0..2 {
            let (grenade, counted) = (Grenade, drops.counted());
            event_loop.call_soon(move || drop((grenade, counted)));
            let (grenade, counted) = (Grenade, drops.counted());
            event_loop.call_later(Duration::from_secs(3600), move || drop((grenade, counted)));
            let (grenade, counted) = (Grenade, drops.counted());
            event_loop.create_task(async move {
                std::future::pending::<()>().await;
                drop((grenade, counted));
                Ok(())
            });
        }
        let closed = catch_unwind(AssertUnwindSafe(|| {
            if by_drop {
                drop(event_loop);
            } else {
                event_loop.close().unwrap();
            }
        }));
        assert!(closed.is_ok());
        assert!(handle.is_closed());
        assert_eq!(drops.count(), 6);
    }
}
