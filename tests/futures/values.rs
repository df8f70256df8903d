//! Values that are moved, that can not be cloned, or whose `Clone` and `Drop` misbehave.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use miniloop::{EventLoop, Future, InvalidStateError, PanicError};

use crate::common::{Boom, Trace};
use crate::support::{Counted, Drops, Reports, invalid_state, raised, still_works, tick};

/// A value that is not `Clone`.
#[derive(Debug, PartialEq)]
struct Token(u32);

#[test]
fn take_result_moves_the_value_out_once() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(Token(1)).unwrap();
    assert_eq!(future.take_result().unwrap(), Token(1));
    assert!(future.done());
    assert!(!future.cancelled());
    assert_eq!(invalid_state(future.take_result()), InvalidStateError::Taken);
    assert_eq!(future.set_result(Token(2)), Err(InvalidStateError::AlreadyDone));
    still_works(&event_loop);
}

#[test]
fn a_result_taken_is_gone_for_result_too() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(1).unwrap();
    future.take_result().unwrap();
    assert_eq!(invalid_state(future.result()), InvalidStateError::Taken);
    assert!(!future.cancel());
    still_works(&event_loop);
}

#[test]
fn awaiting_a_future_whose_value_was_taken_raises() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(1).unwrap();
    future.take_result().unwrap();
    let awaited = event_loop.run_until_complete(async move { future.await });
    assert_eq!(invalid_state(awaited), InvalidStateError::Taken);
    still_works(&event_loop);
}

#[test]
fn an_exception_can_not_be_taken_away() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future::<Token>();
    future.set_exception(Boom("x")).unwrap();
    assert_eq!(raised::<Boom, _>(future.take_result()), Boom("x"));
    assert_eq!(raised::<Boom, _>(future.take_result()), Boom("x"));
}

#[test]
fn a_value_without_clone_can_be_awaited_with_take() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let completed = future.clone();
    event_loop.call_soon(move || completed.set_result(Token(7)).unwrap());
    let taken = event_loop.run_until_complete(async move { future.take().await });
    assert_eq!(taken.unwrap(), Token(7));
}

#[test]
fn of_two_that_take_one_value_the_second_raises() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let tasks = [(); 2].map(|()| event_loop.create_task(future.clone().take()));
    tick(&event_loop);
    future.set_result(Token(7)).unwrap();
    tick(&event_loop);
    assert_eq!(tasks[0].take_result().unwrap(), Token(7));
    assert_eq!(invalid_state(tasks[1].take_result()), InvalidStateError::Taken);
    still_works(&event_loop);
}

#[test]
fn run_until_complete_moves_a_value_without_clone() {
    let event_loop = EventLoop::new().unwrap();
    let from_block = event_loop.run_until_complete(async { Ok(Token(1)) });
    assert_eq!(from_block.unwrap(), Token(1));
    let task = event_loop.create_task(async { Ok(Token(2)) });
    let from_task = event_loop.run_until_complete(task.take());
    assert_eq!(from_task.unwrap(), Token(2));
    let future = event_loop.create_future();
    let completed = future.clone();
    event_loop.call_soon(move || completed.set_result(Token(3)).unwrap());
    let from_future = event_loop.run_until_complete(future.take());
    assert_eq!(from_future.unwrap(), Token(3));
}

/// Counts its clones.
#[derive(Debug)]
struct Cloned(Rc<Cell<u32>>);

impl Clone for Cloned {
    fn clone(&self) -> Self {
        self.0.set(self.0.get() + 1);
        Cloned(Rc::clone(&self.0))
    }
}

#[test]
fn the_last_holder_of_a_future_gets_the_value_without_a_clone() {
    let event_loop = EventLoop::new().unwrap();
    let clones = Rc::new(Cell::new(0));
    let future = event_loop.create_future();
    future.set_result(Cloned(Rc::clone(&clones))).unwrap();
    event_loop
        .run_until_complete(async move { future.await })
        .unwrap();
    assert_eq!(clones.get(), 0);
}

#[test]
fn a_holder_that_is_not_the_last_gets_a_clone_and_leaves_the_value() {
    let event_loop = EventLoop::new().unwrap();
    let clones = Rc::new(Cell::new(0));
    let future = event_loop.create_future();
    future.set_result(Cloned(Rc::clone(&clones))).unwrap();
    let awaited = future.clone();
    event_loop
        .run_until_complete(async move { awaited.await })
        .unwrap();
    assert_eq!(clones.get(), 1);
    future.result().unwrap();
    assert_eq!(clones.get(), 2);
}

#[test]
fn after_the_last_holder_awaited_the_result_is_taken() {
    let event_loop = EventLoop::new().unwrap();
    let mut future = event_loop.create_future();
    future.set_result(1).unwrap();
    let answer = event_loop.run_until_complete(async move {
        let value = (&mut future).await?;
        assert!(future.done());
        assert_eq!(invalid_state(future.result()), InvalidStateError::Taken);
        Ok(value)
    });
    assert_eq!(answer.unwrap(), 1);
    still_works(&event_loop);
}

/// A value whose `Clone` uses the very future that holds it.
struct Reentrant {
    home: Future<Reentrant>,
    asked: Trace,
}

impl Clone for Reentrant {
    fn clone(&self) -> Self {
        assert!(self.home.done());
        self.asked.push("clone");
        // bounded: the inner result clones again
        if self.asked.lines().len() < 3 {
            let _ = self.home.result();
        }
        let mark = self.asked.mark("done callback");
        let key = self.home.add_done_callback(move |_| mark());
        self.home.remove_done_callback(key);
        assert!(!self.home.cancel());
        assert!(self.home.set_exception(Boom("late")).is_err());
        assert!(self.home.exception().unwrap().is_none());
        self.home.get_loop().call_soon(self.asked.mark("callback"));
        Reentrant {
            home: self.home.clone(),
            asked: self.asked.clone(),
        }
    }
}

#[test]
fn a_clone_may_use_the_future_it_is_cloned_from() {
    let event_loop = EventLoop::new().unwrap();
    let reports = Reports::of(&event_loop);
    let asked = Trace::new();
    let future = event_loop.create_future();
    let value = Reentrant {
        home: future.clone(),
        asked: asked.clone(),
    };
    assert!(future.set_result(value).is_ok());
    assert!(future.result().is_ok());
    assert_eq!(asked.lines()[0], "clone");
    assert!(future.result().is_ok(), "the value is still there");
    tick(&event_loop);
    assert!(asked.lines().contains(&"callback".to_owned()));
    // breaks the cycle of the future and its value
    drop(future.take_result());
    assert_eq!(reports.take(), [""; 0]);
    still_works(&event_loop);
}

/// A value whose `Clone` takes the value away while it is being cloned.
struct Robbed(Rc<Cell<Option<Future<Robbed>>>>, u32);

impl Clone for Robbed {
    fn clone(&self) -> Self {
        if let Some(home) = self.0.take() {
            // refused or not, what is being cloned must stay alive
            let _ = home.take_result();
        }
        Robbed(Rc::default(), self.1)
    }
}

#[test]
fn a_value_can_not_be_taken_from_under_its_own_clone() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let home = Rc::new(Cell::new(Some(future.clone())));
    assert!(future.set_result(Robbed(home, 42)).is_ok());
    assert_eq!(future.result().map(|value| value.1).unwrap(), 42);
    still_works(&event_loop);
}

/// A value that panics when it is cloned.
#[derive(Debug)]
struct NoClone;

impl Clone for NoClone {
    fn clone(&self) -> Self {
        panic!("in clone")
    }
}

#[test]
fn a_clone_that_panics_leaves_the_value_in_the_future() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    future.set_result(NoClone).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| future.result()));
    assert!(panic.is_err());
    assert!(future.done());
    assert!(future.take_result().is_ok(), "it can still be moved");
    still_works(&event_loop);
}

#[test]
fn a_clone_that_panics_ends_the_task_that_awaits_it() {
    let event_loop = EventLoop::new().unwrap();
    let future = event_loop.create_future();
    let kept = future.clone();
    let task = event_loop.create_task(async move { future.await.map(|_| ()) });
    tick(&event_loop);
    kept.set_result(NoClone).unwrap();
    tick(&event_loop);
    assert_eq!(raised::<PanicError, _>(task.result()).message(), "in clone");
    still_works(&event_loop);
}

#[test]
fn a_value_is_dropped_with_the_last_handle() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let future = event_loop.create_future();
    assert!(future.set_result(drops.counted()).is_ok());
    let clone = future.clone();
    drop(future);
    assert_eq!(drops.count(), 0);
    drop(clone);
    assert_eq!(drops.count(), 1);
}

/// A value that uses its own future, and panics, when it is dropped.
struct LastWords(
    Option<Future<u32>>,
    #[expect(dead_code, reason = "dropped after it")] Counted,
);

impl Drop for LastWords {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            let _ = future.set_result(1);
        }
        panic!("in drop")
    }
}

#[test]
fn a_value_that_panics_in_drop_leaves_the_loop_usable() {
    let event_loop = EventLoop::new().unwrap();
    let _reports = Reports::of(&event_loop);
    let drops = Drops::default();
    let (future, other) = (event_loop.create_future(), event_loop.create_future());
    let value = LastWords(Some(other.clone()), drops.counted());
    assert!(future.set_result(value).is_ok());
    let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    assert_eq!(drops.count(), 1);
    assert_eq!(other.result().unwrap(), 1);
    still_works(&event_loop);
}
