//! What `shield` takes and gives, and what it keeps from being cancelled.

use std::time::Duration;

use miniloop::{EventLoop, InvalidStateError, create_task, gather, get_running_loop, shield};

use super::{fail_after, message, nap, value_after};
use crate::common::{Boom, elapsed, pair, virtual_loop, yields};
use crate::support::{Reports, Watchdog, nothing_is_left, raised, settle, still_works, tick};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn it_has_the_outcome_of_what_it_covers() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            assert_eq!(shield(value_after(1, 1)).await?, 1);
            let error = raised::<Boom, _>(shield(fail_after(1, "inner")).await);
            assert_eq!(error, Boom("inner"));
            let task = create_task(value_after(1, 2));
            assert_eq!(shield(task.clone()).await?, 2);
            assert_eq!(task.result()?, 2, "the task keeps it");
            struct Precious;
            let Precious = shield(create_task(value_after(1, Precious)).take())
                .take()
                .await?;
            Ok(())
        })
        .unwrap();
}

#[test]
fn of_what_is_done_it_gives_the_future_itself() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result("done").unwrap();
    let shielded = shield(future.clone());
    assert_eq!(shielded.take_result().unwrap(), "done");
    assert!(future.result().is_err(), "taken from the same one");
}

#[test]
fn a_cancelled_shield_is_done_at_once_and_the_inner_task_runs_on() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let inner = create_task(value_after(5, "saved"));
            let shielded = shield(inner.clone());
            assert!(shielded.cancel_with("enough"));
            assert!(shielded.cancelled() && !shielded.cancel());
            let error = shielded.await.unwrap_err();
            assert_eq!(message(&error).as_deref(), Some("enough"));
            assert_eq!(inner.cancelling(), 0);
            assert_eq!(inner.await?, "saved");
            Ok(())
        })
        .unwrap();
    assert_eq!(elapsed(&event_loop), "5");
}

#[test]
fn a_coroutine_or_operation_that_nobody_else_holds_goes_on_behind_a_cancelled_shield() {
    let _watchdog = Watchdog::start();
    let (event_loop, _) = virtual_loop();
    let (near, far) = pair();
    let data = vec![7; 1 << 22];
    let size = data.len();
    event_loop
        .run_until_complete(async move {
            let event_loop = get_running_loop()?;
            let task = create_task({
                let sending = event_loop.sock_sendall(&near, data);
                async move {
                    // The only handle of the operation.
                    shield(sending).await
                }
            });
            yields(2).await?;
            assert!(!task.done(), "it does not fit into the buffers");
            task.cancel();
            assert!(task.await.unwrap_err().is_cancelled());
            let mut received = 0;
            while received < size {
                received += event_loop.sock_recv(&far, 1 << 20).await?.len();
            }
            let shielded = shield(gather((nap(1), event_loop.sleep(MINUTE))));
            shielded.cancel();
            drop(shielded);
            nap(2).await?;
            assert_eq!(event_loop.timer_count(), 1, "the sleep");
            nap(60).await
        })
        .unwrap();
    nothing_is_left(&event_loop);
}

/// asyncio drops it.
#[test]
fn a_failure_behind_a_cancelled_shield_is_reported() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let shielded = shield(fail_after(1, "behind"));
            shielded.cancel();
            drop(shielded);
            nap(2).await
        })
        .unwrap();
    let report = "Task exception was never retrieved: error:behind";
    assert_eq!(reports.take(), [report]);

    // Also if the failure is there, and on its way.
    let inner = event_loop.create_future::<()>();
    let shielded = shield(inner.clone());
    inner.set_exception(Boom("on its way")).unwrap();
    assert!(shielded.cancel());
    settle(&event_loop);
    drop((inner, shielded));
    let report = "Future exception was never retrieved: error:on its way";
    assert_eq!(reports.take(), [report]);
}

#[test]
fn a_cancellation_of_the_inner_one_comes_through_with_its_message() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let inner = create_task(nap(60));
            let shielded = shield(inner.clone());
            yields(1).await?;
            inner.cancel_with("from inside");
            let error = shielded.clone().await.unwrap_err();
            assert_eq!(message(&error).as_deref(), Some("from inside"));
            assert!(shielded.cancelled());
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_shield_inside_a_gather_keeps_its_part_from_being_cancelled() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let (saved, other) = (create_task(nap(5)), create_task(nap(5)));
            let gathered = gather([shield(saved.clone()), gather([other.clone()]).into_unit()]);
            yields(1).await?;
            gathered.cancel();
            assert!(gathered.await.unwrap_err().is_cancelled());
            yields(2).await?;
            assert!(other.cancelled() && !saved.done());
            saved.await
        })
        .unwrap();
}

/// A gather whose results do not matter.
trait IntoUnit {
    fn into_unit(self) -> miniloop::Future<()>;
}

impl<T: Clone + 'static> IntoUnit for miniloop::Future<Vec<T>> {
    fn into_unit(self) -> miniloop::Future<()> {
        let task = create_task(async move { self.await.map(|_| ()) });
        (*task).clone()
    }
}

#[test]
fn a_shield_is_completed_by_nobody_else() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<i32>();
    let shielded = shield(future.clone());
    assert_eq!(shielded.set_result(1), Err(InvalidStateError::NotYours));
    future.set_result(2).unwrap();
    tick(&event_loop);
    assert_eq!(shielded.result().unwrap(), 2);
    still_works(&event_loop);
}
