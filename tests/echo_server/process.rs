//! What Linux says of a running server.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::child::{PATIENCE, Server};

impl Server {
    /// The processor time the server used so far, to the hundredth of a second.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("its state");
        // The name, in parentheses, is the second field and may hold spaces.
        let (_, after_name) = stat.rsplit_once(')').expect("a name");
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_millis(ticks * 10) // Linux shows these in hundredths on all its platforms
    }

    /// How many files and sockets the server has open.
    pub fn open_files(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.id()));
        open.expect("its open files").count()
    }

    /// Fails if the server does not get back to this many open files.
    pub fn wait_for_open_files(&self, count: usize) {
        wait_until(
            || self.open_files() == count,
            || format!("{} open files instead of {count}", self.open_files()),
        );
    }
}

/// For what another process does: looks again and again, and fails where it never comes.
pub fn wait_until(condition: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{}", otherwise());
        thread::sleep(Duration::from_millis(10));
    }
}
