//! Tasks that are left over when the main coroutine of `run` has ended, and their cleanup.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use miniloop::{LoopHandle, Result, RuntimeError, Task, get_running_loop, run, sleep};

use crate::HOUR;
use crate::common::{Boom, Trace, logged, yields};
use crate::runner::virtual_runner;
use crate::support::{Drops, Reports, Watchdog, misuse, raised, wake_and_yield};

/// Leaves a task over that waits for an hour and says what happens to it.
fn leave_a_sleeper(event_loop: &LoopHandle, events: &Trace) {
    let (begun, cancelled) = (events.mark("begun"), events.mark("cancelled"));
    event_loop.create_task(async move {
        begun();
        let slept = sleep(HOUR).await;
        cancelled();
        slept
    });
}

#[test]
fn tasks_left_over_are_cancelled_and_their_cleanup_is_awaited() {
    let events = Trace::new();
    let (interrupted, cleaned_up) = (events.mark("interrupted"), events.mark("cleaned up"));
    let outcome = run(async move {
        get_running_loop()?.create_task(async move {
            let slept = sleep(HOUR).await;
            interrupted();
            sleep(Duration::from_millis(2)).await?;
            yields(3).await?;
            cleaned_up();
            slept
        });
        yields(1).await?;
        Ok("main")
    });
    assert_eq!(outcome.unwrap(), "main");
    assert_eq!(events.lines(), ["interrupted", "cleaned up"]);
}

#[test]
fn tasks_left_over_by_a_failure_or_a_panic_are_cancelled_as_well() {
    for panics in [false, true] {
        let events = Trace::new();
        let inside = events.clone();
        let outcome = run(async move {
            leave_a_sleeper(&get_running_loop()?, &inside);
            yields(1).await?;
            assert!(!panics, "in main");
            Err::<(), _>(Boom("main").into())
        });
        assert!(outcome.is_err());
        assert_eq!(events.lines(), ["begun", "cancelled"]);
    }
}

#[test]
fn a_task_made_at_the_very_end_still_begins_and_is_cancelled() {
    let events = Trace::new();
    let inside = events.clone();
    run(async move {
        leave_a_sleeper(&get_running_loop()?, &inside);
        Ok(())
    })
    .unwrap();
    assert_eq!(events.lines(), ["begun", "cancelled"]);
}

#[test]
fn very_many_tasks_left_over_are_all_cancelled() {
    let events = Trace::new();
    let inside = events.clone();
    run(async move {
        let event_loop = get_running_loop()?;
        for _ in 0..1000 {
            leave_a_sleeper(&event_loop, &inside);
        }
        yields(1).await
    })
    .unwrap();
    let lines = events.lines();
    assert_eq!(lines.len(), 2000);
    assert!(lines[1000..].iter().all(|line| line == "cancelled"));
}

#[test]
fn a_task_left_over_that_awaits_another_is_interrupted_with_it_once() {
    let events = Trace::new();
    let (inner, outer) = (events.mark("inner"), events.mark("outer"));
    run(async move {
        let event_loop = get_running_loop()?;
        let awaited = event_loop.create_task(async move {
            let slept = sleep(HOUR).await;
            yields(3).await?;
            inner();
            slept
        });
        event_loop.create_task(async move {
            let outcome = awaited.await;
            yields(3).await?;
            outer();
            outcome
        });
        yields(1).await
    })
    .unwrap();
    assert_eq!(events.lines(), ["inner", "outer"]);
}

#[test]
fn a_task_left_over_that_suppresses_its_cancellation_is_waited_for() {
    let events = Trace::new();
    let ended = events.mark("ended");
    let outcome = run(async move {
        get_running_loop()?.create_task(async move {
            let _ = sleep(HOUR).await;
            sleep(Duration::from_millis(2)).await?;
            ended();
            Ok(())
        });
        yields(1).await?;
        Ok(1)
    });
    assert_eq!(outcome.unwrap(), 1);
    assert_eq!(events.lines(), ["ended"]);
}

#[test]
fn a_task_left_over_that_is_suspended_on_something_foreign_is_dropped() {
    let _watchdog = Watchdog::start();
    let drops = Drops::default();
    let held = [(); 2].map(|()| drops.counted());
    run(async move {
        let event_loop = get_running_loop()?;
        let [suspended, yielding] = held;
        event_loop.create_task(async move {
            let _held = suspended;
            pending::<Result<()>>().await
        });
        event_loop.create_task(async move {
            let _held = yielding;
            loop {
                wake_and_yield().await;
                // never left, but typed
                if false {
                    return Ok(());
                }
            }
        });
        yields(2).await
    })
    .unwrap();
    assert_eq!(drops.count(), 2);
}

#[test]
fn a_cancellation_at_the_end_is_not_lost_to_a_completion_of_the_same_tick() {
    let _watchdog = Watchdog::start();
    let events = Trace::new();
    let went_on = events.mark("went on");
    run(async move {
        let event_loop = get_running_loop()?;
        let future = event_loop.create_future::<i32>();
        let awaited = future.clone();
        event_loop.create_task(async move {
            match select(awaited, sleep(HOUR)).await {
                Either::Left((value, _)) => assert_eq!(value?, 1),
                Either::Right((slept, _)) => return slept,
            }
            went_on();
            // nobody would ever end this wait
            sleep(HOUR).await
        });
        yields(1).await?;
        // in the last tick of the run, so that the step it causes meets the cancellation
        event_loop.call_soon(move || future.set_result(1).unwrap());
        Ok(())
    })
    .unwrap();
    assert!(events.lines().is_empty());
}

#[test]
fn a_task_left_over_is_asked_to_stop_once_even_if_its_step_is_scheduled() {
    let requests = Rc::new(Cell::new(0));
    let counted = Rc::clone(&requests);
    run(async move {
        let event_loop = get_running_loop()?;
        let itself: Rc<RefCell<Option<Task<()>>>> = Rc::default();
        let me = Rc::clone(&itself);
        let task = event_loop.create_task(async move {
            let interrupted = loop {
                if let Err(cancelled) = yields(1).await {
                    break cancelled;
                }
            };
            counted.set(me.take().unwrap().cancelling());
            Err(interrupted)
        });
        itself.replace(Some(task));
        yields(3).await
    })
    .unwrap();
    assert_eq!(requests.get(), 1);
}

#[test]
fn a_task_that_a_cleanup_starts_is_not_waited_for() {
    let _watchdog = Watchdog::start();
    let (drops, reports) = (Drops::default(), Rc::new(RefCell::new(None)));
    let (captured, reported) = (drops.counted(), Rc::clone(&reports));
    run(async move {
        let event_loop = get_running_loop()?;
        *reported.borrow_mut() = Some(Reports::of(&event_loop));
        let helper = event_loop.clone();
        event_loop.create_task(async move {
            let slept = sleep(HOUR).await;
            helper.create_task(async move {
                let _captured = captured;
                sleep(HOUR).await
            });
            slept
        });
        yields(1).await
    })
    .unwrap();
    assert_eq!(drops.count(), 1);
    let reports = reports.take().unwrap();
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn a_task_that_a_cleanup_starts_and_awaits_is_waited_for() {
    let events = Trace::new();
    let helped = events.mark("helped");
    run(async move {
        let event_loop = get_running_loop()?;
        let helper = event_loop.clone();
        event_loop.create_task(async move {
            let slept = sleep(HOUR).await;
            let help = helper.create_task(async move {
                sleep(Duration::from_millis(2)).await?;
                helped();
                Ok(())
            });
            help.await?;
            slept
        });
        yields(1).await
    })
    .unwrap();
    assert_eq!(events.lines(), ["helped"]);
}

// -- failures of the cleanup ----------------------------------------------------------------------

#[test]
fn a_failure_during_the_cleanup_is_reported_and_changes_nothing_else() {
    for panics in [false, true] {
        let events = Trace::new();
        let inside = events.clone();
        let reports = Rc::new(RefCell::new(None));
        let reported = Rc::clone(&reports);
        let outcome = run(async move {
            let event_loop = get_running_loop()?;
            *reported.borrow_mut() = Some(Reports::of(&event_loop));
            leave_a_sleeper(&event_loop, &inside);
            event_loop.create_task(async move {
                let _ = sleep(HOUR).await;
                assert!(!panics, "in the cleanup");
                Err::<(), _>(Boom("cleanup").into())
            });
            leave_a_sleeper(&event_loop, &inside);
            yields(1).await?;
            Ok("main")
        });
        assert_eq!(outcome.unwrap(), "main");
        assert_eq!(events.lines(), ["begun", "begun", "cancelled", "cancelled"]);
        let reports = reports.take().unwrap().take();
        let [report] = reports.as_slice() else {
            panic!("one report, not {reports:?}");
        };
        let failure = if panics { "in the cleanup" } else { "error:cleanup" };
        assert!(report.contains(failure), "{report}");
    }
}

#[test]
fn a_failure_during_the_cleanup_is_logged_where_no_handler_is_set() {
    let trace = Trace::new();
    let _capture = logged(&trace);
    run(async {
        get_running_loop()?.create_task(async {
            let _ = sleep(HOUR).await;
            Err::<(), _>(Boom("cleanup").into())
        });
        yields(1).await
    })
    .unwrap();
    assert_eq!(trace.lines(), ["log:error:shutdown-error:error:cleanup"]);
}

#[test]
fn a_cleanup_that_waits_for_nothing_is_a_deadlock_and_ends_the_run() {
    let _watchdog = Watchdog::start();
    let drops = Drops::default();
    let captured = drops.counted();
    let outcome = run(async move {
        let event_loop = get_running_loop()?;
        let never = event_loop.create_future::<()>();
        event_loop.create_task(async move {
            let _captured = captured;
            let _ = sleep(HOUR).await;
            never.await
        });
        yields(1).await
    });
    assert_eq!(misuse(outcome), RuntimeError::Deadlock);
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_failure_of_the_coroutine_goes_before_that_of_the_cleanup() {
    let _watchdog = Watchdog::start();
    let outcome = run(async {
        let event_loop = get_running_loop()?;
        let never = event_loop.create_future::<()>();
        event_loop.create_task(async move {
            let _ = sleep(HOUR).await;
            never.await
        });
        yields(1).await?;
        Err::<(), _>(Boom("main").into())
    });
    assert_eq!(raised::<Boom, _>(outcome), Boom("main"));
}

#[test]
fn a_cleanup_that_stops_the_loop_is_finished_all_the_same() {
    let events = Trace::new();
    let finished = events.mark("finished");
    let outcome = run(async move {
        let event_loop = get_running_loop()?;
        let stopped = event_loop.clone();
        event_loop.create_task(async move {
            let slept = sleep(HOUR).await;
            stopped.stop();
            yields(2).await?;
            finished();
            slept
        });
        yields(1).await
    });
    outcome.unwrap();
    assert_eq!(events.lines(), ["finished"]);
}

#[test]
fn an_exception_handler_may_start_a_task_for_each_report_of_the_cleanup() {
    for dropped in [false, true] {
        let runner = virtual_runner();
        let messages = Rc::new(RefCell::new(Vec::new()));
        let heard = Rc::clone(&messages);
        runner
            .get_loop()
            .set_exception_handler(move |event_loop, context| {
                heard.borrow_mut().push(context.message.to_string());
                assert!(heard.borrow().len() < 100, "without end");
                event_loop.create_task(async { sleep(HOUR).await });
            });
        runner
            .run(async {
                get_running_loop()?.create_task(async {
                    let _ = sleep(HOUR).await;
                    Err::<(), _>(Boom("cleanup").into())
                });
                yields(1).await
            })
            .unwrap();
        if dropped {
            drop(runner);
        } else {
            runner.close().unwrap();
        }
        let expected = [
            "unhandled exception during run() shutdown",
            // The task that the handler has started for the first one.
            "Task was destroyed but it is pending!",
        ];
        assert_eq!(*messages.borrow(), expected, "dropped: {dropped}");
    }
}
