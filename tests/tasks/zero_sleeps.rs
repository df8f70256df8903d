//! What `sleep(Duration::ZERO)` makes is not a future of the loop before somebody asks for one; nobody can
//! tell.

use std::future::{Future as StdFuture, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use miniloop::{
    Future, Result, ReturnWhen, RuntimeError, Sleep, all_tasks, create_task, current_task, gather,
    get_running_loop, shield, sleep, timeout, wait, yield_now,
};

use crate::common::{Trace, outcome, ticks, virtual_loop};
use crate::support::misuse;

/// A sleep of zero in either form.
trait Slept: StdFuture<Output = Result<()>> + Into<Future<()>> + Unpin + 'static {
    fn future(&self) -> &Future<()>;
}

impl Slept for Future<()> {
    fn future(&self) -> &Future<()> {
        self
    }
}

impl Slept for Sleep {
    fn future(&self) -> &Future<()> {
        self
    }
}

/// Polls once, and tells whether it is done.
async fn polled(sleep: &mut impl Slept) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *sleep).poll(cx).is_ready())).await
}

/// What a task leaves in the trace that does all that can be done with a sleep.
async fn uses<S: Slept>(zero: fn() -> S, log: Trace) -> Result<()> {
    ticks(&get_running_loop()?, &log, 24);

    let looked_at = zero();
    log.push(format!("new: {}", looked_at.future().done()));
    looked_at.await?;
    let (looked_at, not_looked_at) = (zero(), zero());
    yield_now().await?;
    log.push(format!("a tick later: {}", looked_at.future().done()));
    looked_at.await?;
    not_looked_at.await?;
    log.push("both at once");

    let called_back = zero();
    let callback = log.mark("callback");
    called_back.future().add_done_callback(move |_| callback());
    called_back.await?;
    let cancelled = zero();
    log.push(format!("cancelled: {}", cancelled.future().cancel()));
    log.push(outcome(cancelled).await);

    let mut suspended = zero();
    log.push(format!("first poll: {}", polled(&mut suspended).await));
    log.push(format!("suspended: {}", suspended.future().done()));
    suspended.await?;
    let mut copied = zero();
    log.push(format!("first poll: {}", polled(&mut copied).await));
    let (copy, other) = (copied.future().clone(), zero().future().clone());
    log.push(outcome(copy).await);
    log.push(outcome(other).await);

    let mut by_others: FuturesUnordered<_> = (0..3).map(|_| zero()).collect();
    while let Some(slept) = by_others.next().await {
        slept?;
        log.push("by others");
    }
    log.push(outcome(shield(zero())).await);
    log.push(outcome(create_task(zero())).await);
    let limited = timeout(Duration::ZERO).run(async {
        log.push(outcome(zero()).await);
        log.push(outcome(zero()).await);
        Ok(())
    });
    log.push(outcome(limited).await);
    Ok(())
}

fn trace_of(uses: impl AsyncFnOnce(Trace) -> Result<()> + 'static) -> Vec<String> {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .run_until_complete(async move { uses(log).await })
        .unwrap();
    trace.lines()
}

/// The future of the loop.
fn as_future() -> Future<()> {
    get_running_loop().unwrap().sleep(Duration::ZERO)
}

fn as_sleep() -> Sleep {
    sleep(Duration::ZERO)
}

#[test]
fn a_sleep_of_zero_does_in_every_use_what_the_future_does() {
    assert_eq!(
        trace_of(async |log| uses(as_sleep, log).await),
        trace_of(async |log| uses(as_future, log).await)
    );
}

/// Of a handle that is suspended in one task and awaited in another, which is to be cancelled.
async fn handed_on<S: Slept>(zero: fn() -> S, log: Trace) -> Result<()> {
    for awaited in [true, false] {
        let mut slept = zero();
        if awaited {
            polled(&mut slept).await;
        }
        let handed_on: Future<()> = slept.into();
        let inner = log.clone();
        let task = create_task(async move {
            current_task().expect("inside a task").cancel();
            inner.push(outcome(handed_on).await);
            yield_now().await
        });
        log.push(outcome(task).await);
    }
    Ok(())
}

#[test]
fn made_a_future_it_is_the_handle_that_it_was() {
    assert_eq!(
        trace_of(async |log| handed_on(as_sleep, log).await),
        trace_of(async |log| handed_on(as_future, log).await)
    );
}

#[test]
fn given_to_gather_it_becomes_no_task() {
    let (event_loop, _) = virtual_loop();
    let main = async {
        let gathered = gather([as_sleep(), sleep(Duration::from_secs(1))]);
        assert_eq!(all_tasks().len(), 1);
        gathered.await
    };
    assert_eq!(event_loop.run_until_complete(main).unwrap().len(), 2);
}

#[test]
fn one_that_is_over_takes_no_cancellation_when_it_is_awaited_again() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let main = async move {
        for handed_on in [false, true] {
            let log = log.clone();
            let task = create_task(async move {
                let mut slept = as_sleep();
                (&mut slept).await?;
                current_task().expect("inside a task").cancel();
                log.push(match handed_on {
                    false => outcome(slept).await,
                    true => outcome(Future::from(slept)).await,
                });
                log.push(outcome(yield_now()).await);
                Ok(())
            });
            task.await?;
        }
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
    let lines = trace.lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[..2], lines[2..]);
    assert_ne!(lines[0], lines[1]);
    assert!(lines[1].contains("cancel"), "{lines:?}");
}

#[test]
fn it_is_a_future_to_wait_to_take_and_to_clone() {
    let (event_loop, clock) = virtual_loop();
    let began = clock.time();
    let main = async {
        let sleeps = [as_sleep(), sleep(Duration::from_secs(1))];
        let (done, pending) = wait(sleeps, None, ReturnWhen::FirstCompleted).await?;
        assert_eq!((done.len(), pending.len()), (1, 1));
        let minute = sleep(Duration::from_secs(60));
        let copy = minute.clone();
        drop(minute);
        copy.take().await
    };
    event_loop.run_until_complete(main).unwrap();
    assert_eq!(clock.time() - began, Duration::from_secs(60));
}

#[test]
fn on_a_loop_that_was_closed_in_the_same_tick_it_has_failed() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(async { Ok((as_sleep(), as_future())) });
    event_loop.run_once().unwrap();
    event_loop.close().unwrap();
    let (slept, future) = task.take_result().unwrap();
    assert_eq!(misuse(slept.result()), RuntimeError::LoopClosed);
    assert_eq!(misuse(future.result()), RuntimeError::LoopClosed);
}
