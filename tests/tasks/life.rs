//! The life of a task: which one is running, which ones there are, their names and handles.

use std::cell::RefCell;
use std::collections::HashSet;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use miniloop::{
    AnyTask, EventLoop, Exception, Future, RuntimeError, Task, all_tasks, create_task, current_task,
    get_running_loop, sleep, yield_now,
};

use crate::common::{Boom, Trace, virtual_loop, yields};
use crate::support::{
    Drops, OnDrop, Reports, misuse, nothing_is_left, settle, still_works, tick, wake_and_yield,
};

/// The name of the current task.
fn current_name() -> Option<String> {
    current_task().map(|task| task.get_name())
}

/// The names of the tasks that have not ended, in order, as often as they are listed.
fn names(tasks: Vec<AnyTask>) -> Vec<String> {
    let mut names: Vec<String> = tasks.iter().map(AnyTask::get_name).collect();
    names.sort_unstable();
    names
}

// brief: XT-5
#[test]
fn the_current_task_is_the_one_whose_step_it_is() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(async {
        let first = current_task().unwrap();
        sleep(Duration::from_secs(1)).await?;
        let nested = async { current_task() }.await;
        Ok((first, nested))
    });
    let itself = task.to_any();
    let (first, nested) = event_loop.run_until_complete(task).unwrap();
    assert_eq!((&first, nested.as_ref()), (&itself, Some(&itself)));
}

// brief: XT-5
#[test]
fn there_is_no_current_task_in_a_callback_or_outside_of_a_loop() {
    let (event_loop, _) = virtual_loop();
    assert_eq!(current_task(), None);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = |log: &Rc<RefCell<Vec<Option<String>>>>| {
        let log = log.clone();
        move || log.borrow_mut().push(current_name())
    };
    event_loop.call_soon(log(&seen));
    event_loop.call_later(Duration::ZERO, log(&seen));
    let task = event_loop.create_task(async { Ok(()) });
    let done = log(&seen);
    task.add_done_callback(move |_| done());
    // In the destructor of what a callback has captured as well.
    let dropped = OnDrop::new(log(&seen));
    event_loop.call_soon(move || drop(dropped));
    settle(&event_loop);
    assert_eq!(*seen.borrow(), [None, None, None, None]);
    assert_eq!(current_task(), None);
}

// brief: XT-5
#[test]
fn there_is_no_current_task_after_a_step_that_failed_or_panicked() {
    let (event_loop, _) = virtual_loop();
    let _reports = Reports::of(&event_loop);
    event_loop.create_task(async { Err::<(), Exception>(Boom("failed").into()) });
    event_loop.create_task(async {
        if current_task().is_some() {
            panic!("in a step");
        }
        Ok(())
    });
    let seen = Rc::new(RefCell::new(None));
    let log = seen.clone();
    event_loop.call_soon(move || drop(log.replace(Some(current_task()))));
    tick(&event_loop);
    assert_eq!(seen.take(), Some(None));
}

// brief: XT-5
#[test]
fn the_current_task_is_the_outer_one_inside_a_combinator() {
    let (event_loop, _) = virtual_loop();
    let seen = event_loop.run_until_complete(async {
        // `join!` polls its halves with the task's waker, or with one of its own.
        let halves = futures_util::future::join(async { (current_task(), yields(1).await).0 }, async {
            (yields(2).await, current_task()).1
        });
        let (one, two) = halves.await;
        let itself = current_task();
        Ok(one == itself && two == itself)
    });
    assert!(seen.unwrap());
}

// brief: XT-5
#[test]
fn all_tasks_lists_each_unfinished_task_once() {
    let (event_loop, _) = virtual_loop();
    let never = event_loop.create_future::<()>();
    let builder = |name: &str| event_loop.task_builder().name(name);
    let awaited = never.clone();
    let suspended = builder("suspended").create_task(async move { awaited.await });
    let done = builder("done").create_task(async { Ok(()) });
    let foreign = builder("foreign").create_task(async {
        for _ in 0..1000 {
            wake_and_yield().await;
        }
        Ok(())
    });
    tick(&event_loop);
    assert!(done.done());
    let unstarted = builder("unstarted").create_task(async { Ok(()) });
    let cancelled = builder("cancelled").create_task(async { Ok(()) });
    cancelled.cancel();
    never.set_result(()).unwrap();
    // One is suspended and scheduled at the same time, in two ways.
    let expected = ["cancelled", "foreign", "suspended", "unstarted"];
    assert_eq!(names(event_loop.all_tasks()), expected);
    assert!(all_tasks().is_empty(), "no loop is running");
    tick(&event_loop);
    assert_eq!(names(event_loop.all_tasks()), ["foreign"]);
    assert!(suspended.done() && unstarted.done() && cancelled.cancelled());
    foreign.cancel();
    settle(&event_loop);
    assert!(event_loop.all_tasks().is_empty());
}

// brief: XT-5
#[test]
fn a_task_finds_itself_among_all_tasks_from_its_first_step_to_its_last() {
    let (event_loop, _) = virtual_loop();
    let listed = || {
        let itself = current_task().unwrap();
        all_tasks().iter().filter(|task| **task == itself).count()
    };
    let counts = event_loop.run_until_complete(async move {
        let first = listed();
        yields(1).await?;
        let second = listed();
        wake_and_yield().await;
        Ok([first, second, listed()])
    });
    assert_eq!(counts.unwrap(), [1, 1, 1]);
}

// brief: XT-5
#[test]
fn all_tasks_are_those_of_one_loop() {
    let (one, two) = (virtual_loop().0, virtual_loop().0);
    let _reports = (Reports::of(&one), Reports::of(&two));
    one.task_builder().name("of one").create_task(async { Ok(()) });
    let handle = one.handle();
    let task = two
        .task_builder()
        .name("of two")
        .create_task(async move { Ok((names(all_tasks()), names(handle.all_tasks()))) });
    let (running, other) = two.run_until_complete(task).unwrap();
    assert_eq!(
        (running, other),
        (vec!["of two".to_owned()], vec!["of one".to_owned()])
    );
    one.close().unwrap();
    assert!(one.all_tasks().is_empty());
}

// brief: XT-5
#[test]
fn a_destructor_may_ask_for_all_tasks_while_one_ends() {
    let (event_loop, _) = virtual_loop();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (handle, log) = (event_loop.handle(), seen.clone());
    let guard = OnDrop::new(move || drop(log.replace(names(handle.all_tasks()))));
    event_loop.task_builder().name("ends").create_task(async move {
        let _guard = guard;
        yields(1).await
    });
    let left = event_loop
        .task_builder()
        .name("left")
        .create_task(async { yields(5).await });
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(*seen.borrow(), ["ends", "left"], "it is in its last step");
    event_loop.run_until_complete(left).unwrap();
}

// brief: XT-5
#[test]
fn a_task_has_a_number_for_a_name_until_it_is_given_one() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(async { Ok(current_name()) });
    let other = event_loop.create_task(async { Ok(current_name()) });
    assert!(task.get_name().starts_with("Task-"));
    assert_ne!(task.get_name(), other.get_name());
    let named = event_loop
        .task_builder()
        .name("worker")
        .create_task(async { Ok(current_name()) });
    assert_eq!(named.get_name(), "worker");
    assert!(format!("{named:?}").contains("worker"));
    other.set_name("renamed");
    let names = event_loop.run_until_complete(async move { Ok([task.await?, other.await?, named.await?]) });
    let [first, second, third] = names.unwrap().map(Option::unwrap);
    assert!(first.starts_with("Task-"));
    assert_eq!([second, third], ["renamed", "worker"]);
}

/// A task that waits for the first of the futures, and keeps the second, which it has polled before.
fn waits_for_two(event_loop: &EventLoop) -> (Task<()>, [Future<()>; 2]) {
    let futures = [event_loop.create_future(), event_loop.create_future()];
    let [mut kept, mut awaited] = futures.clone();
    let task = event_loop.create_task(async move {
        poll_fn(|cx| {
            assert!(Pin::new(&mut kept).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        yield_now().await?;
        (&mut awaited).await?;
        kept.await
    });
    tick(event_loop);
    tick(event_loop);
    (task, futures)
}

#[test]
fn a_name_that_is_set_in_the_middle_of_a_wait_changes_nothing_about_it() {
    let (event_loop, _) = virtual_loop();
    let (task, [kept, awaited]) = waits_for_two(&event_loop);
    task.set_name("in the middle");
    awaited.set_result(()).unwrap();
    tick(&event_loop);
    assert!(!task.done());
    kept.set_result(()).unwrap();
    tick(&event_loop);
    assert!(task.done() && !task.cancelled());
}

#[test]
fn a_task_that_was_named_in_the_middle_of_a_wait_is_cancelled_at_that() {
    let (event_loop, _) = virtual_loop();
    for is_named in [false, true] {
        let (task, [kept, awaited]) = waits_for_two(&event_loop);
        if is_named {
            task.set_name("in the middle");
        }
        task.cancel();
        // Not what it has polled in another step.
        assert!(awaited.cancelled() && !kept.done());
        tick(&event_loop);
        assert!(task.cancelled());
    }
}

// brief: XT-5
#[test]
fn a_name_is_kept_when_the_task_has_ended_and_can_still_be_changed() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop
        .task_builder()
        .name("one")
        .create_task(async { Ok(()) });
    let any = task.to_any();
    event_loop.run_until_complete(task.clone()).unwrap();
    assert_eq!(any.get_name(), "one");
    any.set_name(String::from("two"));
    assert_eq!(task.get_name(), "two");
}

// brief: XT-5
#[test]
fn a_report_about_a_task_says_its_name() {
    let (event_loop, _) = virtual_loop();
    let seen = Rc::new(RefCell::new(None));
    let log = seen.clone();
    event_loop.set_exception_handler(move |_, context| drop(log.replace(context.task_name.clone())));
    drop(
        event_loop
            .task_builder()
            .name("unlucky")
            .create_task(async { Err::<(), Exception>(Boom("unseen").into()) }),
    );
    tick(&event_loop);
    assert_eq!(seen.take().as_deref(), Some("unlucky"));
}

// brief: XT-5
#[test]
fn create_task_outside_of_a_loop_has_failed_and_drops_the_coroutine() {
    let drops = Drops::default();
    let captured = drops.counted();
    let task = create_task(async move {
        let _captured = captured;
        Ok(1)
    });
    assert!(task.done() && !task.cancelled());
    assert_eq!(drops.count(), 1);
    assert_eq!(misuse(task.result()), RuntimeError::NoRunningLoop);
    assert!(
        task.result()
            .unwrap_err()
            .to_string()
            .contains("no running event loop")
    );
    assert!(!task.cancel());
    assert!(task.to_any().done());
    assert!(all_tasks().is_empty());
}

// brief: XT-5
#[test]
fn create_task_uses_the_running_loop() {
    let (event_loop, _) = virtual_loop();
    let value = event_loop.run_until_complete(async {
        let task = create_task(async { Ok(get_running_loop().is_ok()) });
        assert!(!task.done());
        task.await
    });
    assert!(value.unwrap());
}

// brief: XT-5
#[test]
fn handles_are_equal_if_they_are_of_one_task() {
    let (event_loop, _) = virtual_loop();
    let one = event_loop.create_task(async { Ok(1) });
    let two = event_loop.create_task(async { Ok("two") });
    assert_eq!(one.to_any(), one.clone().to_any());
    assert_ne!(one.to_any(), two.to_any());
    let mut set = HashSet::from([one.to_any(), two.to_any(), one.to_any()]);
    assert_eq!(set.len(), 2);
    assert!(event_loop.all_tasks().iter().all(|task| set.contains(task)));
    settle(&event_loop);
    assert!(set.remove(&one.to_any()), "also when it has ended");
    assert!(!set.contains(&one.to_any()) && set.contains(&two.to_any()));
}

// brief: XT-5
#[test]
fn a_handle_without_the_type_does_what_the_task_does() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(async { sleep(Duration::from_secs(9)).await });
    let any = task.to_any();
    tick(&event_loop);
    assert!(any.cancel_with("enough") && any.cancel());
    assert_eq!((any.cancelling(), task.cancelling()), (2, 2));
    assert_eq!((any.uncancel(), task.cancelling()), (1, 1));
    assert!(!any.done() && !any.cancelled());
    settle(&event_loop);
    assert!(any.done() && any.cancelled());
    assert!(any.exception().is_none(), "cancelled is not failed");
    assert!(!any.cancel());
    assert!(format!("{any:?}").contains("done: true"));

    let failed = event_loop.create_task(async { Err::<(), Exception>(Boom("x").into()) });
    let reports = Reports::of(&event_loop);
    let any = failed.to_any();
    drop(failed);
    assert!(any.exception().is_none(), "not yet");
    settle(&event_loop);
    assert!(any.exception().unwrap().is::<Boom>() && !any.cancelled());
    drop(any);
    assert!(reports.take().is_empty(), "it was looked at");
}

// brief: XT-5
#[test]
fn a_handle_without_the_type_keeps_the_result_for_those_with_it() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(async { Ok(String::from("kept")) });
    let any = task.to_any();
    settle(&event_loop);
    assert!(any.done());
    assert_eq!(event_loop.run_until_complete(task.take()).unwrap(), "kept");
}

// brief: XT-5
#[test]
fn dropping_every_handle_detaches_and_never_cancels() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let start = |name: &'static str, event_loop: &EventLoop| -> Task<()> {
        let trace = trace.clone();
        event_loop.create_task(async move {
            trace.push(format!("{name} starts"));
            sleep(Duration::from_secs(1)).await?;
            trace.push(format!("{name} ends"));
            Ok(())
        })
    };
    // Before the first step, while it is suspended, and in a step of its own.
    drop(start("one", &event_loop));
    let two = start("two", &event_loop);
    let kept: Rc<RefCell<Vec<AnyTask>>> = Rc::default();
    let (own, log) = (kept.clone(), trace.clone());
    let three = event_loop.create_task(async move {
        own.take();
        yields(1).await?;
        log.push("three ends");
        Ok(())
    });
    kept.borrow_mut().push(three.to_any());
    drop(three);
    tick(&event_loop);
    drop((two.to_any(), two.clone()));
    drop(two);
    assert_eq!(event_loop.all_tasks().len(), 3);
    event_loop.run_until_complete(sleep_on(&event_loop)).unwrap();
    assert_eq!(
        trace.lines(),
        ["one starts", "two starts", "three ends", "one ends", "two ends"]
    );
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

fn sleep_on(event_loop: &EventLoop) -> miniloop::Future<()> {
    event_loop.sleep(Duration::from_secs(5))
}
