//! What is true of a task at the moment, in a bit each.

use std::cell::Cell;

use super::TaskPart;

/// What is true of a task at the moment. Each is a bit, so that one look shows that nothing unusual
/// is going on, which is nearly always so.
#[derive(Clone, Copy)]
pub(crate) enum Flag {
    /// A step is in the ready queue.
    Scheduled = 1,
    /// A cancellation that no await has delivered yet.
    MustCancel = 1 << 1,
    /// A cancellation was passed on to what the task waits for, and has not come back yet.
    PassedOn = 1 << 2,
    /// A cancellation that was delivered is to be delivered once more, at the next await that begins.
    Again = 1 << 3,
    /// A scope around some of its awaits is cancelled.
    ScopeCancelled = 1 << 4,
    /// There is a first wait.
    Waits = 1 << 5,
    /// There is an `Extra`.
    Extra = 1 << 6,
    /// There are more waits than that, in the `Extra`.
    MoreWaits = 1 << 7,
    // Those of a second byte. (Two bytes and not a word: to read a word of which a byte was written
    // just now takes as long as a dozen instructions.)
    /// Nothing can deliver the cancellation: the next step drops the coroutine instead.
    Doomed = 1 << 8,
    /// The step began with a cancellation to deliver, and no await has taken it yet.
    Due = 1 << 9,
    /// Its cancellation is being passed on: tasks may wait for each other in a circle.
    PassingOn = 1 << 10,
    /// The future of the first wait was polled in the last step. If not, then the coroutine keeps it but
    /// is suspended at something else. (Of other waits the step is noted.)
    WaitIsCurrent = 1 << 11,
}

/// With none of these no await has anything to deliver.
const INTERRUPTED: u8 =
    Flag::MustCancel as u8 | Flag::PassedOn as u8 | Flag::Again as u8 | Flag::ScopeCancelled as u8;

/// With none of these a step is like nearly all.
const UNUSUAL: u8 = INTERRUPTED | Flag::Extra as u8 | Flag::MoreWaits as u8;

thread_local! {
    /// Whether the step that is being made on this thread may have a cancellation to deliver: for its
    /// awaits, which are many, and nearly never have one.
    static INTERRUPTED_STEP: Cell<bool> = const { Cell::new(false) };
}

/// Whether an await of the step that is being made may have a cancellation to deliver. It may say so
/// in vain, but never fails to.
#[inline]
pub(crate) fn step_is_interrupted() -> bool {
    INTERRUPTED_STEP.get()
}

/// A step is begun.
#[inline]
pub(super) fn begin_interrupted_step(is_interrupted: bool) {
    INTERRUPTED_STEP.set(is_interrupted);
}

/// From here on another step is being made than the one that was begun last.
pub(in crate::loop_core) fn may_be_interrupted() {
    INTERRUPTED_STEP.set(true);
}

impl TaskPart {
    /// The byte that a flag is in, and its bit there.
    #[inline]
    fn place(&self, flag: Flag) -> (&Cell<u8>, u8) {
        match flag as u16 {
            bit @ ..=0xff => (&self.flags[0], bit as u8),
            bit => (&self.flags[1], (bit >> 8) as u8),
        }
    }

    #[inline]
    pub(crate) fn is(&self, flag: Flag) -> bool {
        let (flags, bit) = self.place(flag);
        flags.get() & bit != 0
    }

    #[inline]
    pub(crate) fn set(&self, flag: Flag, is_so: bool) {
        let (flags, bit) = self.place(flag);
        let others = flags.get() & !bit;
        flags.set(if is_so { others | bit } else { others });
        if is_so && flag as u16 & u16::from(INTERRUPTED) != 0 {
            may_be_interrupted();
        }
    }

    /// Takes a flag away and tells whether it was set.
    #[inline]
    pub(crate) fn take(&self, flag: Flag) -> bool {
        let was_so = self.is(flag);
        self.set(flag, false);
        was_so
    }

    /// Whether a step begins with nothing but a first wait, if that.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.flags[0].get() & UNUSUAL == 0
    }

    /// What was true of the step before is over.
    #[inline]
    pub(super) fn forget_step(&self) {
        const OF_STEP: u16 = Flag::Doomed as u16 | Flag::Due as u16 | Flag::WaitIsCurrent as u16;
        let flags = &self.flags[1];
        flags.set(flags.get() & !((OF_STEP >> 8) as u8));
    }

    /// Whether it waits for a future of this crate by its own waker.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.flags[0].get() & (Flag::Waits as u8 | Flag::MoreWaits as u8) != 0
    }

    /// Whether an await of the task may have a cancellation to deliver, its own or that of a scope.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.flags[0].get() & INTERRUPTED != 0
    }
}
