//! A running timeout is moved: later, earlier, away, into the past, from wherever.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{TimeoutError, create_task, timeout, timeout_at};

use crate::common::{START, outcome, ticks, virtual_loop, yields};
use crate::play::{nap, noted_nap, now, play, requests, secs, this_loop};
use crate::support::raised;

// brief: XT-4
#[test]
fn moved_later_it_expires_later() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(2));
        let body = async {
            let later = this_loop().time() + secs(10);
            limit.reschedule(later)?;
            assert_eq!(limit.when(), Some(later));
            noted_nap(&trace, "body", 60).await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@10", "timeout"]);
}

#[test]
fn moved_earlier_it_expires_earlier() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(50));
        let body = async {
            limit.reschedule(this_loop().time() + secs(3))?;
            noted_nap(&trace, "body", 60).await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@3", "timeout"]);
}

#[test]
fn taken_away_it_never_expires_and_can_be_set_again() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(2));
        let body = async {
            limit.reschedule(None)?;
            assert_eq!(limit.when(), None);
            noted_nap(&trace, "without", 60).await?;
            limit.reschedule(this_loop().time() + secs(1))?;
            noted_nap(&trace, "with", 60).await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["without:slept@60", "with:cancelled@61", "timeout"]);
}

#[test]
fn one_without_a_limit_can_be_given_one() {
    for limit in [timeout(None), timeout_at(None)] {
        let lines = play(|trace| async move {
            let body = async {
                limit.reschedule(this_loop().time() + secs(4))?;
                noted_nap(&trace, "body", 60).await
            };
            trace.push(outcome(limit.run(body)).await);
            Ok(())
        });
        assert_eq!(lines, ["body:cancelled@4", "timeout"]);
    }
}

#[test]
fn a_moment_that_has_passed_interrupts_in_the_tick_after_the_next() {
    for back in [0, 1, 100] {
        let lines = play(|trace| async move {
            let limit = timeout(secs(50));
            let body = async {
                ticks(&this_loop(), &trace, 3);
                limit.reschedule(this_loop().time() - secs(back))?;
                noted_nap(&trace, "body", 60).await
            };
            trace.push(outcome(limit.run(body)).await);
            yields(3).await
        });
        assert_eq!(
            lines,
            ["tick1", "tick2", "body:cancelled@0", "timeout", "tick3"],
            "{back} s back"
        );
    }
}

#[test]
fn a_moment_in_the_past_does_not_touch_a_body_that_ends_without_waiting() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(50));
        let body = async {
            limit.reschedule(Duration::ZERO)?;
            Ok("ended")
        };
        trace.push(outcome(limit.run(body)).await);
        assert!(!limit.expired());
        yields(3).await?;
        assert_eq!(requests(), 0);
        Ok(())
    });
    assert_eq!(lines, ["result:ended"]);
}

#[test]
fn moved_on_from_the_very_tick_it_was_set_for_it_does_not_expire() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(50));
        let body = async {
            limit.reschedule(Duration::ZERO)?;
            limit.reschedule(this_loop().time() + secs(5))?;
            noted_nap(&trace, "body", 60).await
        };
        trace.push(outcome(limit.run(body)).await);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@5", "timeout"]);
}

#[test]
fn a_callback_moves_it_on_again_and_again() {
    // A watchdog that is fed every second for ten seconds.
    let lines = play(|trace| async move {
        let limit = timeout(secs(2));
        let (fed, event_loop) = (limit.clone(), this_loop());
        for second in 1..=10 {
            let (fed, event_loop) = (fed.clone(), event_loop.clone());
            this_loop().call_later(secs(second), move || {
                fed.reschedule(event_loop.time() + secs(2)).unwrap();
            });
        }
        trace.push(outcome(limit.run(noted_nap(&trace, "body", 60))).await);
        assert!(this_loop().timer_count() < 20);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@12", "timeout"]);
}

#[test]
fn another_task_moves_it() {
    let lines = play(|trace| async move {
        let (limit, log) = (timeout(secs(10)), trace.clone());
        let inside = limit.clone();
        let task = create_task(async move { inside.run(noted_nap(&log, "body", 50)).await });
        nap(1).await?;
        let deadline = this_loop().time() + secs(2);
        limit.reschedule(deadline)?;
        assert_eq!(limit.when(), Some(deadline));
        trace.push(outcome(task).await);
        Ok(())
    });
    assert_eq!(lines, ["body:cancelled@3", "timeout"]);
}

#[test]
fn one_that_was_moved_and_is_cancelled_from_outside_has_not_expired() {
    let lines = play(|trace| async move {
        let limit = timeout(secs(10));
        let inside = limit.clone();
        let task = create_task(async move { inside.run(nap(50)).await });
        nap(1).await?;
        limit.reschedule(this_loop().time() + secs(30))?;
        limit.reschedule(None)?;
        task.cancel();
        trace.push(outcome(task).await);
        assert!(!limit.expired());
        Ok(())
    });
    assert_eq!(lines, ["cancelled"]);
}

#[test]
fn moving_it_ten_thousand_times_leaves_one_timer() {
    let most = Rc::new(Cell::new(0));
    let seen = most.clone();
    play(|_| async move {
        let limit = timeout(secs(2));
        let body = async {
            for _ in 0..10_000 {
                limit.reschedule(this_loop().time() + secs(1000))?;
                seen.set(this_loop().timer_count().max(seen.get()));
            }
            Ok(())
        };
        limit.run(body).await?;
        assert_eq!(now(), "0");
        Ok(())
    });
    assert!(most.get() < 1000, "{} timers in memory", most.get());
}

#[test]
fn moved_while_another_loop_runs_it_expires_on_its_own() {
    let ((event_loop, clock), (other, _)) = (virtual_loop(), virtual_loop());
    let limit = timeout(secs(5));
    let body = limit.clone();
    let task = event_loop.create_task(async move { body.run(nap(60)).await });
    event_loop.run_once().unwrap();
    let when = START + secs(10);
    other
        .run_until_complete(async move { Ok(limit.reschedule(when)?) })
        .unwrap();
    assert_eq!(other.timer_count(), 0);
    drop(other);
    let ended = event_loop.run_until_complete(task);
    assert_eq!(raised::<TimeoutError, _>(ended), TimeoutError::new());
    assert_eq!(clock.time(), when);
}
