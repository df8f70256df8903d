//! The operations that wait, and those that have something done later.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{Result, sleep};

use super::acts::{callback, got_from};
use super::program::Act;
use super::steps::{Actor, ok};
use super::world::{AnyQueue, Ring, rule, with_queue};
use crate::common::Show;
use crate::support::OnDrop;

pub fn soon(acts: Vec<Act>, actor: &Actor) -> String {
    let handle = actor.world.event_loop.call_soon(callback(acts, actor));
    handle.cancelled().to_string()
}

pub fn later(delay: u64, acts: Vec<Act>, actor: &Actor) -> String {
    let world = actor.world.clone();
    let due = world.event_loop.time() + Duration::from_secs(delay);
    let rang = Rc::new(Cell::new(0));
    let (seen, act_now, clock) = (rang.clone(), callback(acts, actor), world.clone());
    let ring = move || {
        seen.set(seen.get() + 1);
        let now = clock.event_loop.time();
        clock.check(rule(now == due, || {
            format!("a timer for {due:?} rang at {now:?}")
        }));
        act_now();
    };
    let handle = world.event_loop.call_later(Duration::from_secs(delay), ring);
    world.timers.borrow_mut().push(Ring {
        handle,
        rang,
        cancelled: Cell::new(false),
    });
    ok()
}

pub async fn sleep_for(seconds: u64, actor: &Actor) -> Result<String> {
    let event_loop = &actor.world.event_loop;
    let due = event_loop.time() + Duration::from_secs(seconds);
    sleep(Duration::from_secs(seconds)).await?;
    let now = event_loop.time();
    actor.world.check(rule(now == due, || {
        format!("a sleep until {due:?} ended at {now:?}")
    }));
    Ok(ok())
}

pub async fn future(index: usize, actor: &Actor) -> Result<String> {
    let future = actor.world.future(index);
    let asked = future.clone();
    let _waiting = actor.world.waiting(Box::new(move || asked.done()));
    future.await.map(|value| value.show())
}

pub async fn join(index: usize, actor: &Actor) -> Result<String> {
    if index >= actor.root {
        return Ok("a later task".into());
    }
    if actor.behind || actor.in_condition.is_some() {
        return Ok("in a condition".into());
    }
    let task = actor.world.tasks.borrow()[index].task.clone();
    let _waiting = actor.world.waiting_for(std::slice::from_ref(&task));
    task.await.map(|value| value.show())
}

pub async fn event(index: usize, actor: &Actor) -> Result<String> {
    let (world, ticket) = (actor.world.clone(), actor.world.ticket());
    let event = &world.events[index];
    event.model.borrow_mut().enter(ticket);
    let leaving = world.clone();
    let _waiting = OnDrop::new(move || leaving.events[index].model.borrow_mut().leave(ticket));
    event.real.wait().await?;
    world.check(event.model.borrow().went_on(ticket));
    Ok(ok())
}

pub async fn put(index: usize, actor: &Actor) -> Result<String> {
    let (world, item) = (actor.world.clone(), actor.world.item());
    let (queue, entry) = (&world.queues[index], item.entry);
    *queue.model.borrow_mut().putters() += 1;
    let leaving = world.clone();
    let _waiting = OnDrop::new(move || *leaving.queues[index].model.borrow_mut().putters() -= 1);
    let put = with_queue!(&queue.real, real => real.put_or_return(item).await);
    match put {
        Ok(()) => {
            world.check(queue.model.borrow_mut().put(entry));
            Ok(format!("item {}", entry.number))
        }
        Err(refused) => {
            if !refused.is_cancelled() {
                world.check(rule(!refused.is_full(), || "put() does not wait".into()));
                world.check(queue.model.borrow().refused_put(refused.is_full()));
            }
            let exception = refused.exception().clone();
            world.check(rule(refused.into_item().entry == entry, || {
                "another item came back".into()
            }));
            Err(exception)
        }
    }
}

pub async fn get(index: usize, actor: &Actor) -> Result<String> {
    let world = actor.world.clone();
    *world.queues[index].model.borrow_mut().getters() += 1;
    let leaving = world.clone();
    let _waiting = OnDrop::new(move || *leaving.queues[index].model.borrow_mut().getters() -= 1);
    let got = with_queue!(&world.queues[index].real, real => real.get().await);
    got_from(&world, index, got, false)
}

pub async fn join_queue(index: usize, actor: &Actor) -> Result<String> {
    let (world, ticket) = (actor.world.clone(), actor.world.ticket());
    let queue = &world.queues[index];
    queue.model.borrow_mut().enter_join(ticket);
    let leaving = world.clone();
    let _waiting = OnDrop::new(move || leaving.queues[index].model.borrow_mut().leave_join(ticket));
    with_queue!(&queue.real, real => real.join().await)?;
    world.check(queue.model.borrow().joined(ticket));
    Ok(ok())
}

pub async fn notified(actor: &Actor) -> Result<String> {
    let Some(ticket) = actor.in_condition.filter(|_| !actor.behind) else {
        return Ok("not holding".into());
    };
    let world = actor.world.clone();
    let place = world.ticket();
    let (leaving, returned) = (world.clone(), Rc::new(Cell::new(false)));
    let went_on = returned.clone();
    world.gate.borrow_mut().released(ticket);
    world.condition.model.borrow_mut().enter(place);
    // Whatever ends the wait without a notification: a cancellation, or a drop in the middle.
    let waiting = OnDrop::new(move || {
        if !went_on.get() {
            leaving.condition.model.borrow_mut().gave_up(place);
        }
    });
    let outcome = world.condition.real.wait().await;
    world.check(world.gate.borrow_mut().taken_back(ticket));
    if outcome.is_ok() {
        returned.set(true);
        world.check(world.condition.model.borrow_mut().returned(place));
    }
    drop(waiting);
    outcome.map(|()| ok())
}
