//! Cancelling a gather, its children, and who awaits it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{
    CancelScope, EventLoop, Result, TimeoutError, create_task, gather, gather_results, get_running_loop,
    timeout,
};

use super::{fail_after, message, nap};
use crate::common::{Boom, Trace, elapsed, ticks, virtual_loop, yields};
use crate::support::{Reports, raised, settle, still_works, tick};

/// Waits for a minute, and leaves a line when it is interrupted.
async fn interruptible(trace: Trace, name: &'static str) -> Result<()> {
    nap(60).await.inspect_err(|error| {
        let message = message(error).unwrap_or_default();
        trace.push(format!("{name}:{message}"));
    })
}

// brief: XT-2
#[test]
fn a_cancellation_reaches_every_child_with_its_message_and_comes_back_with_it() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .run_until_complete(async move {
            let gathered = gather([interruptible(log.clone(), "a"), interruptible(log.clone(), "b")]);
            yields(1).await?;
            assert!(gathered.cancel_with("enough"));
            assert!(!gathered.done(), "not before a child is");
            let error = gathered.clone().await.unwrap_err();
            assert_eq!(message(&error).as_deref(), Some("enough"));
            assert!(gathered.cancelled() && !gathered.cancel());
            Ok(())
        })
        .unwrap();
    assert_eq!(trace.lines(), ["a:enough", "b:enough"]);
    assert_eq!(elapsed(&event_loop), "0");
}

#[test]
fn the_first_child_that_ends_cancelled_ends_the_gather_and_gather_results_waits_for_all() {
    async fn slow_to_stop(seconds: u64) -> Result<()> {
        let slept = nap(60).await;
        nap(seconds).await?;
        slept
    }
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let event_loop = get_running_loop()?;
            let gathered = gather([slow_to_stop(5), slow_to_stop(1)]);
            yields(1).await?;
            gathered.cancel();
            assert!(gathered.await.unwrap_err().is_cancelled());
            assert_eq!(elapsed(&event_loop), "1");
            nap(9).await?;

            let gathered = gather_results([slow_to_stop(5), slow_to_stop(1)]);
            yields(1).await?;
            gathered.cancel_with("why");
            assert_eq!(message(&gathered.await.unwrap_err()).as_deref(), Some("why"));
            assert_eq!(elapsed(&event_loop), "15");
            Ok(())
        })
        .unwrap();
}

#[test]
fn children_that_suppress_their_cancellation_do_not_save_the_gather() {
    async fn stubborn() -> Result<i32> {
        let _ = nap(60).await;
        Ok(1)
    }
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let plain = gather([stubborn(), stubborn()]);
            let results = gather_results([stubborn(), stubborn()]);
            yields(1).await?;
            assert!(plain.cancel_with("why") && results.cancel_with("why"));
            assert_eq!(message(&plain.await.unwrap_err()).as_deref(), Some("why"));
            assert_eq!(message(&results.await.unwrap_err()).as_deref(), Some("why"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_failure_during_the_cleanup_comes_first() {
    let (event_loop, _) = virtual_loop();
    let failing = async {
        let _ = nap(60).await;
        Err::<(), _>(Boom("cleanup").into())
    };
    let gathered = event_loop.run_until_complete(async {
        let gathered = gather((failing, nap(60)));
        yields(1).await?;
        gathered.cancel();
        gathered.await
    });
    assert_eq!(raised::<Boom, _>(gathered), Boom("cleanup"));
}

/// asyncio drops these.
#[test]
fn failures_behind_a_cancellation_are_reported() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let failing = || async {
        let _ = nap(60).await;
        fail_after(1, "cleanup").await
    };
    event_loop
        .run_until_complete(async move {
            let gathered = gather((nap(60), failing()));
            yields(1).await?;
            gathered.cancel();
            assert!(gathered.await.unwrap_err().is_cancelled());
            nap(3).await
        })
        .unwrap();
    let report = "Task exception was never retrieved: error:cleanup";
    assert_eq!(reports.take(), [report]);
    event_loop
        .run_until_complete(async move {
            let gathered = gather_results((nap(60), failing()));
            yields(1).await?;
            gathered.cancel();
            assert!(gathered.take().await.unwrap_err().is_cancelled());
            Ok(())
        })
        .unwrap();
    assert_eq!(reports.take(), [report]);
}

#[test]
fn a_child_cancelled_by_somebody_else_ends_the_gather_with_its_error_and_not_the_others() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let (a, b) = (create_task(nap(60)), create_task(nap(2)));
            let gathered = gather([a.clone(), b.clone()]);
            yields(1).await?;
            a.cancel_with("just this one");
            let error = gathered.clone().await.unwrap_err();
            assert_eq!(message(&error).as_deref(), Some("just this one"));
            assert!(gathered.cancelled() && !b.done());
            b.await
        })
        .unwrap();
}

#[test]
fn cancelling_a_gather_that_has_failed_leaves_the_others_alone() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let other = create_task(nap(5));
            let gathered = gather((fail_after(1, "first"), other.clone()));
            assert!(gathered.clone().await.is_err());
            assert!(!gathered.cancel());
            other.await
        })
        .unwrap();
    assert_eq!(elapsed(&event_loop), "5");
}

// brief: XT-2
#[test]
fn gathers_in_gathers_are_cancelled_through_all_levels_in_order() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .run_until_complete(async move {
            let leaf = |name| interruptible(log.clone(), name);
            let direct = gather((gather([leaf("1"), leaf("2")]), leaf("3")));
            yields(1).await?;
            direct.cancel_with("m");
            assert_eq!(message(&direct.await.unwrap_err()).as_deref(), Some("m"));

            let middle = |a, b| {
                let leaves = [leaf(a), leaf(b)];
                async move { gather(leaves).await.map(|_| ()) }
            };
            let (one, two, last) = (middle("4", "5"), middle("6", "7"), leaf("8"));
            let top = create_task(async move { gather((one, two, last)).await.map(|_| ()) });
            yields(4).await?;
            top.cancel_with("m");
            assert_eq!(message(&top.await.unwrap_err()).as_deref(), Some("m"));
            Ok(())
        })
        .unwrap();
    // In the order in which asyncio interrupts them.
    let expected = ["1:m", "2:m", "3:m", "4:m", "5:m", "6:m", "7:m", "8:m"];
    assert_eq!(trace.lines(), expected);
}

#[test]
fn a_task_that_awaits_a_gather_is_interrupted_three_ticks_after_its_cancellation() {
    let event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let (child, awaiter) = (interruptible(trace.clone(), "child"), trace.clone());
    let task = event_loop.create_task(async move {
        let gathered = gather([child]).await;
        awaiter.push("awaiter");
        gathered
    });
    for _ in 0..2 {
        tick(&event_loop);
    }
    let (handle, log, cancelled) = (event_loop.handle(), trace.clone(), task.clone());
    event_loop.call_soon(move || {
        cancelled.cancel();
        ticks(&handle, &log, 3);
    });
    settle(&event_loop);
    let expected = ["child:", "tick1", "tick2", "awaiter", "tick3"];
    assert_eq!(trace.lines(), expected);
    assert!(task.cancelled());
}

#[test]
fn a_task_given_twice_is_asked_twice_as_in_asyncio() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let task = create_task(nap(60));
            let gathered = gather([task.clone(), task.clone()]);
            yields(1).await?;
            gathered.cancel();
            assert_eq!(task.cancelling(), 2);
            assert!(gathered.await.unwrap_err().is_cancelled() && task.cancelled());
            Ok(())
        })
        .unwrap();
}

/// Completes the children of a gather, and calls `interrupt` at the moment when they are done and
/// it is not, for their callbacks have not run. Whoever waits has begun to.
fn in_the_last_tick(
    event_loop: &EventLoop,
    children: [miniloop::Future<i32>; 2],
    interrupt: impl FnOnce() + 'static,
) {
    tick(event_loop);
    event_loop.call_soon(move || {
        for child in children {
            child.set_result(1).unwrap();
        }
        interrupt();
    });
    settle(event_loop);
}

#[test]
fn a_gather_is_cancelled_also_in_its_last_tick() {
    let event_loop = EventLoop::new().unwrap();
    let children = [event_loop.create_future(), event_loop.create_future()];
    let gathered = gather(children.clone());
    let cancelled = gathered.clone();
    in_the_last_tick(&event_loop, children, move || {
        assert!(!cancelled.done() && cancelled.cancel_with("late"));
    });
    let error = gathered.result().unwrap_err();
    assert_eq!(message(&error).as_deref(), Some("late"));
}

#[test]
fn a_task_is_interrupted_also_in_the_last_tick_of_what_it_gathers() {
    let event_loop = EventLoop::new().unwrap();
    let children = [event_loop.create_future(), event_loop.create_future()];
    let gathered = gather(children.clone());
    let task = event_loop.create_task(async move { gathered.await });
    let cancelled = task.clone();
    in_the_last_tick(&event_loop, children, move || {
        assert!(cancelled.cancel());
    });
    assert!(task.cancelled(), "{task:?}");
}

#[test]
fn a_scope_interrupts_also_in_the_last_tick_of_what_is_gathered_in_it() {
    let event_loop = EventLoop::new().unwrap();
    let scope = CancelScope::new();
    let children = [event_loop.create_future(), event_loop.create_future()];
    let body = gather(children.clone());
    let entered = scope.clone();
    let task = event_loop.create_task(async move { entered.run(async move { body.await }).await });
    in_the_last_tick(&event_loop, children, move || {
        scope.cancel();
    });
    assert_eq!(task.result().unwrap(), None);
}

#[test]
fn a_failure_in_the_last_tick_does_not_save_a_task_from_its_cancellation_and_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let child = event_loop.create_future::<i32>();
    let gathered = gather([child.clone()]);
    let task = event_loop.create_task(async move { gathered.await });
    tick(&event_loop);
    let cancelled = task.clone();
    event_loop.call_soon(move || {
        child.set_exception(Boom("late")).unwrap();
        cancelled.cancel();
    });
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(
        reports.take(),
        ["Future exception was never retrieved: error:late"]
    );
}

#[test]
fn a_timeout_around_a_gather_cancels_the_children() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let leaves = [
        interruptible(trace.clone(), "a"),
        interruptible(trace.clone(), "b"),
    ];
    let limited = event_loop.run_until_complete(async move {
        timeout(Duration::from_secs(3))
            .run(async move { gather(leaves).await })
            .await
    });
    raised::<TimeoutError, _>(limited);
    assert_eq!(trace.lines(), ["a:", "b:"]);
    assert_eq!(elapsed(&event_loop), "3");
}

#[test]
fn a_task_that_gathers_itself_can_be_cancelled() {
    let event_loop = EventLoop::new().unwrap();
    let slot = Rc::new(RefCell::new(None::<miniloop::Task<i32>>));
    let itself = slot.clone();
    let task = event_loop.create_task(async move {
        let me = itself.take().expect("the task");
        let gathered = gather([me]).await?;
        Ok(gathered[0])
    });
    slot.replace(Some(task.clone()));
    settle(&event_loop);
    assert!(!task.done());
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    still_works(&event_loop);
}

#[test]
fn operations_and_plain_futures_among_the_children_are_cancelled_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<()>();
    let gathered = gather([event_loop.sleep(Duration::from_secs(60)), future.clone()]);
    assert_eq!(event_loop.timer_count(), 1);
    assert!(gathered.cancel());
    assert!(future.cancelled());
    assert!(!gathered.done());
    tick(&event_loop);
    assert!(gathered.cancelled());
}
