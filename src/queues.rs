//! Queues between producers and consumers (Python's `queues.py`).
//!
//! Whoever has to wait waits for a future of its own. Being woken is not being served: the one
//! that was woken looks again when it is stepped, and goes to the back if somebody was faster.

mod errors;
mod orders;
mod waiters;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future as StdFuture;
use std::rc::Rc;

use crate::errors::{Result, RuntimeError, ValueError};
use crate::loop_core::{LoopHandle, get_running_loop};
pub use errors::{PutError, QueueEmpty, QueueFull, QueueShutDown};
use orders::Items;
pub use orders::{Fifo, Lifo, Order, Priority};
use waiters::Waiters;

/// A queue that gives the oldest item out first (`asyncio.Queue`): see [`BaseQueue`].
pub type Queue<T> = BaseQueue<T, Fifo>;

/// A queue that gives the newest item out first (`asyncio.LifoQueue`): see [`BaseQueue`].
///
/// ```
/// let queue = miniloop::LifoQueue::new(0);
/// queue.put_nowait("old")?;
/// queue.put_nowait("new")?;
/// assert_eq!(queue.get_nowait()?, "new");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type LifoQueue<T> = BaseQueue<T, Lifo>;

/// A queue that gives the smallest item out first (`asyncio.PriorityQueue`), and equal ones in the
/// order they were put, which asyncio does not promise: see [`BaseQueue`].
///
/// A comparison that panics makes that call panic and changes nothing: an item that was to be put
/// is dropped, one that was to be got stays. While items are compared the queue lets nobody in:
/// an [`Ord`] that comes back to its own queue finds [`put_nowait`](BaseQueue::put_nowait) refused
/// with [`QueueFull`] and [`get_nowait`](BaseQueue::get_nowait) with [`QueueEmpty`].
///
/// ```
/// let queue = miniloop::PriorityQueue::new(0);
/// queue.put_nowait((2, "wash up"))?;
/// queue.put_nowait((1, "cook"))?;
/// assert_eq!(queue.get_nowait()?, (1, "cook"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type PriorityQueue<T> = BaseQueue<T, Priority>;

/// What [`Queue`], [`LifoQueue`] and [`PriorityQueue`] have in common: items that producers put
/// and consumers get, in the order `O`.
///
/// Clones refer to one queue, as references do in Python. Items need neither `Clone` nor `Send`.
/// Getters are woken in the order they began to wait, and so are putters. One that finds that
/// somebody else was faster goes to the back. One that is cancelled or dropped when its turn has
/// come passes the turn on, so that no item and no room is forgotten. A wait that was begun, and is
/// kept without being polled, keeps what it was woken for.
///
/// A queue belongs to the loop on which somebody first had to wait, until that loop is closed
/// (in asyncio, for ever). To wait for it on another one fails with [`RuntimeError::OtherLoop`].
///
/// ```
/// use miniloop::{EventLoop, Queue, QueueShutDown};
///
/// let event_loop = EventLoop::new()?;
/// let sum = event_loop.run_until_complete(async {
///     let queue = Queue::new(1);
///     let producer = queue.clone();
///     miniloop::create_task(async move {
///         for number in 1..=3 {
///             producer.put(number).await?;
///         }
///         producer.shutdown(false);
///         Ok(())
///     });
///     let mut sum = 0;
///     loop {
///         match queue.get().await {
///             Ok(number) => sum += number,
///             Err(error) if error.is::<QueueShutDown>() => return Ok(sum),
///             Err(error) => return Err(error),
///         }
///     }
/// })?;
/// assert_eq!(sum, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BaseQueue<T, O: Order<T>> {
    shared: Rc<Shared<T, O>>,
}

struct Shared<T, O: Order<T>> {
    /// 0 if there is no limit.
    maxsize: usize,
    items: RefCell<O::Items>,
    /// How many items there are, also while they are lent.
    length: Cell<usize>,
    /// Somebody has the items and compares them.
    lent: Cell<bool>,
    /// How many `task_done` are owed.
    unfinished: Cell<usize>,
    is_shut_down: Cell<bool>,
    getters: Waiters,
    putters: Waiters,
    joiners: Waiters,
    /// The loop that it belongs to.
    event_loop: RefCell<Option<LoopHandle>>,
}

impl<T, O: Order<T>> Shared<T, O> {
    fn is_full(&self) -> bool {
        self.maxsize > 0 && self.length.get() >= self.maxsize
    }

    fn is_empty(&self) -> bool {
        self.length.get() == 0
    }

    /// Changes the items. They are not borrowed meanwhile but taken out, for comparing them is
    /// user code.
    fn change<R>(&self, change: impl FnOnce(&mut O::Items) -> R) -> R {
        self.lent.set(true);
        let mut loan = Loan {
            shared: self,
            items: self.items.take(),
            failed: true,
        };
        let changed = change(&mut loan.items);
        loan.failed = false;
        changed
    }

    /// The loop to wait on.
    fn get_loop(&self) -> Result<LoopHandle> {
        let running = get_running_loop()?;
        let bound = self.event_loop.borrow().clone();
        match bound {
            Some(bound) if bound.is_same(&running) => {}
            Some(bound) if !bound.is_closed() => return Err(RuntimeError::OtherLoop.into()),
            _ => drop(self.event_loop.replace(Some(running.clone()))),
        }
        Ok(running)
    }

    async fn wait_for_room(&self) -> Result<()> {
        while self.is_full() {
            if self.is_shut_down.get() {
                return Err(QueueShutDown.into());
            }
            let event_loop = self.get_loop()?;
            self.putters.wait(&event_loop, || !self.is_full()).await?;
        }
        Ok(())
    }

    async fn wait_for_item(&self) -> Result<()> {
        while self.is_empty() {
            if self.is_shut_down.get() {
                return Err(QueueShutDown.into());
            }
            let event_loop = self.get_loop()?;
            self.getters.wait(&event_loop, || !self.is_empty()).await?;
        }
        Ok(())
    }

    async fn wait_for_all_done(&self) -> Result<()> {
        if self.unfinished.get() > 0 {
            let event_loop = self.get_loop()?;
            // All of them are woken: none has anything to pass on.
            self.joiners.wait(&event_loop, || false).await?;
        }
        Ok(())
    }
}

/// The items while they are changed; they go back when it ends, also by a panic.
struct Loan<'a, T, O: Order<T>> {
    shared: &'a Shared<T, O>,
    items: O::Items,
    failed: bool,
}

impl<T, O: Order<T>> Drop for Loan<'_, T, O> {
    fn drop(&mut self) {
        let shared = self.shared;
        let items = std::mem::take(&mut self.items);
        shared.length.set(items.len());
        // What was in their place is empty.
        shared.items.replace(items);
        shared.lent.set(false);
        if self.failed {
            // Whose turn it was has panicked: the next one may have more luck.
            if !shared.is_empty() {
                shared.getters.wake_next();
            }
            if !shared.is_full() {
                shared.putters.wake_next();
            }
        }
    }
}

impl<T, O: Order<T>> BaseQueue<T, O> {
    /// A queue that holds at most `maxsize` items; 0 is no limit.
    pub fn new(maxsize: usize) -> BaseQueue<T, O> {
        BaseQueue {
            shared: Rc::new(Shared {
                maxsize,
                items: RefCell::default(),
                length: Cell::new(0),
                lent: Cell::new(false),
                unfinished: Cell::new(0),
                is_shut_down: Cell::new(false),
                getters: Waiters::default(),
                putters: Waiters::default(),
                joiners: Waiters::default(),
                event_loop: RefCell::new(None),
            }),
        }
    }

    /// How many items are inside (`Queue.qsize`).
    pub fn qsize(&self) -> usize {
        self.shared.length.get()
    }

    /// How many items it holds at most; 0 is no limit (`Queue.maxsize`).
    pub fn maxsize(&self) -> usize {
        self.shared.maxsize
    }

    /// Whether no item is inside (`Queue.empty`).
    pub fn empty(&self) -> bool {
        self.shared.is_empty()
    }

    /// Whether `maxsize` items are inside (`Queue.full`); without a limit it never is.
    pub fn full(&self) -> bool {
        self.shared.is_full()
    }

    /// Puts an item, and waits for room if it is full (`Queue.put`). Where there is room it does
    /// not yield. Nothing happens before the first poll.
    ///
    /// # Errors
    /// The item is dropped then ([`put_or_return`](Self::put_or_return) gives it back):
    /// [`QueueShutDown`] when the queue is shut down, also while this waits;
    /// [`CancelledError`](crate::CancelledError) when the task is cancelled;
    /// [`RuntimeError::NoRunningLoop`] or [`RuntimeError::OtherLoop`] where it can not wait.
    pub fn put(&self, item: T) -> impl StdFuture<Output = Result<()>> + use<T, O> {
        let putting = self.put_or_return(item);
        async move { Ok(putting.await?) }
    }

    /// The same, and the item is not lost when it could not be put.
    ///
    /// # Errors
    /// A [`PutError`] with the item, where [`put`](Self::put) has the errors named there. A future
    /// that is dropped before it is done drops the item.
    pub fn put_or_return(&self, item: T) -> impl StdFuture<Output = Result<(), PutError<T>>> + use<T, O> {
        let queue = self.clone();
        async move {
            match queue.shared.wait_for_room().await {
                Ok(()) => queue.put_nowait(item),
                Err(exception) => Err(PutError::new(item, exception)),
            }
        }
    }

    /// Puts an item without waiting (`Queue.put_nowait`).
    ///
    /// # Errors
    /// A [`PutError`] gives the item back: [`QueueFull`] if there is no room, [`QueueShutDown`] if
    /// the queue is shut down.
    pub fn put_nowait(&self, item: T) -> Result<(), PutError<T>> {
        let shared = &*self.shared;
        if shared.is_shut_down.get() {
            return Err(PutError::new(item, QueueShutDown));
        }
        if shared.is_full() || shared.lent.get() {
            return Err(PutError::new(item, QueueFull));
        }
        shared.change(|items| items.push(item));
        shared.unfinished.set(shared.unfinished.get() + 1);
        shared.getters.wake_next();
        Ok(())
    }

    /// Gets the next item, and waits for one if there is none (`Queue.get`). Where there is one it
    /// does not yield. Nothing happens before the first poll, and a future that is dropped before
    /// it is done has taken nothing.
    ///
    /// # Errors
    /// [`QueueShutDown`] when the queue is shut down and nothing is left in it;
    /// [`CancelledError`](crate::CancelledError) when the task is cancelled;
    /// [`RuntimeError::NoRunningLoop`] or [`RuntimeError::OtherLoop`] where it can not wait.
    pub fn get(&self) -> impl StdFuture<Output = Result<T>> + use<T, O> {
        let queue = self.clone();
        async move {
            queue.shared.wait_for_item().await?;
            queue.get_nowait()
        }
    }

    /// Gets the next item without waiting (`Queue.get_nowait`).
    ///
    /// # Errors
    /// [`QueueEmpty`] if there is none, [`QueueShutDown`] if there never will be.
    pub fn get_nowait(&self) -> Result<T> {
        let shared = &*self.shared;
        if shared.lent.get() {
            return Err(QueueEmpty.into());
        }
        match shared.change(Items::pop) {
            Some(item) => {
                shared.putters.wake_next();
                Ok(item)
            }
            None if shared.is_shut_down.get() => Err(QueueShutDown.into()),
            None => Err(QueueEmpty.into()),
        }
    }

    /// Says that the work on an item that was got is done (`Queue.task_done`). With the last one,
    /// all who [`join`](Self::join) go on.
    ///
    /// # Errors
    /// [`ValueError::TaskDoneTooOften`] if it is called more often than items were put.
    pub fn task_done(&self) -> Result<(), ValueError> {
        let shared = &*self.shared;
        let Some(left) = shared.unfinished.get().checked_sub(1) else {
            return Err(ValueError::TaskDoneTooOften);
        };
        shared.unfinished.set(left);
        if left == 0 {
            shared.joiners.wake_all();
        }
        Ok(())
    }

    /// Waits until [`task_done`](Self::task_done) was called for every item that was put
    /// (`Queue.join`), not merely until the queue is empty. The item of a consumer that ended
    /// without that call is waited for, for ever.
    ///
    /// # Errors
    /// [`CancelledError`](crate::CancelledError) when the task is cancelled;
    /// [`RuntimeError::NoRunningLoop`] or [`RuntimeError::OtherLoop`] where it can not wait.
    pub fn join(&self) -> impl StdFuture<Output = Result<()>> + use<T, O> {
        let queue = self.clone();
        async move { queue.shared.wait_for_all_done().await }
    }

    /// Shuts the queue down (`Queue.shutdown`): nothing can be put any more, and those who wait to
    /// put fail. What is inside can still be got; who gets from the empty queue fails.
    ///
    /// If `immediate`, what is inside is thrown out, counts as done for [`join`](Self::join), and
    /// is handed back here, where asyncio loses it: in the order of the queue, but that of a
    /// [`PriorityQueue`] in the order it was put (sort it to get the other).
    /// [`Ord`] can not throw out the items that it is comparing.
    pub fn shutdown(&self, immediate: bool) -> Vec<T> {
        let shared = &*self.shared;
        shared.is_shut_down.set(true);
        let mut thrown_out = Vec::new();
        if immediate && !shared.lent.get() {
            thrown_out = shared.change(Items::take_all);
            let left = shared.unfinished.get().saturating_sub(thrown_out.len());
            shared.unfinished.set(left);
            if left == 0 {
                shared.joiners.wake_all();
            }
        }
        shared.getters.wake_all();
        shared.putters.wake_all();
        thrown_out
    }
}

impl<T, O: Order<T>> Clone for BaseQueue<T, O> {
    fn clone(&self) -> BaseQueue<T, O> {
        BaseQueue {
            shared: self.shared.clone(),
        }
    }
}

/// Without a limit.
impl<T, O: Order<T>> Default for BaseQueue<T, O> {
    fn default() -> BaseQueue<T, O> {
        BaseQueue::new(0)
    }
}

impl<T, O: Order<T>> fmt::Debug for BaseQueue<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &*self.shared;
        f.debug_struct(O::NAME)
            .field("maxsize", &shared.maxsize)
            .field("qsize", &shared.length.get())
            .field("getters", &shared.getters.len())
            .field("putters", &shared.putters.len())
            .field("joiners", &shared.joiners.len())
            .field("unfinished", &shared.unfinished.get())
            .field("shut_down", &shared.is_shut_down.get())
            .finish_non_exhaustive()
    }
}
