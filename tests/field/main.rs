//! Situations met by people who run other event loops, each as a test here.
//!
//! A test is named after what it shows; `field: BR-NN` above it is the number of
//! its case in the project's collection. Every case stands for a kind of fault,
//! so most of them are shown in several variants.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/mod.rs"]
mod faults;
mod support;

#[cfg(unix)]
mod accepting;
mod clock;
mod connecting;
mod control;
mod descriptors;
mod futures;
mod gathering;
mod intervals;
mod lifetimes;
mod panics;
mod permits;
mod queues;
mod reentrancy;
#[cfg(unix)]
mod reuse;
mod sockets;
mod structure;
mod threads;
mod timers;
mod wakers;
