//! A TCP echo server, 64 B and 16 KiB, at 1, 50 and 1,000 connections.
//!
//! Each server runs in a child process. One client, this process, keeps one message under way on
//! each connection, to one server after the other by turns; the others sleep meanwhile. It has a processor
//! of its own, but shares the server's at one connection (see `processors.rs`). Measured:
//! CPU time that the server process uses for a message, system calls included. Limit: raw
//! level-triggered epoll with one buffer for all connections.
//!
//! All servers receive at most 16 KiB at once, keep what a socket does not take until it is
//! writable, and switch Nagle's algorithm off. Those in callback form (limit, miniloop's first
//! line, calloop, mio) have one buffer, those with a task for each connection (miniloop's second
//! line, tokio, smol, monoio) one in each task, as their documentation shows it. The python loops
//! have a `Protocol`.

pub mod client;
mod with_callbacks;
mod with_tasks;

use std::net::TcpListener;
use std::time::Duration;

use crate::Outcome;
use crate::harness::{Harness, PYTHON_LOOPS};
use crate::meter::{cpu_time_of, per_operation};
use crate::processors::Placed;
use crate::report::{Goal, LIMIT, MINILOOP, Row, Unit};
use crate::spawn::{ServerProcess, this_program};
use client::Client;

/// The most that is received at once, and the buffers' size.
const BUFFER: usize = 16 * 1024;

/// How often the servers take turns in a round: a turn is short, and so easily disturbed.
const TURNS: usize = 3;

/// miniloop's server in the form of coroutines.
pub const MINILOOP_ASYNC: &str = "miniloop async";

pub type Serve = fn(TcpListener) -> Outcome<()>;

/// All that run in this program.
pub const SERVERS: [(&str, Serve); 8] = [
    (LIMIT, with_callbacks::limit),
    (MINILOOP, with_callbacks::miniloop),
    (MINILOOP_ASYNC, with_tasks::miniloop),
    ("tokio", with_tasks::tokio),
    ("smol", with_tasks::smol),
    ("monoio", with_tasks::monoio),
    ("calloop", with_callbacks::calloop),
    ("mio", with_callbacks::mio),
];

static GOALS: [Goal; 2] = [CALLBACKS, asynchronous(1.05)];
static GOALS_AT_ONE: [Goal; 2] = [CALLBACKS, asynchronous(1.08)];

const CALLBACKS: Goal = Goal {
    not_behind: Some("tokio"),
    ..Goal::new(MINILOOP, "callbacks", 1.02)
};

const fn asynchronous(most: f64) -> Goal {
    Goal {
        not_behind: Some("tokio"),
        ..Goal::new(MINILOOP_ASYNC, "async", most)
    }
}

struct Cell {
    size: usize,
    connections: usize,
    /// In one turn.
    messages: u64,
    goals: &'static [Goal],
}

const fn cell(size: usize, connections: usize, messages: u64, goals: &'static [Goal]) -> Cell {
    Cell {
        size,
        connections,
        messages,
        goals,
    }
}

static CELLS: [Cell; 6] = [
    cell(64, 1, 5_000, &GOALS_AT_ONE),
    cell(64, 50, 20_000, &GOALS),
    cell(64, 1_000, 20_000, &GOALS),
    cell(BUFFER, 1, 4_000, &GOALS_AT_ONE),
    cell(BUFFER, 50, 10_000, &GOALS),
    cell(BUFFER, 1_000, 10_000, &GOALS),
];

/// The child's side: listens, says where, and serves.
pub fn serve(contestant: &str) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    rustix::net::listen(&listener, 1_024)?;
    println!("{} {}", listener.local_addr()?.port(), std::process::id());
    let server = SERVERS.iter().find(|(name, _)| *name == contestant);
    let (_, serve) = server.ok_or("no such server")?;
    serve(listener)
}

/// Starts a server that counts the bytes it has allocated.
pub fn start_counted(contestant: &str) -> Outcome<ServerProcess> {
    let mut command = this_program()?;
    command.args(["counted server", contestant]);
    ServerProcess::start(command)
}

/// Starts the server of a contestant.
pub fn start(harness: &Harness, placed: &Placed, contestant: &str) -> Outcome<ServerProcess> {
    let mut command = if PYTHON_LOOPS.contains(&contestant) {
        harness.python_command()?
    } else {
        this_program()?
    };
    command.args(["server", contestant]);
    placed.server(|| ServerProcess::start(command))?
}

/// All that take part.
pub fn contestants(harness: &Harness) -> impl Iterator<Item = &'static str> + use<> {
    let here = SERVERS.iter().map(|(name, _)| *name);
    let here: Vec<_> = here.filter(|name| harness.takes_part(name)).collect();
    here.into_iter().chain(harness.python_loops())
}

/// The server's CPU time for a message, in nanoseconds.
pub fn cpu_of_messages(
    server: &ServerProcess,
    client: &mut Client,
    connections: usize,
    messages: u64,
) -> Outcome<f64> {
    // What the client did before may not be accounted for yet: let the server fall asleep.
    std::thread::sleep(Duration::from_millis(2));
    let before = cpu_time_of(server.pid)?;
    client.exchange(connections, messages)?;
    std::thread::sleep(Duration::from_millis(2));
    Ok(per_operation(cpu_time_of(server.pid)? - before, messages))
}

pub fn rows(harness: &mut Harness) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for cell in &CELLS {
        rows.push(row(harness, cell)?);
    }
    Ok(rows)
}

fn row(harness: &mut Harness, cell: &Cell) -> Outcome<Row> {
    let size = if cell.size == BUFFER { "16 KiB" } else { "64 B" };
    let plural = if cell.connections == 1 { "" } else { "s" };
    let title = format!("echo {size}, {} connection{plural}", cell.connections);
    let mut row = Row::new(title, Unit::Nanoseconds, cell.goals);
    let messages = if harness.quick {
        cell.messages / 5
    } else {
        cell.messages
    };
    let placed = Placed::begin(cell.connections)?;
    let mut servers = Vec::new();
    for name in contestants(harness) {
        let ready = start(harness, &placed, name).and_then(|server| {
            let mut client = Client::new(server.port, cell.size)?;
            client.connect(cell.connections)?;
            client.exchange(cell.connections, messages / 2)?; // to warm up
            Ok((name, server, client))
        });
        match ready {
            Ok(ready) => servers.push(ready),
            Err(error) => harness.note(format!("`echo`: {name} is left out: {error}")),
        }
    }
    for _ in 0..harness.rounds * TURNS {
        for (name, server, client) in &mut servers {
            let figure = cpu_of_messages(server, client, cell.connections, messages)?;
            row.add(name, figure);
        }
    }
    Ok(row)
}
