//! Gathers with duplicates, of nothing, cancelled, failed twice (BR-34).

use std::cell::Cell;
use std::rc::Rc;

use miniloop::{EventLoop, Future, Result, Task, create_task, gather, gather_results};

use crate::common::{Boom, virtual_loop, yields};
use crate::faults::{Reports, raised, still_works};

/// A task that counts that it has run.
fn counting(runs: &Rc<Cell<u32>>, value: u32) -> Task<u32> {
    let runs = runs.clone();
    create_task(async move {
        runs.set(runs.get() + 1);
        yields(2).await?;
        Ok(value)
    })
}

/// A child that counts that it was interrupted.
async fn interruptible(interrupted: Rc<Cell<u32>>) -> Result<()> {
    let slept = miniloop::sleep(std::time::Duration::from_secs(60)).await;
    if slept.is_err() {
        interrupted.set(interrupted.get() + 1);
    }
    slept
}

// field: BR-34
#[test]
fn a_task_that_is_gathered_twice_runs_once_and_fills_both_places() {
    let event_loop = EventLoop::new().unwrap();
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    let gathered = event_loop.run_until_complete(async move {
        let (one, two) = (counting(&count, 1), counting(&count, 2));
        gather([one.clone(), one, two.clone(), two]).await
    });
    assert_eq!(gathered.unwrap(), [1, 1, 2, 2]);
    assert_eq!(runs.get(), 2);
}

// field: BR-34
#[test]
fn a_task_in_two_gathers_fills_both() {
    let event_loop = EventLoop::new().unwrap();
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    let gathered = event_loop.run_until_complete(async move {
        let task = counting(&count, 1);
        let first = create_task(gather([task.clone(), counting(&count, 2)]));
        let second = create_task(gather([task]));
        gather((first, second)).await
    });
    assert_eq!(gathered.unwrap(), (vec![1, 2], vec![1]));
    assert_eq!(runs.get(), 2);
}

// field: BR-34
#[test]
fn a_gather_of_nothing_is_done_at_once() {
    let event_loop = EventLoop::new().unwrap();
    let gathered = event_loop.run_until_complete(async {
        let nothing = gather(Vec::<Future<u32>>::new());
        assert!(nothing.done());
        nothing.await
    });
    assert!(gathered.unwrap().is_empty());
}

// field: BR-34
#[test]
fn a_cancelled_gather_cancels_every_child_and_its_awaiter_sees_it() {
    let (event_loop, _) = virtual_loop();
    let interrupted = Rc::new(Cell::new(0));
    let count = interrupted.clone();
    event_loop
        .run_until_complete(async move {
            let children = || [count.clone(), count.clone(), count.clone()].map(interruptible);
            let gathered = gather(children());
            let awaiter = create_task(gathered.clone());
            yields(2).await?;
            assert!(gathered.cancel());
            assert!(awaiter.await.unwrap_err().is_cancelled());
            assert_eq!(count.replace(0), 3);

            let gathered = gather_results(children());
            let awaiter = create_task(gathered.clone());
            yields(2).await?;
            assert!(gathered.cancel());
            assert!(awaiter.await.unwrap_err().is_cancelled());
            assert_eq!(count.replace(0), 3);

            // The same through the task that awaits it.
            let all = children();
            let awaiter = create_task(async move { gather_results(all).await });
            yields(2).await?;
            assert!(awaiter.cancel());
            assert!(awaiter.clone().await.unwrap_err().is_cancelled() && awaiter.cancelled());
            assert_eq!(count.get(), 3);
            Ok(())
        })
        .unwrap();
    still_works(&event_loop);
}

// field: BR-34
#[test]
fn the_first_failure_is_delivered_siblings_go_on_and_a_later_failure_is_not_reported() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    event_loop
        .run_until_complete(async move {
            let fail = |ticks, name| async move {
                yields(ticks).await?;
                Err::<u32, _>(Boom(name).into())
            };
            let sibling = async move {
                yields(5).await?;
                count.set(1);
                Ok(0)
            };
            let gathered = gather((fail(3, "later"), sibling, fail(1, "first")));
            assert_eq!(raised::<Boom, _>(gathered.await), Boom("first"));
            yields(9).await
        })
        .unwrap();
    assert_eq!(runs.get(), 1);
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}
