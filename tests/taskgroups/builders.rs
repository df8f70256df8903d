//! Tasks made with a builder: eager ones, which run before the group has them, and those of another
//! loop.

use std::cell::Cell;
use std::rc::Rc;

use miniloop::{EventLoop, RuntimeError, TaskBuilder, TaskGroup};

use crate::common::{Boom, word};
use crate::play::{nap, noted_nap, now, play, this_loop};
use crate::support::{misuse, nothing_is_left};
use crate::{child, push_end};

fn eager() -> TaskBuilder {
    this_loop().task_builder().eager_start(true)
}

#[test]
fn an_eager_child_that_stops_its_group_is_stopped_with_it() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let (stop, log) = (group.clone(), trace.clone());
        let body = async {
            group.create_task_with(eager(), async move {
                stop.cancel();
                noted_nap(&log, "child", 60).await
            })?;
            noted_nap(&trace, "body", 60).await
        };
        let ended = group.run_optional(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["child:cancelled@0", "body:cancelled@0", "value@0 requests:0"]
    );
}

#[test]
fn an_eager_child_whose_eager_sibling_fails_is_cancelled() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let (inner, log) = (group.clone(), trace.clone());
        let body = async {
            group.create_task_with(eager(), async move {
                inner.create_task_with(eager(), async { Err::<(), _>(Boom("x").into()) })?;
                noted_nap(&log, "child", 60).await
            })?;
            Ok(())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["child:cancelled@0", "group(error:x)@0 requests:0"]);
}

#[test]
fn an_eager_child_that_ends_at_once_is_not_waited_for() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let child = group.create_task_with(eager(), async { Ok("value") })?;
            child.await
        };
        trace.push(group.run(body).await?);
        Ok(())
    });
    assert_eq!(lines, ["value"]);
}

#[test]
fn a_builder_of_another_loop_is_refused_and_its_coroutine_dropped() {
    let other = EventLoop::new().unwrap();
    let builder = [other.task_builder(), other.task_builder().eager_start(true)];
    let began = Rc::new(Cell::new(false));
    let begins = began.clone();
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "own", 5, 0, None))?;
            for builder in builder {
                let begins = begins.clone();
                let refused = group.create_task_with(builder, async move {
                    begins.set(true);
                    Ok(())
                });
                assert_eq!(refused.err(), Some(RuntimeError::OtherLoop));
            }
            Ok(())
        };
        group.run(body).await?;
        trace.push(now());
        Ok(())
    });
    assert_eq!(
        lines,
        ["own:slept@5", "5"],
        "the group has waited for its own task"
    );
    assert!(!began.get());
    nothing_is_left(&other);
}

#[test]
fn that_refusal_passed_on_by_the_block_comes_in_a_group() {
    let other = EventLoop::new().unwrap();
    let builder = other.task_builder();
    play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(child(trace.clone(), "own", 5, 0, None))?;
            group.create_task_with(builder, async { Ok(()) })?;
            nap(60).await
        };
        let exception = group.run(body).await.unwrap_err();
        assert_eq!(word(&exception), "group(misuse)");
        let group = exception.downcast_ref::<miniloop::ExceptionGroup>().unwrap();
        let refused = Err::<(), _>(group.exceptions()[0].clone());
        assert_eq!(misuse(refused), RuntimeError::OtherLoop);
        assert_eq!(now(), "0");
        Ok(())
    });
}
