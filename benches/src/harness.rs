//! What a run was asked to do, and what it has to say beside its figures.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::options::Options;
use crate::report::{LIMIT, MINILOOP};

/// The loops that need a python, by the names that `loops.py` knows.
pub const PYTHON_LOOPS: [&str; 2] = ["asyncio", "uvloop"];

pub struct Harness {
    pub rounds: usize,
    pub quick: bool,
    /// None: all of them.
    contestants: Vec<String>,
    python: PathBuf,
    python_loops: Vec<&'static str>,
    /// A contestant that does 1 of so many operations, and the workloads in which it does.
    shares: Vec<(&'static str, u64, Vec<&'static str>)>,
    notes: Vec<String>,
}

impl Harness {
    pub fn new(options: &Options) -> Harness {
        let mut harness = Harness {
            rounds: options.rounds,
            quick: options.quick,
            contestants: options.contestants.clone(),
            python: options.python.clone(),
            python_loops: Vec::new(),
            shares: Vec::new(),
            notes: Vec::new(),
        };
        let wanted = PYTHON_LOOPS.into_iter().filter(|name| harness.takes_part(name));
        for name in wanted.collect::<Vec<_>>() {
            if harness.can_import(name) {
                harness.python_loops.push(name);
            } else {
                harness.note(format!(
                    "{name} is left out: `{}` can not import it.",
                    harness.python.display()
                ));
            }
        }
        harness
    }

    /// Whether a contestant was asked for.
    pub fn takes_part(&self, contestant: &str) -> bool {
        let own = contestant == LIMIT || contestant.starts_with(MINILOOP);
        own || self.contestants.is_empty() || self.contestants.iter().any(|name| name == contestant)
    }

    /// Those of [`PYTHON_LOOPS`] that run here.
    pub fn python_loops(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.python_loops.clone().into_iter()
    }

    /// `loops.py`, to be given its arguments.
    pub fn python_command(&self) -> Outcome<Command> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("loops.py");
        let mut command = Command::new(&self.python);
        command.arg(script);
        Ok(command)
    }

    fn can_import(&self, module: &str) -> bool {
        let mut command = Command::new(&self.python);
        command.args(["-c", &format!("import {module}")]);
        let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Adds a line to what is printed below the table, once.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            eprintln!("note: {note}");
            self.notes.push(note);
        }
    }

    /// Remembers that a contestant is too slow to do all of a workload; 1: it is not.
    pub fn does_a_share(&mut self, contestant: &'static str, share: u64, workload: &'static str) {
        if share == 1 {
            return;
        }
        let known = self
            .shares
            .iter_mut()
            .find(|(name, of, _)| (*name, *of) == (contestant, share));
        match known {
            Some((.., workloads)) => workloads.push(workload),
            None => self.shares.push((contestant, share, vec![workload])),
        }
    }

    /// The same in words.
    pub fn shares(&self) -> Vec<String> {
        let told = |(contestant, share, workloads): &(&str, u64, Vec<&str>)| {
            format!(
                "{contestant}, for its slowness, did 1 of {share} operations in `{}`.",
                workloads.join("`, `")
            )
        };
        self.shares.iter().map(told).collect()
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
