//! `run`: one coroutine on a loop of its own. What `asyncio.run` of Python 3.13 does in these
//! cases is what is expected here.

mod common;
mod support;

#[path = "runners/closing.rs"]
mod closing;
#[path = "runners/left_over.rs"]
mod left_over;
#[path = "runners/runner.rs"]
mod runner;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, PanicError, RuntimeError, get_running_loop, run, sleep};

use common::{Boom, Trace, pair, yields};
use support::{Drops, Watchdog, misuse, raised};

const HOUR: Duration = Duration::from_secs(3600);

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
