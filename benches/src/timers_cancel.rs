//! One million timers armed and cancelled while 100,000 others are pending.
//!
//! Delays look random: 1 to 60 s, those of the others 100 to 200 s. A thousand are armed in each
//! tick. *At once*: each is cancelled right after it was armed. *A tick later*: those of the tick
//! before are cancelled, which is what timeouts of short operations do. Measured: CPU time of one
//! timer armed and cancelled. Limit: a `BinaryHeap` in which cancelled ones stay as tombs and
//! which is swept when more than half of it are such. Loops without timer callbacks have a sleep
//! that is polled once and dropped.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work::{self, Delays};

pub static AT_ONCE: Trial = Trial {
    name: "timers_cancel",
    title: "1M timers armed, cancelled at once, 100k pending",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 0.45)],
    entries: &[
        Entry::new(LIMIT, |count| limit(count, When::AtOnce)),
        Entry::new(MINILOOP, |count| miniloop(count, When::AtOnce)),
        Entry::new("tokio", |count| tokio(count, When::AtOnce)),
        Entry::new("smol", |count| smol(count, When::AtOnce)),
        Entry::new("monoio", |count| monoio(count, When::AtOnce)),
        Entry::with_share("calloop", 100, |count| calloop(count, When::AtOnce)),
    ],
    python_share: 10,
};

pub static LATER: Trial = Trial {
    name: "timers_cancel_later",
    title: "1M timers armed, cancelled a tick later, 100k pending",
    goals: &[Goal::new(MINILOOP, "", 0.45)],
    entries: &[
        Entry::new(LIMIT, |count| limit(count, When::ATickLater)),
        Entry::new(MINILOOP, |count| miniloop(count, When::ATickLater)),
        Entry::new("tokio", |count| tokio(count, When::ATickLater)),
        Entry::new("smol", |count| smol(count, When::ATickLater)),
        Entry::new("monoio", |count| monoio(count, When::ATickLater)),
        Entry::with_share("calloop", 100, |count| calloop(count, When::ATickLater)),
    ],
    ..AT_ONCE
};

#[derive(Clone, Copy, PartialEq)]
enum When {
    AtOnce,
    ATickLater,
}

const PENDING: u64 = 100_000;
const IN_A_TICK: u64 = 1_000;

fn delays() -> Delays {
    Delays::between(Duration::from_secs(1), Duration::from_secs(60))
}

fn delays_of_others() -> Delays {
    Delays::between(Duration::from_secs(100), Duration::from_secs(200))
}

/// The ticks, and the numbers of the timers armed in each.
fn ticks(count: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..count)
        .step_by(IN_A_TICK as usize)
        .map(move |first| first..count.min(first + IN_A_TICK))
}

/// What is cancelled at once is dropped; the rest is, when it is cleared in the next tick.
struct Armed<T> {
    when: When,
    timers: Vec<T>,
}

impl<T> Armed<T> {
    fn new(when: When) -> Armed<T> {
        Armed {
            when,
            timers: Vec::with_capacity(IN_A_TICK as usize),
        }
    }

    fn push(&mut self, timer: T, mut cancel: impl FnMut(T)) {
        match self.when {
            When::AtOnce => cancel(timer),
            When::ATickLater => self.timers.push(timer),
        }
    }
}

type Callback = Box<dyn FnOnce()>;

/// A heap of deadlines and slots; a slot without a callback is a tomb.
#[derive(Default)]
pub struct Heap {
    entries: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slots: Vec<Option<Callback>>,
    free: Vec<usize>,
    tombs: usize,
    armed: u64,
}

impl Heap {
    pub fn arm(&mut self, delay: Duration, callback: Callback) -> usize {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(callback);
                slot
            }
            None => {
                self.slots.push(Some(callback));
                self.slots.len() - 1
            }
        };
        self.entries
            .push(Reverse((Instant::now() + delay, self.armed, slot)));
        self.armed += 1;
        slot
    }

    pub fn cancel(&mut self, slot: usize) {
        self.slots[slot] = None;
        self.tombs += 1;
        if self.tombs > self.entries.len() / 2 {
            let (slots, free) = (&self.slots, &mut self.free);
            self.entries.retain(|Reverse((_, _, slot))| {
                let alive = slots[*slot].is_some();
                if !alive {
                    free.push(*slot);
                }
                alive
            });
            self.tombs = 0;
        }
    }
}

fn limit(count: u64, when: When) -> Outcome<f64> {
    let mut heap = Heap::default();
    let mut others = delays_of_others();
    for _ in 0..PENDING {
        heap.arm(others.draw(), Box::new(|| work::add(0)));
    }
    let (mut delays, mut armed) = (delays(), Armed::new(when));
    cpu_of(count, || {
        for numbers in ticks(count) {
            let before = std::mem::take(&mut armed.timers);
            before.into_iter().for_each(|slot| heap.cancel(slot));
            for number in numbers {
                let slot = heap.arm(delays.draw(), Box::new(move || work::add(number)));
                armed.push(slot, |slot| heap.cancel(slot));
                work::add(number);
            }
        }
        Ok(())
    })
}

fn miniloop(count: u64, when: When) -> Outcome<f64> {
    struct Timers {
        event_loop: miniloop::LoopHandle,
        left: Cell<u64>,
        delays: RefCell<Delays>,
        armed: RefCell<Armed<miniloop::TimerHandle>>,
    }
    fn tick(timers: Rc<Timers>) {
        let (mut armed, mut delays) = (timers.armed.borrow_mut(), timers.delays.borrow_mut());
        armed.timers.drain(..).for_each(|timer| timer.cancel());
        for _ in 0..IN_A_TICK.min(timers.left.get()) {
            let number = timers.left.get() - 1;
            timers.left.set(number);
            let timer = timers
                .event_loop
                .call_later(delays.draw(), move || work::add(number));
            armed.push(timer, |timer| timer.cancel());
            work::add(number);
        }
        if timers.left.get() > 0 {
            let next = timers.clone();
            timers.event_loop.call_soon(move || tick(next));
        } else {
            timers.event_loop.stop();
        }
    }
    let event_loop = miniloop::EventLoop::new()?;
    let mut others = delays_of_others();
    for _ in 0..PENDING {
        event_loop.call_later(others.draw(), || work::add(0));
    }
    let timers = Rc::new(Timers {
        event_loop: event_loop.handle(),
        left: Cell::new(count),
        delays: RefCell::new(delays()),
        armed: RefCell::new(Armed::new(when)),
    });
    cpu_of(count, || {
        event_loop.call_soon(move || tick(timers));
        Ok(event_loop.run_forever()?)
    })
}

/// What the loops with tasks do: `sleep` makes a pinned sleep, `next_tick` yields.
async fn sleeps<S: Future>(
    count: u64,
    when: When,
    sleep: impl Fn(Duration) -> Pin<Box<S>>,
    next_tick: impl AsyncFn(),
) -> Outcome<()> {
    let (mut delays, mut armed) = (delays(), Armed::new(when));
    for numbers in ticks(count) {
        armed.timers.clear();
        for number in numbers {
            armed.push(started(sleep(delays.draw())).await, drop);
            work::add(number);
        }
        next_tick().await;
    }
    Ok(())
}

/// The future after its first poll, which is what arms a timer.
async fn started<S: Future>(mut sleep: Pin<Box<S>>) -> Pin<Box<S>> {
    poll_fn(|context| {
        let _pending = sleep.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    sleep
}

async fn others_started<S: Future>(sleep: impl Fn(Duration) -> Pin<Box<S>>) -> Vec<Pin<Box<S>>> {
    let (mut delays, mut others) = (delays_of_others(), Vec::new());
    for _ in 0..PENDING {
        others.push(started(sleep(delays.draw())).await);
    }
    others
}

fn tokio(count: u64, when: When) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sleep = |delay| Box::pin(tokio::time::sleep(delay));
    let _others = runtime.block_on(others_started(sleep));
    cpu_of(count, || {
        runtime.block_on(sleeps(count, when, sleep, tokio::task::yield_now))
    })
}

fn smol(count: u64, when: When) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    let sleep = |delay| Box::pin(smol::Timer::after(delay));
    let _others = smol::block_on(executor.run(others_started(sleep)));
    cpu_of(count, || {
        smol::block_on(executor.run(sleeps(count, when, sleep, smol::future::yield_now)))
    })
}

fn monoio(count: u64, when: When) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    let sleep = |delay| Box::pin(monoio::time::sleep(delay));
    let _others = runtime.block_on(others_started(sleep));
    cpu_of(count, || {
        runtime.block_on(sleeps(count, when, sleep, smol::future::yield_now))
    })
}

fn calloop(count: u64, when: When) -> Outcome<f64> {
    use calloop::timer::{TimeoutAction, Timer};
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    let handle = event_loop.handle();
    let arm = |delay, number| {
        let armed = handle.insert_source(Timer::from_duration(delay), move |_, _, _| {
            work::add(number);
            TimeoutAction::Drop
        });
        armed.map_err(|refused| refused.error)
    };
    let mut others = delays_of_others();
    for _ in 0..PENDING {
        arm(others.draw(), 0)?;
    }
    let (mut delays, mut armed) = (delays(), Armed::new(when));
    let figure = cpu_of(count, || {
        for numbers in ticks(count) {
            armed.timers.drain(..).for_each(|token| handle.remove(token));
            for number in numbers {
                armed.push(arm(delays.draw(), number)?, |token| handle.remove(token));
                work::add(number);
            }
            event_loop.dispatch(Duration::ZERO, &mut ())?;
        }
        Ok(())
    });
    // Dropping the others one after the other would take longer than all of the rest.
    std::mem::forget(event_loop);
    figure
}
