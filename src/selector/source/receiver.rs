//! A task that receives without a future (see `sockets/sock_recv.rs`): it stands in the queue of the source
//! itself, and among what it waits for the source stands for the receive. One at a time.

use std::rc::Rc;

use super::super::{Operation, OperationId, Selector};
use super::{Shared, Source};
use crate::errors::{CancelledError, Exception};
use crate::handles::{Cancel, Direction, SourceKey};

/// Whether a task receives from a source in this way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiver {
    Nobody,
    /// The task waits: it is the first in the queue.
    Waits,
    /// It does not wait any more, which whoever awaits it has not seen yet.
    Dismissed,
}

impl<T: 'static> Source<T> {
    /// What such a task waits for.
    #[inline]
    pub(crate) fn as_awaited(&self) -> Rc<dyn Cancel> {
        self.shared.clone()
    }

    /// Where that is.
    #[inline]
    pub(crate) fn place(&self) -> OperationId {
        Rc::as_ptr(&self.shared).cast()
    }

    /// Whether such a task waits, or its wait has ended and it has not seen that yet.
    #[inline]
    pub(crate) fn has_receiver(&self) -> bool {
        self.shared.receiver.get() != Receiver::Nobody
    }

    /// A task is the first in the queue, and waits in this way.
    #[inline]
    pub(crate) fn set_receiver(&self) {
        self.shared.receiver.set(Receiver::Waits);
    }

    /// It has received.
    #[inline]
    pub(crate) fn clear_receiver(&self) {
        self.shared.receiver.set(Receiver::Nobody);
    }

    /// Whether the receiver waits, and if so whether it was told of readiness.
    pub(crate) fn receiver_is_told(&self) -> Option<bool> {
        self.shared.receiver_is_told()
    }

    /// Takes the receiver off: the task, if it still waits, and what its wait has ended with, if that was
    /// no readiness.
    pub(crate) fn take_receiver(&self) -> (Option<Rc<dyn Operation>>, Option<Exception>) {
        let receiver = self.shared.dismiss_receiver();
        self.clear_receiver();
        let end = self.shared.ended_with.take();
        (receiver, end.map(|exception| *exception))
    }
}

impl<T> Shared<T> {
    fn home(&self) -> Option<(Rc<Selector>, SourceKey)> {
        let home = self.home.take();
        self.home.set(home.clone());
        home
    }

    fn receiver_waits(&self) -> bool {
        self.receiver.get() == Receiver::Waits
    }

    fn receiver_is_told(&self) -> Option<bool> {
        let (selector, key) = self.home().filter(|_| self.receiver_waits())?;
        selector.first(key, Direction::Read).map(|(_, is_told)| is_told)
    }

    /// The receiver loses its place in the queue, and waits no more.
    fn dismiss_receiver(&self) -> Option<Rc<dyn Operation>> {
        if !self.receiver_waits() {
            return None;
        }
        self.receiver.set(Receiver::Dismissed);
        let (selector, key) = self.home()?;
        let receiver = selector.take_first(key, Direction::Read)?;
        receiver.stop_waiting(std::ptr::from_ref(self).cast());
        Some(receiver)
    }
}

impl<T: 'static> Cancel for Shared<T> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        let Some(receiver) = self.dismiss_receiver() else {
            return false;
        };
        self.ended_with.set(Some(Box::new(error.clone().into())));
        receiver.ready();
        true
    }

    /// A receiver that was told of readiness and has made no use of it loses its place, so that the next
    /// gets its turn; it takes a new one when it is awaited again.
    fn awaiter_stepped(self: Rc<Self>) {
        if self.receiver_is_told() == Some(true) {
            self.dismiss_receiver();
        }
    }

    fn awaiter_ended(self: Rc<Self>) {
        self.dismiss_receiver();
    }

    fn is_awaited(&self, _: u32) -> bool {
        self.receiver_waits()
    }

    fn fail_if_lost(&self, error: &Exception) -> bool {
        let is_known = || self.home().is_some_and(|(selector, key)| selector.knows(key));
        let is_lost = self.receiver_waits() && !is_known();
        if is_lost {
            self.receiver.set(Receiver::Dismissed);
            self.ended_with.set(Some(Box::new(error.clone())));
        }
        is_lost
    }
}
