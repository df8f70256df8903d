//! A descriptor number that changes hands (BR-01, BR-05).

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use miniloop::{EventLoop, Source};

use crate::faults::{Drops, still_works, tick};
use crate::support::{Borrowed, Direction, Log, assert_sleeps, pair_at, read_up_to, reserve_numbers};

/// Puts a fresh socket behind the number that `owner` holds, and gives its peer.
fn replace(owner: &mut OwnedFd) -> UnixStream {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    rustix::io::dup2(&near, owner).unwrap();
    far
}

// field: BR-01
#[test]
fn a_source_dropped_while_registered_leaves_nothing_to_the_next_owner_of_its_number() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, _far) = pair_at(number);
        let old = Source::new(near).unwrap();
        direction.add(&event_loop, &old, log.entry("old"));
        tick(&event_loop);
        log.take();
        drop(old);

        let (near, mut far) = pair_at(number);
        let new = Source::new(near).unwrap();
        direction.add(&event_loop, &new, log.entry("new"));
        far.write_all(b"x").unwrap();
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");

        assert!(direction.remove(&event_loop, &new));
        assert!(!direction.remove(&event_loop, &new));
        tick(&event_loop);
        assert!(log.take().is_empty());
    }
}

// field: BR-01
#[test]
fn a_source_dropped_before_the_selector_ever_heard_of_it_leaves_nothing_either() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, _far) = pair_at(number);
        let old = Source::new(near).unwrap();
        direction.add(&event_loop, &old, log.entry("old"));
        drop(old);
        let (near, mut far) = pair_at(number);
        let new = Source::new(near).unwrap();
        direction.add(&event_loop, &new, log.entry("new"));
        far.write_all(b"x").unwrap();
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");
    }
}

// field: BR-01
#[test]
fn a_number_reused_in_the_pass_in_which_its_old_owner_was_ready_calls_the_new_callback_only() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, mut far) = pair_at(number);
        far.write_all(b"old").unwrap();
        let old = Source::new(near).unwrap();
        direction.add(&event_loop, &old, log.entry("old"));

        // What was queued before the poll runs before the callbacks of the poll's events.
        let new = Rc::new(RefCell::new(None));
        let (handle, slot, new_log) = (event_loop.handle(), Rc::clone(&new), log.clone());
        event_loop.call_soon(move || {
            drop(old);
            let (near, mut far) = pair_at(number);
            far.write_all(b"new").unwrap();
            let source = Source::new(near).unwrap();
            direction.add(&handle, &source, new_log.entry("new"));
            slot.replace(Some((source, far)));
        });
        event_loop.run_once().unwrap();
        assert!(log.take().is_empty(), "the event was the old owner's");
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");
    }
}

// field: BR-01
#[test]
fn a_duplicate_that_outlives_its_source_does_not_go_on_firing() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::<&str>::new();
    let (near, mut far) = UnixStream::pair().unwrap();
    // The kernel forgets a socket when the last duplicate is closed, not the first.
    let _duplicate = near.try_clone().unwrap();
    let source = Source::new(near).unwrap();
    event_loop.add_reader(&source, log.entry("old")).unwrap();
    tick(&event_loop);
    drop(source);
    far.write_all(b"x").unwrap();
    assert_sleeps(&event_loop);
    assert!(log.take().is_empty());
}

// field: BR-01
#[test]
fn a_socket_taken_back_from_its_source_is_forgotten_and_can_be_registered_anew() {
    let event_loop = EventLoop::new().unwrap();
    let (log, drops) = (Log::new(), Drops::default());
    let (near, mut far) = UnixStream::pair().unwrap();
    let source = Source::new(near).unwrap();
    let (captured, logged) = (drops.counted(), log.entry("old"));
    event_loop
        .add_reader(&source, move || {
            let _ = &captured;
            logged();
        })
        .unwrap();
    tick(&event_loop);
    let Ok(near) = source.into_inner() else {
        panic!("there was no other holder");
    };
    assert_eq!(drops.count(), 1, "the old callback is gone");

    let source = Source::new(near).unwrap();
    event_loop.add_reader(&source, log.entry("new")).unwrap();
    far.write_all(b"x").unwrap();
    tick(&event_loop);
    assert_eq!(log.take(), ["new"]);
}

// field: BR-01
#[test]
fn a_second_callback_for_one_source_replaces_the_first() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        let source = Source::new(near).unwrap();
        direction.add(&event_loop, &source, log.entry("first"));
        tick(&event_loop);
        assert_eq!(log.take(), ["first"]);
        direction.add(&event_loop, &source, log.entry("second"));
        tick(&event_loop);
        assert_eq!(log.take(), ["second"]);
        assert!(direction.remove(&event_loop, &source));
        assert!(!direction.remove(&event_loop, &source));
    }
}

// field: BR-01
#[test]
fn a_borrowed_number_with_another_socket_behind_it_is_armed_again_by_its_new_source() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, _old_far) = pair_at(number);
        let mut owner = OwnedFd::from(near);
        let old = Source::new(Borrowed(number)).unwrap();
        direction.add(&event_loop, &old, log.entry("old"));
        tick(&event_loop);
        log.take();

        let mut far = replace(&mut owner);
        let new = Source::new(Borrowed(number)).unwrap();
        direction.add(&event_loop, &new, log.entry("new"));
        far.write_all(b"x").unwrap();
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");

        // The old source says goodbye late: it must not take the new one along.
        drop(old);
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");
        assert!(direction.remove(&event_loop, &new));
        assert!(!direction.remove(&event_loop, &new));
        tick(&event_loop);
        assert!(log.take().is_empty());
        still_works(&event_loop);
    }
}

// field: BR-01
#[test]
fn a_borrowed_number_with_another_socket_behind_it_is_armed_again_by_its_own_source() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, _old_far) = pair_at(number);
        let mut owner = OwnedFd::from(near);
        let source = Source::new(Borrowed(number)).unwrap();
        direction.add(&event_loop, &source, log.entry("old"));
        tick(&event_loop);
        log.take();

        let mut far = replace(&mut owner);
        direction.add(&event_loop, &source, log.entry("new"));
        far.write_all(b"x").unwrap();
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");
        assert!(direction.remove(&event_loop, &source));
        assert!(!direction.remove(&event_loop, &source));
    }
}

// field: BR-01
#[test]
fn a_borrowed_number_replaced_in_the_pass_in_which_it_was_ready_calls_the_new_callback_only() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let number = reserve_numbers(1);

        let (near, mut old_far) = pair_at(number);
        old_far.write_all(b"old").unwrap();
        let mut owner = OwnedFd::from(near);
        let old = Source::new(Borrowed(number)).unwrap();
        direction.add(&event_loop, &old, log.entry("old"));

        let kept = Rc::new(RefCell::new(None));
        let (handle, slot, new_log) = (event_loop.handle(), Rc::clone(&kept), log.clone());
        event_loop.call_soon(move || {
            let mut far = replace(&mut owner);
            far.write_all(b"new").unwrap();
            let new = Source::new(Borrowed(number)).unwrap();
            direction.add(&handle, &new, new_log.entry("new"));
            slot.replace(Some((owner, far, old, new)));
        });
        event_loop.run_once().unwrap();
        assert!(log.take().is_empty(), "the event was the old owner's");
        tick(&event_loop);
        assert_eq!(log.take(), ["new"], "{direction:?}");
    }
}

// field: BR-01
#[test]
fn a_borrowed_number_that_was_closed_can_still_be_removed() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::<&str>::new();
        let number = reserve_numbers(1);
        let (near, _far) = pair_at(number);
        let source = Source::new(Borrowed(number)).unwrap();
        direction.add(&event_loop, &source, log.entry("old"));
        tick(&event_loop);
        log.take();
        drop(near);
        assert!(direction.remove(&event_loop, &source));
        assert!(!direction.remove(&event_loop, &source));
        tick(&event_loop);
        assert!(log.take().is_empty());
        still_works(&event_loop);
    }
}

// field: BR-05
#[test]
fn of_two_ready_callbacks_that_remove_each_other_only_one_runs() {
    for direction in Direction::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let log = Log::new();
        let ends: Vec<_> = (0..2).map(|_| UnixStream::pair().unwrap()).collect();
        let (nears, fars): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let sources: Vec<_> = nears.into_iter().map(|s| Source::new(s).unwrap()).collect();
        for index in 0..2 {
            (&fars[index]).write_all(b"x").unwrap();
            let (handle, log) = (event_loop.handle(), log.clone());
            let other = sources[1 - index].clone();
            direction.add(&event_loop, &sources[index], move || {
                log.push(index);
                assert!(direction.remove(&handle, &other));
            });
        }
        event_loop.run_once().unwrap();
        assert_eq!(log.take().len(), 1, "{direction:?}");
    }
}

// field: BR-05
#[test]
fn of_two_ready_callbacks_that_close_each_other_only_one_runs_and_a_reused_number_stays_silent() {
    let event_loop = EventLoop::new().unwrap();
    let number = reserve_numbers(2);
    let calls = Rc::new(Cell::new(0));
    let successor = Rc::new(RefCell::new(None));
    let successor_log = Log::new();
    let sources = Rc::new(RefCell::new(Vec::new()));
    let mut fars = Vec::new();
    for index in 0..2 {
        let (near, mut far) = pair_at(number + index);
        far.write_all(b"x").unwrap();
        fars.push(far);
        sources.borrow_mut().push(Some(Source::new(near).unwrap()));
    }
    for index in 0..2 {
        let handle = event_loop.handle();
        let (calls, log) = (Rc::clone(&calls), successor_log.clone());
        let (successor, others) = (Rc::clone(&successor), Rc::clone(&sources));
        let callback = move || {
            calls.set(calls.get() + 1);
            let other = others.borrow_mut()[1 - index].take();
            drop(other);
            let (near, far) = pair_at(number + 1 - i32::try_from(index).unwrap());
            let source = Source::new(near).unwrap();
            let (read, log) = (source.clone(), log.clone());
            handle
                .add_reader(&source, move || {
                    log.push(read_up_to(read.get_ref(), 10).unwrap());
                })
                .unwrap();
            successor.replace(Some(far));
        };
        let borrowed = sources.borrow();
        let source = borrowed[index].as_ref().unwrap();
        event_loop.add_reader(source, callback).unwrap();
    }
    event_loop.run_once().unwrap();
    assert_eq!(calls.get(), 1);
    assert!(successor_log.take().is_empty());

    // The successor is registered all the same, and hears of what is its own.
    sources.borrow_mut().clear();
    tick(&event_loop);
    assert!(successor_log.take().is_empty());
    let mut far = successor.take().unwrap();
    far.write_all(b"mine").unwrap();
    tick(&event_loop);
    assert_eq!(successor_log.take(), [b"mine"]);
}

// field: BR-05
#[test]
fn an_event_of_a_borrowed_number_does_not_reach_the_next_source_of_that_number() {
    let event_loop = EventLoop::new().unwrap();
    let log = Log::new();
    let number = reserve_numbers(1);
    let (near, mut old_far) = pair_at(number);
    old_far.write_all(b"x").unwrap();
    let mut owner = OwnedFd::from(near);
    let old = Source::new(Borrowed(number)).unwrap();
    event_loop.add_reader(&old, log.entry("old")).unwrap();

    let kept = Rc::new(RefCell::new(None));
    let (handle, slot, new_log) = (event_loop.handle(), Rc::clone(&kept), log.clone());
    event_loop.call_soon(move || {
        assert!(handle.remove_reader(&old));
        let far = replace(&mut owner);
        let new = Source::new(Borrowed(number)).unwrap();
        handle.add_reader(&new, new_log.entry("new")).unwrap();
        slot.replace(Some((owner, far, old, new)));
    });
    event_loop.run_once().unwrap();
    tick(&event_loop);
    assert!(log.take().is_empty(), "nobody wrote to the new socket");
    let (_owner, mut far, _old, _new) = kept.take().unwrap();
    far.write_all(b"x").unwrap();
    tick(&event_loop);
    assert_eq!(log.take(), ["new"]);
}
