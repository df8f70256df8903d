//! The future that `run` gives is dropped in the middle, or its loop is closed.

use std::pin::pin;

use futures_util::{FutureExt, select_biased, try_join};

use miniloop::{Exception, Result, RuntimeError, TaskGroup, create_task};

use crate::common::{Boom, outcome, virtual_loop, yields};
use crate::play::{nap, noted_nap, now, play, play_on, requests, secs, this_loop};
use crate::support::{Drops, OnDrop, Reports, settle, still_works, tick};
use crate::{child, fail_after};

/// Runs the group's body beside a nap that is shorter, and drops it then.
async fn run_for(seconds: u64, group: &TaskGroup, body: impl Future<Output = Result<()>>) -> Result<()> {
    let mut grouped = pin!(group.run(body).fuse());
    let mut short = pin!(nap(seconds).fuse());
    select_biased! {
        _ = grouped => unreachable!("it takes longer"),
        slept = short => slept,
    }
}

// brief: XT-18
#[test]
fn its_children_are_cancelled_whether_the_body_ran_or_was_over() {
    for body_waits in [true, false] {
        let lines = play(|trace| async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(child(trace.clone(), "a", 60, 2, None))?;
                group.create_task(child(trace.clone(), "b", 60, 0, None))?;
                if body_waits { nap(60).await } else { Ok(()) }
            };
            run_for(1, &group, body).await?;
            trace.push(format!("dropped@{} requests:{}", now(), requests()));
            assert!(matches!(
                group.create_task(async { Ok(()) }),
                Err(RuntimeError::Over)
            ));
            nap(10).await
        });
        assert_eq!(
            lines,
            [
                "dropped@1 requests:0",
                "a:cancelled@1",
                "b:cancelled@1",
                "a-cleanup:slept@3"
            ]
        );
    }
}

#[test]
fn a_child_that_fails_afterwards_reports_that_itself_once() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let main = async {
        let group = TaskGroup::new();
        let body = async {
            for name in ["one", "two"] {
                group.create_task(async move {
                    let _ = nap(60).await;
                    Err::<(), Exception>(Boom(name).into())
                })?;
            }
            Ok(())
        };
        run_for(1, &group, body).await?;
        nap(1).await
    };
    event_loop.run_until_complete(main).unwrap();
    let reported = reports.take();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for (name, report) in ["error:one", "error:two"].iter().zip(reported) {
        assert!(report.contains(name), "{report}");
    }
}

#[test]
fn an_error_that_came_before_is_reported_once() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let main = async {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "early"))?;
            let slept = nap(60).await;
            nap(60).await?;
            slept
        };
        run_for(5, &group, body).await?;
        assert_eq!(requests(), 0);
        nap(1).await
    };
    event_loop.run_until_complete(main).unwrap();
    let reported = reports.take();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("error:early"), "{reported:?}");
}

#[test]
fn a_child_whose_handle_was_kept_can_be_awaited_afterwards() {
    let lines = play(|trace| async move {
        let (group, mut kept) = (TaskGroup::new(), None);
        let body = async {
            let task = group.create_task(async {
                let _ = nap(60).await;
                fail_after(3, "late").await
            });
            kept = Some(task?);
            Ok(())
        };
        run_for(1, &group, body).await?;
        trace.push(format!("{}@{}", outcome(kept.unwrap()).await, now()));
        Ok(())
    });
    assert_eq!(lines, ["error:late@4"]);
}

#[test]
fn the_loop_is_closed_in_the_middle() {
    let (event_loop, _clock) = virtual_loop();
    let (drops, group) = (Drops::default(), TaskGroup::new());
    let captured = [(); 4].map(|()| drops.counted());
    let inside = group.clone();
    let [one, two, three, four] = captured;
    event_loop.create_task(async move {
        let _owner = one;
        let body = async {
            let _body = two;
            for captured in [three, four] {
                let (captured, kept) = (captured, inside.clone());
                inside.create_task(async move {
                    let _captured = (captured, kept);
                    nap(60).await
                })?;
            }
            nap(60).await
        };
        inside.run(body).await
    });
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(drops.count(), 0);
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 4);
    assert!(group.create_task(async { Ok(()) }).is_err());
    group.cancel();
}

#[test]
fn the_loop_is_closed_while_the_group_waits_for_a_cleanup() {
    let (event_loop, _clock) = virtual_loop();
    let (drops, reports) = (Drops::default(), Reports::of(&event_loop));
    let captured = drops.counted();
    let task = event_loop.create_task(async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(async move {
                let _captured = captured;
                let _ = nap(60).await;
                nap(60).await
            })?;
            Ok(())
        };
        group.run(body).await
    });
    settle(&event_loop);
    task.cancel();
    settle(&event_loop);
    assert!(!task.done());
    event_loop.close().unwrap();
    assert_eq!(drops.count(), 1);
    // One that counts the tasks which were pending.
    assert_eq!(reports.take().len(), 1);
}

#[test]
fn a_body_s_capture_whose_drop_uses_the_group_does_no_harm() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let (dropping, log) = (group.clone(), trace.clone());
        let bomb = OnDrop::new(move || {
            let added = dropping.create_task(async { nap(1).await });
            log.push(format!("added:{}", added.is_ok()));
            dropping.cancel();
        });
        let body = async {
            let _bomb = bomb;
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            nap(60).await
        };
        run_for(1, &group, body).await?;
        nap(5).await
    });
    assert_eq!(lines.last().unwrap(), "a:cancelled@1");
}

#[test]
fn a_child_s_capture_whose_drop_uses_the_group_does_no_harm() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let (dropping, log) = (group.clone(), trace.clone());
        let bomb = OnDrop::new(move || {
            let added = dropping.create_task(async { Ok(()) });
            log.push(format!("added:{}", added.is_ok()));
            dropping.cancel();
        });
        let body = async {
            group.create_task(async move {
                let _bomb = bomb;
                nap(60).await
            })?;
            group.create_task(fail_after(1, "x"))?;
            Ok(())
        };
        trace.push(outcome(group.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["added:false", "group(error:x)"]);
}

#[test]
fn the_owner_is_dropped_with_its_loop_while_another_task_holds_the_group() {
    let (event_loop, _clock) = virtual_loop();
    let lines = play_on(&event_loop, |trace| async move {
        let group = TaskGroup::new();
        let (inside, log) = (group.clone(), trace.clone());
        let owner = create_task(async move {
            let body = async {
                inside.create_task(child(log, "a", 60, 0, None))?;
                std::future::pending::<Result<()>>().await
            };
            inside.run(body).await
        });
        nap(1).await?;
        // It waits for something foreign only: its coroutine is dropped.
        owner.cancel();
        trace.push(outcome(owner).await);
        assert!(matches!(
            group.create_task(async { Ok(()) }),
            Err(RuntimeError::Over)
        ));
        nap(1).await?;
        assert_eq!(this_loop().time(), secs(102));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "cancelled"]);
}

#[test]
fn dropped_by_one_of_its_own_children_s_callbacks() {
    let lines = play(|trace| async move {
        let (group, log) = (TaskGroup::new(), trace.clone());
        let slot = std::rc::Rc::new(std::cell::RefCell::new(None));
        let (dropped, inside) = (slot.clone(), group.clone());
        let running = async move {
            let body = async {
                let quick = inside.create_task(nap(1))?;
                inside.create_task(child(log, "a", 60, 0, None))?;
                quick.add_done_callback(move |_| {
                    let running: Option<futures_util::future::LocalBoxFuture<'static, Result<()>>> =
                        dropped.take();
                    assert!(running.is_some());
                });
                Ok(())
            };
            inside.run(body).await
        };
        let mut running = running.boxed_local();
        assert!((&mut running).now_or_never_in_task().await.is_none());
        slot.replace(Some(running));
        noted_nap(&trace, "main", 5).await
    });
    assert_eq!(lines, ["a:cancelled@1", "main:slept@5"]);
}

/// One poll with the waker of the task that awaits it.
trait NowOrNever: Future + Unpin {
    async fn now_or_never_in_task(mut self) -> Option<Self::Output>
    where
        Self: Sized,
    {
        std::future::poll_fn(|cx| match self.poll_unpin(cx) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}

impl<F: Future + Unpin> NowOrNever for F {}

#[test]
fn an_error_of_the_body_that_was_over_is_reported_once() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(async {
                    let slept = nap(60).await;
                    nap(10).await?;
                    slept
                })?;
                yields(2).await?;
                Err::<(), _>(Boom("body").into())
            };
            run_for(5, &group, body).await?;
            nap(60).await
        })
        .unwrap();
    assert_eq!(
        reports.take(),
        ["Exception in a task group that was dropped: error:body"]
    );
    still_works(&event_loop);
}

#[test]
fn children_that_were_cancelled_before_are_left_to_their_cleanup() {
    let lines = play(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(child(log.clone(), "child", 60, 3, None))?;
                nap(60).await
            };
            // Ends first, and the group is dropped with the other branch.
            let beside = async {
                let slept = nap(60).await;
                nap(1).await?;
                slept
            };
            try_join!(group.run(body), beside).map(drop)
        });
        nap(1).await?;
        task.cancel();
        trace.push(outcome(task).await);
        trace.push(now());
        nap(5).await
    });
    assert_eq!(
        lines,
        ["child:cancelled@1", "cancelled", "2", "child-cleanup:slept@4"]
    );
}
