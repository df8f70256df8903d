//! What the test targets share: the trace and its words, probes, sockets.
//!
//! The helpers carry the names they have in the recorded asyncio scenarios.

// Each test target uses a part of this.
#![allow(dead_code, unused_imports)]

mod log_capture;
mod probes;
mod sockets;
mod words;

pub use log_capture::{LogCapture, capture_log, logged};
pub use probes::{
    START, Trace, elapsed, raise, run_for, stopper, ticks, ticks_named, virtual_loop, watch, yields,
};
pub use sockets::{Stream, listener, pair, pair_small, recv, send, stream_pair};
pub use words::{Boom, Show, attempt, error_kind, outcome, state, word};
