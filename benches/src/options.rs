//! The command line.

use std::path::PathBuf;

use crate::Outcome;
use crate::report::PEERS;

pub struct Options {
    /// None: all of them.
    workloads: Vec<String>,
    /// The same.
    pub contestants: Vec<String>,
    pub rounds: usize,
    pub quick: bool,
    pub svg: Option<PathBuf>,
    pub python: PathBuf,
}

const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;

impl Options {
    /// Nothing if only help is wanted.
    pub fn parse(
        mut arguments: impl Iterator<Item = String>,
        workloads: &[&'static str],
    ) -> Outcome<Option<Options>> {
        let mut options = Options {
            workloads: Vec::new(),
            contestants: Vec::new(),
            rounds: 0,
            quick: false,
            svg: None,
            python: "python3".into(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--workloads" => options.workloads.extend(value()?.split(',').map(String::from)),
                "--contestants" => options.contestants.extend(value()?.split(',').map(String::from)),
                "--rounds" => options.rounds = value()?.parse()?,
                "--quick" => options.quick = true,
                "--svg" => options.svg = Some(value()?.into()),
                "--python" => options.python = value()?.into(),
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("{argument} is not known; --help tells what is").into()),
            }
        }
        let unknown = options
            .workloads
            .iter()
            .find(|name| !workloads.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(format!("there is no workload {name}; --help names them").into());
        }
        let unknown = options
            .contestants
            .iter()
            .find(|name| !PEERS.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(format!("there is no contestant {name}; --help names them").into());
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS };
        }
        Ok(Some(options))
    }

    pub fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == workload)
    }
}

pub fn help(workloads: &[&'static str]) -> String {
    format!(
        "cargo run --release --manifest-path benches/Cargo.toml -- [OPTIONS]\n\n\
         --workloads A,B   only these, of: {}\n\
         --contestants A,B only these, of: {}; the limit and miniloop always take part\n\
         --rounds N        how often each contestant has its turn ({ROUNDS}; {QUICK_ROUNDS} if quick)\n\
         --quick           a tenth of the load; to try things, not to compare by\n\
         --svg PATH        draws the chart\n\
         --python PATH     the python that has asyncio and perhaps uvloop (python3)\n",
        workloads.join(", "),
        PEERS.join(", ")
    )
}
