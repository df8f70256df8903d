//! Client and server on processors of their own.
//!
//! Left to the system, the two share a processor at times and at times do not, and at one connection
//! that triples what a message costs: then the figures would tell of luck.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Outcome;

/// Those that this process may use.
fn ours() -> Outcome<&'static CpuSet> {
    static OURS: OnceLock<CpuSet> = OnceLock::new();
    Ok(match OURS.get() {
        Some(ours) => ours,
        None => {
            let ours = sched_getaffinity(None)?;
            OURS.get_or_init(|| ours)
        }
    })
}

fn one(processor: Option<usize>) -> Outcome<CpuSet> {
    let mut set = CpuSet::new();
    set.set(processor.ok_or("no processor")?);
    Ok(set)
}

/// This process stays on the first processor for as long as this lives.
pub struct Apart(());

impl Apart {
    pub fn begin() -> Outcome<Apart> {
        let first = (0..CpuSet::MAX_CPU).find(|cpu| ours().is_ok_and(|ours| ours.is_set(*cpu)));
        sched_setaffinity(None, &one(first)?)?;
        Ok(Apart(()))
    }

    /// What is started in here stays on the last one.
    pub fn elsewhere<R>(&self, start: impl FnOnce() -> R) -> Outcome<R> {
        let last = (0..CpuSet::MAX_CPU).rfind(|cpu| ours().is_ok_and(|ours| ours.is_set(*cpu)));
        let here = sched_getaffinity(None)?;
        sched_setaffinity(None, &one(last)?)?;
        let started = start();
        sched_setaffinity(None, &here)?;
        Ok(started)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        if let Ok(ours) = ours() {
            // It worked before.
            let _ = sched_setaffinity(None, ours);
        }
    }
}
