//! A loop that is closed while somebody waits on it.

use miniloop::{EventLoop, ReturnWhen, RuntimeError, as_completed, gather, gather_results, shield, wait};

use super::nap;
use crate::support::{Drops, Reports, Watchdog, misuse, tick};

#[test]
fn a_pending_gather_and_shield_fail_when_the_loop_is_closed() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(nap(60));
    let gathered = gather([task.clone()]);
    let results = gather_results([task.clone()]);
    let nested = gather((gather([task.clone()]), shield(task.clone())));
    let shielded = shield(task);
    tick(&event_loop);
    event_loop.close().unwrap();
    assert_eq!(misuse(gathered.result()), RuntimeError::LoopClosed);
    assert_eq!(misuse(results.take_result()), RuntimeError::LoopClosed);
    assert_eq!(misuse(nested.result()), RuntimeError::LoopClosed);
    assert_eq!(misuse(shielded.result()), RuntimeError::LoopClosed);
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn closing_reports_nothing_of_gathers_that_nobody_looked_at() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let task = event_loop.create_task(nap(60));
    let held = gather([task.clone()]);
    gather([task.clone()]).add_done_callback(|_| panic!("callbacks of a closed loop do not run"));
    shield(task).add_done_callback(|_| panic!("callbacks of a closed loop do not run"));
    event_loop.close().unwrap();
    assert!(held.done());
    drop(held);
    assert_eq!(reports.take(), ["Task was destroyed but it is pending!"]);
}

#[test]
fn what_a_gather_holds_is_dropped_when_the_loop_is_closed() {
    let drops = Drops::default();
    for moment in 0..4 {
        let event_loop = EventLoop::new().unwrap();
        let child = || {
            let dropped = drops.counted();
            async move {
                let _dropped = dropped;
                nap(60).await
            }
        };
        let (first, second, third) = (child(), child(), child());
        let dropped = drops.counted();
        event_loop.create_task(async move {
            let gathered = gather((gather([first]), shield(second), third));
            gathered.add_done_callback(move |_| drop(dropped));
            gathered.await.map(|_| ())
        });
        for _ in 0..moment {
            tick(&event_loop);
        }
        drop(event_loop);
        assert_eq!(drops.count(), 4 * (moment + 1));
    }
}

#[test]
fn results_that_come_while_a_loop_closes_are_errors() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let tasks = [event_loop.create_task(nap(60)), event_loop.create_task(nap(61))];
    let mut completed = as_completed(tasks.clone());
    tick(&event_loop);
    event_loop.close().unwrap();
    let other = EventLoop::new().unwrap();
    other
        .run_until_complete(async move {
            for _ in 0..2 {
                let next = completed.next().await.expect("one for each");
                assert_eq!(misuse(next), RuntimeError::LoopClosed);
            }
            assert!(completed.next().await.is_none());
            let (done, pending) = wait(tasks, None, ReturnWhen::AllCompleted).await?;
            assert_eq!(
                (done.len(), pending.len()),
                (2, 0),
                "what is done may be anybody's"
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn on_a_closed_loop_nothing_is_waited_for() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let pending = event_loop.create_future::<()>();
    event_loop.close().unwrap();
    assert_eq!(
        misuse(gather([pending.clone()]).result()),
        RuntimeError::LoopClosed
    );
    assert_eq!(misuse(shield(pending.clone()).result()), RuntimeError::LoopClosed);
    let drops = Drops::default();
    let dropped = drops.counted();
    let coroutine = async move {
        drop(dropped);
        Ok(())
    };
    let gathered = gather((pending.clone(), coroutine));
    assert_eq!(misuse(gathered.result()), RuntimeError::LoopClosed);
    assert_eq!(drops.count(), 1);
    let mut completed = as_completed([pending]);
    let other = EventLoop::new().unwrap();
    let next = other.run_until_complete(async move { Ok(completed.next().await) });
    assert_eq!(misuse(next.unwrap().expect("an error")), RuntimeError::LoopClosed);
}
