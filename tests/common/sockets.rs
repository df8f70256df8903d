//! Connected sockets, and reading and writing them outside the loop.

use std::io::{Read, Write};
use std::net::TcpListener;

use miniloop::Source;
use socket2::SockRef;

/// One end of a [`pair`]: a Unix stream where there are such.
#[cfg(unix)]
pub type Stream = std::os::unix::net::UnixStream;

/// One end of a [`pair`].
#[cfg(not(unix))]
pub type Stream = std::net::TcpStream;

/// Two connected streams, not yet in the hands of a [`Source`].
#[cfg(unix)]
pub fn stream_pair() -> (Stream, Stream) {
    Stream::pair().expect("a pair of sockets")
}

/// Two connected streams, not yet in the hands of a [`Source`].
#[cfg(not(unix))]
pub fn stream_pair() -> (Stream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    let near = Stream::connect(address).expect("a connection");
    let mine = near.local_addr().expect("its address");
    loop {
        // A stranger may have found the port first.
        let (far, peer) = listener.accept().expect("the other end");
        if peer == mine {
            near.set_nodelay(true).expect("no delay");
            far.set_nodelay(true).expect("no delay");
            return (near, far);
        }
    }
}

/// Two connected sources.
pub fn pair() -> (Source<Stream>, Source<Stream>) {
    sources(stream_pair())
}

/// The size of a small buffer. Loopback TCP crawls through a window of a few KiB, waiting for
/// delayed acknowledgements.
#[cfg(unix)]
const SMALL: usize = 4096;

#[cfg(not(unix))]
const SMALL: usize = 32 * 1024;

/// Two connected sources with small send and receive buffers.
pub fn pair_small() -> (Source<Stream>, Source<Stream>) {
    let (a, b) = stream_pair();
    for stream in [&a, &b] {
        let socket = SockRef::from(stream);
        socket.set_send_buffer_size(SMALL).expect("a small buffer");
        socket.set_recv_buffer_size(SMALL).expect("a small buffer");
    }
    sources((a, b))
}

fn sources((a, b): (Stream, Stream)) -> (Source<Stream>, Source<Stream>) {
    (
        Source::new(a).expect("a source"),
        Source::new(b).expect("a source"),
    )
}

/// A listening source on a free loopback port.
pub fn listener() -> Source<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    Source::new(listener).expect("a source")
}

/// Sends all of `data`, which has to fit into the socket's buffer.
pub fn send<T>(source: &Source<T>, data: &[u8])
where
    for<'a> &'a T: Write,
{
    let mut socket: &T = source;
    socket.write_all(data).expect("room in the buffer");
}

/// Receives what is there, at most `max` bytes.
pub fn recv<T>(source: &Source<T>, max: usize) -> Vec<u8>
where
    for<'a> &'a T: Read,
{
    let mut socket: &T = source;
    let mut buffer = vec![0; max];
    let count = socket.read(&mut buffer).expect("data in the buffer");
    buffer.truncate(count);
    buffer
}
