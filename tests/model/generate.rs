//! Programs at random.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;

use super::program::{Act, EVENTS, End, FUTURES, LOCKS, MOST_TASKS, Op, Program, QUEUES, SEMAPHORES};

/// What a program is mostly about: how much of which kind there is in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Theme {
    pub futures: u32,
    pub locks: u32,
    pub semaphores: u32,
    pub events: u32,
    pub conditions: u32,
    pub queues: u32,
    /// Groups, gathers and their like.
    pub structure: u32,
}

/// One of several, each with its weight.
struct OneOf<T>(Vec<(u32, BoxedStrategy<T>)>);

impl<T: Debug + 'static> OneOf<T> {
    fn new() -> OneOf<T> {
        OneOf(Vec::new())
    }

    /// Or this one; not at all if the weight is 0.
    fn or(mut self, weight: u32, strategy: impl Strategy<Value = T> + 'static) -> OneOf<T> {
        if weight > 0 {
            self.0.push((weight, strategy.boxed()));
        }
        self
    }

    fn boxed(self) -> BoxedStrategy<T> {
        Union::new_weighted(self.0).boxed()
    }
}

/// Mostly the first one: many tasks are to want the same.
fn one_of(count: usize) -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0), 2 => 0..count]
}

/// Short, so that many things are due at the same moment.
fn delay() -> impl Strategy<Value = u64> {
    0..4_u64
}

fn body(op: &BoxedStrategy<Op>) -> impl Strategy<Value = Vec<Op>> + use<> {
    vec(op.clone(), 0..4)
}

fn bodies(op: &BoxedStrategy<Op>) -> impl Strategy<Value = Vec<Vec<Op>>> + use<> {
    vec(body(op), 0..4)
}

impl Theme {
    fn act(self) -> BoxedStrategy<Act> {
        OneOf::new()
            .or(6, (0..MOST_TASKS).prop_map(Act::Cancel))
            .or(1, (0..4_usize).prop_map(Act::CancelTimer))
            .or(2 * self.futures, one_of(FUTURES).prop_map(Act::SetResult))
            .or(self.futures, one_of(FUTURES).prop_map(Act::SetException))
            .or(self.futures, one_of(FUTURES).prop_map(Act::CancelFuture))
            .or(self.futures, one_of(FUTURES).prop_map(Act::Watch))
            .or(4 * self.events, one_of(EVENTS).prop_map(Act::SetEvent))
            .or(2 * self.events, one_of(EVENTS).prop_map(Act::ClearEvent))
            .or(4 * self.conditions, (1..3_usize).prop_map(Act::Notify))
            .or(3 * self.queues, one_of(QUEUES).prop_map(Act::PutNowait))
            .or(3 * self.queues, one_of(QUEUES).prop_map(Act::GetNowait))
            .or(2 * self.queues, one_of(QUEUES).prop_map(Act::TaskDone))
            .or(
                self.queues.div_ceil(2),
                (one_of(QUEUES), any::<bool>())
                    .prop_map(|(queue, immediate)| Act::Shutdown(queue, immediate)),
            )
            .boxed()
    }

    /// What has nothing inside.
    fn simple(self) -> BoxedStrategy<Op> {
        let several = || vec(self.act(), 1..4);
        OneOf::new()
            .or(8, self.act().prop_map(Op::Do))
            .or(1, several().prop_map(Op::Soon))
            .or(
                2,
                (delay(), several()).prop_map(|(delay, acts)| Op::Later(delay, acts)),
            )
            .or(1, Just(Op::Raise))
            .or(1, Just(Op::Uncancel))
            .or(6, Just(Op::Yield))
            .or(3, delay().prop_map(Op::Sleep))
            .or(1 + 2 * self.futures, (0..MOST_TASKS).prop_map(Op::Join))
            .or(6 * self.futures, one_of(FUTURES).prop_map(Op::Await))
            .or(8 * self.events, one_of(EVENTS).prop_map(Op::WaitEvent))
            .or(6 * self.queues, one_of(QUEUES).prop_map(Op::Put))
            .or(6 * self.queues, one_of(QUEUES).prop_map(Op::Get))
            .or(2 * self.queues, one_of(QUEUES).prop_map(Op::JoinQueue))
            .boxed()
    }

    /// What has other operations inside.
    fn block(self, op: BoxedStrategy<Op>) -> BoxedStrategy<Op> {
        let guarded = OneOf::new()
            .or(1, op.clone())
            .or(2, Just(Op::WaitNotified))
            .or(1, (1..3_usize).prop_map(|count| Op::Do(Act::Notify(count))))
            .boxed();
        OneOf::new()
            .or(
                16 * self.locks,
                (one_of(LOCKS), body(&op)).prop_map(|(lock, ops)| Op::WithLock(lock, ops)),
            )
            .or(
                16 * self.semaphores,
                (one_of(SEMAPHORES), body(&op)).prop_map(|(semaphore, ops)| Op::WithPermit(semaphore, ops)),
            )
            .or(16 * self.conditions, body(&guarded).prop_map(Op::WithCondition))
            .or(
                2 + self.structure,
                (delay(), body(&op)).prop_map(|(delay, ops)| Op::Timeout(delay, ops)),
            )
            .or(2, body(&op).prop_map(Op::Catch))
            .or(
                1,
                (body(&op), body(&op)).prop_map(|(ops, cleanup)| Op::Finally(ops, cleanup)),
            )
            .or(
                2,
                (body(&op), body(&op)).prop_map(|(one, other)| Op::Race(one, other)),
            )
            .or(1, self.structured(&op))
            .boxed()
    }

    /// What has tasks inside.
    fn structured(self, op: &BoxedStrategy<Op>) -> BoxedStrategy<Op> {
        OneOf::new()
            .or(
                1,
                (delay(), body(op)).prop_map(|(delay, ops)| Op::WaitFor(delay, ops)),
            )
            .or(
                2,
                (bodies(op), body(op)).prop_map(|(tasks, ops)| Op::Group(tasks, ops)),
            )
            .or(1, bodies(op).prop_map(Op::Gather))
            .or(1, bodies(op).prop_map(Op::GatherResults))
            .or(
                1,
                (0..3_usize, delay(), bodies(op)).prop_map(|(when, delay, ops)| Op::Wait(when, delay, ops)),
            )
            .or(1, body(op).prop_map(Op::Shield))
            .boxed()
    }

    /// Programs of this kind.
    pub fn programs(self) -> impl Strategy<Value = Program> {
        let simple = self.simple();
        let mut op = simple.clone();
        // Made once, and not by `prop_recursive`, which makes all of it anew for each operation.
        for _ in 0..DEEPEST {
            op = OneOf::new()
                .or(2, simple.clone())
                .or(2, self.block(op.clone()))
                .or(self.structure, self.structured(&op))
                .boxed();
        }
        let tasks = vec(vec(op, 0..8), 1..=MOST_TASKS);
        let end = prop_oneof![3 => Just(End::Cancel), 1 => Just(End::Close)];
        (tasks, end).prop_map(|(tasks, end)| Program { tasks, end })
    }
}

/// So many blocks may be inside each other.
const DEEPEST: u32 = 3;
