//! An end for tests that could hang.

use std::io::{self, Write};
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How long a test may hang before its watchdog ends the process.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the process if the test that holds it hangs; dropping it calls it off.
#[must_use]
pub struct Watchdog {
    _call_off: mpsc::Sender<()>,
}

impl Watchdog {
    pub fn start() -> Self {
        let name = thread::current().name().unwrap_or("a test").to_owned();
        let (call_off, called_off) = mpsc::channel::<()>();
        thread::spawn(move || {
            if called_off.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // Not `eprintln!`: the harness would keep that, and then be gone.
                let _ = writeln!(io::stderr(), "{name}: hangs since {PATIENCE:?}, giving up");
                process::abort();
            }
        });
        Watchdog { _call_off: call_off }
    }
}
