//! `as_completed`: results in the order in which they come.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::{Rc, Weak};

use super::{AnyChild, Child, LoopChoice, Told, Watcher};
use crate::errors::{Exception, Result, RuntimeError};
use crate::futures::Future;
use crate::loop_core::{LoopHandle, get_running_loop};

/// What the callbacks share with the one who waits.
struct Arrivals {
    event_loop: LoopHandle,
    /// Those that are done, and were not handed out yet.
    done: RefCell<VecDeque<usize>>,
    waiter: RefCell<Option<Future<()>>>,
}

impl Told for Arrivals {
    fn child_done(self: Rc<Self>, index: usize) {
        self.done.borrow_mut().push_back(index);
        let waiter = self.waiter.take();
        if let Some(waiter) = waiter {
            // It may have been cancelled.
            let _ = waiter.set_result(());
        }
    }

    fn loop_closed(self: Rc<Self>, index: usize) {
        self.child_done(index);
    }

    fn event_loop(&self) -> &LoopHandle {
        &self.event_loop
    }
}

/// An awaitable with a `T`, whatever it is.
trait Outstanding<T> {
    fn outcome(self: Box<Self>) -> Result<T>;
}

impl<T: 'static, F: StdFuture<Output = Result<T>> + 'static> Outstanding<T> for Child<T, F> {
    fn outcome(self: Box<Self>) -> Result<T> {
        (*self).outcome()
    }
}

/// Gives results in the order in which they come: see [`as_completed`].
#[must_use = "dropping it detaches it from what it waits for"]
pub struct AsCompleted<T> {
    children: Vec<Option<Box<dyn Outstanding<T>>>>,
    /// How many were not handed out yet.
    left: usize,
    /// There was no loop to wait on.
    refused: Option<Exception>,
    arrivals: Rc<Arrivals>,
}

impl<T> AsCompleted<T> {
    /// The result of the next one that is done, waiting for it if need be; `None` after the last.
    ///
    /// It may be dropped, and the task that waits in it may be cancelled, which gives the
    /// `CancelledError`: nothing is lost by that, the next call gives the same one. (asyncio's
    /// iterator then counts one result as taken.)
    pub async fn next(&mut self) -> Option<Result<T>> {
        if let Some(error) = self.refused.take() {
            return Some(Err(error));
        }
        while self.left > 0 {
            let index = self.arrivals.done.borrow_mut().pop_front();
            if let Some(index) = index {
                let child = self.children.get_mut(index).and_then(Option::take);
                self.left -= usize::from(child.is_some());
                if let Some(child) = child {
                    return Some(child.outcome());
                }
                continue;
            }
            let waiter = self.arrivals.event_loop.create_future();
            self.arrivals.waiter.replace(Some(waiter.clone()));
            if let Err(cancelled) = waiter.await {
                return Some(Err(cancelled));
            }
        }
        None
    }
}

impl<T> fmt::Debug for AsCompleted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompleted")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Runs several awaitables and gives their results in the order in which they are done
/// (`asyncio.as_completed`).
///
/// Coroutines become tasks of the running loop at once; futures and tasks are waited for as they
/// are, and one that is given twice counts once. A failure is an `Err` in its place. Dropping the
/// [`AsCompleted`] only detaches it: tasks run on, and report their failures themselves;
/// operations that have no other handle are abandoned.
///
/// Where no loop can be had, as described for [`gather`](crate::gather), the only result is that
/// error.
///
/// ```
/// use miniloop::{EventLoop, FakeClock, as_completed, sleep};
/// use std::time::Duration;
///
/// async fn nap(seconds: u64) -> miniloop::Result<u64> {
///     sleep(Duration::from_secs(seconds)).await?;
///     Ok(seconds)
/// }
///
/// let event_loop = EventLoop::with_clock(FakeClock::auto())?;
/// let order = event_loop.run_until_complete(async {
///     let mut naps = as_completed([nap(3), nap(1), nap(2)]);
///     let mut order = Vec::new();
///     while let Some(seconds) = naps.next().await {
///         order.push(seconds?);
///     }
///     Ok(order)
/// })?;
/// assert_eq!(order, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn as_completed<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
    awaitables: impl IntoIterator<Item = F>,
) -> AsCompleted<T> {
    let awaitables: Vec<F> = awaitables.into_iter().collect();
    let mut choice = LoopChoice::default();
    awaitables.iter().for_each(|awaitable| choice.see::<T>(awaitable));
    let chosen = choice.choose();
    let refused = match &chosen {
        Ok(event_loop) if event_loop.is_closed() && !awaitables.is_empty() => Some(RuntimeError::LoopClosed),
        Ok(_) => None,
        Err(error) => Some(*error),
    };
    let arrivals = Rc::new(Arrivals {
        event_loop: chosen
            .or_else(|_| get_running_loop())
            .unwrap_or_else(|_| LoopHandle::closed()),
        done: RefCell::default(),
        waiter: RefCell::new(None),
    });
    let children = match refused {
        None => begin(awaitables, &arrivals),
        Some(_) => Vec::new(),
    };
    AsCompleted {
        left: children.len(),
        children,
        refused: refused.map(Exception::from),
        arrivals,
    }
}

/// Makes tasks of the coroutines, and watches them all.
fn begin<T: 'static, F: StdFuture<Output = Result<T>> + 'static>(
    awaitables: Vec<F>,
    arrivals: &Rc<Arrivals>,
) -> Vec<Option<Box<dyn Outstanding<T>>>> {
    let event_loop = &arrivals.event_loop;
    let told: Weak<dyn Told> = Rc::<Arrivals>::downgrade(arrivals);
    let mut known = HashSet::new();
    let mut children: Vec<Option<Box<dyn Outstanding<T>>>> = Vec::with_capacity(awaitables.len());
    for awaitable in awaitables {
        let child = Child::new(event_loop, awaitable);
        if !known.insert(Rc::as_ptr(child.future().cell()).cast::<()>()) {
            continue;
        }
        let watcher = Watcher::new(&told, children.len());
        if child.done() {
            // Through this loop, whichever was its own.
            event_loop.schedule(watcher.into_callback());
        } else {
            child.watch(watcher);
        }
        children.push(Some(Box::new(child)));
    }
    children
}
