//! Two tasks that wake each other one million times, each time through a fresh future.
//!
//! Each makes a future, leaves it where the other one finds it, completes the one it finds there
//! itself, and awaits its own. Measured: CPU time of a wake: making the future, completing it, and
//! the step of the task that awaits it. Limit: two boxed futures, stepped by hand from a queue, and
//! an `Rc` for each future. tokio has its own one-shot channel; smol, monoio and calloop, which
//! have none, take that of `futures-channel`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static TRIAL: Trial = Trial {
    name: "wakes",
    title: "two tasks wake each other 1M times",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 2.8)],
    entries: &[
        Entry::new(LIMIT, limit),
        Entry::new(MINILOOP, miniloop),
        Entry::new("tokio", tokio),
        Entry::new("smol", smol),
        Entry::new("monoio", monoio),
        Entry::new("calloop", calloop),
    ],
    python_share: 10,
};

/// The numbers of the wakes that one of the two tasks waits for.
fn half(count: u64, task: u64) -> impl Iterator<Item = u64> {
    (task..count).step_by(2)
}

/// A future of the limit, and the number of the task that awaits it.
#[derive(Default)]
struct ByHand {
    done: Cell<bool>,
    waiter: Cell<Option<usize>>,
}

fn limit(count: u64) -> Outcome<f64> {
    type Queue = Rc<RefCell<VecDeque<usize>>>;
    async fn task(me: usize, count: u64, queue: Queue, left: Rc<RefCell<Option<Rc<ByHand>>>>) {
        let complete = |other: Option<Rc<ByHand>>| {
            if let Some(other) = other {
                other.done.set(true);
                queue.borrow_mut().extend(other.waiter.take());
            }
        };
        for number in half(count, me as u64) {
            let mine = Rc::new(ByHand::default());
            complete(left.replace(Some(mine.clone())));
            poll_fn(|_| {
                if mine.done.get() {
                    return Poll::Ready(());
                }
                mine.waiter.set(Some(me));
                Poll::Pending
            })
            .await;
            work::add(number);
        }
        complete(left.take());
    }
    let (queue, left) = (Queue::default(), Rc::default());
    let task = |me| -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(task(me, count, queue.clone(), Rc::clone(&left)))
    };
    let mut tasks = [task(0), task(1)];
    cpu_of(count, || {
        queue.borrow_mut().extend([0, 1]);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some(next) = next else {
                return Ok(());
            };
            // Whether it has ended shows in the sum.
            let _ = tasks[next].as_mut().poll(&mut context);
        }
    })
}

fn miniloop(count: u64) -> Outcome<f64> {
    type Left = Rc<RefCell<Option<miniloop::Future<()>>>>;
    async fn task(me: u64, count: u64, event_loop: miniloop::LoopHandle, left: Left) -> miniloop::Result<()> {
        for number in half(count, me) {
            let mine = event_loop.create_future();
            if let Some(other) = left.replace(Some(mine.clone())) {
                other.set_result(())?;
            }
            mine.await?;
            work::add(number);
        }
        if let Some(other) = left.take() {
            other.set_result(())?;
        }
        Ok(())
    }
    let event_loop = miniloop::EventLoop::new()?;
    let left = Left::default();
    cpu_of(count, || {
        let first = event_loop.create_task(task(0, count, event_loop.handle(), left.clone()));
        let second = event_loop.create_task(task(1, count, event_loop.handle(), left));
        event_loop.run_until_complete(first)?;
        Ok(event_loop.run_until_complete(second)?)
    })
}

fn tokio(count: u64) -> Outcome<f64> {
    use tokio::sync::oneshot;
    // tokio's tasks have to be `Send`: what is left lies with the thread.
    thread_local! {
        static LEFT: Cell<Option<oneshot::Sender<()>>> = const { Cell::new(None) };
    }
    async fn task(me: u64, count: u64) -> Result<(), oneshot::error::RecvError> {
        for number in half(count, me) {
            let (sender, mine) = oneshot::channel();
            if let Some(other) = LEFT.replace(Some(sender)) {
                let _ = other.send(());
            }
            mine.await?;
            work::add(number);
        }
        if let Some(other) = LEFT.take() {
            let _ = other.send(());
        }
        Ok(())
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    cpu_of(count, || {
        runtime.block_on(async {
            let (first, second) = (tokio::spawn(task(0, count)), tokio::spawn(task(1, count)));
            first.await??;
            Ok(second.await??)
        })
    })
}

type Left = Rc<RefCell<Option<futures_channel::oneshot::Sender<()>>>>;

/// The task of those that take the channel of `futures-channel`.
async fn channel_task(me: u64, count: u64, left: Left) {
    for number in half(count, me) {
        let (sender, mine) = futures_channel::oneshot::channel();
        if let Some(other) = left.replace(Some(sender)) {
            let _ = other.send(());
        }
        if mine.await.is_ok() {
            work::add(number);
        }
    }
    if let Some(other) = left.take() {
        let _ = other.send(());
    }
}

fn smol(count: u64) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    let left = Left::default();
    cpu_of(count, || {
        let first = executor.spawn(channel_task(0, count, left.clone()));
        let second = executor.spawn(channel_task(1, count, left));
        smol::block_on(executor.run(async {
            first.await;
            second.await;
            Ok(())
        }))
    })
}

fn monoio(count: u64) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    let left = Left::default();
    cpu_of(count, || {
        runtime.block_on(async {
            let first = monoio::spawn(channel_task(0, count, left.clone()));
            let second = monoio::spawn(channel_task(1, count, left));
            first.await;
            second.await;
            Ok(())
        })
    })
}

fn calloop(count: u64) -> Outcome<f64> {
    let mut event_loop = calloop::EventLoop::<u64>::try_new()?;
    let (executor, scheduler) = calloop::futures::executor()?;
    let stopper = event_loop.get_signal();
    let inserted = event_loop
        .handle()
        .insert_source(executor, move |(), _, running| {
            *running -= 1;
            if *running == 0 {
                stopper.stop();
            }
        });
    inserted.map_err(|refused| refused.error)?;
    let left = Left::default();
    cpu_of(count, || {
        scheduler.schedule(channel_task(0, count, left.clone()))?;
        scheduler.schedule(channel_task(1, count, left))?;
        Ok(event_loop.run(None, &mut 2, |_| ())?)
    })
}
