//! A trial: one workload that every contestant does by itself, in a process of its own.
//!
//! Each sample comes from a fresh child process, which does the work once to warm up and once for
//! the clock; those that only do a share of it, for being slow, do it once, and in fewer rounds. The contestants take turns, round after round, so that whatever else happens on the
//! machine hits all of them. glibc's allocator is told not to give memory back in between: whether
//! it does so inside or outside of the measured part is a matter of luck.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Harness, PYTHON_LOOPS};
use crate::processors::Placed;
use crate::report::{Goal, Row, Unit};
use crate::{Outcome, spawn};

/// A child that takes longer has lost.
const CHILD_LIMIT: Duration = Duration::from_secs(60);
/// Those that only do a share of the operations have so many turns at most.
const SLOW_ROUNDS: usize = 3;

pub struct Trial {
    /// What it is called on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    /// Operations of a contestant that does all of them.
    pub count: u64,
    pub warm_up: bool,
    /// Its threads take turns: they are given one processor, for the same reason as a client and a server
    /// with one connection.
    pub takes_turns: bool,
    pub goals: &'static [Goal],
    pub entries: &'static [Entry],
    /// The python loops do 1 of so many operations; 0: they do not take part.
    pub python_share: u64,
}

/// One contestant of a trial.
pub struct Entry {
    pub name: &'static str,
    /// It does 1 of so many operations, for being slow.
    pub share: u64,
    /// Does so many operations and gives the figure for one.
    pub run: fn(u64) -> Outcome<f64>,
}

impl Entry {
    pub const fn new(name: &'static str, run: fn(u64) -> Outcome<f64>) -> Entry {
        Entry { name, share: 1, run }
    }

    pub const fn with_share(name: &'static str, share: u64, run: fn(u64) -> Outcome<f64>) -> Entry {
        Entry { name, share, run }
    }
}

impl Trial {
    /// All rounds of all contestants, from the parent's side.
    pub fn rows(&self, harness: &mut Harness) -> Outcome<Vec<Row>> {
        let mut row = Row::new(self.title, self.unit, self.goals);
        let count = if harness.quick {
            self.count / 10
        } else {
            self.count
        };
        let mut contestants: Vec<_> = self
            .entries
            .iter()
            .map(|entry| (entry.name, entry.share))
            .collect();
        contestants.retain(|(name, _)| harness.takes_part(name));
        if self.python_share > 0 {
            contestants.extend(harness.python_loops().map(|name| (name, self.python_share)));
        }
        for &(name, share) in &contestants {
            harness.does_a_share(name, share, self.name);
        }
        let _placed = self.takes_turns.then(|| Placed::begin(1)).transpose()?;
        let slow_rounds = harness.rounds.div_ceil(2).min(SLOW_ROUNDS);
        for round in 0..harness.rounds {
            contestants.retain(|&(_, share)| share == 1 || round < slow_rounds);
            contestants.retain(|&(name, share)| {
                let sample = self.sample(harness, name, count / share, self.warm_up && share == 1);
                match sample {
                    Ok(figure) => row.add(name, figure),
                    Err(error) => {
                        harness.note(format!("`{}`: {name} is left out: {error}", self.name));
                        return false;
                    }
                }
                true
            });
        }
        Ok(vec![row])
    }

    fn sample(&self, harness: &Harness, contestant: &str, count: u64, warm_up: bool) -> Outcome<f64> {
        let mut command = if PYTHON_LOOPS.contains(&contestant) {
            harness.python_command()?
        } else {
            spawn::this_program()?
        };
        command
            .args(["trial", self.name, contestant, &count.to_string()])
            .arg(if warm_up { "warm" } else { "cold" })
            .env("MALLOC_TRIM_THRESHOLD_", "4294967296");
        let output = output_within(command, CHILD_LIMIT)?;
        Ok(output.trim().parse()?)
    }

    /// One sample, from the child's side.
    pub fn run(&self, contestant: &str, count: u64, warm_up: bool) -> Outcome<f64> {
        let entry = self.entries.iter().find(|entry| entry.name == contestant);
        let run = entry.ok_or("no such contestant")?.run;
        if warm_up {
            run(count)?;
        }
        run(count)
    }
}

/// What a command prints, which is little; it is ended if it takes longer than `limit`.
fn output_within(mut command: Command, limit: Duration) -> Outcome<String> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child.spawn()?;
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            spawn::end(&mut child);
            return Err(format!("not finished after {} s", limit.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (output, errors) = printed(&mut child)?;
    if status.success() {
        return Ok(output);
    }
    let last = errors.lines().last().unwrap_or("it failed without a word");
    Err(last.to_owned().into())
}

fn printed(child: &mut Child) -> Outcome<(String, String)> {
    let (mut output, mut errors) = (String::new(), String::new());
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut output)?;
    }
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_string(&mut errors)?;
    }
    Ok((output, errors))
}
