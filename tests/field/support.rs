//! What only the field cases need: measuring, counting across threads, and descriptors
//! with a chosen number.

#![allow(dead_code, reason = "not every system uses every part")]

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, Pollable, Source};

pub use crate::faults::{Watchdog, wake_and_yield};

/// What happened, in order; clones share one list.
pub struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Log(Rc::clone(&self.0))
    }
}

impl<T> Log<T> {
    pub fn new() -> Self {
        Log(Rc::default())
    }

    pub fn push(&self, entry: T) {
        self.0.borrow_mut().push(entry);
    }

    /// What was logged since the last look.
    pub fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

impl<T: Clone + 'static> Log<T> {
    /// A callback that logs `entry` whenever it is called.
    pub fn entry(&self, entry: T) -> impl Fn() + 'static + use<T> {
        let log = self.clone();
        move || log.push(entry.clone())
    }
}

/// A count that threads share.
#[derive(Clone, Default)]
pub struct Tally(Arc<AtomicUsize>);

impl Tally {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A value whose drop is counted, wherever it happens.
    pub fn on_drop(&self) -> TallyOnDrop {
        TallyOnDrop(self.clone())
    }
}

/// See [`Tally::on_drop`].
pub struct TallyOnDrop(Tally);

impl Drop for TallyOnDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// The two things a source can be watched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Direction {
    Read,
    Write,
}

impl Direction {
    pub const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    pub fn add<T: Pollable + 'static>(
        self,
        event_loop: &LoopHandle,
        source: &Source<T>,
        callback: impl FnMut() + 'static,
    ) {
        match self {
            Direction::Read => event_loop.add_reader(source, callback).unwrap(),
            Direction::Write => event_loop.add_writer(source, callback).unwrap(),
        }
    }

    pub fn remove<T: Pollable>(self, event_loop: &LoopHandle, source: &Source<T>) -> bool {
        match self {
            Direction::Read => event_loop.remove_reader(source),
            Direction::Write => event_loop.remove_writer(source),
        }
    }
}

/// The processor time this thread has used.
#[cfg(unix)]
pub fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Elsewhere only the passes are counted.
#[cfg(not(unix))]
pub fn thread_cpu() -> Duration {
    Duration::ZERO
}

/// Lets a loop with a real clock run for 300 ms in which nothing happens, and
/// fails if it did not sleep through them.
#[track_caller]
pub fn assert_sleeps(event_loop: &EventLoop) {
    let stopped = event_loop.handle();
    event_loop.call_later(Duration::from_millis(300), move || stopped.stop());
    let (passes, cpu) = (event_loop.pass_count(), thread_cpu());
    event_loop.run_forever().unwrap();
    let (passes, cpu) = (event_loop.pass_count() - passes, thread_cpu() - cpu);
    assert!(passes <= 5, "{passes} passes where one was due");
    assert!(cpu < Duration::from_millis(30), "busy for {cpu:?}");
}

/// Runs ticks until `done`; a loop that needs more than `limit` of them fails the test.
#[track_caller]
pub fn ticks_until(event_loop: &EventLoop, limit: u32, mut done: impl FnMut() -> bool) {
    for _ in 0..limit {
        if done() {
            return;
        }
        crate::faults::tick(event_loop);
    }
    assert!(done(), "not done after {limit} ticks");
}

/// Two connected TCP sockets on the loopback interface.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    (near, far)
}

/// Closes a TCP socket so that its peer sees a reset instead of an orderly end.
pub fn reset(stream: TcpStream) {
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

/// Reads what one call gives, at most `max` bytes.
pub fn read_up_to<S>(mut stream: S, max: usize) -> io::Result<Vec<u8>>
where
    S: Read,
{
    let mut buffer = vec![0; max];
    let count = stream.read(&mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

/// Writes to a non-blocking stream until it takes no more, and says how much it took.
pub fn fill<S>(mut stream: S) -> usize
where
    S: Write,
{
    let mut total = 0;
    loop {
        match stream.write(&[0; 4096]) {
            Ok(count) => total += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return total,
            Err(error) => panic!("while filling a buffer: {error}"),
        }
    }
}

#[cfg(unix)]
pub use numbered::{Borrowed, pair_at, reserve_numbers};

#[cfg(unix)]
mod numbered {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
    use std::os::unix::net::UnixStream;
    use std::sync::Once;
    use std::sync::atomic::{AtomicI32, Ordering};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Above what the tests of this process, all running at once, open by themselves:
    /// the kernel hands out the lowest free number, so these stay ours.
    static NEXT: AtomicI32 = AtomicI32::new(700);

    /// The first of `count` descriptor numbers that nobody else in this process gets.
    pub fn reserve_numbers(count: i32) -> RawFd {
        static RAISE: Once = Once::new();
        RAISE.call_once(|| {
            // Some systems start with a limit of 256.
            let limit = getrlimit(Resource::Nofile);
            if limit.current.is_some_and(|current| current < 1024) {
                let current = Some(limit.maximum.map_or(1024, |maximum| maximum.min(1024)));
                setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
            }
        });
        NEXT.fetch_add(count, Ordering::Relaxed)
    }

    /// A connected pair whose near end has descriptor `number`.
    #[track_caller]
    pub fn pair_at(number: RawFd) -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let near = rustix::io::fcntl_dupfd_cloexec(&near, number).unwrap();
        assert_eq!(near.as_raw_fd(), number, "the number is still in use");
        (near.into(), far)
    }

    /// A descriptor number that somebody else owns, as a C library would lend it.
    #[derive(Clone, Copy)]
    pub struct Borrowed(pub RawFd);

    impl AsFd for Borrowed {
        #[allow(unsafe_code, reason = "the number is what the test is about")]
        fn as_fd(&self) -> BorrowedFd<'_> {
            // SAFETY: the number is reserved for one test, and whatever is behind it is
            // a socket of that test; nothing else in the process can be hit through it.
            unsafe { BorrowedFd::borrow_raw(self.0) }
        }
    }
}

/// Set in a process that [`in_own_process`] has started.
const CHILD: &str = "MINILOOP_FIELD_TEST";

/// Runs `part` in a process where no other test is: this executable again, with
/// nothing but the test `name`, which is the one that calls this.
#[track_caller]
pub fn in_own_process(name: &str, part: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return part();
    }
    let child = process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    let err = String::from_utf8_lossy(&child.stderr);
    // A misspelt name would run nothing, and succeed.
    let ran = out.contains("1 passed");
    assert!(child.status.success() && ran, "{}\n{out}\n{err}", child.status);
}
