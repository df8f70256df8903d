//! Futures and tasks that are awaited on another loop than theirs.

use futures_util::future::join_all;

use miniloop::RuntimeError;

use crate::common::{Boom, state, virtual_loop};
use crate::support::{Watchdog, misuse, raised, still_works};

#[test]
fn a_pending_one_is_refused_and_is_left_as_it_was() {
    let _watchdog = Watchdog::start();
    let ((event_loop, _), (other, _)) = (virtual_loop(), virtual_loop());
    let future = other.create_future::<u32>();
    let task = other.create_task(future.clone());
    let (awaited, task_awaited) = (future.clone(), task.clone());
    let refused = event_loop.run_until_complete(async move {
        let of_a_task = task_awaited.await;
        assert_eq!(misuse(of_a_task), RuntimeError::OtherLoop);
        awaited.await
    });
    assert_eq!(misuse(refused), RuntimeError::OtherLoop);
    assert_eq!(
        (state(&future), state(&task)),
        ("pending".into(), "pending".into())
    );
    future.set_result(3).unwrap();
    assert_eq!(other.run_until_complete(task).unwrap(), 3);
    still_works(&event_loop);
}

#[test]
fn one_that_is_done_gives_what_it_has_on_any_loop() {
    let ((event_loop, _), (other, _)) = (virtual_loop(), virtual_loop());
    let [value, error, cancelled] = [(); 3].map(|()| other.create_future::<u32>());
    value.set_result(3).unwrap();
    error.set_exception(Boom("x")).unwrap();
    cancelled.cancel();
    let got = event_loop.run_until_complete(async move {
        assert_eq!(raised::<Boom, _>(error.await), Boom("x"));
        assert!(cancelled.await.unwrap_err().is_cancelled());
        value.await
    });
    assert_eq!(got.unwrap(), 3);
}

#[test]
fn one_polled_with_another_waker_than_the_task_s_is_refused_as_well() {
    let _watchdog = Watchdog::start();
    let ((event_loop, _), (other, _)) = (virtual_loop(), virtual_loop());
    // Above thirty `join_all` polls with wakers of its own.
    let all = [(); 31].map(|()| other.create_future::<()>());
    let awaited = all.clone();
    let ended = event_loop.run_until_complete(async move { Ok(join_all(awaited).await) });
    for refused in ended.unwrap() {
        assert_eq!(misuse(refused), RuntimeError::OtherLoop);
    }
    assert!(all.iter().all(|future| !future.done()));
    still_works(&event_loop);
}
