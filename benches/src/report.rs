//! The table: a line for each workload and form of miniloop, a column for each contestant.

use std::fmt::Write;

use crate::harness::Harness;

/// The contestant that is written by hand and does no more than the workload asks for.
pub const LIMIT: &str = "limit";
pub const MINILOOP: &str = "miniloop";
/// The other columns.
pub const PEERS: [&str; 7] = ["tokio", "smol", "monoio", "calloop", "mio", "asyncio", "uvloop"];

/// In what a workload is measured, and so how it is told.
#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    /// Of one operation; told as multiples of the limit.
    Nanoseconds,
    // These are told as they are.
    Milliseconds,
    Bytes,
    Calls,
    /// With something beside without it.
    Times,
}

/// What one form of miniloop has to reach.
pub struct Goal {
    /// The contestant's name in the row; it begins with [`MINILOOP`].
    pub entry: &'static str,
    /// Said after the row's title.
    pub form: &'static str,
    /// In multiples of the limit, or in the row's unit.
    pub most: f64,
    /// A contestant that must not be ahead.
    pub not_behind: Option<&'static str>,
}

impl Goal {
    pub const fn new(entry: &'static str, form: &'static str, most: f64) -> Goal {
        Goal {
            entry,
            form,
            most,
            not_behind: None,
        }
    }

    /// A line that is told, and has nothing to reach.
    pub const fn none(entry: &'static str, form: &'static str) -> Goal {
        Goal::new(entry, form, f64::INFINITY)
    }
}

/// All samples of one workload.
pub struct Row {
    title: String,
    unit: Unit,
    goals: &'static [Goal],
    samples: Vec<(&'static str, Vec<f64>)>,
}

impl Row {
    pub fn new(title: impl Into<String>, unit: Unit, goals: &'static [Goal]) -> Row {
        Row {
            title: title.into(),
            unit,
            goals,
            samples: Vec::new(),
        }
    }

    pub fn add(&mut self, contestant: &'static str, sample: f64) {
        match self.samples.iter_mut().find(|(name, _)| *name == contestant) {
            Some((_, samples)) => samples.push(sample),
            None => self.samples.push((contestant, vec![sample])),
        }
    }

    fn samples(&self, contestant: &str) -> Option<&[f64]> {
        let (_, samples) = self.samples.iter().find(|(name, _)| *name == contestant)?;
        Some(samples)
    }

    fn median(&self, contestant: &str) -> Option<f64> {
        median(self.samples(contestant)?.to_vec())
    }

    /// The median as it is told: of the multiples of what the limit took in the same round, so that it
    /// does not matter if the machine is slower in one than in another; or of the samples themselves.
    pub fn figure(&self, contestant: &str) -> Option<f64> {
        let samples = self.samples(contestant)?;
        match self.unit {
            Unit::Nanoseconds => {
                let rounds = samples.iter().zip(self.samples(LIMIT)?);
                median(rounds.map(|(sample, limit)| sample / limit).collect())
            }
            _ => self.median(contestant),
        }
    }

    /// Half of the range that the middle half of the samples are in, in percent of the median.
    fn spread(&self, contestant: &str) -> Option<f64> {
        let mut sorted = self.samples(contestant)?.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quarter = sorted.len() / 4;
        let range = sorted[sorted.len() - 1 - quarter] - sorted[quarter];
        Some(range / 2.0 / self.median(contestant)? * 100.0)
    }

    fn told(&self, contestant: &str) -> String {
        let Some(figure) = self.figure(contestant) else {
            return "".into();
        };
        match self.unit {
            Unit::Nanoseconds if figure < 10.0 => format!("{figure:.2}"),
            Unit::Nanoseconds => format!("{figure:.0}"),
            unit => measure(unit, figure),
        }
    }

    /// The limit with its unit and spread.
    fn limit(&self) -> String {
        match (self.median(LIMIT), self.spread(LIMIT)) {
            (Some(median), Some(spread)) => format!("{} ± {spread:.0} %", measure(self.unit, median)),
            _ => String::new(),
        }
    }

    fn verdict(&self, goal: &Goal) -> String {
        let Some(figure) = self.figure(goal.entry) else {
            return "not measured".into();
        };
        if goal.most.is_infinite() {
            return String::new();
        }
        let mut faults = Vec::new();
        if figure > goal.most {
            faults.push(format!("+{:.0} %", (figure / goal.most - 1.0) * 100.0));
        }
        if let Some(peer) = goal.not_behind
            && let Some(ahead) = self.figure(peer)
            && ahead < figure
        {
            faults.push(format!("behind {peer}"));
        }
        if faults.is_empty() {
            "yes".into()
        } else {
            format!("no, {}", faults.join(", "))
        }
    }

    /// The title of a line.
    fn title_of(&self, goal: &Goal) -> String {
        match goal.form {
            "" => self.title.clone(),
            form => format!("{}, {form}", self.title),
        }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// One for each form of miniloop.
    pub fn goals(&self) -> &'static [Goal] {
        self.goals
    }

    pub fn unit(&self) -> Unit {
        self.unit
    }
}

/// `None` of nothing.
fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() % 2 {
        0 => Some((samples.get(middle.checked_sub(1)?)? + samples[middle]) / 2.0),
        _ => Some(samples[middle]),
    }
}

/// A figure with its unit.
pub fn measure(unit: Unit, figure: f64) -> String {
    match unit {
        Unit::Nanoseconds if figure >= 1e6 => format!("{:.1} ms", figure / 1e6),
        Unit::Nanoseconds if figure >= 1e3 => format!("{:.1} µs", figure / 1e3),
        Unit::Nanoseconds => format!("{figure:.1} ns"),
        Unit::Milliseconds => format!("{figure:.3} ms"),
        Unit::Bytes if figure >= 1e4 => format!("{:.1} kB", figure / 1e3),
        Unit::Bytes => format!("{figure:.0} B"),
        Unit::Calls => format!("{figure:.2}"),
        Unit::Times => format!("{figure:.3} ×"),
    }
}

/// The whole table in Markdown, with its notes.
pub fn markdown(rows: &[Row], harness: &Harness) -> String {
    let peers: Vec<_> = PEERS
        .into_iter()
        .filter(|peer| rows.iter().any(|row| row.median(peer).is_some()))
        .collect();
    let mut text = format!(
        "| workload | limit | miniloop | goal | met | {} |\n",
        peers.join(" | ")
    );
    text += &format!("|---|---|---|---|---|{}\n", "---|".repeat(peers.len()));
    for row in rows {
        for goal in row.goals {
            let most = match row.unit {
                _ if goal.most.is_infinite() => String::new(),
                Unit::Nanoseconds => goal.most.to_string(),
                unit => measure(unit, goal.most),
            };
            let told: Vec<_> = peers.iter().map(|peer| row.told(peer)).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {most} | {} | {} |",
                row.title_of(goal),
                row.limit(),
                row.told(goal.entry),
                row.verdict(goal),
                told.join(" | ")
            );
        }
    }
    let _ = write!(
        text,
        "\nMedians of {} rounds in which the contestants took turns. Plain numbers are multiples of the limit's \
         time in the same round; the limit is told for one operation, with half the interquartile range of its \
         rounds. A round of an echo has three turns.\n",
        harness.rounds
    );
    for note in harness.shares().iter().chain(harness.notes()) {
        let _ = writeln!(text, "* {note}");
    }
    text
}
