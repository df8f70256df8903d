//! Where client and server run, and two threads that take turns.
//!
//! Left to the system, the two share a processor at times and at times do not, and at one connection
//! that makes a message several times as dear: then the figures would tell of luck. So with one
//! connection, where they take turns, they share one, for to wake an idle processor for each message
//! would cost ten times what a server does; with many connections each has one of its own.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Outcome;

/// Those that this process may use.
fn ours() -> Outcome<&'static CpuSet> {
    static OURS: OnceLock<CpuSet> = OnceLock::new();
    Ok(match OURS.get() {
        Some(ours) => ours,
        None => {
            let ours = sched_getaffinity(None)?;
            OURS.get_or_init(|| ours)
        }
    })
}

/// Has this process, and what it starts, run on one processor.
fn stay_on(processor: usize) -> Outcome<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

/// This process stays on one processor for as long as this lives.
pub struct Placed {
    client: usize,
    server: usize,
}

impl Placed {
    /// With so many connections.
    pub fn begin(connections: usize) -> Outcome<Placed> {
        let ours = ours()?;
        let mut all = (0..CpuSet::MAX_CPU).filter(|processor| ours.is_set(*processor));
        let client = all.next().ok_or("there is no processor")?;
        let other = all.next_back().filter(|_| connections > 1);
        stay_on(client)?;
        Ok(Placed {
            client,
            server: other.unwrap_or(client),
        })
    }

    /// Starts a server where it belongs.
    pub fn server<R>(&self, start: impl FnOnce() -> R) -> Outcome<R> {
        stay_on(self.server)?;
        let started = start();
        stay_on(self.client)?;
        Ok(started)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Ok(ours) = ours() {
            // It worked before.
            let _ = sched_setaffinity(None, ours);
        }
    }
}
