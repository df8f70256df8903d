//! The operations with others inside.

use std::any::Any;
use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::select;
use miniloop::{
    Result, ReturnWhen, Task, TaskGroup, gather, gather_results, shield, timeout, wait, wait_for,
};

use super::ledger::Permits;
use super::program::Op;
use super::steps::{Actor, ok, run};
use super::world::{World, rule};
use crate::common::{Show, outcome, state};
use crate::support::OnDrop;

/// What can be held.
#[derive(Clone, Copy)]
enum Holdable {
    Lock(usize),
    Permit(usize),
    Condition,
}

impl Holdable {
    fn model(self, world: &World) -> &RefCell<Permits> {
        match self {
            Holdable::Lock(index) => &world.locks[index].model,
            Holdable::Permit(index) => &world.semaphores[index].model,
            Holdable::Condition => &world.gate,
        }
    }

    /// What gives it back when it is dropped.
    async fn acquire(self, world: &World) -> Result<Box<dyn Any>> {
        Ok(match self {
            Holdable::Lock(index) => Box::new(world.locks[index].real.acquire().await?),
            Holdable::Permit(index) => Box::new(world.semaphores[index].real.acquire().await?),
            Holdable::Condition => Box::new(world.condition.real.acquire().await?),
        })
    }
}

/// `async with` a lock, a semaphore or a condition.
pub async fn holding(op: Op, actor: &Actor) -> Result<String> {
    let (what, ops) = match op {
        Op::WithLock(index, ops) => (Holdable::Lock(index), ops),
        Op::WithPermit(index, ops) => (Holdable::Permit(index), ops),
        Op::WithCondition(ops) => (Holdable::Condition, ops),
        _ => return Ok(ok()),
    };
    let (world, ticket) = (actor.world.clone(), actor.world.ticket());
    what.model(&world).borrow_mut().line.enter(ticket, actor.number);
    let leaving = world.clone();
    let waiting = OnDrop::new(move || what.model(&leaving).borrow_mut().line.leave(ticket));
    let guard = what.acquire(&world).await?;
    world.check(what.model(&world).borrow_mut().granted(ticket));
    drop(waiting);
    let releasing = world.clone();
    // The model first, then the real one.
    let _held = (
        OnDrop::new(move || what.model(&releasing).borrow_mut().released(ticket)),
        guard,
    );
    actor.log(format_args!("holds it"));
    let mut inside = actor.clone();
    if let Holdable::Condition = what {
        inside.in_condition = Some(ticket);
    }
    run(ops, inside).await.map(|()| ok())
}

/// Timeouts, groups and their like.
pub async fn structured(op: Op, actor: &Actor) -> Result<String> {
    match op {
        Op::Timeout(delay, ops) => with_timeout(delay, ops, actor).await,
        Op::WaitFor(delay, ops) => {
            let body = run(ops, actor.outside());
            wait_for(body, Duration::from_secs(delay)).await.map(|()| ok())
        }
        Op::Group(tasks, ops) => group(tasks, ops, actor).await,
        Op::Gather(bodies) => {
            let tasks = spawn_all(bodies, actor);
            let _waiting = actor.world.waiting_for(&tasks);
            let results = gather(tasks).await?;
            Ok(format!("{} results", results.len()))
        }
        Op::GatherResults(bodies) => {
            let (tasks, mut words) = (spawn_all(bodies, actor), Vec::new());
            let _waiting = actor.world.waiting_for(&tasks);
            for result in gather_results(tasks).await? {
                words.push(outcome(async { result }).await);
            }
            Ok(words.join(" "))
        }
        Op::Wait(when, delay, bodies) => wait_until(when, delay, bodies, actor).await,
        Op::Shield(ops) => {
            let task = actor.spawn(ops);
            let _waiting = actor.world.waiting_for(std::slice::from_ref(&task));
            shield(task).await.map(|()| ok())
        }
        Op::Race(one, other) => {
            let (one, other) = (run(one, actor.outside()), run(other, actor.outside()));
            select(one, other).await.factor_first().0.map(|()| ok())
        }
        _ => Ok(ok()),
    }
}

fn spawn_all(bodies: Vec<Vec<Op>>, actor: &Actor) -> Vec<Task<()>> {
    bodies.into_iter().map(|ops| actor.spawn(ops)).collect()
}

async fn with_timeout(delay: u64, ops: Vec<Op>, actor: &Actor) -> Result<String> {
    let event_loop = &actor.world.event_loop;
    let due = event_loop.time() + Duration::from_secs(delay);
    let limit = timeout(Duration::from_secs(delay));
    let result = limit.run(run(ops, actor.clone())).await;
    let (now, expired) = (event_loop.time(), limit.expired());
    actor.world.check(rule(!expired || now >= due, || {
        format!("expired at {now:?}, due at {due:?}")
    }));
    actor.log(format_args!("expired: {}", expired.show()));
    result.map(|()| ok())
}

async fn group(tasks: Vec<Vec<Op>>, ops: Vec<Op>, actor: &Actor) -> Result<String> {
    let (group, inside) = (TaskGroup::new(), actor.clone());
    let ticket = actor.world.ticket();
    let members = group.clone();
    let first = actor.world.tasks.borrow().len();
    let count = tasks.len();
    let result = group
        .run(async move {
            for ops in tasks {
                let mut child = inside.child();
                child.group = Some(ticket);
                let task = members.create_task(run(ops, child.clone()))?;
                child.observe(&task);
            }
            run(ops, inside).await
        })
        .await;
    let all = actor.world.tasks.borrow();
    let ended = all[first..first + count].iter().all(|seen| seen.task.done());
    actor
        .world
        .check(rule(ended, || "a task outlives its group".into()));
    result.map(|()| ok())
}

async fn wait_until(when: usize, delay: u64, bodies: Vec<Vec<Op>>, actor: &Actor) -> Result<String> {
    let when = [
        ReturnWhen::FirstCompleted,
        ReturnWhen::FirstException,
        ReturnWhen::AllCompleted,
    ][when];
    let tasks = spawn_all(bodies, actor);
    let _waiting = actor.world.waiting_for(&tasks);
    let timeout = (delay > 0).then(|| Duration::from_secs(delay));
    let (done, pending) = wait(tasks, timeout, when).await?;
    let right = done.iter().all(|task| task.done()) && !pending.iter().any(|task| task.done());
    actor
        .world
        .check(rule(right, || "wait() has mixed up what is done".into()));
    let states: Vec<String> = done.iter().chain(&pending).map(|task| state(task)).collect();
    Ok(states.join(" "))
}
