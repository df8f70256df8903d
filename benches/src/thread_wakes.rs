//! Wake-ups from another thread.
//!
//! A second thread sends callbacks to the loop and waits until the last one of a burst has run,
//! which tells it through a channel; then the next burst follows. *One at a time* the loop sleeps
//! before each, and the two threads share a processor (see `processors.rs`). Measured: wall time, for bursts divided by the callbacks in one. Limit: a locked
//! queue of boxes, an eventfd, and raw epoll. miniloop and asyncio have `call_soon_threadsafe`;
//! the others receive the boxes by a channel: tokio, calloop their own, smol and monoio
//! `async-channel`; mio has its waker and the locked queue.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::Outcome;
use crate::meter::per_operation;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static SINGLE: Trial = Trial {
    name: "thread_wakes",
    title: "wakes from a thread, one at a time",
    unit: Unit::Nanoseconds,
    count: 5_000,
    warm_up: false,
    takes_turns: true,
    goals: &[Goal::new(MINILOOP, "", 1.02)],
    entries: &[
        Entry::new(LIMIT, |count| limit(Bursts::of(1, count))),
        Entry::new(MINILOOP, |count| miniloop(Bursts::of(1, count))),
        Entry::new("tokio", |count| tokio(Bursts::of(1, count))),
        Entry::new("smol", |count| smol(Bursts::of(1, count))),
        Entry::new("monoio", |count| monoio(Bursts::of(1, count))),
        Entry::new("calloop", |count| calloop(Bursts::of(1, count))),
        Entry::new("mio", |count| mio(Bursts::of(1, count))),
    ],
    python_share: 1,
};

pub static BURSTS: Trial = Trial {
    name: "thread_bursts",
    title: "wakes from a thread, in bursts of 1,000",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 1.15)],
    entries: &[
        Entry::new(LIMIT, |count| limit(Bursts::of(1_000, count))),
        Entry::new(MINILOOP, |count| miniloop(Bursts::of(1_000, count))),
        Entry::new("tokio", |count| tokio(Bursts::of(1_000, count))),
        Entry::new("smol", |count| smol(Bursts::of(1_000, count))),
        Entry::new("monoio", |count| monoio(Bursts::of(1_000, count))),
        Entry::new("calloop", |count| calloop(Bursts::of(1_000, count))),
        Entry::new("mio", |count| mio(Bursts::of(1_000, count))),
    ],
    python_share: 10,
};

/// On a busy machine each wake takes milliseconds: no more bursts after this.
const ENOUGH: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

struct Bursts {
    size: u64,
    number: u64,
}

impl Bursts {
    fn of(size: u64, count: u64) -> Bursts {
        Bursts {
            size,
            number: count / size,
        }
    }

    /// Starts the second thread. `send` gives a job to the loop; `last` is the one that ends it.
    fn start(self, send: impl Fn(Job) + Send + 'static, last: Job) -> JoinHandle<Played<f64>> {
        thread::spawn(move || {
            let (reply, replies) = mpsc::channel();
            let (start, mut played) = (Instant::now(), 0);
            while played < self.number && start.elapsed() < ENOUGH {
                for number in 1..self.size {
                    send(Box::new(move || work::add(number)));
                }
                let reply = reply.clone();
                send(Box::new(move || {
                    // This thread waits for it.
                    let _ = reply.send(());
                }));
                replies.recv()?;
                played += 1;
            }
            let spent = start.elapsed();
            send(last);
            Ok(per_operation(spent, played * self.size))
        })
    }
}

/// What the second thread gives back.
type Played<T> = Result<T, mpsc::RecvError>;

fn joined(thread: JoinHandle<Played<f64>>) -> Outcome<f64> {
    Ok(thread.join().map_err(|_| "the second thread panicked")??)
}

/// For the loops that end when their channel does.
fn nothing() -> Job {
    Box::new(|| ())
}

/// The locked queue of the loops written by hand.
type Inbox = Arc<Mutex<Vec<Job>>>;

/// Puts a job in, and tells whether the loop has to be woken.
fn put(inbox: &Inbox, job: Job) -> bool {
    let mut jobs = inbox.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    jobs.push(job);
    jobs.len() == 1
}

fn run_all(inbox: &Inbox, jobs: &mut Vec<Job>) {
    std::mem::swap(
        jobs,
        &mut inbox.lock().unwrap_or_else(|poisoned| poisoned.into_inner()),
    );
    jobs.drain(..).for_each(|job| job());
}

fn limit(bursts: Bursts) -> Outcome<f64> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    epoll::add(
        &epoll,
        &event,
        epoll::EventData::new_u64(0),
        epoll::EventFlags::IN,
    )?;
    let (inbox, waker) = (Inbox::default(), event.clone());
    let mailbox = inbox.clone();
    let send = move |job| {
        if put(&mailbox, job) {
            // It can not fail before 2^64 wakes are unread.
            let _ = rustix::io::write(&waker, &1u64.to_ne_bytes());
        }
    };
    let thread = bursts.start(send, Box::new(work::finish));
    let mut events = Vec::<epoll::Event>::with_capacity(128);
    let mut jobs = Vec::new();
    while !work::finished() {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        rustix::io::read(&event, &mut [0; 8])?;
        run_all(&inbox, &mut jobs);
    }
    joined(thread)
}

fn miniloop(bursts: Bursts) -> Outcome<f64> {
    let event_loop = miniloop::EventLoop::new()?;
    let sender = event_loop.threadsafe_handle();
    let send = move |job| {
        // The loop is open until the last job has run.
        let _ = sender.call_soon_threadsafe(job);
    };
    let stop = || {
        if let Ok(event_loop) = miniloop::get_running_loop() {
            event_loop.stop();
        }
    };
    let thread = bursts.start(send, Box::new(stop));
    event_loop.run_forever()?;
    joined(thread)
}

fn tokio(bursts: Bursts) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<Job>();
    let send = move |job| {
        // The receiver is there until the sender is not.
        let _ = sender.send(job);
    };
    let thread = bursts.start(send, nothing());
    runtime.block_on(async move {
        let receiving = tokio::spawn(async move {
            while let Some(job) = receiver.recv().await {
                job();
            }
        });
        receiving.await
    })?;
    joined(thread)
}

fn smol(bursts: Bursts) -> Outcome<f64> {
    let executor = smol::LocalExecutor::new();
    let (sender, receiver) = async_channel::unbounded::<Job>();
    let send = move |job| {
        let _ = sender.try_send(job);
    };
    let thread = bursts.start(send, nothing());
    let receiving = executor.spawn(async move {
        while let Ok(job) = receiver.recv().await {
            job();
        }
    });
    smol::block_on(executor.run(receiving));
    joined(thread)
}

fn monoio(bursts: Bursts) -> Outcome<f64> {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    let (sender, receiver) = async_channel::unbounded::<Job>();
    let send = move |job| {
        let _ = sender.try_send(job);
    };
    let thread = bursts.start(send, nothing());
    runtime.block_on(async move {
        let receiving = monoio::spawn(async move {
            while let Ok(job) = receiver.recv().await {
                job();
            }
        });
        receiving.await;
    });
    joined(thread)
}

fn calloop(bursts: Bursts) -> Outcome<f64> {
    use calloop::channel::{Event, channel};
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    let (sender, receiver) = channel::<Job>();
    let stopper = event_loop.get_signal();
    let inserted = event_loop
        .handle()
        .insert_source(receiver, move |event, _, _| match event {
            Event::Msg(job) => job(),
            Event::Closed => stopper.stop(),
        });
    inserted.map_err(|refused| refused.error)?;
    let send = move |job| {
        let _ = sender.send(job);
    };
    let thread = bursts.start(send, nothing());
    event_loop.run(None, &mut (), |_| ())?;
    joined(thread)
}

fn mio(bursts: Bursts) -> Outcome<f64> {
    let mut poll = mio::Poll::new()?;
    // Kept here too: a wake is lost when its waker is dropped before the loop sees it.
    let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0))?);
    let (inbox, sender) = (Inbox::default(), waker.clone());
    let mailbox = inbox.clone();
    let send = move |job| {
        if put(&mailbox, job) {
            let _ = sender.wake();
        }
    };
    let thread = bursts.start(send, Box::new(work::finish));
    let mut events = mio::Events::with_capacity(128);
    let mut jobs = Vec::new();
    while !work::finished() {
        if let Err(error) = poll.poll(&mut events, None)
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        run_all(&inbox, &mut jobs);
    }
    joined(thread)
}
