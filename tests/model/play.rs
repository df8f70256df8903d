//! One run of a program, from a new loop to a closed one.

use std::rc::Rc;

use miniloop::{EventLoop, RuntimeError};

use super::acts::drain;
use super::program::{End, Op, Program};
use super::steps::begin;
use super::world::{World, rule};
use crate::common::virtual_loop;
use crate::support::{Reports, misuse};

/// A swallowed cancellation is asked for again: so often at most.
const MOST_ROUNDS: u32 = 100;

/// What a run came to: the trace, and the rules it broke.
#[derive(Debug, PartialEq, Eq)]
pub struct Played {
    pub trace: Vec<String>,
    pub broken: Vec<String>,
}

/// Runs the loop until nothing is left that could ever wake it.
fn until_quiet(event_loop: &EventLoop) {
    let never = event_loop.create_future::<()>();
    assert_eq!(
        misuse(event_loop.run_until_complete(never)),
        RuntimeError::Deadlock
    );
}

/// Runs to where nothing goes on by itself, and looks at what has to hold there.
fn run_and_look(program: &Program, event_loop: &EventLoop, world: &World) {
    until_quiet(event_loop);
    // A timer that nobody needs any more would have moved the clock further; but a timeout is not
    // seen where it interrupts one who has to get the lock of a condition back first.
    let (now, last) = (event_loop.time(), world.last_time());
    let unseen = program.any(|op| *op == Op::WaitNotified);
    world.check(rule(now == last || unseen, || {
        format!("it is {now:?}, the last thing was at {last:?}")
    }));
    world.log(format_args!("quiet"));
    world.look_when_quiet();
}

/// Runs a program to its end, and looks at everything on the way.
pub fn play(program: &Program) -> Played {
    let (event_loop, _clock) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let world = World::new(&event_loop);
    begin(program, &world);
    run_and_look(program, &event_loop, &world);
    if program.end == End::Cancel {
        cancel_all(program, &event_loop, &world);
    }
    // Everything that is done costs a few passes.
    let most = 20 + 20 * world.trace().len() as u64;
    world.check(rule(world.passes() <= most, || {
        format!("{} passes, the loop spins", world.passes())
    }));
    event_loop.close().unwrap();
    drain(&world);
    world.clear();
    world.check(rule(world.left_over() == 0, || {
        format!("{} things leaked", world.left_over())
    }));
    world.check(rule(Rc::strong_count(&world) == 1, || {
        "the world is still referred to".into()
    }));
    for report in reports.take() {
        // A failure that nobody looked at is no fault of the loop's.
        let right = report.contains("never retrieved")
            || report.contains("in a task group that was dropped")
            || (program.end == End::Close && report.contains("pending"));
        world.check(rule(right, || report));
    }
    Played {
        trace: world.trace(),
        broken: world.broken(),
    }
}

/// Cancels every task until it has ended.
fn cancel_all(program: &Program, event_loop: &EventLoop, world: &World) {
    for _ in 0..MOST_ROUNDS {
        let tasks = world.tasks.borrow().clone();
        let pending = tasks.iter().filter(|seen| !seen.task.done());
        let mut cancelled = false;
        for seen in pending {
            cancelled = true;
            if !program.may_swallow() {
                seen.has_to_end_cancelled.set(true);
            }
            world.check(rule(seen.task.cancel(), || {
                "cancel() of a pending task gave false".into()
            }));
        }
        if !cancelled {
            break;
        }
        run_and_look(program, event_loop, world);
    }
    world.look_when_over();
}
