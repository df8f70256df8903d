//! Values are dropped when nobody can see them any more; and clones and destructors of values may
//! use context variables themselves.

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{Context, ContextVar, Result, copy_context, create_task, get_running_loop, sleep};

use super::common::{Trace, raise, virtual_loop, yields};
use super::isolated;
use super::support::{Drops, OnDrop, Reports, settle, still_works, tick};

/// A value of which the drop of the last clone is counted.
type Counted = Rc<super::support::Counted>;

static VAR: ContextVar<Counted> = ContextVar::new("var");

fn counted(drops: &Drops) -> Counted {
    Rc::new(drops.counted())
}

// brief: XT-16
#[test]
fn a_value_goes_with_its_context_or_its_token_whichever_is_later() {
    let drops = Drops::default();
    isolated(|| {
        let token = VAR.set(counted(&drops));
        let second = VAR.set(counted(&drops));
        assert_eq!(drops.count(), 0, "the token can bring the first one back");
        drop(second);
        assert_eq!(drops.count(), 1);
        VAR.reset(token).unwrap();
        assert_eq!(drops.count(), 2);
        drop(VAR.set(counted(&drops)));
        let copy = copy_context();
        drop(VAR.set(counted(&drops)));
        assert_eq!(drops.count(), 2);
        drop(copy);
        assert_eq!(drops.count(), 3);
    });
    assert_eq!(drops.count(), 4, "with the context of this test");
}

// brief: XT-16
#[test]
fn a_callback_that_has_run_or_was_cancelled_holds_no_values() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let drops = Drops::default();
        let token = VAR.set(counted(&drops));
        event_loop.call_soon(|| ());
        let cancelled = event_loop.call_soon(|| ());
        let timer = event_loop.call_later(Duration::from_secs(1), || ());
        let future = event_loop.create_future::<()>();
        let key = future.add_done_callback(|_| ());
        VAR.reset(token).unwrap();
        assert_eq!(drops.count(), 0);
        cancelled.cancel();
        timer.cancel();
        assert!(future.remove_done_callback(key));
        assert_eq!(drops.count(), 0);
        tick(&event_loop);
        assert_eq!(drops.count(), 1);
    });
}

// brief: XT-16
#[test]
fn what_a_callback_has_set_is_dropped_after_it() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let (drops, seen) = (Drops::default(), Rc::new(RefCell::new(Vec::new())));
        let (set, log) = (drops.clone(), seen.clone());
        event_loop.call_soon(move || {
            VAR.set(counted(&set));
            log.borrow_mut().push(set.count());
        });
        let (log, count) = (seen.clone(), drops.clone());
        event_loop.call_soon(move || log.borrow_mut().push(count.count()));
        event_loop.run_once().unwrap();
        assert_eq!(*seen.borrow(), [0, 1]);
    });
}

// brief: XT-16
#[test]
fn a_task_holds_its_values_until_it_has_ended() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let drops = Drops::default();
        let set = drops.clone();
        let task = event_loop.create_task(async move {
            VAR.set(counted(&set));
            yields(2).await
        });
        for count in [0, 0, 1] {
            tick(&event_loop);
            assert_eq!(task.done(), count == 1);
        }
        drop(task);
        assert_eq!(drops.count(), 1);
    });
}

// brief: XT-16
#[test]
fn a_closed_loop_holds_no_values() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let _reports = Reports::of(&event_loop);
        let drops = Drops::default();
        let token = VAR.set(counted(&drops));
        event_loop.call_soon(|| ());
        event_loop.call_later(Duration::from_secs(1), || ());
        drop(event_loop.create_task(async { sleep(Duration::from_secs(9)).await }));
        VAR.reset(token).unwrap();
        event_loop.run_once().unwrap();
        assert_eq!(drops.count(), 0);
        event_loop.close().unwrap();
        assert_eq!(drops.count(), 1);
    });
}

/// Its clones and its drop use the variable that holds it.
struct Nosy {
    trace: Trace,
    name: &'static str,
}

static NOSY: ContextVar<Nosy> = ContextVar::new("nosy");
static OTHER: ContextVar<u32> = ContextVar::new("other");

impl Nosy {
    fn new(trace: &Trace, name: &'static str) -> Nosy {
        let trace = trace.clone();
        Nosy { trace, name }
    }

    /// Sets, reads and copies, whatever is going on.
    fn look(&self) -> usize {
        let token = OTHER.set(OTHER.get().unwrap_or(0) + 1);
        let copy = copy_context();
        copy.run(|| OTHER.set(1000)).unwrap();
        OTHER.reset(token).unwrap();
        copy.len()
    }
}

impl Clone for Nosy {
    fn clone(&self) -> Nosy {
        self.look();
        // As a value of the variable that is being read, which then has another one.
        NOSY.set(Nosy::new(&self.trace, "set by a clone"));
        Nosy::new(&self.trace, "clone")
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let values = self.look();
        self.trace.push(format!("{} dropped, {values}", self.name));
    }
}

// brief: XT-16
#[test]
fn a_clone_may_use_context_variables() {
    let trace = Trace::new();
    isolated(|| {
        drop(NOSY.set(Nosy::new(&trace, "first")));
        let read = NOSY.get().unwrap();
        assert_eq!(read.name, "clone");
        trace.push("read");
        drop(read);
        let token = NOSY.set(Nosy::new(&trace, "second"));
        assert_eq!(token.old_value().unwrap().name, "clone");
    });
    // The destructors run where nothing but what they set themselves has a value, or in here.
    let named = |line: &String| line.split(',').next().unwrap().to_owned();
    let mut lines: Vec<String> = trace.lines().iter().map(named).collect();
    let expected = ["first dropped", "read", "clone dropped"];
    assert_eq!(lines.drain(..3).collect::<Vec<_>>(), expected);
    lines.sort_unstable();
    let left = [
        "clone dropped",
        "second dropped",
        "set by a clone dropped",
        "set by a clone dropped",
    ];
    assert_eq!(lines, left);
}

// brief: XT-16
#[test]
fn a_destructor_may_use_context_variables_wherever_it_runs() {
    let trace = Trace::new();
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let set = |name| {
            let trace = trace.clone();
            move || drop(NOSY.set(Nosy::new(&trace, name)))
        };
        // Replaced, taken back, with a callback, with a timer that is cancelled, with a task.
        set("replaced")();
        let token = NOSY.set(Nosy::new(&trace, "taken back"));
        NOSY.reset(token).unwrap();
        event_loop.call_soon(set("callback"));
        let context = Context::new();
        context.run(set("timer")).unwrap();
        let timer = context.run(|| event_loop.call_later(Duration::from_secs(1), || ()));
        drop(context);
        timer.unwrap().cancel();
        let task = set("task");
        event_loop.create_task(async move {
            task();
            yields(1).await
        });
        tick(&event_loop);
        tick(&event_loop);
        still_works(&event_loop);
    });
    let mut lines = trace.lines();
    lines.sort_unstable();
    let expected = [
        "callback dropped, 1",
        "replaced dropped, 1",
        "taken back dropped, 2",
        "task dropped, 1",
        "timer dropped, 2",
    ];
    assert_eq!(lines, expected);
}

// brief: XT-16
#[test]
fn a_destructor_that_panics_with_a_context_is_reported_and_the_loop_goes_on() {
    type Bad = Rc<OnDrop<fn()>>;
    static BAD: ContextVar<Bad> = ContextVar::new("bad");
    let bad = || -> Bad { Rc::new(OnDrop::new(|| raise("in drop"))) };
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let reports = Reports::of(&event_loop);
        event_loop.call_soon(move || drop(BAD.set(bad())));
        tick(&event_loop);
        assert_eq!(reports.take().len(), 1);
        let token = BAD.set(bad());
        event_loop.call_soon(|| ());
        event_loop.call_later(Duration::from_secs(1), || ());
        BAD.reset(token).unwrap();
        tick(&event_loop);
        assert_eq!(reports.take().len(), 0, "the timer has it still");
        event_loop.close().unwrap();
        assert_eq!(reports.take().len(), 1);
    });
}

// brief: XT-16
#[test]
fn a_destructor_in_a_coroutine_runs_in_the_context_of_its_step() {
    let trace = Trace::new();
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let log = trace.clone();
        let main = event_loop.run_until_complete(async move {
            OTHER.set(1);
            let _guard = OnDrop::new(move || log.push(format!("{:?}", OTHER.get())));
            let inner = create_task(async { get_running_loop().map(|_| ()) });
            inner.await?;
            OTHER.set(2);
            Ok(())
        });
        main.unwrap();
    });
    assert_eq!(trace.lines(), ["Some(2)"]);
}

// brief: XT-16
#[test]
fn a_task_whose_values_panic_when_dropped_ends_as_it_ended() {
    type Bad = OnDrop<fn()>;
    static BAD: ContextVar<Rc<Bad>> = ContextVar::new("bad");
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let reports = Reports::of(&event_loop);
        let task = event_loop.create_task(async {
            BAD.set(Rc::new(OnDrop::<fn()>::new(|| raise("in drop"))));
            yields(1).await?;
            Ok(42)
        });
        assert_eq!(event_loop.run_until_complete(task).unwrap(), 42);
        tick(&event_loop);
        assert_eq!(reports.take().len(), 1);
        still_works(&event_loop);
    });
}

// brief: XT-16
#[test]
fn a_value_that_panics_is_not_held_by_a_sleep_and_strands_nobody() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            raise("value");
        }
    }
    static VAR: ContextVar<Rc<Panics>> = ContextVar::new("var");
    for dropped in [false, true] {
        isolated(|| {
            let (event_loop, _) = virtual_loop();
            let reports = Reports::of(&event_loop);
            let handle = event_loop.handle();
            let context = Context::new();
            let sleeping = context
                .run(|| {
                    VAR.set(Rc::new(Panics));
                    handle.sleep(Duration::from_secs(10))
                })
                .unwrap();
            let dropped_with_context = catch_unwind(AssertUnwindSafe(|| drop(context)));
            assert!(dropped_with_context.is_err(), "a sleep holds no values");
            let task = event_loop.create_task(async move {
                if dropped {
                    drop(sleeping);
                    return yields(1).await;
                }
                sleeping.await
            });
            tick(&event_loop);
            assert!(task.cancel());
            settle(&event_loop);
            assert!(task.cancelled(), "it was dropped: {dropped}");
            assert!(reports.take().is_empty());
            still_works(&event_loop);
        });
    }
}

static NUMBER: ContextVar<u32> = ContextVar::new("number");

/// Leaves `NAME:VALUE` when it is dropped.
fn looks_around(trace: &Trace, name: &'static str) -> OnDrop<impl FnOnce() + use<>> {
    let trace = trace.clone();
    OnDrop::new(move || {
        trace.push(format!("{name}:{:?}", NUMBER.get()));
    })
}

// brief: XT-16
#[test]
fn what_a_coroutine_holds_sees_its_values_when_it_is_dropped_where_it_is() {
    for closed in [false, true] {
        let lines = isolated(|| {
            let (event_loop, _) = virtual_loop();
            let (trace, reports) = (Trace::new(), Reports::of(&event_loop));
            let log = trace.clone();
            let begun = event_loop.create_task(async move {
                NUMBER.set(3);
                let _looks = looks_around(&log, "local");
                pending::<Result<()>>().await
            });
            settle(&event_loop);
            NUMBER.set(4);
            let looks = looks_around(&trace, "capture");
            let new = event_loop.create_task(async move {
                let _looks = looks;
                pending::<Result<()>>().await
            });
            NUMBER.set(5);
            if closed {
                event_loop.close().unwrap();
                assert_eq!(reports.take(), ["2 tasks were destroyed but they are pending!"]);
            } else {
                begun.cancel();
                new.cancel();
                settle(&event_loop);
                assert!(begun.cancelled() && new.cancelled());
            }
            assert_eq!(NUMBER.get(), Some(5));
            let mut lines = trace.lines();
            lines.sort();
            lines
        });
        assert_eq!(lines, ["capture:Some(4)", "local:Some(3)"], "closed: {closed}");
    }
}
