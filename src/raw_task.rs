//! A task's memory and its waker: the unsafe half of a task.
//!
//! [`Pinned`] keeps a coroutine in the same allocation as the rest of its task, which is never
//! moved. [`Lent`] is a waker that costs nothing: it lives on the stack for one poll, and only if
//! somebody clones it does it make a [`RemoteWaker`], whose wakers may stay and may cross threads. The
//! task is polled with those from then on.

// Polling in place needs a pin by hand, and the wakers need tables of their own.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::future::Future as StdFuture;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::threadsafe::{Inbox, RemoteWaker};

/// A coroutine and what belongs to it, in one allocation.
///
/// Invariant: a `Pinned` is made inside an `Rc` by [`Pinned::new`], and no code takes it out of
/// one again (the crate has no `Rc::try_unwrap`, `into_inner` or `get_mut` of it): so the
/// coroutine stays where it is from its first poll until it is dropped, in place.
#[repr(C)]
pub(crate) struct Pinned<S, F> {
    pub(crate) shared: S,
    /// Who may touch the coroutine.
    use_of_coroutine: Cell<Use>,
    coroutine: UnsafeCell<ManuallyDrop<F>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Whoever sets another use first.
    Free,
    /// It is being polled: nobody else.
    Polled,
    /// It was dropped, or is being dropped: nobody any more.
    Gone,
}

impl<S, F: StdFuture> Pinned<S, F> {
    #[inline]
    pub(crate) fn new(shared: S, coroutine: F) -> Rc<Pinned<S, F>> {
        Rc::new(Pinned {
            shared,
            use_of_coroutine: Cell::new(Use::Free),
            coroutine: UnsafeCell::new(ManuallyDrop::new(coroutine)),
        })
    }

    /// Polls the coroutine once; `None` if it is gone, or is being polled already.
    pub(crate) fn poll_coroutine(self: &Rc<Self>, cx: &mut Context<'_>) -> Option<Poll<F::Output>> {
        if self.use_of_coroutine.get() != Use::Free {
            return None;
        }
        let _polled = Polled::begin(&self.use_of_coroutine);
        // SAFETY: the use was `Free` and is `Polled` until this returns (or unwinds), and whoever
        // makes a reference to the coroutine (here and in `drop_in_place`) asks for `Free` and sets
        // another first: this is the only reference, and the coroutine was not dropped. All is on one
        // thread, for an `Rc` does not leave its own.
        let coroutine = unsafe { &mut **self.coroutine.get() };
        // SAFETY: the coroutine does not move from here until it is dropped, by the invariant of
        // `Pinned`; `drop_in_place` is all that drops it.
        let coroutine = unsafe { Pin::new_unchecked(coroutine) };
        Some(coroutine.poll(cx))
    }

    /// Drops the coroutine, in place. False if it is being polled at this moment.
    pub(crate) fn drop_coroutine(self: &Rc<Self>) -> bool {
        self.drop_in_place();
        self.use_of_coroutine.get() == Use::Gone
    }
}

impl<S, F> Pinned<S, F> {
    fn drop_in_place(&self) {
        if self.use_of_coroutine.get() == Use::Free {
            self.use_of_coroutine.set(Use::Gone);
            // SAFETY: as in `poll_coroutine` this is the only reference, and the coroutine was not
            // dropped before; nor will it be again, for it is `Gone`.
            unsafe { ManuallyDrop::drop(&mut *self.coroutine.get()) };
        }
    }
}

impl<S, F> Drop for Pinned<S, F> {
    fn drop(&mut self) {
        self.drop_in_place();
    }
}

/// The coroutine is being polled for as long as this lives.
struct Polled<'a>(&'a Cell<Use>);

impl<'a> Polled<'a> {
    #[inline]
    fn begin(use_of_coroutine: &'a Cell<Use>) -> Polled<'a> {
        use_of_coroutine.set(Use::Polled);
        Polled(use_of_coroutine)
    }
}

impl Drop for Polled<'_> {
    fn drop(&mut self) {
        self.0.set(Use::Free);
    }
}

/// What tells one waker from another (as `Waker::will_wake` does).
pub(crate) type WakerIdentity = (*const (), *const RawWakerVTable);

/// That of no waker.
pub(crate) const NO_WAKER: WakerIdentity = (std::ptr::null(), std::ptr::null());

pub(crate) fn identity(waker: &Waker) -> WakerIdentity {
    (waker.data(), std::ptr::from_ref(waker.vtable()))
}

/// A waker on the stack, lent to one poll.
///
/// A `&Waker` can reach another thread during the poll (a scoped one), so that everything here
/// is `Sync`, and cloning and waking look at nothing else.
pub(crate) struct Lent<'a> {
    inbox: &'a Arc<Inbox>,
    /// Set when it is woken.
    woken: &'a AtomicBool,
    cloned: OnceLock<Arc<RemoteWaker>>,
}

impl<'a> Lent<'a> {
    pub(crate) fn new(inbox: &'a Arc<Inbox>, woken: &'a AtomicBool) -> Lent<'a> {
        Lent {
            inbox,
            woken,
            cloned: OnceLock::new(),
        }
    }

    /// Calls `poll` with the waker.
    #[inline]
    pub(crate) fn lend<R>(&self, poll: impl FnOnce(&Waker) -> R) -> R {
        let raw = RawWaker::new(std::ptr::from_ref(self).cast(), &LENT);
        // SAFETY: the functions of `LENT` keep the contract of a waker for a pointer to a `Lent`
        // that is alive, and this one is for as long as the waker: the waker is a local of this
        // function, handed out by reference only. It owns nothing that dropping it would end.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
        poll(&waker)
    }

    /// (Of no use before the poll is over.)
    #[inline]
    pub(crate) fn was_cloned(&self) -> bool {
        self.cloned.get().is_some()
    }

    /// What the clones of the waker share, if it was cloned.
    pub(crate) fn into_cloned(self) -> Option<Arc<RemoteWaker>> {
        self.cloned.into_inner()
    }

    /// Ends one that was not cloned.
    #[inline]
    pub(crate) fn forget(self) {
        debug_assert!(!self.was_cloned());
        std::mem::forget(self);
    }
}

static LENT: RawWakerVTable = RawWakerVTable::new(clone_lent, wake_lent, wake_lent, drop_lent);

/// # Safety
/// `data` points to a `Lent` that is alive.
unsafe fn clone_lent(data: *const ()) -> RawWaker {
    // SAFETY: the caller's promise. A `Lent` is `Sync`: `&Arc<Inbox>`, `&AtomicBool`, a `OnceLock`.
    let lent = unsafe { &*data.cast::<Lent<'_>>() };
    let remote = lent.cloned.get_or_init(|| RemoteWaker::new(lent.inbox));
    let waker = ManuallyDrop::new(remote.waker());
    // The parts of a waker that is not dropped make a waker that will be: the reference moves.
    RawWaker::new(waker.data(), waker.vtable())
}

/// # Safety
/// `data` points to a `Lent` that is alive.
unsafe fn wake_lent(data: *const ()) {
    // SAFETY: as in `clone_lent`.
    let lent = unsafe { &*data.cast::<Lent<'_>>() };
    lent.woken.store(true, Ordering::Release);
}

impl RemoteWaker {
    /// A waker that may stay and may cross threads. (It has a table of its own, where [`std::task::Wake`]
    /// would do: of that one's the compiler makes several, and wakers with different ones do not count as the
    /// same.)
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        const fn may_cross_threads<T: Send + Sync>() {}
        const { may_cross_threads::<RemoteWaker>() };
        let raw = RawWaker::new(Arc::into_raw(self.clone()).cast(), &SHARED);
        // SAFETY: the functions of `SHARED` keep the contract of a waker for a pointer that stands for a
        // reference to a `RemoteWaker`, from any thread, for that may cross threads.
        unsafe { Waker::from_raw(raw) }
    }
}

static SHARED: RawWakerVTable =
    RawWakerVTable::new(clone_shared, wake_shared, wake_shared_by_ref, drop_shared);

/// # Safety
/// `data` is from `Arc::<RemoteWaker>::into_raw`, and that reference is alive.
unsafe fn clone_shared(data: *const ()) -> RawWaker {
    // SAFETY: the caller's promise.
    unsafe { Arc::increment_strong_count(data.cast::<RemoteWaker>()) };
    RawWaker::new(data, &SHARED)
}

/// # Safety
/// As for `clone_shared`; the reference ends.
unsafe fn wake_shared(data: *const ()) {
    // SAFETY: the caller's promise.
    let remote = unsafe { Arc::from_raw(data.cast::<RemoteWaker>()) };
    remote.wake();
}

/// # Safety
/// As for `clone_shared`.
unsafe fn wake_shared_by_ref(data: *const ()) {
    // SAFETY: the caller's promise; the reference stays the caller's, for it is not dropped here.
    let remote = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<RemoteWaker>()) });
    remote.wake();
}

/// # Safety
/// As for `clone_shared`; the reference ends.
unsafe fn drop_shared(data: *const ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Arc::from_raw(data.cast::<RemoteWaker>()) });
}

/// A lent waker owns nothing.
///
/// # Safety
/// Nothing is asked: the type of the table says `unsafe`.
unsafe fn drop_lent(_: *const ()) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lent_waker_is_safe_to_use_from_a_scoped_thread() {
        let inbox = Inbox::new(u64::MAX, None);
        let woken = AtomicBool::new(false);
        let lent = Lent::new(&inbox, &woken);
        let clone = lent.lend(|waker| {
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake_by_ref());
                scope.spawn(|| waker.clone()).join().unwrap()
            })
        });
        assert!(woken.load(Ordering::Acquire));
        let shared = lent.into_cloned().unwrap();
        assert!(clone.will_wake(&shared.waker()));
        drop((clone, shared));
        assert_eq!(inbox.outside(), 0);
    }

    #[test]
    fn clones_of_clones_are_the_same_waker_and_the_last_one_ends_it() {
        let inbox = Inbox::new(u64::MAX, None);
        let remote = RemoteWaker::new(&inbox);
        let (first, second) = (remote.waker(), remote.waker());
        let third = first.clone().clone();
        for waker in [&first, &second, &third] {
            assert!(std::ptr::eq(waker.vtable(), &SHARED));
            assert!(waker.will_wake(&first));
            waker.wake_by_ref();
        }
        std::thread::spawn(move || first.wake()).join().unwrap();
        drop((second, remote));
        assert_eq!(inbox.outside(), 1);
        drop(third);
        assert_eq!(inbox.outside(), 0);
    }

    #[test]
    fn a_coroutine_is_dropped_once_and_not_while_it_is_polled() {
        /// Tries to have itself dropped while it is polled.
        struct Suicide {
            refused: Rc<Cell<Option<bool>>>,
            task: std::rc::Weak<Pinned<(), Suicide>>,
            _alive: Rc<()>,
        }
        impl StdFuture for Suicide {
            type Output = ();
            fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
                if let Some(me) = self.task.upgrade() {
                    self.refused.set(Some(me.drop_coroutine()));
                }
                Poll::Pending
            }
        }
        let (refused, alive) = (Rc::new(Cell::new(None)), Rc::new(()));
        let task = Rc::new_cyclic(|weak| Pinned {
            shared: (),
            use_of_coroutine: Cell::new(Use::Free),
            coroutine: UnsafeCell::new(ManuallyDrop::new(Suicide {
                refused: refused.clone(),
                task: weak.clone(),
                _alive: alive.clone(),
            })),
        });
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(task.poll_coroutine(&mut cx), Some(Poll::Pending));
        assert_eq!(refused.get(), Some(false));
        assert_eq!(Rc::strong_count(&alive), 2);
        assert!(task.drop_coroutine());
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!(task.poll_coroutine(&mut cx), None);
        assert!(task.drop_coroutine());
        drop(task);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    #[test]
    fn a_coroutine_that_was_not_dropped_goes_with_its_task() {
        let alive = Rc::new(());
        let held = alive.clone();
        let task = Pinned::new((), async move { drop(held) });
        assert_eq!(Rc::strong_count(&alive), 2);
        drop(task);
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}
