//! Done callbacks that change the list they are in (BR-32).

use std::cell::RefCell;
use std::rc::Rc;

use miniloop::{CallbackKey, EventLoop, Exception, InvalidStateError};

use crate::common::Boom;
use crate::faults::{OnDrop, still_works, tick};
use crate::support::Log;

// field: BR-32
#[test]
fn callbacks_that_remove_and_add_others_do_not_change_what_was_scheduled() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let future = event_loop.create_future::<()>();
    let keys = Rc::new(RefCell::new(Vec::<CallbackKey>::new()));
    let (inside, others) = (log.clone(), Rc::clone(&keys));
    let a = future.add_done_callback(move |future| {
        inside.push("a");
        for &key in others.borrow().iter() {
            assert!(!future.remove_done_callback(key), "all are on their way");
        }
        let c = inside.entry("c");
        future.add_done_callback(move |_| c());
    });
    let entry = log.entry("b");
    let b = future.add_done_callback(move |_| entry());
    keys.borrow_mut().extend([a, b]);
    future.set_result(()).unwrap();
    assert!(log.take().is_empty(), "none runs inside `set_result`");
    tick(&event_loop);
    assert_eq!(log.take(), ["a", "b"]);
    tick(&event_loop);
    assert_eq!(log.take(), ["c"]);
    tick(&event_loop);
    assert!(log.take().is_empty());
}

// field: BR-32
#[test]
fn a_callback_removed_before_the_result_does_not_run_and_the_others_keep_their_order() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let future = event_loop.create_future::<()>();
    let keys: Vec<_> = (0..5)
        .map(|number| {
            let entry = log.entry(number);
            future.add_done_callback(move |_| entry())
        })
        .collect();
    assert!(future.remove_done_callback(keys[1]));
    assert!(!future.remove_done_callback(keys[1]));
    assert!(future.remove_done_callback(keys[3]));
    let entry = log.entry(5);
    future.add_done_callback(move |_| entry());
    assert!(!future.remove_done_callback(keys[3]), "its key is not reused");
    future.set_result(()).unwrap();
    tick(&event_loop);
    assert_eq!(log.take(), [0, 2, 4, 5]);
}

// field: BR-32
#[test]
fn the_drop_of_a_removed_callback_may_change_the_list() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let future = event_loop.create_future::<()>();
    let entry = log.entry("kept");
    future.add_done_callback(move |_| entry());
    let entry = log.entry("removed by the drop");
    let other = future.add_done_callback(move |_| entry());
    let (inside, added) = (future.clone(), log.clone());
    let on_drop = OnDrop::new(move || {
        assert!(inside.remove_done_callback(other));
        let entry = added.entry("added by the drop");
        inside.add_done_callback(move |_| entry());
    });
    let key = future.add_done_callback(move |_| drop(on_drop));
    assert!(future.remove_done_callback(key));
    future.set_result(()).unwrap();
    tick(&event_loop);
    assert_eq!(log.take(), ["kept", "added by the drop"]);
}

// field: BR-32
#[test]
fn the_drop_of_a_callback_that_has_run_may_change_the_list_and_complete_other_futures() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let (first, second) = (event_loop.create_future::<()>(), event_loop.create_future::<()>());
    let entry = log.entry("second");
    second.add_done_callback(move |_| entry());
    let (inside, other, added) = (first.clone(), second.clone(), log.clone());
    let on_drop = OnDrop::new(move || {
        other.set_result(()).unwrap();
        let entry = added.entry("late");
        inside.add_done_callback(move |_| entry());
    });
    first.add_done_callback(move |_| drop(on_drop));
    first.set_result(()).unwrap();
    tick(&event_loop);
    tick(&event_loop);
    assert_eq!(log.take(), ["second", "late"]);
}

// field: BR-32
#[test]
fn a_result_set_by_a_callback_of_another_future_schedules_its_callbacks_for_the_next_tick() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let (first, second) = (event_loop.create_future::<()>(), event_loop.create_future::<()>());
    let (inside, other) = (log.clone(), second.clone());
    first.add_done_callback(move |_| {
        other.set_result(()).unwrap();
        inside.push("first");
    });
    let entry = log.entry("second");
    second.add_done_callback(move |_| entry());
    let entry = log.entry("first, too");
    first.add_done_callback(move |_| entry());
    first.set_result(()).unwrap();
    tick(&event_loop);
    assert_eq!(log.take(), ["first", "first, too"]);
    tick(&event_loop);
    assert_eq!(log.take(), ["second"]);
}

// field: BR-32
#[test]
fn a_future_is_finished_once_and_says_so_afterwards() {
    let event_loop = EventLoop::new().unwrap();
    let already = Err(InvalidStateError::AlreadyDone);
    let log = Log::new();

    let finished = event_loop.create_future::<u32>();
    let failed = event_loop.create_future::<u32>();
    let cancelled = event_loop.create_future::<u32>();
    for future in [&finished, &failed, &cancelled] {
        let entry = log.entry("done");
        future.add_done_callback(move |_| entry());
    }
    finished.set_result(1).unwrap();
    failed.set_exception(Boom("once")).unwrap();
    assert!(cancelled.cancel());
    for future in [&finished, &failed, &cancelled] {
        assert_eq!(future.set_result(2), already);
        assert_eq!(future.set_exception(Boom("again")), already);
        assert!(!future.cancel());
    }
    tick(&event_loop);
    assert_eq!(log.take(), ["done"; 3]);
    assert_eq!(finished.result().unwrap(), 1);
    let error: Exception = failed.result().unwrap_err();
    assert!(error.is::<Boom>());
    assert!(cancelled.cancelled());
    still_works(&event_loop);
}
