//! A closed loop is inert: every public method answers, none panics.

use std::cell::{Cell, RefCell};
use std::future::{Future as StdFuture, poll_fn};
use std::io::{ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use miniloop::{EventLoop, ExceptionContext, Future, LoopHandle, RuntimeError};

use crate::common::{Trace, capture_log, listener, pair, recv, send};
use crate::support::{Drops, OnDrop, io_misuse, misuse, tick};

fn closed_loop() -> EventLoop {
    let event_loop = EventLoop::new().unwrap();
    event_loop.close().unwrap();
    event_loop
}

#[test]
fn a_closed_loop_does_not_run() {
    let event_loop = closed_loop();
    assert!(event_loop.is_closed());
    assert!(!event_loop.is_running());
    assert_eq!(misuse(event_loop.run_once()), RuntimeError::LoopClosed);
    assert_eq!(misuse(event_loop.run_forever()), RuntimeError::LoopClosed);
    let ran = event_loop.run_until_complete(async { Ok(1) });
    assert_eq!(misuse(ran), RuntimeError::LoopClosed);
}

#[test]
fn a_closed_loop_can_be_closed_again() {
    let event_loop = closed_loop();
    event_loop.close().unwrap();
    assert!(event_loop.is_closed());
}

#[test]
fn scheduling_on_a_closed_loop_gives_handles_born_cancelled() {
    let event_loop = closed_loop();
    let (drops, never) = (Drops::default(), Trace::new());
    let callback = || {
        let (captured, never) = (drops.counted(), never.clone());
        move || {
            never.push("ran");
            drop(captured);
        }
    };
    let soon = event_loop.call_soon(callback());
    let later = event_loop.call_later(Duration::from_secs(1), callback());
    let at = event_loop.call_at(Duration::MAX, callback());
    assert!(soon.cancelled() && later.cancelled() && at.cancelled());
    soon.cancel();
    later.cancel();
    at.cancel();
    assert_eq!(drops.count(), 3, "the closures are dropped at once");
    assert!(never.lines().is_empty());
}

#[test]
fn readers_and_writers_are_refused_by_a_closed_loop() {
    let event_loop = closed_loop();
    let (left, _right) = pair();
    assert_eq!(
        io_misuse(event_loop.add_reader(&left, || {})),
        RuntimeError::LoopClosed
    );
    assert_eq!(
        io_misuse(event_loop.add_writer(&left, || {})),
        RuntimeError::LoopClosed
    );
    assert!(!event_loop.remove_reader(&left));
    assert!(!event_loop.remove_writer(&left));
}

#[test]
fn operations_on_a_closed_loop_have_already_failed() {
    let event_loop = closed_loop();
    let (left, _right) = pair();
    let server = listener();
    let address = server.local_addr().unwrap();
    let closed = RuntimeError::LoopClosed;
    assert_eq!(misuse(event_loop.sleep(Duration::ZERO).result()), closed);
    assert_eq!(misuse(event_loop.sleep(Duration::from_secs(1)).result()), closed);
    assert_eq!(misuse(event_loop.sock_recv(&left, 1).result()), closed);
    assert_eq!(
        misuse(event_loop.sock_recv_into(&left, vec![0; 1]).result()),
        closed
    );
    assert_eq!(misuse(event_loop.sock_sendall(&left, "x").result()), closed);
    assert_eq!(misuse(event_loop.sock_accept(&server).take_result()), closed);
    assert_eq!(misuse(event_loop.sock_connect(address).take_result()), closed);
    #[cfg(unix)]
    assert_eq!(
        misuse(event_loop.sock_connect_unix("nowhere").take_result()),
        closed
    );
    let task = event_loop.create_task(async { Ok(1) });
    assert!(task.done());
    assert_eq!(misuse(task.result()), closed);
}

/// What an await on a closed loop gives, outside of it.
fn poll_once<T: Clone + 'static>(future: &mut Future<T>) -> miniloop::Result<T> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits for a loop that is closed"),
    }
}

#[test]
fn what_was_not_done_when_the_loop_was_closed_fails_when_it_is_awaited() {
    let event_loop = EventLoop::new().unwrap();
    let ((near, far), (other, _far)) = (pair(), pair());
    let told = Rc::new(RefCell::new(event_loop.sock_recv(&near, 9)));
    let in_task = Rc::clone(&told);
    event_loop.create_task(async move { poll_fn(|cx| Pin::new(&mut *in_task.borrow_mut()).poll(cx)).await });
    tick(&event_loop);
    send(&far, b"ping");
    // It is told that there is something, and the step that is to receive it is never made.
    tick(&event_loop);
    let mut untold = event_loop.sock_recv(&other, 9);
    let mut sleep = event_loop.sleep(Duration::from_secs(1));
    event_loop.close().unwrap();
    let closed = RuntimeError::LoopClosed;
    assert_eq!(misuse(poll_once(&mut told.borrow_mut())), closed);
    assert_eq!(misuse(poll_once(&mut untold)), closed);
    assert_eq!(misuse(poll_once(&mut sleep)), closed);
    assert_eq!(recv(&near, 9), b"ping", "nothing was taken from the socket");
}

#[test]
fn a_coroutine_given_to_a_closed_loop_is_dropped_without_a_step() {
    let event_loop = closed_loop();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        Ok(1)
    });
    assert_eq!(drops.count(), 1);
    assert!(task.exception().unwrap().is_some());
}

#[test]
fn futures_of_a_closed_loop_still_hold_their_result() {
    let event_loop = closed_loop();
    let future = event_loop.create_future();
    let never = Trace::new();
    let appends = never.mark("called");
    future.add_done_callback(move |_| appends());
    future.set_result(1).unwrap();
    future.add_done_callback(|_| unreachable!("nothing runs it"));
    assert_eq!(future.result().unwrap(), 1);
    assert!(never.lines().is_empty());
}

#[test]
fn other_threads_are_told_that_the_loop_is_closed() {
    let event_loop = EventLoop::new().unwrap();
    let threadsafe = event_loop.threadsafe_handle();
    let (future, completer) = event_loop.create_threadsafe_future::<u32>();
    event_loop.close().unwrap();
    assert!(threadsafe.is_closed());
    assert_eq!(
        threadsafe.call_soon_threadsafe(|| {}),
        Err(RuntimeError::LoopClosed)
    );
    assert_eq!(completer.set_result(1), Err(RuntimeError::LoopClosed));
    assert!(event_loop.threadsafe_handle().is_closed());
    let (_late, completer) = event_loop.create_threadsafe_future::<u32>();
    assert_eq!(
        completer.set_exception(RuntimeError::Abandoned),
        Err(RuntimeError::LoopClosed)
    );
    drop(future);
}

#[test]
fn the_plain_questions_are_answered_by_a_closed_loop() {
    let event_loop = EventLoop::new().unwrap();
    tick(&event_loop);
    event_loop.call_later(Duration::from_secs(1), || {});
    let (time, passes) = (event_loop.time(), event_loop.pass_count());
    event_loop.close().unwrap();
    assert!(event_loop.time() >= time);
    assert_eq!(event_loop.pass_count(), passes);
    assert_eq!(event_loop.timer_count(), 0);
    event_loop.stop();
    assert!(event_loop.is_closed() && event_loop.handle().is_closed());
}

#[test]
fn the_exception_handler_of_a_closed_loop_still_hears_reports() {
    let event_loop = closed_loop();
    let heard = Trace::new();
    event_loop.set_exception_handler({
        let heard = heard.clone();
        move |_, context| heard.push(context.message.to_string())
    });
    event_loop.call_exception_handler(&ExceptionContext::new("late"));
    assert_eq!(heard.lines(), ["late"]);
    event_loop.clear_exception_handler();
    event_loop.call_exception_handler(&ExceptionContext::new("later"));
    event_loop.default_exception_handler(&ExceptionContext::new("last"));
    assert_eq!(heard.lines(), ["late"]);
}

#[test]
fn a_handle_outlives_its_loop_and_is_inert() {
    let handle = EventLoop::new().unwrap().handle();
    assert!(handle.is_closed());
    assert!(handle.call_soon(|| {}).cancelled());
    let slept = handle.sleep(Duration::ZERO).result();
    assert_eq!(misuse(slept), RuntimeError::LoopClosed);
    handle.stop();
}

/// Everything a destructor might ask of a loop that is closing under it.
fn ask_everything_of(handle: &LoopHandle) {
    handle.call_soon(|| {}).cancel();
    handle.call_later(Duration::ZERO, || {});
    let _ = handle.create_task(async { Ok(1) }).exception();
    let _ = handle.sleep(Duration::ZERO).exception();
    handle.create_future::<()>().cancel();
    let (left, _right) = pair();
    let _ = handle.add_reader(&left, || {});
    handle.remove_reader(&left);
    handle.stop();
    handle.time();
}

#[test]
fn a_destructor_run_by_close_may_use_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let asked = Trace::new();
    let (left, _right) = pair();
    let question = |word: &'static str| {
        let (handle, asked) = (event_loop.handle(), asked.clone());
        OnDrop::new(move || {
            ask_everything_of(&handle);
            asked.push(word);
        })
    };
    let held = question("callback");
    event_loop.call_soon(move || drop(held));
    let held = question("timer");
    event_loop.call_later(Duration::from_secs(1), move || drop(held));
    let held = question("reader");
    let mut held = Some(held);
    event_loop.add_reader(&left, move || drop(held.take())).unwrap();
    let held = question("task");
    let pending = event_loop.create_future::<()>();
    event_loop.create_task(async move {
        let _held = held;
        pending.await
    });
    let held = question("handler");
    event_loop.set_exception_handler(move |_, _| {
        let _held = &held;
    });
    event_loop.close().unwrap();
    event_loop.clear_exception_handler();
    let mut words = asked.lines();
    words.sort();
    assert_eq!(words, ["callback", "handler", "reader", "task", "timer"]);
}

#[test]
fn a_loop_that_is_closing_starts_no_operation_on_a_source_that_it_knows() {
    let event_loop = EventLoop::new().unwrap();
    let refused = Rc::new(Cell::new(0));
    let (left, right) = pair();
    event_loop.add_reader(&left, || ()).unwrap();
    let question = || {
        let (handle, source, refused) = (event_loop.handle(), left.clone(), refused.clone());
        OnDrop::new(move || {
            let sent = handle.sock_sendall(&source, b"late").result();
            let received = handle.sock_recv(&source, 10).result();
            assert_eq!(misuse(sent), RuntimeError::LoopClosed);
            assert_eq!(misuse(received), RuntimeError::LoopClosed);
            refused.set(refused.get() + 1);
        })
    };
    let held = question();
    event_loop.call_soon(move || drop(held));
    let held = question();
    event_loop.call_later(Duration::from_secs(1), move || drop(held));
    let (held, pending) = (question(), event_loop.create_future::<()>());
    event_loop.create_task(async move {
        let _held = held;
        pending.await
    });
    event_loop.close().unwrap();
    assert_eq!(refused.get(), 3);
    let nothing = (&*right).read(&mut [0; 10]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
}

/// A closed loop, and a logger that has it run a callback for every line, as one that sends its
/// lines over a socket would.
fn logged_through_itself() -> (EventLoop, Rc<Cell<u32>>, impl Sized) {
    let event_loop = closed_loop();
    let lines = Rc::new(Cell::new(0));
    let (handle, counted) = (event_loop.handle(), Rc::clone(&lines));
    let capture = capture_log(move |_| {
        counted.set(counted.get() + 1);
        assert!(handle.call_soon(|| {}).cancelled());
        assert!(handle.call_later(Duration::ZERO, || {}).cancelled());
    });
    (event_loop, lines, capture)
}

#[test]
fn a_logger_may_use_the_closed_loop_it_hears_of() {
    let (event_loop, lines, _capture) = logged_through_itself();
    event_loop.call_soon(|| {});
    assert_eq!(lines.get(), 1, "what the logger itself does is not logged");
    event_loop.call_later(Duration::ZERO, || {});
    event_loop.call_at(Duration::ZERO, || {});
    assert_eq!(lines.get(), 3, "each later refusal is");
}

#[test]
fn a_logger_may_use_the_closed_loop_of_a_callback_that_is_refused() {
    let (event_loop, lines, _capture) = logged_through_itself();
    let future = event_loop.create_future();
    future.add_done_callback(|_| {});
    assert_eq!(lines.get(), 0);
    future.set_result(1).unwrap();
    assert_eq!(lines.get(), 1);
}

#[test]
fn a_logger_may_use_the_loop_that_is_closing() {
    let event_loop = EventLoop::new().unwrap();
    let lines = Rc::new(Cell::new(0));
    let (handle, counted) = (event_loop.handle(), Rc::clone(&lines));
    let _capture = capture_log(move |_| {
        counted.set(counted.get() + 1);
        handle.call_soon(|| {});
    });
    let handle = event_loop.handle();
    let held = OnDrop::new(move || drop(handle.call_soon(|| {})));
    event_loop.call_soon(move || drop(held));
    event_loop.create_task(std::future::pending::<miniloop::Result<()>>());
    event_loop.close().unwrap();
    // the destructor's callback, the report of the pending task, and what the logger did then
    assert_eq!(lines.get(), 3);
}

#[test]
fn a_logger_that_panics_is_called_again_for_the_next_refusal() {
    let event_loop = closed_loop();
    let lines = Rc::new(Cell::new(0));
    let counted = Rc::clone(&lines);
    let _capture = capture_log(move |_| {
        counted.set(counted.get() + 1);
        assert!(counted.get() > 1, "in the logger");
    });
    let refused = catch_unwind(AssertUnwindSafe(|| event_loop.call_soon(|| {})));
    assert!(refused.is_err(), "it is the caller's");
    assert!(event_loop.call_soon(|| {}).cancelled());
    assert_eq!(lines.get(), 2);
}

#[test]
fn an_exception_handler_that_holds_its_loop_is_dropped_when_that_is_closed() {
    let drops = Drops::default();
    let event_loop = EventLoop::new().unwrap();
    let (captured, handle) = (drops.counted(), event_loop.handle());
    event_loop.set_exception_handler(move |_, _| {
        let _ = (&captured, &handle);
    });
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 1);
}
