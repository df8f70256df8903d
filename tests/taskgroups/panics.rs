//! A panic in a child or in the body is a failure like any other; nothing is left behind.

use miniloop::{ExceptionGroup, PanicError, Result, TaskGroup, create_task};

use crate::common::{raise, virtual_loop, word};
use crate::play::{nap, now, play, requests};
use crate::support::{Drops, OnDrop, Reports, raised, still_works};
use crate::{child, push_end};

// brief: XT-18
#[test]
fn in_a_child_it_cancels_the_others_and_comes_out_in_the_group() {
    play(|trace| async move {
        let (group, mut sibling) = (TaskGroup::new(), None);
        let body = async {
            sibling = Some(group.create_task(child(trace, "sibling", 60, 2, None))?);
            group.create_task(async {
                nap(1).await?;
                if now() == "1" {
                    panic!("in the child");
                }
                Ok(())
            })?;
            nap(60).await
        };
        let raised = raised::<ExceptionGroup, _>(group.run(body).await);
        assert_eq!(raised.exceptions().len(), 1);
        let panic = raised.exceptions()[0].downcast_ref::<PanicError>();
        assert!(panic.unwrap().to_string().contains("in the child"));
        assert!(sibling.unwrap().cancelled());
        assert_eq!((now(), requests()), ("3".into(), 0));
        Ok(())
    });
}

#[test]
fn in_a_child_with_an_exception_it_is_that_exception() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(async {
                nap(1).await?;
                if now() == "1" {
                    raise("x");
                }
                Ok(())
            })?;
            Ok(())
        };
        let ended = group.run(body).await;
        push_end(&trace, &ended);
        Ok(())
    });
    assert_eq!(lines, ["group(error:x)@1 requests:0"]);
}

#[test]
fn in_the_body_it_ends_the_task_and_the_children_are_cancelled() {
    let (event_loop, _clock) = virtual_loop();
    let (drops, reports) = (Drops::default(), Reports::of(&event_loop));
    let captured = drops.counted();
    let main = async move {
        let owner = create_task(async move {
            let group = TaskGroup::new();
            let body = async {
                group.create_task(async move {
                    let _captured = captured;
                    nap(60).await
                })?;
                nap(1).await?;
                if now() == "1" {
                    panic!("in the body");
                }
                Ok(())
            };
            group.run(body).await
        });
        let exception = owner.await.unwrap_err();
        assert!(exception.to_string().contains("in the body"), "{exception}");
        nap(1).await?;
        assert_eq!(miniloop::all_tasks().len(), 1, "the child is gone");
        Ok(())
    };
    event_loop.run_until_complete(main).unwrap();
    assert_eq!(event_loop.time().as_secs(), 102);
    assert!(reports.take().is_empty());
    still_works(&event_loop);
    assert_eq!(drops.count(), 1);
}

#[test]
fn in_the_drop_of_a_child_s_capture_it_is_reported_and_the_group_ends() {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let main = async {
        let group = TaskGroup::new();
        let body = async {
            let bomb = OnDrop::new(|| panic!("in the drop"));
            group.create_task(async move {
                let _bomb = bomb;
                std::future::pending::<Result<()>>().await
            })?;
            nap(1).await?;
            group.cancel();
            Ok("value")
        };
        group.run(body).await
    };
    assert_eq!(event_loop.run_until_complete(main).unwrap(), "value");
    let reported = reports.take();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].contains("in the drop"), "{reported:?}");
    still_works(&event_loop);
}

#[test]
fn many_children_that_panic_in_one_tick_all_come_out() {
    play(|_| async {
        let group = TaskGroup::new();
        let body = async {
            for number in 0..100 {
                group.create_task(async move {
                    nap(1).await?;
                    if number < 100 {
                        panic!("number {number}");
                    }
                    Ok(())
                })?;
            }
            Ok(())
        };
        let raised = raised::<ExceptionGroup, _>(group.run(body).await);
        assert_eq!(raised.exceptions().len(), 100);
        for (number, exception) in raised.exceptions().iter().enumerate() {
            assert!(
                exception.to_string().contains(&format!("number {number}")),
                "{exception}"
            );
        }
        Ok(())
    });
}

#[test]
fn a_cancellation_that_is_panicked_with_is_a_cancellation() {
    let lines = play(|trace| async move {
        let group = TaskGroup::new();
        let body = async {
            group.create_task(async {
                let slept = nap(60).await;
                if let Err(exception) = slept {
                    std::panic::panic_any(exception);
                }
                Ok(())
            })?;
            nap(1).await?;
            group.cancel();
            Ok(())
        };
        let ended = group.run(body).await;
        trace.push(ended.as_ref().map_or_else(word, |()| "value".into()));
        Ok(())
    });
    assert_eq!(lines, ["value"]);
}
