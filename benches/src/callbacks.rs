//! One million callbacks at once.
//!
//! All of them are scheduled, then the loop runs until the last one has run. Measured: CPU time of
//! a callback, from scheduling to its end. Limit: the boxes in a bare `VecDeque`. Loops without
//! callbacks (tokio, smol, monoio) have a task instead; calloop's idle callbacks run once each.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static TRIAL: Trial = Trial {
    name: "callbacks",
    title: "1M callbacks at once",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 1.25)],
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
    let mut queue = VecDeque::<Box<dyn FnOnce()>>::new();
    cpu_of(count, || {
        for number in 0..count {
            queue.push_back(Box::new(move || work::add(number)));
        }
        while let Some(callback) = queue.pop_front() {
            callback();
        }
        Ok(())
    })
}

fn miniloop(count: u64) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    cpu_of(count, || {
        for number in 0..count {
            event_loop.call_soon(move || work::add(number));
        }
        let stopper = event_loop.handle();
        event_loop.call_soon(move || stopper.stop());
        Ok(event_loop.run_forever()?)
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
            // Tasks run in order: when this one has ended, so have all.
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
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    cpu_of(count, || {
        let handle = event_loop.handle();
        for number in 0..count {
            handle.insert_idle(move |_| work::add(number));
        }
        let stopper = event_loop.get_signal();
        handle.insert_idle(move |_| stopper.stop());
        // It would wait for I/O before it looks at its idle callbacks.
        Ok(event_loop.run(Duration::ZERO, &mut (), |_| ())?)
    })
}
