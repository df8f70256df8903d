//! What `gather` takes and gives.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use miniloop::{EventLoop, Future, InvalidStateError, create_task, gather, gather_results, get_running_loop};

use super::{fail_after, nap, value_after};
use crate::common::{Boom, Trace, elapsed, ticks, virtual_loop, yields};
use crate::support::{Reports, invalid_state, raised, settle, still_works, tick};

// brief: XT-2
#[test]
fn results_stand_in_the_order_of_the_arguments_and_all_run_at_once() {
    let (event_loop, _) = virtual_loop();
    let all = async {
        let naps = (0..5).map(|number| value_after(5 - number, number));
        gather(naps.collect::<Vec<_>>()).await
    };
    assert_eq!(event_loop.run_until_complete(all).unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(elapsed(&event_loop), "5");
}

// brief: XT-2
#[test]
fn a_tuple_gives_a_tuple_of_up_to_twelve() {
    let event_loop = EventLoop::new().unwrap();
    let twelve = async {
        let one = gather((async { Ok("one") },)).await?;
        assert_eq!(one, ("one",));
        let future = get_running_loop()?.create_future();
        future.set_result('c')?;
        let task = create_task(async { Ok(1.5) });
        let v = |number: u8| async move { Ok(number) };
        let text = async { Ok("text".to_string()) };
        gather((
            v(1),
            text,
            future,
            task,
            v(5),
            v(6),
            v(7),
            v(8),
            v(9),
            v(10),
            v(11),
            v(12),
        ))
        .await
    };
    assert_eq!(
        event_loop.run_until_complete(twelve).unwrap(),
        (1, "text".to_string(), 'c', 1.5, 5, 6, 7, 8, 9, 10, 11, 12)
    );
}

#[test]
fn results_of_coroutines_need_not_be_clonable() {
    #[derive(Debug, PartialEq)]
    struct Precious(u32);

    let event_loop = EventLoop::new().unwrap();
    let both = async {
        let task = create_task(async { Ok(Precious(1)) });
        gather((task.take(), async { Ok(Precious(2)) })).take().await
    };
    let both = event_loop.run_until_complete(both).unwrap();
    assert_eq!(both, (Precious(1), Precious(2)));
}

#[test]
fn a_result_is_moved_out_if_nobody_else_holds_its_future_and_cloned_otherwise() {
    let event_loop = EventLoop::new().unwrap();
    let value = Rc::new(());
    let (moved, cloned) = (event_loop.create_future(), event_loop.create_future());
    moved.set_result(value.clone()).unwrap();
    cloned.set_result(value.clone()).unwrap();
    let gathered = gather([moved, cloned.clone()]);
    assert_eq!(gathered.take_result().unwrap().len(), 2);
    assert_eq!(
        Rc::strong_count(&value),
        2,
        "the value, and that of the second future"
    );
    assert!(Rc::ptr_eq(&cloned.result().unwrap(), &value));
}

#[test]
fn a_result_that_somebody_else_has_taken_fails_the_gather() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<i32>();
    let gathered = gather([future.clone()]);
    future.set_result(1).unwrap();
    assert_eq!(future.take_result().unwrap(), 1);
    tick(&event_loop);
    assert_eq!(invalid_state(gathered.result()), InvalidStateError::Taken);
}

#[test]
fn a_task_given_twice_runs_once_and_its_result_stands_twice() {
    let event_loop = EventLoop::new().unwrap();
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    let all = async move {
        let task = create_task(async move {
            yields(1).await?;
            count.set(count.get() + 1);
            Ok(count.get())
        });
        let other = create_task(async { Ok(10) });
        gather([task.clone(), other, task]).await
    };
    assert_eq!(event_loop.run_until_complete(all).unwrap(), [1, 10, 1]);
    assert_eq!(runs.get(), 1);
}

#[test]
fn a_task_in_two_gathers_completes_both() {
    let event_loop = EventLoop::new().unwrap();
    let all = async {
        let task = create_task(async { Ok(7) });
        let (first, second) = (gather([task.clone()]), gather([task]));
        Ok((first.await?, second.await?))
    };
    assert_eq!(event_loop.run_until_complete(all).unwrap(), (vec![7], vec![7]));
}

#[test]
fn a_gather_of_nothing_is_done_at_once_with_or_without_a_loop() {
    let nothing = || Vec::<Future<i32>>::new();
    assert!(gather(nothing()).result().unwrap().is_empty());
    assert!(gather_results(nothing()).take_result().unwrap().is_empty());
    let event_loop = EventLoop::new().unwrap();
    let gathered = async move { gather(nothing()).await };
    assert!(event_loop.run_until_complete(gathered).unwrap().is_empty());
    event_loop.run_until_complete(gather(nothing())).unwrap();
}

#[test]
fn a_gather_of_what_is_done_already_is_done_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(1).unwrap();
    assert_eq!(gather((future.clone(), future)).result().unwrap(), (1, 1));
    event_loop
        .run_until_complete(async {
            let eager = |number| -> miniloop::Result<_> {
                let event_loop = get_running_loop()?;
                let builder = event_loop.task_builder().eager_start(true);
                Ok(builder.create_task(async move { Ok(number) }))
            };
            let gathered = gather([eager(1)?, eager(2)?]);
            assert!(gathered.done(), "eager tasks that did not wait");
            assert_eq!(gathered.await?, [1, 2]);
            let waiting = gather((eager(1)?, create_task(async { Ok(2) })));
            assert!(!waiting.done());
            assert_eq!(waiting.await?, (1, 2));
            Ok(())
        })
        .unwrap();
}

#[test]
fn an_eager_child_that_has_failed_fails_the_gather_at_once_and_the_others_go_on() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let builder = get_running_loop()?.task_builder().eager_start(true);
            let failed = builder.create_task(async { Err::<(), _>(Boom("eager").into()) });
            let ran = Rc::new(Cell::new(false));
            let flag = ran.clone();
            let gathered = gather((failed, async move {
                nap(1).await?;
                flag.set(true);
                Ok(())
            }));
            assert_eq!(raised::<Boom, _>(gathered.result()), Boom("eager"));
            nap(2).await?;
            assert!(ran.get());
            Ok(())
        })
        .unwrap();
    assert!(reports.take().is_empty());
}

// brief: XT-2
#[test]
fn the_first_failure_ends_the_gather_and_later_ones_are_not_reported() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    event_loop
        .run_until_complete(async move {
            let good = async move {
                nap(4).await?;
                log.borrow_mut().push("good");
                Ok(())
            };
            let gathered = gather((good, fail_after(1, "first"), fail_after(2, "later")));
            assert_eq!(raised::<Boom, _>(gathered.await), Boom("first"));
            assert_eq!(elapsed(&get_running_loop()?), "1");
            nap(5).await
        })
        .unwrap();
    assert_eq!(*seen.borrow(), ["good"], "the others run on");
    assert!(reports.take().is_empty());
}

#[test]
fn later_failures_are_not_reported_out_of_an_inner_gather_or_shield_either() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let inner = gather([fail_after(2, "inner"), fail_after(3, "inner, later")]);
            let shielded = miniloop::shield(fail_after(2, "shielded"));
            let gathered = gather((inner, fail_after(1, "first"), shielded));
            assert_eq!(raised::<Boom, _>(gathered.await), Boom("first"));
            nap(5).await
        })
        .unwrap();
    assert!(reports.take().is_empty());
}

#[test]
fn a_failed_gather_that_nobody_looked_at_is_reported_once() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let gathered = gather([fail_after(1, "first"), fail_after(2, "later")]);
            nap(3).await?;
            assert!(gathered.done());
            Ok(())
        })
        .unwrap();
    assert_eq!(
        reports.take(),
        ["Future exception was never retrieved: error:first"]
    );
}

// brief: XT-2
#[test]
fn gather_results_waits_for_all_and_its_errors_count_as_looked_at() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    event_loop
        .run_until_complete(async {
            let cancelled = create_task(nap(9));
            cancelled.cancel();
            let gathered = gather_results((
                fail_after(1, "one"),
                value_after(3, "three"),
                fail_after(2, "two"),
                cancelled,
            ));
            let (one, three, two, cancelled) = gathered.take().await?;
            assert_eq!(raised::<Boom, _>(one), Boom("one"));
            assert_eq!(three?, "three");
            assert_eq!(raised::<Boom, _>(two), Boom("two"));
            assert!(cancelled.unwrap_err().is_cancelled());
            Ok(())
        })
        .unwrap();
    assert_eq!(elapsed(&event_loop), "3");
    assert!(reports.take().is_empty());
}

#[test]
fn gathers_can_be_nested() {
    let (event_loop, _) = virtual_loop();
    let nested = async {
        let rows = (0..3).map(|row| gather((0..3).map(|n| value_after(n, row * n)).collect::<Vec<_>>()));
        let ((rows, sum), ()) = gather((
            gather((gather(rows.collect::<Vec<_>>()), async { Ok(1) })),
            nap(1),
        ))
        .await?;
        Ok((rows, sum))
    };
    let (rows, _) = event_loop.run_until_complete(nested).unwrap();
    assert_eq!(rows, [[0, 0, 0], [0, 1, 2], [0, 2, 4]]);
}

#[test]
fn each_gather_takes_two_ticks_from_the_childs_last_step_to_the_next_ones() {
    let event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .run_until_complete(async move {
            let inner = log.clone();
            let child = async move {
                yields(1).await?;
                inner.push("child ends");
                ticks(&get_running_loop()?, &inner, 4);
                Ok(())
            };
            gather([gather([gather([child])])]).await?;
            log.push("gathered");
            yields(1).await
        })
        .unwrap();
    let expected = ["child ends", "tick1", "tick2", "tick3", "tick4", "gathered"];
    assert_eq!(trace.lines()[..6], expected);
}

#[test]
fn a_gather_is_completed_by_nobody_else() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<i32>();
    let gathered = gather([future]);
    assert_eq!(gathered.set_result(vec![]), Err(InvalidStateError::NotYours));
    assert_eq!(
        gathered.set_exception(Boom("no")),
        Err(InvalidStateError::NotYours)
    );
    assert!(!gathered.done());
}

#[test]
fn several_may_await_one_gather_and_add_callbacks_to_it() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let gathered = gather([future.clone()]);
    let called = Rc::new(Cell::new(0));
    let flag = called.clone();
    gathered.add_done_callback(move |gathered| flag.set(gathered.result().unwrap()[0]));
    let first = gathered.clone();
    let first = event_loop.create_task(async move { first.await });
    let second = event_loop.create_task(async move { gathered.await });
    settle(&event_loop);
    future.set_result(5).unwrap();
    settle(&event_loop);
    assert_eq!(
        (first.result().unwrap(), second.result().unwrap()),
        (vec![5], vec![5])
    );
    assert_eq!(called.get(), 5);
    still_works(&event_loop);
}
