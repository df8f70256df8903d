//! Exception handlers and loggers that use the loop whose failures they hear of, open or closed.
//! What fails in them does not come back to them.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, Exception, LoopHandle, Result, sleep};

use crate::common::{Boom, capture_log, raise};
use crate::support::{settle, still_works};

type Messages = Rc<RefCell<Vec<String>>>;

/// Sets a handler that notes each report and then does this.
fn handle(event_loop: &LoopHandle, also: impl Fn(&LoopHandle) + 'static) -> Messages {
    let messages = Messages::default();
    let heard = messages.clone();
    event_loop.set_exception_handler(move |event_loop, context| {
        heard.borrow_mut().push(match &context.exception {
            Some(exception) => format!("{}: {exception}", context.message),
            None => context.message.to_string(),
        });
        assert!(heard.borrow().len() < 100, "without end");
        also(event_loop);
    });
    messages
}

/// Sends a report with a task, as to a server of logs.
fn send_by_task(event_loop: &LoopHandle) {
    event_loop.create_task(async { sleep(Duration::from_millis(1)).await });
}

/// The error lines that the loop logs.
fn error_lines() -> (Messages, impl Sized) {
    let lines = Messages::default();
    let heard = lines.clone();
    let capture = capture_log(move |record| {
        if record.level() == log::Level::Error {
            heard.borrow_mut().push(record.args().to_string());
        }
    });
    (lines, capture)
}

#[test]
fn a_handler_may_start_a_task_while_its_loop_closes() {
    let (lines, _capture) = error_lines();
    let event_loop = EventLoop::new().unwrap();
    let messages = handle(&event_loop, send_by_task);
    event_loop.create_task(pending::<Result<()>>());
    settle(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(*messages.borrow(), ["Task was destroyed but it is pending!"]);
    assert!(lines.borrow().is_empty(), "{lines:?}");
}

#[test]
fn a_handler_may_make_and_drop_all_kinds_of_futures_while_its_loop_closes() {
    let (lines, _capture) = error_lines();
    let event_loop = EventLoop::new().unwrap();
    let messages = handle(&event_loop, |event_loop| {
        drop(event_loop.sleep(Duration::from_millis(1)));
        drop(event_loop.create_future::<()>());
        drop(event_loop.create_threadsafe_future::<()>());
        drop(event_loop.create_task(async { Ok(()) }));
        event_loop.call_soon(|| {});
    });
    event_loop.create_task(pending::<Result<()>>());
    settle(&event_loop);
    drop(event_loop);
    assert_eq!(messages.borrow().len(), 1);
    assert!(lines.borrow().is_empty(), "{lines:?}");
}

#[test]
fn a_failure_that_a_handler_leaves_is_reported_by_the_default_one() {
    let (lines, _capture) = error_lines();
    let event_loop = EventLoop::new().unwrap();
    let messages = handle(&event_loop, |event_loop| {
        let future = event_loop.create_future::<()>();
        future.set_exception(Boom("again")).unwrap();
    });
    event_loop.call_soon(|| raise("first"));
    settle(&event_loop);
    assert_eq!(messages.borrow().len(), 1);
    assert_eq!(
        lines.take(),
        ["Future exception was never retrieved: error:again"]
    );
    // And the next report comes to the handler again.
    event_loop.call_soon(|| raise("second"));
    settle(&event_loop);
    assert_eq!(messages.borrow().len(), 2);
    still_works(&event_loop);
}

#[test]
fn a_report_by_hand_from_inside_a_handler_is_made_by_the_default_one() {
    let (lines, _capture) = error_lines();
    let event_loop = EventLoop::new().unwrap();
    let messages = handle(&event_loop, |event_loop| {
        event_loop.call_exception_handler(&miniloop::ExceptionContext::new("by hand"));
    });
    event_loop.call_soon(|| raise("first"));
    settle(&event_loop);
    assert_eq!(messages.borrow().len(), 1);
    assert_eq!(*lines.borrow(), ["by hand"]);
}

#[test]
fn a_handler_whose_task_fails_hears_of_that_later() {
    let (lines, _capture) = error_lines();
    let event_loop = EventLoop::new().unwrap();
    let rounds = Cell::new(0);
    let messages = handle(&event_loop, move |event_loop| {
        rounds.set(rounds.get() + 1);
        if rounds.get() < 3 {
            event_loop.create_task(async { Err::<(), _>(Exception::from(Boom("send"))) });
        }
    });
    event_loop.call_soon(|| raise("first"));
    settle(&event_loop);
    let messages = messages.borrow();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(
        messages[1].ends_with("error:send") && messages[2].ends_with("error:send"),
        "{messages:?}"
    );
    assert!(lines.borrow().is_empty(), "{lines:?}");
}

/// What logging a line does to the loop.
fn logger_that(event_loop: &LoopHandle, does: impl Fn(&LoopHandle) + 'static) -> (Rc<Cell<u32>>, impl Sized) {
    let lines = Rc::new(Cell::new(0));
    let (count, event_loop) = (lines.clone(), event_loop.clone());
    let capture = capture_log(move |record| {
        if record.level() == log::Level::Error {
            count.set(count.get() + 1);
            assert!(count.get() < 100, "without end");
        }
        does(&event_loop);
    });
    (lines, capture)
}

#[test]
fn a_logger_may_start_a_task_while_the_loop_closes() {
    let event_loop = EventLoop::new().unwrap();
    let (lines, _capture) = logger_that(&event_loop, send_by_task);
    event_loop.create_task(pending::<Result<()>>());
    settle(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(lines.get(), 1);
}

#[test]
fn a_logger_that_leaves_a_failure_is_not_called_for_it() {
    let event_loop = EventLoop::new().unwrap();
    let (lines, _capture) = logger_that(&event_loop, |event_loop| {
        let future = event_loop.create_future::<()>();
        future.set_exception(Boom("again")).unwrap();
    });
    event_loop.call_soon(|| raise("first"));
    settle(&event_loop);
    assert_eq!(lines.get(), 1);
    event_loop.call_soon(|| raise("second"));
    settle(&event_loop);
    assert_eq!(lines.get(), 2, "the next report is logged again");
    still_works(&event_loop);
}
