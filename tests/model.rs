//! Random programs of tasks and everything they can wait for, run on a real loop and compared with
//! a small model of what has to hold.
//!
//! `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more programs, or for others.

mod common;
mod support;

#[path = "model/acts.rs"]
mod acts;
#[path = "model/blocks.rs"]
mod blocks;
#[path = "model/found.rs"]
mod found;
#[path = "model/generate.rs"]
mod generate;
#[path = "model/ledger.rs"]
mod ledger;
#[path = "model/play.rs"]
mod play;
#[path = "model/program.rs"]
mod program;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/waits.rs"]
mod waits;
#[path = "model/world.rs"]
mod world;

use std::env;

use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestError, TestRunner};

use generate::Theme;
use play::play;
use program::Program;

use support::Watchdog;

/// Plays `cases` programs of this kind, each of them twice.
fn check(theme: Theme, cases: u32) {
    let mut config = Config::default();
    if env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(1);
    }
    // The default one takes most of the time where nothing is optimised.
    config.rng_algorithm = RngAlgorithm::XorShift;
    config.failure_persistence = None;
    let played = TestRunner::new(config).run(&theme.programs(), |program| {
        let _watchdog = Watchdog::start();
        fault(&program).map_or(Ok(()), |fault| Err(TestCaseError::fail(fault)))
    });
    match played {
        Ok(()) => {}
        Err(TestError::Fail(_, program)) => {
            let program = program.reduced(|program| fault(program).is_some());
            let fault = fault(&program).unwrap_or_default();
            panic!("{program:?}\n{fault}");
        }
        Err(aborted) => panic!("{aborted}"),
    }
}

/// What is wrong with this program: rules that are broken, or that it does not run alike twice.
fn fault(program: &Program) -> Option<String> {
    let first = play(program);
    if !first.broken.is_empty() {
        return Some(format!("{first:#?}"));
    }
    let second = play(program);
    (first != second).then(|| format!("played again it differs: {first:#?} {second:#?}"))
}

#[test]
fn tasks_futures_and_timers_keep_the_rules() {
    let futures = 2;
    check(
        Theme {
            futures,
            ..Theme::default()
        },
        600,
    );
}

#[test]
fn locks_keep_the_rules() {
    check(
        Theme {
            locks: 1,
            ..Theme::default()
        },
        800,
    );
}

#[test]
fn semaphores_keep_the_rules() {
    let semaphores = 1;
    check(
        Theme {
            semaphores,
            ..Theme::default()
        },
        1000,
    );
}

#[test]
fn events_keep_the_rules() {
    check(
        Theme {
            events: 1,
            ..Theme::default()
        },
        500,
    );
}

#[test]
fn conditions_keep_the_rules() {
    let conditions = 1;
    check(
        Theme {
            conditions,
            ..Theme::default()
        },
        2000,
    );
}

#[test]
fn queues_keep_the_rules() {
    check(
        Theme {
            queues: 1,
            ..Theme::default()
        },
        1000,
    );
}

#[test]
fn timeouts_groups_and_gathers_keep_the_rules() {
    let theme = Theme {
        futures: 1,
        structure: 3,
        ..Theme::default()
    };
    check(theme, 600);
}

#[test]
fn all_of_it_together_keeps_the_rules() {
    let theme = Theme {
        futures: 1,
        locks: 1,
        semaphores: 1,
        events: 1,
        conditions: 1,
        queues: 1,
        structure: 2,
    };
    check(theme, 500);
}
