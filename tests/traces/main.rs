//! The recorded asyncio scenarios: each leaves the trace that asyncio left.
//!
//! `tests/traces.json` holds what CPython 3.13 recorded under a virtual clock,
//! and one module for each area holds the scenarios in Rust, under the same names.

#[path = "../common/mod.rs"]
mod common;

/// Turns the scenarios of a module into its table `PORTED` and one test for each entry.
///
/// `calls` are given a loop that is not running and run it themselves; `mains` are
/// the main task of `run_until_complete`.
macro_rules! scenarios {
    (area: $area:literal, calls: [$($call:ident),* $(,)?], mains: [$($main:ident),* $(,)?] $(,)?) => {
        pub const PORTED: $crate::registry::Area = $crate::registry::Area {
            name: $area,
            scenarios: &[
                $((stringify!($call), || $crate::registry::play_call($call)),)*
                $((stringify!($main), || $crate::registry::play_main($main)),)*
            ],
        };

        mod tests {
            $(#[test] fn $call() { $crate::registry::check(&super::PORTED, stringify!($call)); })*
            $(#[test] fn $main() { $crate::registry::check(&super::PORTED, stringify!($main)); })*
        }
    };
}

mod barrier;
mod callbacks;
mod cancellation;
mod condition;
mod event;
mod exceptions;
mod futures;
mod gather;
mod locks;
mod queue;
mod readers_writers;
mod registry;
mod run_until_complete;
mod semaphore;
mod shield;
mod shutdown;
mod sleep;
mod sockets;
mod taskgroup;
mod tasks;
mod threadsafe;
mod timeout;
mod timers;
mod wait;
mod wait_for;

/// The areas whose scenarios are ported.
const AREAS: &[registry::Area] = &[
    callbacks::PORTED,
    timers::PORTED,
    futures::PORTED,
    tasks::PORTED,
    cancellation::PORTED,
    sleep::PORTED,
    gather::PORTED,
    wait::PORTED,
    shield::PORTED,
    run_until_complete::PORTED,
    sockets::PORTED,
    readers_writers::PORTED,
    threadsafe::PORTED,
    exceptions::PORTED,
    shutdown::PORTED,
    timeout::PORTED,
    wait_for::PORTED,
    taskgroup::PORTED,
    queue::PORTED,
    locks::PORTED,
    event::PORTED,
    condition::PORTED,
    semaphore::PORTED,
    barrier::PORTED,
];

/// The scenarios of those areas that are not ported, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("coroutine_from_a_thread", "later: run_coroutine_threadsafe"),
    ("blocking_socket_in_debug_mode", "later: debug mode"),
    ("slow_callback_in_debug_mode", "later: debug mode"),
];

#[test]
fn every_scenario_is_either_ported_or_left_out_with_a_reason() {
    let wrong = registry::accounts(AREAS, LEFT_OUT);
    assert!(wrong.is_empty(), "{wrong:#?}");
}
