//! The little language of the random programs.
//!
//! A program is a list of tasks, each a list of operations. It shares some objects with all the
//! others, which are named by their index (see `World::new`). It has no loops: every program ends,
//! or waits for something that never comes.

/// So many tasks a program has at most.
pub const MOST_TASKS: usize = 5;
/// How many there are of each kind of object.
pub const FUTURES: usize = 2;
pub const LOCKS: usize = 2;
pub const SEMAPHORES: usize = 2;
pub const EVENTS: usize = 2;
pub const QUEUES: usize = 3;

/// What takes no time: a task may do it, and so may a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    SetResult(usize),
    SetException(usize),
    CancelFuture(usize),
    /// Adds a done callback to a future.
    Watch(usize),
    /// Cancels a task of the program's own list.
    Cancel(usize),
    CancelTimer(usize),
    SetEvent(usize),
    ClearEvent(usize),
    Notify(usize),
    PutNowait(usize),
    GetNowait(usize),
    TaskDone(usize),
    Shutdown(usize, bool),
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Do(Act),
    /// `call_soon`.
    Soon(Vec<Act>),
    /// `call_later`.
    Later(u64, Vec<Act>),
    Raise,
    Uncancel,
    Yield,
    Sleep(u64),
    Await(usize),
    /// Awaits a task of the program's own list (an earlier one, so that there is no circle).
    Join(usize),
    WaitEvent(usize),
    /// `Condition::wait`, where the condition's lock is held.
    WaitNotified,
    Put(usize),
    Get(usize),
    JoinQueue(usize),
    WithLock(usize, Vec<Op>),
    WithPermit(usize, Vec<Op>),
    WithCondition(Vec<Op>),
    /// `timeout(..).run(body)`.
    Timeout(u64, Vec<Op>),
    WaitFor(u64, Vec<Op>),
    /// A task group: its tasks, and its body.
    Group(Vec<Vec<Op>>, Vec<Op>),
    Gather(Vec<Vec<Op>>),
    GatherResults(Vec<Vec<Op>>),
    /// `wait`: for the first, for the first exception, for all; 0 is no timeout.
    Wait(usize, u64, Vec<Vec<Op>>),
    Shield(Vec<Op>),
    /// Swallows whatever its body raises, a cancellation included.
    Catch(Vec<Op>),
    Finally(Vec<Op>, Vec<Op>),
    /// Both in turn; when one is over, the other is dropped where it is (`select!`).
    Race(Vec<Op>, Vec<Op>),
}

/// How a run ends once nothing goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All tasks are cancelled until they have ended.
    Cancel,
    /// The loop is closed as it is: everything is dropped in the middle.
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub tasks: Vec<Vec<Op>>,
    pub end: End,
}

impl Op {
    /// Its name in the trace: what it is, without what is inside it.
    pub fn label(&self) -> String {
        let text = format!("{self:?}");
        let end = text.find([',', '[']).unwrap_or(text.len());
        let label = text[..end].trim_end_matches('(');
        match label.contains('(') && !label.ends_with(')') {
            true => format!("{label})"),
            false => label.to_owned(),
        }
    }

    /// What is inside it.
    fn inside(&mut self) -> Vec<&mut Vec<Op>> {
        match self {
            Op::WithLock(_, body)
            | Op::WithPermit(_, body)
            | Op::WithCondition(body)
            | Op::Timeout(_, body)
            | Op::WaitFor(_, body)
            | Op::Shield(body)
            | Op::Catch(body) => vec![body],
            Op::Finally(one, other) | Op::Race(one, other) => vec![one, other],
            Op::Gather(bodies) | Op::GatherResults(bodies) | Op::Wait(_, _, bodies) => {
                bodies.iter_mut().collect()
            }
            Op::Group(bodies, body) => bodies.iter_mut().chain([body]).collect(),
            _ => Vec::new(),
        }
    }

    /// The same with less inside.
    fn smaller(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for place in 0..self.clone().inside().len() {
            for ops in smaller(self.clone().inside()[place]) {
                let mut op = self.clone();
                *op.inside()[place] = ops;
                all.push(op);
            }
        }
        all
    }
}

/// The same with one thing less: without one of them, or with what is inside in its place.
fn smaller(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut all = Vec::new();
    for (place, op) in ops.iter().enumerate() {
        let with = |others: Vec<Op>| [&ops[..place], &others, &ops[place + 1..]].concat();
        all.push(with(Vec::new()));
        all.extend(op.clone().inside().into_iter().map(|inside| with(inside.clone())));
        all.extend(op.smaller().into_iter().map(|less| with(vec![less])));
    }
    all
}

impl Program {
    /// Whether any operation, at whatever depth, is such a one.
    pub fn any(&self, is_such: fn(&Op) -> bool) -> bool {
        fn any_of(ops: &[Op], is_such: fn(&Op) -> bool) -> bool {
            let inside = |op: &Op| op.clone().inside().iter().any(|ops| any_of(ops, is_such));
            ops.iter().any(|op| is_such(op) || inside(op))
        }
        self.tasks.iter().any(|ops| any_of(ops, is_such))
    }

    /// The smallest program that is still `wrong`, taking away one thing after the other.
    pub fn reduced(self, wrong: impl Fn(&Program) -> bool) -> Program {
        let mut program = self;
        while let Some(less) = program.smaller().into_iter().find(&wrong) {
            program = less;
        }
        program
    }

    /// The same with one thing less.
    fn smaller(&self) -> Vec<Program> {
        let mut all = Vec::new();
        for (place, ops) in self.tasks.iter().enumerate() {
            let mut without = self.clone();
            without.tasks.remove(place);
            all.push(without);
            for ops in smaller(ops) {
                let mut program = self.clone();
                program.tasks[place] = ops;
                all.push(program);
            }
        }
        all
    }

    /// Whether a task of it may end in another way than cancelled although it was cancelled.
    pub fn may_swallow(&self) -> bool {
        self.any(|op| {
            matches!(
                op,
                Op::Catch(_)
                    | Op::Finally(..)
                    | Op::Uncancel
                    | Op::Race(..)
                    | Op::Group(..)
                    | Op::Gather(_)
                    | Op::GatherResults(_)
            )
        })
    }
}
