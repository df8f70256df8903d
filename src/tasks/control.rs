//! A task as those see it who do not know the type of its result.

use std::future::Future as StdFuture;
use std::rc::Rc;

use super::stepping::TaskCell;
use crate::errors::{Exception, Result};
use crate::futures::{Future, FutureCell};
use crate::handles::{Callback, TaskControl};
use crate::loop_core::part::Flag;

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> TaskControl for TaskCell<T, F> {
    fn number(&self) -> u64 {
        self.part().number
    }

    fn is_of_loop(&self, core: *const ()) -> bool {
        std::ptr::addr_eq(Rc::as_ptr(&self.shared.state.event_loop.core), core)
    }

    fn name(&self) -> String {
        self.part().name()
    }

    fn set_name(&self, name: String) {
        self.part().edit_extra(|extra| extra.name = Some(name));
    }

    fn cancelling(&self) -> u32 {
        self.part().cancel_requests() + self.part().scope_requests()
    }

    fn uncancel(&self) -> u32 {
        let part = self.part();
        let left = part.cancel_requests().saturating_sub(1);
        part.set_cancel_requests(left);
        if left == 0 {
            part.set(Flag::MustCancel, false);
            part.set(Flag::Due, false);
        }
        left + part.scope_requests()
    }

    fn count_scope(&self, cancelled: bool) {
        self.part().count_scope(cancelled);
    }

    fn requests(&self) -> u32 {
        self.part().cancel_requests()
    }

    fn done(&self) -> bool {
        self.shared.state.done()
    }

    fn cancelled(&self) -> bool {
        self.shared.state.is_cancelled()
    }

    fn failed(&self) -> bool {
        self.shared.state.is_failed()
    }

    fn failure(&self) -> Option<Exception> {
        self.shared.state.failure()
    }

    fn when_done(self: Rc<Self>, callback: Callback) -> u32 {
        Future::of(self as Rc<dyn FutureCell<T>>).when_done(callback)
    }

    fn forget_when_done(self: Rc<Self>, key: u32) {
        Future::of(self as Rc<dyn FutureCell<T>>).forget_when_done(key);
    }
}
