//! What the callbacks and tasks of all contestants do: as little as can be checked.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static SUM: Cell<u64> = const { Cell::new(0) };
    static FINISHED: Cell<bool> = const { Cell::new(false) };
}

/// The work of one callback: a closure that captures `number` and so has to be stored somewhere.
pub fn add(number: u64) {
    SUM.set(SUM.get() + number);
}

/// The sum until now; the next one starts at 0.
pub fn take() -> u64 {
    SUM.take()
}

/// Ends a loop written by hand that asks [`finished`] after each callback.
pub fn finish() {
    FINISHED.set(true);
}

/// Whether somebody called [`finish`] since this was last true.
pub fn finished() -> bool {
    FINISHED.get() && FINISHED.take()
}

/// Delays that look random and are the same for every contestant (xorshift).
pub struct Delays {
    state: u64,
    shortest: Duration,
    spread: u64,
}

impl Delays {
    pub fn between(shortest: Duration, longest: Duration) -> Delays {
        Delays {
            state: 0x9e37_79b9_7f4a_7c15,
            shortest,
            spread: (longest - shortest).as_nanos() as u64,
        }
    }

    pub fn draw(&mut self) -> Duration {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.shortest + Duration::from_nanos(self.state % self.spread)
    }
}
