//! The recorded traces, how a scenario is played against one, and who is missing.

use std::ops::Deref;
use std::rc::Rc;

use miniloop::{EventLoop, FakeClock, Result};
use serde_json::Value;

use crate::common::{Trace, virtual_loop};

/// A scenario's name, and what plays it and gives its trace.
pub type Scenario = (&'static str, fn() -> Vec<String>);

/// The ported scenarios of one area.
pub struct Area {
    pub name: &'static str,
    pub scenarios: &'static [Scenario],
}

/// A loop under the virtual clock. Clones share it, for what runs or closes it from inside.
#[derive(Clone)]
pub struct VirtualLoop {
    event_loop: Rc<EventLoop>,
    pub clock: FakeClock,
}

impl Deref for VirtualLoop {
    type Target = EventLoop;

    fn deref(&self) -> &EventLoop {
        &self.event_loop
    }
}

fn new_loop() -> VirtualLoop {
    let (event_loop, clock) = virtual_loop();
    VirtualLoop {
        event_loop: Rc::new(event_loop),
        clock,
    }
}

/// Plays a scenario that runs the loop itself. The trace ends when it returns.
pub fn play_call(scenario: fn(&VirtualLoop, &Trace)) -> Vec<String> {
    let (event_loop, trace) = (new_loop(), Trace::new());
    scenario(&event_loop, &trace);
    trace.lines()
}

/// Plays a scenario that is the main task of a fresh loop.
pub fn play_main<F>(scenario: fn(Trace) -> F) -> Vec<String>
where
    F: std::future::Future<Output = Result<()>> + 'static,
{
    let (event_loop, trace) = (new_loop(), Trace::new());
    let ended = event_loop.run_until_complete(scenario(trace.clone()));
    let lines = trace.lines();
    assert!(ended.is_ok(), "an error escaped: {ended:?}, after {lines:?}");
    lines
}

/// Compares the trace of a scenario with the recorded one, line by line.
pub fn check(area: &Area, name: &str) {
    let (_, play) = area
        .scenarios
        .iter()
        .find(|(known, _)| *known == name)
        .expect("the scenario stands in the table of its area");
    let recorded = recorded()
        .into_iter()
        .find(|entry| entry.name == name && entry.area == area.name)
        .expect("the scenario is recorded in this area");
    assert_eq!(play(), recorded.trace, "{name}: ours, then the recorded");
}

/// What is wrong with the lists: scenarios in neither or both, and names nobody recorded.
pub fn accounts(areas: &[Area], left_out: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut listed: Vec<&str> = left_out.iter().map(|(name, _)| *name).collect();
    for (name, reason) in left_out {
        if reason.is_empty() {
            wrong.push(format!("{name} is left out without a reason"));
        }
    }

    let recorded = recorded();
    for area in areas {
        let of_area = |name: &str| {
            let same = |entry: &&Recorded| entry.name == name && entry.area == area.name;
            recorded.iter().find(same)
        };
        for (name, _) in area.scenarios {
            listed.push(name);
            if of_area(name).is_none() {
                wrong.push(format!("{name} is not a scenario of area {}", area.name));
            }
        }
    }

    let mut wanted: Vec<&str> = recorded
        .iter()
        .filter(|entry| areas.iter().any(|area| area.name == entry.area))
        .map(|entry| entry.name.as_str())
        .collect();
    wanted.sort_unstable();
    listed.sort_unstable();
    for name in &wanted {
        match listed.iter().filter(|listed| *listed == name).count() {
            0 => wrong.push(format!("{name} is neither ported nor left out")),
            1 => {}
            _ => wrong.push(format!("{name} is listed more than once")),
        }
    }
    for name in listed.iter().filter(|name| !wanted.contains(name)) {
        wrong.push(format!("{name} was not recorded in these areas"));
    }
    wrong
}

struct Recorded {
    name: String,
    area: String,
    trace: Vec<String>,
}

fn recorded() -> Vec<Recorded> {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let entries: Vec<Value> =
        serde_json::from_str(include_str!("../traces.json")).expect("a list of scenarios");
    entries
        .iter()
        .map(|entry| Recorded {
            name: text(&entry["name"]),
            area: text(&entry["area"]),
            trace: entry["trace"]
                .as_array()
                .expect("a list of lines")
                .iter()
                .map(text)
                .collect(),
        })
        .collect()
}

#[test]
fn accounts_find_what_is_missing_doubled_or_unknown() {
    let area = Area {
        name: "sleep",
        scenarios: &[("zero_sleep_is_one_tick", Vec::new), ("made_up", Vec::new)],
    };
    let left_out = [
        ("zero_sleep_is_one_tick", "later"),
        ("sleepers_wake_by_duration", ""),
    ];
    assert_eq!(
        accounts(&[area], &left_out),
        [
            "sleepers_wake_by_duration is left out without a reason",
            "made_up is not a scenario of area sleep",
            "equal_sleeps_wake_in_start_order is neither ported nor left out",
            "sleep_wakes_one_tick_after_its_timer is neither ported nor left out",
            "zero_sleep_is_one_tick is listed more than once",
            "made_up was not recorded in these areas",
        ]
    );
}
