//! What the tasks of a program share: the real objects, each beside its model, and the trace.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{
    Condition, Event, EventLoop, Future, LifoQueue, Lock, LoopHandle, PriorityQueue, Queue, Semaphore, Task,
    TimerHandle,
};

use super::ledger::{Checked, Entry, Flag, Notifications, Order, Permits, Stock, Ticket};
use super::program::{EVENTS, FUTURES, LOCKS};
use crate::common::{START, state};
use crate::support::{Counted, Drops, OnDrop};

/// A real object and its model.
pub struct Beside<T, M> {
    pub real: T,
    pub model: RefCell<M>,
}

impl<T, M> Beside<T, M> {
    fn new(real: T, model: M) -> Beside<T, M> {
        Beside {
            real,
            model: RefCell::new(model),
        }
    }
}

/// What the queues carry; not `Clone`, so that each is somewhere exactly once.
pub struct Item {
    pub entry: Entry,
    _counted: Counted,
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By rank alone: items of one rank are equal.
impl Ord for Item {
    fn cmp(&self, other: &Item) -> Ordering {
        self.entry.rank.cmp(&other.entry.rank)
    }
}

/// A queue of each kind.
pub enum AnyQueue {
    Plain(Queue<Item>),
    Lifo(LifoQueue<Item>),
    Priority(PriorityQueue<Item>),
}

/// Does the same with whichever queue it is.
macro_rules! with_queue {
    ($queue:expr, $name:ident => $body:expr) => {
        match $queue {
            AnyQueue::Plain($name) => $body,
            AnyQueue::Lifo($name) => $body,
            AnyQueue::Priority($name) => $body,
        }
    };
}
pub(super) use with_queue;

/// A task, and what was seen of it.
pub struct Seen {
    pub name: String,
    pub task: Task<()>,
    /// How often its done callback was called, and with what.
    pub ends: RefCell<Vec<String>>,
    /// It was cancelled, and nothing in it swallows that.
    pub has_to_end_cancelled: Cell<bool>,
    /// Names the task group it is in.
    pub group: Option<Ticket>,
    /// It may take cancellations back.
    pub uncancels: bool,
}

/// A timer, and what was seen of it.
pub struct Ring {
    pub handle: TimerHandle,
    pub rang: Rc<Cell<u32>>,
    pub cancelled: Cell<bool>,
}

type HasCome = Box<dyn Fn() -> bool>;

pub struct World {
    pub event_loop: LoopHandle,
    futures: RefCell<Vec<Future<u32>>>,
    /// Done callbacks of the futures: which, and whether it was called.
    pub watches: RefCell<Vec<(usize, bool)>>,
    pub locks: Vec<Beside<Lock, Permits>>,
    pub semaphores: Vec<Beside<Semaphore, Permits>>,
    pub events: Vec<Beside<Event, Flag>>,
    pub condition: Beside<Condition, Notifications>,
    /// The lock of the condition.
    pub gate: RefCell<Permits>,
    pub queues: Vec<Beside<AnyQueue, Stock>>,
    pub tasks: RefCell<Vec<Rc<Seen>>>,
    pub timers: RefCell<Vec<Ring>>,
    /// What is waited for, each as a question: has it come?
    waits: RefCell<Vec<(Ticket, HasCome)>>,
    trace: RefCell<Vec<String>>,
    broken: RefCell<Vec<String>>,
    last: Cell<u32>,
    last_time: Cell<Duration>,
    items: Cell<u32>,
    children: Cell<u32>,
    since: u64,
    drops: Drops,
    made: Cell<u32>,
}

pub const PERMITS: [usize; 2] = [1, 2];

impl World {
    pub fn new(event_loop: &EventLoop) -> Rc<World> {
        let event_loop = event_loop.handle();
        let lock = |_| Beside::new(Lock::new(), Permits::new(1));
        let semaphore = |permits| Beside::new(Semaphore::new(permits), Permits::new(permits));
        let queue = |queue, order, size| Beside::new(queue, Stock::new(order, size));
        Rc::new(World {
            futures: RefCell::new((0..FUTURES).map(|_| event_loop.create_future()).collect()),
            watches: RefCell::default(),
            locks: (0..LOCKS).map(lock).collect(),
            semaphores: PERMITS.into_iter().map(semaphore).collect(),
            events: (0..EVENTS)
                .map(|_| Beside::new(Event::new(), Flag::default()))
                .collect(),
            condition: Beside::new(Condition::new(), Notifications::default()),
            gate: RefCell::new(Permits::new(1)),
            queues: vec![
                queue(AnyQueue::Plain(Queue::new(1)), Order::FirstIn, 1),
                queue(AnyQueue::Lifo(LifoQueue::new(2)), Order::LastIn, 2),
                queue(AnyQueue::Priority(PriorityQueue::new(0)), Order::Smallest, 0),
            ],
            tasks: RefCell::default(),
            timers: RefCell::default(),
            waits: RefCell::default(),
            trace: RefCell::default(),
            broken: RefCell::default(),
            last: Cell::new(0),
            last_time: Cell::new(event_loop.time()),
            items: Cell::new(0),
            children: Cell::new(0),
            since: event_loop.pass_count(),
            drops: Drops::default(),
            made: Cell::new(0),
            event_loop,
        })
    }

    pub fn future(&self, index: usize) -> Future<u32> {
        self.futures.borrow()[index].clone()
    }

    /// From now on, until the guard goes, somebody waits for what `has_come` asks for.
    pub fn waiting(self: &Rc<Self>, has_come: HasCome) -> OnDrop<impl FnOnce() + use<>> {
        let (world, ticket) = (self.clone(), self.ticket());
        self.waits.borrow_mut().push((ticket, has_come));
        OnDrop::new(move || {
            let mut waits = world.waits.borrow_mut();
            let place = waits.iter().position(|(other, _)| *other == ticket);
            let gone = place.map(|place| waits.remove(place));
            drop(waits);
            drop(gone);
        })
    }

    /// The same for tasks, all of which are to end.
    pub fn waiting_for(self: &Rc<Self>, tasks: &[Task<()>]) -> OnDrop<impl FnOnce() + use<>> {
        let tasks = tasks.to_vec();
        self.waiting(Box::new(move || tasks.iter().all(|task| task.done())))
    }

    /// Lets go of what refers back to this: done callbacks and tasks do.
    pub fn clear(&self) {
        let (futures, tasks) = (self.futures.take(), self.tasks.take());
        drop((futures, tasks, self.timers.take()));
    }

    /// A number that nothing else has.
    pub fn ticket(&self) -> Ticket {
        self.last.set(self.last.get() + 1);
        self.last.get()
    }

    /// Counts the tasks that tasks have made.
    pub fn next_child(&self) -> u32 {
        self.children.set(self.children.get() + 1);
        self.children.get()
    }

    /// Something whose drop is counted.
    pub fn counted(&self) -> Counted {
        self.made.set(self.made.get() + 1);
        self.drops.counted()
    }

    pub fn left_over(&self) -> u32 {
        self.made.get() - self.drops.count()
    }

    pub fn item(&self) -> Item {
        let number = self.items.replace(self.items.get() + 1);
        Item {
            entry: Entry {
                rank: number * 2 % 3,
                number,
            },
            _counted: self.counted(),
        }
    }

    /// Remembers a broken rule, with the place in the trace.
    pub fn check(&self, checked: Checked) {
        if let Err(rule) = checked {
            let line = self.trace.borrow().len();
            self.broken.borrow_mut().push(format!("line {line}: {rule}"));
        }
    }

    pub fn broken(&self) -> Vec<String> {
        self.broken.borrow().clone()
    }

    pub fn trace(&self) -> Vec<String> {
        self.trace.borrow().clone()
    }

    pub fn passes(&self) -> u64 {
        self.event_loop.pass_count() - self.since
    }

    /// When the last thing happened.
    pub fn last_time(&self) -> Duration {
        self.last_time.get()
    }

    /// Writes what happened, with the pass and the time, and looks whether all rules hold.
    pub fn log(&self, line: std::fmt::Arguments<'_>) {
        self.last_time.set(self.event_loop.time());
        let seconds = (self.last_time() - START).as_secs();
        let line = format!("{} {seconds}s {line}", self.passes());
        self.trace.borrow_mut().push(line);
        self.look();
    }

    /// What has to hold at any moment.
    fn look(&self) {
        for lock in &self.locks {
            self.check(lock.model.borrow().check(lock.real.locked()));
        }
        for semaphore in &self.semaphores {
            self.check(semaphore.model.borrow().check(semaphore.real.locked()));
        }
        self.check(self.gate.borrow().check(self.condition.real.locked()));
        for event in &self.events {
            self.check(event.model.borrow().check(event.real.is_set()));
        }
        for queue in &self.queues {
            let (size, empty, full) =
                with_queue!(&queue.real, real => (real.qsize(), real.empty(), real.full()));
            self.check(queue.model.borrow().check(size, empty, full));
        }
        for timer in &*self.timers.borrow() {
            let (rang, cancelled) = (timer.rang.get(), timer.cancelled.get());
            self.check(rule(rang <= u32::from(!cancelled), || {
                format!("a timer rang {rang} times (cancelled: {cancelled})")
            }));
        }
    }

    /// What has to hold once nothing goes on by itself.
    pub fn look_when_quiet(&self) {
        self.look();
        for lock in &self.locks {
            self.check(lock.model.borrow().check_quiet(lock.real.locked()));
        }
        for semaphore in &self.semaphores {
            self.check(semaphore.model.borrow().check_quiet(semaphore.real.locked()));
        }
        let gate = self.gate.borrow();
        self.check(gate.check_quiet(self.condition.real.locked()));
        if gate.free() > 0 {
            self.check(self.condition.model.borrow().check_quiet());
        }
        for event in &self.events {
            self.check(event.model.borrow().check_quiet());
        }
        for queue in &self.queues {
            self.check(queue.model.borrow().check_quiet());
        }
        for timer in &*self.timers.borrow() {
            self.check(rule(
                timer.rang.get() == u32::from(!timer.cancelled.get()),
                || format!("a timer rang {} times", timer.rang.get()),
            ));
        }
        for (future, called) in &*self.watches.borrow() {
            let done = self.future(*future).done();
            self.check(rule(*called == done, || {
                format!("done() is {done}, and the done callback was called: {called}")
            }));
        }
        for seen in &*self.tasks.borrow() {
            self.check(seen.check_quiet());
            self.check(self.check_group(seen));
        }
        for (_, has_come) in &*self.waits.borrow() {
            self.check(rule(!has_come(), || "what somebody waits for has come".into()));
        }
        let pending = self
            .tasks
            .borrow()
            .iter()
            .filter(|seen| !seen.task.done())
            .count();
        let all: HashSet<_> = self.event_loop.all_tasks().into_iter().collect();
        self.check(rule(all.len() == pending, || {
            format!("{pending} tasks are pending, all_tasks() has {}", all.len())
        }));
    }

    /// When one of a group has failed, the others are cancelled.
    fn check_group(&self, failed: &Seen) -> Checked {
        if failed.group.is_none() || !failed.has_failed() {
            return Ok(());
        }
        let tasks = self.tasks.borrow();
        let mut others = tasks.iter().filter(|other| other.group == failed.group);
        rule(
            others.all(|other| other.task.done() || other.uncancels || other.task.cancelling() > 0),
            || format!("{} has failed, and another one of its group goes on", failed.name),
        )
    }

    /// Everything has ended: all permits can be had again, and no more than those.
    pub fn look_when_over(&self) {
        for seen in &*self.tasks.borrow() {
            self.check(rule(seen.task.done(), || format!("{} does not end", seen.name)));
        }
        for lock in &self.locks {
            self.check(rule(!lock.real.locked(), || "a lock is left locked".into()));
        }
        self.check(rule(!self.condition.real.locked(), || {
            "the condition is left locked".into()
        }));
        for (semaphore, permits) in self.semaphores.iter().zip(PERMITS) {
            self.check(rule(semaphore.model.borrow().free() == permits, || {
                "a permit is still held".into()
            }));
        }
    }
}

impl Seen {
    fn has_failed(&self) -> bool {
        self.task.done() && !self.task.cancelled() && self.task.result().is_err()
    }

    fn check_quiet(&self) -> Checked {
        let (ends, name) = (self.ends.borrow(), &self.name);
        rule(ends.len() == usize::from(self.task.done()), || {
            format!("the done callback of {name} was called {} times", ends.len())
        })?;
        let Some(end) = ends.first() else {
            return Ok(());
        };
        rule(*end == state(&self.task), || {
            format!("{name} ended with {end}, now it is {}", state(&self.task))
        })?;
        rule(self.task.cancelled() || !self.has_to_end_cancelled.get(), || {
            format!("{name} was cancelled, and ended with {end}")
        })
    }
}

/// A rule of the loop itself.
pub fn rule(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}
