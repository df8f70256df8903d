//! What a group refuses; the coroutine that it refuses is dropped.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use miniloop::{RuntimeError, TaskGroup};

use crate::common::{virtual_loop, yields};
use crate::play::{nap, noted_nap, play, secs, this_loop};
use crate::support::{Drops, misuse, still_works};
use crate::{fail_after, push_end};

/// Tries to add a task that must not run; what was raised, and whether its coroutine is gone.
fn add(group: &TaskGroup) -> (RuntimeError, bool) {
    let drops = Drops::default();
    let captured = drops.counted();
    let refused = group.create_task(async move {
        let _captured = captured;
        panic!("it was refused");
        #[allow(unreachable_code)]
        Ok(())
    });
    (refused.unwrap_err(), drops.count() == 1)
}

// brief: XT-18
#[test]
fn it_takes_no_task_before_it_is_entered_or_after_it_is_over() {
    play(|_| async {
        let group = TaskGroup::new();
        assert_eq!(add(&group), (RuntimeError::NotEntered, true));
        group.run(async { Ok(()) }).await?;
        assert_eq!(add(&group), (RuntimeError::Over, true));
        yields(3).await
    });
}

#[test]
fn it_takes_no_task_while_it_shuts_down() {
    play(|_| async {
        let (group, inside) = (TaskGroup::new(), TaskGroup::new());
        let body = async {
            let cleaning = group.clone();
            group.create_task(async move {
                let slept = nap(60).await;
                assert_eq!(add(&cleaning), (RuntimeError::ShuttingDown, true));
                nap(1).await?;
                assert_eq!(add(&cleaning), (RuntimeError::ShuttingDown, true));
                slept
            })?;
            group.create_task(fail_after(1, "x"))?;
            let slept = nap(60).await;
            assert_eq!(add(&group), (RuntimeError::ShuttingDown, true));
            slept
        };
        assert!(group.run(body).await.is_err());
        assert_eq!(add(&group), (RuntimeError::Over, true));
        assert_eq!(add(&inside), (RuntimeError::NotEntered, true));
        Ok(())
    });
}

#[test]
fn it_takes_no_task_once_its_last_one_has_ended_after_the_body() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            let task = group.create_task(nap(1))?;
            let late = group.clone();
            // Added after the group's own callback, and so called after it.
            task.add_done_callback(move |_| assert_eq!(add(&late), (RuntimeError::Over, true)));
            Ok(())
        };
        group.run(body).await
    });
}

#[test]
fn its_last_task_may_add_another_one_in_its_last_step() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let (adding, log) = (group.clone(), trace.clone());
            group.create_task(async move {
                nap(1).await?;
                adding.create_task(async move { noted_nap(&log, "added", 1).await })?;
                Ok(())
            })?;
            Ok(())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["added:slept@2", "value@2 requests:0"]);
}

#[test]
fn a_builder_s_task_is_refused_as_well_also_an_eager_one() {
    play(|_| async {
        let (group, drops) = (TaskGroup::new(), Drops::default());
        let captured = drops.counted();
        let builder = this_loop().task_builder().eager_start(true);
        let refused = group.create_task_with(builder, async move {
            let _captured = captured;
            panic!("it was refused");
            #[allow(unreachable_code)]
            Ok(())
        });
        assert_eq!(refused.unwrap_err(), RuntimeError::NotEntered);
        assert_eq!(drops.count(), 1);
        Ok(())
    });
}

#[test]
fn a_second_run_is_refused_whether_the_first_is_over_or_not() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            assert_eq!(misuse(group.run(nap(1)).await), RuntimeError::EnteredTwice);
            assert!(group.create_task(nap(1)).is_ok(), "it is still entered");
            Ok(())
        };
        group.run(body).await?;
        assert_eq!(misuse(group.run(nap(1)).await), RuntimeError::EnteredTwice);
        let optional = group.run_optional(nap(1)).await;
        assert_eq!(misuse(optional), RuntimeError::EnteredTwice);
        Ok(())
    });
}

#[test]
fn outside_of_a_task_it_is_refused_and_can_be_used_afterwards() {
    let poll = |group: &TaskGroup| {
        let running = pin!(group.run(async { Ok(7) }));
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(refused) => misuse(refused),
            Poll::Pending => panic!("it waits"),
        }
    };
    let (event_loop, _clock) = virtual_loop();
    let group = TaskGroup::new();
    assert_eq!(poll(&group), RuntimeError::NoRunningLoop);
    let (unused, handle) = (group.clone(), event_loop.handle());
    event_loop.call_later(secs(1), move || {
        assert_eq!(poll(&unused), RuntimeError::NotInTask);
        assert_eq!(add(&unused), (RuntimeError::NotEntered, true));
        handle.stop();
    });
    event_loop.run_forever().unwrap();
    let main = async move { group.run(async { Ok(8) }).await };
    assert_eq!(event_loop.run_until_complete(main).unwrap(), 8);
    still_works(&event_loop);
}

#[test]
fn run_does_nothing_before_it_is_polled() {
    play(|_| async {
        let group = TaskGroup::new();
        drop(group.run(async { Ok(()) }));
        assert_eq!(add(&group), (RuntimeError::NotEntered, true));
        assert_eq!(group.run(async { Ok(3) }).await?, 3);
        Ok(())
    });
}

#[test]
fn a_callback_and_another_task_may_add_tasks_too() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            let (adding, log) = (group.clone(), trace.clone());
            this_loop().call_later(secs(1), move || {
                let added = async move { noted_nap(&log, "added", 1).await };
                adding.create_task(added).expect("the body still runs");
            });
            let (adding, log) = (group.clone(), trace.clone());
            miniloop::create_task(async move {
                let added = async move { noted_nap(&log, "by-another-task", 4).await };
                adding.create_task(added)?.await
            });
            nap(2).await
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(
        lines,
        ["added:slept@2", "by-another-task:slept@4", "value@4 requests:0"]
    );
}

#[test]
fn it_says_what_it_is() {
    let group = TaskGroup::new();
    assert!(format!("{group:?}").starts_with("TaskGroup"));
}
