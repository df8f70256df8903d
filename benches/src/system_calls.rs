//! System calls for an echoed message.
//!
//! One connection, 64 B, the servers of `echo.rs` under `strace`; each message comes when the server
//! has fallen asleep. Measured: the calls that the server makes for 200 messages more, divided by
//! them. Limit: raw epoll, which waits, receives and sends.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::echo::client::Client;
use crate::echo::{MINILOOP_ASYNC, SERVERS};
use crate::harness::Harness;
use crate::report::{Goal, MINILOOP, Row, Unit};
use crate::spawn::{CHILD, ServerProcess};

const MESSAGES: u64 = 100;
const SIZE: usize = 64;

static GOALS: [Goal; 2] = [
    Goal::new(MINILOOP, "callbacks", 3.05),
    Goal::new(MINILOOP_ASYNC, "async", 3.05),
];

pub fn rows(harness: &mut Harness) -> Outcome<Vec<Row>> {
    let version = Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Err("there is no strace".into());
    }
    let mut row = Row::new("system calls for a message, 1 connection", Unit::Calls, &GOALS);
    for (name, _) in SERVERS
        .into_iter()
        .filter(|(name, _)| harness.takes_part(name))
        .collect::<Vec<_>>()
    {
        match calls_of_server(name, 3 * MESSAGES)
            .and_then(|more| Ok((more, calls_of_server(name, MESSAGES)?)))
        {
            Ok((more, fewer)) => row.add(name, (more as f64 - fewer as f64) / (2 * MESSAGES) as f64),
            Err(error) => harness.note(format!("`system_calls`: {name} is left out: {error}")),
        }
    }
    Ok(vec![row])
}

/// All calls of a server that lives for so many messages.
fn calls_of_server(contestant: &str, messages: u64) -> Outcome<usize> {
    let trace = std::env::temp_dir().join(format!("miniloop-benches-{}.strace", std::process::id()));
    let calls = traced(contestant, messages, &trace);
    // It is not there if strace did not start.
    let _ = fs::remove_file(&trace);
    calls
}

fn traced(contestant: &str, messages: u64, trace: &Path) -> Outcome<usize> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(trace);
    command
        .arg(std::env::current_exe()?)
        .args([CHILD, "server", contestant]);
    let server = ServerProcess::start(command)?;
    let mut client = Client::new(server.port, SIZE)?;
    client.connect(1)?;
    for _ in 0..messages {
        client.exchange(1, 1)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    server.end_traced()?;
    let lines = fs::read_to_string(trace)?;
    // A call that another thread's interrupted in the trace is told in two lines.
    Ok(lines.lines().filter(|line| !line.contains("resumed>")).count())
}
