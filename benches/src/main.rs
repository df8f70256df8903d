//! miniloop beside other event loops, and beside limits written by hand.
//!
//! Prints a table in Markdown and draws a chart. Each file named after a workload says at its head
//! what is measured and what its limit is; the contestants' functions stand in it side by side.
//! Every contestant does the same work in one thread with its default settings, written the way its
//! own documentation recommends.

mod callbacks;
mod chain;
mod chart;
mod counting;
mod echo;
mod harness;
mod idle;
mod lateness;
mod meter;
mod options;
mod processors;
mod report;
mod spawn;
mod system_calls;
mod tasks;
mod thread_wakes;
mod timeouts;
mod timers_cancel;
mod timers_fire;
mod trial;
mod wakes;
mod work;
mod yields;

use std::time::Instant;

use harness::Harness;
use options::Options;
use report::Row;
use trial::Trial;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

enum Workload {
    Trial(&'static Trial),
    /// One that is measured from outside, with servers in child processes.
    Served(&'static str, fn(&mut Harness) -> Outcome<Vec<Row>>),
}

const WORKLOADS: [Workload; 16] = [
    Workload::Trial(&callbacks::TRIAL),
    Workload::Trial(&chain::ALONE),
    Workload::Trial(&chain::BESIDE_A_SOCKET),
    Workload::Trial(&timers_fire::TRIAL),
    Workload::Trial(&timers_cancel::AT_ONCE),
    Workload::Trial(&timers_cancel::LATER),
    Workload::Trial(&tasks::TRIAL),
    Workload::Trial(&yields::TRIAL),
    Workload::Trial(&timeouts::TRIAL),
    Workload::Trial(&wakes::TRIAL),
    Workload::Trial(&thread_wakes::SINGLE),
    Workload::Trial(&thread_wakes::BURSTS),
    Workload::Trial(&lateness::TRIAL),
    Workload::Served("echo", echo::rows),
    Workload::Served("idle", idle::rows),
    Workload::Served("system_calls", system_calls::rows),
];

impl Workload {
    fn name(&self) -> &'static str {
        match self {
            Workload::Trial(trial) => trial.name,
            Workload::Served(name, _) => name,
        }
    }

    fn rows(&self, harness: &mut Harness) -> Outcome<Vec<Row>> {
        match self {
            Workload::Trial(trial) => trial.rows(harness),
            Workload::Served(_, rows) => rows(harness),
        }
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq(spawn::CHILD).is_some() {
        let arguments: Vec<_> = arguments.collect();
        return child(&arguments);
    }
    let names: Vec<_> = WORKLOADS.iter().map(Workload::name).collect();
    let Some(options) = Options::parse(arguments, &names)? else {
        print!("{}", options::help(&names));
        return Ok(());
    };
    let mut harness = Harness::new(&options);
    let mut rows = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| options.wants(workload.name())) {
        eprint!("{} ... ", workload.name());
        let start = Instant::now();
        match workload.rows(&mut harness) {
            Ok(more) => rows.extend(more),
            Err(error) => harness.note(format!("`{}` is left out: {error}", workload.name())),
        }
        eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    }
    print!("{}", report::markdown(&rows, &harness));
    if let Some(path) = &options.svg {
        std::fs::write(path, chart::svg(&rows))?;
    }
    Ok(())
}

/// This program in a child process.
fn child(arguments: &[String]) -> Outcome<()> {
    spawn::end_with_parent()?;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["trial", name, contestant, count, warm_up] => {
            let trial = WORKLOADS.iter().find_map(|workload| match workload {
                Workload::Trial(trial) if trial.name == name => Some(trial),
                _ => None,
            });
            let trial = trial.ok_or("no such trial")?;
            println!("{}", trial.run(contestant, count.parse()?, warm_up == "warm")?);
            Ok(())
        }
        ["server", contestant] => echo::serve(contestant),
        ["counted server", contestant] => {
            counting::start();
            echo::serve(contestant)
        }
        _ => Err("no such role".into()),
    }
}
