//! `Runner`: several mains on one loop. What is done when it ends is in `closing.rs`.

use std::rc::Rc;
use std::time::Duration;

use miniloop::{
    ContextVar, EventLoop, Exception, PanicError, Runner, RuntimeError, create_task, get_running_loop, run,
    sleep,
};

use crate::common::{Boom, START, Trace, logged, virtual_loop, yields};
use crate::support::{Drops, OnDrop, Watchdog, misuse, raised};

pub const SECOND: Duration = Duration::from_secs(1);

/// A runner of a loop that jumps to its next timer.
pub fn virtual_runner() -> Runner {
    Runner::with_loop(virtual_loop().0)
}

// -- the mains ------------------------------------------------------------------------------------

#[test]
fn each_main_gives_its_outcome_and_the_next_may_follow() {
    let runner = Runner::new().unwrap();
    assert_eq!(runner.run(async { Ok(1) }).unwrap(), 1);
    let failed = runner.run(async { Err::<(), _>(Boom("main").into()) });
    assert_eq!(raised::<Boom, _>(failed), Boom("main"));
    let panicked = runner.run(async {
        yields(1).await?;
        if true {
            panic!("in main");
        }
        Ok(())
    });
    assert_eq!(raised::<PanicError, _>(panicked).message(), "in main");
    let cancelled = runner.run(async {
        let future = get_running_loop()?.create_future::<()>();
        future.cancel();
        future.await
    });
    assert!(cancelled.unwrap_err().is_cancelled());
    assert_eq!(runner.run(async { Ok("last") }).unwrap(), "last");
    runner.close().unwrap();
}

#[test]
fn all_mains_run_on_the_loop_of_the_runner() {
    let (event_loop, clock) = virtual_loop();
    let runner = Runner::with_loop(event_loop);
    for _ in 0..2 {
        runner.run(async { sleep(SECOND).await }).unwrap();
    }
    assert_eq!(clock.time(), START + 2 * SECOND);
    assert_eq!(runner.get_loop().time(), START + 2 * SECOND);
    assert!(!runner.get_loop().is_running() && !runner.get_loop().is_closed());
}

#[test]
fn what_is_scheduled_and_what_is_left_lives_on_between_the_mains() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let log = events.clone();
    runner
        .run(async move {
            let event_loop = get_running_loop()?;
            event_loop.call_later(2 * SECOND, log.mark("timer"));
            create_task(async move {
                for line in ["first", "second", "third"] {
                    sleep(SECOND).await?;
                    log.push(line);
                }
                Ok(())
            });
            sleep(SECOND + SECOND / 2).await
        })
        .unwrap();
    // Nothing moves while no main runs.
    runner.get_loop().call_soon(events.mark("callback"));
    assert_eq!(events.lines(), ["first"]);
    runner.run(async { sleep(SECOND).await }).unwrap();
    assert_eq!(events.lines(), ["first", "callback", "timer", "second"]);
    runner.close().unwrap();
    assert_eq!(
        events.lines().len(),
        4,
        "the task was cancelled before its third line"
    );
}

#[test]
fn a_task_of_one_main_can_be_the_next_main() {
    let runner = virtual_runner();
    let task = runner
        .run(async {
            Ok(create_task(async {
                sleep(SECOND).await?;
                Ok(7)
            }))
        })
        .unwrap();
    assert_eq!(runner.run(task).unwrap(), 7);
}

#[test]
fn a_main_that_was_stopped_goes_on_in_the_next_run() {
    let (runner, events) = (virtual_runner(), Trace::new());
    let log = events.clone();
    let stopped = runner.run(async move {
        get_running_loop()?.stop();
        sleep(SECOND).await?;
        log.push("first main");
        Ok(())
    });
    assert_eq!(misuse(stopped), RuntimeError::StoppedBeforeDone);
    assert!(events.lines().is_empty());
    runner.run(async { sleep(2 * SECOND).await }).unwrap();
    assert_eq!(events.lines(), ["first main"]);
}

#[test]
fn a_main_that_deadlocks_leaves_the_runner_usable() {
    let _watchdog = Watchdog::start();
    let (runner, events) = (virtual_runner(), Trace::new());
    let future = runner.get_loop().create_future::<u32>();
    let (awaited, log) = (future.clone(), events.clone());
    let deadlocked = runner.run(async move {
        log.push(format!("got {}", awaited.await?));
        Ok(())
    });
    assert_eq!(misuse(deadlocked), RuntimeError::Deadlock);
    runner
        .run(async move {
            future.set_result(5)?;
            yields(2).await
        })
        .unwrap();
    assert_eq!(events.lines(), ["got 5"]);
}

#[test]
fn a_run_from_inside_a_run_is_refused_and_the_outer_one_goes_on() {
    let (runner, drops) = (Rc::new(virtual_runner()), Drops::default());
    let (inner, captured) = (Rc::clone(&runner), drops.counted());
    let events = Trace::new();
    let ran = events.mark("ran");
    let refused = runner.run(async move {
        let refused = inner.run(async move {
            let _captured = captured;
            ran();
            Ok(())
        });
        sleep(SECOND).await?;
        Ok(misuse(refused))
    });
    assert_eq!(refused.unwrap(), RuntimeError::LoopRunning);
    assert!(events.lines().is_empty());
    assert_eq!(drops.count(), 1);
    assert_eq!(runner.run(async { Ok(1) }).unwrap(), 1);
}

#[test]
fn a_run_inside_another_loop_is_refused() {
    let (runner, drops) = (virtual_runner(), Drops::default());
    let captured = drops.counted();
    let refused = run(async move {
        let refused = runner.run(async move {
            let _captured = captured;
            Ok(())
        });
        Ok((misuse(refused), runner))
    });
    let (error, runner) = refused.unwrap();
    assert_eq!(error, RuntimeError::OtherLoopRunning);
    assert_eq!(drops.count(), 1);
    assert_eq!(runner.run(async { Ok(1) }).unwrap(), 1);
}

#[test]
fn a_runner_of_a_closed_loop_refuses_and_closes_quietly() {
    let event_loop = EventLoop::new().unwrap();
    event_loop.close().unwrap();
    let runner = Runner::with_loop(event_loop);
    assert_eq!(misuse(runner.run(async { Ok(()) })), RuntimeError::LoopClosed);
    runner.close().unwrap();
}

#[test]
fn a_runner_shows_its_loop() {
    let runner = virtual_runner();
    assert!(format!("{runner:?}").starts_with("Runner { event_loop: EventLoop("));
}

// -- contexts -------------------------------------------------------------------------------------

static USER: ContextVar<&str> = ContextVar::new("user");

// brief: XT-16
#[test]
fn what_one_main_sets_is_seen_by_the_next_and_not_outside() {
    USER.set("outside");
    let runner = virtual_runner();
    USER.set("changed later");
    let main = async |value| {
        let seen = USER.get();
        yields(1).await?;
        USER.set(value);
        Ok::<_, Exception>(seen)
    };
    assert_eq!(
        runner.run(main("first")).unwrap(),
        Some("outside"),
        "as it was when the runner was made"
    );
    assert_eq!(runner.run(main("second")).unwrap(), Some("first"));
    assert_eq!(USER.get(), Some("changed later"));
    let of_task = runner.run(async {
        create_task(async {
            USER.set("in a task");
            Ok(())
        })
        .await?;
        Ok(USER.get())
    });
    assert_eq!(of_task.unwrap(), Some("second"), "a task has a copy");
}

#[test]
fn a_main_that_is_a_task_runs_in_its_own_context() {
    let runner = virtual_runner();
    runner
        .run(async {
            USER.set("of the runner");
            Ok(())
        })
        .unwrap();
    let context = miniloop::Context::new();
    let builder = runner.get_loop().task_builder().context(context.clone());
    let main = builder.create_task(async {
        let before = USER.get();
        USER.set("of the task");
        Ok(before)
    });
    assert_eq!(runner.run(main).unwrap(), None);
    assert_eq!(context.get(&USER), Some("of the task"));
    let after = runner.run(async { Ok(USER.get()) });
    assert_eq!(after.unwrap(), Some("of the runner"));
}

#[test]
fn a_value_of_the_context_that_panics_in_its_destructor_is_reported() {
    type OnDropRaises = OnDrop<fn()>;
    static VALUE: ContextVar<Rc<OnDropRaises>> = ContextVar::new("value");
    let trace = Trace::new();
    let _capture = logged(&trace);
    let runner = virtual_runner();
    runner
        .run(async {
            VALUE.set(Rc::new(OnDrop::new(|| crate::common::raise("dropped"))));
            Ok(())
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(
        trace.lines(),
        ["log:error:says Exception while a context was dropped:error:dropped"]
    );
}
