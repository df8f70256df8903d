//! An operation: a call that would block, and waits for its source.
//!
//! It tries its call first: a send when it is made, a receive or an accept when it is first
//! awaited, so that nothing is taken from the system for one that is dropped in a `select!`. (Not a
//! receive from a socket that has just brought something.) If the call would block, the operation
//! waits for the source to be ready. Then, if a task awaits it and nobody else, the task is woken
//! and its own step makes the call: so nothing is received for a task that is cancelled in between,
//! and the bytes stay warm. (If that step turns to something else, the call is made right after
//! it.) Otherwise the call is made at once.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::futures::{Future, FutureCell, Kind, Outcome, State, finish};
use crate::handles::{Cancel, Direction, Owned, SourceKey};
use crate::loop_core::{Kept, LoopHandle};
use crate::selector::source::{Pollable, Source};
use crate::selector::{Operation, OperationId};

/// The call that an operation is about. It is repeated for as long as it gives `WouldBlock`.
pub(super) trait Work: 'static {
    type Output: 'static;
    fn attempt(&mut self, event_loop: &LoopHandle) -> io::Result<Self::Output>;

    /// The future of one that has completed at once.
    fn completed(event_loop: &LoopHandle, outcome: Outcome<Self::Output>) -> Future<Self::Output> {
        Future::with_outcome(event_loop, outcome)
    }
}

/// When an operation tries its call without having waited for readiness.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TryFirst {
    Now,
    WhenAwaited,
    Never,
}

/// Makes the call, once; `None` if it would block.
#[inline(always)] // see loop_core.rs
fn attempt<W: Work>(work: &mut W, event_loop: &LoopHandle) -> Option<Result<W::Output>> {
    loop {
        // `Read` and `Write` may be the user's own.
        return match catch_unwind(AssertUnwindSafe(|| work.attempt(event_loop))) {
            Ok(Ok(output)) => Some(Ok(output)),
            Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(Err(error)) => Some(Err(error.into())),
            Err(panic) => Some(Err(Exception::from_panic(panic))),
        };
    }
}

/// An operation that waits for its source.
struct Pending<W: Work> {
    state: State<W::Output>,
    /// `None` once it is over: what it holds (the source, the data) goes then.
    work: RefCell<Option<W>>,
    source: SourceKey,
    direction: Direction,
    /// The call is to be tried when it is first awaited.
    untried: Cell<bool>,
    /// The source may hold data of its own, of which readiness says nothing.
    may_hold_data: bool,
    /// It was told that the source is ready, being the first, and has made no use of that yet.
    told: Cell<bool>,
    /// Set while a callback waits for it.
    kept: Kept,
}

impl<W: Work> Pending<W> {
    fn id(&self) -> OperationId {
        std::ptr::from_ref(self).cast()
    }

    fn as_operation(self: &Rc<Self>) -> Weak<dyn Operation> {
        let this: Weak<Pending<W>> = Rc::downgrade(self);
        this
    }

    /// Makes the call now, and gives an outcome if there is one.
    #[inline(always)] // at both places
    fn attempt(&self) -> Option<Outcome<W::Output>> {
        let Ok(mut slot) = self.work.try_borrow_mut() else {
            // The call is being made at this moment, and has come back here.
            return None;
        };
        let outcome = slot
            .as_mut()
            .and_then(|work| attempt(work, &self.state.event_loop));
        drop(slot);
        if outcome.is_none() {
            self.watch_again();
        }
        outcome.map(Outcome::from)
    }

    /// Makes the call now, and completes the future if that gives an outcome.
    fn go_on(self: Rc<Self>) {
        if let Some(outcome) = self.attempt() {
            self.complete(outcome);
        }
    }

    /// It is to be told once more when the source is ready.
    fn watch_again(&self) {
        if self.told.replace(false) {
            let selector = self.state.event_loop.core.selector();
            selector.set_signalled(self.source, self.direction, self.id(), false);
        }
    }

    fn is_first(&self) -> bool {
        let selector = self.state.event_loop.core.selector();
        selector
            .first(self.source, self.direction)
            .is_some_and(|(first, _)| first == self.id())
    }

    /// Stops waiting for the source, lets go of what the work holds, and completes the future.
    fn complete(self: Rc<Self>, outcome: Outcome<W::Output>) {
        self.withdraw();
        let _ = finish(self, outcome);
    }

    fn withdraw(&self) {
        let event_loop = &self.state.event_loop;
        let selector = event_loop.core.selector();
        let next = selector.remove_operation(self.source, self.direction, self.id());
        if let Some(next) = next.filter(|_| self.may_hold_data && !event_loop.is_closed()) {
            // What this one has left in the source's own buffer is for the next.
            event_loop.look_soon(next);
        }
        // While the call is being made its work stays, until the future goes.
        let work = self.work.try_borrow_mut().ok().and_then(|mut work| work.take());
        self.state
            .event_loop
            .guard("Exception while an operation was dropped", || drop(work));
    }
}

impl<W: Work> FutureCell<W::Output> for Pending<W> {
    fn state(&self) -> &State<W::Output> {
        &self.state
    }

    fn polled(self: Rc<Self>) {
        if self.state.event_loop.is_closed() {
            // Nothing can wake it any more, and the source may be another loop's by now.
            return self.abandon();
        }
        let untried = self.untried.replace(false);
        let core = &self.state.event_loop.core;
        if self.told.get() || (untried && self.is_first() && core.may_complete_at_once()) {
            self.go_on();
        }
    }

    fn polled_again(self: Rc<Self>, key: u32) -> bool {
        // A receive from the system's own sockets runs no code of the user's that could find the one who
        // polls this among those who wait.
        let is_plain = self.direction == Direction::Read && !self.may_hold_data;
        let outcome = if is_plain && self.told.get() {
            self.attempt()
        } else {
            None
        };
        let Some(outcome) = outcome else {
            return false;
        };
        self.state.end_registration(self.id(), key);
        // From here on there may be such code: a reader may be dropped with the source.
        self.withdraw();
        if let Err(outcome) = self.state.finish_alone(outcome) {
            let _ = finish(self, outcome);
        }
        true
    }

    fn waited_for(self: Rc<Self>) {
        if self.untried.get() {
            self.polled();
        }
    }

    fn left_alone(self: Rc<Self>) {
        self.watch_again();
        if self.may_hold_data {
            let event_loop = self.state.event_loop.clone();
            event_loop.look_soon(self.as_operation());
        }
    }

    fn keep(self: Rc<Self>) {
        self.kept.keep(&self.state.event_loop, self.clone());
    }

    fn release(&self) {
        self.kept.release(&self.state.event_loop);
    }
}

impl<W: Work> Operation for Pending<W> {
    fn ready(self: Rc<Self>) {
        self.told.set(true);
        match self.state.lone_task() {
            Some(task) => task.wake(),
            None => self.go_on(),
        }
    }

    fn look(self: Rc<Self>) {
        let selector = self.state.event_loop.core.selector();
        if selector.set_signalled(self.source, self.direction, self.id(), true) {
            self.ready();
        }
    }

    fn fail(self: Rc<Self>, error: io::Error) {
        self.complete(Outcome::Failed(error.into()));
    }
}

impl<W: Work> Cancel for Pending<W> {
    fn cancel(self: Rc<Self>, error: &CancelledError) -> bool {
        if self.state.done() {
            self.state.set_seen();
            return false;
        }
        self.complete(Outcome::cancelled(error));
        true
    }

    fn awaiter_stepped(self: Rc<Self>) {
        // The task was told, and had its step, and has made no use of it.
        self.polled();
    }

    fn is_awaited(&self, registration: u32) -> bool {
        self.state.has_waiter(registration)
    }
}

impl<W: Work> Owned for Pending<W> {
    fn abandon(self: Rc<Self>) {
        self.state.set_seen();
        self.complete(Outcome::Failed(RuntimeError::LoopClosed.into()));
    }
}

impl<W: Work> Drop for Pending<W> {
    /// Nobody waits any more: the source is not watched for it from now on.
    fn drop(&mut self) {
        if !self.state.done() {
            self.withdraw();
        }
    }
}

impl LoopHandle {
    /// Treats an operation as ready in the next tick, if it is still there.
    fn look_soon(&self, operation: Weak<dyn Operation>) {
        self.call_soon(move || {
            if let Some(operation) = operation.upgrade() {
                operation.look();
            }
        });
    }

    /// Starts an operation.
    pub(super) fn operate<T: Pollable + 'static, W: Work>(
        &self,
        source: &Source<T>,
        direction: Direction,
        try_first: TryFirst,
        mut work: W,
    ) -> Future<W::Output> {
        let (key, is_busy) = match self.source_in_use(source, direction) {
            Ok(found) => found,
            Err(error) => return Future::failed(self, error),
        };
        let selector = self.core.selector();
        let in_turn = !is_busy;
        if try_first == TryFirst::Now
            && in_turn
            && self.core.may_complete_at_once()
            && let Some(outcome) = attempt(&mut work, self)
        {
            return W::completed(self, outcome.into());
        }
        let pending = Rc::new(Pending {
            state: State::pending(self.clone(), Kind::Operation),
            work: RefCell::new(Some(work)),
            source: key,
            direction,
            untried: Cell::new(try_first == TryFirst::WhenAwaited),
            may_hold_data: !source.is_system_socket(),
            told: Cell::new(false),
            kept: Kept::default(),
        });
        if in_turn && try_first == TryFirst::WhenAwaited && pending.may_hold_data {
            // Readiness may never come, and perhaps nobody awaits it.
            self.look_soon(pending.as_operation());
        }
        if let Err(error) = selector.push_operation(key, direction, pending.as_operation()) {
            pending.clone().complete(Outcome::Failed(error.into()));
        }
        Future::of(pending)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use crate::event_loop::EventLoop;
    use crate::selector::source::Source;

    #[test]
    fn a_task_that_has_received_waits_for_nothing() {
        let event_loop = EventLoop::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, near) = (listener.accept().unwrap().0, Source::new(near).unwrap());
        let handle = event_loop.handle();
        let task = event_loop.create_task(async move {
            let data = handle.sock_recv(&near, 10).await?;
            let waits = handle.core.stepping().unwrap().part().waits();
            Ok((data, waits))
        });
        event_loop.call_soon(move || far.write_all(b"x").unwrap());
        let (data, waits) = event_loop.run_until_complete(task).unwrap();
        assert_eq!(data, b"x");
        assert!(!waits);
    }
}
