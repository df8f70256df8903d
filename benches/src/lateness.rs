//! How late a timer fires that is 0.2 to 1.2 ms ahead.
//!
//! One timer after the other, each armed when the one before has fired, delays that look random;
//! the loop sleeps until each. Measured: from a timer's deadline to its callback; the value that 99
//! of 100 do not exceed. Limit: raw epoll with a timerfd.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::Outcome;
use crate::meter::{lateness, p99};
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work::Delays;

pub static TRIAL: Trial = Trial {
    name: "lateness",
    title: "lateness of a timer 0.2 to 1.2 ms ahead, p99",
    unit: Unit::Milliseconds,
    count: 1_000,
    warm_up: false,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 0.11)],
    entries: &[
        Entry::new(LIMIT, limit),
        Entry::new(MINILOOP, miniloop),
        Entry::new("tokio", tokio),
        Entry::new("smol", smol),
        Entry::new("monoio", monoio),
        Entry::new("calloop", calloop),
    ],
    python_share: 1,
};

fn delays() -> Delays {
    Delays::between(Duration::from_micros(200), Duration::from_micros(1_200))
}

fn limit(count: u64) -> Outcome<f64> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(
        TimerfdClockId::Monotonic,
        TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
    )?;
    epoll::add(
        &epoll,
        &timer,
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    )?;
    let mut events = Vec::<epoll::Event>::with_capacity(128);
    let (mut delays, mut late) = (delays(), Vec::new());
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    for _ in 0..count {
        let delay = delays.draw();
        let due = Instant::now() + delay;
        let once = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: delay.subsec_nanos().into(),
            },
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        late.push(lateness(due));
        rustix::io::read(&timer, &mut [0; 8])?;
    }
    Ok(p99(late))
}

fn miniloop(count: u64) -> Outcome<f64> {
    struct Timers {
        event_loop: miniloop::LoopHandle,
        delays: RefCell<Delays>,
        late: RefCell<Vec<f64>>,
        count: u64,
    }
    fn arm(timers: Rc<Timers>) {
        let delay = timers.delays.borrow_mut().draw();
        let (next, due) = (timers.clone(), Instant::now() + delay);
        timers.event_loop.call_later(delay, move || {
            next.late.borrow_mut().push(lateness(due));
            if (next.late.borrow().len() as u64) < next.count {
                arm(next);
            } else {
                next.event_loop.stop();
            }
        });
    }
    let event_loop = miniloop::EventLoop::new()?;
    let timers = Rc::new(Timers {
        event_loop: event_loop.handle(),
        delays: RefCell::new(delays()),
        late: RefCell::default(),
        count,
    });
    arm(timers.clone());
    event_loop.run_forever()?;
    Ok(p99(timers.late.take()))
}

/// What the loops with tasks do.
async fn sleeps(count: u64, sleep: impl AsyncFn(Duration)) -> Vec<f64> {
    let (mut delays, mut late) = (delays(), Vec::new());
    for _ in 0..count {
        let delay = delays.draw();
        let due = Instant::now() + delay;
        sleep(delay).await;
        late.push(lateness(due));
    }
    late
}

fn tokio(count: u64) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(p99(runtime.block_on(sleeps(count, tokio::time::sleep))))
}

fn smol(count: u64) -> Outcome<f64> {
    let sleep = async |delay| {
        smol::Timer::after(delay).await;
    };
    let executor = smol::LocalExecutor::new();
    Ok(p99(smol::block_on(executor.run(sleeps(count, sleep)))))
}

fn monoio(count: u64) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    Ok(p99(runtime.block_on(sleeps(count, monoio::time::sleep))))
}

fn calloop(count: u64) -> Outcome<f64> {
    use calloop::timer::{TimeoutAction, Timer};
    let mut event_loop = calloop::EventLoop::<Vec<f64>>::try_new()?;
    let (stopper, mut delays) = (event_loop.get_signal(), delays());
    let first = delays.draw();
    let armed = event_loop
        .handle()
        .insert_source(Timer::from_duration(first), move |due, _, late| {
            late.push(lateness(due));
            if late.len() as u64 == count {
                stopper.stop();
                return TimeoutAction::Drop;
            }
            TimeoutAction::ToDuration(delays.draw())
        });
    armed.map_err(|refused| refused.error)?;
    let mut late = Vec::new();
    event_loop.run(None, &mut late, |_| ())?;
    Ok(p99(late))
}
