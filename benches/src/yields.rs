//! One thousand tasks that each yield one thousand times.
//!
//! Measured: CPU time of a yield: back to the loop, and polled again after all others. Limit: boxed
//! futures in a bare `VecDeque`, polled by turns with a waker that does nothing. Each contestant
//! yields with its own function for that; monoio and calloop have none and take smol's.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static TRIAL: Trial = Trial {
    name: "yields",
    title: "1,000 tasks yield 1,000 times",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[
        Goal::new(MINILOOP, "`sleep(0)`", 4.0),
        Goal::new("miniloop yield_now", "`yield_now()`", 2.7),
    ],
    entries: &[
        Entry::new(LIMIT, limit),
        Entry::new(MINILOOP, |count| {
            miniloop(count, async || miniloop::sleep(Duration::ZERO).await)
        }),
        Entry::new("miniloop yield_now", |count| {
            miniloop(count, async || miniloop::yield_now().await)
        }),
        Entry::new("tokio", tokio),
        Entry::new("smol", smol),
        Entry::new("monoio", monoio),
        Entry::new("calloop", calloop),
    ],
    python_share: 10,
};

pub const TASKS: u64 = 1_000;

/// The numbers that each task counts through: one yield for each.
pub fn shares(count: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let share = count / TASKS;
    (0..TASKS).map(move |task| task * share..(task + 1) * share)
}

/// The least that gives way once.
pub fn yield_once() -> impl Future<Output = ()> {
    let mut yielded = false;
    poll_fn(move |_| match std::mem::replace(&mut yielded, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

/// Polls a task for each share of the numbers, by turns, until all are done.
pub fn by_turns<T: Future<Output = ()> + 'static>(
    count: u64,
    task: impl Fn(std::ops::Range<u64>) -> T,
) -> Outcome<f64> {
    let mut queue = VecDeque::<Pin<Box<dyn Future<Output = ()>>>>::new();
    cpu_of(count, || {
        for numbers in shares(count) {
            queue.push_back(Box::pin(task(numbers)));
        }
        let mut context = Context::from_waker(Waker::noop());
        while let Some(mut task) = queue.pop_front() {
            if task.as_mut().poll(&mut context).is_pending() {
                queue.push_back(task);
            }
        }
        Ok(())
    })
}

fn limit(count: u64) -> Outcome<f64> {
    by_turns(count, |numbers| async move {
        for number in numbers {
            yield_once().await;
            work::add(number);
        }
    })
}

fn miniloop(count: u64, yield_once: impl AsyncFn() -> miniloop::Result<()> + Copy + 'static) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    cpu_of(count, || {
        let tasks: Vec<_> = shares(count)
            .map(|numbers| {
                event_loop.create_task(async move {
                    for number in numbers {
                        yield_once().await?;
                        work::add(number);
                    }
                    Ok(())
                })
            })
            .collect();
        event_loop.run_until_complete(async {
            for task in tasks {
                task.await?;
            }
            Ok(())
        })?;
        Ok(())
    })
}

fn tokio(count: u64) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    cpu_of(count, || {
        runtime.block_on(async {
            let spawn = |numbers| {
                tokio::spawn(async move {
                    for number in numbers {
                        tokio::task::yield_now().await;
                        work::add(number);
                    }
                })
            };
            let tasks: Vec<_> = shares(count).map(spawn).collect();
            for task in tasks {
                task.await?;
            }
            Ok(())
        })
    })
}

fn smol(count: u64) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    cpu_of(count, || {
        smol::block_on(executor.run(async {
            let spawn = |numbers| {
                executor.spawn(async move {
                    for number in numbers {
                        smol::future::yield_now().await;
                        work::add(number);
                    }
                })
            };
            let tasks: Vec<_> = shares(count).map(spawn).collect();
            for task in tasks {
                task.await;
            }
            Ok(())
        }))
    })
}

fn monoio(count: u64) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    cpu_of(count, || {
        runtime.block_on(async {
            let spawn = |numbers| {
                monoio::spawn(async move {
                    for number in numbers {
                        smol::future::yield_now().await;
                        work::add(number);
                    }
                })
            };
            let tasks: Vec<_> = shares(count).map(spawn).collect();
            for task in tasks {
                task.await;
            }
            Ok(())
        })
    })
}

fn calloop(count: u64) -> Outcome<f64> {
    let mut event_loop = calloop::EventLoop::<u64>::try_new()?;
    let (executor, scheduler) = calloop::futures::executor()?;
    let stopper = event_loop.get_signal();
    let inserted = event_loop.handle().insert_source(executor, move |(), _, left| {
        *left -= 1;
        if *left == 0 {
            stopper.stop();
        }
    });
    inserted.map_err(|refused| refused.error)?;
    cpu_of(count, || {
        for numbers in shares(count) {
            scheduler.schedule(async move {
                for number in numbers {
                    smol::future::yield_now().await;
                    work::add(number);
                }
            })?;
        }
        let mut left = TASKS;
        Ok(event_loop.run(None, &mut left, |_| ())?)
    })
}
