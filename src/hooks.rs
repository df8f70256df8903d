//! Where failures go that nobody is there to catch: the exception handler and its default.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::errors::Exception;

/// What went wrong, for the exception handler (the context dictionary of asyncio's
/// `call_exception_handler`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExceptionContext {
    /// What happened, in asyncio's words.
    pub message: Cow<'static, str>,
    /// The exception behind it, if there is one.
    pub exception: Option<Exception>,
    /// The name of the task it happened to, if it was one.
    pub task_name: Option<String>,
}

impl ExceptionContext {
    /// A context that says `message` and nothing more.
    pub fn new(message: impl Into<Cow<'static, str>>) -> ExceptionContext {
        ExceptionContext {
            message: message.into(),
            exception: None,
            task_name: None,
        }
    }

    /// The same with the exception behind it.
    pub fn with_exception(mut self, exception: Exception) -> ExceptionContext {
        self.exception = Some(exception);
        self
    }

    pub(crate) fn with_task_name(mut self, name: Option<String>) -> ExceptionContext {
        self.task_name = name;
        self
    }
}

impl fmt::Display for ExceptionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(name) = &self.task_name {
            write!(f, " [{name}]")?;
        }
        if let Some(exception) = &self.exception {
            write!(f, ": {exception}")?;
        }
        Ok(())
    }
}

/// A handler for a loop whose callbacks hold an `L`.
pub(crate) type Handler<L> = Rc<dyn Fn(&L, &ExceptionContext)>;

/// The handler that is set, if any.
pub(crate) struct Hooks<L> {
    handler: RefCell<Option<Handler<L>>>,
    /// Those that are being called: what fails meanwhile is not reported to the same one.
    handling: RefCell<Vec<Handler<L>>>,
    /// A failure is being logged.
    pub(crate) saying: Cell<bool>,
}

impl<L> Hooks<L> {
    pub(crate) fn new() -> Hooks<L> {
        Hooks {
            handler: RefCell::new(None),
            handling: RefCell::default(),
            saying: Cell::new(false),
        }
    }

    /// Sets a handler and returns the one before, to be dropped by the caller.
    pub(crate) fn set(&self, handler: Option<Handler<L>>) -> Option<Handler<L>> {
        self.handler.replace(handler)
    }

    /// The handler to call, until `end_handling`; `None` if there is none or it is being called.
    pub(crate) fn begin_handling(&self) -> Option<Handler<L>> {
        let handler = self.handler.borrow().clone()?;
        let mut handling = self.handling.borrow_mut();
        if handling.iter().any(|other| Rc::ptr_eq(other, &handler)) {
            return None;
        }
        handling.push(handler.clone());
        Some(handler)
    }

    pub(crate) fn end_handling(&self) {
        let ended = self.handling.borrow_mut().pop();
        drop(ended);
    }
}

/// Says it in the log, or on standard error where no logger is installed (as Python's handler of
/// last resort does).
pub(crate) fn say(context: &ExceptionContext) {
    if log::max_level() == log::LevelFilter::Off {
        eprintln!("miniloop: {context}");
    } else {
        log::error!(target: "miniloop", "{context}");
    }
}
