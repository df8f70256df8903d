//! Eager tasks, whose first step is made by `create_task` itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{
    CancelledError, EventLoop, Exception, LoopHandle, Result, Task, all_tasks, current_task,
    get_running_loop, sleep,
};

use crate::common::{Boom, Trace, outcome, raise, ticks, virtual_loop, yields};
use crate::support::{Drops, Reports, raised, settle, still_works, tick};

/// An eager task of the running loop.
fn eager<T: 'static>(name: &str, coroutine: impl Future<Output = Result<T>> + 'static) -> Task<T> {
    let event_loop = get_running_loop().expect("a running loop");
    let builder = event_loop.task_builder().name(name).eager_start(true);
    builder.create_task(coroutine)
}

fn current_name() -> String {
    current_task().map_or_else(|| "none".into(), |task| task.get_name())
}

/// Leaves when it starts, in which task, each of its yields, and its end.
async fn worker(trace: Trace, name: &'static str, rounds: u32) -> Result<&'static str> {
    trace.push(format!("{name}:start:{}", current_name()));
    for round in 0..rounds {
        yields(1).await?;
        trace.push(format!("{name}{round}"));
    }
    trace.push(format!("{name}:end"));
    Ok(name)
}

// brief: XT-5
#[test]
fn an_eager_task_keeps_the_order_that_asyncio_has() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let main = event_loop.run_until_complete(async move {
        let event_loop = get_running_loop()?;
        current_task().expect("a task").set_name("main");
        ticks(&event_loop, &log, 4);
        let builder = event_loop.task_builder().name("plain");
        let plain = builder.create_task(worker(log.clone(), "plain", 1));
        let e0 = eager("e0", worker(log.clone(), "e0", 0));
        let called = log.mark("e0-callback");
        e0.add_done_callback(move |_| called());
        let e2 = eager("e2", worker(log.clone(), "e2", 2));
        let called = log.mark("e2-callback");
        e2.add_done_callback(move |_| called());
        log.push(format!("created:{}", current_name()));
        for (name, task) in [("e0", e0), ("e2", e2), ("plain", plain)] {
            log.push(format!("{name}:{}", task.await?));
        }
        Ok(())
    });
    main.unwrap();
    // What CPython 3.13 leaves, with `asyncio.Task(.., eager_start=True)`.
    let expected = [
        "e0:start:e0",
        "e0:end",
        "e2:start:e2",
        "created:main",
        "e0:e0",
        "tick1",
        "plain:start:plain",
        "e0-callback",
        "e20",
        "tick2",
        "plain0",
        "plain:end",
        "e21",
        "e2:end",
        "tick3",
        "e2-callback",
        "e2:e2",
        "plain:plain",
        "tick4",
    ];
    assert_eq!(trace.lines(), expected);
}

/// Runs a main coroutine on a virtual loop.
fn run<T: 'static>(main: impl Future<Output = Result<T>> + 'static) -> T {
    let (event_loop, _) = virtual_loop();
    let value = event_loop.run_until_complete(main).unwrap();
    still_works(&event_loop);
    value
}

// brief: XT-5
#[test]
fn a_coroutine_that_does_not_wait_is_done_at_once() {
    run(async {
        let future = get_running_loop()?.create_future();
        let completed = future.clone();
        let task = eager("eager", async move {
            completed.set_result("my message")?;
            Ok("hello")
        });
        assert!(task.done());
        assert_eq!(task.cancelling(), 0);
        assert!(!task.cancel(), "what is done can not be cancelled");
        assert_eq!((task.await?, future.await?), ("hello", "my message"));
        Ok(())
    });
}

// brief: XT-5
#[test]
fn a_coroutine_that_waits_goes_on_like_any_other() {
    run(async {
        let task = eager("eager", async {
            sleep(Duration::from_secs(1)).await?;
            Ok("after waiting")
        });
        assert!(!task.done());
        assert_eq!(task.clone().await?, "after waiting");
        assert!(task.done());
        Ok(())
    });
}

// brief: XT-5
#[test]
fn an_eager_task_that_waits_can_be_cancelled_with_a_message() {
    run(async {
        let task = eager("eager", async { sleep(Duration::from_secs(1)).await });
        assert!(task.cancel_with("cancellation message"));
        assert_eq!(task.cancelling(), 1);
        let error = raised::<CancelledError, _>(task.await);
        assert_eq!(error.message(), Some("cancellation message"));
        Ok(())
    });
}

// brief: XT-5
#[test]
fn the_current_task_is_swapped_and_swapped_back() {
    let names = run(async {
        current_task().expect("a task").set_name("main");
        let names = Rc::new(RefCell::new(Vec::new()));
        let note = |names: &Rc<RefCell<Vec<String>>>| names.borrow_mut().push(current_name());
        let inner = names.clone();
        let task = eager("outer", async move {
            note(&inner);
            let innermost = inner.clone();
            let nested = eager("nested", async move {
                note(&innermost);
                yields(1).await?;
                note(&innermost);
                Ok(())
            });
            note(&inner);
            nested.await?;
            note(&inner);
            Ok(())
        });
        note(&names);
        task.await?;
        note(&names);
        Ok(names.take())
    });
    assert_eq!(
        names,
        ["outer", "nested", "outer", "main", "nested", "outer", "main"]
    );
}

// brief: XT-5
#[test]
fn awaits_after_a_nested_eager_step_are_still_those_of_the_outer_task() {
    // Polled before, between and after the steps of others, each is woken by its own future.
    let order = run(async {
        let event_loop = get_running_loop()?;
        let (one, two) = (event_loop.create_future::<()>(), event_loop.create_future::<()>());
        let trace = Trace::new();
        let (log, inner_log, awaited, inner) = (trace.clone(), trace.clone(), one.clone(), two.clone());
        let task = eager("outer", async move {
            let nested = eager("nested", async move {
                inner.await?;
                inner_log.push("nested");
                Ok(())
            });
            awaited.await?;
            log.push("outer");
            nested.await
        });
        yields(3).await?;
        one.set_result(())?;
        yields(2).await?;
        trace.push("between");
        two.set_result(())?;
        task.await?;
        Ok(trace.lines())
    });
    assert_eq!(order, ["outer", "between", "nested"]);
}

// brief: XT-5
#[test]
fn an_eager_task_is_among_all_tasks_from_its_first_step_on() {
    run(async {
        let listed = || {
            let itself = current_task().expect("a task");
            all_tasks().iter().filter(|task| **task == itself).count()
        };
        let at_once = eager("at once", async move { Ok(listed()) });
        assert!(!all_tasks().contains(&at_once.to_any()));
        assert_eq!(at_once.await?, 1);
        let later = eager("later", async move {
            let first = listed();
            yields(1).await?;
            Ok((first, listed()))
        });
        assert!(all_tasks().contains(&later.to_any()));
        assert_eq!(later.await?, (1, 1));
        Ok(())
    });
}

// brief: XT-5
#[test]
fn the_task_around_an_eager_step_is_listed_while_that_is_made() {
    run(async {
        // In its first step as well as in a later one.
        for yielded in 0..2 {
            yields(yielded).await?;
            let outer = current_task().expect("a task");
            let seen = eager("eager", async move { Ok(all_tasks().contains(&outer)) });
            assert!(seen.await?, "after {yielded} yields");
        }
        Ok(())
    });
}

// brief: XT-5
#[test]
fn an_error_or_a_panic_in_the_eager_step_is_the_tasks_own() {
    run(async {
        let itself = current_task();
        let failed = eager("failed", async { Err::<(), Exception>(Boom("failed").into()) });
        let panicked = eager("panicked", async {
            if current_task().is_some() {
                raise("panicked");
            }
            Ok(())
        });
        assert_eq!(current_task(), itself);
        assert!(failed.done() && panicked.done());
        assert_eq!(raised::<Boom, _>(failed.await), Boom("failed"));
        assert_eq!(raised::<Boom, _>(panicked.await), Boom("panicked"));
        Ok(())
    });
}

// brief: XT-5
#[test]
fn a_failure_in_an_eager_step_that_nobody_looks_at_is_reported() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let main = event_loop.run_until_complete(async {
        drop(eager("eager", async {
            Err::<(), Exception>(Boom("unseen").into())
        }));
        Ok(())
    });
    main.unwrap();
    let report = format!("Task exception was never retrieved: {}", Boom("unseen"));
    assert_eq!(reports.take(), [report]);
}

// brief: XT-5
#[test]
fn an_eager_task_that_cancels_itself_hears_of_it_one_tick_later() {
    let lines = run(async {
        let (trace, event_loop) = (Trace::new(), get_running_loop()?);
        let log = trace.clone();
        let task = eager("eager", async move {
            current_task().expect("a task").cancel_with("why");
            log.push("still");
            let slept = sleep(Duration::from_secs(1)).await;
            let error = slept.expect_err("it was cancelled");
            log.push(format!(
                "{:?}",
                error
                    .downcast_ref::<CancelledError>()
                    .map(CancelledError::message)
            ));
            Err::<(), _>(error)
        });
        trace.push(format!("done:{} requests:{}", task.done(), task.cancelling()));
        ticks(&event_loop, &trace, 1);
        trace.push(outcome(task.clone()).await);
        assert!(task.cancelled());
        Ok(trace.lines())
    });
    assert_eq!(
        lines,
        [
            "still",
            "done:false requests:1",
            "Some(Some(\"why\"))",
            "tick1",
            "cancelled"
        ]
    );
}

// brief: XT-5
#[test]
fn an_eager_task_that_cancels_itself_and_returns_is_cancelled_at_once() {
    run(async {
        let task = eager("eager", async {
            current_task().expect("a task").cancel_with("x");
            Ok(5)
        });
        assert!(task.done() && task.cancelled());
        let error = raised::<CancelledError, _>(task.await);
        assert_eq!(error.message(), Some("x"));
        Ok(())
    });
}

// brief: XT-5
#[test]
fn an_eager_step_may_cancel_the_task_around_it() {
    let (event_loop, _) = virtual_loop();
    let main = event_loop.create_task(async {
        let outer = current_task().expect("a task");
        let task = eager("eager", async move { Ok(outer.cancel()) });
        assert!(task.await?, "an await that need not wait delivers nothing");
        yields(1).await
    });
    assert!(
        event_loop
            .run_until_complete(main.clone())
            .unwrap_err()
            .is_cancelled()
    );
    assert!(main.cancelled());
}

// brief: XT-5
#[test]
fn an_eager_task_made_in_a_callback_is_stepped_there() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop.call_soon(move || {
        log.push(format!("callback:{}", current_name()));
        drop(eager("eager", worker(log.clone(), "eager", 1)));
        log.push(format!("callback:{}", current_name()));
    });
    settle(&event_loop);
    let expected = [
        "callback:none",
        "eager:start:eager",
        "callback:none",
        "eager0",
        "eager:end",
    ];
    assert_eq!(trace.lines(), expected);
}

/// An eager task of a loop that is not running: it is scheduled.
fn not_running(event_loop: &LoopHandle, trace: &Trace) -> Task<&'static str> {
    let builder = event_loop.task_builder().name("eager").eager_start(true);
    builder.create_task(worker(trace.clone(), "eager", 0))
}

// brief: XT-5
#[test]
fn on_a_loop_that_is_not_running_it_is_scheduled() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let task = not_running(&event_loop, &trace);
    assert!(!task.done() && trace.lines().is_empty());
    tick(&event_loop);
    assert!(task.done());
    // That another one is running does not count.
    let other = EventLoop::new().unwrap();
    let (handle, log) = (event_loop.handle(), trace.clone());
    let made = other.run_until_complete(async move { Ok(not_running(&handle, &log)) });
    let made = made.unwrap();
    assert!(!made.done());
    assert_eq!(event_loop.run_until_complete(made).unwrap(), "eager");
    assert_eq!(trace.lines().len(), 4);
}

// brief: XT-5
#[test]
fn on_a_closed_loop_the_coroutine_is_dropped() {
    let (event_loop, _) = virtual_loop();
    event_loop.close().unwrap();
    let drops = Drops::default();
    let captured = drops.counted();
    let builder = event_loop.task_builder().eager_start(true);
    let task = builder.create_task(async move {
        let _captured = captured;
        Ok(())
    });
    assert!(task.done() && task.exception().unwrap().is_some());
    assert_eq!(drops.count(), 1);
}

// brief: XT-5
#[test]
fn very_many_eager_tasks_in_a_row_hold_nothing() {
    let drops = Drops::default();
    let seen = drops.clone();
    let sum = run(async move {
        let mut sum = 0;
        for number in 0..10_000_u64 {
            let captured = seen.counted();
            sum += eager("eager", async move {
                let _captured = captured;
                Ok(number)
            })
            .await?;
        }
        assert_eq!(seen.count(), 10_000);
        Ok(sum)
    });
    assert_eq!(sum, 49_995_000);
}
