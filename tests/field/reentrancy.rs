//! Callbacks that rearrange the loop while the loop is calling or dropping them (BR-06).

use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, Source};

use crate::common::{Stream, pair, recv, send};
use crate::faults::{Drops, OnDrop, settle, still_works, tick};
use crate::support::Log;

/// A loop with two sockets, and what a callback may want to do with them.
struct Scene {
    handle: LoopHandle,
    watched: Source<Stream>,
    other: Source<Stream>,
    fars: [Source<Stream>; 2],
    log: Log<&'static str>,
}

impl Scene {
    fn new(event_loop: &EventLoop) -> Rc<Self> {
        let (watched, watched_far) = pair();
        let (other, other_far) = pair();
        Rc::new(Scene {
            handle: event_loop.handle(),
            watched,
            other,
            fars: [watched_far, other_far],
            log: Log::new(),
        })
    }

    /// A reader that logs `word` and reads what is there.
    fn reads(&self, source: &Source<Stream>, word: &'static str) -> impl FnMut() + 'static {
        let (source, log) = (source.clone(), self.log.clone());
        move || {
            recv(&source, 100);
            log.push(word);
        }
    }

    /// Uses every door of the loop; says whether the watched socket had a reader.
    fn rearrange(&self) -> bool {
        let had_reader = self.handle.remove_reader(&self.watched);
        let second = self.reads(&self.watched, "second");
        self.handle.add_reader(&self.watched, second).unwrap();
        let other = self.reads(&self.other, "other");
        self.handle.add_reader(&self.other, other).unwrap();
        self.handle.call_soon(self.log.entry("soon"));
        self.handle.call_later(Duration::ZERO, self.log.entry("later"));
        let task = self.log.entry("task");
        self.handle.create_task(async move {
            task();
            Ok(())
        });
        had_reader
    }

    /// Everything that [`Scene::rearrange`] asked for happens, once.
    #[track_caller]
    fn assert_rearranged(&self, event_loop: &EventLoop) {
        settle(event_loop);
        let mut done = self.log.take();
        done.sort_unstable();
        assert_eq!(done, ["later", "soon", "task"]);
        for far in &self.fars {
            send(far, b"data");
        }
        settle(event_loop);
        let mut called = self.log.take();
        called.sort_unstable();
        assert_eq!(called, ["other", "second"]);
        still_works(event_loop);
    }
}

// field: BR-06
#[test]
fn a_reader_that_replaces_itself_lives_until_it_returns_and_is_dropped_once() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let drops = Drops::default();
    send(&scene.fars[0], b"data");
    let (inside, counted, dropped) = (Rc::clone(&scene), drops.counted(), drops.clone());
    let captured = String::from("still here");
    event_loop
        .add_reader(&scene.watched, move || {
            recv(&inside.watched, 100);
            assert!(inside.rearrange());
            assert_eq!(dropped.count(), 0);
            assert_eq!(captured, "still here");
            let _ = &counted;
        })
        .unwrap();
    tick(&event_loop);
    assert_eq!(drops.count(), 1);
    scene.assert_rearranged(&event_loop);
    assert_eq!(drops.count(), 1);
}

// field: BR-06
#[test]
fn a_reader_that_only_removes_itself_lives_until_it_returns_and_is_dropped_once() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let drops = Drops::default();
    send(&scene.fars[0], b"data");
    let (inside, counted, dropped) = (Rc::clone(&scene), drops.counted(), drops.clone());
    event_loop
        .add_reader(&scene.watched, move || {
            assert!(inside.handle.remove_reader(&inside.watched));
            assert!(!inside.handle.remove_reader(&inside.watched));
            assert_eq!(dropped.count(), 0);
            inside.log.push("called");
            let _ = &counted;
        })
        .unwrap();
    settle(&event_loop);
    assert_eq!(drops.count(), 1);
    assert_eq!(scene.log.take(), ["called"]);
}

// field: BR-06
#[test]
fn a_reader_that_adds_and_removes_itself_again_ends_up_without_a_registration() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    send(&scene.fars[0], b"data");
    let inside = Rc::clone(&scene);
    event_loop
        .add_reader(&scene.watched, move || {
            for _ in 0..3 {
                let never = inside.log.entry("never");
                inside.handle.add_reader(&inside.watched, never).unwrap();
                assert!(inside.handle.remove_reader(&inside.watched));
            }
            inside.log.push("called");
        })
        .unwrap();
    settle(&event_loop);
    assert_eq!(scene.log.take(), ["called"]);
    assert!(!event_loop.remove_reader(&scene.watched));
}

// field: BR-06
#[test]
fn a_reader_may_drop_the_last_handle_of_its_own_source() {
    let event_loop = EventLoop::new().unwrap();
    let drops = Drops::default();
    let (near, far) = pair();
    send(&far, b"data");
    let source = near.clone();
    let (counted, dropped) = (drops.counted(), drops.clone());
    let mut own = Some(near);
    event_loop
        .add_reader(&source, move || {
            let _ = &counted;
            own.take();
            assert_eq!(dropped.count(), 0);
        })
        .unwrap();
    drop(source);
    settle(&event_loop);
    assert_eq!(drops.count(), 1);
    still_works(&event_loop);
}

/// Gives the watched socket a first reader that must never be called.
fn first_reader(scene: &Scene, drops: &Drops) {
    let (counted, never) = (drops.counted(), scene.log.entry("never"));
    scene
        .handle
        .add_reader(&scene.watched, move || {
            let _ = &counted;
            never();
        })
        .unwrap();
}

// field: BR-06
#[test]
fn a_timer_callback_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let (scene, drops) = (Scene::new(&event_loop), Drops::default());
    first_reader(&scene, &drops);
    let (inside, dropped) = (Rc::clone(&scene), drops.clone());
    event_loop.call_later(Duration::ZERO, move || {
        assert!(inside.rearrange());
        assert_eq!(dropped.count(), 1, "nobody runs it, so it goes at once");
    });
    scene.assert_rearranged(&event_loop);
    assert_eq!(drops.count(), 1);
}

// field: BR-06
#[test]
fn a_done_callback_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let (scene, drops) = (Scene::new(&event_loop), Drops::default());
    first_reader(&scene, &drops);
    let future = event_loop.create_future::<()>();
    let inside = Rc::clone(&scene);
    future.add_done_callback(move |_| assert!(inside.rearrange()));
    future.set_result(()).unwrap();
    scene.assert_rearranged(&event_loop);
    assert_eq!(drops.count(), 1);
}

// field: BR-06
#[test]
fn a_task_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let (scene, drops) = (Scene::new(&event_loop), Drops::default());
    first_reader(&scene, &drops);
    let inside = Rc::clone(&scene);
    event_loop.create_task(async move {
        assert!(inside.rearrange());
        Ok(())
    });
    scene.assert_rearranged(&event_loop);
    assert_eq!(drops.count(), 1);
}

/// A value whose drop rearranges the loop.
fn rearranges_on_drop(scene: &Rc<Scene>) -> OnDrop<impl FnOnce() + use<>> {
    let inside = Rc::clone(scene);
    OnDrop::new(move || {
        inside.rearrange();
    })
}

// field: BR-06
#[test]
fn the_drop_of_a_removed_reader_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let on_drop = rearranges_on_drop(&scene);
    event_loop
        .add_reader(&scene.watched, move || {
            let _ = &on_drop;
        })
        .unwrap();
    assert!(event_loop.remove_reader(&scene.watched));
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_replaced_reader_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let on_drop = rearranges_on_drop(&scene);
    event_loop
        .add_reader(&scene.other, move || {
            let _ = &on_drop;
        })
        .unwrap();
    // The drop in its turn replaces what is being installed here, or is replaced by it.
    let other = scene.reads(&scene.other, "other");
    event_loop.add_reader(&scene.other, other).unwrap();
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_cancelled_callback_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let on_drop = rearranges_on_drop(&scene);
    event_loop.call_soon(move || drop(on_drop)).cancel();
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_cancelled_timer_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let on_drop = rearranges_on_drop(&scene);
    let timer = event_loop.call_later(Duration::from_secs(3600), move || drop(on_drop));
    timer.cancel();
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_callback_that_has_run_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let on_drop = rearranges_on_drop(&scene);
    event_loop.call_soon(move || {
        let _ = &on_drop;
    });
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_reader_removed_by_itself_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    send(&scene.fars[0], b"data");
    let (inside, on_drop) = (Rc::clone(&scene), rearranges_on_drop(&scene));
    event_loop
        .add_reader(&scene.watched, move || {
            let _ = &on_drop;
            recv(&inside.watched, 100);
            assert!(inside.handle.remove_reader(&inside.watched));
        })
        .unwrap();
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_removed_done_callback_may_rearrange_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let scene = Scene::new(&event_loop);
    let future = event_loop.create_future::<()>();
    let on_drop = rearranges_on_drop(&scene);
    let key = future.add_done_callback(move |_| drop(on_drop));
    assert!(future.remove_done_callback(key));
    scene.assert_rearranged(&event_loop);
}

// field: BR-06
#[test]
fn the_drop_of_a_finished_or_cancelled_coroutine_may_rearrange_the_loop() {
    for cancelled in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let scene = Scene::new(&event_loop);
        let on_drop = rearranges_on_drop(&scene);
        let task = event_loop.create_task(async move {
            let _on_drop = on_drop;
            Ok(())
        });
        if cancelled {
            assert!(task.cancel());
        }
        scene.assert_rearranged(&event_loop);
        assert_eq!(task.cancelled(), cancelled);
    }
}
