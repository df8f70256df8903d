//! Locks and semaphores: no order of release, cancellation, drop and newcomer loses or doubles one.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use miniloop::{EventLoop, Exception, Future, Lock, LockGuard, Semaphore, SemaphoreGuard, Task, sleep};

use crate::faults::{settle, tick};
use crate::support::Watchdog;

/// What is waited for; all of it is taken when a case begins.
#[derive(Clone)]
enum Gate {
    Lock(Lock),
    Semaphore(Semaphore),
}

enum Pass {
    Lock(LockGuard),
    Semaphore(SemaphoreGuard),
}

impl Gate {
    async fn pass(self) -> miniloop::Result<Pass> {
        match self {
            Gate::Lock(lock) => lock.acquire().await.map(Pass::Lock),
            Gate::Semaphore(semaphore) => semaphore.acquire().await.map(Pass::Semaphore),
        }
    }

    fn release(&self) {
        match self {
            Gate::Lock(lock) => lock.release().unwrap(),
            Gate::Semaphore(semaphore) => semaphore.release(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Release,
    Cancel(usize),
    /// The waiter drops the acquisition that it waits for, and goes on.
    Drop(usize),
    Newcomer,
}

/// All orders of all choices of at most `most` of these.
fn orders(acts: &[Act], most: usize) -> Vec<Vec<Act>> {
    let mut all = vec![Vec::new()];
    let mut longest: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..most {
        longest = longest
            .iter()
            .flat_map(|order| {
                let left = (0..acts.len()).filter(|index| !order.contains(index));
                left.map(|index| [order.as_slice(), &[index]].concat())
            })
            .collect();
        all.extend(
            longest
                .iter()
                .map(|order| order.iter().map(|index| acts[*index]).collect()),
        );
    }
    all
}

/// One waiter, and how to make it drop its wait.
struct Waiter {
    task: Task<()>,
    dropper: Future<()>,
    /// It was cancelled, or told to drop its wait.
    disturbed: bool,
}

struct Scene<'a> {
    event_loop: &'a EventLoop,
    gate: Gate,
    /// How many may be inside at once.
    room: usize,
    /// Those who passed, in order.
    passed: Rc<RefCell<Vec<usize>>>,
    inside: Rc<Cell<usize>>,
    waiters: Vec<Waiter>,
    to_release: usize,
}

impl Scene<'_> {
    /// `room` permits, all taken, and three waiters in the queue.
    fn set(event_loop: &EventLoop, gate: Gate, room: usize) -> Scene<'_> {
        let mut scene = Scene {
            event_loop,
            gate,
            room,
            passed: Rc::default(),
            inside: Rc::default(),
            waiters: Vec::new(),
            to_release: room,
        };
        for _ in 0..room {
            let pass = event_loop.run_until_complete(scene.gate.clone().pass()).unwrap();
            match pass {
                Pass::Lock(guard) => guard.forget(),
                Pass::Semaphore(guard) => guard.forget(),
            }
        }
        (0..3).for_each(|_| scene.newcomer());
        tick(event_loop);
        scene
    }

    fn newcomer(&mut self) {
        let number = self.waiters.len();
        let dropper = self.event_loop.create_future::<()>();
        let (gate, dropped, room) = (self.gate.clone(), dropper.clone(), self.room);
        let (passed, inside) = (self.passed.clone(), self.inside.clone());
        let task = self.event_loop.create_task(async move {
            let _pass = match select(dropped, pin!(gate.pass())).await {
                Either::Left((gone, _)) => return gone,
                Either::Right((pass, _)) => pass?,
            };
            inside.set(inside.get() + 1);
            assert!(inside.get() <= room, "too many inside");
            passed.borrow_mut().push(number);
            let stayed = sleep(std::time::Duration::ZERO).await;
            inside.set(inside.get() - 1);
            stayed
        });
        self.waiters.push(Waiter {
            task,
            dropper,
            disturbed: false,
        });
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Release => {
                // A lock that was passed on is somebody else's by now.
                self.to_release -= 1;
                self.gate.release();
            }
            Act::Cancel(number) => {
                self.waiters[number].task.cancel();
                self.waiters[number].disturbed = true;
            }
            Act::Drop(number) => {
                let _ = self.waiters[number].dropper.set_result(());
                self.waiters[number].disturbed = true;
            }
            Act::Newcomer => self.newcomer(),
        }
    }

    /// Everybody else is served, in order, and all permits are there in the end.
    fn check(mut self, case: &str) {
        while self.to_release > 0 {
            self.act(Act::Release);
        }
        settle(self.event_loop);
        settle(self.event_loop);
        for (number, waiter) in self.waiters.iter().enumerate() {
            assert!(waiter.task.done(), "{case}: {number} still waits");
            match waiter.task.exception() {
                Ok(exception) => assert!(exception.is_none(), "{case}: {exception:?}"),
                Err(cancelled) => assert!(waiter.disturbed && cancelled.is_cancelled(), "{case}"),
            }
        }
        let passed = self.passed.take();
        assert!(passed.is_sorted(), "{case}: not in order: {passed:?}");
        for (number, waiter) in self.waiters.iter().enumerate() {
            let times = passed.iter().filter(|other| **other == number).count();
            assert!(times == 1 || times == 0 && waiter.disturbed, "{case}: {passed:?}");
        }
        let (gate, room) = (self.gate.clone(), self.room);
        let all = async move {
            let mut passes = Vec::new();
            for _ in 0..room {
                passes.push(gate.clone().pass().await?);
            }
            Ok::<_, Exception>(match &gate {
                Gate::Lock(lock) => lock.locked(),
                Gate::Semaphore(semaphore) => semaphore.locked(),
            })
        };
        let task = self.event_loop.create_task(all);
        settle(self.event_loop);
        assert!(task.done(), "{case}: a permit is lost");
        assert!(task.result().unwrap(), "{case}: a permit is doubled");
    }
}

/// Plays every order, all in one tick, and with a tick after each of its acts.
fn play_all(gate: impl Fn() -> Gate, room: usize, acts: &[Act], most: usize) {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    for order in orders(acts, most) {
        for pause in 0..order.len().max(1) {
            let mut scene = Scene::set(&event_loop, gate(), room);
            for (place, act) in order.iter().enumerate() {
                scene.act(*act);
                if place + 1 == pause {
                    tick(&event_loop);
                }
            }
            scene.check(&format!("{order:?}, a tick after the first {pause}"));
        }
    }
}

const ACTS: [Act; 6] = [
    Act::Release,
    Act::Cancel(0),
    Act::Cancel(1),
    Act::Drop(0),
    Act::Drop(1),
    Act::Newcomer,
];

// field: BR-40
// brief: XT-8
#[test]
fn no_order_of_release_cancel_drop_and_newcomer_loses_or_doubles_a_lock() {
    play_all(|| Gate::Lock(Lock::new()), 1, &ACTS, 4);
}

// field: BR-40
// brief: XT-8
#[test]
fn no_order_of_release_cancel_drop_and_newcomer_loses_or_doubles_a_permit() {
    play_all(|| Gate::Semaphore(Semaphore::new(1)), 1, &ACTS, 4);
}

// field: BR-40
#[test]
fn of_two_permits_none_is_lost_or_doubled_either() {
    let acts = [
        Act::Release,
        Act::Release,
        Act::Cancel(0),
        Act::Cancel(1),
        Act::Drop(2),
        Act::Newcomer,
    ];
    play_all(|| Gate::Semaphore(Semaphore::new(2)), 2, &acts, 4);
}

/// The outcomes of three users of a gate, as `in`, `cancelled` or `waits`.
fn three_users(gate: Gate, acts: impl FnOnce(&Gate, &[Task<Pass>; 3])) -> [&'static str; 3] {
    let event_loop = EventLoop::new().unwrap();
    let users = [(); 3].map(|()| event_loop.create_task(gate.clone().pass()));
    tick(&event_loop);
    acts(&gate, &users);
    settle(&event_loop);
    let outcomes = users.map(|user| {
        if !user.done() {
            user.cancel();
            "waits"
        } else if user.cancelled() {
            "cancelled"
        } else {
            "in"
        }
    });
    settle(&event_loop);
    outcomes
}

fn taken_lock() -> Gate {
    let lock = Lock::new();
    let event_loop = EventLoop::new().unwrap();
    event_loop.run_until_complete(lock.acquire()).unwrap().forget();
    Gate::Lock(lock)
}

// field: BR-40
#[test]
fn the_woken_waiter_cancelled_after_the_release_lets_the_next_one_in() {
    for gate in [taken_lock(), Gate::Semaphore(Semaphore::new(0))] {
        let outcomes = three_users(gate, |gate, users| {
            gate.release();
            users[0].cancel();
        });
        assert_eq!(outcomes, ["cancelled", "in", "waits"]);
    }
}

// field: BR-40
#[test]
fn the_first_waiter_cancelled_before_the_release_lets_the_next_one_in() {
    for gate in [taken_lock(), Gate::Semaphore(Semaphore::new(0))] {
        let outcomes = three_users(gate, |gate, users| {
            users[0].cancel();
            gate.release();
        });
        assert_eq!(outcomes, ["cancelled", "in", "waits"]);
    }
}

// field: BR-40
#[test]
fn two_releases_and_a_cancelled_middle_one_let_the_first_and_the_last_in() {
    for cancel_first in [true, false] {
        let outcomes = three_users(Gate::Semaphore(Semaphore::new(0)), |gate, users| {
            if cancel_first {
                users[1].cancel();
            }
            gate.release();
            gate.release();
            users[1].cancel();
        });
        assert_eq!(outcomes, ["in", "cancelled", "in"]);
    }
}
