//! The way in for other threads: the inbox, the handle that posts to it, wakers by task key.
//!
//! Python writes a byte to a socket pair (`_write_to_self`); here the poller is notified, and
//! only if the loop sleeps. Nothing that crosses a thread holds anything of the loop but its
//! inbox and a key: a waker that outlives its task or its loop has nothing to touch.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slotmap::{Key, KeyData};

use crate::errors::RuntimeError;
use crate::handles::{Callback, OwnedKey, boxed, boxed_to_send};
use crate::selector::poller::Notifier;

/// What other threads send.
pub(crate) enum Letter {
    Callback(Box<dyn FnOnce() + Send>),
    Wake(Arc<RemoteWaker>),
}

pub(crate) struct Inbox {
    /// The loop's number, which no other loop ever has.
    loop_id: u64,
    mail: Mutex<Mail>,
    /// Whether there are letters: looked at in every tick, without the lock.
    has_mail: AtomicBool,
    /// How many handles, completers and wakers could still post.
    outside: AtomicUsize,
}

struct Mail {
    letters: Vec<Letter>,
    /// The loop waits, and has to be notified of a letter.
    asleep: bool,
    /// `None` once the loop is closed: then no letter is taken.
    notifier: Option<Notifier>,
}

impl Inbox {
    pub(crate) fn new(loop_id: u64, notifier: Option<Notifier>) -> Arc<Inbox> {
        Arc::new(Inbox {
            loop_id,
            mail: Mutex::new(Mail {
                letters: Vec::new(),
                asleep: false,
                notifier,
            }),
            has_mail: AtomicBool::new(false),
            outside: AtomicUsize::new(0),
        })
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        // Nothing that can panic is done under the lock.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a letter; the loop is notified once if it sleeps. A closed loop gives it back.
    fn post(&self, letter: Letter) -> Result<(), Letter> {
        let notifier = {
            let mut mail = self.mail();
            let Some(notifier) = &mail.notifier else {
                return Err(letter);
            };
            let notifier = mail.asleep.then(|| notifier.clone());
            mail.asleep = false;
            mail.letters.push(letter);
            self.has_mail.store(true, Ordering::Release);
            notifier
        };
        if let Some(notifier) = notifier {
            notifier.notify();
        }
        Ok(())
    }

    /// One who could have posted is gone: a loop that sleeps for nothing else is to notice.
    fn left(&self) {
        self.outside.fetch_sub(1, Ordering::AcqRel);
        let notifier = {
            let mut mail = self.mail();
            let asleep = std::mem::take(&mut mail.asleep);
            mail.notifier.clone().filter(|_| asleep)
        };
        if let Some(notifier) = notifier {
            notifier.notify();
        }
    }

    /// How many could still post.
    pub(crate) fn outside(&self) -> usize {
        self.outside.load(Ordering::Acquire)
    }

    /// Whether there is mail, or anybody who could send some. (In this order: one who posts and
    /// leaves is seen by the one or the other.)
    pub(crate) fn may_get_mail(&self) -> bool {
        self.outside() > 0 || self.has_mail()
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Takes all letters, in exchange for an empty `Vec`.
    pub(crate) fn take(&self, empty: Vec<Letter>) -> Vec<Letter> {
        let mut mail = self.mail();
        self.has_mail.store(false, Ordering::Release);
        std::mem::replace(&mut mail.letters, empty)
    }

    /// The loop is about to wait: from now on it is notified. False if there is mail already.
    pub(crate) fn fall_asleep(&self) -> bool {
        let mut mail = self.mail();
        mail.asleep = mail.letters.is_empty();
        mail.asleep
    }

    pub(crate) fn wake_up(&self) {
        self.mail().asleep = false;
    }

    /// Refuses all later letters and gives back those that were not read.
    pub(crate) fn close(&self) -> Vec<Letter> {
        let mut mail = self.mail();
        mail.notifier = None;
        mail.asleep = false;
        self.has_mail.store(false, Ordering::Release);
        std::mem::take(&mut mail.letters)
    }

    fn is_closed(&self) -> bool {
        self.mail().notifier.is_none()
    }
}

/// A loop as seen from code on its own thread, where no letter is needed.
pub(crate) trait Home {
    fn schedule(&self, callback: Callback);
    fn wake(&self, key: OwnedKey);
}

thread_local! {
    /// The loop that runs on this thread.
    static HOME: RefCell<Option<(u64, Rc<dyn Home>)>> = const { RefCell::new(None) };
}

/// Says which loop runs on this thread.
pub(crate) fn set_home(home: Option<(u64, Rc<dyn Home>)>) {
    // Past the end of the thread's life its wakers take the way of other threads.
    let before = HOME.try_with(|current| current.replace(home));
    drop(before);
}

/// The loop with this number, if it is running on this thread. (Not where the thread is ending
/// and its variables are gone.)
fn home(loop_id: u64) -> Option<Rc<dyn Home>> {
    HOME.try_with(|home| match &*home.borrow() {
        Some((id, home)) if *id == loop_id => Some(home.clone()),
        _ => None,
    })
    .ok()
    .flatten()
}

/// Schedules callbacks on a loop from any thread.
///
/// It is the one thing, with [`Completer`](crate::Completer) and wakers, that other threads may
/// hold of a loop. It stays valid as a value when the loop is closed. While one is alive, a run
/// with nothing else to wait for is no deadlock.
///
/// ```
/// use miniloop::{EventLoop, get_running_loop};
///
/// let event_loop = EventLoop::new()?;
/// let sender = event_loop.threadsafe_handle();
/// let thread = std::thread::spawn(move || {
///     // This runs on the loop's thread, which is where the loop can be reached.
///     sender.call_soon_threadsafe(|| get_running_loop().expect("it runs this").stop())
/// });
/// event_loop.run_forever()?;
/// thread.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadsafeHandle {
    inbox: Arc<Inbox>,
}

impl ThreadsafeHandle {
    pub(crate) fn new(inbox: Arc<Inbox>) -> ThreadsafeHandle {
        inbox.outside.fetch_add(1, Ordering::Relaxed);
        ThreadsafeHandle { inbox }
    }

    /// Has the loop run `callback`, on its own thread, as soon as it can: callbacks of one thread
    /// in the order they were given (asyncio's `loop.call_soon_threadsafe`). A sleeping loop is
    /// woken. On the loop's own thread, while it runs, it is `call_soon`. From another thread the
    /// callback has an empty context: context variables stay on their thread.
    ///
    /// # Errors
    /// [`RuntimeError::LoopClosed`]; the callback is dropped, on this thread.
    pub fn call_soon_threadsafe(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), RuntimeError> {
        if let Some(home) = home(self.inbox.loop_id) {
            home.schedule(boxed(callback));
            return Ok(());
        }
        self.inbox
            .post(Letter::Callback(boxed_to_send(callback)))
            .map_err(|_| RuntimeError::LoopClosed)
    }

    /// Whether the loop is closed. It may be so a moment after the answer was no.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }
}

impl Clone for ThreadsafeHandle {
    fn clone(&self) -> ThreadsafeHandle {
        ThreadsafeHandle::new(self.inbox.clone())
    }
}

impl Drop for ThreadsafeHandle {
    fn drop(&mut self) {
        self.inbox.left();
    }
}

impl fmt::Debug for ThreadsafeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadsafeHandle").finish_non_exhaustive()
    }
}

/// Wakes what the loop owns under a key: the part of a task's waker that may cross threads.
///
/// All clones of a task's waker share one, and the task keeps only a weak reference to it: so
/// the loop can tell whether anybody is left who could wake it.
pub(crate) struct RemoteWaker {
    inbox: Arc<Inbox>,
    /// The key as a number, 0 while there is none. Written and read on the loop's thread alone.
    key: AtomicU64,
    /// It was woken and has not been stepped since.
    queued: AtomicBool,
}

impl RemoteWaker {
    pub(crate) fn new(inbox: &Arc<Inbox>) -> Arc<RemoteWaker> {
        inbox.outside.fetch_add(1, Ordering::Relaxed);
        Arc::new(RemoteWaker {
            inbox: inbox.clone(),
            key: AtomicU64::new(0),
            queued: AtomicBool::new(false),
        })
    }

    pub(crate) fn set_key(&self, key: OwnedKey) {
        self.key.store(key.data().as_ffi(), Ordering::Relaxed);
    }

    /// To be asked on the loop's thread; a null key finds nothing.
    pub(crate) fn key(&self) -> OwnedKey {
        match self.key.load(Ordering::Relaxed) {
            0 => OwnedKey::null(),
            key => KeyData::from_ffi(key).into(),
        }
    }

    /// It is being stepped: the next wake counts again.
    pub(crate) fn stepped(&self) {
        // Acquire: the step sees all that was done before a wake that this one stands for.
        self.queued.swap(false, Ordering::AcqRel);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// What its wakers do.
    pub(crate) fn wake(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        match home(self.inbox.loop_id) {
            // A task in its first step has no key yet: it is looked up when the letter is read.
            Some(home) if self.key.load(Ordering::Relaxed) != 0 => home.wake(self.key()),
            // A closed loop has nothing left to wake.
            _ => drop(self.inbox.post(Letter::Wake(self.clone()))),
        }
    }
}

impl Drop for RemoteWaker {
    fn drop(&mut self) {
        self.inbox.left();
    }
}
