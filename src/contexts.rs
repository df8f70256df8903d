//! Context variables: values that belong to a task, and are handed on to what it schedules
//! (Python's `contextvars`).
//!
//! Every callback and every task runs in a context: that of the place where it was scheduled, as
//! it was at that moment. Few programs use this, and for the others the current context is `None`,
//! which costs one look at a flag.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::errors::RuntimeError;

type Values = Rc<BTreeMap<u64, Rc<dyn Any>>>;

thread_local! {
    /// Whether `CURRENT` is set: a flag of its own, for it needs no destructor.
    static IN_USE: Cell<bool> = const { Cell::new(false) };
    /// The current context; `None` is an empty one that nobody has asked for.
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// A set of values for context variables (`contextvars.Context`). Clones refer to one context;
/// [`copy`](Self::copy) makes another with the same values.
///
/// ```
/// use miniloop::{ContextVar, copy_context};
///
/// static USER: ContextVar<&str> = ContextVar::new("user");
///
/// USER.set("ada");
/// let context = copy_context();
/// context.run(|| USER.set("grace"))?;
/// assert_eq!(USER.get(), Some("ada"));
/// assert_eq!(context.get(&USER), Some("grace"));
/// # Ok::<(), miniloop::Exception>(())
/// ```
#[derive(Clone, Default)]
pub struct Context {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    // Shared between copies until one of them changes.
    values: RefCell<Values>,
    entered: Cell<bool>,
}

impl Context {
    /// An empty context.
    pub fn new() -> Context {
        Context::default()
    }

    /// A context of its own with the same values (`Context.copy`). It takes the same time however
    /// many there are.
    pub fn copy(&self) -> Context {
        let inner = Inner {
            values: RefCell::new(self.inner.values.borrow().clone()),
            entered: Cell::new(false),
        };
        Context {
            inner: Rc::new(inner),
        }
    }

    /// Runs `code` in this context: it sees its values, and what it sets stays in it
    /// (`Context.run`).
    ///
    /// # Errors
    /// [`RuntimeError::ContextInUse`] inside another `run` of it; `code` is not run then. (A task or
    /// callback that has the context may `run` in it, which asyncio refuses.)
    pub fn run<R>(&self, code: impl FnOnce() -> R) -> Result<R, RuntimeError> {
        if self.inner.entered.replace(true) {
            return Err(RuntimeError::ContextInUse);
        }
        let _entered = Entered(&self.inner.entered);
        Ok(self.enter(code))
    }

    /// Runs `code` in this context, whoever else is in it.
    pub(crate) fn enter<R>(&self, code: impl FnOnce() -> R) -> R {
        let _restored = Restored(exchange(Some(self.clone())));
        code()
    }

    /// The value that a variable has in this context (`context[var]`).
    pub fn get<T: Clone + 'static>(&self, var: &ContextVar<T>) -> Option<T> {
        let value = self.inner.values.borrow().get(&var.id()).cloned();
        value?.downcast_ref::<T>().cloned()
    }

    /// How many variables have a value in it.
    pub fn len(&self) -> usize {
        self.inner.values.borrow().len()
    }

    /// Whether no variable has a value in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets or removes a value and returns the one before.
    fn put(&self, id: u64, value: Option<Rc<dyn Any>>) -> Option<Rc<dyn Any>> {
        let mut values = self.inner.values.borrow_mut();
        let values = Rc::make_mut(&mut *values);
        match value {
            Some(value) => values.insert(id, value),
            None => values.remove(&id),
        }
    }

    fn is_same(&self, other: &Context) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Takes the mark away, also after a panic.
struct Entered<'a>(&'a Cell<bool>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Makes a context the current one again when it is dropped.
struct Restored(Option<Context>);

impl Drop for Restored {
    fn drop(&mut self) {
        drop(exchange(self.0.take()));
    }
}

/// Whether the current context is anything but empty.
#[inline]
pub(crate) fn in_use() -> bool {
    IN_USE.with(Cell::get)
}

/// Makes a context the current one and returns the one before.
pub(crate) fn exchange(context: Option<Context>) -> Option<Context> {
    // Past the end of the thread's life there are no values any more.
    CURRENT
        .try_with(|current| {
            IN_USE.with(|in_use| in_use.set(context.is_some()));
            current.replace(context)
        })
        .unwrap_or_default()
}

fn current() -> Option<Context> {
    let current = CURRENT.try_with(|current| current.borrow().clone());
    current.unwrap_or_default()
}

/// The current context, made now if it was empty.
fn current_made() -> Context {
    current().unwrap_or_else(|| {
        let context = Context::new();
        exchange(Some(context.clone()));
        context
    })
}

/// A copy of the current context for something that will run later; `None` if it is empty.
#[inline]
pub(crate) fn captured() -> Option<Context> {
    if in_use() { copied() } else { None }
}

fn copied() -> Option<Context> {
    let current = current().filter(|context| !context.is_empty());
    current.map(|context| context.copy())
}

/// A copy of the current context (`contextvars.copy_context`).
pub fn copy_context() -> Context {
    captured().unwrap_or_default()
}

/// A variable whose value depends on the context (`contextvars.ContextVar`): what is set in a
/// task or callback is seen there and in what it schedules or starts from then on, and nowhere
/// else. So it is task-local without being passed around.
///
/// It is made as a `static`. The value is cloned by [`get`](Self::get); an `Rc` makes that cheap.
///
/// ```
/// use miniloop::{ContextVar, EventLoop, create_task, sleep};
/// use std::time::Duration;
///
/// static REQUEST: ContextVar<u32> = ContextVar::new("request");
///
/// async fn handle(number: u32) -> miniloop::Result<u32> {
///     REQUEST.set(number);
///     sleep(Duration::from_millis(1)).await?;
///     Ok(REQUEST.get().unwrap()) // its own, whatever other tasks have set
/// }
///
/// let event_loop = EventLoop::new()?;
/// let numbers = event_loop.run_until_complete(async {
///     let (one, two) = (create_task(handle(1)), create_task(handle(2)));
///     Ok((one.await?, two.await?))
/// })?;
/// assert_eq!(numbers, (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ContextVar<T> {
    name: &'static str,
    /// 0 until it is used.
    id: AtomicU64,
    value: PhantomData<fn() -> T>,
}

impl<T> ContextVar<T> {
    /// A variable without a value.
    pub const fn new(name: &'static str) -> ContextVar<T> {
        ContextVar {
            name,
            id: AtomicU64::new(0),
            value: PhantomData,
        }
    }

    /// Its name (`ContextVar.name`).
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn id(&self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let new = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let set = self
            .id
            .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
        // Another thread may have come first.
        set.map_or_else(|other| other, |_| new)
    }
}

impl<T: Clone + 'static> ContextVar<T> {
    /// Its value in the current context, `None` if it has none (`ContextVar.get`).
    pub fn get(&self) -> Option<T> {
        if in_use() { current()?.get(self) } else { None }
    }

    /// Gives it a value in the current context (`ContextVar.set`). The token takes that back.
    pub fn set(&self, value: T) -> Token<T> {
        let context = current_made();
        let before = context.put(self.id(), Some(Rc::new(value)));
        Token {
            context,
            id: self.id(),
            before,
            value: PhantomData,
        }
    }

    /// Goes back to what the variable was before the `set` that gave the token
    /// (`ContextVar.reset`).
    ///
    /// # Errors
    /// [`RuntimeError::WrongToken`] if the token comes from another variable, or from another
    /// context than the current one.
    pub fn reset(&self, token: Token<T>) -> Result<(), RuntimeError> {
        let here = current().is_some_and(|context| context.is_same(&token.context));
        if token.id != self.id() || !here {
            return Err(RuntimeError::WrongToken);
        }
        let ended = token.context.put(token.id, token.before);
        drop(ended);
        Ok(())
    }
}

impl<T> fmt::Debug for ContextVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ContextVar").field(&self.name).finish()
    }
}

/// What a context variable was before (`contextvars.Token`): see [`ContextVar::reset`].
pub struct Token<T> {
    context: Context,
    id: u64,
    before: Option<Rc<dyn Any>>,
    value: PhantomData<fn() -> T>,
}

impl<T: Clone + 'static> Token<T> {
    /// The value before (`Token.old_value`).
    pub fn old_value(&self) -> Option<T> {
        self.before.as_ref()?.downcast_ref::<T>().cloned()
    }
}

impl<T> fmt::Debug for Token<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}
