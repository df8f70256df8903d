//! Child processes: this program again, in another role.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Outcome;

/// The first argument of a child.
pub const CHILD: &str = "--child";

pub fn this_program() -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD);
    Ok(command)
}

/// Called first in a child: it ends with its parent, whatever happens to that one.
pub fn end_with_parent() -> Outcome<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Ends a child and waits until it is gone.
pub fn end(child: &mut Child) {
    // An error of either says that it is gone already.
    let _ = child.kill();
    let _ = child.wait();
}

/// A server in a child process, which is ended when this is dropped.
pub struct ServerProcess {
    child: Child,
    /// Not the child's if that is a tracer.
    pub pid: u32,
    pub port: u16,
}

impl ServerProcess {
    /// Starts a server that prints its port and its process id in one line.
    pub fn start(mut command: Command) -> Outcome<ServerProcess> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        match read_announcement(&mut child) {
            Ok((port, pid)) => Ok(ServerProcess { child, pid, port }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// Ends the server itself, and waits for the tracer, which ends with it.
    pub fn end_traced(mut self) -> Outcome<()> {
        let pid = rustix::process::Pid::from_raw(self.pid as i32).ok_or("no process id")?;
        rustix::process::kill_process(pid, Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }
}

fn read_announcement(child: &mut Child) -> Outcome<(u16, u32)> {
    let stdout = child.stdout.take().ok_or("no standard output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (port, pid) = (words.next(), words.next());
    let no_port = || "it does not say on which port it listens";
    Ok((
        port.ok_or_else(no_port)?.parse()?,
        pid.ok_or_else(no_port)?.parse()?,
    ))
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
