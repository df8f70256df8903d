//! Whatever the loop calls may call the loop: nothing the loop holds is borrowed meanwhile.

use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, RuntimeError, Source};

use crate::common::{Stream, Trace, pair, send};
use crate::support::{OnDrop, Reports, misuse, settle, still_works};

/// Everything a callback can ask of its loop that changes what the loop holds. A
/// call that met a held borrow would panic, and the panic would be in the reports.
fn use_everything(handle: &LoopHandle, source: &Source<Stream>, done: &Trace) {
    handle.call_soon(|| {}).cancel();
    handle.call_soon(done.mark("callback"));
    handle.call_later(Duration::from_secs(3600), || {}).cancel();
    handle.call_later(Duration::ZERO, done.mark("timer"));
    handle.remove_writer(source);
    handle.add_writer(source, || {}).unwrap();
    assert!(handle.remove_writer(source));
    let (near, far) = pair();
    handle.add_reader(&near, done.mark("unread")).unwrap();
    handle.add_writer(&near, done.mark("unwritten")).unwrap();
    send(&far, b"x");
    assert!(handle.remove_reader(&near) && handle.remove_writer(&near));
    drop((handle.sock_recv(&near, 1), handle.sleep(Duration::ZERO), near));
    let future = handle.create_future();
    let mark = done.mark("done callback");
    future.add_done_callback(move |_| mark());
    let key = future.add_done_callback(|_| {});
    assert!(future.remove_done_callback(key));
    future.set_result(()).unwrap();
    handle.create_future::<()>().cancel();
    let mark = done.mark("task");
    handle.create_task(async move {
        mark();
        Ok(())
    });
    let cancelled = handle.create_task(async { Ok(()) });
    cancelled.cancel();
}

const ALL: [&str; 4] = ["callback", "done callback", "task", "timer"];

/// Lets something reach the loop from where `schedule` puts it, once.
fn reentered_from(schedule: impl FnOnce(&Rc<EventLoop>, Source<Stream>, Box<dyn FnOnce()>)) {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let reports = Reports::of(&event_loop);
    let done = Trace::new();
    let (left, right) = pair();
    send(&right, b"x");
    let action = {
        let (handle, source, done) = (event_loop.handle(), left.clone(), done.clone());
        Box::new(move || use_everything(&handle, &source, &done))
    };
    schedule(&event_loop, left, action);
    settle(&event_loop);
    let mut words = done.lines();
    words.sort();
    assert_eq!(reports.take(), [""; 0]);
    assert_eq!(words, ALL);
    still_works(&event_loop);
}

#[test]
fn a_callback_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        event_loop.call_soon(action);
    });
}

#[test]
fn a_timer_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        event_loop.call_later(Duration::ZERO, action);
    });
}

#[test]
fn a_done_callback_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        let future = event_loop.create_future();
        future.add_done_callback(move |_| action());
        future.set_result(()).unwrap();
    });
}

#[test]
fn a_task_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        event_loop.create_task(async move {
            action();
            Ok(())
        });
    });
}

#[test]
fn a_reader_may_use_the_loop_and_remove_itself() {
    reentered_from(|event_loop, source, action| {
        let (handle, watched) = (event_loop.handle(), source.clone());
        let mut action = Some(action);
        let reader = move || {
            assert!(handle.remove_reader(&watched));
            action.take().unwrap()();
        };
        event_loop.add_reader(&source, reader).unwrap();
    });
}

#[test]
fn a_reader_may_replace_itself() {
    reentered_from(|event_loop, source, action| {
        let (handle, watched) = (event_loop.handle(), source.clone());
        let mut action = Some(action);
        let first = move || {
            let (inner, again) = (handle.clone(), watched.clone());
            let mut action = action.take();
            let second = move || {
                assert!(inner.remove_reader(&again));
                action.take().unwrap()();
            };
            handle.add_reader(&watched, second).unwrap();
        };
        event_loop.add_reader(&source, first).unwrap();
    });
}

#[test]
fn the_exception_handler_may_use_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let done = Trace::new();
    let (left, _right) = pair();
    event_loop.set_exception_handler({
        let done = done.clone();
        move |handle, _| use_everything(handle, &left, &done)
    });
    event_loop.call_soon(|| panic!("boom"));
    settle(&event_loop);
    let mut words = done.lines();
    words.sort();
    assert_eq!(words, ALL);
    still_works(&event_loop);
}

#[test]
fn a_destructor_run_by_cancel_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        let held = OnDrop::new(action);
        event_loop.call_soon(move || drop(held)).cancel();
    });
}

#[test]
fn a_destructor_of_a_cancelled_timer_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        let held = OnDrop::new(action);
        let timer = event_loop.call_later(Duration::from_secs(3600), move || drop(held));
        timer.cancel();
    });
}

#[test]
fn a_destructor_run_by_remove_reader_may_use_the_loop() {
    reentered_from(|event_loop, source, action| {
        let held = OnDrop::new(action);
        let reader = move || {
            let _held = &held;
        };
        event_loop.add_reader(&source, reader).unwrap();
        assert!(event_loop.remove_reader(&source));
    });
}

#[test]
fn a_destructor_of_a_replaced_reader_may_use_the_loop() {
    reentered_from(|event_loop, source, action| {
        let held = OnDrop::new(action);
        let reader = move || {
            let _held = &held;
        };
        event_loop.add_reader(&source, reader).unwrap();
        let (handle, watched) = (event_loop.handle(), source.clone());
        let second = move || {
            handle.remove_reader(&watched);
        };
        event_loop.add_reader(&source, second).unwrap();
    });
}

#[test]
fn a_destructor_of_a_removed_done_callback_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        let held = OnDrop::new(action);
        let future = event_loop.create_future::<()>();
        let key = future.add_done_callback(move |_| drop(held));
        assert!(future.remove_done_callback(key));
    });
}

#[test]
fn a_destructor_in_a_finished_coroutine_may_use_the_loop() {
    reentered_from(|event_loop, _, action| {
        let held = OnDrop::new(action);
        event_loop.create_task(async move {
            let _held = held;
            Ok(())
        });
    });
}

#[test]
fn a_destructor_of_a_replaced_exception_handler_may_use_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let done = Trace::new();
    let (left, _right) = pair();
    let (handle, inner) = (event_loop.handle(), done.clone());
    let held = OnDrop::new(move || use_everything(&handle, &left, &inner));
    event_loop.set_exception_handler(move |_, _| {
        let _held = &held;
    });
    event_loop.clear_exception_handler();
    settle(&event_loop);
    let mut words = done.lines();
    words.sort();
    assert_eq!(words, ALL);
    still_works(&event_loop);
}

#[test]
fn a_destructor_run_between_two_runs_may_close_the_loop() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let inner = Rc::clone(&event_loop);
    let held = OnDrop::new(move || inner.close().unwrap());
    event_loop.call_soon(move || drop(held)).cancel();
    assert!(event_loop.is_closed());
    assert_eq!(misuse(event_loop.run_once()), RuntimeError::LoopClosed);
}

#[test]
fn a_destructor_run_by_close_may_close_the_loop_again() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let closed = Trace::new();
    let (inner, seen) = (Rc::downgrade(&event_loop), closed.clone());
    let held = OnDrop::new(move || {
        inner.upgrade().unwrap().close().unwrap();
        seen.push("closed again");
    });
    event_loop.call_later(Duration::from_secs(1), move || drop(held));
    event_loop.close().unwrap();
    assert!(event_loop.is_closed());
    assert_eq!(closed.lines(), ["closed again"]);
}

#[test]
fn a_destructor_in_the_running_loop_is_refused_a_close() {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let reports = Reports::of(&event_loop);
    let inner = Rc::clone(&event_loop);
    let held = OnDrop::new(move || {
        assert_eq!(misuse(inner.close()), RuntimeError::LoopRunning);
    });
    event_loop.call_soon(move || drop(held));
    settle(&event_loop);
    assert_eq!(reports.take(), [""; 0]);
    still_works(&event_loop);
}
