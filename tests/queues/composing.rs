//! The futures of a queue are coroutines, which go wherever one is wanted.

use std::time::Duration;

use miniloop::{
    PriorityQueue, Queue, QueueShutDown, TaskGroup, TimeoutError, create_task, gather, timeout, wait_for,
};

use crate::common::{virtual_loop, yields};
use crate::support::{Drops, raised, settle};

const SECOND: Duration = Duration::from_secs(1);

// brief: XT-9
#[test]
fn a_put_and_a_get_go_into_tasks_groups_gathers_and_timeouts() {
    let (event_loop, _) = virtual_loop();
    let queue = Queue::new(2);
    event_loop.run_until_complete(queue.put(0)).unwrap();
    let got = event_loop.run_until_complete(async move {
        let putter = create_task(queue.put(1));
        putter.await?;
        assert!(queue.full());
        let ((), first, second) = gather((queue.put(2), queue.get(), queue.get())).await?;
        let group = TaskGroup::new();
        group
            .run(async {
                group.create_task(queue.put(4))?;
                group.create_task(queue.join())?;
                let mut got = vec![first, second];
                for _ in 0..2 {
                    got.push(wait_for(queue.get(), SECOND).await?);
                }
                for _ in 0..4 {
                    queue.task_done()?;
                }
                Ok(got)
            })
            .await
    });
    assert_eq!(got.unwrap(), [0, 1, 2, 4]);
}

// brief: XT-9
#[test]
fn a_put_that_runs_out_of_time_drops_its_item_and_leaves_the_queue_as_it_was() {
    let (event_loop, _) = virtual_loop();
    let drops = Drops::default();
    let (first, late, later) = (drops.counted(), drops.counted(), drops.counted());
    let count = drops.clone();
    let queue = event_loop
        .run_until_complete(async move {
            let queue = Queue::new(1);
            queue.put(first).await?;
            let late = wait_for(queue.put(late), SECOND).await;
            assert_eq!(raised::<TimeoutError, _>(late), TimeoutError::new());
            assert_eq!(count.count(), 1);
            let later = timeout(SECOND).run(queue.put(later)).await;
            assert_eq!(raised::<TimeoutError, _>(later), TimeoutError::new());
            Ok(queue)
        })
        .unwrap();
    assert_eq!((queue.qsize(), drops.count()), (1, 2));
}

// brief: XT-9
#[test]
fn put_or_return_gives_the_item_back_for_every_reason() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let queue = PriorityQueue::new(1);
            queue.put(1).await?;
            let (cancelled, shut_down) = (queue.put_or_return(2), queue.put_or_return(3));
            let cancelled = create_task(async { Ok(cancelled.await) });
            let shut_down = create_task(async { Ok(shut_down.await) });
            yields(2).await?;
            cancelled.cancel();
            let error = cancelled.take().await?.unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.into_item(), 2);
            queue.shutdown(false);
            let error = shut_down.take().await?.unwrap_err();
            assert!(error.is_shut_down());
            assert_eq!(error.into_item(), 3);
            assert_eq!(queue.put_or_return(4).await.unwrap_err().into_item(), 4);
            assert_eq!(raised::<QueueShutDown, _>(queue.put(5).await), QueueShutDown);
            assert_eq!(queue.get().await?, 1);
            Ok(())
        })
        .unwrap();
    settle(&event_loop);
}
