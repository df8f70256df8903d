//! What `wait` takes and gives.

use std::time::Duration;

use miniloop::{
    EventLoop, Future, ReturnWhen, RuntimeError, Task, ValueError, create_task, get_running_loop, wait,
};

use super::{fail_after, nap, value_after};
use crate::common::{Boom, elapsed, virtual_loop, yields};
use crate::support::{Reports, Watchdog, misuse, raised, settle, still_works, tick};

const SECOND: Duration = Duration::from_secs(1);

// brief: XT-3
#[test]
fn done_and_pending_stand_in_the_order_given() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let tasks = [9, 2, 8, 1].map(|seconds| create_task(value_after(seconds, seconds)));
            let (done, pending) = wait(tasks, 3 * SECOND, ReturnWhen::AllCompleted).await?;
            let done = done.iter().map(|task| task.result().unwrap());
            assert_eq!(done.collect::<Vec<_>>(), [2, 1]);
            assert_eq!(elapsed(&get_running_loop()?), "3");
            let mut late = Vec::new();
            for task in pending {
                late.push(task.await?);
            }
            assert_eq!(late, [9, 8]);
            Ok(())
        })
        .unwrap();
}

// brief: XT-3
#[test]
fn it_returns_at_the_first_at_the_first_failure_or_at_the_end() {
    let (event_loop, _) = virtual_loop();
    for (return_when, seconds, count) in [
        (ReturnWhen::FirstCompleted, 1, 1),
        (ReturnWhen::FirstException, 3, 3),
        (ReturnWhen::AllCompleted, 4, 4),
    ] {
        let started = event_loop.time();
        event_loop
            .run_until_complete(async move {
                let cancelled = create_task(nap(9));
                let cancel = cancelled.clone();
                get_running_loop()?.call_later(2 * SECOND, move || {
                    cancel.cancel();
                });
                let tasks = [
                    create_task(nap(1)),
                    cancelled,
                    create_task(fail_after(3, "third")),
                    create_task(nap(4)),
                ];
                let (done, pending) = wait(tasks, None, return_when).await?;
                assert_eq!((done.len(), pending.len()), (count, 4 - count));
                done.iter().for_each(|task| drop(task.result()));
                for task in pending {
                    task.cancel();
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(event_loop.time() - started, seconds * SECOND);
    }
}

/// asyncio's counts as looking at it.
#[test]
fn waiting_for_the_first_failure_is_not_looking_at_it() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let tasks = [create_task(fail_after(1, "unseen")), create_task(nap(5))];
            let (done, _) = wait(tasks, None, ReturnWhen::FirstException).await?;
            assert_eq!(done.len(), 1);
            drop(done);
            let task = create_task(fail_after(1, "unseen, too")).to_any();
            wait([task], None, ReturnWhen::FirstException).await?;
            Ok(())
        })
        .unwrap();
    assert_eq!(
        reports.take(),
        [
            "Task exception was never retrieved: error:unseen",
            "Task exception was never retrieved: error:unseen, too"
        ]
    );
}

#[test]
fn nothing_to_wait_for_is_an_error() {
    let event_loop = EventLoop::new().unwrap();
    let waited = event_loop.run_until_complete(async {
        let nothing = Vec::<Task<()>>::new();
        wait(nothing, None, ReturnWhen::AllCompleted).await.map(|_| ())
    });
    assert_eq!(raised::<ValueError, _>(waited), ValueError::NothingToWaitFor);
}

#[test]
fn the_same_thing_given_twice_counts_once() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let (a, b) = (create_task(nap(1)), create_task(nap(2)));
            let things = [b.clone(), a.clone(), b.clone(), a.clone()];
            let (done, pending) = wait(things, None, ReturnWhen::AllCompleted).await?;
            assert_eq!((done.len(), pending.len()), (2, 0));
            assert_eq!(done[0].get_name(), b.get_name());
            let any = [a.to_any(), a.to_any()];
            let (done, _) = wait(any, None, ReturnWhen::AllCompleted).await?;
            assert_eq!(done, [a.to_any()]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn futures_and_tasks_of_several_types_can_be_waited_for() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let event_loop = get_running_loop()?;
            let sleeps = [event_loop.sleep(SECOND), event_loop.sleep(3 * SECOND)];
            let (done, pending) = wait(sleeps, None, ReturnWhen::FirstCompleted).await?;
            assert_eq!((done.len(), pending.len()), (1, 1));
            let different = [
                create_task(value_after(1, "text")).to_any(),
                create_task(value_after(2, 2)).to_any(),
            ];
            let (done, _) = wait(different, None, ReturnWhen::AllCompleted).await?;
            assert_eq!(done.len(), 2);
            // A borrowed list, and what is returned waits for it no longer.
            let tasks = [create_task(nap(1))];
            let waiting = wait(tasks.iter().cloned(), None, ReturnWhen::AllCompleted);
            create_task(waiting).await?;
            assert!(tasks[0].done());
            Ok(())
        })
        .unwrap();
}

#[test]
fn it_does_nothing_before_it_is_awaited_and_then_counts_its_timeout() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let event_loop = get_running_loop()?;
            let waiting = wait(
                [event_loop.create_future::<()>()],
                SECOND,
                ReturnWhen::AllCompleted,
            );
            nap(5).await?;
            assert_eq!(event_loop.timer_count(), 0);
            let (done, pending) = waiting.await?;
            assert_eq!((done.len(), pending.len()), (0, 1));
            assert_eq!(elapsed(&event_loop), "6");
            Ok(())
        })
        .unwrap();
    assert_eq!(event_loop.timer_count(), 0);
}

#[test]
fn a_timeout_of_zero_is_one_look() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let tasks = [create_task(yields(1)), create_task(nap(1))];
            yields(2).await?;
            let (done, pending) = wait(tasks, Duration::ZERO, ReturnWhen::AllCompleted).await?;
            assert_eq!((done.len(), pending.len()), (1, 1));
            assert_eq!(elapsed(&get_running_loop()?), "0");
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_cancelled_wait_cancels_nothing_and_can_be_done_again() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let task = create_task(nap(5));
            let waiting = create_task(wait([task.clone()], 60 * SECOND, ReturnWhen::AllCompleted));
            nap(1).await?;
            waiting.cancel_with("not now");
            let error = waiting.take().await.unwrap_err();
            assert_eq!(super::message(&error).as_deref(), Some("not now"));
            assert!(!task.done());
            let (done, _) = wait([task], None, ReturnWhen::AllCompleted).await?;
            assert!(done[0].result().is_ok());
            Ok(())
        })
        .unwrap();
    assert_eq!(elapsed(&event_loop), "5");
}

#[test]
fn what_belongs_to_another_loop_is_refused() {
    let _watchdog = Watchdog::start();
    let (event_loop, other) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let strange = other.create_future::<()>();
    let waited = event_loop.run_until_complete(async move {
        let own = get_running_loop()?.create_future();
        wait([own, strange], None, ReturnWhen::AllCompleted)
            .await
            .map(|_| ())
    });
    assert_eq!(misuse(waited), RuntimeError::OtherLoop);
    still_works(&event_loop);
}

#[test]
fn outside_of_a_loop_it_fails() {
    use futures_util::FutureExt;
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<()>();
    let waited = wait([future], None, ReturnWhen::AllCompleted).now_or_never();
    assert_eq!(misuse(waited.expect("done at once")), RuntimeError::NoRunningLoop);
}

#[test]
fn two_may_wait_for_the_same_things() {
    let event_loop = EventLoop::new().unwrap();
    let futures: [Future<i32>; 2] = [event_loop.create_future(), event_loop.create_future()];
    let first = event_loop.create_task(wait(futures.clone(), None, ReturnWhen::FirstCompleted));
    let second = event_loop.create_task(wait(futures.clone(), None, ReturnWhen::AllCompleted));
    tick(&event_loop);
    futures[1].set_result(1).unwrap();
    settle(&event_loop);
    let (done, pending) = first.take_result().unwrap();
    assert_eq!((done.len(), pending.len()), (1, 1));
    assert!(!second.done());
    futures[0].set_exception(Boom("zero")).unwrap();
    settle(&event_loop);
    let (done, _) = second.take_result().unwrap();
    assert_eq!(raised::<Boom, _>(done[0].result()), Boom("zero"));
    assert_eq!(done[1].result().unwrap(), 1);
}

#[test]
fn a_task_of_any_type_of_another_loop_is_refused() {
    let _watchdog = Watchdog::start();
    let ((event_loop, _), (other, _)) = (virtual_loop(), virtual_loop());
    let foreign = other.create_task(async { Ok(()) }).to_any();
    for with_own in [false, true] {
        let foreign = foreign.clone();
        let refused = event_loop.run_until_complete(async move {
            let mut tasks = vec![foreign];
            if with_own {
                tasks.push(create_task(nap(60)).to_any());
            }
            wait(tasks, None, ReturnWhen::AllCompleted).await.map(drop)
        });
        assert_eq!(
            misuse(refused),
            RuntimeError::OtherLoop,
            "with its own: {with_own}"
        );
    }
    settle(&other);
    assert!(foreign.done(), "it was not touched");
    still_works(&event_loop);
}
