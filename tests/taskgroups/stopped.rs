//! `cancel()` on purpose: the group ends early, and that is no error.

use miniloop::{Result, RuntimeError, TaskGroup, create_task};

use crate::common::{Boom, Trace, outcome, word, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop, this_task};
use crate::support::misuse;
use crate::{child, fail_after, push_end};

/// Who stops the group.
#[derive(Clone, Copy, Debug)]
enum By {
    Child,
    Callback,
    AnotherTask,
}

fn stop_after(seconds: u64, by: By, group: &TaskGroup) -> Result<()> {
    let stopped = group.clone();
    match by {
        By::Callback => {
            this_loop().call_later(secs(seconds), move || stopped.cancel());
        }
        By::Child | By::AnotherTask => {
            let stopping = async move {
                nap(seconds).await?;
                stopped.cancel();
                Ok(())
            };
            match by {
                By::Child => drop(group.create_task(stopping)?),
                _ => drop(create_task(stopping)),
            }
        }
    }
    Ok(())
}

fn push_optional(trace: &Trace, ended: &Result<Option<()>>) {
    let how = match ended {
        Ok(value) => format!("{value:?}"),
        Err(exception) => word(exception),
    };
    trace.push(format!("{how}@{} requests:{}", now(), requests()));
}

// brief: XT-18
#[test]
fn while_the_body_waits_it_interrupts_body_and_children_and_is_none() {
    for by in [By::Child, By::Callback, By::AnotherTask] {
        let lines = play(|trace| async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(child(trace.clone(), "a", 60, 2, None))?;
                stop_after(1, by, &group)?;
                noted_nap(&trace, "body", 60).await
            };
            let ended = group.run_optional(body).await;
            push_optional(&trace, &ended);
            noted_nap(&trace, "after", 1).await
        });
        let mut first = lines[..2].to_vec();
        first.sort();
        assert_eq!(first, ["a:cancelled@1", "body:cancelled@1"], "{by:?}");
        assert_eq!(
            lines[2..],
            ["a-cleanup:slept@3", "None@3 requests:0", "after:slept@4"],
            "{by:?}"
        );
    }
}

#[test]
fn run_raises_stopped_if_the_body_had_no_value_yet() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            stop_after(1, By::Callback, &group)?;
            nap(60).await
        };
        assert_eq!(misuse(group.run(body).await), RuntimeError::Stopped);
        assert_eq!((now(), requests()), ("1".into(), 0));
        Ok(())
    });
}

#[test]
fn after_the_body_it_cancels_the_children_and_the_value_comes_out() {
    for by in [By::Child, By::Callback, By::AnotherTask] {
        let lines = play(|trace| async move {
            for optional in [true, false] {
                let group = TaskGroup::new();
                let body = async {
                    group.create_task(child(trace.clone(), "a", 60, 2, None))?;
                    stop_after(1, by, &group)?;
                    Ok("value")
                };
                let value = if optional {
                    group.run_optional(body).await?
                } else {
                    Some(group.run(body).await?)
                };
                trace.push(format!("{value:?}@{}", now()));
            }
            Ok(())
        });
        assert_eq!(
            lines,
            [
                "a:cancelled@1",
                "a-cleanup:slept@3",
                "Some(\"value\")@3",
                "a:cancelled@4",
                "a-cleanup:slept@6",
                "Some(\"value\")@6"
            ]
        );
    }
}

#[test]
fn from_the_body_it_comes_at_the_body_s_next_wait() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            yields(1).await?;
            group.cancel();
            assert!(matches!(
                group.create_task(async { Ok(()) }),
                Err(RuntimeError::ShuttingDown)
            ));
            trace.push("goes on");
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines[0], "goes on");
    let mut both = lines[1..3].to_vec();
    both.sort();
    assert_eq!(both, ["a:cancelled@0", "body:cancelled@0"]);
    assert_eq!(lines[3..], ["None@0 requests:0"]);
}

#[test]
fn from_a_body_that_then_ends_without_waiting_its_value_comes_out() {
    play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace, "never-begins", 60, 0, None))?;
            group.cancel();
            Ok(5)
        };
        assert_eq!(group.run(body).await?, 5);
        assert_eq!((now(), requests()), ("0".into(), 0));
        Ok(())
    });
}

#[test]
fn before_the_group_is_entered_it_comes_at_the_body_s_first_wait() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        group.cancel();
        let body = async {
            trace.push("body");
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        let group = TaskGroup::new();
        group.cancel();
        assert_eq!(group.run(async { Ok(6) }).await?, 6, "it does not wait");
        Ok(())
    });
    assert_eq!(lines, ["body", "body:cancelled@0", "None@0 requests:0"]);
}

#[test]
fn a_second_time_and_after_the_end_it_does_nothing() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            stop_after(1, By::Callback, &group)?;
            stop_after(2, By::Callback, &group)?;
            stop_after(2, By::Callback, &group)?;
            child(trace.clone(), "body", 60, 5, None).await
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        group.cancel();
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(
        lines,
        [
            "body:cancelled@1",
            "body-cleanup:slept@6",
            "None@6 requests:0",
            "after:slept@7"
        ]
    );
}

#[test]
fn a_body_that_swallows_it_has_its_value() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            stop_after(1, By::Callback, &group)?;
            let _ = noted_nap(&trace, "body", 60).await;
            noted_nap(&trace, "again", 5).await?;
            Ok("value")
        };
        trace.push(group.run(body).await?);
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@1", "again:slept@6", "value"]);
}

#[test]
fn an_error_in_a_cleanup_comes_out_in_spite_of_it() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "a", 60, 0, Some("cleanup")))?;
            stop_after(1, By::Callback, &group)?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        noted_nap(&trace, "after", 1).await
    });
    assert_eq!(lines[2..], ["group(error:cleanup)@1 requests:0", "after:slept@2"]);
}

#[test]
fn an_error_of_the_body_s_cleanup_comes_out_in_spite_of_it() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            stop_after(1, By::Callback, &group)?;
            nap(60).await.map_err(|_| Boom("body").into())
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["group(error:body)@1 requests:0"]);
}

#[test]
fn when_a_child_has_failed_already_it_changes_nothing() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(fail_after(1, "x"))?;
            group.create_task(child(trace.clone(), "a", 60, 5, None))?;
            stop_after(3, By::Callback, &group)?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run_optional(body).await;
        push_optional(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines[2..], ["a-cleanup:slept@6", "group(error:x)@6 requests:0"]);
}

#[test]
fn an_outside_cancellation_beats_it_in_every_order() {
    for (stopped, cancelled) in [(1, 3), (3, 1), (1, 1)] {
        let lines = play(|trace| async move {
            let log = trace.clone();
            let task = create_task(async move {
                let group = TaskGroup::new();
                let body = async {
                    group.create_task(child(log.clone(), "a", 60, 10, None))?;
                    stop_after(stopped, By::Callback, &group)?;
                    let me = this_task();
                    this_loop().call_later(secs(cancelled), move || {
                        me.cancel();
                    });
                    nap(60).await
                };
                let ended = group.run_optional(body).await;
                push_optional(&log, &ended);
                ended.map(|_| ())
            });
            trace.push(outcome(task).await);
            Ok(())
        });
        assert_eq!(
            lines[1..],
            ["a-cleanup:slept@11", "cancelled@11 requests:1", "cancelled"],
            "stopped after {stopped}, cancelled after {cancelled}"
        );
    }
}

#[test]
fn stopping_the_outer_group_is_a_cancellation_to_the_inner_one() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            stop_after(1, By::Child, &outer)?;
            let body = async {
                inner.create_task(child(trace.clone(), "inner", 60, 2, None))?;
                Ok(())
            };
            let ended = inner.run_optional(body).await;
            push_optional(&trace, &ended);
            ended.map(|_| ())
        };
        let ended = outer.run_optional(body).await;
        push_optional(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "inner:cancelled@1",
            "inner-cleanup:slept@3",
            "cancelled@3 requests:1",
            "None@3 requests:0"
        ]
    );
}

#[test]
fn stopping_the_inner_group_leaves_the_outer_one_alone() {
    let lines = play(|trace| async move {
        let (outer, inner) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            outer.create_task(child(trace.clone(), "outer", 5, 0, None))?;
            let body = async {
                stop_after(1, By::Child, &inner)?;
                nap(60).await
            };
            let ended = inner.run_optional(body).await;
            push_optional(&trace, &ended);
            noted_nap(&trace, "body", 1).await
        };
        let ended = outer.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        [
            "None@1 requests:0",
            "body:slept@2",
            "outer:slept@5",
            "value@5 requests:0"
        ]
    );
}

#[test]
fn the_first_of_many_workers_that_finds_it_stops_the_others() {
    play(|_| async {
        let group = TaskGroup::new();
        let found = std::rc::Rc::new(std::cell::Cell::new(None));
        let body = async {
            for number in 1..=1000_u64 {
                let (group, found) = (group.clone(), found.clone());
                group.clone().create_task(async move {
                    nap(if number == 500 { 1 } else { 60 }).await?;
                    found.set(Some(number));
                    group.cancel();
                    Ok(())
                })?;
            }
            Ok(())
        };
        group.run(body).await?;
        assert_eq!((found.get(), now()), (Some(500), "1".into()));
        Ok(())
    });
}

#[test]
fn a_body_that_waits_for_something_foreign_is_dropped_where_it_is() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            stop_after(1, By::Child, &group)?;
            std::future::pending::<Result<()>>().await
        };
        assert_eq!(group.run_optional(body).await?, None);
        assert_eq!((now(), requests()), ("1".into(), 0));
        Ok(())
    });
}
