//! `TaskGroup`: tasks that do not outlive their block, and what an error, a cancellation or a stop
//! makes of them.

mod common;
#[path = "support/play.rs"]
mod play;
mod support;

#[path = "taskgroups/branches.rs"]
mod branches;
#[path = "taskgroups/builders.rs"]
mod builders;
#[path = "taskgroups/cancelled_from_outside.rs"]
mod cancelled_from_outside;
#[path = "taskgroups/errors.rs"]
mod errors;
#[path = "taskgroups/left_in_the_middle.rs"]
mod left_in_the_middle;
#[path = "taskgroups/like_asyncio.rs"]
mod like_asyncio;
#[path = "taskgroups/misuse.rs"]
mod misuse;
#[path = "taskgroups/nested.rs"]
mod nested;
#[path = "taskgroups/panics.rs"]
mod panics;
#[path = "taskgroups/stopped.rs"]
mod stopped;
#[path = "taskgroups/timed.rs"]
mod timed;

use std::cell::Cell;
use std::rc::Rc;

use miniloop::{Context, ContextVar, Result, TaskGroup};

use common::{Boom, Trace, state, ticks, word, yields};
use play::{nap, noted_nap, now, play, requests, secs, this_loop, this_task};
use support::Drops;

/// A coroutine that sleeps and fails.
async fn fail_after(seconds: u64, name: &'static str) -> Result<()> {
    nap(seconds).await?;
    Err(Boom(name).into())
}

/// A coroutine that sleeps, and does this about an interruption: it cleans up for `cleanup`
/// seconds, and then passes it on or fails with `error`.
async fn child(
    trace: Trace,
    name: &'static str,
    seconds: u64,
    cleanup: u64,
    error: Option<&'static str>,
) -> Result<()> {
    let Err(exception) = noted_nap(&trace, name, seconds).await else {
        return Ok(());
    };
    if cleanup > 0 {
        noted_nap(&trace, &format!("{name}-cleanup"), cleanup).await?;
    }
    Err(error.map_or(exception, |name| Boom(name).into()))
}

/// Leaves in the trace what a group gave, when, and the open requests.
fn push_end<T>(trace: &Trace, ended: &Result<T>) {
    let how = ended.as_ref().map_or_else(word, |_| "value".into());
    trace.push(format!("{how}@{} requests:{}", now(), requests()));
}

// brief: XT-18
#[test]
fn leaving_the_group_waits_for_every_task_in_it() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let a = group.create_task(child(trace.clone(), "a", 3, 0, None))?;
            nap(2).await?;
            let b = group.create_task(child(trace.clone(), "b", 2, 0, None))?;
            trace.push("body-ends");
            Ok((a, b))
        };
        let (a, b) = group.run(body).await?;
        assert!(a.done() && b.done());
        trace.push(format!("left@{}", now()));
        Ok(())
    });
    assert_eq!(lines, ["body-ends", "a:slept@3", "b:slept@4", "left@4"]);
}

#[test]
fn run_gives_the_value_of_the_body_and_the_tasks_keep_theirs() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            let task = group.create_task(async {
                nap(1).await?;
                Ok(42)
            })?;
            Ok(("body", task))
        };
        let (value, task) = group.run(body).await?;
        assert_eq!((value, task.result()?), ("body", 42));
        Ok(())
    });
}

#[test]
fn a_group_without_tasks_does_not_yield() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 1);
        TaskGroup::new().run(async { Ok(()) }).await?;
        let group = TaskGroup::new();
        let body = async {
            group.create_task(async { Ok(()) })?.await?;
            Ok(())
        };
        trace.push("left the empty one");
        group.run(body).await?;
        trace.push("left the other");
        Ok(())
    });
    // The body waited for the task itself, so that there is nothing left to wait for.
    assert_eq!(lines, ["left the empty one", "tick1", "left the other"]);
}

#[test]
fn leaving_takes_two_ticks_from_the_last_task_s_end() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 6);
        let (group, ran) = (TaskGroup::new(), trace.mark("child"));
        let body = async {
            group.create_task(async move {
                ran();
                Ok(())
            })?;
            Ok(())
        };
        group.run(body).await?;
        trace.push("left");
        yields(6).await
    });
    assert_eq!(
        lines,
        [
            "tick1", "child", "tick2", "tick3", "left", "tick4", "tick5", "tick6"
        ]
    );
}

#[test]
fn a_child_adds_tasks_also_after_the_body_has_ended() {
    async fn hydra(group: TaskGroup, heads: Rc<Cell<u32>>) -> Result<()> {
        heads.set(heads.get() + 1);
        nap(1).await?;
        for _ in 0..2 {
            if heads.get() < 100 {
                group.create_task(Box::pin(hydra(group.clone(), heads.clone())))?;
            }
        }
        Ok(())
    }
    play(|_| async {
        let (group, heads) = (TaskGroup::new(), Rc::new(Cell::new(0)));
        let body = async {
            group.create_task(hydra(group.clone(), heads.clone()))?;
            Ok(())
        };
        group.run(body).await?;
        assert!(heads.get() >= 100);
        assert!(this_loop().all_tasks() == [this_task()]);
        Ok(())
    });
}

#[test]
fn a_child_that_is_cancelled_by_itself_disturbs_nobody() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let a = group.create_task(child(trace.clone(), "a", 60, 0, None))?;
            let b = group.create_task(child(trace.clone(), "b", 3, 0, None))?;
            let cancelled = a.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel();
            });
            Ok((a, b))
        };
        let (a, b) = group.run(body).await?;
        trace.push(format!("{} {}", state(&a), state(&b)));
        Ok(())
    });
    assert_eq!(lines, ["a:cancelled@1", "b:slept@3", "cancelled result:none"]);
}

#[test]
fn children_whose_handles_are_dropped_are_waited_for() {
    play(|_| async {
        let (group, drops) = (TaskGroup::new(), Drops::default());
        let body = async {
            for _ in 0..10 {
                let captured = drops.counted();
                drop(group.create_task(async move {
                    let _captured = captured;
                    nap(1).await
                })?);
            }
            Ok(())
        };
        group.run(body).await?;
        assert_eq!((now(), drops.count()), ("1".into(), 10));
        Ok(())
    });
}

#[test]
fn an_eager_child_that_is_done_at_once_is_none_to_wait_for() {
    let lines = play(|trace| async move {
        ticks(&this_loop(), &trace, 1);
        let group = TaskGroup::new();
        let body = async {
            let builder = this_loop().task_builder().eager_start(true).name("eager");
            let task = group.create_task_with(builder, async { Ok(5) })?;
            assert!(task.done());
            assert_eq!(task.get_name(), "eager");
            task.result()
        };
        trace.push(group.run(body).await?.to_string());
        Ok(())
    });
    // It left before the next tick, which is the one that ends the run.
    assert_eq!(lines, ["5", "tick1"]);
}

#[test]
fn an_eager_child_that_waits_is_waited_for() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let builder = this_loop().task_builder().eager_start(true);
            group.create_task_with(builder, child(trace.clone(), "eager", 2, 0, None))?;
            trace.push("body-ends");
            Ok(())
        };
        group.run(body).await
    });
    assert_eq!(lines, ["body-ends", "eager:slept@2"]);
}

#[test]
fn a_child_has_its_name_and_its_context() {
    static VARIABLE: ContextVar<u32> = ContextVar::new("variable");
    play(|_| async {
        let (group, context) = (TaskGroup::new(), Context::new());
        let body = async {
            for number in 1..=2 {
                let builder = this_loop().task_builder().name("yolo").context(context.clone());
                let task = group.create_task_with(builder, async move {
                    VARIABLE.set(number);
                    Ok(())
                })?;
                assert_eq!(task.get_name(), "yolo");
                task.await?;
                assert_eq!(context.get(&VARIABLE), Some(number));
            }
            Ok(())
        };
        group.run(body).await
    });
}

#[test]
fn the_body_may_borrow_from_around_it() {
    play(|_| async {
        let (group, mut counted) = (TaskGroup::new(), 0);
        group
            .run(async {
                nap(1).await?;
                counted += 1;
                Ok(())
            })
            .await?;
        assert_eq!(counted, 1);
        Ok(())
    });
}

#[test]
fn groups_follow_one_another_in_one_task() {
    play(|_| async {
        for round in 0..100 {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(nap(1))?;
                if round % 2 == 0 {
                    group.create_task(fail_after(1, "even"))?;
                }
                Ok(())
            };
            assert_eq!(group.run(body).await.is_err(), round % 2 == 0);
            assert_eq!(requests(), 0);
        }
        Ok(())
    });
}

// brief: XT-18
#[test]
fn ten_thousand_children_all_end_before_the_group_does() {
    play(|_| async {
        let (group, drops) = (TaskGroup::new(), Drops::default());
        let body = async {
            for number in 0..10_000_u64 {
                let captured = drops.counted();
                group.create_task(async move {
                    let _captured = captured;
                    nap(number % 7).await
                })?;
            }
            Ok(())
        };
        group.run(body).await?;
        assert_eq!((now(), drops.count()), ("6".into(), 10_000));
        assert!(this_loop().all_tasks() == [this_task()]);
        Ok(())
    });
}

#[test]
fn ten_thousand_children_are_cancelled_for_the_error_of_one() {
    play(|_| async {
        let (group, drops) = (TaskGroup::new(), Drops::default());
        let body = async {
            for _ in 0..10_000 {
                let captured = drops.counted();
                group.create_task(async move {
                    let _captured = captured;
                    nap(60).await
                })?;
            }
            group.create_task(fail_after(1, "one"))?;
            nap(60).await
        };
        let exception = group.run(body).await.unwrap_err();
        assert_eq!(word(&exception), "group(error:one)");
        assert_eq!((now(), drops.count()), ("1".into(), 10_000));
        Ok(())
    });
}

#[test]
fn nothing_of_a_group_outlives_it_but_the_handles_that_were_kept() {
    play(|_| async {
        let (group, drops) = (TaskGroup::new(), Drops::default());
        let captured = [(); 3].map(|()| drops.counted());
        let body = async {
            for captured in captured {
                let kept = group.clone();
                group.create_task(async move {
                    let _captured = (captured, kept);
                    fail_after(1, "each").await
                })?;
            }
            Ok(())
        };
        assert!(group.run(body).await.is_err());
        assert_eq!(drops.count(), 3, "the children have held the group, and it them");
        Ok(())
    });
}
