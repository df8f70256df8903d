//! The echo server without `async`: readers, writers and a timer, all of them plain callbacks.
//!
//! `cargo run --example echo_callbacks [-- ADDRESS]`; see `echo_server.rs` for the same in the form of coroutines.

mod support;

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, Source};

/// So many clients are let in before those that are already there get their turn.
const ACCEPTS_AT_ONCE: usize = 100;

struct Server {
    event_loop: LoopHandle,
    listener: Source<TcpListener>,
    /// What a client sent is here only while its callback runs, so one buffer does for all of them.
    buffer: RefCell<Vec<u8>>,
}

struct Client {
    server: Rc<Server>,
    socket: Source<TcpStream>,
    /// What could not be sent yet. While there is any, the client has a writer and no reader:
    /// who does not read its echo is not read from, and a writer never stands idle.
    unsent: RefCell<Vec<u8>>,
}

impl Server {
    fn start_accepting(self: &Rc<Self>) -> io::Result<()> {
        let server = self.clone();
        self.event_loop
            .add_reader(&self.listener, move || server.accept_clients())
    }

    fn accept_clients(self: &Rc<Self>) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    if let Err(error) = Client::start(self, stream) {
                        log::debug!("{address}: {error}");
                    }
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::ConnectionAborted => {} // left before its turn came
                    _ => return self.pause(&error),
                },
            }
        }
    }

    /// Most likely out of file descriptors. The client still waits, so the reader would only spin.
    fn pause(self: &Rc<Self>, error: &io::Error) {
        log::warn!("cannot accept a client, next try in a second: {error}");
        self.event_loop.remove_reader(&self.listener);
        let server = self.clone();
        self.event_loop.call_later(Duration::from_secs(1), move || {
            if let Err(error) = server.start_accepting() {
                server.pause(&error);
            }
        });
    }
}

impl Client {
    fn start(server: &Rc<Server>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?; // no answer waits for the one before to be acknowledged
        let client = Rc::new(Client {
            server: server.clone(),
            socket: Source::new(stream)?,
            unsent: RefCell::default(),
        });
        client.start_reading()
    }

    fn start_reading(self: &Rc<Self>) -> io::Result<()> {
        let (client, event_loop) = (self.clone(), &self.server.event_loop);
        event_loop.add_reader(&self.socket, move || client.or_close(client.read()))
    }

    fn start_writing(self: &Rc<Self>) -> io::Result<()> {
        let (client, event_loop) = (self.clone(), &self.server.event_loop);
        event_loop.add_writer(&self.socket, move || client.or_close(client.write()))
    }

    fn read(self: &Rc<Self>) -> io::Result<()> {
        let mut buffer = self.server.buffer.borrow_mut();
        let received = self.socket.get_ref().read(&mut buffer)?;
        if received == 0 {
            self.close();
            return Ok(());
        }
        let data = &buffer[..received];
        let sent = self.send(data)?;
        if sent < data.len() {
            *self.unsent.borrow_mut() = data[sent..].to_vec();
            self.server.event_loop.remove_reader(&self.socket);
            self.start_writing()?;
        }
        Ok(())
    }

    fn write(self: &Rc<Self>) -> io::Result<()> {
        let mut unsent = self.unsent.borrow_mut();
        let sent = self.send(&unsent)?;
        unsent.drain(..sent);
        if unsent.is_empty() {
            *unsent = Vec::new(); // an idle client keeps no memory
            self.server.event_loop.remove_writer(&self.socket);
            self.start_reading()?;
        }
        Ok(())
    }

    /// Sends what the socket takes now, which may be a part or nothing.
    fn send(&self, data: &[u8]) -> io::Result<usize> {
        match self.socket.get_ref().write(data) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            sent => sent,
        }
    }

    fn or_close(&self, outcome: io::Result<()>) {
        let Err(error) = outcome else { return };
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => {} // the loop reports it again
            _ => {
                log::debug!("a client is lost: {error}"); // gone without a goodbye: its own affair
                self.close();
            }
        }
    }

    /// Without its callbacks nothing holds the client any more, and its socket is closed with it.
    fn close(&self) {
        self.server.event_loop.remove_reader(&self.socket);
        self.server.event_loop.remove_writer(&self.socket);
    }
}

fn main() -> miniloop::Result<()> {
    let event_loop = EventLoop::new()?;
    let server = Rc::new(Server {
        event_loop: event_loop.handle(),
        listener: Source::new(support::listen("echo_callbacks"))?,
        buffer: RefCell::new(vec![0; 65536]),
    });
    server.start_accepting()?;
    event_loop.run_forever()
}
