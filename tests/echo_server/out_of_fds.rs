//! A server that may open fewer files than it has clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use super::child::{Server, example};
use super::process::wait_until;

/// The listener, the selector and what a process starts with take about half of these.
const OPEN_FILES: usize = 24;
/// More than can be let in, so the last ones have to wait until others have gone.
const CLIENTS: usize = 30;
const STAY: usize = 6;

pub fn shortage_of_fds_is_reported_and_waited_out(program: &str) {
    let mut command = Command::new("sh");
    let with_few_files = format!("ulimit -n {OPEN_FILES}; exec \"$0\" 127.0.0.1:0");
    command.args(["-c", &with_few_files]).arg(example(program));
    let start = Instant::now();
    let mut server = Server::spawn(command);

    // All of them are connected, the last ones only as far as the queue of the listening socket.
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
    for mut client in &clients {
        client.write_all(b"let me in").expect("room in the socket");
    }
    wait_until(
        || reports(&server) >= 3,
        || format!("too few reports: {:?}", server.log()),
    );
    let (cpu_time, reports, elapsed) = (server.cpu_time(), reports(&server), start.elapsed());
    server.assert_running();
    assert!(
        reports as u64 <= elapsed.as_secs() + 1,
        "{reports} reports in {elapsed:?}"
    );
    assert!(elapsed >= Duration::from_secs(2), "three reports in {elapsed:?}");
    assert!(
        cpu_time < elapsed / 5,
        "{cpu_time:?} of processor time in {elapsed:?}"
    );

    clients.drain(..CLIENTS - STAY);
    for mut client in &clients {
        let mut answer = [0; 9];
        client.read_exact(&mut answer).expect("an answer in the end");
        assert_eq!(&answer, b"let me in");
    }
    server.assert_running();
}

fn reports(server: &Server) -> usize {
    server.log().matches("cannot accept").count()
}
