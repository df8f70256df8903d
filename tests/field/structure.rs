//! Cancellations that timeouts and groups must not swallow (BR-35, BR-38, BR-39).

use std::time::Duration;

use miniloop::{
    EventLoop, Future, InvalidStateError, Result, RuntimeError, Task, TaskGroup, TimeoutError, current_task,
    sleep, timeout, wait_for,
};

use crate::common::{Boom, virtual_loop, word, yields};
use crate::faults::{Drops, settle, still_works, tick};
use crate::support::Log;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn requests() -> u32 {
    current_task().expect("in a task").cancelling()
}

async fn fail_after(seconds: u64, name: &'static str) -> Result<()> {
    sleep(secs(seconds)).await?;
    Err(Boom(name).into())
}

/// A task W that waits 10 s for a future F.
fn waiter(event_loop: &EventLoop) -> (Task<&'static str>, Future<&'static str>) {
    let future = event_loop.create_future();
    let task = event_loop.create_task(wait_for(future.clone(), secs(10)));
    tick(event_loop);
    (task, future)
}

// field: BR-35
// brief: XT-4
#[test]
fn wait_for_whose_future_is_completed_and_which_is_cancelled_in_one_callback_ends_cancelled() {
    for fails in [false, true] {
        let (event_loop, _clock) = virtual_loop();
        let (task, future) = waiter(&event_loop);
        let (cancelled, completed) = (task.clone(), future.clone());
        event_loop.call_soon(move || {
            if fails {
                completed.set_exception(Boom("late")).unwrap();
            } else {
                completed.set_result("x").unwrap();
            }
            assert!(cancelled.cancel());
        });
        settle(&event_loop);
        assert!(task.cancelled(), "fails: {fails}");
        if fails {
            assert_eq!(word(&future.result().unwrap_err()), "error:late");
        } else {
            assert_eq!(future.result().unwrap(), "x", "others can read it");
        }
        still_works(&event_loop);
    }
}

// field: BR-35
// brief: XT-4
#[test]
fn wait_for_that_is_cancelled_first_has_cancelled_its_future() {
    let (event_loop, _clock) = virtual_loop();
    let (task, future) = waiter(&event_loop);
    let (cancelled, completed) = (task.clone(), future.clone());
    event_loop.call_soon(move || {
        assert!(cancelled.cancel());
        assert_eq!(completed.set_result("x"), Err(InvalidStateError::AlreadyDone));
        assert_eq!(
            completed.set_exception(Boom("late")),
            Err(InvalidStateError::AlreadyDone)
        );
    });
    settle(&event_loop);
    assert!(task.cancelled() && future.cancelled());
    still_works(&event_loop);
}

// field: BR-35
// brief: XT-4
#[test]
fn wait_for_that_is_cancelled_in_the_pass_in_which_its_time_runs_out_ends_cancelled() {
    for (completed_as_well, cancel_first) in [(false, true), (false, false), (true, true), (true, false)] {
        let (event_loop, _clock) = virtual_loop();
        let future = event_loop.create_future();
        let slot = event_loop.create_future::<Task<&'static str>>();
        let (ready, completed) = (slot.clone(), future.clone());
        let disturb = move || {
            if completed_as_well {
                let _ = completed.set_result("x");
            }
            assert!(ready.result().unwrap().cancel());
        };
        // The timer that was made first runs first.
        let task = if cancel_first {
            event_loop.call_later(secs(10), disturb);
            let task = event_loop.create_task(wait_for(future, secs(10)));
            slot.set_result(task.clone()).unwrap();
            task
        } else {
            let task = event_loop.create_task(wait_for(future, secs(10)));
            tick(&event_loop);
            event_loop.call_later(secs(10), disturb);
            slot.set_result(task.clone()).unwrap();
            task
        };
        let ended = event_loop.run_until_complete(task.clone());
        assert!(ended.unwrap_err().is_cancelled());
        assert!(task.cancelled(), "{completed_as_well} {cancel_first}");
        assert_eq!(event_loop.time(), secs(110));
        still_works(&event_loop);
    }
}

// field: BR-35
// brief: XT-4
#[test]
fn wait_for_around_a_task_that_ends_in_the_pass_of_the_cancellation_ends_cancelled() {
    let (event_loop, _clock) = virtual_loop();
    let inner = event_loop.create_task(async { Ok("done") });
    let task = event_loop.create_task({
        let inner = inner.clone();
        async move {
            wait_for(inner, secs(10)).await?;
            sleep(secs(1)).await?;
            Ok("reached the end")
        }
    });
    tick(&event_loop);
    assert!(inner.done() && !task.done());
    assert!(task.cancel());
    settle(&event_loop);
    assert!(task.cancelled());
    assert_eq!(inner.result().unwrap(), "done");
}

// field: BR-38
// brief: XT-4
#[test]
fn two_deadlines_that_pass_while_code_blocks_are_the_outer_one_s_timeout() {
    for (outer, inner) in [(2, 3), (3, 2)] {
        let (event_loop, clock) = virtual_loop();
        let log = Log::new();
        let entries = log.clone();
        let main = async move {
            let (outer, inner) = (timeout(secs(outer)), timeout(secs(inner)));
            let body = async {
                let body = async {
                    clock.advance(secs(10));
                    sleep(secs(60)).await
                };
                match inner.run(body).await {
                    Err(exception) if exception.is::<TimeoutError>() => {
                        entries.push("inner timeout");
                        Ok(())
                    }
                    ended => {
                        entries.push("inner passes it on");
                        ended
                    }
                }
            };
            if outer
                .run(body)
                .await
                .is_err_and(|exception| exception.is::<TimeoutError>())
            {
                entries.push("outer timeout");
            }
            assert!(outer.expired() && inner.expired());
            Ok(requests())
        };
        assert_eq!(event_loop.run_until_complete(main).unwrap(), 0);
        assert_eq!(log.take(), ["inner passes it on", "outer timeout"]);
        still_works(&event_loop);
    }
}

// field: BR-38
// brief: XT-4
#[test]
fn a_cancellation_that_was_pending_before_a_timeout_that_is_due_at_once_wins() {
    for delay in [Duration::ZERO, secs(1)] {
        let (event_loop, _clock) = virtual_loop();
        let task = event_loop.create_task(async move {
            current_task().expect("in a task").cancel();
            timeout(delay).run(sleep(secs(60))).await
        });
        let ended = event_loop.run_until_complete(task.clone());
        assert!(ended.unwrap_err().is_cancelled());
        assert!(task.cancelled(), "{delay:?}");
        assert_eq!((task.cancelling(), event_loop.time()), (1, secs(100)));
    }
}

// field: BR-38
// brief: XT-4
#[test]
fn a_cancellation_between_the_entry_and_the_expiry_of_a_timeout_that_is_due_at_once_wins() {
    let (event_loop, _clock) = virtual_loop();
    let limit = timeout(Duration::ZERO);
    let entered = limit.clone();
    let task = event_loop.create_task(async move { entered.run(sleep(secs(60))).await });
    tick(&event_loop);
    assert!(!limit.expired());
    assert!(task.cancel());
    settle(&event_loop);
    assert!(limit.expired() && task.cancelled());
}

// field: BR-38
// brief: XT-4
#[test]
fn a_timeout_error_that_the_body_raises_itself_passes_untouched() {
    let (event_loop, _clock) = virtual_loop();
    let main = async {
        let limit = timeout(secs(10));
        let body = async {
            sleep(secs(1)).await?;
            Err::<(), miniloop::Exception>(TimeoutError::new().into())
        };
        let ended = limit.run(body).await;
        assert!(ended.unwrap_err().is::<TimeoutError>());
        assert!(!limit.expired());
        assert_eq!(requests(), 0);
        sleep(secs(20)).await
    };
    event_loop.run_until_complete(main).unwrap();
}

// field: BR-38
// brief: XT-4
#[test]
fn a_deadline_that_is_moved_while_the_body_waits_is_the_one_that_counts() {
    for (moved_to, ends_at) in [(3, 3), (20, 20)] {
        let (event_loop, _clock) = virtual_loop();
        let limit = timeout(secs(10));
        let (moving, handle) = (limit.clone(), event_loop.handle());
        event_loop.call_later(secs(1), move || {
            moving.reschedule(secs(100 + moved_to)).unwrap();
            assert_eq!(moving.when(), Some(secs(100 + moved_to)));
        });
        let ended = event_loop.run_until_complete(async move { limit.run(sleep(secs(60))).await });
        assert!(ended.unwrap_err().is::<TimeoutError>());
        assert_eq!(handle.time(), secs(100 + ends_at));
    }
}

// field: BR-39
// brief: XT-18
#[test]
fn a_child_fails_in_the_pass_in_which_the_parent_is_cancelled() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let entries = log.clone();
    let task = event_loop.create_task(async move {
        let group = TaskGroup::new();
        let mut child = None;
        let body = async {
            child = Some(group.create_task(fail_after(1, "child"))?);
            sleep(secs(60)).await
        };
        entries.push(word(&group.run(body).await.unwrap_err()));
        assert!(child.unwrap().done());
        assert_eq!(requests(), 1);
        sleep(secs(60))
            .await
            .inspect_err(|error| entries.push(word(error)))
    });
    tick(&event_loop);
    tick(&event_loop);
    // This timer is younger than the child's.
    let cancelled = task.clone();
    event_loop.call_later(secs(1), move || {
        assert!(cancelled.cancel());
    });
    assert!(event_loop.run_until_complete(task.clone()).is_err());
    assert!(task.cancelled());
    assert_eq!(log.take(), ["group(error:child)", "cancelled"]);
    assert_eq!(event_loop.time(), secs(101));
    still_works(&event_loop);
}

// field: BR-39
// brief: XT-18
#[test]
fn nested_groups_that_fail_at_once_have_the_inner_errors_in_the_outer_ones() {
    let (event_loop, _clock) = virtual_loop();
    let main = async {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            outer.create_task(fail_after(1, "outer"))?;
            let body = async {
                inner.create_task(fail_after(1, "inner"))?;
                Ok(())
            };
            inner.run(body).await
        };
        let ended = outer.run(body).await;
        assert_eq!(requests(), 0);
        Ok(word(&ended.unwrap_err()))
    };
    let ended = event_loop.run_until_complete(main).unwrap();
    assert_eq!(ended, "group(error:outer group(error:inner))");
}

// field: BR-39
// brief: XT-18
#[test]
fn a_body_that_swallows_the_group_s_own_cancellation_leaves_the_count_as_it_was() {
    for before in [0, 1] {
        let (event_loop, _clock) = virtual_loop();
        let task = event_loop.create_task(async move {
            for _ in 0..before {
                current_task().expect("in a task").cancel();
                let _ = sleep(secs(1)).await;
            }
            let group = TaskGroup::new();
            let body = async {
                group.create_task(fail_after(1, "x"))?;
                assert!(sleep(secs(60)).await.is_err());
                assert_eq!(requests(), before + 1);
                sleep(secs(5)).await
            };
            assert_eq!(word(&group.run(body).await.unwrap_err()), "group(error:x)");
            assert_eq!(requests(), before);
            Ok(())
        });
        event_loop.run_until_complete(task).unwrap();
    }
}

// field: BR-39
// brief: XT-18
#[test]
fn a_task_for_a_group_in_which_one_has_failed_is_refused_and_dropped() {
    let (event_loop, _clock) = virtual_loop();
    let drops = Drops::default();
    let captured = drops.counted();
    let seen = drops.clone();
    let main = async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(0, "x"))?;
            let _ = sleep(secs(60)).await;
            let refused = group.create_task(async move {
                let _captured = captured;
                Ok(())
            });
            assert_eq!(refused.unwrap_err(), RuntimeError::ShuttingDown);
            assert_eq!(seen.count(), 1);
            Ok(())
        };
        Ok(word(&group.run(body).await.unwrap_err()))
    };
    assert_eq!(event_loop.run_until_complete(main).unwrap(), "group(error:x)");
    still_works(&event_loop);
}

// field: BR-39
// brief: XT-18
#[test]
fn a_child_that_fails_and_ends_before_it_is_in_the_group_does_not_hang_it() {
    for waits in [false, true] {
        let (event_loop, _clock) = virtual_loop();
        let main = async move {
            let group = TaskGroup::new();
            let body = async {
                let builder = miniloop::get_running_loop()?.task_builder().eager_start(true);
                let child = group.create_task_with(builder, async { Err::<(), _>(Boom("x").into()) })?;
                assert!(child.done());
                if waits { yields(5).await } else { Ok(()) }
            };
            let ended = group.run(body).await;
            assert_eq!(requests(), 0);
            Ok(word(&ended.unwrap_err()))
        };
        assert_eq!(event_loop.run_until_complete(main).unwrap(), "group(error:x)");
        still_works(&event_loop);
    }
}

// field: BR-39
// brief: XT-18
#[test]
fn a_child_that_is_added_while_the_group_is_aborted_is_not_forgotten() {
    // By the destructor of a sibling that is cancelled: it is refused, and the group ends.
    let (event_loop, _clock) = virtual_loop();
    let main = async {
        let group = TaskGroup::new();
        let body = async {
            let late = group.clone();
            let bomb = crate::faults::OnDrop::new(move || {
                assert!(late.create_task(sleep(secs(1000))).is_err());
            });
            group.create_task(async move {
                let _bomb = bomb;
                sleep(secs(60)).await
            })?;
            group.create_task(fail_after(1, "x"))?;
            Ok(())
        };
        Ok(word(&group.run(body).await.unwrap_err()))
    };
    assert_eq!(event_loop.run_until_complete(main).unwrap(), "group(error:x)");
    assert_eq!(event_loop.time(), secs(101));
}

// field: BR-39
// brief: XT-18
#[test]
fn a_group_that_is_stopped_on_purpose_does_not_eat_a_cancellation_from_outside() {
    for stop_first in [true, false] {
        let (event_loop, _clock) = virtual_loop();
        let group = TaskGroup::new();
        let (inside, stopped) = (group.clone(), group);
        let task = event_loop.create_task(async move {
            let body = async {
                inside.create_task(sleep(secs(60)))?;
                sleep(secs(60)).await
            };
            inside.run_optional(body).await
        });
        settle(&event_loop);
        let cancelled = task.clone();
        event_loop.call_soon(move || {
            if stop_first {
                stopped.cancel();
            }
            assert!(cancelled.cancel());
            if !stop_first {
                stopped.cancel();
            }
        });
        settle(&event_loop);
        assert!(task.cancelled(), "stop first: {stop_first}");
        assert_eq!(task.cancelling(), 1);
    }
}
