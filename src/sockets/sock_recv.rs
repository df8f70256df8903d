//! `sock_recv`: a receive, which is a future when somebody asks for one.
//!
//! Most receives are only awaited, by the task that has called for them and at once. Such a receive is
//! *direct*: the task itself stands in the queue of the source, as an operation does, and its step
//! receives when it was told of readiness. It takes no allocation but that of the bytes, and an idle
//! connection holds nothing for it. Among what the task waits for, the source stands for the receive;
//! so a cancellation finds it there, and leaves its error with the source.
//!
//! Only what is usual is done here. A receive becomes a future (an operation, see `operation.rs`) as
//! soon as it is asked for one, is polled by others than its task, or in a step that has a cancellation to
//! deliver, or finds others in the queue.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::future::Future as StdFuture;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use super::operation::TryFirst;
use super::{SCRATCH_LIMIT, receive_bytes};
use crate::errors::{Exception, Result};
use crate::futures::{Future, Outcome, Take};
use crate::handles::{Direction, SourceKey};
use crate::loop_core::part::step_is_interrupted;
use crate::loop_core::{LoopHandle, Stepper};
use crate::selector::Operation;
use crate::selector::source::{Pollable, Source};

/// The awaitable that [`sock_recv`](LoopHandle::sock_recv) makes. It has the methods of a
/// [`Future<Vec<u8>>`](Future), it is one to [`gather`](crate::gather), [`wait`](crate::wait) and their
/// like, and `Future::from` makes one of it.
///
/// Called for by a task it begins when it is awaited or asked for its future, as asyncio's coroutine
/// does; elsewhere it is a future from the start.
///
/// ```
/// use miniloop::{EventLoop, Source};
/// use std::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let left = Source::new(TcpStream::connect(listener.local_addr()?)?)?;
/// let right = Source::new(listener.accept()?.0)?;
/// let event_loop = EventLoop::new()?;
/// let handle = event_loop.handle();
/// let received = event_loop.run_until_complete(async move {
///     handle.sock_sendall(&left, "ping").await?;
///     handle.sock_recv(&right, 100).await
/// })?;
/// assert_eq!(received, b"ping");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it receives when it is awaited, or given a callback"]
pub struct SockRecv(Inner);

enum Inner {
    Future(Future<Vec<u8>>),
    Direct(Direct),
}

/// A receive that is no future yet, and becomes one when it has to.
struct Direct {
    event_loop: LoopHandle,
    socket: Socket,
    max_bytes: u32,
    progress: Cell<Progress>,
    /// (Boxed, for whoever awaits a receive has room for this.)
    future: OnceCell<Box<Future<Vec<u8>>>>,
}

/// A socket of the system's: no code of the user's runs when it is read.
enum Socket {
    Tcp(Source<TcpStream>),
    #[cfg(unix)]
    Unix(Source<UnixStream>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    /// The task waits for the source.
    Waits,
    /// It is over, or a future.
    Over,
}

impl Socket {
    fn of<T: 'static>(source: &Source<T>) -> Option<Socket> {
        let source: &dyn std::any::Any = source;
        #[cfg(unix)]
        if let Some(source) = source.downcast_ref::<Source<UnixStream>>() {
            return Some(Socket::Unix(source.clone()));
        }
        source
            .downcast_ref::<Source<TcpStream>>()
            .map(|source| Socket::Tcp(source.clone()))
    }
}

impl SockRecv {
    #[inline]
    pub(super) fn new<T: Pollable + 'static>(
        event_loop: &LoopHandle,
        source: &Source<T>,
        max_bytes: usize,
    ) -> SockRecv
    where
        for<'a> &'a T: Read,
    {
        if event_loop.core.is_stepping_any()
            && let Some(socket) = Socket::of(source)
        {
            return SockRecv(Inner::Direct(Direct {
                event_loop: event_loop.clone(),
                socket,
                max_bytes: max_bytes.min(SCRATCH_LIMIT) as u32,
                progress: Cell::new(Progress::New),
                future: OnceCell::new(),
            }));
        }
        SockRecv(Inner::Future(event_loop.receive(source, max_bytes)))
    }

    /// An awaitable that moves the result out: see [`Future::take`].
    pub fn take(self) -> Take<Vec<u8>> {
        Future::from(self).take()
    }
}

impl Direct {
    /// Polls it, if it is no future so far and need not become one.
    #[inline(always)] // at the one place
    fn poll_alone(&self, cx: &mut Context<'_>) -> Option<Poll<Result<Vec<u8>>>> {
        let core = &self.event_loop.core;
        if step_is_interrupted() || !core.is_stepping_with(cx.waker()) {
            return None;
        }
        match &self.socket {
            Socket::Tcp(source) => self.poll_source(source),
            #[cfg(unix)]
            Socket::Unix(source) => self.poll_unix(source),
        }
    }

    /// (Kept apart, for most sockets are not.)
    #[cfg(unix)]
    #[inline(never)]
    fn poll_unix(&self, source: &Source<UnixStream>) -> Option<Poll<Result<Vec<u8>>>> {
        self.poll_source(source)
    }

    #[inline(always)] // see loop_core.rs
    fn poll_source<T: Pollable + 'static>(&self, source: &Source<T>) -> Option<Poll<Result<Vec<u8>>>>
    where
        for<'a> &'a T: Read,
    {
        match self.progress.get() {
            Progress::New => self.begin(source),
            Progress::Waits => self.go_on(source),
            Progress::Over => None,
        }
    }

    /// It is awaited for the first time.
    #[inline(never)]
    fn begin<T: Pollable + 'static>(&self, source: &Source<T>) -> Option<Poll<Result<Vec<u8>>>>
    where
        for<'a> &'a T: Read,
    {
        let core = &self.event_loop.core;
        let key = match source.known_in(core.selector()) {
            Some(key) => key,
            None => self.event_loop.source_key(source).ok()?,
        };
        // After a receive that has brought something the next is not asked for in vain.
        if !source.is_to_be_waited_for()
            && let Some(received) = self.try_first(source, key)
        {
            return self.ends(received);
        }
        if source.has_receiver() {
            return None;
        }
        let task = core.stepping()?;
        let receiver: Rc<dyn Operation> = task.clone();
        let receiver: Weak<dyn Operation> = Rc::downgrade(&receiver);
        // (If the system refuses, it refuses the future too, which then says so.)
        let is_first = core.selector().push_first(key, Direction::Read, receiver).ok()?;
        if !is_first {
            return None;
        }
        self.wait(source, &task);
        Some(Poll::Pending)
    }

    /// Receives without having waited, if that is nobody else's turn.
    #[inline(never)]
    fn try_first<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
        key: SourceKey,
    ) -> Option<io::Result<Vec<u8>>>
    where
        for<'a> &'a T: Read,
    {
        let core = &self.event_loop.core;
        let is_free = core.selector().is_busy(key, Direction::Read) == Some(false);
        if is_free && core.may_complete_at_once() {
            self.attempt(source)
        } else {
            None
        }
    }

    /// The task is in the queue of the source, and waits for that.
    #[inline]
    fn wait<T: 'static>(&self, source: &Source<T>, task: &Rc<dyn Stepper>) {
        self.progress.set(Progress::Waits);
        source.set_receiver();
        let scope = self.event_loop.core.scope();
        task.part().wait_for_source(source.as_awaited(), scope);
    }

    /// It is polled again, having waited.
    #[inline(always)] // see loop_core.rs
    fn go_on<T: Pollable + 'static>(&self, source: &Source<T>) -> Option<Poll<Result<Vec<u8>>>>
    where
        for<'a> &'a T: Read,
    {
        let core = &self.event_loop.core;
        let key = source.known_in(core.selector())?;
        let receiver = core.stepping_at();
        let (first, is_told) = core.selector().first(key, Direction::Read)?;
        if first != receiver {
            return None;
        }
        let received = if is_told { self.attempt(source) } else { None };
        let Some(received) = received else {
            self.wait_on(source, key, is_told);
            return Some(Poll::Pending);
        };
        core.selector().remove_operation(key, Direction::Read, receiver);
        source.clear_receiver();
        core.stop_waiting_for_source(source.place());
        self.ends(received)
    }

    /// The source was not ready after all, or something else has woken the task.
    #[cold]
    fn wait_on<T: 'static>(&self, source: &Source<T>, key: SourceKey, was_told: bool) {
        let core = &self.event_loop.core;
        if was_told {
            core.selector()
                .set_signalled(key, Direction::Read, core.stepping_at(), false);
        }
        // It is what the task waits for now, and not only still.
        core.stop_waiting_for_source(source.place());
        if let Some(task) = core.stepping() {
            self.wait(source, &task);
        }
    }

    /// Receives, once; `None` if that would block.
    #[inline(always)] // see loop_core.rs
    fn attempt<T: Pollable + 'static>(&self, source: &Source<T>) -> Option<io::Result<Vec<u8>>>
    where
        for<'a> &'a T: Read,
    {
        loop {
            match receive_bytes(&self.event_loop, source, self.max_bytes as usize) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => return Some(received),
            }
        }
    }

    /// It is over. An error is a future's, which keeps it.
    #[inline(always)] // see loop_core.rs
    fn ends(&self, received: io::Result<Vec<u8>>) -> Option<Poll<Result<Vec<u8>>>> {
        self.progress.set(Progress::Over);
        match received {
            Ok(data) => Some(Poll::Ready(Ok(data))),
            Err(error) => {
                self.keep(Future::failed(&self.event_loop, error));
                None
            }
        }
    }

    #[cold]
    fn keep(&self, future: Future<Vec<u8>>) {
        // (There is none: whoever makes one asks first.)
        let _ = self.future.set(Box::new(future));
    }

    /// The future, made now if there is none yet.
    #[inline(never)]
    fn future(&self) -> &Future<Vec<u8>> {
        if let Some(task) = self.become_future() {
            // It has awaited it, and may still do so.
            task.ready();
        }
        self.future.get().unwrap_or_else(|| unreachable!("it was made"))
    }

    /// Makes it a future, if it is none yet. Gives the task that has waited until now, and is to look again.
    fn become_future(&self) -> Option<Rc<dyn Operation>> {
        if self.future.get().is_some() {
            return None;
        }
        let (future, task) = match &self.socket {
            Socket::Tcp(source) => self.make_future(source),
            #[cfg(unix)]
            Socket::Unix(source) => self.make_future(source),
        };
        self.progress.set(Progress::Over);
        self.keep(future);
        task
    }

    /// The future that it would be if it had been one from the start.
    fn make_future<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
    ) -> (Future<Vec<u8>>, Option<Rc<dyn Operation>>)
    where
        for<'a> &'a T: Read,
    {
        match self.progress.get() {
            Progress::New => (self.event_loop.receive(source, self.max_bytes as usize), None),
            Progress::Waits => self.go_on_as_future(source),
            Progress::Over => {
                let taken = Future::with_outcome(&self.event_loop, Outcome::Result(Vec::new()));
                let _ = taken.take_result();
                (taken, None)
            }
        }
    }

    /// The same of one that has waited: it keeps its place in the queue.
    fn go_on_as_future<T: Pollable + 'static>(
        &self,
        source: &Source<T>,
    ) -> (Future<Vec<u8>>, Option<Rc<dyn Operation>>)
    where
        for<'a> &'a T: Read,
    {
        let event_loop = &self.event_loop;
        let is_told = source.receiver_is_told();
        // It waits no more, also for a handler of the user's that is called meanwhile.
        self.progress.set(Progress::New);
        let (task, end) = source.take_receiver();
        let try_first = match is_told {
            Some(true) => TryFirst::WhenAwaited,
            _ => TryFirst::Never,
        };
        let future = match end {
            Some(exception) => self.ended(exception),
            None => event_loop.receive_trying(source, self.max_bytes as usize, try_first),
        };
        let selector = event_loop.core.selector();
        if task.is_some()
            && !future.done()
            && let Some(key) = source.known_in(selector)
        {
            selector.last_to_front(key, Direction::Read);
        }
        future.has_suspended();
        (future, task)
    }

    fn ended(&self, exception: Exception) -> Future<Vec<u8>> {
        match exception.is_cancelled() {
            true => Future::with_outcome(&self.event_loop, Outcome::Cancelled(exception)),
            false => Future::failed(&self.event_loop, exception),
        }
    }

    /// Nobody waits for it any more. Gives what the wait had ended with, if that was no readiness.
    fn withdraw(&self) -> Option<Exception> {
        let (_, end) = match &self.socket {
            Socket::Tcp(source) => source.take_receiver(),
            #[cfg(unix)]
            Socket::Unix(source) => source.take_receiver(),
        };
        end
    }
}

impl Drop for Direct {
    #[inline]
    fn drop(&mut self) {
        if self.progress.get() == Progress::Waits
            && let Some(exception) = self.withdraw()
        {
            // Nobody has looked at it: if it is a failure, the future reports it.
            drop(self.ended(exception));
        }
    }
}

impl Deref for SockRecv {
    type Target = Future<Vec<u8>>;

    fn deref(&self) -> &Future<Vec<u8>> {
        match &self.0 {
            Inner::Future(future) => future,
            Inner::Direct(direct) => direct.future(),
        }
    }
}

/// Clones are of one future.
impl Clone for SockRecv {
    fn clone(&self) -> SockRecv {
        SockRecv(Inner::Future(self.deref().clone()))
    }
}

impl From<SockRecv> for Future<Vec<u8>> {
    /// The very handle: if it has been awaited, it still is.
    fn from(receive: SockRecv) -> Future<Vec<u8>> {
        match receive.0 {
            Inner::Future(future) => future,
            Inner::Direct(mut direct) => {
                direct.future();
                let made = direct.future.take();
                *made.unwrap_or_else(|| unreachable!("it was made"))
            }
        }
    }
}

impl StdFuture for SockRecv {
    type Output = Result<Vec<u8>>;

    #[inline(always)] // see loop_core.rs
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        if let Inner::Direct(direct) = &self.0
            && let Some(polled) = direct.poll_alone(cx)
        {
            return polled;
        }
        self.poll_as_future(cx)
    }
}

impl SockRecv {
    #[cold]
    fn poll_as_future(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let future = match &mut self.0 {
            Inner::Future(future) => future,
            Inner::Direct(direct) => {
                direct.become_future();
                direct
                    .future
                    .get_mut()
                    .unwrap_or_else(|| unreachable!("it was made"))
            }
        };
        Pin::new(future).poll(cx)
    }
}

impl fmt::Debug for SockRecv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
