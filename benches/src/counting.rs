//! The allocator, which can count what is alive.
//!
//! It is the system's, with a switch that only the children turn on whose memory is counted: in all
//! others, whatever else they measure, an allocation costs one look at the switch more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

#[inline]
fn count(bytes: i64) {
    if COUNTS.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to `System` with the same arguments; counting touches two atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts from now on, and answers each line of the standard input with the bytes that are alive.
pub fn start() {
    COUNTS.store(true, Ordering::Relaxed);
    std::thread::spawn(|| -> std::io::Result<()> {
        for _ in std::io::stdin().lines() {
            let mut stdout = std::io::stdout().lock();
            writeln!(stdout, "{}", LIVE.load(Ordering::Relaxed))?;
            stdout.flush()?;
        }
        Ok(())
    });
}

/// Leaves out of the count what `make` allocates: it is the server's own, and not the loop's.
pub fn apart<R>(make: impl FnOnce() -> R) -> R {
    let before = LIVE.load(Ordering::Relaxed);
    let made = make();
    count(before - LIVE.load(Ordering::Relaxed));
    made
}
