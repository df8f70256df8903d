//! Waiting for the operating system: `polling`, and on Linux its epoll descriptor directly.
//!
//! `Poller::wait` makes five system calls on Linux, of which one waits. Waiting on the epoll
//! descriptor that `polling` fills costs the one. What is lost is replaced by our own: its timer by
//! a timerfd that is set only when an earlier deadline comes up, its notification by an eventfd
//! that never has to be read. `polling` keeps the registrations, and all the other systems.

// Registering a bare descriptor is unsafe in `polling`, and so is naming one to change it.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use polling::{Event, Events, PollMode};

use crate::handles::Direction;

/// How many events one wait takes. More stay in the kernel for the next tick, so that the work
/// of one tick, and the memory it touches, stays small.
const EVENTS_PER_WAIT: usize = 128;

/// The operating system's name of a source.
#[cfg(unix)]
pub(crate) type Raw = std::os::fd::RawFd;
#[cfg(windows)]
pub(crate) type Raw = std::os::windows::io::RawSocket;

/// Which directions of a source are watched, or ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Interest {
    #[default]
    None,
    Read,
    Write,
    Both,
}

impl Interest {
    #[inline]
    pub(super) fn new(read: bool, write: bool) -> Interest {
        match (read, write) {
            (false, false) => Interest::None,
            (true, false) => Interest::Read,
            (false, true) => Interest::Write,
            (true, true) => Interest::Both,
        }
    }

    #[inline]
    pub(crate) fn includes(self, direction: Direction) -> bool {
        match direction {
            Direction::Read => matches!(self, Interest::Read | Interest::Both),
            Direction::Write => matches!(self, Interest::Write | Interest::Both),
        }
    }

    fn event(self, token: usize) -> Event {
        Event::new(
            token,
            self.includes(Direction::Read),
            self.includes(Direction::Write),
        )
    }
}

/// One report: the token of a source, and the directions that are ready.
pub(crate) type Report = (usize, Interest);

/// Ends the current or the next wait, from any thread.
#[derive(Clone)]
pub(crate) enum Notifier {
    #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
    Direct(direct::Notifier),
    Polling(Arc<polling::Poller>),
}

impl Notifier {
    pub(crate) fn notify(&self) {
        let notified = match self {
            #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
            Notifier::Direct(direct) => direct.notify(),
            Notifier::Polling(poller) => poller.notify(),
        };
        // It can only fail when the system refuses a write to its own descriptor; the mail is in
        // the inbox in any case, and the next tick finds it there.
        if let Err(error) = notified {
            log::error!(target: "miniloop", "the loop could not be woken: {error}");
        }
    }
}

pub(crate) struct Poller {
    // Its descriptors are in the set of `poller`: it goes first.
    #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
    direct: Option<direct::Direct>,
    poller: Arc<polling::Poller>,
    events: Events,
    /// The process that made it. A forked child shares the system's set with its parent, and is
    /// to leave it alone.
    process: u32,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let poller = Arc::new(polling::Poller::new()?);
        if !poller.supports_level() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this system's poller has no level-triggered mode",
            ));
        }
        Ok(Poller {
            #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
            direct: direct::Direct::new(&poller),
            events: Events::with_capacity(NonZeroUsize::new(EVENTS_PER_WAIT).unwrap_or(NonZeroUsize::MIN)),
            poller,
            process: std::process::id(),
        })
    }

    fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    pub(crate) fn notifier(&self) -> Notifier {
        #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
        if let Some(direct) = &self.direct {
            return Notifier::Direct(direct.notifier());
        }
        Notifier::Polling(self.poller.clone())
    }

    pub(crate) fn add(&self, raw: Raw, interest: Interest, token: usize) -> io::Result<()> {
        let event = interest.event(token);
        // SAFETY: `raw` is open and stays so until it is deleted here. The caller is the table of
        // the selector; an entry is deleted before its `Source` gives up the object with the
        // descriptor (`leave` in source.rs), or with the whole poller. A source gives out only
        // `&T`, its `T` is `'static`, and one that is forgotten keeps its `T`, open, for good.
        match unsafe { self.poller.add_with_mode(raw, event, PollMode::Level) } {
            // The number had another owner that went without a word: it is this one's now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.poller
                    .modify_with_mode(borrowed(&raw), event, PollMode::Level)
            }
            other => other,
        }
    }

    pub(crate) fn modify(&self, raw: Raw, interest: Interest, token: usize) -> io::Result<()> {
        let event = interest.event(token);
        match self
            .poller
            .modify_with_mode(borrowed(&raw), event, PollMode::Level)
        {
            // The system forgot it, because its owner was closed behind our back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.add(raw, interest, token),
            other => other,
        }
    }

    pub(crate) fn delete(&self, raw: Raw) {
        if !self.is_inherited() {
            // The one way to fail is that it is not there any more, which is what was wanted.
            let _ = self.poller.delete(borrowed(&raw));
        }
    }

    /// Waits for readiness for at most `timeout` (`None`: without limit). A wait may end early with
    /// nothing to report.
    #[inline(always)] // see loop_core.rs
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
        if let Some(direct) = &mut self.direct {
            return direct.wait(&self.poller, timeout);
        }
        self.wait_by_polling(timeout)
    }

    /// What the last wait has found, if that was a wait on epoll itself; else false.
    #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
    #[inline(always)] // see loop_core.rs
    pub(crate) fn found_directly(&self, mut report: impl FnMut(Report)) -> bool {
        if let Some(direct) = &self.direct {
            for found in direct.reports() {
                report(found);
            }
        }
        self.direct.is_some()
    }

    /// It never is.
    #[cfg(not(all(target_os = "linux", not(polling_test_poll_backend))))]
    pub(crate) fn found_directly(&self, _: impl FnMut(Report)) -> bool {
        false
    }

    /// What the last wait has found, if `polling` did it.
    #[inline(never)]
    pub(crate) fn found_by_polling(&self, report: &mut dyn FnMut(Report)) {
        for event in self.events.iter() {
            report((event.key, Interest::new(event.readable, event.writable)));
        }
    }

    #[inline(never)]
    fn wait_by_polling(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.events.clear();
        let mut timeout = timeout;
        loop {
            match self.poller.wait(&mut self.events, timeout) {
                Ok(_) => return Ok(()),
                // On poll(2) a notification may be seen before its byte is in the pipe: `polling`
                // then fails to read it, and would take no other until a wait has succeeded.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => timeout = Some(Duration::ZERO),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if self.is_inherited() {
            // Their destructors take what is theirs out of the set, which is the parent's too.
            #[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
            std::mem::forget(self.direct.take());
            std::mem::forget(self.poller.clone());
        }
    }
}

#[cfg(unix)]
fn borrowed(raw: &Raw) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: as in `Poller::add`, the descriptor is open: its `Source` outlives the table's entry, and
    // `set_blocking` is called while the object is still in it.
    // Where it was closed behind our back the system answers with an error, and nothing more.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(*raw) }
}

#[cfg(windows)]
fn borrowed(raw: &Raw) -> std::os::windows::io::BorrowedSocket<'_> {
    // SAFETY: as in `Poller::add`, the socket is open: its `Source` outlives the table's entry, and
    // `set_blocking` is called while the object is still in it.
    unsafe { std::os::windows::io::BorrowedSocket::borrow_raw(*raw) }
}

/// Sets a descriptor that is open, and leaves the loop, back to blocking mode.
pub(crate) fn set_blocking(raw: &Raw) {
    // Best effort: there is nobody to tell on the way out.
    let _ = socket2::SockRef::from(&borrowed(raw)).set_nonblocking(false);
}

#[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
mod direct {
    //! The wait on epoll itself.

    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use polling::PollMode;
    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::Errno;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    use super::{EVENTS_PER_WAIT, Interest, Report};

    /// (`polling` has the last key for its own notification, which nobody sends here.)
    const TIMER: usize = usize::MAX - 1;
    const NOTIFIED: usize = usize::MAX - 2;

    /// A wait is cut at a day (as asyncio's): an early return only leads to another wait.
    const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

    #[derive(Clone)]
    pub(crate) struct Notifier(Arc<OwnedFd>);

    impl Notifier {
        pub(super) fn notify(&self) -> io::Result<()> {
            rustix::io::write(&self.0, &1u64.to_ne_bytes())?;
            Ok(())
        }
    }

    pub(super) struct Direct {
        poller: Arc<polling::Poller>,
        found: Vec<epoll::Event>,
        event: Arc<OwnedFd>,
        timer: OwnedFd,
        /// When the timer will fire; `None` when it is not set.
        set_to: Option<Instant>,
    }

    impl Direct {
        /// `None` where the system has no timerfd or eventfd to give: then `polling` waits.
        pub(super) fn new(poller: &Arc<polling::Poller>) -> Option<Direct> {
            let timer = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )
            .ok()?;
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            let direct = Direct {
                poller: poller.clone(),
                found: Vec::with_capacity(EVENTS_PER_WAIT),
                event: Arc::new(event),
                timer,
                set_to: None,
            };
            direct.add(&direct.timer, TIMER).ok()?;
            direct.add(&direct.event, NOTIFIED).ok()?;
            Some(direct)
        }

        /// Edge mode: it is reported once each time it fires, and never has to be read.
        fn add(&self, descriptor: &OwnedFd, key: usize) -> io::Result<()> {
            let event = polling::Event::readable(key);
            // SAFETY: both descriptors stay open until `drop` below has deleted them from the set.
            unsafe { self.poller.add_with_mode(descriptor, event, PollMode::Edge) }
        }

        pub(super) fn notifier(&self) -> Notifier {
            Notifier(self.event.clone())
        }

        #[inline(always)] // see loop_core.rs
        pub(super) fn wait(&mut self, poller: &polling::Poller, timeout: Option<Duration>) -> io::Result<()> {
            let zero = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let look_only = match timeout {
                Some(Duration::ZERO) => Some(&zero),
                Some(timeout) => {
                    self.set_timer(timeout.min(LONGEST_WAIT))?;
                    None
                }
                None => None,
            };
            loop {
                self.found.clear();
                match epoll::wait(poller.as_fd(), spare_capacity(&mut self.found), look_only) {
                    Ok(_) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if self.found.iter().any(|event| event.data.u64() == TIMER as u64) {
                self.set_to = None;
            }
            Ok(())
        }

        /// Has the timer fire after `timeout` at the latest. One that fires earlier is left as it
        /// is: its wait returns with nothing, and the next one sets it. So a timer that is always
        /// put off, as most timeouts are, costs no system call each time.
        #[inline(never)]
        fn set_timer(&mut self, timeout: Duration) -> io::Result<()> {
            let now = Instant::now();
            let wanted = now + timeout;
            if self.set_to.is_some_and(|set_to| now < set_to && set_to <= wanted) {
                return Ok(());
            }
            let none = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let value = Timespec {
                tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: timeout.subsec_nanos().into(),
            };
            timerfd_settime(
                &self.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec {
                    it_interval: none,
                    it_value: value,
                },
            )?;
            self.set_to = Some(wanted);
            Ok(())
        }

        /// What the last wait found, less our own.
        pub(super) fn reports(&self) -> impl Iterator<Item = Report> {
            const READ: EventFlags = EventFlags::IN
                .union(EventFlags::PRI)
                .union(EventFlags::HUP)
                .union(EventFlags::ERR);
            const WRITE: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);
            self.found.iter().filter_map(|event| {
                let (flags, key) = (event.flags, event.data.u64());
                let token = usize::try_from(key).ok().filter(|token| *token < NOTIFIED)?;
                let ready = Interest::new(flags.intersects(READ), flags.intersects(WRITE));
                Some((token, ready))
            })
        }
    }

    impl Drop for Direct {
        fn drop(&mut self) {
            let _ = self.poller.delete(&self.timer);
            let _ = self.poller.delete(&*self.event);
        }
    }
}
