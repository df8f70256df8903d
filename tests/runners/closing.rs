//! `Runner`: what is done when it ends.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use miniloop::{
    ContextVar, ExceptionContext, LoopHandle, Result, Runner, RuntimeError, create_task, get_running_loop,
    run, sleep,
};

use crate::HOUR;
use crate::common::{Boom, Trace, elapsed, logged, yields};
use crate::runner::{SECOND, virtual_runner};
use crate::support::{Drops, OnDrop, Reports, Watchdog, misuse};

/// Waits for an hour and says when it is interrupted.
async fn sleeper(events: Trace) -> Result<()> {
    let slept = sleep(HOUR).await;
    if slept.is_err() {
        events.push("cancelled");
    }
    slept
}

/// Is interrupted, and then waits for what never comes.
async fn never_ends() -> Result<()> {
    let _ = sleep(HOUR).await;
    get_running_loop()?.create_future().await
}

/// Fails when it is interrupted.
async fn fails(name: &'static str) -> Result<()> {
    let _ = sleep(HOUR).await;
    Err(Boom(name).into())
}

/// Collects all that a report says.
fn contexts_reported(event_loop: &LoopHandle) -> Rc<RefCell<Vec<ExceptionContext>>> {
    let contexts = Rc::new(RefCell::new(Vec::new()));
    let reported = Rc::clone(&contexts);
    event_loop.set_exception_handler(move |_, context| reported.borrow_mut().push(context.clone()));
    contexts
}

// -- closing --------------------------------------------------------------------------------------

#[test]
fn close_cancels_and_awaits_what_all_the_mains_have_left() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let event_loop = runner.get_loop();
    for line in ["first", "second"] {
        let (event_loop, log) = (event_loop.clone(), events.clone());
        let left_over = async move {
            let slept = sleep(HOUR).await;
            sleep(SECOND).await?;
            log.push(format!("{line}@{}", elapsed(&event_loop)));
            slept
        };
        runner
            .run(async {
                create_task(left_over);
                yields(1).await
            })
            .unwrap();
    }
    assert!(events.lines().is_empty());
    runner.close().unwrap();
    assert_eq!(events.lines(), ["first@1", "second@1"]);
    assert!(event_loop.is_closed());
}

#[test]
fn close_without_anything_left_closes_the_loop() {
    let runner = virtual_runner();
    let event_loop = runner.get_loop();
    runner.close().unwrap();
    assert!(event_loop.is_closed());
    let runner = virtual_runner();
    let event_loop = runner.get_loop();
    drop(runner);
    assert!(event_loop.is_closed());
}

#[test]
fn a_task_made_between_the_mains_is_left_over_too() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let body = events.mark("body");
    let task = runner.get_loop().create_task(async move {
        body();
        Ok(())
    });
    runner.close().unwrap();
    assert!(task.cancelled(), "it had not begun");
    assert!(events.lines().is_empty());
}

#[test]
fn eager_tasks_that_were_left_are_cancelled() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let log = events.clone();
    runner
        .run(async move {
            let builder = get_running_loop()?.task_builder().eager_start(true);
            builder.create_task(sleeper(log));
            Ok(())
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["cancelled"]);
}

#[test]
fn an_eager_task_that_a_cleanup_starts_runs_to_its_first_wait_and_no_further() {
    let (runner, drops) = (virtual_runner(), Drops::default());
    let (reports, events) = (Reports::of(&runner.get_loop()), Trace::new());
    let (captured, log) = (drops.counted(), events.clone());
    runner
        .run(async {
            create_task(async move {
                let slept = sleep(HOUR).await;
                let builder = get_running_loop()?.task_builder().eager_start(true);
                builder.create_task(async move {
                    let _captured = captured;
                    log.push("begun");
                    sleeper(log).await
                });
                slept
            });
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["begun"]);
    assert_eq!(drops.count(), 1);
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn a_task_that_swallows_its_cancellation_is_awaited() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let (event_loop, log) = (runner.get_loop(), events.clone());
    runner
        .run(async {
            create_task(async move {
                let _ = sleep(HOUR).await;
                sleep(HOUR).await?;
                log.push(format!("ended@{}", elapsed(&event_loop)));
                Ok(())
            });
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["ended@3600"]);
}

#[test]
fn done_callbacks_of_the_tasks_that_were_left_still_run() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let log = events.clone();
    runner
        .run(async move {
            let task = create_task(sleeper(log.clone()));
            task.add_done_callback(move |task| log.push(format!("done, cancelled: {}", task.cancelled())));
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["cancelled", "done, cancelled: true"]);
}

/// Counts the ticks from now on, one callback in each.
fn count_ticks(event_loop: &LoopHandle, count: &Rc<Cell<u32>>) {
    count.set(count.get() + 1);
    let (again, count) = (event_loop.clone(), Rc::clone(count));
    event_loop.call_soon(move || count_ticks(&again, &count));
}

#[test]
fn close_runs_as_many_ticks_as_that_of_asyncio() {
    // Counted with CPython 3.13: one in the run itself, the others in the closing.
    for (left, expected) in [(0, 5), (1, 8), (2, 8)] {
        let (runner, count) = (virtual_runner(), Rc::new(Cell::new(0)));
        let counted = Rc::clone(&count);
        runner
            .run(async move {
                for _ in 0..left {
                    create_task(sleeper(Trace::new()));
                }
                yields(2).await?;
                let event_loop = get_running_loop()?;
                let again = event_loop.clone();
                event_loop.call_soon(move || count_ticks(&again, &counted));
                Ok(())
            })
            .unwrap();
        assert_eq!(count.get(), 1);
        runner.close().unwrap();
        assert_eq!(count.get(), expected, "with {left} left");
    }
}

// -- failures of the cleanup ----------------------------------------------------------------------

#[test]
fn each_failure_of_a_cleanup_is_reported_with_its_task_and_nothing_else_is() {
    let runner = virtual_runner();
    let contexts = contexts_reported(&runner.get_loop());
    runner
        .run(async {
            let named = |name| get_running_loop().map(|l| l.task_builder().name(name));
            named("one")?.create_task(fails("one"));
            named("two")?.create_task(sleeper(Trace::new()));
            named("three")?.create_task(async {
                let _ = sleep(HOUR).await;
                if true {
                    panic!("in three");
                }
                Ok(())
            });
            // It swallows the cancellation and has a result.
            named("four")?.create_task(async { sleep(HOUR).await.or(Ok(())) });
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    let reports = contexts.take();
    let said: Vec<_> = reports
        .iter()
        .map(|context| (context.task_name.as_deref(), &*context.message))
        .collect();
    let message = "unhandled exception during run() shutdown";
    assert_eq!(said, [(Some("one"), message), (Some("three"), message)]);
    let errors = reports.into_iter().filter_map(|context| context.exception);
    let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
    assert_eq!(errors[0], "error:one");
    assert!(errors[1].contains("in three"), "{errors:?}");
}

#[test]
fn an_exception_handler_that_panics_does_not_end_the_cleanup() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let _capture = logged(&events);
    let handle = runner.get_loop();
    handle.set_exception_handler(|_, _| crate::common::raise("handler"));
    runner
        .run(async {
            create_task(fails("one"));
            create_task(fails("two"));
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["log:error:handler-failed:error:handler"; 2]);
    assert!(handle.is_closed());
}

#[test]
fn a_cleanup_that_never_ends_is_an_error_of_close_and_the_others_are_reported() {
    let _watchdog = Watchdog::start();
    let (runner, drops) = (virtual_runner(), Drops::default());
    let (reports, captured) = (Reports::of(&runner.get_loop()), drops.counted());
    let event_loop = runner.get_loop();
    runner
        .run(async {
            create_task(async move {
                let _captured = captured;
                never_ends().await
            });
            create_task(fails("other"));
            yields(1).await
        })
        .unwrap();
    assert_eq!(misuse(runner.close()), RuntimeError::Deadlock);
    assert!(event_loop.is_closed());
    assert_eq!(drops.count(), 1);
    assert_eq!(
        reports.take(),
        [
            "unhandled exception during run() shutdown: error:other",
            "Task was destroyed but it is pending!",
        ]
    );
}

#[test]
fn a_dropped_runner_does_the_same_and_reports_its_error() {
    let _watchdog = Watchdog::start();
    let (runner, events) = (virtual_runner(), Trace::new());
    let (reports, log) = (Reports::of(&runner.get_loop()), events.clone());
    let event_loop = runner.get_loop();
    runner
        .run(async {
            create_task(sleeper(log));
            create_task(never_ends());
            yields(1).await
        })
        .unwrap();
    drop(runner);
    assert_eq!(events.lines(), ["cancelled"]);
    assert!(event_loop.is_closed());
    let deadlock = RuntimeError::Deadlock;
    assert_eq!(
        reports.take(),
        [
            format!("Exception in the clean-up of a dropped runner: {deadlock}"),
            "Task was destroyed but it is pending!".into(),
        ]
    );
}

#[test]
fn the_error_of_a_dropped_runner_is_logged_where_no_handler_is_set() {
    let _watchdog = Watchdog::start();
    let trace = Trace::new();
    let _capture = logged(&trace);
    let runner = virtual_runner();
    runner
        .run(async {
            create_task(never_ends());
            yields(1).await
        })
        .unwrap();
    drop(runner);
    let lines = trace.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("log:error:says Exception in the clean-up of a dropped runner:deadlock"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "log:error:destroyed-pending");
}

#[test]
fn a_result_that_panics_in_its_destructor_is_reported() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let (reports, log) = (Reports::of(&runner.get_loop()), events.clone());
    runner
        .run(async {
            create_task(async {
                let _ = sleep(HOUR).await;
                Ok(OnDrop::new(|| crate::common::raise("result")))
            });
            create_task(sleeper(log));
            yields(1).await
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(events.lines(), ["cancelled"]);
    let reports = reports.take();
    assert_eq!(reports, ["Exception while a future was dropped: error:result"]);
}

// -- where it is dropped --------------------------------------------------------------------------

#[test]
fn a_runner_dropped_by_a_panic_still_cleans_up() {
    let events = Trace::new();
    let (log, panics) = (events.clone(), events.clone());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let runner = virtual_runner();
        runner
            .run(async {
                create_task(sleeper(log));
                // A panic of its own, in the middle of that other one.
                create_task(async move {
                    let _ = sleep(HOUR).await;
                    panics.push("panics");
                    if true {
                        panic!("in the cleanup");
                    }
                    Ok(())
                });
                yields(1).await
            })
            .unwrap();
        runner.get_loop().set_exception_handler({
            let events = events.clone();
            move |_, context| events.push(context.message.to_string())
        });
        panic!("outside");
    }));
    assert!(panicked.is_err());
    assert_eq!(
        events.lines(),
        ["cancelled", "panics", "unhandled exception during run() shutdown"]
    );
}

#[test]
fn a_runner_closed_inside_another_loop_says_so_and_drops_what_is_left() {
    let (runner, drops) = (virtual_runner(), Drops::default());
    let (reports, captured) = (Reports::of(&runner.get_loop()), drops.counted());
    let event_loop = runner.get_loop();
    runner
        .run(async {
            create_task(async move {
                let _captured = captured;
                sleep(HOUR).await
            });
            yields(1).await
        })
        .unwrap();
    let refused = run(async move { Ok(misuse(runner.close())) });
    assert_eq!(refused.unwrap(), RuntimeError::OtherLoopRunning);
    assert!(event_loop.is_closed());
    assert_eq!(drops.count(), 1);
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn a_runner_with_nothing_left_can_be_dropped_inside_another_loop() {
    let trace = Trace::new();
    let _capture = logged(&trace);
    let runner = virtual_runner();
    let event_loop = runner.get_loop();
    run(async move {
        drop(runner);
        Ok(())
    })
    .unwrap();
    assert!(event_loop.is_closed());
    assert!(trace.lines().is_empty());
}

#[test]
fn a_runner_dropped_by_another_runners_destructor_cleans_up_as_well() {
    let (outer, inner, events) = (virtual_runner(), virtual_runner(), Trace::new());
    let log = events.clone();
    inner
        .run(async {
            create_task(sleeper(log));
            yields(1).await
        })
        .unwrap();
    // The timer is dropped when the outer loop is closed: no loop is running then.
    outer.get_loop().call_later(HOUR, move || drop(inner));
    outer.close().unwrap();
    assert_eq!(events.lines(), ["cancelled"]);
}

#[test]
fn a_runner_that_ends_with_its_thread_cleans_up() {
    thread_local! {
        static RUNNER: RefCell<Option<Runner>> = const { RefCell::new(None) };
    }
    let events = Trace::new();
    let log = events.clone();
    let thread = std::thread::spawn(move || {
        // Its destructor is registered before anything of the runner's is.
        RUNNER.set(None);
        let runner = virtual_runner();
        runner
            .run(async {
                create_task(sleeper(log));
                yields(1).await
            })
            .unwrap();
        RUNNER.set(Some(runner));
    });
    thread.join().unwrap();
    assert_eq!(events.lines(), ["cancelled"]);
}

#[test]
fn everything_that_was_left_is_dropped_once() {
    let (runner, drops) = (virtual_runner(), Drops::default());
    let held: Vec<_> = (0..5).map(|_| drops.counted()).collect();
    let mut held = held.into_iter();
    let mut next = move || held.next().unwrap();
    let [timer, callback, task, value, main] = [next(), next(), next(), next(), next()];
    static HELD: ContextVar<Rc<crate::support::Counted>> = ContextVar::new("held");
    let event_loop = runner.get_loop();
    event_loop.call_later(HOUR, move || drop(timer));
    let never = event_loop.create_future::<()>();
    never.add_done_callback(move |_| drop(callback));
    runner
        .run(async move {
            let _main = main;
            HELD.set(Rc::new(value));
            create_task(async move {
                let _task = task;
                sleep(HOUR).await
            });
            yields(1).await
        })
        .unwrap();
    assert_eq!(drops.count(), 1, "the main");
    runner.close().unwrap();
    assert_eq!(
        drops.count(),
        4,
        "and the timer, the task, the value of the context"
    );
    drop(never);
    assert_eq!(drops.count(), 5);
}
