//! The client of the echo servers: a loop by hand over raw epoll.
//!
//! Its sockets block, so that it can not run ahead of a server, but it reads only what is there.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::Outcome;

/// A server that says nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections wait to be accepted at most.
const UNACCEPTED: usize = 200;

struct Connection {
    stream: TcpStream,
    /// Of the message under way.
    missing: usize,
}

pub struct Client {
    port: u16,
    message: Vec<u8>,
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

impl Client {
    pub fn new(port: u16, message_size: usize) -> Outcome<Client> {
        Ok(Client {
            port,
            message: (0..message_size).map(|index| index as u8).collect(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            buffer: vec![0; message_size],
        })
    }

    /// Opens so many more connections, and waits until the server has accepted all of them.
    pub fn connect(&mut self, number: usize) -> Outcome<()> {
        for nth in 1..=number {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            // Closed without waiting, so that no port stays taken for a minute.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
            let data = epoll::EventData::new_u64(self.connections.len() as u64);
            epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
            self.connections.push(Connection { stream, missing: 0 });
            if nth % UNACCEPTED == 0 || nth == number {
                self.check_echo()?;
            }
        }
        Ok(())
    }

    /// Sends a message on the last connection, and looks that the same comes back.
    fn check_echo(&mut self) -> Outcome<()> {
        let Some(last) = self.connections.last_mut() else {
            return Ok(());
        };
        last.stream.write_all(&self.message)?;
        last.stream.read_exact(&mut self.buffer)?;
        if self.buffer == self.message {
            Ok(())
        } else {
            Err("the echo differs from what was sent".into())
        }
    }

    /// Sends so many messages over the first so many connections, one at a time on each, and
    /// receives all of them.
    pub fn exchange(&mut self, connections: usize, messages: u64) -> Outcome<()> {
        let mut unsent = messages;
        let mut unreceived = messages;
        for connection in self.connections.iter_mut().take(connections) {
            if unsent > 0 {
                unsent -= 1;
                connection.send(&self.message)?;
            }
        }
        let mut events = Vec::<epoll::Event>::with_capacity(128);
        let mut heard = Instant::now();
        while unreceived > 0 {
            events.clear();
            let patience = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&patience),
            )?;
            if !events.is_empty() {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                return Err("the server does not answer".into());
            }
            for event in &events {
                let connection = &mut self.connections[event.data.u64() as usize];
                if connection.receive(&mut self.buffer)? {
                    unreceived -= 1;
                    if unsent > 0 {
                        unsent -= 1;
                        connection.send(&self.message)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Connection {
    fn send(&mut self, message: &[u8]) -> Outcome<()> {
        self.missing = message.len();
        Ok(self.stream.write_all(message)?)
    }

    /// Receives what is there, and tells whether that completes the message.
    fn receive(&mut self, buffer: &mut [u8]) -> Outcome<bool> {
        let received = self.stream.read(&mut buffer[..self.missing])?;
        if received == 0 {
            return Err("the server closed a connection".into());
        }
        self.missing -= received;
        Ok(self.missing == 0)
    }
}
