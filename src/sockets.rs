//! `sock_*`: socket operations as futures (Python's `sockets.py`).
//!
//! Each is the call that it makes (a [`Work`]); how it waits is in `operation.rs`.

mod operation;
mod sock_recv;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};

#[cfg(unix)]
use rustix::net::RecvFlags;
#[cfg(target_os = "linux")]
use rustix::net::SendFlags;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

#[cfg(unix)]
use crate::errors::Exception;
use crate::errors::RuntimeError;
use crate::futures::{Future, Outcome};
use crate::handles::Direction;
use crate::loop_core::LoopHandle;
use crate::loop_core::SCRATCH_LIMIT;
use crate::selector::source::{Pollable, Source};
use operation::{TryFirst, Work};
pub use sock_recv::SockRecv;

/// From so many bytes on a receive is a long one.
const LONG_RECEIVE: usize = 2048;

/// How many writes one attempt of `sock_sendall` makes, however fast the peer reads.
const WRITES_PER_ATTEMPT: usize = 16;

struct Receive<T> {
    source: Source<T>,
    max_bytes: usize,
}

impl<T: Pollable + 'static> Work for Receive<T>
where
    for<'a> &'a T: Read,
{
    type Output = Vec<u8>;

    #[inline(always)] // see loop_core.rs
    fn attempt(&mut self, event_loop: &LoopHandle) -> io::Result<Vec<u8>> {
        receive_bytes(event_loop, &self.source, self.max_bytes)
    }
}

/// Receives what is there.
#[inline(always)] // see loop_core.rs
fn receive_bytes<T: Pollable + 'static>(
    event_loop: &LoopHandle,
    source: &Source<T>,
    max_bytes: usize,
) -> io::Result<Vec<u8>>
where
    for<'a> &'a T: Read,
{
    // Little is copied out of a buffer of the loop's, much is received where it is to stay:
    // which of the two is cheaper, the last receive tells best.
    #[cfg(unix)]
    if source.last_was_long() && source.is_system_socket() {
        return receive_in_place(source, max_bytes.min(SCRATCH_LIMIT));
    }
    let size = max_bytes.min(SCRATCH_LIMIT);
    let mut scratch = event_loop.core.lend_scratch(size);
    let received = match read(source, &mut scratch[..size]) {
        Ok(received) => Ok(scratch[..received].to_vec()),
        Err(error) => Err(error),
    };
    event_loop.core.give_scratch_back(scratch);
    received
}

struct ReceiveInto<T> {
    source: Source<T>,
    buffer: Vec<u8>,
}

impl<T: Pollable + 'static> Work for ReceiveInto<T>
where
    for<'a> &'a T: Read,
{
    type Output = (usize, Vec<u8>);

    fn attempt(&mut self, _: &LoopHandle) -> io::Result<(usize, Vec<u8>)> {
        let received = read(&self.source, &mut self.buffer)?;
        Ok((received, std::mem::take(&mut self.buffer)))
    }
}

/// Reads once, and notes how that went.
#[inline(always)] // see loop_core.rs
fn read<T: Pollable + 'static>(source: &Source<T>, buffer: &mut [u8]) -> io::Result<usize>
where
    for<'a> &'a T: Read,
{
    let received = receive(source, buffer)?;
    note_receive(source, received);
    Ok(received)
}

/// The standard library's own sockets are asked without its detour through the C library, where
/// each such call is a point at which a thread can be cancelled.
#[inline(always)] // see loop_core.rs
fn receive<T: Pollable + 'static>(source: &Source<T>, buffer: &mut [u8]) -> io::Result<usize>
where
    for<'a> &'a T: Read,
{
    #[cfg(target_os = "linux")]
    if source.is_system_socket() {
        let (received, _) = rustix::net::recv(source.get_ref(), buffer, RecvFlags::empty())?;
        return Ok(received);
    }
    source.get_ref().read(buffer)
}

/// Reads once, into memory of its own, which need not be cleared first.
#[cfg(unix)]
#[inline(always)] // see loop_core.rs
fn receive_in_place<T: Pollable + 'static>(source: &Source<T>, size: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(size);
    let spare = rustix::buffer::spare_capacity(&mut data);
    let (received, _) = rustix::net::recv(source.get_ref(), spare, RecvFlags::empty())?;
    note_receive(source, received);
    if received < size / 2 {
        data.shrink_to_fit();
    }
    Ok(data)
}

/// Notes what the next receive may expect.
fn note_receive<T: 'static>(source: &Source<T>, received: usize) {
    // Most peers send a message and wait for the answer. At the end of the stream (0) there is more
    // of the same to get at once. And what is not the system's own socket may have a buffer of its
    // own, of whose contents readiness says nothing.
    source.set_to_be_waited_for(received > 0 && source.is_system_socket());
    source.set_last_was_long(received >= LONG_RECEIVE);
}

/// What has just brought something had better be waited for than asked in vain: if there is more,
/// the next poll says so.
fn receive_first<T>(source: &Source<T>) -> TryFirst {
    match source.is_to_be_waited_for() {
        true => TryFirst::Never,
        false => TryFirst::WhenAwaited,
    }
}

struct SendAll<T, D> {
    source: Source<T>,
    data: D,
    sent: usize,
}

impl<T: Pollable + 'static, D: AsRef<[u8]> + 'static> Work for SendAll<T, D>
where
    for<'a> &'a T: Write,
{
    type Output = ();

    #[inline(always)] // see loop_core.rs
    fn attempt(&mut self, _: &LoopHandle) -> io::Result<()> {
        for _ in 0..WRITES_PER_ATTEMPT {
            let rest = self.data.as_ref().get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            match send(&self.source, rest) {
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

    fn completed(event_loop: &LoopHandle, outcome: Outcome<()>) -> Future<()> {
        match outcome {
            Outcome::Result(()) => event_loop.sent(),
            outcome => Future::with_outcome(event_loop, outcome),
        }
    }
}

/// Writes once.
fn send<T: Pollable + 'static>(source: &Source<T>, data: &[u8]) -> io::Result<usize>
where
    for<'a> &'a T: Write,
{
    #[cfg(target_os = "linux")]
    if source.is_system_socket() {
        // A broken pipe is an error, as in the standard library, and no signal.
        return Ok(rustix::net::send(source.get_ref(), data, SendFlags::NOSIGNAL)?);
    }
    source.get_ref().write(data)
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
    /// The future of a send that has completed at once, as most do. The loop keeps the last one, and
    /// gives it again when it is the only one who still has it.
    fn sent(&self) -> Future<()> {
        let kept = &self.core.sent;
        if let Some(last) = &*kept.borrow()
            && let Some(last) = last.downcast_ref::<Future<()>>()
            && last.renew()
        {
            return last.clone();
        }
        let future = Future::with_outcome(self, Outcome::Result(()));
        drop(kept.replace(Some(Box::new(future.clone()))));
        future
    }

    /// Receives at most `max_bytes` (`loop.sock_recv`): what is there, as soon as there is
    /// anything. No bytes mean the end of the stream. One call returns at most 256 KiB.
    ///
    /// Two receives on one source are served in the order they were started. The call itself
    /// receives nothing: one that is dropped in the same step, or in the branch of a `select!`
    /// that lost, takes nothing with it.
    ///
    /// In callback code it starts with the call, and one that is kept and not awaited is completed by
    /// the loop. What a task calls for starts when it is first awaited, or asked for something that a
    /// future has, as asyncio's coroutine does; while the task awaits other things instead, it receives
    /// nothing.
    ///
    /// # Errors
    /// It fails with the system's error, with [`RuntimeError::LoopClosed`], or with
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
    pub fn sock_recv<T: Pollable + 'static>(&self, sock: &Source<T>, max_bytes: usize) -> SockRecv
    where
        for<'a> &'a T: Read,
    {
        SockRecv::new(self, sock, max_bytes)
    }

    /// A receive that is a future from the start.
    pub(crate) fn receive<T: Pollable + 'static>(&self, sock: &Source<T>, max_bytes: usize) -> Future<Vec<u8>>
    where
        for<'a> &'a T: Read,
    {
        self.receive_trying(sock, max_bytes, receive_first(sock))
    }

    fn receive_trying<T: Pollable + 'static>(
        &self,
        sock: &Source<T>,
        max_bytes: usize,
        try_first: TryFirst,
    ) -> Future<Vec<u8>>
    where
        for<'a> &'a T: Read,
    {
        let source = sock.clone();
        let work = Receive { source, max_bytes };
        self.operate(sock, Direction::Read, try_first, work)
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
