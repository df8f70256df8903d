//! The echo servers in callback form: one buffer for all connections.
//!
//! What they have in common is here: a connection that receives into the buffer, sends, and keeps
//! what the socket did not take. While it keeps something it does not receive.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;

use calloop::generic::{Generic, NoIoDrop};
use calloop::{EventSource, Interest, Mode, PostAction, Readiness, Token, TokenFactory};

use super::BUFFER;
use crate::Outcome;
use crate::counting::apart;

/// What a connection waits for next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Readable,
    Writable,
    Closed,
}

/// Receives once and sends once. `unsent` is what the socket did not take.
fn receive_and_send<S>(mut stream: &S, buffer: &mut [u8], unsent: &mut Vec<u8>) -> io::Result<Next>
where
    for<'a> &'a S: Read + Write,
{
    let received = stream.read(buffer)?;
    if received == 0 {
        return Ok(Next::Closed);
    }
    let sent = sent_at_once(stream, &buffer[..received])?;
    if sent == received {
        return Ok(Next::Readable);
    }
    unsent.extend(&buffer[sent..received]);
    Ok(Next::Writable)
}

/// Sends what was left over.
fn send_rest<S>(stream: &S, unsent: &mut Vec<u8>) -> io::Result<Next>
where
    for<'a> &'a S: Write,
{
    let sent = sent_at_once(stream, unsent)?;
    unsent.drain(..sent);
    if unsent.is_empty() {
        *unsent = Vec::new();
        return Ok(Next::Readable);
    }
    Ok(Next::Writable)
}

fn sent_at_once<S>(mut stream: &S, data: &[u8]) -> io::Result<usize>
where
    for<'a> &'a S: Write,
{
    match stream.write(data) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        sent => sent,
    }
}

/// Whether the call is to be made again when the loop says so.
fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The next one who waits, ready to be watched.
fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok(Some(stream))
        }
        Err(error) if is_for_later(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn limit(listener: TcpListener) -> Outcome<()> {
    use rustix::event::epoll::{self, EventData, EventFlags};
    use std::os::fd::AsRawFd;

    struct Client {
        stream: TcpStream,
        unsent: Vec<u8>,
        next: Next,
    }
    const LISTENER: u64 = u64::MAX;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::with_capacity(128);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let key = event.data.u64();
            if key == LISTENER {
                while let Some(stream) = accepted(&listener)? {
                    let fd = stream.as_raw_fd() as usize;
                    epoll::add(&epoll, &stream, EventData::new_u64(fd as u64), EventFlags::IN)?;
                    clients.resize_with(clients.len().max(fd + 1), || None);
                    clients[fd] = Some(Client {
                        stream,
                        unsent: Vec::new(),
                        next: Next::Readable,
                    });
                }
                continue;
            }
            let Some(client) = &mut clients[key as usize] else {
                continue;
            };
            let outcome = match client.next {
                Next::Writable => send_rest(&client.stream, &mut client.unsent),
                _ => receive_and_send(&client.stream, &mut buffer, &mut client.unsent),
            };
            let next = match outcome {
                Err(error) if is_for_later(&error) => continue,
                other => other.unwrap_or(Next::Closed),
            };
            if next == Next::Closed {
                clients[key as usize] = None;
            } else if next != client.next {
                let interest = if next == Next::Writable {
                    EventFlags::OUT
                } else {
                    EventFlags::IN
                };
                epoll::modify(&epoll, &client.stream, EventData::new_u64(key), interest)?;
                client.next = next;
            }
        }
    }
}

struct MiniloopClient {
    event_loop: miniloop::LoopHandle,
    stream: miniloop::Source<TcpStream>,
    buffer: Rc<RefCell<Vec<u8>>>,
    unsent: RefCell<Vec<u8>>,
}

impl MiniloopClient {
    fn start_reading(self: &Rc<Self>) -> io::Result<()> {
        let client = self.clone();
        self.event_loop
            .add_reader(&self.stream, move || client.readable())
    }

    fn readable(self: &Rc<Self>) {
        let unsent = &mut *self.unsent.borrow_mut();
        match receive_and_send(self.stream.get_ref(), &mut self.buffer.borrow_mut(), unsent) {
            Ok(Next::Readable) => {}
            Ok(Next::Writable) => {
                let client = self.clone();
                self.event_loop.remove_reader(&self.stream);
                // On an error nothing holds the client any more, and it is closed.
                let _ = self
                    .event_loop
                    .add_writer(&self.stream, move || client.writable());
            }
            Err(error) if is_for_later(&error) => {}
            Ok(Next::Closed) | Err(_) => {
                self.event_loop.remove_reader(&self.stream);
            }
        }
    }

    fn writable(self: &Rc<Self>) {
        match send_rest(self.stream.get_ref(), &mut self.unsent.borrow_mut()) {
            Ok(Next::Writable) => return,
            Err(error) if is_for_later(&error) => return,
            Ok(Next::Readable) => {
                // As above.
                let _ = self.start_reading();
            }
            Ok(Next::Closed) | Err(_) => {}
        }
        self.event_loop.remove_writer(&self.stream);
    }
}

pub fn miniloop(listener: TcpListener) -> Outcome<()> {
    use miniloop::{EventLoop, Source};

    let event_loop = EventLoop::new()?;
    let (listener, handle) = (Source::new(listener)?, event_loop.handle());
    let buffer = Rc::new(RefCell::new(vec![0; BUFFER]));
    event_loop.add_reader(&listener.clone(), move || {
        while let Ok(Some(stream)) = accepted(listener.get_ref())
            && let Ok(stream) = Source::new(stream)
        {
            let client = MiniloopClient {
                event_loop: handle.clone(),
                stream,
                buffer: buffer.clone(),
                unsent: RefCell::default(),
            };
            let client = apart(|| Rc::new(client));
            // On an error it is closed.
            let _ = client.start_reading();
        }
    })?;
    Ok(event_loop.run_forever()?)
}

struct MioClient {
    stream: mio::net::TcpStream,
    unsent: Vec<u8>,
}
impl MioClient {
    /// mio says only once that a socket is ready: goes on until it is not.
    fn go_on(&mut self, buffer: &mut [u8]) -> io::Result<Next> {
        loop {
            let next = if self.unsent.is_empty() {
                receive_and_send(&self.stream, buffer, &mut self.unsent)?
            } else {
                send_rest(&self.stream, &mut self.unsent)?
            };
            if next != Next::Readable {
                return Ok(next);
            }
        }
    }
}

pub fn mio(listener: TcpListener) -> Outcome<()> {
    use mio::net::TcpListener;
    use mio::{Events, Interest, Poll, Token};

    const LISTENER: Token = Token(usize::MAX);
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut clients: Vec<Option<MioClient>> = Vec::new();
    let mut free = Vec::new();
    let mut buffer = vec![0; BUFFER];
    let mut events = Events::with_capacity(128);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let key = free.pop().unwrap_or(clients.len());
                    clients.resize_with(clients.len().max(key + 1), || None);
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(key), interest)?;
                    let unsent = Vec::new();
                    clients[key] = Some(MioClient { stream, unsent });
                }
                continue;
            }
            let key = event.token().0;
            let Some(client) = &mut clients[key] else {
                continue;
            };
            match client.go_on(&mut buffer) {
                Ok(Next::Readable | Next::Writable) => {}
                Err(error) if is_for_later(&error) => {}
                Ok(Next::Closed) | Err(_) => {
                    clients[key] = None;
                    free.push(key);
                }
            }
        }
    }
}

/// A source of its own, because it changes what it waits for.
struct CalloopClient {
    stream: Generic<TcpStream>,
    buffer: Rc<RefCell<Vec<u8>>>,
    unsent: Vec<u8>,
}
impl EventSource for CalloopClient {
    type Event = ();
    type Metadata = ();
    type Ret = ();
    type Error = io::Error;

    fn process_events<F: FnMut((), &mut ())>(
        &mut self,
        readiness: Readiness,
        token: Token,
        _: F,
    ) -> io::Result<PostAction> {
        let (buffer, unsent) = (&mut self.buffer.borrow_mut(), &mut self.unsent);
        let waiting = !unsent.is_empty();
        let action = self.stream.process_events(readiness, token, |_, stream| {
            let stream: &TcpStream = stream;
            let outcome = if waiting {
                send_rest(stream, unsent)
            } else {
                receive_and_send(stream, buffer, unsent)
            };
            match outcome {
                Ok(Next::Closed) => Ok(PostAction::Remove),
                Err(error) if !is_for_later(&error) => Ok(PostAction::Remove),
                _ => Ok(PostAction::Continue),
            }
        })?;
        if action == PostAction::Continue && self.unsent.is_empty() == waiting {
            self.stream.interest = if waiting { Interest::READ } else { Interest::WRITE };
            return Ok(PostAction::Reregister);
        }
        Ok(action)
    }

    fn register(&mut self, poll: &mut calloop::Poll, tokens: &mut TokenFactory) -> calloop::Result<()> {
        self.stream.register(poll, tokens)
    }

    fn reregister(&mut self, poll: &mut calloop::Poll, tokens: &mut TokenFactory) -> calloop::Result<()> {
        self.stream.reregister(poll, tokens)
    }

    fn unregister(&mut self, poll: &mut calloop::Poll) -> calloop::Result<()> {
        self.stream.unregister(poll)
    }
}

pub fn calloop(listener: TcpListener) -> Outcome<()> {
    let mut event_loop = calloop::EventLoop::<()>::try_new()?;
    listener.set_nonblocking(true)?;
    let (handle, buffer) = (event_loop.handle(), Rc::new(RefCell::new(vec![0; BUFFER])));
    let source = Generic::new(listener, Interest::READ, Mode::Level);
    let accept = move |_, listener: &mut NoIoDrop<TcpListener>, _: &mut ()| {
        while let Some(stream) = accepted(listener)? {
            let client = CalloopClient {
                stream: Generic::new(stream, Interest::READ, Mode::Level),
                buffer: buffer.clone(),
                unsent: Vec::new(),
            };
            let inserted = handle.insert_source(client, |(), (), _| ());
            inserted.map_err(|refused| io::Error::other(refused.error))?;
        }
        Ok(PostAction::Continue)
    };
    let inserted = event_loop.handle().insert_source(source, accept);
    inserted.map_err(|refused| refused.error)?;
    Ok(event_loop.run(None, &mut (), |_| ())?)
}
