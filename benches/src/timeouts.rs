//! One million timeouts that do not expire, in one thousand tasks.
//!
//! Each task yields one thousand times, each time within a timeout of 5 s of its own. Measured: CPU time
//! of one timeout and its yield. Limit: that of `yields`, with a deadline entered for each yield in the heap
//! of `timers_cancel` and cancelled afterwards. smol and calloop have no timeout and take smol's race
//! with a timer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::timers_cancel::Heap;
use crate::trial::{Entry, Trial};
use crate::work;
use crate::yields::{TASKS, by_turns, shares, yield_once};

pub static TRIAL: Trial = Trial {
    name: "timeouts",
    title: "1,000 tasks yield 1,000 times, each time within a timeout",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::none(MINILOOP, "")],
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

const SPAN: Duration = Duration::from_secs(5);
const EXPIRED: &str = "a timeout expired";

fn limit(count: u64) -> Outcome<f64> {
    let heap = Rc::new(RefCell::new(Heap::default()));
    by_turns(count, |numbers| {
        let heap = heap.clone();
        async move {
            for number in numbers {
                let timer = heap.borrow_mut().arm(SPAN, Box::new(move || work::add(number)));
                yield_once().await;
                heap.borrow_mut().cancel(timer);
                work::add(number);
            }
        }
    })
}

fn miniloop(count: u64) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    cpu_of(count, || {
        let spawn = |numbers| {
            event_loop.create_task(async move {
                for number in numbers {
                    miniloop::timeout(SPAN).run(miniloop::yield_now()).await?;
                    work::add(number);
                }
                Ok(())
            })
        };
        let tasks: Vec<_> = shares(count).map(spawn).collect();
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
                        tokio::time::timeout(SPAN, tokio::task::yield_now()).await?;
                        work::add(number);
                    }
                    Ok::<(), tokio::time::error::Elapsed>(())
                })
            };
            let tasks: Vec<_> = shares(count).map(spawn).collect();
            for task in tasks {
                task.await??;
            }
            Ok(())
        })
    })
}

/// What a task does that has smol's future to yield and a race with a timer for a timeout.
async fn yields_before<T: Future>(
    numbers: std::ops::Range<u64>,
    timer: impl Fn() -> T,
) -> Result<(), &'static str> {
    for number in numbers {
        let yields = async {
            smol::future::yield_now().await;
            Ok(())
        };
        let expires = async {
            timer().await;
            Err(EXPIRED)
        };
        smol::future::or(yields, expires).await?;
        work::add(number);
    }
    Ok(())
}

fn smol(count: u64) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    cpu_of(count, || {
        smol::block_on(executor.run(async {
            let spawn = |numbers| executor.spawn(yields_before(numbers, || smol::Timer::after(SPAN)));
            let tasks: Vec<_> = shares(count).map(spawn).collect();
            for task in tasks {
                task.await?;
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
                        let yields = smol::future::yield_now();
                        monoio::time::timeout(SPAN, yields).await.map_err(|_| EXPIRED)?;
                        work::add(number);
                    }
                    Ok::<(), &'static str>(())
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

fn calloop(count: u64) -> Outcome<f64> {
    use calloop::timer::TimeoutFuture;
    let mut event_loop = calloop::EventLoop::<(u64, Outcome<()>)>::try_new()?;
    let (executor, scheduler) = calloop::futures::executor()?;
    let (handle, stopper) = (event_loop.handle(), event_loop.get_signal());
    let inserted = handle.insert_source(executor, move |ended: Result<(), &'static str>, _, state| {
        if let Err(error) = ended {
            state.1 = Err(error.into());
        }
        state.0 -= 1;
        if state.0 == 0 {
            stopper.stop();
        }
    });
    inserted.map_err(|refused| refused.error)?;
    cpu_of(count, || {
        for numbers in shares(count) {
            let handle = handle.clone();
            scheduler.schedule(yields_before(numbers, move || {
                TimeoutFuture::from_duration(&handle, SPAN)
            }))?;
        }
        let mut state = (TASKS, Ok(()));
        event_loop.run(None, &mut state, |_| ())?;
        state.1
    })
}
