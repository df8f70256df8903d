//! Failures that nobody is there to catch: the loop's side of the exception handler.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use super::LoopHandle;
use crate::errors::Exception;
use crate::hooks::{ExceptionContext, say};

impl LoopHandle {
    /// Sets what is called with every failure that nobody is there to catch: a panic in a
    /// callback, a failed future or task that nobody looked at, a task destroyed while pending
    /// (`loop.set_exception_handler`). If the handler panics, the default one reports that. Closing
    /// the loop drops it; one that is set afterwards, and holds a handle of the loop, stays for ever.
    pub fn set_exception_handler(&self, handler: impl Fn(&LoopHandle, &ExceptionContext) + 'static) {
        let old = self.core.hooks.set(Some(Rc::new(handler)));
        drop(old);
    }

    /// Goes back to the default handler (`loop.set_exception_handler(None)`).
    pub fn clear_exception_handler(&self) {
        let old = self.core.hooks.set(None);
        drop(old);
    }

    /// Calls the exception handler (`loop.call_exception_handler`). It never panics. What fails
    /// inside the handler is reported by the default one.
    pub fn call_exception_handler(&self, context: &ExceptionContext) {
        let hooks = &self.core.hooks;
        let Some(handler) = hooks.begin_handling() else {
            return self.default_exception_handler(context);
        };
        let handled = catch_unwind(AssertUnwindSafe(|| handler(self, context)));
        hooks.end_handling();
        // It may have been replaced: then it goes here.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(handler)));
        if let Err(payload) = handled.and(dropped) {
            self.default_exception_handler(
                &ExceptionContext::new("Unhandled error in exception handler")
                    .with_exception(Exception::from_panic(payload)),
            );
        }
    }

    /// Reports a failure in the log, as an error of the target `miniloop`; on standard error where
    /// no logger is installed (`loop.default_exception_handler`). What fails inside the logger is
    /// not logged.
    pub fn default_exception_handler(&self, context: &ExceptionContext) {
        let saying = &self.core.hooks.saying;
        if saying.get() {
            return;
        }
        // A logger is somebody else's code too.
        let say = || {
            let _saying = Marked::set(saying);
            say(context);
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(say)) {
            let _ = Exception::from_panic(payload);
        }
    }

    /// Runs user code that returns nothing; a panic goes to the exception handler.
    pub(crate) fn guard(&self, message: &'static str, code: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
            let context = ExceptionContext::new(message).with_exception(Exception::from_panic(payload));
            self.call_exception_handler(&context);
        }
    }
}

/// A mark that is set for as long as this lives.
pub(super) struct Marked<'a>(&'a Cell<bool>);

impl<'a> Marked<'a> {
    pub(super) fn set(mark: &'a Cell<bool>) -> Marked<'a> {
        mark.set(true);
        Marked(mark)
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
