//! Context variables: contexts and tokens here, what the loop does with them in the modules.

mod common;
mod support;

#[path = "contexts/destructors.rs"]
mod destructors;
#[path = "contexts/scheduled.rs"]
mod scheduled;
#[path = "contexts/tasks.rs"]
mod tasks;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Barrier;
use std::thread;

use miniloop::{Context, ContextVar, RuntimeError, copy_context};

use common::raise;

/// Runs a test in an empty context of its own.
fn isolated<R>(test: impl FnOnce() -> R) -> R {
    Context::new().run(test).unwrap()
}

// brief: XT-16
#[test]
fn a_variable_has_its_name_and_no_value_at_first() {
    static VAR: ContextVar<u32> = ContextVar::new("requests");
    isolated(|| {
        assert_eq!((VAR.name(), VAR.get()), ("requests", None));
        assert_eq!(format!("{VAR:?}"), r#"ContextVar("requests")"#);
    });
}

// brief: XT-16
#[test]
fn set_get_and_reset_go_back_step_by_step() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    isolated(|| {
        let first = VAR.set(42);
        assert_eq!((VAR.get(), first.old_value()), (Some(42), None));
        let second = VAR.set(43);
        assert_eq!((VAR.get(), second.old_value()), (Some(43), Some(42)));
        VAR.reset(second).unwrap();
        assert_eq!(VAR.get(), Some(42));
        VAR.set(44);
        let copied = copy_context();
        VAR.reset(first).unwrap();
        assert_eq!(VAR.get(), None);
        assert_eq!((copied.get(&VAR), copied.len()), (Some(44), 1));
        assert!(copy_context().is_empty());
    });
}

// brief: XT-16
#[test]
fn a_token_of_an_earlier_set_takes_later_ones_back_too() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    isolated(|| {
        let first = VAR.set(1);
        let second = VAR.set(2);
        VAR.set(3);
        VAR.reset(first).unwrap();
        assert_eq!(VAR.get(), None);
        // And back to what a token remembers, in any order.
        VAR.reset(second).unwrap();
        assert_eq!(VAR.get(), Some(1));
    });
}

// brief: XT-16
#[test]
fn two_variables_of_one_name_are_two() {
    static ONE: ContextVar<i32> = ContextVar::new("same");
    static TWO: ContextVar<i32> = ContextVar::new("same");
    isolated(|| {
        ONE.set(1);
        assert_eq!(TWO.get(), None);
        TWO.set(2);
        assert_eq!(
            (ONE.get(), TWO.get(), copy_context().len()),
            (Some(1), Some(2), 2)
        );
    });
}

// brief: XT-16
#[test]
fn a_variable_need_not_be_static() {
    let local = ContextVar::new("local");
    isolated(|| {
        local.set("here");
        assert_eq!(local.get(), Some("here"));
    });
    assert_eq!(local.get(), None);
}

// brief: XT-16
#[test]
fn a_token_of_another_variable_is_refused_and_changes_nothing() {
    static ONE: ContextVar<i32> = ContextVar::new("one");
    static TWO: ContextVar<i32> = ContextVar::new("two");
    isolated(|| {
        TWO.set(2);
        let token = ONE.set(1);
        assert_eq!(TWO.reset(token), Err(RuntimeError::WrongToken));
        assert_eq!((ONE.get(), TWO.get()), (Some(1), Some(2)));
    });
}

// brief: XT-16
#[test]
fn a_token_of_another_context_is_refused_and_changes_nothing() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    let context = Context::new();
    let from_inside = context.run(|| VAR.set(1)).unwrap();
    assert_eq!(VAR.reset(from_inside), Err(RuntimeError::WrongToken));
    assert_eq!(context.get(&VAR), Some(1));

    isolated(|| {
        let from_outside = VAR.set(2);
        let copy = copy_context();
        let refused = copy.run(|| VAR.reset(from_outside)).unwrap();
        assert_eq!(refused, Err(RuntimeError::WrongToken));
        assert_eq!((VAR.get(), copy.get(&VAR)), (Some(2), Some(2)));
    });
}

// brief: XT-16
#[test]
fn run_gives_what_its_code_gives() {
    let context = Context::new();
    assert_eq!(context.run(|| 42).unwrap(), 42);
    let text = String::from("moved in");
    assert_eq!(context.run(move || text).unwrap(), "moved in");
}

// brief: XT-16
#[test]
fn what_is_set_in_a_run_stays_in_that_context() {
    static VAR: ContextVar<&str> = ContextVar::new("var");
    let (one, two) = (Context::new(), Context::new());
    let copied = one.run(|| {
        assert_eq!(VAR.get(), None);
        VAR.set("spam");
        two.run(|| assert_eq!(VAR.get(), None)).unwrap();
        assert_eq!(VAR.get(), Some("spam"));
        copy_context()
    });
    assert_eq!(VAR.get(), None);
    assert_eq!((one.get(&VAR), two.get(&VAR)), (Some("spam"), None));
    assert_eq!(copied.unwrap().get(&VAR), Some("spam"));
    // It goes on from there in the next run.
    one.run(|| assert_eq!(VAR.get(), Some("spam"))).unwrap();
}

// brief: XT-16
#[test]
fn a_context_can_be_read_while_it_is_the_current_one() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    let context = Context::new();
    let inner = context.clone();
    let read = context.run(move || {
        let before = inner.get(&VAR);
        let token = VAR.set(42);
        let set = (inner.get(&VAR), inner.len());
        VAR.reset(token).unwrap();
        (before, set, inner.len())
    });
    assert_eq!(read.unwrap(), (None, (Some(42), 1), 0));
}

// brief: XT-16
#[test]
fn a_panic_in_a_run_gives_the_context_back_and_keeps_what_was_set() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    isolated(|| {
        VAR.set(1);
        let context = Context::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            context.run(|| {
                VAR.set(2);
                raise("inside")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!((VAR.get(), context.get(&VAR)), (Some(1), Some(2)));
        assert!(context.run(|| ()).is_ok(), "it is not entered any more");
    });
}

// brief: XT-16
#[test]
fn a_context_run_inside_itself_is_refused() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    let context = Context::new();
    let (inner, between) = (context.clone(), Context::new());
    let refused = context.run(move || {
        VAR.set(1);
        let direct = inner.run(|| VAR.set(2)).map(drop);
        let through_another = between.run(|| inner.run(|| VAR.set(3)).map(drop)).unwrap();
        (direct, through_another, VAR.get())
    });
    let in_use = Err(RuntimeError::ContextInUse);
    assert_eq!(refused.unwrap(), (in_use, in_use, Some(1)));
    assert!(context.run(|| ()).is_ok());
    // A copy is another context.
    let copy = context.copy();
    assert_eq!(context.run(|| copy.run(|| VAR.get())).unwrap().unwrap(), Some(1));
}

// brief: XT-16
#[test]
fn a_copy_and_its_original_part_ways() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    let one = Context::new();
    let original = one.clone();
    let two = one.run(move || {
        VAR.set(10);
        let two = original.copy();
        VAR.set(20);
        two.run(|| {
            assert_eq!(VAR.get(), Some(10));
            VAR.set(30);
        })
        .unwrap();
        assert_eq!(VAR.get(), Some(20));
        two
    });
    assert_eq!((one.get(&VAR), two.unwrap().get(&VAR)), (Some(20), Some(30)));
}

// brief: XT-16
#[test]
fn clones_are_one_context() {
    static VAR: ContextVar<i32> = ContextVar::new("var");
    let one = Context::new();
    let two = one.clone();
    one.run(|| VAR.set(1)).unwrap();
    assert_eq!((two.get(&VAR), two.len(), two.is_empty()), (Some(1), 1, false));
}

// brief: XT-16
#[test]
fn many_variables_do_not_mix() {
    let variables: Vec<ContextVar<usize>> = (0..500).map(|_| ContextVar::new("one of many")).collect();
    isolated(|| {
        for (number, variable) in variables.iter().enumerate() {
            variable.set(number);
        }
        let halfway = copy_context();
        for variable in variables.iter().step_by(2) {
            variable.set(1000);
        }
        for (number, variable) in variables.iter().enumerate() {
            assert_eq!(halfway.get(variable), Some(number));
            let expected = if number % 2 == 0 { 1000 } else { number };
            assert_eq!(variable.get(), Some(expected));
        }
    });
}

// brief: XT-16
#[test]
fn values_need_only_be_clone() {
    static VAR: ContextVar<Rc<Vec<u8>>> = ContextVar::new("var");
    isolated(|| {
        let value = Rc::new(vec![1, 2]);
        VAR.set(value.clone());
        assert!(Rc::ptr_eq(&VAR.get().unwrap(), &value));
    });
}

// brief: XT-16
#[test]
fn every_thread_has_values_of_its_own() {
    static VAR: ContextVar<usize> = ContextVar::new("var");
    let together = Barrier::new(4);
    isolated(|| {
        VAR.set(1000);
        thread::scope(|scope| {
            for number in 0..4 {
                let together = &together;
                scope.spawn(move || {
                    assert_eq!(VAR.get(), None);
                    for round in 0..10 {
                        VAR.set(number + round);
                        together.wait();
                        assert_eq!(VAR.get(), Some(number + round));
                    }
                });
            }
        });
        assert_eq!(VAR.get(), Some(1000));
    });
}
