//! What is scheduled runs in a copy of the context of the place where that was done.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use miniloop::{Context, ContextVar, EventLoop, LoopHandle, Result, copy_context, get_running_loop};

use super::common::{Trace, pair, raise, run_for, send, stopper, virtual_loop, yields};
use super::isolated;
use super::support::{Reports, misuse, settle, still_works, tick};

static VAR: ContextVar<u32> = ContextVar::new("var");

/// A callback that leaves `name:VALUE`, and then changes the value for itself.
fn read(trace: &Trace, name: &'static str) -> impl FnMut() + 'static + use<> {
    let trace = trace.clone();
    move || {
        trace.push(match VAR.get() {
            Some(value) => format!("{name}:{value}"),
            None => format!("{name}:none"),
        });
        VAR.set(1000);
    }
}

/// Schedules `what` with the value 1, which is another one right after.
fn scheduled(event_loop: &LoopHandle, what: impl FnOnce(&LoopHandle)) {
    let token = VAR.set(1);
    what(event_loop);
    VAR.set(2);
    VAR.reset(token).unwrap();
}

/// Plays with a loop in an isolated context, in which the variable has no value in the end.
fn played(play: impl FnOnce(&EventLoop, &Trace)) -> Vec<String> {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let trace = Trace::new();
        play(&event_loop, &trace);
        assert_eq!(VAR.get(), None, "it leaks into whoever runs the loop");
        trace.lines()
    })
}

// brief: XT-16
#[test]
fn a_callback_sees_the_values_of_the_place_where_it_was_scheduled() {
    let lines = played(|event_loop, trace| {
        scheduled(event_loop, |event_loop| {
            drop(event_loop.call_soon(read(trace, "soon")))
        });
        event_loop.call_soon(read(trace, "next"));
        tick(event_loop);
    });
    assert_eq!(lines, ["soon:1", "next:none"]);
}

// brief: XT-16
#[test]
fn a_boxed_callback_does_so_too() {
    let lines = played(|event_loop, trace| {
        let callback: Box<dyn FnOnce()> = Box::new(read(trace, "boxed"));
        scheduled(event_loop, |event_loop| drop(event_loop.call_soon(callback)));
        tick(event_loop);
    });
    assert_eq!(lines, ["boxed:1"]);
}

// brief: XT-16
#[test]
fn timers_see_the_values_of_the_place_where_they_were_made() {
    let lines = played(|event_loop, trace| {
        scheduled(event_loop, |event_loop| {
            event_loop.call_later(Duration::from_secs(1), read(trace, "later"));
            event_loop.call_at(event_loop.time() + Duration::from_secs(2), read(trace, "at"));
        });
        event_loop.call_later(Duration::from_secs(3), read(trace, "plain"));
        run_for(event_loop, 5);
    });
    assert_eq!(lines, ["later:1", "at:1", "plain:none"]);
}

// brief: XT-16
#[test]
fn what_a_callback_schedules_sees_what_it_has_set() {
    let lines = played(|event_loop, trace| {
        let (handle, mut outer, inner) = (event_loop.handle(), read(trace, "outer"), read(trace, "inner"));
        let timer = read(trace, "timer");
        event_loop.call_soon(move || {
            outer();
            handle.call_soon(inner);
            handle.call_later(Duration::from_secs(1), timer);
            VAR.set(2000);
        });
        event_loop.call_soon(read(trace, "beside"));
        run_for(event_loop, 2);
    });
    assert_eq!(lines, ["outer:none", "beside:none", "inner:1000", "timer:1000"]);
}

// brief: XT-16
#[test]
fn two_callbacks_of_one_place_have_a_copy_each() {
    let lines = played(|event_loop, trace| {
        scheduled(event_loop, |event_loop| {
            event_loop.call_soon(read(trace, "one"));
            event_loop.call_soon(read(trace, "two"));
        });
        tick(event_loop);
    });
    assert_eq!(lines, ["one:1", "two:1"]);
}

// brief: XT-16
#[test]
fn all_calls_of_a_reader_share_one_context() {
    let lines = played(|event_loop, trace| {
        let (near, far) = pair();
        send(&far, b"not read");
        scheduled(event_loop, |event_loop| {
            event_loop.add_reader(&near, read(trace, "reader")).unwrap();
        });
        event_loop.run_once().unwrap();
        event_loop.run_once().unwrap();
        assert!(event_loop.remove_reader(&near));
        scheduled(event_loop, |event_loop| {
            event_loop.add_writer(&near, read(trace, "writer")).unwrap();
        });
        event_loop.run_once().unwrap();
        event_loop.run_once().unwrap();
        assert!(event_loop.remove_writer(&near));
    });
    assert_eq!(lines, ["reader:1", "reader:1000", "writer:1", "writer:1000"]);
}

// brief: XT-16
#[test]
fn a_done_callback_sees_the_values_of_the_place_where_it_was_added() {
    let lines = played(|event_loop, trace| {
        let future = event_loop.create_future::<()>();
        let add = |name| {
            let mut read = read(trace, name);
            let added = future.clone();
            scheduled(event_loop, |_| {
                added.add_done_callback(move |_| read());
            });
        };
        add("one");
        add("two");
        let mut plain = read(trace, "plain");
        future.add_done_callback(move |_| plain());
        // Who completes it does not matter.
        let completed = future.clone();
        event_loop.call_soon(move || {
            VAR.set(3000);
            completed.set_result(()).unwrap();
        });
        settle(event_loop);
        let mut late = read(trace, "late");
        let done = future.clone();
        scheduled(event_loop, |_| {
            done.add_done_callback(move |_| late());
        });
        settle(event_loop);
    });
    assert_eq!(lines, ["one:1", "two:1", "plain:none", "late:1"]);
}

// brief: XT-16
#[test]
fn a_callback_from_a_thread_starts_with_an_empty_context() {
    let lines = played(|event_loop, trace| {
        let sender = event_loop.threadsafe_handle();
        let (from_thread, here) = (trace.clone(), trace.clone());
        let other = sender.clone();
        thread::spawn(move || {
            VAR.set(4000);
            other.call_soon_threadsafe(move || from_thread.push(format!("thread:{:?}", VAR.get())))
        })
        .join()
        .unwrap()
        .unwrap();
        let inside = trace.clone();
        scheduled(event_loop, |event_loop| {
            let sender_inside = sender.clone();
            sender
                .call_soon_threadsafe(move || here.push(format!("here:{}", copy_context().len())))
                .unwrap();
            event_loop.call_soon(move || {
                let read = move || inside.push(format!("inside:{:?}", VAR.get()));
                sender_inside.call_soon_threadsafe(read).unwrap();
            });
        });
        settle(event_loop);
    });
    assert_eq!(lines, ["thread:None", "here:0", "inside:Some(1)"]);
}

// brief: XT-16
#[test]
fn the_exception_handler_is_not_in_the_context_of_what_failed() {
    let lines = played(|event_loop, trace| {
        let log = trace.clone();
        event_loop.set_exception_handler(move |_, _| log.push(format!("handler:{:?}", VAR.get())));
        event_loop.call_soon(|| {
            VAR.set(5);
            raise("callback")
        });
        scheduled(event_loop, |event_loop| {
            event_loop.call_soon(|| raise("scheduled"));
        });
        event_loop.call_soon(read(trace, "next"));
        tick(event_loop);
    });
    assert_eq!(lines, ["handler:None", "handler:None", "next:none"]);
}

/// Who runs a loop has its own context back afterwards, whatever the run came to.
fn run_and_look(run: impl FnOnce(&EventLoop)) {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let _reports = Reports::of(&event_loop);
        let token = VAR.set(7);
        event_loop.call_soon(|| drop(VAR.set(8)));
        run(&event_loop);
        assert_eq!(VAR.get(), Some(7));
        // The same context, and not one like it.
        VAR.reset(token).unwrap();
        still_works(&event_loop);
        assert_eq!(VAR.get(), None);
    });
}

// brief: XT-16
#[test]
fn the_callers_context_is_back_after_a_run() {
    run_and_look(|event_loop| event_loop.run_once().unwrap());
    run_and_look(|event_loop| run_for(event_loop, 1));
    run_and_look(|event_loop| {
        let value = event_loop.run_until_complete(async {
            let before = VAR.get();
            VAR.set(9);
            Ok(before)
        });
        assert_eq!(value.unwrap(), Some(7), "the task has a copy of it");
    });
}

// brief: XT-16
#[test]
fn the_callers_context_is_back_after_a_panic_an_error_and_a_refused_run() {
    run_and_look(|event_loop| {
        event_loop.call_soon(|| {
            VAR.set(9);
            raise("callback")
        });
        event_loop.run_once().unwrap();
    });
    run_and_look(|event_loop| {
        let failed: Result<()> = event_loop.run_until_complete(async {
            VAR.set(9);
            raise("task")
        });
        failed.unwrap_err();
    });
    run_and_look(|event_loop| {
        let never = event_loop.create_future::<()>();
        misuse(event_loop.run_until_complete(never));
    });
    isolated(|| {
        let (closed, _) = virtual_loop();
        let token = VAR.set(7);
        closed.close().unwrap();
        misuse(closed.run_once());
        VAR.reset(token).unwrap();
    });
}

// brief: XT-16
#[test]
fn a_refused_run_inside_a_callback_leaves_its_context_alone() {
    isolated(|| {
        let event_loop = Rc::new(virtual_loop().0);
        let (other, _) = virtual_loop();
        let seen = Rc::new(Cell::new(None));
        let (inner, log) = (event_loop.clone(), seen.clone());
        event_loop.call_soon(move || {
            let token = VAR.set(3);
            misuse(inner.run_once());
            misuse(inner.run_forever());
            misuse(other.run_once());
            log.set(VAR.get());
            VAR.reset(token).unwrap();
        });
        let reports = Reports::of(&event_loop);
        tick(&event_loop);
        assert_eq!((seen.get(), reports.take()), (Some(3), vec![]));
    });
}

// brief: XT-16
#[test]
fn a_loop_that_is_run_inside_a_context_schedules_with_it() {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let context = Context::new();
    context
        .run(|| {
            VAR.set(1);
            event_loop.call_soon(read(&trace, "inside"));
            event_loop.call_soon(stopper(&event_loop));
            event_loop.run_forever().unwrap();
        })
        .unwrap();
    event_loop.call_soon(read(&trace, "outside"));
    tick(&event_loop);
    assert_eq!(trace.lines(), ["inside:1", "outside:none"]);
    assert_eq!(context.get(&VAR), Some(1));
}

// brief: XT-16
#[test]
fn a_threadsafe_call_from_the_loop_s_own_thread_sees_the_values_of_its_caller() {
    let lines = played(|event_loop, trace| {
        let [soon, threadsafe] = [(); 2].map(|()| {
            let log = trace.clone();
            move || log.push(format!("{:?}", VAR.get()))
        });
        event_loop
            .run_until_complete(async move {
                let handle = get_running_loop()?;
                VAR.set(7);
                handle.call_soon(soon);
                handle.threadsafe_handle().call_soon_threadsafe(threadsafe)?;
                VAR.set(8);
                yields(2).await
            })
            .unwrap();
    });
    assert_eq!(lines, ["Some(7)", "Some(7)"]);
}
