//! `CancelScope`: a block whose awaits can be cancelled without cancelling the task.
//!
//! [`Body`] is that of a scope, of a timeout and of a task group, while it runs. What a scope is, and how
//! a cancellation gets to the body, stands in `loop_core/scope.rs`.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::future::{Future as StdFuture, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::errors::{CancelledError, Exception, Result, RuntimeError};
use crate::loop_core::{Awaiting, LoopHandle, Scope, with_running_loop};

/// How a body has ended.
pub(crate) enum Ended<T> {
    /// By itself.
    With(Result<T>),
    /// Interrupted by its own scope.
    Interrupted,
    /// Cancelled by something outside of it.
    Cancelled(Exception),
}

impl<T> Ended<T> {
    /// The value, or none if it was interrupted by its own scope.
    pub(crate) fn into_optional(self) -> Result<Option<T>> {
        match self {
            Ended::With(result) => result.map(Some),
            Ended::Interrupted => Ok(None),
            Ended::Cancelled(exception) => Err(exception),
        }
    }
}

/// A body that runs in a scope, once, as a part of the task that is being stepped.
///
/// The body is boxed: as a part of the coroutine that awaits this and of those around it, it would be
/// there twice in each, so that nested blocks would grow beyond all bounds.
pub(crate) struct Body<F> {
    /// Until it is over. (Before the other, and so dropped before it.)
    body: Option<Pin<Box<F>>>,
    entered: Entered,
}

/// The scope is entered for as long as there is a loop here.
struct Entered {
    scope: Rc<Scope>,
    event_loop: Option<LoopHandle>,
}

impl Entered {
    fn leave(&mut self) {
        if self.event_loop.take().is_some() {
            self.scope.leave();
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<F> Body<F> {
    /// One that has not begun.
    pub(crate) fn new(scope: Rc<Scope>, body: Pin<Box<F>>) -> Body<F> {
        let entered = Entered {
            scope,
            event_loop: None,
        };
        Body {
            body: Some(body),
            entered,
        }
    }

    /// The body is over: it leaves its scope.
    fn end(&mut self) {
        self.entered.leave();
        self.body = None;
    }
}

impl<T, F: StdFuture<Output = Result<T>>> Body<F> {
    /// Polls it once, as a part of the task that is being stepped; the first time it enters the scope.
    ///
    /// # Errors
    /// [`RuntimeError::EnteredTwice`], [`RuntimeError::NoRunningLoop`], [`RuntimeError::NotInTask`].
    ///
    /// # Panics
    /// If it is over, or has panicked before, as a coroutine does.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended<T>>> {
        let poll = OverIfItPanics(self);
        let polled = poll.0.poll_now(cx);
        std::mem::forget(poll);
        if polled.is_ready() {
            self.end();
        }
        polled
    }

    #[inline]
    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended<T>>> {
        let Some(body) = &mut self.body else {
            panic!("a block was polled after it had ended");
        };
        let Entered { scope, event_loop } = &mut self.entered;
        let event_loop = match event_loop {
            Some(event_loop) => &*event_loop,
            None => enter(scope, event_loop)?,
        };
        let result = match poll_in(event_loop, scope, body.as_mut(), cx) {
            Poll::Ready(result) => result,
            Poll::Pending if scope.suspended() => return Poll::Pending,
            // Only something foreign could go on, and it is to be cancelled: it is dropped where it is.
            Poll::Pending => {
                self.body = None;
                Err(CancelledError::new().into())
            }
        };
        Poll::Ready(Ok(match result {
            Err(exception) if exception.is_cancelled() => {
                if scope.was_cancelled() && scope.outside(&exception).is_none() {
                    Ended::Interrupted
                } else {
                    Ended::Cancelled(exception)
                }
            }
            result => Ended::With(result),
        }))
    }
}

/// A body is being polled for as long as this lives; if it is dropped, the body is over.
struct OverIfItPanics<'a, F>(&'a mut Body<F>);

impl<F> Drop for OverIfItPanics<'_, F> {
    #[cold]
    fn drop(&mut self) {
        self.0.body = None;
        self.0.entered.leave();
    }
}

/// The body begins, in the task that is being stepped, and its time if that is limited.
#[inline]
fn enter<'a>(scope: &Rc<Scope>, entered: &'a mut Option<LoopHandle>) -> Result<&'a LoopHandle, RuntimeError> {
    if !scope.is_new() {
        return Err(RuntimeError::EnteredTwice);
    }
    let running = with_running_loop(LoopHandle::clone).ok_or(RuntimeError::NoRunningLoop)?;
    if !scope.enter(&running) {
        return Err(RuntimeError::NotInTask);
    }
    let event_loop = entered.insert(running);
    scope.start_limit(event_loop);
    Ok(event_loop)
}

/// Polls a part of the body's task as one in the scope.
#[inline]
fn poll_in<F: StdFuture>(
    event_loop: &LoopHandle,
    scope: &Rc<Scope>,
    body: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    let core = &event_loop.core;
    let foreign = core.awaiting(cx.waker()) != Awaiting::InTask;
    scope.begin_poll(event_loop, foreign.then(|| cx.waker()));
    let _polling = Polling {
        event_loop,
        scope,
        outer: core.exchange_scope(Some(scope.clone())),
    };
    body.poll(cx)
}

/// The body is being polled for as long as this lives.
struct Polling<'a> {
    event_loop: &'a LoopHandle,
    scope: &'a Scope,
    outer: Option<Rc<Scope>>,
}

impl Drop for Polling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.scope.end_poll();
        drop(self.event_loop.core.exchange_scope(self.outer.take()));
    }
}

/// A block whose awaits can be cancelled without cancelling the task that runs it. asyncio has no
/// name for it and uses it in `timeout` and `TaskGroup`; trio and anyio call it a cancel scope.
///
/// [`cancel`](Self::cancel) interrupts the body: the await it is suspended at yields
/// `Err(CancelledError)`, as when its task is cancelled. The body may clean up, and when it passes
/// the error on, [`run`](Self::run) gives `None`. Each call interrupts once. Other branches of the
/// task (of a `join!`) are not touched. Clones refer to one scope.
///
/// ```
/// use miniloop::{CancelScope, EventLoop, FakeClock, get_running_loop, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// let outcome = event_loop.run_until_complete(async {
///     let scope = CancelScope::new();
///     let stop = scope.clone();
///     get_running_loop()?.call_later(Duration::from_secs(1), move || {
///         stop.cancel();
///     });
///     scope.run(async { sleep(Duration::from_secs(3600)).await }).await
/// })?;
/// assert_eq!(outcome, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct CancelScope {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    scope: Rc<Scope>,
    caught: Cell<bool>,
}

impl CancelScope {
    /// A scope that has not been entered.
    pub fn new() -> CancelScope {
        CancelScope::default()
    }

    /// Interrupts the body; before it is entered, it will be at its first await that has to wait.
    /// False if the scope is over.
    pub fn cancel(&self) -> bool {
        self.inner.scope.cancel(CancelledError::new())
    }

    /// The same with a message, which the [`CancelledError`] carries.
    pub fn cancel_with(&self, message: impl Into<Cow<'static, str>>) -> bool {
        self.inner.scope.cancel(CancelledError::with_message(message))
    }

    /// Whether [`cancel`](Self::cancel) was called before it was over.
    pub fn cancel_called(&self) -> bool {
        self.inner.scope.was_cancelled()
    }

    /// Whether the body has ended because of that.
    pub fn cancelled_caught(&self) -> bool {
        self.inner.caught.get()
    }

    /// Runs the body in this scope, once, as a part of the calling task. `None` if it was
    /// interrupted and has passed the error on.
    ///
    /// If the task itself is cancelled too, or a scope around this one, then that comes first: the
    /// cancellation is passed on.
    ///
    /// # Errors
    /// What the body raises; [`RuntimeError::EnteredTwice`]; [`RuntimeError::NotInTask`].
    pub fn run<T, F: StdFuture<Output = Result<T>>>(
        &self,
        body: F,
    ) -> impl StdFuture<Output = Result<Option<T>>> + use<T, F> {
        let inner = self.inner.clone();
        let mut body = Body::new(inner.scope.clone(), Box::pin(body));
        async move {
            let ended = poll_fn(|cx| body.poll(cx)).await?;
            inner.caught.set(matches!(ended, Ended::Interrupted));
            ended.into_optional()
        }
    }
}

impl fmt::Debug for CancelScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelScope")
            .field("cancel_called", &self.cancel_called())
            .field("cancelled_caught", &self.cancelled_caught())
            .finish_non_exhaustive()
    }
}
