//! What is read off a process: its CPU time and its memory.
//!
//! Work that never waits is measured in CPU time, which other programs on the machine disturb less
//! than they disturb the wall clock. It includes helper threads, where a loop has some.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::{Outcome, work};

/// The CPU time this process has used.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Runs `operations`, which call [`work::add`] with 0 to `count - 1` in any order, and gives the
/// CPU time of each in nanoseconds.
pub fn cpu_of(count: u64, operations: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    work::take();
    let start = cpu_time();
    operations()?;
    let spent = cpu_time() - start;
    if work::take() != count * count.saturating_sub(1) / 2 {
        return Err("not all of the work was done".into());
    }
    Ok(per_operation(spent, count))
}

pub fn per_operation(spent: Duration, count: u64) -> f64 {
    spent.as_nanos() as f64 / count as f64
}

/// How late a timer fired, in milliseconds.
pub fn lateness(due: Instant) -> f64 {
    due.elapsed().as_secs_f64() * 1e3
}

/// The value that 99 of 100 do not exceed.
pub fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}

/// The CPU time that all threads of another process have used, system calls included.
pub fn cpu_time_of(pid: u32) -> Outcome<Duration> {
    let mut nanoseconds = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let figures = fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_cpu = figures.split_whitespace().next().ok_or("schedstat is empty")?;
        nanoseconds += on_cpu.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The memory of another process that is in RAM, in bytes, counted page by page.
pub fn resident_bytes(pid: u32) -> Outcome<f64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kilobytes.ok_or("no Rss in smaps_rollup")?.parse::<f64>()? * 1024.0)
}
