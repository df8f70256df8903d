//! One million trivial tasks.
//!
//! All are spawned, none of them waits for anything, the loop runs until the last one has ended.
//! Measured: CPU time of a task, from spawning to its end. Limit: boxed futures in a bare
//! `VecDeque`, polled once each.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Waker};

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static TRIAL: Trial = Trial {
    name: "tasks",
    title: "1M trivial tasks",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal {
        entry: MINILOOP,
        form: "",
        most: 2.2,
        not_behind: Some("monoio"),
    }],
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

fn limit(count: u64) -> Outcome<f64> {
    let mut queue = VecDeque::<Pin<Box<dyn Future<Output = ()>>>>::new();
    cpu_of(count, || {
        for number in 0..count {
            queue.push_back(Box::pin(async move { work::add(number) }));
        }
        let mut context = Context::from_waker(Waker::noop());
        while let Some(mut task) = queue.pop_front() {
            if task.as_mut().poll(&mut context).is_pending() {
                return Err("a trivial task waits".into());
            }
        }
        Ok(())
    })
}

fn miniloop(count: u64) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    cpu_of(count, || {
        for number in 0..count {
            event_loop.create_task(async move {
                work::add(number);
                Ok(())
            });
        }
        // Tasks run in order: when this one has ended, so have all.
        let last = event_loop.create_task(async { Ok(()) });
        Ok(event_loop.run_until_complete(last)?)
    })
}

fn tokio(count: u64) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    cpu_of(count, || {
        runtime.block_on(async {
            for number in 0..count {
                tokio::spawn(async move { work::add(number) });
            }
            Ok(tokio::spawn(async {}).await?)
        })
    })
}

fn smol(count: u64) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    cpu_of(count, || {
        smol::block_on(executor.run(async {
            for number in 0..count {
                executor.spawn(async move { work::add(number) }).detach();
            }
            executor.spawn(async {}).await;
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
            for number in 0..count {
                monoio::spawn(async move { work::add(number) });
            }
            monoio::spawn(async {}).await;
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
        for number in 0..count {
            scheduler.schedule(async move { work::add(number) })?;
        }
        let mut left = count;
        Ok(event_loop.run(None, &mut left, |_| ())?)
    })
}
