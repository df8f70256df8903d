//! No loop, another loop, panics.

use miniloop::{
    EventLoop, Exception, Future, PanicError, RuntimeError, create_task, gather, gather_results, shield,
    sleep,
};

use super::{nap, value_after};
use crate::common::{Boom, virtual_loop};
use crate::support::{Drops, Reports, misuse, raised, settle, still_works, tick};

#[test]
fn without_any_loop_a_coroutine_is_dropped_and_the_gather_has_failed() {
    let drops = Drops::default();
    let coroutine = |drops: &Drops| {
        let dropped = drops.counted();
        async move {
            drop(dropped);
            Ok(())
        }
    };
    let gathered = gather([coroutine(&drops), coroutine(&drops)]);
    assert_eq!(drops.count(), 2);
    assert_eq!(misuse(gathered.result()), RuntimeError::NoRunningLoop);
    let gathered = gather_results((coroutine(&drops),));
    assert_eq!(misuse(gathered.take_result()), RuntimeError::NoRunningLoop);
    assert_eq!(
        misuse(shield(coroutine(&drops)).result()),
        RuntimeError::NoRunningLoop
    );
    assert_eq!(drops.count(), 4);
}

#[test]
fn without_a_running_loop_that_of_a_future_is_used() {
    let (event_loop, _) = virtual_loop();
    let task = event_loop.create_task(value_after(1, 1));
    let gathered = gather((value_after(2, 2), task.clone()));
    assert_eq!(event_loop.run_until_complete(gathered).unwrap(), (2, 1));
    let future = event_loop.create_future();
    let gathered = gather([future.clone()]);
    event_loop.call_soon(move || future.set_result(3).unwrap());
    assert_eq!(event_loop.run_until_complete(gathered).unwrap(), [3]);
}

#[test]
fn what_belongs_to_another_loop_is_refused_and_nothing_is_begun() {
    let (event_loop, other) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let strange = other.create_future::<()>();
    let drops = Drops::default();
    let (future, dropped) = (strange.clone(), drops.counted());
    let gathered = event_loop.run_until_complete(async move {
        let coroutine = async move {
            drop(dropped);
            panic!("it must not run")
        };
        let gathered = gather((coroutine, future));
        gathered.await.map(|((), ())| ())
    });
    assert_eq!(misuse(gathered), RuntimeError::OtherLoop);
    assert_eq!(drops.count(), 1);
    let mixed = gather([event_loop.create_future(), strange.clone()]);
    assert_eq!(misuse(mixed.result()), RuntimeError::OtherLoop);
    let mixed = gather_results((event_loop.create_task(async { Ok(1) }), strange));
    assert_eq!(misuse(mixed.take_result()), RuntimeError::OtherLoop);
    still_works(&event_loop);
}

#[test]
fn futures_that_all_belong_to_another_loop_are_gathered_there() {
    let (event_loop, other) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let strange = other.create_future();
    let future = strange.clone();
    let gathered = event_loop
        .run_until_complete(async move { Ok(gather([future])) })
        .unwrap();
    strange.set_result(1).unwrap();
    assert_eq!(other.run_until_complete(gathered).unwrap(), [1]);
}

#[test]
fn a_child_that_has_failed_for_want_of_a_loop_fails_the_gather_with_its_own_error() {
    let without_loop = sleep(std::time::Duration::ZERO);
    let gathered = gather([without_loop.clone(), without_loop.clone()]);
    assert_eq!(misuse(gathered.result()), RuntimeError::NoRunningLoop);
    let event_loop = EventLoop::new().unwrap();
    let gathered = async move { gather((nap(0), without_loop)).await.map(|_| ()) };
    assert_eq!(
        misuse(event_loop.run_until_complete(gathered)),
        RuntimeError::NoRunningLoop
    );
}

#[test]
fn a_panicking_child_fails_the_gather_with_the_panic() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let panicking = || async {
        nap(0).await?;
        if true {
            panic!("oh no");
        }
        Ok(())
    };
    let gathered = async move { gather([panicking(), panicking()]).await };
    let panic = raised::<PanicError, _>(event_loop.run_until_complete(gathered));
    assert_eq!(panic.message(), "oh no");
    let gathered = async move { gather_results([panicking()]).await };
    let results = event_loop.run_until_complete(gathered).unwrap();
    assert!(results[0].as_ref().is_err_and(|error| error.is::<PanicError>()));
    settle(&event_loop);
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}

/// Panics when it is cloned.
#[derive(Debug)]
struct Uncopyable;

impl Clone for Uncopyable {
    fn clone(&self) -> Self {
        panic!("not this one")
    }
}

#[test]
fn a_result_that_panics_when_it_is_cloned_fails_the_gather_and_the_shield() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let future = event_loop.create_future::<Uncopyable>();
    let (gathered, results, shielded) = (
        gather([future.clone()]),
        gather_results([future.clone()]),
        shield(future.clone()),
    );
    future.set_result(Uncopyable).unwrap();
    settle(&event_loop);
    for error in [
        gathered.take_result().unwrap_err(),
        results.take_result().unwrap_err(),
        shielded.take_result().unwrap_err(),
    ] {
        assert_eq!(
            error.downcast_ref::<PanicError>().expect("a panic").message(),
            "not this one"
        );
    }
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}

/// Cancels a future when it is cloned, and lets go of another one.
struct Meddler {
    cancels: Future<Vec<Meddler>>,
    drops: std::rc::Rc<std::cell::RefCell<Option<Future<Vec<Meddler>>>>>,
}

impl Clone for Meddler {
    fn clone(&self) -> Self {
        self.cancels.cancel();
        self.drops.take();
        Meddler {
            cancels: self.cancels.clone(),
            drops: self.drops.clone(),
        }
    }
}

#[test]
fn a_result_whose_clone_cancels_and_drops_the_gather_does_no_harm() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let future = event_loop.create_future::<Meddler>();
    let gathered = gather([future.clone(), future.clone()]);
    let drops = std::rc::Rc::new(std::cell::RefCell::new(None));
    let meddler = Meddler {
        cancels: gathered.clone(),
        drops: drops.clone(),
    };
    drops.replace(Some(gathered.clone()));
    let task = event_loop.create_task(async move { gathered.await.map(|_| ()) });
    tick(&event_loop);
    future.set_result(meddler).unwrap();
    settle(&event_loop);
    assert!(task.cancelled(), "it was asked while it was pending");
    // It holds itself.
    drop(future.take_result());
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}

#[test]
fn an_exception_given_to_panic_arrives_as_it_is() {
    let event_loop = EventLoop::new().unwrap();
    let gathered = event_loop.run_until_complete(async {
        let child = create_task(async {
            if true {
                std::panic::panic_any(Exception::from(Boom("thrown")));
            }
            Ok(())
        });
        gather([child]).await
    });
    assert_eq!(raised::<Boom, _>(gathered), Boom("thrown"));
}
