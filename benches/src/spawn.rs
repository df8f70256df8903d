//! Child processes: this program again, in another role.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

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
    answers: BufReader<ChildStdout>,
    /// Not the child's if that is a tracer.
    pub pid: u32,
    pub port: u16,
}

impl ServerProcess {
    /// Starts a server that prints its port and its process id in one line.
    pub fn start(mut command: Command) -> Outcome<ServerProcess> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let mut server = ServerProcess {
            child,
            answers: BufReader::new(stdout),
            pid: 0,
            port: 0,
        };
        (server.port, server.pid) = server.read_announcement()?;
        Ok(server)
    }

    fn read_announcement(&mut self) -> Outcome<(u16, u32)> {
        let line = self.read_line()?;
        let mut words = line.split_whitespace();
        let (port, pid) = (words.next(), words.next());
        let no_port = || "it does not say on which port it listens";
        Ok((
            port.ok_or_else(no_port)?.parse()?,
            pid.ok_or_else(no_port)?.parse()?,
        ))
    }

    fn read_line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }

    /// How many allocated bytes are alive in a server that counts them.
    pub fn live_bytes(&mut self) -> Outcome<f64> {
        let questions = self.child.stdin.as_mut().ok_or("no standard input")?;
        questions.write_all(b"\n")?;
        Ok(self.read_line()?.trim().parse()?)
    }

    /// Ends the server itself, and waits for the tracer, which ends with it.
    pub fn end_traced(mut self) -> Outcome<()> {
        let pid = rustix::process::Pid::from_raw(self.pid as i32).ok_or("no process id")?;
        rustix::process::kill_process(pid, Signal::KILL)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
