//! A chain of one million callbacks, each of which schedules the next: one per tick.
//!
//! Measured: CPU time of a link, which is a tick of the loop. Once with nothing else, once with an
//! idle socket that the loop has to watch. Limit: boxes in a bare `VecDeque`; with the socket, also
//! a look at an epoll descriptor at every 61st link. Loops without callbacks have a task that
//! spawns the next one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::Outcome;
use crate::meter::cpu_of;
use crate::report::{Goal, LIMIT, MINILOOP, Unit};
use crate::trial::{Entry, Trial};
use crate::work;

pub static ALONE: Trial = Trial {
    name: "chain",
    title: "chain of 1M callbacks",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 1.5)],
    entries: &[
        Entry::new(LIMIT, |count| limit(count, None)),
        Entry::new(MINILOOP, |count| miniloop(count, None)),
        Entry::new("tokio", |count| tokio(count, None)),
        Entry::new("smol", |count| smol(count, None)),
        Entry::new("monoio", |count| monoio(count, None)),
        Entry::with_share("calloop", 5, |count| calloop(count, None)),
    ],
    python_share: 10,
};

pub static BESIDE_A_SOCKET: Trial = Trial {
    name: "chain_socket",
    title: "chain of 1M callbacks beside an idle socket",
    unit: Unit::Nanoseconds,
    count: 1_000_000,
    warm_up: true,
    takes_turns: false,
    goals: &[Goal::new(MINILOOP, "", 1.5)],
    entries: &[
        Entry::new(LIMIT, |count| limit(count, Some(idle_socket()?))),
        Entry::new(MINILOOP, |count| miniloop(count, Some(idle_socket()?))),
        Entry::new("tokio", |count| tokio(count, Some(idle_socket()?))),
        Entry::new("smol", |count| smol(count, Some(idle_socket()?))),
        Entry::new("monoio", |count| monoio(count, Some(idle_socket()?))),
        Entry::with_share("calloop", 5, |count| calloop(count, Some(idle_socket()?))),
    ],
    python_share: 10,
};

/// A socket that nothing comes from, and the other end, which keeps it open.
type IdleSocket = (UnixStream, UnixStream);

fn idle_socket() -> Outcome<IdleSocket> {
    let (watched, other_end) = UnixStream::pair()?;
    watched.set_nonblocking(true)?;
    Ok((watched, other_end))
}

type Queue = Rc<RefCell<VecDeque<Box<dyn FnOnce()>>>>;

fn limit(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    fn link(queue: Queue, number: u64) {
        work::add(number);
        if number > 0 {
            let next = queue.clone();
            queue
                .borrow_mut()
                .push_back(Box::new(move || link(next, number - 1)));
        }
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    if let Some((watched, _)) = &idle {
        epoll::add(
            &epoll,
            watched,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
    }
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut events = Vec::<epoll::Event>::with_capacity(128);
    let queue = Queue::default();
    cpu_of(count, || {
        link(queue.clone(), count - 1);
        let mut ticks = 0;
        loop {
            let callback = queue.borrow_mut().pop_front();
            let Some(callback) = callback else {
                return Ok(());
            };
            callback();
            ticks += 1;
            if idle.is_some() && ticks % 61 == 0 {
                epoll::wait(
                    &epoll,
                    rustix::buffer::spare_capacity(&mut events),
                    Some(&at_once),
                )?;
            }
        }
    })
}

fn miniloop(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    fn link(event_loop: miniloop::LoopHandle, number: u64) {
        work::add(number);
        if number > 0 {
            let next = event_loop.clone();
            event_loop.call_soon(move || link(next, number - 1));
        } else {
            event_loop.stop();
        }
    }
    let event_loop = miniloop::EventLoop::new()?;
    let (watched, _other_end) = idle.unzip();
    let watched = watched.map(miniloop::Source::new).transpose()?;
    if let Some(watched) = &watched {
        event_loop.add_reader(watched, || ())?;
    }
    cpu_of(count, || {
        let handle = event_loop.handle();
        event_loop.call_soon(move || link(handle, count - 1));
        Ok(event_loop.run_forever()?)
    })
}

fn tokio(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    fn link(number: u64, done: tokio::sync::oneshot::Sender<()>) {
        work::add(number);
        if number > 0 {
            tokio::spawn(async move { link(number - 1, done) });
        } else {
            // The receiver waits until this is sent.
            let _ = done.send(());
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let (watched, _other_end) = idle.unzip();
        if let Some(watched) = watched {
            let watched = tokio::net::UnixStream::from_std(watched)?;
            tokio::spawn(async move { watched.readable().await });
            tokio::task::yield_now().await;
        }
        Ok::<_, std::io::Error>(_other_end)
    })?;
    cpu_of(count, || {
        runtime.block_on(async {
            let (done, finished) = tokio::sync::oneshot::channel();
            tokio::spawn(async move { link(count - 1, done) });
            Ok(finished.await?)
        })
    })
}

fn smol(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    type Executor = Rc<smol::LocalExecutor<'static>>;
    fn link(executor: Executor, number: u64, done: async_channel::Sender<()>) {
        work::add(number);
        if number > 0 {
            let next = executor.clone();
            executor
                .spawn(async move { link(next, number - 1, done) })
                .detach();
        } else {
            // The receiver waits until this is sent.
            let _ = done.try_send(());
        }
    }
    let executor = Executor::default();
    let (watched, _other_end) = idle.unzip();
    if let Some(watched) = watched {
        let watched = smol::Async::new(watched)?;
        executor.spawn(async move { watched.readable().await }).detach();
        executor.try_tick();
    }
    cpu_of(count, || {
        let (done, finished) = async_channel::bounded(1);
        let first = executor.clone();
        executor
            .spawn(async move { link(first, count - 1, done) })
            .detach();
        Ok(smol::block_on(executor.run(finished.recv()))?)
    })
}

fn monoio(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    fn link(number: u64, done: futures_channel::oneshot::Sender<()>) {
        work::add(number);
        if number > 0 {
            monoio::spawn(async move { link(number - 1, done) });
        } else {
            // The receiver waits until this is sent.
            let _ = done.send(());
        }
    }
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    let (watched, _other_end) = idle.unzip();
    runtime.block_on(async {
        if let Some(watched) = watched {
            let mut watched = monoio::net::UnixStream::from_std(watched)?;
            monoio::spawn(async move {
                monoio::io::AsyncReadRent::read(&mut watched, Vec::with_capacity(1)).await
            });
            smol::future::yield_now().await;
        }
        Ok::<_, std::io::Error>(())
    })?;
    cpu_of(count, || {
        runtime.block_on(async {
            let (done, finished) = futures_channel::oneshot::channel();
            monoio::spawn(async move { link(count - 1, done) });
            Ok(finished.await?)
        })
    })
}

fn calloop(count: u64, idle: Option<IdleSocket>) -> Outcome<f64> {
    type Handle = calloop::LoopHandle<'static, ()>;
    fn link(handle: Handle, number: u64, stopper: calloop::LoopSignal) {
        work::add(number);
        if number > 0 {
            let next = handle.clone();
            handle.insert_idle(move |_| link(next, number - 1, stopper));
        } else {
            stopper.stop();
        }
    }
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    let (watched, _other_end) = idle.unzip();
    if let Some(watched) = watched {
        let source = calloop::generic::Generic::new(watched, calloop::Interest::READ, calloop::Mode::Level);
        let inserted = event_loop
            .handle()
            .insert_source(source, |_, _, _| Ok(calloop::PostAction::Continue));
        inserted.map_err(|refused| refused.error)?;
    }
    cpu_of(count, || {
        let (handle, stopper) = (event_loop.handle(), event_loop.get_signal());
        event_loop
            .handle()
            .insert_idle(move |_| link(handle, count - 1, stopper));
        Ok(event_loop.run(Duration::ZERO, &mut (), |_| ())?)
    })
}
