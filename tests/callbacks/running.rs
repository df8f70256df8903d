//! A loop that runs can not be run again or closed, from wherever one tries.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use miniloop::{EventLoop, RuntimeError, get_running_loop, sleep};

use crate::common::pair;
use crate::support::{misuse, still_works, tick};

/// What the four calls answer that a running loop must refuse.
fn refusals(event_loop: &EventLoop) -> [RuntimeError; 4] {
    [
        misuse(event_loop.run_once()),
        misuse(event_loop.run_forever()),
        misuse(event_loop.run_until_complete(async { Ok(1) })),
        misuse(event_loop.close()),
    ]
}

type Seen = Rc<RefCell<Vec<[RuntimeError; 4]>>>;

/// Where the loop is asked from; every way ends in one entry in `Seen`.
fn asked_from(schedule: impl FnOnce(&Rc<EventLoop>, Seen)) {
    let event_loop = Rc::new(EventLoop::new().unwrap());
    let seen = Seen::default();
    schedule(&event_loop, Rc::clone(&seen));
    for _ in 0..5 {
        tick(&event_loop);
    }
    assert_eq!(seen.take(), [[RuntimeError::LoopRunning; 4]]);
    still_works(&event_loop);
}

#[test]
fn a_callback_can_not_run_or_close_its_loop() {
    asked_from(|event_loop, seen| {
        let inner = Rc::clone(event_loop);
        event_loop.call_soon(move || seen.borrow_mut().push(refusals(&inner)));
    });
}

#[test]
fn a_timer_can_not_run_or_close_its_loop() {
    asked_from(|event_loop, seen| {
        let inner = Rc::clone(event_loop);
        event_loop.call_later(Duration::ZERO, move || {
            seen.borrow_mut().push(refusals(&inner));
        });
    });
}

#[test]
fn a_done_callback_can_not_run_or_close_its_loop() {
    asked_from(|event_loop, seen| {
        let inner = Rc::clone(event_loop);
        let future = event_loop.create_future();
        future.add_done_callback(move |_| seen.borrow_mut().push(refusals(&inner)));
        future.set_result(()).unwrap();
    });
}

#[test]
fn a_writer_can_not_run_or_close_its_loop() {
    let (left, _right) = pair();
    asked_from(|event_loop, seen| {
        // the loop that the closure holds and that holds the closure: the writer takes itself out
        let (inner, source) = (Rc::clone(event_loop), left.clone());
        let writer = move || {
            seen.borrow_mut().push(refusals(&inner));
            inner.remove_writer(&source);
        };
        event_loop.add_writer(&left, writer).unwrap();
    });
}

// brief: TA-11
#[test]
fn a_task_can_not_run_or_close_its_loop() {
    asked_from(|event_loop, seen| {
        let inner = Rc::clone(event_loop);
        event_loop.create_task(async move {
            seen.borrow_mut().push(refusals(&inner));
            Ok(())
        });
    });
}

#[test]
fn a_second_loop_can_not_run_inside_the_first() {
    let first = EventLoop::new().unwrap();
    let second = Rc::new(EventLoop::new().unwrap());
    let inner = Rc::clone(&second);
    let seen = first.run_until_complete(async move {
        // the second is refused, not broken: it can be closed or scheduled on, and runs later
        Ok([
            misuse(inner.run_once()),
            misuse(inner.run_forever()),
            misuse(inner.run_until_complete(async { Ok(1) })),
        ])
    });
    assert_eq!(seen.unwrap(), [RuntimeError::OtherLoopRunning; 3]);
    still_works(&second);
    still_works(&first);
}

#[test]
fn a_second_loop_may_be_closed_from_inside_the_first() {
    let first = EventLoop::new().unwrap();
    let second = EventLoop::new().unwrap();
    let closed = first.run_until_complete(async move {
        second.close()?;
        Ok(second.is_closed())
    });
    assert!(closed.unwrap());
    still_works(&first);
}

#[test]
fn the_running_loop_is_the_first_again_after_a_refused_second() {
    let first = EventLoop::new().unwrap();
    let answered = first.run_until_complete(async {
        let second = EventLoop::new()?;
        misuse(second.run_once());
        drop(second);
        get_running_loop()?.sleep(Duration::ZERO).await?;
        Ok(1)
    });
    assert_eq!(answered.unwrap(), 1);
    assert_eq!(misuse(get_running_loop()), RuntimeError::NoRunningLoop);
}

/// Runs a loop when it is dropped, and tells what was found there.
#[derive(Default)]
struct RunsAtThreadEnd(Option<mpsc::Sender<bool>>);

impl Drop for RunsAtThreadEnd {
    fn drop(&mut self) {
        if let Some(found) = self.0.take() {
            found.send(finds_itself()).unwrap();
        }
    }
}

thread_local! {
    static AT_THREAD_END: RefCell<RunsAtThreadEnd> = RefCell::default();
}

/// Whether the running loop is found from its coroutine.
fn finds_itself() -> bool {
    let event_loop = EventLoop::new().unwrap();
    let found = event_loop.run_until_complete(async {
        sleep(Duration::ZERO).await?;
        get_running_loop()?.create_task(async { Ok(()) }).await?;
        Ok(true)
    });
    found.unwrap_or(false) && get_running_loop().is_err()
}

#[test]
fn a_loop_that_runs_in_the_destructor_of_a_thread_local_is_found_there() {
    // Destructors run in an order that depends on which thread local was first used first.
    for first_used_before_the_loop in [true, false] {
        let (found, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let leave = || AT_THREAD_END.set(RunsAtThreadEnd(Some(found)));
            if first_used_before_the_loop {
                leave();
                assert!(finds_itself());
            } else {
                assert!(finds_itself());
                leave();
            }
        });
        thread.join().unwrap();
        assert!(told.recv().unwrap());
    }
}
