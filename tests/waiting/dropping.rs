//! Dropping one that waits detaches it: nothing is cancelled, nothing is kept, nothing swallowed.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use miniloop::{
    EventLoop, ReturnWhen, as_completed, create_task, gather, gather_results, get_running_loop, shield, wait,
};

use super::{fail_after, nap};
use crate::common::{pair, recv, send, virtual_loop, yields};
use crate::support::{Drops, Reports, Watchdog, nothing_is_left, settle, still_works, tick};

const MINUTE: Duration = Duration::from_secs(60);

/// Waits for a few ticks, and counts its end.
async fn steps(ticks: u32, ended: Rc<Cell<u32>>) -> miniloop::Result<()> {
    yields(ticks).await?;
    ended.set(ended.get() + 1);
    Ok(())
}

#[test]
fn a_gather_dropped_at_any_moment_leaves_its_tasks_running_and_leaks_nothing() {
    for moment in 0..8 {
        let event_loop = EventLoop::new().unwrap();
        let (drops, ended) = (Drops::default(), Rc::new(Cell::new(0)));
        let task = event_loop.create_task({
            let (drops, ended) = (drops.clone(), ended.clone());
            async move {
                let children = [1, 3, 5].map(|ticks| {
                    let (dropped, ended) = (drops.counted(), ended.clone());
                    async move {
                        let _dropped = dropped;
                        steps(ticks, ended).await
                    }
                });
                let gathered = gather(children);
                let dropped = drops.counted();
                gathered.add_done_callback(move |_| drop(dropped));
                Ok(gathered)
            }
        });
        tick(&event_loop);
        let gathered = task.take_result().unwrap();
        for _ in 0..moment {
            tick(&event_loop);
        }
        drop(gathered);
        settle(&event_loop);
        assert_eq!((moment, ended.get()), (moment, 3), "all run to their end");
        assert_eq!((moment, drops.count()), (moment, 4));
    }
}

#[test]
fn the_tasks_of_a_dropped_gather_report_their_failures_themselves() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            drop(gather([fail_after(1, "a"), fail_after(2, "b")]));
            drop(gather_results((gather([fail_after(3, "c")]),)));
            drop(shield(fail_after(4, "d")));
            drop(as_completed([fail_after(5, "e")]));
            nap(9).await
        })
        .unwrap();
    let expected =
        ["a", "b", "c", "d", "e"].map(|name| format!("Task exception was never retrieved: error:{name}"));
    assert_eq!(reports.take(), expected);
}

#[test]
fn sleeps_without_another_handle_are_abandoned_with_the_gather() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let kept = event_loop.sleep(MINUTE);
    let sleeps = || [event_loop.sleep(MINUTE), event_loop.sleep(MINUTE), kept.clone()];
    let gathered = gather(sleeps());
    let nested = gather_results((gather(sleeps()), shield(event_loop.sleep(MINUTE))));
    let completed = as_completed(sleeps());
    assert_eq!(event_loop.all_tasks().len(), 0, "no task is made for them");
    drop((gathered, nested, completed));
    assert!(!kept.done());
    drop(kept);
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_is_abandoned_with_the_gather_and_takes_no_data() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let gathered = gather((event_loop.sock_recv(&near, 100), event_loop.sleep(MINUTE)));
    tick(&event_loop);
    drop(gathered);
    send(&far, b"for the next");
    settle(&event_loop);
    assert_eq!(recv(&near, 100), b"for the next");
    still_works(&event_loop);
}

#[test]
fn operations_go_on_beside_a_failure_for_as_long_as_the_gather_is_held() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let failing = event_loop.create_future::<()>();
    let gathered = gather((failing.clone(), event_loop.sleep(MINUTE)));
    failing.set_exception(crate::common::Boom("first")).unwrap();
    settle(&event_loop);
    assert!(gathered.exception().unwrap().is_some());
    assert_eq!(event_loop.timer_count(), 1);
    drop(gathered);
    nothing_is_left(&event_loop);
}

#[test]
fn a_gather_that_loses_in_a_select_detaches() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let task = create_task(nap(5));
            let mut gathered = pin!(gather([task.clone()]).fuse());
            let mut first = pin!(nap(1).fuse());
            futures_util::select! {
                _ = gathered => panic!("too early"),
                slept = first => slept?,
            }
            task.await
        })
        .unwrap();
}

#[test]
fn a_gather_or_shield_with_a_callback_lives_without_a_handle() {
    let event_loop = EventLoop::new().unwrap();
    let (sum, first) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let futures = [1, 2].map(|_| event_loop.create_future());
    let total = sum.clone();
    gather(futures.clone())
        .add_done_callback(move |gathered| total.set(gathered.result().unwrap().iter().sum()));
    let result = first.clone();
    shield(futures[0].clone()).add_done_callback(move |shielded| result.set(shielded.result().unwrap()));
    for (number, future) in futures.iter().enumerate() {
        future.set_result(number + 1).unwrap();
    }
    settle(&event_loop);
    assert_eq!((sum.get(), first.get()), (3, 1));
}

#[test]
fn a_gather_whose_callback_is_taken_away_goes_with_its_last_handle() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let gathered = gather([event_loop.sleep(MINUTE)]);
    let dropped = drops.counted();
    let key = gathered.add_done_callback(move |_| drop(dropped));
    let handle = gathered.clone();
    drop(gathered);
    assert!(handle.remove_done_callback(key));
    assert_eq!(drops.count(), 1);
    drop(handle);
    nothing_is_left(&event_loop);
}

#[test]
fn a_wait_dropped_at_any_moment_takes_its_callbacks_and_its_timer_with_it() {
    let _watchdog = Watchdog::start();
    for moment in 0..3 {
        let event_loop = EventLoop::new().unwrap();
        let waited = event_loop.create_task({
            let sleep = event_loop.sleep(MINUTE);
            async move {
                // The only handles: with the callbacks they would live on.
                let waiting = wait([sleep], MINUTE, ReturnWhen::AllCompleted);
                waiting.await.map(|_| ())
            }
        });
        for _ in 0..moment {
            tick(&event_loop);
        }
        waited.cancel();
        settle(&event_loop);
        assert!(waited.cancelled());
        nothing_is_left(&event_loop);
    }
    let event_loop = EventLoop::new().unwrap();
    let sleep = event_loop.sleep(MINUTE);
    event_loop
        .run_until_complete(async move {
            let mut waiting = Box::pin(wait([sleep], MINUTE, ReturnWhen::AllCompleted));
            assert!((&mut waiting).now_or_never().is_none());
            assert_eq!(get_running_loop()?.timer_count(), 2);
            drop(waiting);
            Ok(())
        })
        .unwrap();
    nothing_is_left(&event_loop);
}

#[test]
fn dropping_as_completed_drops_the_results_that_were_not_fetched() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let values: Vec<_> = (0..3).map(|_| drops.counted()).collect();
    event_loop
        .run_until_complete(async move {
            let works = values.into_iter().map(|value| async move { Ok(value) });
            let mut works = as_completed(works);
            let first = works.next().await;
            yields(2).await?;
            drop(works);
            drop(first);
            Ok(())
        })
        .unwrap();
    assert_eq!(drops.count(), 3);
}

#[test]
fn a_future_that_outlives_many_who_waited_keeps_none_of_their_callbacks() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    // A callback would keep the sleep alive without its handle.
    let sleep = event_loop.sleep(MINUTE);
    for _ in 0..100 {
        drop(gather([sleep.clone()]));
        let cancelled = shield(sleep.clone());
        assert!(cancelled.cancel());
        drop(shield(sleep.clone()));
        let failing = event_loop.create_future();
        let failed = gather([failing.clone(), sleep.clone()]);
        failing.set_exception(crate::common::Boom("no")).unwrap();
        tick(&event_loop);
        assert!(failed.exception().unwrap().is_some());
    }
    assert!(!sleep.done());
    drop(sleep);
    nothing_is_left(&event_loop);
}
