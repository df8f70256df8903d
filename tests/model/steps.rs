//! Running a program: each operation does the real thing, and tells the model of it.

use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;

use miniloop::{Exception, Result, Task, current_task, sleep};

use super::acts::act;
use super::ledger::Ticket;
use super::program::{Op, Program};
use super::world::{Seen, World, rule};
use super::{blocks, waits};
use crate::common::{Boom, Show, state, word};

/// Who does it.
#[derive(Clone)]
pub struct Actor {
    pub world: Rc<World>,
    pub name: Rc<str>,
    /// Its number: the lines of the model know it by that.
    pub number: u32,
    /// The task of the program's list that it is, or is a part of.
    pub root: usize,
    /// It holds the condition's lock, under this number.
    pub in_condition: Option<Ticket>,
    /// Somebody who waits for this one holds that lock: it must not wait for one who wants it back
    /// before it ends, cancelled or not.
    pub behind: bool,
    /// No task of the program can swallow a cancellation.
    pub strict: bool,
    /// A task of the program may take cancellations back.
    pub uncancels: bool,
    /// Names the task group it is in.
    pub group: Option<Ticket>,
}

/// A coroutine of a program.
pub type Coroutine = Pin<Box<dyn StdFuture<Output = Result<()>>>>;

/// Does the operations one after the other, to the first that raises.
pub fn run(ops: Vec<Op>, actor: Actor) -> Coroutine {
    Box::pin(async move {
        let _counted = actor.world.counted();
        for op in ops {
            let label = op.label();
            let outcome = step(op, &actor).await;
            match &outcome {
                Ok(text) => actor.log(format_args!("{label}: {text}")),
                Err(exception) => actor.log(format_args!("{label}: {}", word(exception))),
            }
            outcome?;
        }
        Ok(())
    })
}

/// Creates the tasks of a program.
pub fn begin(program: &Program, world: &Rc<World>) {
    let strict = !program.may_swallow();
    for (root, ops) in program.tasks.iter().enumerate() {
        let actor = Actor {
            world: world.clone(),
            name: format!("t{root}").into(),
            number: world.ticket(),
            root,
            in_condition: None,
            behind: false,
            strict,
            uncancels: program.any(|op| *op == Op::Uncancel),
            group: None,
        };
        let coroutine = run(ops.clone(), actor.clone());
        actor.observe(&world.event_loop.create_task(coroutine));
    }
}

impl Actor {
    pub fn log(&self, line: std::fmt::Arguments<'_>) {
        self.world.log(format_args!("{} {line}", self.name));
    }

    /// The same one in a part that does not hold what the whole holds.
    pub fn outside(&self) -> Actor {
        Actor {
            in_condition: None,
            behind: self.behind || self.in_condition.is_some(),
            ..self.clone()
        }
    }

    /// A task that this one makes.
    pub fn child(&self) -> Actor {
        Actor {
            name: format!("t{}.{}", self.root, self.world.next_child()).into(),
            number: self.world.ticket(),
            group: None,
            ..self.outside()
        }
    }

    /// Makes a task of `ops`, in its own name, and watches it.
    pub fn spawn(&self, ops: Vec<Op>) -> Task<()> {
        let child = self.child();
        let task = self.world.event_loop.create_task(run(ops, child.clone()));
        child.observe(&task);
        task
    }

    /// Has the end of this one's task written down.
    pub fn observe(&self, task: &Task<()>) {
        task.set_name(&*self.name);
        let seen = Rc::new(Seen {
            name: self.name.to_string(),
            task: task.clone(),
            ends: Vec::new().into(),
            has_to_end_cancelled: false.into(),
            group: self.group,
            uncancels: self.uncancels,
        });
        self.world.tasks.borrow_mut().push(seen.clone());
        let actor = self.clone();
        task.add_done_callback(move |task| {
            let end = state(task);
            actor.log(format_args!("done: {end}"));
            seen.ends.borrow_mut().push(end);
        });
    }
}

/// One operation: what it gave as text, or what it raised.
async fn step(op: Op, actor: &Actor) -> Result<String> {
    match op {
        Op::Raise => Err(Boom("raised").into()),
        Op::Uncancel => Ok(uncancel(actor)),
        Op::Do(action) => Ok(act(&action, actor, true)),
        Op::Soon(acts) => Ok(waits::soon(acts, actor)),
        Op::Later(delay, acts) => Ok(waits::later(delay, acts, actor)),
        Op::Yield => sleep(std::time::Duration::ZERO).await.map(|()| ok()),
        Op::Sleep(seconds) => waits::sleep_for(seconds, actor).await,
        Op::Await(index) => waits::future(index, actor).await,
        Op::Join(index) => waits::join(index, actor).await,
        Op::WaitEvent(index) => waits::event(index, actor).await,
        Op::WaitNotified => waits::notified(actor).await,
        Op::Put(index) => waits::put(index, actor).await,
        Op::Get(index) => waits::get(index, actor).await,
        Op::JoinQueue(index) => waits::join_queue(index, actor).await,
        Op::WithLock(..) | Op::WithPermit(..) | Op::WithCondition(_) => blocks::holding(op, actor).await,
        Op::Catch(ops) => Ok(match run(ops, actor.clone()).await {
            Ok(()) => ok(),
            Err(exception) => format!("caught {}", word(&exception)),
        }),
        Op::Finally(ops, cleanup) => {
            let outcome = run(ops, actor.clone()).await;
            run(cleanup, actor.clone()).await?;
            outcome.map(|()| ok())
        }
        _ => blocks::structured(op, actor).await,
    }
}

pub fn ok() -> String {
    "ok".into()
}

/// Takes back one cancellation of the running task.
fn uncancel(actor: &Actor) -> String {
    let Some(task) = current_task() else {
        return "no task".into();
    };
    let before = task.cancelling();
    let left = task.uncancel();
    actor.world.check(rule(
        left == task.cancelling() && left <= before && before <= left + 1,
        || {
            format!(
                "uncancel() gave {left}, cancelling() was {before} and is {}",
                task.cancelling()
            )
        },
    ));
    left.show()
}

/// For `?` in a text: an exception as its word.
pub fn word_of<E: Into<Exception>>(error: E) -> String {
    word(&error.into())
}
