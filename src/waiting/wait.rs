//! `wait`: until some or all are done, without their results.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;
use std::future::Future as StdFuture;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::errors::{Result, RuntimeError, ValueError};
use crate::futures::Future;
use crate::handles::{Callback, TimerHandle};
use crate::loop_core::{LoopHandle, get_running_loop};
use crate::sleep::Sleep;
use crate::sockets::SockRecv;
use crate::tasks::{AnyTask, Task};

/// When [`wait`] returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnWhen {
    /// As soon as one is done (`asyncio.FIRST_COMPLETED`).
    FirstCompleted,
    /// As soon as one has failed, or when all are done (`asyncio.FIRST_EXCEPTION`). One that was
    /// cancelled has not failed.
    FirstException,
    /// When all are done (`asyncio.ALL_COMPLETED`).
    #[default]
    AllCompleted,
}

/// Keeps `Waitable` from being implemented elsewhere.
pub(crate) trait Watched {
    fn address(&self) -> *const ();
    fn is_done(&self) -> bool;
    /// Whether it has failed; that is not looking at the exception.
    fn has_failed(&self) -> bool;
    fn belongs_to(&self, event_loop: &LoopHandle) -> bool;
    fn watch(&self, callback: Callback) -> u32;
    fn forget(&self, key: u32);
}

/// What [`wait`] takes: a [`Future`], a [`Task`], an [`AnyTask`], a [`Sleep`], a
/// [`SockRecv`].
#[expect(private_bounds, reason = "it is not for others to implement")]
pub trait Waitable: Watched + Unpin + 'static {}

impl<T: 'static> Watched for Future<T> {
    fn address(&self) -> *const () {
        Rc::as_ptr(self.cell()).cast()
    }

    fn is_done(&self) -> bool {
        self.done()
    }

    fn has_failed(&self) -> bool {
        self.cell().state().is_failed()
    }

    fn belongs_to(&self, event_loop: &LoopHandle) -> bool {
        self.get_loop().is_same(event_loop)
    }

    fn watch(&self, callback: Callback) -> u32 {
        self.when_done(callback)
    }

    fn forget(&self, key: u32) {
        self.forget_when_done(key);
    }
}

impl<T: 'static> Waitable for Future<T> {}

impl<T: 'static> Watched for Task<T> {
    fn address(&self) -> *const () {
        self.future().address()
    }

    fn is_done(&self) -> bool {
        self.done()
    }

    fn has_failed(&self) -> bool {
        self.future().has_failed()
    }

    fn belongs_to(&self, event_loop: &LoopHandle) -> bool {
        self.get_loop().is_same(event_loop)
    }

    fn watch(&self, callback: Callback) -> u32 {
        self.when_done(callback)
    }

    fn forget(&self, key: u32) {
        self.forget_when_done(key);
    }
}

impl<T: 'static> Waitable for Task<T> {}

/// What is a future on the second look.
macro_rules! watch_as_future {
    ($($awaitable:ty),*) => {
        $(
            impl Watched for $awaitable {
                fn address(&self) -> *const () {
                    (**self).address()
                }

                fn is_done(&self) -> bool {
                    self.done()
                }

                fn has_failed(&self) -> bool {
                    (**self).has_failed()
                }

                fn belongs_to(&self, event_loop: &LoopHandle) -> bool {
                    (**self).belongs_to(event_loop)
                }

                fn watch(&self, callback: Callback) -> u32 {
                    (**self).watch(callback)
                }

                fn forget(&self, key: u32) {
                    (**self).forget(key);
                }
            }

            impl Waitable for $awaitable {}
        )*
    };
}

watch_as_future!(Sleep, SockRecv);

impl Watched for AnyTask {
    fn address(&self) -> *const () {
        Rc::as_ptr(self.control()).cast()
    }

    fn is_done(&self) -> bool {
        self.done()
    }

    fn has_failed(&self) -> bool {
        self.control().failed()
    }

    fn belongs_to(&self, event_loop: &LoopHandle) -> bool {
        self.control().is_of_loop(Rc::as_ptr(&event_loop.core).cast())
    }

    fn watch(&self, callback: Callback) -> u32 {
        self.control().clone().when_done(callback)
    }

    fn forget(&self, key: u32) {
        self.control().clone().forget_when_done(key);
    }
}

impl Waitable for AnyTask {}

/// What the callbacks share with the one who waits.
struct Shared<W> {
    things: RefCell<Vec<W>>,
    /// How many callbacks have not run.
    left: Cell<usize>,
    return_when: ReturnWhen,
    waiter: Future<()>,
}

impl<W: Waitable> Shared<W> {
    fn one_done(&self, index: usize) {
        self.left.set(self.left.get().saturating_sub(1));
        let failed = || self.things.borrow().get(index).is_some_and(Watched::has_failed);
        let enough = self.left.get() == 0
            || match self.return_when {
                ReturnWhen::FirstCompleted => true,
                ReturnWhen::FirstException => failed(),
                ReturnWhen::AllCompleted => false,
            };
        if enough {
            // Another one, or the timer, may have been first.
            let _ = self.waiter.set_result(());
        }
    }
}

/// Callbacks and timer, for as long as it lives.
struct Watching<W: Waitable> {
    shared: Rc<Shared<W>>,
    keys: Vec<u32>,
    timer: Option<TimerHandle>,
    /// The handle that waits.
    waiter: Future<()>,
}

impl<W: Waitable> Watching<W> {
    fn begin(things: Vec<W>, timeout: Option<Duration>, return_when: ReturnWhen) -> Result<Watching<W>> {
        if things.is_empty() {
            return Err(ValueError::NothingToWaitFor.into());
        }
        let event_loop = get_running_loop()?;
        let strange = |thing: &W| !thing.is_done() && !thing.belongs_to(&event_loop);
        if things.iter().any(strange) {
            return Err(RuntimeError::OtherLoop.into());
        }
        let waiter = event_loop.create_future();
        let timer = timeout.map(|timeout| {
            let waiter = waiter.clone();
            event_loop.call_later(timeout, move || {
                let _ = waiter.set_result(());
            })
        });
        let shared = Rc::new(Shared {
            left: Cell::new(things.len()),
            things: RefCell::new(Vec::new()),
            return_when,
            waiter: waiter.clone(),
        });
        let watch = |(index, thing): (usize, &W)| {
            let told = Rc::downgrade(&shared);
            let callback = Box::new(move || {
                if let Some(told) = told.upgrade() {
                    told.one_done(index);
                }
            });
            if thing.is_done() {
                // Through this loop, whichever was its own.
                event_loop.schedule(callback);
                return 0;
            }
            thing.watch(callback)
        };
        let keys = things.iter().enumerate().map(watch).collect();
        shared.things.replace(things);
        Ok(Watching {
            shared,
            keys,
            timer,
            waiter,
        })
    }
}

impl<W: Waitable> Drop for Watching<W> {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.cancel();
        }
        for (thing, key) in self.shared.things.borrow().iter().zip(&self.keys) {
            if *key != 0 {
                thing.forget(*key);
            }
        }
    }
}

/// The future of [`wait`].
#[must_use = "nothing is waited for before it is awaited"]
pub struct Wait<W: Waitable> {
    /// Before it has begun.
    things: Vec<W>,
    timeout: Option<Duration>,
    return_when: ReturnWhen,
    watching: Option<Watching<W>>,
}

impl<W: Waitable> StdFuture for Wait<W> {
    type Output = Result<(Vec<W>, Vec<W>)>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let watching = match &mut this.watching {
            Some(watching) => watching,
            None => {
                let things = std::mem::take(&mut this.things);
                let watching = Watching::begin(things, this.timeout, this.return_when)?;
                this.watching.insert(watching)
            }
        };
        let waited = ready!(Pin::new(&mut watching.waiter).poll(cx));
        let shared = watching.shared.clone();
        this.watching = None;
        waited?;
        let things = shared.things.take();
        Poll::Ready(Ok(things.into_iter().partition(Watched::is_done)))
    }
}

impl<W: Waitable> fmt::Debug for Wait<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("return_when", &self.return_when)
            .field("timeout", &self.timeout)
            .field("begun", &self.watching.is_some())
            .finish_non_exhaustive()
    }
}

/// Waits until some or all of several futures or tasks are done (`asyncio.wait`), and gives those
/// that are and those that are not, in the order given.
///
/// It raises nothing that they raise, and cancels nothing: not when `timeout` is over, nor when
/// the waiting task is cancelled or the wait is dropped. With
/// [`FirstException`](ReturnWhen::FirstException) a failure does not count as looked at, where
/// asyncio's does: read it, or it is reported. The same thing given twice counts once. The timeout
/// runs from the moment it is awaited.
///
/// Coroutines have to be made tasks first, so that one can tell them apart afterwards. An
/// operation (a sleep, a `sock_*`) is abandoned with its last handle, as always.
///
/// # Errors
/// [`ValueError::NothingToWaitFor`]; [`RuntimeError::OtherLoop`] if something does not belong to
/// the running loop; [`CancelledError`](crate::CancelledError) if the task was asked to stop.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, ReturnWhen, create_task, sleep, wait};
/// use std::time::Duration;
///
/// async fn nap(seconds: u64) -> miniloop::Result<u64> {
///     sleep(Duration::from_secs(seconds)).await?;
///     Ok(seconds)
/// }
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// event_loop.run_until_complete(async {
///     let tasks = [3, 1, 9].map(|seconds| create_task(nap(seconds)));
///     let limit = Duration::from_secs(5);
///     let (done, pending) = wait(tasks, limit, ReturnWhen::AllCompleted).await?;
///     assert_eq!(done.len(), 2);
///     assert_eq!(done[0].result()?, 3);
///     assert!(pending[0].cancel());
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn wait<W: Waitable>(
    things: impl IntoIterator<Item = W>,
    timeout: impl Into<Option<Duration>>,
    return_when: ReturnWhen,
) -> Wait<W> {
    let mut known = HashSet::new();
    Wait {
        things: things
            .into_iter()
            .filter(|thing| known.insert(thing.address()))
            .collect(),
        timeout: timeout.into(),
        return_when,
        watching: None,
    }
}
