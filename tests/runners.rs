//! `run`: one coroutine on a loop of its own, and what becomes of the tasks that are left over.
//! What `asyncio.run` of Python 3.13 does in these cases is what is expected here.

mod common;
mod support;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use miniloop::{EventLoop, LoopHandle, PanicError, Result, RuntimeError, get_running_loop, run, sleep};

use common::{Boom, Trace, logged, pair, yields};
use support::{Drops, Reports, Watchdog, misuse, raised, wake_and_yield};

const HOUR: Duration = Duration::from_secs(3600);

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

// -- the outcome ----------------------------------------------------------------------------------

#[test]
fn run_gives_what_the_coroutine_returns() {
    let value = run(async {
        yields(2).await?;
        Ok(vec![1, 2])
    });
    assert_eq!(value.unwrap(), [1, 2]);
}

#[test]
fn run_raises_what_the_coroutine_raises() {
    let outcome = run(async {
        yields(2).await?;
        Err::<(), _>(Boom("main").into())
    });
    assert_eq!(raised::<Boom, _>(outcome), Boom("main"));
}

#[test]
fn run_raises_a_panic_of_the_coroutine() {
    let outcome = run(async {
        yields(1).await?;
        if true {
            panic!("in main");
        }
        Ok(())
    });
    assert_eq!(raised::<PanicError, _>(outcome).message(), "in main");
}

#[test]
fn run_raises_the_cancellation_of_a_coroutine_that_was_cancelled() {
    let outcome = run(async {
        let never = get_running_loop()?.create_future::<()>();
        never.cancel();
        never.await
    });
    assert!(outcome.unwrap_err().is_cancelled());
}

#[test]
fn run_takes_a_coroutine_that_waits_for_nothing_as_a_deadlock() {
    let _watchdog = Watchdog::start();
    let drops = Drops::default();
    let captured = drops.counted();
    let outcome = run(async move {
        let _captured = captured;
        get_running_loop()?.create_future::<()>().await
    });
    assert_eq!(misuse(outcome), RuntimeError::Deadlock);
    assert_eq!(drops.count(), 1, "it is a left-over task then");
}

#[test]
fn run_says_so_if_the_loop_was_stopped_before_the_coroutine_ended() {
    let events = Trace::new();
    let cancelled = events.mark("cancelled");
    let outcome = run(async move {
        get_running_loop()?.stop();
        let slept = sleep(HOUR).await;
        yields(2).await?;
        cancelled();
        slept
    });
    assert_eq!(misuse(outcome), RuntimeError::StoppedBeforeDone);
    assert_eq!(
        events.lines(),
        ["cancelled"],
        "main is a left-over task like others"
    );
}

// -- the loop -------------------------------------------------------------------------------------

#[test]
fn run_closes_its_loop() {
    let handle = run(async { get_running_loop() }).unwrap();
    assert!(handle.is_closed() && !handle.is_running());
    assert!(get_running_loop().is_err());
    assert!(handle.call_soon(|| {}).cancelled());
}

#[test]
fn run_drops_what_was_scheduled_and_watched() {
    let drops = Drops::default();
    let (left, _right) = pair();
    let (source, held) = (left.clone(), [(); 3].map(|()| drops.counted()));
    run(async move {
        let event_loop = get_running_loop()?;
        let [timer, reader, callback] = held;
        event_loop.call_later(HOUR, move || drop(timer));
        let mut reader = Some(reader);
        event_loop.add_reader(&source, move || drop(reader.take()))?;
        event_loop
            .sock_recv(&source, 10)
            .add_done_callback(move |_| drop(callback));
        Ok(())
    })
    .unwrap();
    assert_eq!(drops.count(), 3);
}

#[test]
fn run_can_be_called_again_with_a_loop_of_its_own() {
    let first = run(async { get_running_loop() }).unwrap();
    let closed = run(async move { Ok((first.is_closed(), get_running_loop()?.is_closed())) });
    assert_eq!(closed.unwrap(), (true, false));
}

#[test]
fn run_inside_a_run_is_refused() {
    let drops = Drops::default();
    let captured = drops.counted();
    let inner = run(async move {
        let inner = run(async move {
            let _captured = captured;
            Ok(1)
        });
        yields(1).await?;
        Ok(misuse(inner))
    });
    assert_eq!(inner.unwrap(), RuntimeError::OtherLoopRunning);
    assert_eq!(drops.count(), 1);
}

#[test]
fn run_inside_a_callback_of_another_loop_is_refused() {
    let event_loop = EventLoop::new().unwrap();
    let refused = Rc::new(Cell::new(None));
    let inner = Rc::clone(&refused);
    event_loop.call_soon(move || inner.set(Some(misuse(run(async { Ok(()) })))));
    event_loop.run_once().unwrap();
    assert_eq!(refused.get(), Some(RuntimeError::OtherLoopRunning));
}

// -- tasks that are left over ---------------------------------------------------------------------

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
            if let Either::Right((slept, _)) = select(awaited, sleep(HOUR)).await {
                return slept;
            }
            // nobody would ever end this wait
            sleep(HOUR).await?;
            went_on();
            Ok(())
        });
        yields(1).await?;
        future.set_result(1)?;
        Ok(())
    })
    .unwrap();
    assert!(events.lines().is_empty());
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
    assert_eq!(trace.lines(), ["log:error:never-retrieved:error:cleanup"]);
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
