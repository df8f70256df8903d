//! What random programs have found, compared with the traces that asyncio 3.13 leaves.

use super::play::play;
use super::program::{End, Op, Program};

/// The trace of a program that is cancelled in the end.
fn trace_of(tasks: Vec<Vec<Op>>) -> Vec<String> {
    let end = End::Cancel;
    let mut played = play(&Program { tasks, end });
    assert!(played.broken.is_empty(), "{played:#?}");
    // What the model does behind the end.
    played.trace.retain(|line| !line.ends_with(" drained"));
    played.trace
}

#[test]
fn timeouts_that_expire_together_interrupt_once_though_that_is_swallowed_between_them() {
    let inner = Op::Timeout(3, vec![Op::Await(0)]);
    let outer = Op::Timeout(3, vec![Op::Catch(vec![inner]), Op::Yield]);
    assert_eq!(
        trace_of(vec![vec![outer]]),
        [
            "3 3s t0 Await(0): cancelled",
            "3 3s t0 expired: true",
            "3 3s t0 Timeout(3): cancelled",
            "3 3s t0 Catch: caught cancelled",
            "4 3s t0 Yield: ok",
            "4 3s t0 expired: true",
            "4 3s t0 Timeout(3): ok",
            "5 3s t0 done: result:none",
            "5 3s quiet",
        ]
    );
}

#[test]
fn the_old_cancellation_of_a_future_is_not_taken_for_a_new_one_of_the_task() {
    let catch = |op| Op::Catch(vec![op]);
    let expires = Op::Timeout(0, vec![catch(Op::Yield), Op::Await(0)]);
    assert_eq!(
        trace_of(vec![vec![catch(Op::Await(0)), expires]]),
        [
            "1 0s quiet",
            "2 0s t0 Await(0): cancelled",
            "2 0s t0 Catch: caught cancelled",
            "3 0s t0 Yield: cancelled",
            "3 0s t0 Catch: caught cancelled",
            "3 0s t0 Await(0): cancelled",
            "3 0s t0 expired: true",
            "3 0s t0 Timeout(0): timeout",
            "4 0s t0 done: timeout",
            "4 0s quiet",
        ]
    );
}

#[test]
fn a_group_that_fails_while_its_last_task_ends_is_left_in_the_tick_after() {
    let group = Op::Group(vec![vec![Op::Yield], vec![Op::Raise]], Vec::new());
    assert_eq!(
        trace_of(vec![vec![group]]),
        [
            "2 0s t0.2 Raise: error:raised",
            "3 0s t0.1 Yield: ok",
            "3 0s t0.2 done: error:raised",
            "4 0s t0.1 done: result:none",
            "4 0s t0 Group: group(error:raised)",
            "5 0s t0 done: group(error:raised)",
            "5 0s quiet",
        ]
    );
}
