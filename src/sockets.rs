//! `sock_*`: socket operations as futures (Python's `sockets.py`).
//!
//! An operation tries its call first: a send when it is made, a receive or an accept when it is
//! first awaited, so that nothing is taken from the system for one that is dropped in a `select!`.
//! If the call would block, the operation waits for the source to be ready. Then, if a task awaits it and nobody else, the task is woken and its own step makes the call:
//! so nothing is received for a task that is cancelled in between, and the bytes stay warm. (If
//! that step turns to something else, the call is made right after it.) Otherwise the call is
//! made at once.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use slotmap::Key;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::errors::{Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Direction, OwnedKey, SourceKey};
use crate::loop_core::LoopHandle;
use crate::ready::Runnable;
use crate::selector::source::{Pollable, Source};
use crate::selector::{Operation, Turn};

/// How many writes one attempt of `sock_sendall` makes, however fast the peer reads.
const WRITES_PER_ATTEMPT: usize = 16;

/// The call that an operation is about. It is repeated for as long as it gives `WouldBlock`.
trait Work: 'static {
    type Output: 'static;
    fn attempt(&mut self, event_loop: &LoopHandle) -> io::Result<Self::Output>;
}

/// When an operation tries its call without having waited for readiness.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TryFirst {
    Now,
    WhenAwaited,
    Never,
}

/// Makes the call, once; `None` if it would block.
fn attempt<W: Work>(work: &mut W, event_loop: &LoopHandle) -> Option<Result<W::Output>> {
    loop {
        // `Read` and `Write` may be the user's own.
        return match catch_unwind(AssertUnwindSafe(|| work.attempt(event_loop))) {
            Ok(Ok(output)) => Some(Ok(output)),
            Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(Err(error)) => Some(Err(error.into())),
            Err(panic) => Some(Err(Exception::from_panic(panic))),
        };
    }
}

/// An operation that waits for its source.
struct Pending<W: Work> {
    state: State<W::Output>,
    /// `None` once it is over: what it holds (the source, the data) goes then.
    work: RefCell<Option<W>>,
    source: SourceKey,
    direction: Direction,
    /// The call is to be tried when it is first awaited.
    untried: Cell<bool>,
    /// The source may hold data of its own, of which readiness says nothing.
    may_hold_data: bool,
    /// Its place among what the loop owns, while a callback waits for it.
    kept: Cell<OwnedKey>,
    this: Weak<Pending<W>>,
}

impl<W: Work> Pending<W> {
    fn as_operation(&self) -> Weak<dyn Operation> {
        self.this.clone()
    }

    /// Makes the call now, and completes the future if that gives an outcome.
    fn go_on(self: Rc<Self>) {
        let Ok(mut slot) = self.work.try_borrow_mut() else {
            // The call is being made at this moment, and has come back here.
            return;
        };
        let outcome = slot
            .as_mut()
            .and_then(|work| attempt(work, &self.state.event_loop));
        drop(slot);
        match outcome {
            Some(outcome) => self.complete(outcome.into()),
            None => self.set_signalled(false),
        }
    }

    /// Whether the awaiting task was told that the source is ready, and has not come yet.
    fn set_signalled(&self, signalled: bool) {
        let selector = self.state.event_loop.core.selector();
        selector.set_signalled(self.source, self.direction, &self.as_operation(), signalled);
    }

    /// Stops waiting for the source, lets go of what the work holds, and completes the future.
    fn complete(self: Rc<Self>, outcome: Outcome<W::Output>) {
        self.withdraw();
        let _ = finish(self, outcome);
    }

    fn withdraw(&self) {
        let event_loop = &self.state.event_loop;
        let next =
            event_loop
                .core
                .selector()
                .remove_operation(self.source, self.direction, &self.as_operation());
        if let Some(next) = next.filter(|_| self.may_hold_data && !event_loop.is_closed()) {
            // What this one has left in the source's own buffer is for the next.
            event_loop.look_soon(next);
        }
        // While the call is being made its work stays, until the future goes.
        let work = self.work.try_borrow_mut().ok().and_then(|mut work| work.take());
        self.state
            .event_loop
            .guard("Exception while an operation was dropped", || drop(work));
    }
}

impl<W: Work> FutureCell<W::Output> for Pending<W> {
    fn state(&self) -> &State<W::Output> {
        &self.state
    }

    fn polled(self: Rc<Self>) {
        let core = &self.state.event_loop.core;
        let turn = core
            .selector()
            .turn_of(self.source, self.direction, &self.as_operation());
        let untried = self.untried.replace(false);
        if turn == Turn::Signalled || (untried && turn == Turn::First && core.may_complete_at_once()) {
            self.go_on();
        }
    }

    fn waited_for(self: Rc<Self>) {
        if self.untried.get() {
            self.polled();
        }
    }

    fn left_alone(self: Rc<Self>) {
        self.set_signalled(false);
        if self.may_hold_data {
            let event_loop = self.state.event_loop.clone();
            event_loop.look_soon(self.as_operation());
        }
    }

    fn keep(self: Rc<Self>) {
        if self.kept.get().is_null() {
            let key = self.state.event_loop.core.own(self.clone());
            self.kept.set(key);
        }
    }

    fn release(&self) {
        self.state
            .event_loop
            .core
            .disown(self.kept.replace(OwnedKey::null()));
    }
}

impl<W: Work> Operation for Pending<W> {
    fn ready(self: Rc<Self>) {
        match self.state.lone_task() {
            Some(task) => {
                self.set_signalled(true);
                task.wake();
            }
            None => self.go_on(),
        }
    }

    fn fail(self: Rc<Self>, error: io::Error) {
        self.complete(Outcome::Failed(error.into()));
    }
}

impl<W: Work> Cancel for Pending<W> {
    fn cancel(self: Rc<Self>) -> bool {
        if self.state.done() {
            self.state.set_seen();
            return false;
        }
        self.complete(Outcome::cancelled());
        true
    }

    fn awaiter_stepped(self: Rc<Self>) {
        // The task was told, and had its step, and has made no use of it.
        self.polled();
    }
}

impl<W: Work> Runnable for Pending<W> {
    fn run(self: Rc<Self>) {}

    fn wake(self: Rc<Self>) {}

    fn abandon(self: Rc<Self>) {
        self.state.set_seen();
        self.complete(Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
}

impl<W: Work> Drop for Pending<W> {
    /// Nobody waits any more: the source is not watched for it from now on.
    fn drop(&mut self) {
        if !self.state.done() {
            self.withdraw();
        }
    }
}

struct Receive<T> {
    source: Source<T>,
    max_bytes: usize,
}

impl<T: 'static> Work for Receive<T>
where
    for<'a> &'a T: Read,
{
    type Output = Vec<u8>;

    fn attempt(&mut self, event_loop: &LoopHandle) -> io::Result<Vec<u8>> {
        event_loop.core.with_scratch(self.max_bytes, |buffer| {
            let received = read(&self.source, buffer)?;
            Ok(buffer[..received].to_vec())
        })
    }
}

struct ReceiveInto<T> {
    source: Source<T>,
    buffer: Vec<u8>,
}

impl<T: 'static> Work for ReceiveInto<T>
where
    for<'a> &'a T: Read,
{
    type Output = (usize, Vec<u8>);

    fn attempt(&mut self, _: &LoopHandle) -> io::Result<(usize, Vec<u8>)> {
        let received = read(&self.source, &mut self.buffer)?;
        Ok((received, std::mem::take(&mut self.buffer)))
    }
}

/// Reads once, and notes whether that took all there was.
fn read<T: 'static>(source: &Source<T>, buffer: &mut [u8]) -> io::Result<usize>
where
    for<'a> &'a T: Read,
{
    let received = source.get_ref().read(buffer)?;
    // At the end of the stream (0) there is more of the same to get at once. And what is not the
    // system's own socket may have a buffer of its own, of whose contents readiness says nothing.
    let short = 0 < received && received < buffer.len();
    source.set_drained(short && source.is_system_socket());
    Ok(received)
}

/// What was emptied by the last receive had better be waited for than asked in vain.
fn receive_first<T>(source: &Source<T>) -> TryFirst {
    match source.drained() {
        true => TryFirst::Never,
        false => TryFirst::WhenAwaited,
    }
}

struct SendAll<T, D> {
    source: Source<T>,
    data: D,
    sent: usize,
}

impl<T: 'static, D: AsRef<[u8]> + 'static> Work for SendAll<T, D>
where
    for<'a> &'a T: Write,
{
    type Output = ();

    fn attempt(&mut self, _: &LoopHandle) -> io::Result<()> {
        for _ in 0..WRITES_PER_ATTEMPT {
            let rest = self.data.as_ref().get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            match self.source.get_ref().write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // It goes on when the source is ready again, after the others have had their turn.
        match self.data.as_ref().len() > self.sent {
            true => Err(ErrorKind::WouldBlock.into()),
            false => Ok(()),
        }
    }
}

/// A listener that [`sock_accept`](LoopHandle::sock_accept) can take clients from.
pub trait Accept: Pollable {
    /// A client's connection.
    type Stream: Pollable + 'static;
    /// Where the client is.
    type Address: 'static;

    /// Takes one client, in non-blocking mode, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, and what else the system says.
    fn accept(&self) -> io::Result<(Self::Stream, Self::Address)>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;
    type Address = SocketAddr;

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = TcpListener::accept(self)?;
        stream.set_nonblocking(true)?;
        Ok((stream, address))
    }
}

#[cfg(unix)]
impl Accept for UnixListener {
    type Stream = UnixStream;
    type Address = std::os::unix::net::SocketAddr;

    fn accept(&self) -> io::Result<(Self::Stream, Self::Address)> {
        let (stream, address) = UnixListener::accept(self)?;
        stream.set_nonblocking(true)?;
        Ok((stream, address))
    }
}

struct AcceptOne<L> {
    listener: Source<L>,
}

impl<L: Accept + 'static> Work for AcceptOne<L> {
    type Output = (Source<L::Stream>, L::Address);

    fn attempt(&mut self, _: &LoopHandle) -> io::Result<Self::Output> {
        loop {
            match self.listener.get_ref().accept() {
                Ok((stream, address)) => return Ok((Source::of_nonblocking(stream), address)),
                // That client was gone before its turn came: the next one.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

struct Connect {
    stream: Source<TcpStream>,
}

impl Work for Connect {
    type Output = Source<TcpStream>;

    fn attempt(&mut self, _: &LoopHandle) -> io::Result<Source<TcpStream>> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(self.stream.clone()),
            // Neither refused nor connected: not yet.
            Err(error) if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(error),
        }
    }
}

impl LoopHandle {
    /// Treats an operation as ready in the next tick, if it is still there.
    fn look_soon(&self, operation: Weak<dyn Operation>) {
        self.call_soon(move || {
            if let Some(operation) = operation.upgrade() {
                operation.ready();
            }
        });
    }

    /// Starts an operation.
    fn operate<T: Pollable + 'static, W: Work>(
        &self,
        source: &Source<T>,
        direction: Direction,
        try_first: TryFirst,
        mut work: W,
    ) -> Future<W::Output> {
        let key = match self.source_key(source) {
            Ok(key) => key,
            Err(error) => return Future::failed(self, error),
        };
        let selector = self.core.selector();
        let in_turn = !selector.is_busy(key, direction);
        if try_first == TryFirst::Now
            && in_turn
            && self.core.may_complete_at_once()
            && let Some(outcome) = attempt(&mut work, self)
        {
            return Future::with_outcome(self, outcome.into());
        }
        let pending = Rc::new_cyclic(|this| Pending {
            state: State::pending(self.clone(), Kind::Future),
            work: RefCell::new(Some(work)),
            source: key,
            direction,
            untried: Cell::new(try_first == TryFirst::WhenAwaited),
            may_hold_data: !source.is_system_socket(),
            kept: Cell::new(OwnedKey::null()),
            this: this.clone(),
        });
        if in_turn && try_first == TryFirst::WhenAwaited && pending.may_hold_data {
            // Readiness may never come, and perhaps nobody awaits it.
            self.look_soon(pending.as_operation());
        }
        if let Err(error) = selector.push_operation(key, direction, pending.as_operation()) {
            pending.clone().complete(Outcome::Failed(error.into()));
        }
        Future::of(pending)
    }

    /// Receives at most `max_bytes` (`loop.sock_recv`): what is there, as soon as there is
    /// anything. No bytes mean the end of the stream. One call returns at most 256 KiB.
    ///
    /// Two receives on one source are served in the order they were started. The call itself
    /// receives nothing: a future that is dropped in the same step, or in the branch of a `select!`
    /// that lost, takes nothing with it. One that is kept and not awaited is completed by the loop.
    ///
    /// # Errors
    /// The future fails with the system's error, with [`RuntimeError::LoopClosed`], or with
    /// [`RuntimeError::OtherLoop`].
    ///
    /// Async code awaits it, callback code gives it a done callback; that keeps the operation
    /// alive, so that no handle has to be kept:
    ///
    /// ```
    /// use miniloop::{EventLoop, Source};
    /// use std::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let left = Source::new(TcpStream::connect(listener.local_addr()?)?)?;
    /// let right = Source::new(listener.accept()?.0)?;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let handle = event_loop.handle();
    /// event_loop.sock_recv(&right, 100).add_done_callback(move |received| {
    ///     assert_eq!(received.result().unwrap(), b"ping");
    ///     handle.stop();
    /// });
    /// let handle = event_loop.handle();
    /// event_loop.create_task(async move { handle.sock_sendall(&left, "ping").await });
    /// event_loop.run_forever()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sock_recv<T: Pollable + 'static>(&self, sock: &Source<T>, max_bytes: usize) -> Future<Vec<u8>>
    where
        for<'a> &'a T: Read,
    {
        let source = sock.clone();
        self.operate(
            sock,
            Direction::Read,
            receive_first(sock),
            Receive { source, max_bytes },
        )
    }

    /// Receives into a buffer of the caller's, which comes back with the number of bytes
    /// received at its front (`loop.sock_recv_into`). 0 bytes mean the end of the stream.
    ///
    /// # Errors
    /// As for [`sock_recv`](Self::sock_recv); the buffer is lost then.
    pub fn sock_recv_into<T: Pollable + 'static>(
        &self,
        sock: &Source<T>,
        buffer: Vec<u8>,
    ) -> Future<(usize, Vec<u8>)>
    where
        for<'a> &'a T: Read,
    {
        let source = sock.clone();
        self.operate(
            sock,
            Direction::Read,
            receive_first(sock),
            ReceiveInto { source, buffer },
        )
    }

    /// Sends all of `data`, in as many writes as it takes (`loop.sock_sendall`). It begins at once,
    /// awaited or not, and the data is held by the operation until it is done. Two sends on one source do not mix: the second starts
    /// when the first has ended.
    ///
    /// # Errors
    /// As for [`sock_recv`](Self::sock_recv). How much was sent before an error or a cancellation
    /// is not known.
    pub fn sock_sendall<T: Pollable + 'static>(
        &self,
        sock: &Source<T>,
        data: impl AsRef<[u8]> + 'static,
    ) -> Future<()>
    where
        for<'a> &'a T: Write,
    {
        let source = sock.clone();
        self.operate(
            sock,
            Direction::Write,
            TryFirst::Now,
            SendAll {
                source,
                data,
                sent: 0,
            },
        )
    }

    /// Takes one client from a listener, as soon as there is one (`loop.sock_accept`); as with
    /// [`sock_recv`](Self::sock_recv), not in the call itself.
    ///
    /// # Errors
    /// As for [`sock_recv`](Self::sock_recv). Running out of file descriptors is such an error,
    /// and stays one until some are free: an accept loop should report it, sleep for a second
    /// and go on, as the echo server does.
    pub fn sock_accept<L: Accept + 'static>(
        &self,
        listener: &Source<L>,
    ) -> Future<(Source<L::Stream>, L::Address)> {
        let work = AcceptOne {
            listener: listener.clone(),
        };
        self.operate(listener, Direction::Read, TryFirst::WhenAwaited, work)
    }

    /// Connects to a TCP address (`loop.sock_connect`, which here makes the socket too).
    ///
    /// # Errors
    /// As for [`sock_recv`](Self::sock_recv), for instance `ConnectionRefused`.
    pub fn sock_connect(&self, address: SocketAddr) -> Future<Source<TcpStream>> {
        if self.is_closed() {
            return Future::failed(self, RuntimeError::LoopClosed);
        }
        let connecting = || -> io::Result<Source<TcpStream>> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            begin_connect(&socket, &address.into())?;
            Ok(Source::of_nonblocking(socket.into()))
        };
        match connecting() {
            // A loopback connection may be there already, but only readiness says so for sure.
            Ok(stream) => self.operate(
                &stream.clone(),
                Direction::Write,
                TryFirst::Never,
                Connect { stream },
            ),
            Err(error) => Future::failed(self, error),
        }
    }

    /// Connects to a Unix socket. The system does that at once or not at all: a full backlog is a
    /// `WouldBlock` error.
    ///
    /// # Errors
    /// As for [`sock_recv`](Self::sock_recv), for instance `NotFound`.
    #[cfg(unix)]
    pub fn sock_connect_unix(&self, path: impl AsRef<std::path::Path>) -> Future<Source<UnixStream>> {
        if self.is_closed() {
            return Future::failed(self, RuntimeError::LoopClosed);
        }
        let connect = || -> io::Result<Source<UnixStream>> {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            let address = SockAddr::unix(path)?;
            socket.set_nonblocking(true)?;
            socket.connect(&address)?;
            Ok(Source::of_nonblocking(std::os::fd::OwnedFd::from(socket).into()))
        };
        Future::with_outcome(self, connect().map_err(Exception::from).into())
    }
}

/// Starts connecting a socket in non-blocking mode.
fn begin_connect(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    SockRef::from(socket).set_nonblocking(true)?;
    match socket.connect(address) {
        Err(error) if error.kind() == ErrorKind::WouldBlock || in_progress(&error) => Ok(()),
        other => other,
    }
}

/// `EINPROGRESS`, for which `ErrorKind` has no stable name.
fn in_progress(error: &io::Error) -> bool {
    #[cfg(unix)]
    let known = rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::INPROGRESS);
    // Windows says `WouldBlock`.
    #[cfg(not(unix))]
    let known = error.kind() == ErrorKind::WouldBlock;
    known
}
