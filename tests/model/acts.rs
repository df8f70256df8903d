//! The operations that take no time.

use std::rc::Rc;

use miniloop::{Exception, QueueEmpty};

use super::program::Act;
use super::steps::{Actor, ok, word_of};
use super::world::{AnyQueue, Item, World, rule, with_queue};
use crate::common::{Boom, attempt, state};

/// Does it; `in_task` tells whether a task of the program does, or a callback.
pub fn act(action: &Act, actor: &Actor, in_task: bool) -> String {
    let world = &actor.world;
    match *action {
        Act::SetResult(index) => attempt(world.future(index).set_result(7)),
        Act::SetException(index) => attempt(world.future(index).set_exception(Boom("set"))),
        Act::CancelFuture(index) => cancel_future(world, index),
        Act::Watch(index) => watch(index, actor),
        Act::Cancel(index) => cancel(index, actor, in_task),
        Act::CancelTimer(index) => cancel_timer(world, index),
        Act::SetEvent(index) => {
            world.events[index].model.borrow_mut().set(true);
            world.events[index].real.set();
            ok()
        }
        Act::ClearEvent(index) => {
            world.events[index].model.borrow_mut().set(false);
            world.events[index].real.clear();
            ok()
        }
        Act::Notify(count) => notify(world, count),
        Act::PutNowait(index) => put_nowait(world, index),
        Act::GetNowait(index) => get_nowait(world, index),
        Act::TaskDone(index) => task_done(world, index),
        Act::Shutdown(index, immediate) => shutdown(world, index, immediate),
    }
}

/// Done only once: what a future has come to does not change.
fn cancel_future(world: &World, index: usize) -> String {
    let future = world.future(index);
    let pending = !future.done();
    let cancelled = future.cancel();
    world.check(rule(
        cancelled == pending && (future.cancelled() || !pending),
        || format!("cancel() gave {cancelled}, the future was pending: {pending}"),
    ));
    cancelled.to_string()
}

fn watch(index: usize, actor: &Actor) -> String {
    let place = actor.world.watches.borrow().len();
    actor.world.watches.borrow_mut().push((index, false));
    let (actor, counted) = (actor.clone(), actor.world.counted());
    let future = actor.world.future(index);
    future.add_done_callback(move |future| {
        let _counted = counted;
        let twice = std::mem::replace(&mut actor.world.watches.borrow_mut()[place].1, true);
        actor
            .world
            .check(rule(!twice, || "a done callback was called twice".into()));
        actor.log(format_args!("callback of future {index}: {}", state(future)));
    });
    ok()
}

fn cancel(index: usize, actor: &Actor, in_task: bool) -> String {
    let target = actor.world.tasks.borrow().get(index).cloned();
    // Further on in the list are the tasks that tasks have made.
    let Some(target) = target.filter(|target| !target.name.contains('.')) else {
        return "no such task".into();
    };
    let (before, done) = (target.task.cancelling(), target.task.done());
    let accepted = target.task.cancel();
    let after = target.task.cancelling();
    actor.world.check(rule(
        accepted != done && after == before + u32::from(accepted),
        || format!("cancel() gave {accepted}, cancelling() was {before} and is {after}"),
    ));
    // One that cancels itself, or one that waits for it, may still raise something else.
    if accepted && actor.strict && (!in_task || index < actor.root) {
        target.has_to_end_cancelled.set(true);
    }
    accepted.to_string()
}

fn cancel_timer(world: &World, index: usize) -> String {
    match world.timers.borrow().get(index) {
        Some(timer) => {
            timer.handle.cancel();
            // What has rung can not be cancelled any more, yet asyncio says it is.
            timer.cancelled.set(timer.rang.get() == 0);
            ok()
        }
        None => "no such timer".into(),
    }
}

fn notify(world: &World, count: usize) -> String {
    let notified = world.condition.real.notify(count);
    if notified.is_ok() {
        world.condition.model.borrow_mut().notify(count);
    }
    attempt(notified)
}

fn put_nowait(world: &World, index: usize) -> String {
    let (queue, item) = (&world.queues[index], world.item());
    let entry = item.entry;
    let put = with_queue!(&queue.real, real => real.put_nowait(item));
    let model = &mut *queue.model.borrow_mut();
    match put {
        Ok(()) => {
            world.check(model.put(entry));
            format!("item {}", entry.number)
        }
        Err(refused) => {
            world.check(model.refused_put(refused.is_full()));
            let word = word_of(refused.exception().clone());
            world.check(rule(refused.into_item().entry == entry, || {
                "another item came back".into()
            }));
            word
        }
    }
}

fn get_nowait(world: &World, index: usize) -> String {
    let queue = &world.queues[index];
    let got = with_queue!(&queue.real, real => real.get_nowait());
    got_from(world, index, got, true).unwrap_or_else(word_of)
}

/// What a get gave: the text, or the exception.
pub fn got_from(
    world: &World,
    index: usize,
    got: Result<Item, Exception>,
    at_once: bool,
) -> Result<String, Exception> {
    let mut model = world.queues[index].model.borrow_mut();
    match got {
        Ok(item) => {
            world.check(model.got(item.entry));
            Ok(format!("item {}", item.entry.number))
        }
        Err(refused) => {
            let empty = refused.is::<QueueEmpty>();
            if !refused.is_cancelled() {
                world.check(rule(at_once || !empty, || "get() does not wait".into()));
                world.check(model.refused_get(empty));
            }
            Err(refused)
        }
    }
}

/// What is still in the queues is what should be.
pub fn drain(world: &World) {
    for index in 0..world.queues.len() {
        let inside = with_queue!(&world.queues[index].real, real => real.qsize());
        for _ in 0..inside {
            get_nowait(world, index);
        }
    }
    world.log(format_args!("drained"));
}

fn task_done(world: &World, index: usize) -> String {
    let done = with_queue!(&world.queues[index].real, real => real.task_done());
    world.check(world.queues[index].model.borrow_mut().task_done(done.is_ok()));
    attempt(done)
}

fn shutdown(world: &World, index: usize, immediate: bool) -> String {
    let queue = &world.queues[index];
    let thrown_out = with_queue!(&queue.real, real => real.shutdown(immediate));
    let mut entries: Vec<_> = thrown_out.iter().map(|item| item.entry).collect();
    world.check(queue.model.borrow_mut().shut_down(immediate, &mut entries));
    ok()
}

/// All of these, by a callback.
pub fn act_all(acts: &[Act], actor: &Actor) {
    for action in acts {
        let text = act(action, actor, false);
        actor.log(format_args!("callback {action:?}: {text}"));
    }
}

/// A callback that does all of these.
pub fn callback(acts: Vec<Act>, actor: &Actor) -> impl FnOnce() + 'static + use<> {
    let (actor, counted) = (actor.clone(), Rc::new(actor.world.counted()));
    move || {
        let _counted = counted;
        act_all(&acts, &actor);
    }
}
