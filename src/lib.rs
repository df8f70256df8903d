//! A single-threaded, callback-first event loop that mirrors Python's asyncio.
//!
//! An [`EventLoop`] runs callbacks: those given to [`call_soon`](LoopHandle::call_soon), timers
//! from [`call_later`](LoopHandle::call_later), readers and writers of sockets. A [`Future<T>`] is
//! a result that may not exist yet, with done callbacks. A [`Task<T>`] is a thin adapter that steps
//! a Rust `async` block, one callback at a time. Names, order and semantics are asyncio's, so that
//! what is known of the one holds for the other, and Python code and its tests can be ported line
//! by line. Nothing has to be `Send`.
//!
//! ```
//! use miniloop::{EventLoop, sleep};
//! use std::{cell::RefCell, rc::Rc, time::Duration};
//!
//! let event_loop = EventLoop::new()?;
//! let seen = Rc::new(RefCell::new(Vec::new()));
//!
//! let log = seen.clone();
//! event_loop.call_soon(move || log.borrow_mut().push("callback"));
//!
//! let log = seen.clone();
//! let answer = event_loop.run_until_complete(async move {
//!     sleep(Duration::from_millis(1)).await?;
//!     log.borrow_mut().push("coroutine");
//!     Ok(42)
//! })?;
//! assert_eq!(answer, 42);
//! assert_eq!(*seen.borrow(), ["callback", "coroutine"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # One tick of the loop
//!
//! ```text
//!   call_soon       call_later, call_at    add_reader, sock_recv    other threads
//!       |                   |                        |                    |
//!       v                   v                        v                    v
//!   +-------+   due    +--------+              +----------+   wake   +---------+
//!   | ready |<---------| timers |              | selector |<---------|  inbox  |
//!   | FIFO  |          |  heap  |              |  (poll)  |          |         |
//!   |       |<---------+--------+--------------+----------+----------+---------+
//!   +-------+   events, letters
//!       |
//!       v  run exactly what was ready when the run phase began
//!   callbacks --> Future::set_result --> done callbacks, through call_soon
//!                                   \--> the awaiting task's step: its coroutine is polled once
//! ```
//!
//! In this order, and in no other:
//!
//! 1. What other threads have sent is taken in.
//! 2. Timers that are due are moved to the ready queue, by deadline, equal ones in the order they
//!    were made.
//! 3. The timeout of the wait is worked out: 0 if anything is ready or a stop was asked, or once after
//!    other threads have sent several callbacks; else until the next timer; with no timer, without
//!    limit.
//! 4. The loop waits for I/O.
//! 5. Each ready direction of each source puts one job in the ready queue, readable before
//!    writable.
//! 6. What was sent and what came due during the wait is moved to the ready queue.
//! 7. Exactly the jobs that are ready now are run, in order. What they schedule runs in the next
//!    tick. A job that was cancelled, be it in this very tick, is passed over.
//!
//! So no chain of callbacks starves timers or I/O. While callbacks are ready the poll (4, which is
//! then a mere look) may be left out, for at most 61 ticks, 1,000 callbacks and some milliseconds;
//! never by [`run_once`](EventLoop::run_once), and never under another clock than the real one. In
//! the code this is `LoopHandle::tick`.
//!
//! One hop is one tick: from `set_result` to the done callbacks and to the step of an awaiting
//! task, from a timer to its sleeper's step, from [`cancel`](Future::cancel) to the interruption.
//! Awaiting what is done already does not yield at all.
//!
//! # Waiting, blocking, and work for the processor
//!
//! `.await` on something that is not done is a switch point: the task's step returns, and the loop
//! runs whatever else is ready. Nothing else is one. A call that blocks (`std::thread::sleep`, a
//! blocking socket, a long computation) keeps the thread, and with it every callback, timer and
//! task, for as long as it takes; no other code can run, for there is but one thread and it is busy:
//!
//! ```
//! use miniloop::{EventLoop, FakeClock};
//! use std::{cell::Cell, rc::Rc, time::Duration};
//!
//! let clock = FakeClock::new();
//! let event_loop = EventLoop::with_clock(clock.clone())?;
//! let (fired_at, seen) = (Rc::new(Cell::new(Duration::ZERO)), event_loop.handle());
//! let fired = fired_at.clone();
//! event_loop.call_later(Duration::from_secs(1), move || fired.set(seen.time()));
//! // This callback "blocks" for ten seconds: the timer, due after one, has to wait.
//! event_loop.call_soon(move || clock.advance(Duration::from_secs(10)));
//! event_loop.run_once()?;
//! event_loop.run_once()?;
//! assert_eq!(fired_at.get(), Duration::from_secs(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The loop gives *concurrency*: many operations make progress by turns while most of them wait.
//! It gives no *parallelism*: a computation is not faster for being in a task. Give such work to
//! other threads (`std::thread`, a thread pool) or processes, and let them report back through
//! a [`Completer`], which completes a future from any thread:
//!
//! ```
//! use miniloop::EventLoop;
//!
//! let event_loop = EventLoop::new()?;
//! let (sum, completer) = event_loop.create_threadsafe_future();
//! std::thread::spawn(move || completer.set_result((1..=1_000_000).sum::<u64>()));
//! assert_eq!(event_loop.run_until_complete(sum)?, 500_000_500_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cancellation and its limits
//!
//! Cancelling is a request. [`Task::cancel`] cancels the future that the task waits
//! for; the `.await` it is suspended at then yields `Err(CancelledError)`, one tick later. The
//! brief's questions, answered:
//!
//! * *Is a task that suppresses its cancellation cancelled?* No. The request is used up; the task
//!   goes on and ends as it ends. One that ends with a [`CancelledError`] is `cancelled()`, or with
//!   a request that no await has delivered.
//! * *May it await during cleanup?* Yes. Those awaits are like any other; a second request
//!   interrupts them.
//! * *Is the awaited future cancelled too?* Yes, with whoever else waits for it.
//! * *What of a task that has not begun?* Its body never runs.
//!
//! The limits: code between two awaits can not be interrupted. A task that is suspended on
//! something foreign only (another crate's channel) has no await to deliver the error to; its
//! coroutine is dropped there, which is Rust's own cancellation. And an error handler that takes
//! *every* `Err` swallows the request, as a bare `except:` does in Python: pass on what
//! [`is_cancelled`](Exception::is_cancelled).
//!
//! Dropping is not cancelling: a dropped [`Task`] handle leaves the task running. But a pending
//! operation (a sleep, a `sock_*`) whose last handle is dropped is abandoned at once, which is what
//! `select!` does to the branch that lost.
//!
//! All of that with examples is on [a page of its own](docs::cancellation).
//!
//! # Failures never disappear
//!
//! A panic in a callback is caught and goes to the
//! [exception handler](LoopHandle::set_exception_handler), and the loop goes on. A panic in a task
//! ends that task with a [`PanicError`]. A failed future or task that nobody looked at is reported
//! when its last reference goes. (This needs `panic = "unwind"`, which is Rust's default.)
//!
//! # From Python's names to these
//!
//! | the brief, asyncio | here | room |
//! |---|---|---|
//! | `EventLoop()`, `EventLoop(clock=..)` | [`EventLoop::new`], [`EventLoop::with_clock`] | `event_loop.rs` |
//! | `loop` in callbacks and coroutines | [`LoopHandle`] | `loop_core.rs` |
//! | `call_soon(f, *args)` | [`call_soon`](LoopHandle::call_soon)`(move \|\| ..)` | `loop_core.rs` |
//! | `call_later`, `call_at`, `time` | [`call_later`](LoopHandle::call_later), [`call_at`](LoopHandle::call_at), [`time`](LoopHandle::time) | `loop_core.rs` |
//! | `_ready`, `_scheduled` | the ready queue, the heap | `ready.rs`, `timers.rs` |
//! | `Handle`, `TimerHandle`, `cancel` | [`Handle`], [`TimerHandle`] | `handles.rs` |
//! | `run_once`, `_run_once` | [`run_once`](EventLoop::run_once), `LoopHandle::tick` | `event_loop.rs`, `loop_core.rs` |
//! | `run_forever`, `run_until_complete`, `close` | the same on [`EventLoop`] | `event_loop.rs` |
//! | `stop`, `is_running`, `is_closed` | the same on [`LoopHandle`] | `loop_core.rs` |
//! | `time.monotonic`, `FakeClock` | [`MonotonicClock`], [`FakeClock`], [`Clock`] | `clock.rs` |
//! | `Future`, `create_future` | [`Future<T>`], [`create_future`](LoopHandle::create_future) | `futures.rs` |
//! | `__await__` | `impl std::future::Future for Future<T>` | `futures/awaits.rs` |
//! | `Task`, `create_task` | [`Task<T>`], [`create_task`](LoopHandle::create_task) | `tasks.rs` |
//! | `Task._step`, `Task._wakeup` | `LoopHandle::step` and `LoopHandle::wakeup` | `loop_core/step.rs` |
//! | a coroutine object, `send`, `throw` | an `async` block, its `poll`, an await that yields `Err` | `raw_task.rs` |
//! | `raise`, `except E as e` | `return Err(..)` or `?`, [`Exception::downcast_ref`] | `errors.rs` |
//! | `CancelledError`, `InvalidStateError`, `RuntimeError` | [`CancelledError`], [`InvalidStateError`], [`RuntimeError`] | `errors/kinds.rs` |
//! | `TimeoutError`, `ValueError`, `BrokenBarrierError` | [`TimeoutError`], [`ValueError`], [`BrokenBarrierError`] | `errors/kinds.rs` |
//! | `QueueFull`, `QueueEmpty`, `QueueShutDown` | the same; [`PutError`] gives the item back | `queues/errors.rs` |
//! | `Task.cancel(msg)`, `cancelling`, `uncancel` | [`cancel_with`](Task::cancel_with), [`cancelling`](Task::cancelling), [`uncancel`](Task::uncancel) | `tasks.rs` |
//! | `create_task(.., name=, context=, eager_start=)` | [`task_builder`](LoopHandle::task_builder) | `tasks.rs` |
//! | `current_task`, `all_tasks` | [`current_task`], [`all_tasks`], [`AnyTask`] | `tasks/any.rs` |
//! | `ensure_future` | what `gather` and its like do with what they are given | `tasks/ensure.rs` |
//! | `gather`, `gather(.., return_exceptions=True)` | [`gather`], [`gather_results`] | `waiting/gather.rs` |
//! | `wait`, `as_completed`, `shield` | [`wait`], [`as_completed`], [`shield`] | `waiting.rs` |
//! | `timeout`, `timeout_at`, `wait_for` | [`timeout()`](timeout()), [`timeout_at`], [`wait_for`] | `timeouts.rs`, `loop_core/limit.rs` |
//! | `TaskGroup`, `ExceptionGroup` | [`TaskGroup`], [`ExceptionGroup`] | `taskgroups.rs`, `errors/group.rs` |
//! | a cancel scope (trio, anyio) | [`CancelScope`] | `scopes.rs` |
//! | `Lock`, `Event`, `Condition`, `Semaphore`, `BoundedSemaphore`, `Barrier` | the same | `locks.rs` |
//! | `async with lock:` | `let _held = lock.acquire().await?;` | `locks.rs` |
//! | `Queue`, `LifoQueue`, `PriorityQueue` | the same | `queues.rs` |
//! | `contextvars`: `ContextVar`, `Context`, `copy_context` | [`ContextVar`], [`Context`], [`copy_context`] | `contexts.rs` |
//! | `sleep` | [`sleep()`](sleep()) | `sleep.rs` |
//! | `sleep(0)` | `sleep(Duration::ZERO)`, or [`yield_now`] | `sleep.rs` |
//! | a loop of `sleep` or of `call_later` | [`interval`], [`call_every`](LoopHandle::call_every) | `intervals.rs` |
//! | `get_running_loop` | [`get_running_loop`] | `loop_core/running.rs` |
//! | `selectors`, `fileobj`, `_process_io_events` | the selector, [`Source<T>`] | `selector.rs` |
//! | `setblocking(False)` | [`Source::new`] does it | `selector/source.rs` |
//! | `add_reader`, `remove_reader`, `add_writer`, `remove_writer` | the same on [`LoopHandle`] | `readiness.rs` |
//! | `sock_recv`, `sock_recv_into`, `sock_sendall`, `sock_accept`, `sock_connect` | the same on [`LoopHandle`]; [`SockRecv`] | `sockets.rs` |
//! | `call_soon_threadsafe` | [`ThreadsafeHandle::call_soon_threadsafe`] | `threadsafe.rs` |
//! | `set_exception_handler` and its like | the same on [`LoopHandle`] | `hooks.rs`, `loop_core/failures.rs` |
//! | `asyncio.run`, `asyncio.Runner` | [`run`], [`Runner`] | `runners.rs` |
//!
//! # Where to look first
//!
//! `ready.rs` and `timers.rs` are the brief's two queues. `loop_core.rs` has the tick. Then
//! `futures.rs`, and `loop_core/step.rs`, whose head names the states of a task. A room imports
//! only from rooms below it: first `errors`, `clock`, `few`, `contexts`, `handles`; then `ready`,
//! `timers`, `selector`, `hooks`; `threadsafe`, `raw_task`; `loop_core`; `readiness`, `futures`;
//! `sleep`, `sockets`; `tasks`, `completer`; `event_loop`, and beside it what is built on futures and
//! tasks alone: `waiting`, `scopes` (and on it `timeouts`, `taskgroups`), `locks`, `queues`,
//! `intervals`; `runners`, `testing`. Only `selector/poller.rs` and `raw_task.rs` contain `unsafe`
//! code.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock;
mod completer;
mod contexts;
pub mod docs;
mod errors;
mod event_loop;
mod few;
mod futures;
mod handles;
mod hooks;
mod intervals;
mod locks;
mod loop_core;
mod queues;
mod raw_task;
mod readiness;
mod ready;
mod runners;
mod scopes;
mod selector;
mod sleep;
mod sockets;
mod taskgroups;
mod tasks;
pub mod testing;
mod threadsafe;
mod timeouts;
mod timers;
mod waiting;

pub use clock::{Clock, FakeClock, Idle, MonotonicClock};
pub use completer::Completer;
pub use contexts::{Context, ContextVar, Token, copy_context};
pub use errors::{
    BrokenBarrierError, CancelledError, Exception, ExceptionGroup, InvalidStateError, PanicError, Result,
    RuntimeError, TimeoutError, ValueError,
};
pub use event_loop::EventLoop;
pub use futures::{CallbackKey, Future, Take};
pub use handles::{Handle, TimerHandle};
pub use hooks::ExceptionContext;
pub use intervals::{Interval, IntervalHandle, MissedTicks, interval, interval_at};
pub use locks::{Barrier, BoundedSemaphore, Condition, Event, Lock, LockGuard, Semaphore, SemaphoreGuard};
pub use loop_core::{LoopHandle, get_running_loop};
pub use queues::{
    BaseQueue, Fifo, Lifo, LifoQueue, Order, Priority, PriorityQueue, PutError, Queue, QueueEmpty, QueueFull,
    QueueShutDown,
};
pub use runners::{Runner, run};
pub use scopes::CancelScope;
pub use selector::source::{Pollable, Source};
pub use sleep::{Sleep, YieldNow, sleep, yield_now};
pub use sockets::{Accept, SockRecv};
pub use taskgroups::TaskGroup;
pub use tasks::{AnyTask, Task, TaskBuilder, all_tasks, create_task, current_task};
pub use threadsafe::ThreadsafeHandle;
pub use timeouts::{Timeout, timeout, timeout_at, wait_for};
pub use waiting::{
    AsCompleted, Gather, ReturnWhen, Wait, Waitable, as_completed, gather, gather_results, shield, wait,
};
