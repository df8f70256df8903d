//! Faults in tasks: panics, misuse, re-entry; the loop goes on after each.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::panic_any;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use miniloop::{EventLoop, Exception, PanicError, RuntimeError, Task, sleep};

use crate::common::{Boom, Trace, raise, yields};
use crate::support::{Drops, OnDrop, Reports, misuse, raised, settle, still_works, tick};

#[test]
fn a_panic_in_a_task_is_its_exception() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let _captured = captured;
        yields(1).await?;
        if drops_nothing() {
            panic!("boom {}", 1);
        }
        Ok(1)
    });
    settle(&event_loop);
    assert_eq!(raised::<PanicError, _>(task.result()).message(), "boom 1");
    assert_eq!(drops.count(), 1);
    still_works(&event_loop);
}

/// Hides from the compiler that what follows is unreachable.
fn drops_nothing() -> bool {
    std::hint::black_box(true)
}

#[test]
fn an_exception_thrown_by_a_task_is_its_exception_as_it_is() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        if drops_nothing() {
            raise("own");
        }
        Ok(1)
    });
    settle(&event_loop);
    assert_eq!(raised::<Boom, _>(task.result()), Boom("own"));
    still_works(&event_loop);
}

#[test]
fn a_panic_with_any_value_ends_the_task() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        if drops_nothing() {
            panic_any(OnDropPanics);
        }
        Ok(1)
    });
    settle(&event_loop);
    raised::<PanicError, _>(task.result());
    still_works(&event_loop);
}

/// The payload of a panic that panics once more when it is dropped.
struct OnDropPanics;

impl Drop for OnDropPanics {
    fn drop(&mut self) {
        panic!("in the drop of the payload")
    }
}

#[test]
fn a_panic_of_the_main_task_is_raised_by_run_until_complete() {
    let event_loop = EventLoop::new().unwrap();
    let outcome = event_loop.run_until_complete(async {
        if drops_nothing() {
            panic!("boom");
        }
        Ok(1)
    });
    assert_eq!(raised::<PanicError, _>(outcome).message(), "boom");
    still_works(&event_loop);
}

#[test]
fn a_panic_of_a_background_task_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    drop(event_loop.create_task(async {
        if drops_nothing() {
            panic!("boom");
        }
        Ok(1)
    }));
    settle(&event_loop);
    assert_eq!(
        reports.take(),
        ["Task exception was never retrieved: panicked: boom"]
    );
    still_works(&event_loop);
}

#[test]
fn an_awaiter_gets_the_panic_of_the_task_it_awaits() {
    let event_loop = EventLoop::new().unwrap();
    let inner = event_loop.create_task(async {
        if drops_nothing() {
            panic!("boom");
        }
        Ok(1)
    });
    let outcome = event_loop.run_until_complete(async move { inner.await });
    assert_eq!(raised::<PanicError, _>(outcome).message(), "boom");
    still_works(&event_loop);
}

#[test]
fn a_capture_that_panics_when_a_cancelled_task_is_dropped_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let captured = OnDrop::new(|| panic!("in drop"));
    let task = event_loop.create_task(async move {
        let _captured = captured;
        poll_fn(|_| Poll::<()>::Pending).await;
        Ok(())
    });
    tick(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(task.done());
    still_works(&event_loop);
}

#[test]
fn an_output_that_panics_when_it_is_dropped_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    drop(event_loop.create_task(async { Ok(OnDrop::new(|| panic!("in drop"))) }));
    settle(&event_loop);
    assert_eq!(
        reports.take(),
        ["Exception while a future was dropped: panicked: in drop"]
    );
    still_works(&event_loop);
}

#[test]
fn a_local_that_panics_at_the_end_of_a_coroutine_is_the_tasks_exception() {
    let event_loop = EventLoop::new().unwrap();
    let task = event_loop.create_task(async {
        let _local = OnDrop::new(|| panic!("in drop"));
        Ok(1)
    });
    settle(&event_loop);
    assert_eq!(raised::<PanicError, _>(task.result()).message(), "in drop");
    still_works(&event_loop);
}

#[test]
fn a_task_that_awaits_itself_is_told() {
    let event_loop = EventLoop::new().unwrap();
    let own: Rc<RefCell<Option<Task<u32>>>> = Rc::default();
    let task = event_loop.create_task({
        let own = Rc::clone(&own);
        async move {
            yields(1).await?;
            let itself = own.take().unwrap();
            itself.await
        }
    });
    *own.borrow_mut() = Some(task.clone());
    settle(&event_loop);
    assert_eq!(misuse(task.result()), RuntimeError::AwaitsItself);
    still_works(&event_loop);
}

#[test]
fn a_task_may_drop_the_last_handle_of_itself_while_it_runs() {
    let event_loop = EventLoop::new().unwrap();
    let own: Rc<RefCell<Option<Task<()>>>> = Rc::default();
    let events = Trace::new();
    let task = event_loop.create_task({
        let (own, events) = (Rc::clone(&own), events.clone());
        async move {
            drop(own.take());
            yields(1).await?;
            events.push("went on");
            Ok(())
        }
    });
    *own.borrow_mut() = Some(task);
    settle(&event_loop);
    assert_eq!(events.lines(), ["went on"]);
    still_works(&event_loop);
}

#[test]
fn close_fails_the_tasks_that_were_pending_and_reports_their_number() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let drops = Drops::default();
    let tasks = [(); 3].map(|()| {
        let captured = drops.counted();
        event_loop.create_task(async move {
            let _captured = captured;
            sleep(Duration::from_secs(3600)).await
        })
    });
    tick(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 3);
    assert_eq!(reports.take(), ["3 tasks were destroyed but they are pending!"]);
    for task in tasks {
        assert_eq!(misuse(task.result()), RuntimeError::LoopClosed);
    }
}

#[test]
fn close_with_one_pending_task_reports_it_in_the_singular() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let _task = event_loop.create_task(async { Ok(1) });
    event_loop.close().unwrap();
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn close_without_pending_tasks_reports_nothing() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    event_loop.run_until_complete(async { yields(2).await }).unwrap();
    event_loop.close().unwrap();
    assert_eq!(reports.take(), [""; 0]);
}

#[test]
fn a_destructor_in_a_coroutine_dropped_by_close_may_create_a_task() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let failed = Rc::new(Cell::new(None));
    let (handle, seen) = (event_loop.handle(), Rc::clone(&failed));
    let held = OnDrop::new(move || {
        let late = handle.create_task(async { Ok(1) });
        seen.set(Some(misuse(late.result())));
    });
    let _task = event_loop.create_task(async move {
        let _held = held;
        sleep(Duration::from_secs(3600)).await
    });
    tick(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(failed.get(), Some(RuntimeError::LoopClosed));
}

#[test]
fn a_failed_task_reported_by_its_drop_may_use_the_loop_in_the_handler() {
    let event_loop = EventLoop::new().unwrap();
    let events = Trace::new();
    let inner = events.clone();
    event_loop.set_exception_handler(move |handle, context| {
        inner.push(context.message.to_string());
        let mark = inner.mark("task of the handler");
        handle.create_task(async move {
            mark();
            Ok(())
        });
    });
    let task = event_loop.create_task(async { Err::<u32, _>(Exception::from(Boom("x"))) });
    tick(&event_loop);
    drop(task);
    settle(&event_loop);
    assert_eq!(
        events.lines(),
        ["Task exception was never retrieved", "task of the handler"]
    );
    still_works(&event_loop);
}

#[test]
fn a_pending_future_of_another_loop_is_refused_by_run_until_complete() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let future = second.create_future::<u32>();
    let outcome = first.run_until_complete(future.clone());
    assert_eq!(misuse(outcome), RuntimeError::OtherLoop);
    future.set_result(1).unwrap();
    assert_eq!(second.run_until_complete(future).unwrap(), 1);
    still_works(&first);
    still_works(&second);
}

#[test]
fn a_task_that_awaits_a_pending_future_of_another_loop_is_told() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let slept = second.sleep(Duration::ZERO);
    let task = first.create_task(async move {
        let error = misuse(slept.clone().await);
        Ok((error, slept))
    });
    let (error, slept) = first.run_until_complete(task).unwrap();
    assert_eq!(error, RuntimeError::OtherLoop);
    settle(&second);
    // What is done already needs no loop.
    first.run_until_complete(async move { slept.await }).unwrap();
    still_works(&first);
    still_works(&second);
}

#[test]
fn tasks_that_wait_for_each_other_in_a_circle_can_be_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let other: Rc<RefCell<Option<Task<u32>>>> = Rc::default();
    let later = Rc::clone(&other);
    let one = event_loop.create_task(async move {
        let second = later.take().unwrap();
        second.await
    });
    let awaited = one.clone();
    let two = event_loop.create_task(async move { awaited.await });
    *other.borrow_mut() = Some(two.clone());
    settle(&event_loop);
    assert!(!one.done() && !two.done());
    assert!(one.cancel());
    settle(&event_loop);
    assert!(one.cancelled() && two.cancelled());
    still_works(&event_loop);
}
