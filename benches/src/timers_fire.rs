//! One million timers that fire.
//!
//! All are armed with delays between 0.6 and 0.7 s that look random; then the thread sleeps until
//! the last one is due, and the loop runs them. Measured: CPU time of a timer, from arming to the
//! end of its callback. Limit: boxes in a bare `BinaryHeap`, by deadline and order of arming. Loops
//! without timer callbacks have a task that sleeps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work::{self, Delays};

pub static TRIAL: Trial = Trial {
    name: "timers_fire",
    title: "1M timers fire",
    unit: Unit::Nanoseconds,
    count: COUNT,
    // It would take as long again, and fresh memory is a small part of the cost here.
    warm_up: false,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 0.5)],
    entries: &[
        Entry::new(LIMIT, limit),
        Entry::new(MINILOOP, miniloop),
        Entry::new("tokio", tokio),
        Entry::new("smol", smol),
        Entry::new("monoio", monoio),
        Entry::with_share("calloop", 10, calloop),
    ],
    python_share: 10,
};

const COUNT: u64 = 1_000_000;
const WINDOW: Duration = Duration::from_millis(100);

/// The delays, and one that is longer than all of them. Fewer timers are armed sooner.
fn delays(count: u64) -> (Delays, Duration) {
    let shortest = Duration::from_millis(600) * count as u32 / COUNT as u32;
    let longest = shortest + WINDOW;
    (Delays::between(shortest, longest), longest)
}

/// Called when all timers are armed: when it returns, all are due.
fn wait_until_due(longest: Duration) {
    std::thread::sleep(longest + Duration::from_millis(5));
}

struct Timer {
    /// In nanoseconds since the start.
    when: u64,
    number: u64,
    callback: Box<dyn FnOnce()>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> std::cmp::Ordering {
        (self.when, self.number).cmp(&(other.when, other.number))
    }
}

fn limit(count: u64) -> Outcome<f64> {
    let mut heap = BinaryHeap::new();
    let (mut delays, longest) = delays(count);
    let start = Instant::now();
    let after = |delay| (start.elapsed() + delay).as_nanos() as u64;
    cpu_of(count, || {
        for number in 0..count {
            heap.push(Reverse(Timer {
                when: after(delays.draw()),
                number,
                callback: Box::new(move || work::add(number)),
            }));
        }
        wait_until_due(longest);
        let now = after(Duration::ZERO);
        while let Some(Reverse(timer)) = heap.pop() {
            if timer.when > now {
                return Err("a timer is not due".into());
            }
            (timer.callback)();
        }
        Ok(())
    })
}

fn miniloop(count: u64) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    let (mut delays, longest) = delays(count);
    cpu_of(count, || {
        for number in 0..count {
            event_loop.call_later(delays.draw(), move || work::add(number));
        }
        let stopper = event_loop.handle();
        event_loop.call_later(longest, move || stopper.stop());
        wait_until_due(longest);
        Ok(event_loop.run_forever()?)
    })
}

fn tokio(count: u64) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut delays, longest) = delays(count);
    cpu_of(count, || {
        runtime.block_on(async {
            for number in 0..count {
                let delay = delays.draw();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    work::add(number);
                });
            }
            let last = tokio::spawn(async move { tokio::time::sleep(longest + 2 * MILLISECOND).await });
            tokio::spawn(async move { wait_until_due(longest) });
            Ok(last.await?)
        })
    })
}

/// tokio and monoio round timers to these; the last one must not share one with others.
const MILLISECOND: Duration = Duration::from_millis(1);

fn smol(count: u64) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    let (mut delays, longest) = delays(count);
    cpu_of(count, || {
        smol::block_on(executor.run(async {
            for number in 0..count {
                let delay = delays.draw();
                let sleeper = async move {
                    smol::Timer::after(delay).await;
                    work::add(number);
                };
                executor.spawn(sleeper).detach();
            }
            let last = executor.spawn(async move { smol::Timer::after(longest).await });
            executor.spawn(async move { wait_until_due(longest) }).detach();
            last.await;
            Ok(())
        }))
    })
}

fn monoio(count: u64) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    let (mut delays, longest) = delays(count);
    cpu_of(count, || {
        runtime.block_on(async {
            for number in 0..count {
                let delay = delays.draw();
                monoio::spawn(async move {
                    monoio::time::sleep(delay).await;
                    work::add(number);
                });
            }
            let last = monoio::spawn(async move { monoio::time::sleep(longest + 2 * MILLISECOND).await });
            monoio::spawn(async move { wait_until_due(longest) });
            last.await;
            Ok(())
        })
    })
}

fn calloop(count: u64) -> Outcome<f64> {
    use calloop::timer::{TimeoutAction, Timer};
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    let (mut delays, longest) = delays(count);
    cpu_of(count, || {
        let handle = event_loop.handle();
        for number in 0..count {
            let armed = handle.insert_source(Timer::from_duration(delays.draw()), move |_, _, _| {
                work::add(number);
                TimeoutAction::Drop
            });
            armed.map_err(|refused| refused.error)?;
        }
        let stopper = event_loop.get_signal();
        let armed = handle.insert_source(Timer::from_duration(longest), move |_, _, _| {
            stopper.stop();
            TimeoutAction::Drop
        });
        armed.map_err(|refused| refused.error)?;
        wait_until_due(longest);
        Ok(event_loop.run(None, &mut (), |_| ())?)
    })
}
