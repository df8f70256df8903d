//! A panic in anything the loop calls is reported, and the loop goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use miniloop::{EventLoop, Exception, ExceptionContext};

use crate::common::{Boom, Trace, logged, pair, raise, send, watch};
use crate::support::{OnDrop, Reports, settle, still_works, tick};

#[test]
fn a_panic_in_a_callback_is_reported_and_the_next_callback_runs() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let events = Trace::new();
    event_loop.call_soon(|| panic!("boom"));
    event_loop.call_soon(events.mark("next"));
    event_loop.run_once().unwrap();
    assert_eq!(reports.take(), ["Exception in callback: panicked: boom"]);
    assert_eq!(events.lines(), ["next"]);
    still_works(&event_loop);
}

#[test]
fn an_exception_thrown_by_a_callback_is_reported_as_itself() {
    let event_loop = EventLoop::new().unwrap();
    let heard = Trace::new();
    watch(&event_loop, &heard);
    event_loop.call_soon(|| raise("own"));
    tick(&event_loop);
    assert_eq!(heard.lines(), ["handler:callback-error:error:own"]);
    still_works(&event_loop);
}

#[test]
fn a_panic_in_a_callback_does_not_stop_run_forever() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let stop = event_loop.handle();
    event_loop.call_soon(|| panic!("boom"));
    event_loop.call_later(Duration::from_millis(1), move || stop.stop());
    event_loop.run_forever().unwrap();
    assert_eq!(reports.take(), ["Exception in callback: panicked: boom"]);
    still_works(&event_loop);
}

#[test]
fn a_panic_in_a_timer_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let events = Trace::new();
    event_loop.call_later(Duration::ZERO, || panic!("boom"));
    event_loop.call_later(Duration::ZERO, events.mark("next"));
    settle(&event_loop);
    assert_eq!(reports.take(), ["Exception in callback: panicked: boom"]);
    assert_eq!(events.lines(), ["next"]);
    still_works(&event_loop);
}

#[test]
fn a_panic_in_a_done_callback_is_reported_and_the_next_one_runs() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let events = Trace::new();
    let next = events.mark("next");
    let future = event_loop.create_future();
    future.add_done_callback(|_| panic!("boom"));
    future.add_done_callback(move |_| next());
    future.set_result(1).unwrap();
    tick(&event_loop);
    assert_eq!(reports.take(), ["Exception in callback: panicked: boom"]);
    assert_eq!(events.lines(), ["next"]);
    assert_eq!(future.result().unwrap(), 1);
    still_works(&event_loop);
}

#[test]
fn a_reader_that_panics_stays_registered() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (left, right) = pair();
    event_loop.add_reader(&left, || panic!("boom")).unwrap();
    send(&right, b"x");
    event_loop.run_once().unwrap();
    event_loop.run_once().unwrap();
    let report = "Exception in callback: panicked: boom";
    assert_eq!(
        reports.take(),
        [report, report],
        "the data is still there: called again"
    );
    assert!(event_loop.remove_reader(&left));
    still_works(&event_loop);
    assert!(reports.take().is_empty());
}

#[test]
fn a_writer_that_panics_stays_registered() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (left, _right) = pair();
    event_loop.add_writer(&left, || panic!("boom")).unwrap();
    event_loop.run_once().unwrap();
    event_loop.run_once().unwrap();
    let report = "Exception in callback: panicked: boom";
    assert_eq!(reports.take(), [report, report]);
    assert!(event_loop.remove_writer(&left));
    still_works(&event_loop);
    assert!(reports.take().is_empty());
}

#[test]
fn a_panic_in_the_exception_handler_is_logged_and_the_loop_goes_on() {
    let event_loop = EventLoop::new().unwrap();
    let log = Trace::new();
    let capture = logged(&log);
    event_loop.set_exception_handler(|_, _| panic!("the handler too"));
    event_loop.call_soon(|| panic!("boom"));
    event_loop.call_soon(log.mark("next"));
    event_loop.run_once().unwrap();
    assert_eq!(
        log.lines(),
        ["log:error:handler-failed:panicked: the handler too", "next"]
    );
    drop(capture);
    still_works(&event_loop);
}

#[test]
fn an_exception_handler_may_replace_and_call_itself() {
    let event_loop = EventLoop::new().unwrap();
    let heard = Trace::new();
    event_loop.set_exception_handler({
        let heard = heard.clone();
        move |handle, context| {
            heard.push(format!("first: {}", context.message));
            let heard = heard.clone();
            handle.set_exception_handler(move |_, context| {
                heard.push(format!("second: {}", context.message));
            });
            handle.call_exception_handler(&ExceptionContext::new("from the handler"));
        }
    });
    event_loop.call_soon(|| panic!("boom"));
    tick(&event_loop);
    assert_eq!(
        heard.lines(),
        ["first: Exception in callback", "second: from the handler"]
    );
    still_works(&event_loop);
}

#[test]
fn a_capture_that_panics_when_its_callback_ends_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let captured = OnDrop::new(|| panic!("in drop"));
    event_loop.call_soon(move || drop(captured));
    tick(&event_loop);
    assert_eq!(reports.take(), ["Exception in callback: panicked: in drop"]);
    still_works(&event_loop);
}

#[test]
fn a_cancelled_callback_whose_capture_panics_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let captured = || OnDrop::new(|| panic!("in drop"));
    let held = captured();
    let soon = event_loop.call_soon(move || drop(held));
    let held = captured();
    let later = event_loop.call_later(Duration::ZERO, move || drop(held));
    // whether the canceller gets the panic or the handler a report is not promised
    let _ = catch_unwind(AssertUnwindSafe(|| soon.cancel()));
    let _ = catch_unwind(AssertUnwindSafe(|| later.cancel()));
    assert!(soon.cancelled() && later.cancelled());
    still_works(&event_loop);
}

#[test]
fn a_removed_reader_whose_capture_panics_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let (left, right) = pair();
    let captured = OnDrop::new(|| panic!("in drop"));
    event_loop
        .add_reader(&left, move || {
            let _captured = &captured;
        })
        .unwrap();
    send(&right, b"x");
    let _ = catch_unwind(AssertUnwindSafe(|| event_loop.remove_reader(&left)));
    assert!(!event_loop.remove_reader(&left));
    still_works(&event_loop);
}

#[test]
fn a_reader_that_removes_itself_may_have_a_capture_that_panics() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let (left, right) = pair();
    let captured = OnDrop::new(|| panic!("in drop"));
    let (handle, source) = (event_loop.handle(), left.clone());
    event_loop
        .add_reader(&left, move || {
            let _captured = &captured;
            handle.remove_reader(&source);
        })
        .unwrap();
    send(&right, b"x");
    settle(&event_loop);
    assert_eq!(reports.take(), ["Exception in callback: panicked: in drop"]);
    assert!(!event_loop.remove_reader(&left));
    still_works(&event_loop);
}

#[test]
fn close_drops_everything_though_one_capture_panics() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let dropped = Trace::new();
    for word in ["one", "two", "three"] {
        let dropped = dropped.clone();
        let captured = OnDrop::new(move || {
            dropped.push(word);
            assert_ne!(word, "two", "in drop");
        });
        event_loop.call_later(Duration::from_secs(1), move || drop(captured));
    }
    let _ = catch_unwind(AssertUnwindSafe(|| event_loop.close()));
    assert!(event_loop.is_closed());
    let mut words = dropped.lines();
    words.sort();
    assert_eq!(words, ["one", "three", "two"]);
}

#[test]
fn without_a_handler_the_report_is_logged_as_an_error() {
    let event_loop = EventLoop::new().unwrap();
    let log = Trace::new();
    let _capture = logged(&log);
    event_loop.call_soon(|| panic!("boom"));
    tick(&event_loop);
    assert_eq!(log.lines(), ["log:error:callback-error:panicked: boom"]);
}

#[test]
fn a_report_by_hand_reaches_the_handler_with_its_exception() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let context = ExceptionContext::new("the disk is full").with_exception(Exception::from(Boom("x")));
    event_loop.call_exception_handler(&context);
    assert_eq!(reports.take(), ["the disk is full: error:x"]);
}
