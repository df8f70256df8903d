//! Ten thousand idle connections.
//!
//! Three lines. *Memory*: how much the memory of an echo server (see `echo.rs`) that is in RAM grows
//! by each connection that has sent nothing; what the kernel holds for sockets is not in it. Limit:
//! the table of the server over raw epoll. *Allocated*: the same counted by the allocator, in
//! another server that is asked before and after: tables that grow by doubling count in full. What
//! miniloop's server in callback form itself keeps for a client is left out; a task's variables are
//! not. The python loops are not counted. *Echo beside them*: its CPU time for a message over 50
//! connections beside the idle ones, as a multiple of that over 50 connections alone, to two
//! servers by turns. The server of a contestant has both measured before the next one starts.

use crate::Outcome;
use crate::echo::client::Client;
use crate::echo::{MINILOOP_ASYNC, contestants, cpu_of_messages, start, start_counted};
use crate::harness::{Harness, PYTHON_LOOPS};
use crate::meter::resident_bytes;
use crate::processors::Placed;
use crate::report::{Goal, MINILOOP, Row, Unit};

const IDLE: usize = 10_000;
const ACTIVE: usize = 50;
const MESSAGES: u64 = 20_000;
const SIZE: usize = 64;

static MEMORY_GOALS: [Goal; 2] = [
    Goal::none(MINILOOP, "callbacks"),
    Goal::none(MINILOOP_ASYNC, "async"),
];
static ALLOCATED_GOALS: [Goal; 2] = [
    Goal::new(MINILOOP, "callbacks", 200.0),
    Goal::new(MINILOOP_ASYNC, "async", 450.0),
];
static ECHO_GOALS: [Goal; 2] = [
    Goal::new(MINILOOP, "callbacks", 1.03),
    Goal::new(MINILOOP_ASYNC, "async", 1.03),
];

pub fn rows(harness: &mut Harness) -> Outcome<Vec<Row>> {
    let placed = Placed::begin(ACTIVE)?;
    let idle = if harness.quick { IDLE / 10 } else { IDLE };
    let mut memory = Row::new(
        format!("memory of one of {idle} idle connections"),
        Unit::Bytes,
        &MEMORY_GOALS,
    );
    let mut allocated = Row::new(
        format!("allocated for one of {idle} idle connections"),
        Unit::Bytes,
        &ALLOCATED_GOALS,
    );
    let mut echo = Row::new(
        format!("echo over {ACTIVE} beside {idle} idle ones"),
        Unit::Times,
        &ECHO_GOALS,
    );
    for name in contestants(harness) {
        let measured = contestant(harness, &placed, name, idle, &mut memory, &mut echo).and_then(|()| {
            if !PYTHON_LOOPS.contains(&name) {
                allocated.add(name, allocated_for_each(name, idle)?);
            }
            Ok(())
        });
        if let Err(error) = measured {
            harness.note(format!("`idle`: {name} is left out: {error}"));
        }
    }
    Ok(vec![memory, allocated, echo])
}

fn allocated_for_each(name: &str, idle: usize) -> Outcome<f64> {
    let mut server = start_counted(name)?;
    let mut client = Client::new(server.port, SIZE)?;
    client.connect(ACTIVE)?;
    client.exchange(ACTIVE, MESSAGES / 10)?;
    let before = server.live_bytes()?;
    client.connect(idle)?;
    Ok((server.live_bytes()? - before) / idle as f64)
}

fn contestant(
    harness: &Harness,
    placed: &Placed,
    name: &'static str,
    idle: usize,
    memory: &mut Row,
    echo: &mut Row,
) -> Outcome<()> {
    let messages = if harness.quick { MESSAGES / 10 } else { MESSAGES };
    // The active connections come first and have their buffers before the idle ones are counted.
    let with_active = || -> Outcome<_> {
        let server = start(harness, placed, name)?;
        let mut client = Client::new(server.port, SIZE)?;
        client.connect(ACTIVE)?;
        client.exchange(ACTIVE, messages / 2)?;
        Ok((server, client))
    };
    let (alone, mut client_alone) = with_active()?;
    let (beside, mut client_beside) = with_active()?;
    let before = resident_bytes(beside.pid)?;
    client_beside.connect(idle)?;
    memory.add(name, (resident_bytes(beside.pid)? - before) / idle as f64);
    for _ in 0..harness.rounds {
        let without = cpu_of_messages(&alone, &mut client_alone, ACTIVE, messages)?;
        let with = cpu_of_messages(&beside, &mut client_beside, ACTIVE, messages)?;
        echo.add(name, with / without);
    }
    Ok(())
}
