//! What `as_completed` takes and gives.

use std::time::Duration;

use miniloop::{EventLoop, Future, RuntimeError, as_completed, create_task, get_running_loop, wait_for};

use super::{fail_after, nap, value_after};
use crate::common::{Boom, Trace, elapsed, ticks, virtual_loop, yields};
use crate::support::{Reports, misuse, raised, still_works};

// brief: XT-2
#[test]
fn results_come_in_the_order_of_completion_failures_among_them() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let failing = |seconds, name| async move {
                fail_after(seconds, name).await?;
                Ok(seconds)
            };
            let mut works = as_completed([
                create_task(value_after(4, 4)),
                create_task(failing(2, "two")),
                create_task(value_after(1, 1)),
            ]);
            assert_eq!(works.next().await.expect("the first")?, 1);
            let second = works.next().await.expect("the second");
            assert_eq!(raised::<Boom, _>(second), Boom("two"));
            assert_eq!(elapsed(&get_running_loop()?), "2");
            assert_eq!(works.next().await.expect("the third")?, 4);
            assert!(works.next().await.is_none());
            assert!(works.next().await.is_none());
            Ok(())
        })
        .unwrap();
    assert!(reports.take().is_empty());
}

#[test]
fn those_that_end_together_come_in_the_order_of_their_ends_without_waiting() {
    let event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .run_until_complete(async move {
            let futures = [1, 2, 3].map(|_| get_running_loop().unwrap().create_future());
            let mut completed = as_completed(futures.clone());
            for number in [2, 0, 1] {
                futures[number].set_result(number)?;
            }
            ticks(&get_running_loop()?, &log, 2);
            while let Some(number) = completed.next().await {
                log.push(number?.to_string());
            }
            Ok(())
        })
        .unwrap();
    // Two ticks, as in asyncio: one for the callbacks, one for the step.
    assert_eq!(trace.lines()[..4], ["tick1", "2", "0", "1"]);
}

#[test]
fn of_what_is_done_already_results_come_in_the_order_given() {
    let event_loop = EventLoop::new().unwrap();
    let futures = [1, 2, 3].map(|number| {
        let future = event_loop.create_future();
        future.set_result(number).unwrap();
        future
    });
    let results = event_loop.run_until_complete(async move {
        let mut completed = as_completed(futures);
        let mut results = Vec::new();
        while let Some(number) = completed.next().await {
            results.push(number?);
        }
        Ok(results)
    });
    assert_eq!(results.unwrap(), [1, 2, 3]);
}

/// asyncio's iterator has then lost one.
#[test]
fn nothing_is_lost_when_the_waiting_task_is_cancelled_or_runs_out_of_time() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut naps = as_completed([value_after(2, 2), value_after(4, 4)]);
            let waiting = create_task(async move {
                let interrupted = naps.next().await.expect("an error");
                assert!(interrupted.unwrap_err().is_cancelled());
                Ok(naps)
            });
            yields(1).await?;
            waiting.cancel();
            let mut naps = waiting.take().await?;
            for late in 0..2 {
                let moment = Duration::from_millis(100);
                let next = miniloop::timeout(moment)
                    .run(async { naps.next().await.transpose() })
                    .await;
                assert!(next.is_err(), "{late}");
            }
            assert_eq!(naps.next().await.expect("the first")?, 2);
            assert_eq!(naps.next().await.expect("the second")?, 4);
            assert!(naps.next().await.is_none());
            Ok(())
        })
        .unwrap();
}

#[test]
fn nothing_is_lost_when_next_is_dropped_in_the_tick_of_an_arrival() {
    use futures_util::FutureExt;
    let event_loop = EventLoop::new().unwrap();
    event_loop
        .run_until_complete(async {
            let future = get_running_loop()?.create_future();
            let mut completed = as_completed([future.clone()]);
            assert!(completed.next().now_or_never().is_none());
            future.set_result(1)?;
            let mut next = Box::pin(completed.next());
            assert!((&mut next).now_or_never().is_none());
            yields(1).await?;
            drop(next);
            assert_eq!(
                completed.next().now_or_never().flatten().expect("it has come")?,
                1
            );
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_is_given_twice_comes_once() {
    let event_loop = EventLoop::new().unwrap();
    let count = event_loop.run_until_complete(async {
        let (a, b) = (create_task(async { Ok(1) }), create_task(async { Ok(2) }));
        let mut completed = as_completed([a.clone(), b, a]);
        let mut results = Vec::new();
        while let Some(number) = completed.next().await {
            results.push(number?);
        }
        Ok(results)
    });
    assert_eq!(count.unwrap(), [1, 2]);
}

#[test]
fn of_nothing_there_is_nothing() {
    let event_loop = EventLoop::new().unwrap();
    let next = event_loop.run_until_complete(async {
        let mut nothing = as_completed(Vec::<Future<i32>>::new());
        Ok(nothing.next().await.is_none())
    });
    assert!(next.unwrap());
}

#[test]
fn without_a_loop_or_with_two_the_error_is_the_only_result() {
    let mut homeless = as_completed([nap(1), nap(2)]);
    let (event_loop, other) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let strange = other.create_future::<()>();
    event_loop
        .run_until_complete(async move {
            let next = homeless.next().await.expect("an error");
            assert_eq!(misuse(next), RuntimeError::NoRunningLoop);
            assert!(homeless.next().await.is_none());
            let mut mixed = as_completed([get_running_loop()?.create_future(), strange]);
            let next = mixed.next().await.expect("an error");
            assert_eq!(misuse(next), RuntimeError::OtherLoop);
            assert!(mixed.next().await.is_none());
            Ok(())
        })
        .unwrap();
    still_works(&event_loop);
}

#[test]
fn a_time_limit_for_each_result_is_a_wait_for_around_next() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut naps = as_completed([value_after(1, 1), value_after(9, 9)]);
            let first = async move {
                let first = naps.next().await.expect("the first")?;
                Ok((first, naps))
            };
            let (first, mut naps) = wait_for(first, Duration::from_secs(2)).await?;
            assert_eq!(first, 1);
            assert_eq!(naps.next().await.expect("the second")?, 9);
            Ok(())
        })
        .unwrap();
}
