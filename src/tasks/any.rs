//! Tasks whatever their results are: `AnyTask`, `current_task`, `all_tasks`.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::Task;
use crate::errors::{CancelledError, Exception};
use crate::handles::TaskControl;
use crate::loop_core::{LoopHandle, get_running_loop};

/// A task, without the type of its result: what [`current_task`] and [`all_tasks`] give. Two are
/// equal if they are the same task.
#[derive(Clone)]
pub struct AnyTask {
    control: Rc<dyn TaskControl>,
}

impl AnyTask {
    pub(crate) fn of(control: Rc<dyn TaskControl>) -> AnyTask {
        AnyTask { control }
    }

    pub(crate) fn control(&self) -> &Rc<dyn TaskControl> {
        &self.control
    }

    /// See [`Task::cancel`].
    pub fn cancel(&self) -> bool {
        self.control.clone().cancel(&CancelledError::new())
    }

    /// See [`Task::cancel_with`].
    pub fn cancel_with(&self, message: impl Into<Cow<'static, str>>) -> bool {
        self.control
            .clone()
            .cancel(&CancelledError::with_message(message))
    }

    /// See [`Task::uncancel`].
    pub fn uncancel(&self) -> u32 {
        self.control.uncancel()
    }

    /// See [`Task::cancelling`].
    pub fn cancelling(&self) -> u32 {
        self.control.cancelling()
    }

    /// See [`Task::get_name`].
    pub fn get_name(&self) -> String {
        self.control.name()
    }

    /// See [`Task::set_name`].
    pub fn set_name(&self, name: impl Into<String>) {
        self.control.set_name(name.into());
    }

    /// Whether it has ended.
    pub fn done(&self) -> bool {
        self.control.done()
    }

    /// Whether it has ended cancelled.
    pub fn cancelled(&self) -> bool {
        self.control.cancelled()
    }

    /// The exception it has ended with, if it has; it then counts as looked at.
    pub fn exception(&self) -> Option<Exception> {
        self.control.failure()
    }

    fn address(&self) -> *const () {
        Rc::as_ptr(&self.control).cast()
    }
}

impl PartialEq for AnyTask {
    fn eq(&self, other: &AnyTask) -> bool {
        self.address() == other.address()
    }
}

impl Eq for AnyTask {}

impl Hash for AnyTask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyTask")
            .field("name", &self.get_name())
            .field("done", &self.done())
            .finish_non_exhaustive()
    }
}

impl<T: 'static> Task<T> {
    /// This task, without the type of its result.
    pub fn to_any(&self) -> AnyTask {
        let control = self.future.cell().clone().task();
        AnyTask::of(control.expect("a task's cell is a task"))
    }
}

/// The task that is being stepped at this moment (`asyncio.current_task`); `None` in a callback,
/// and where no loop is running.
pub fn current_task() -> Option<AnyTask> {
    let event_loop = get_running_loop().ok()?;
    let task = event_loop.core.stepping()?;
    Some(AnyTask::of(task))
}

/// The tasks of the running loop that have not ended (`asyncio.all_tasks`), in no particular
/// order; none where no loop is running.
pub fn all_tasks() -> Vec<AnyTask> {
    get_running_loop().map_or_else(|_| Vec::new(), |event_loop| event_loop.all_tasks())
}

impl LoopHandle {
    /// The tasks of this loop that have not ended (`asyncio.all_tasks(loop)`): those that have not
    /// begun among them. In no particular order.
    pub fn all_tasks(&self) -> Vec<AnyTask> {
        let mut tasks: Vec<AnyTask> = self
            .core
            .runnables()
            .into_iter()
            .filter(|runnable| runnable.is_unfinished())
            .filter_map(|runnable| runnable.task())
            .map(AnyTask::of)
            .collect();
        // One that is suspended and scheduled is found twice.
        tasks.sort_by_key(|task| task.control.number());
        tasks.dedup();
        tasks
    }
}
