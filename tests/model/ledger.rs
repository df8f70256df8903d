//! The model: what has to hold of each object, in terms of who asked, who got, who gave up.
//!
//! It computes nothing the way the crate does. It has no futures and no wakes: a line of those
//! who wait, a number of those who hold, the items that are in. A rule that is broken is an `Err`.

use std::cmp::Ordering;

/// A rule that does not hold, in words.
pub type Checked = Result<(), String>;

fn rule(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

/// Names one attempt to get something.
pub type Ticket = u32;

struct Waiter {
    ticket: Ticket,
    task: u32,
    /// A task behind it was served first. That is right only if this one gives up.
    overtaken_by: Option<u32>,
}

/// Those who wait for one thing, in the order they came.
#[derive(Default)]
pub struct Line(Vec<Waiter>);

impl Line {
    pub fn enter(&mut self, ticket: Ticket, task: u32) {
        self.0.push(Waiter {
            ticket,
            task,
            overtaken_by: None,
        });
    }

    /// This one has got it: whoever is before it in the line is overtaken.
    fn served(&mut self, ticket: Ticket) -> Checked {
        let place = self.0.iter().position(|waiter| waiter.ticket == ticket);
        let place = place.ok_or_else(|| format!("{ticket} got something without waiting for it"))?;
        let served = self.0.remove(place);
        for waiter in &mut self.0[..place] {
            waiter.overtaken_by = Some(served.task);
        }
        // Within one task the order is that in which the task looks at its futures.
        rule(served.overtaken_by.is_none_or(|by| by == served.task), || {
            format!(
                "{} was served after {:?}, which came later",
                served.task, served.overtaken_by
            )
        })
    }

    /// This one waits no more, whether it was served or gave up.
    pub fn leave(&mut self, ticket: Ticket) {
        self.0.retain(|waiter| waiter.ticket != ticket);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A lock (one permit) or a semaphore.
pub struct Permits {
    permits: usize,
    holders: Vec<Ticket>,
    pub line: Line,
}

impl Permits {
    pub fn new(permits: usize) -> Permits {
        Permits {
            permits,
            holders: Vec::new(),
            line: Line::default(),
        }
    }

    pub fn granted(&mut self, ticket: Ticket) -> Checked {
        self.line.served(ticket)?;
        self.taken_back(ticket)
    }

    /// Got without a place in the line, as the lock of a condition is after a wait.
    pub fn taken_back(&mut self, ticket: Ticket) -> Checked {
        self.holders.push(ticket);
        rule(self.holders.len() <= self.permits, || {
            format!("{} hold {} permits", self.holders.len(), self.permits)
        })
    }

    /// Given back; nothing if this one does not hold it.
    pub fn released(&mut self, ticket: Ticket) {
        self.holders.retain(|holder| *holder != ticket);
    }

    pub fn free(&self) -> usize {
        self.permits.saturating_sub(self.holders.len())
    }

    /// At any moment.
    pub fn check(&self, locked: bool) -> Checked {
        rule(self.free() > 0 || locked, || {
            "all permits are held, and it is not locked".into()
        })
    }

    /// Nothing goes on by itself any more.
    pub fn check_quiet(&self, locked: bool) -> Checked {
        rule(self.free() == 0 || self.line.is_empty(), || {
            format!("{} permits are free, and somebody waits", self.free())
        })?;
        rule(locked == (self.free() == 0), || {
            format!("locked() is {locked}, and {} permits are free", self.free())
        })
    }
}

/// An event.
#[derive(Default)]
pub struct Flag {
    set: bool,
    /// Those who wait, and whether the flag was set meanwhile.
    waiting: Vec<(Ticket, bool)>,
}

impl Flag {
    pub fn set(&mut self, set: bool) {
        self.set = set;
        if set {
            for (_, woken) in &mut self.waiting {
                *woken = true;
            }
        }
    }

    pub fn enter(&mut self, ticket: Ticket) {
        self.waiting.push((ticket, self.set));
    }

    pub fn went_on(&self, ticket: Ticket) -> Checked {
        rule(self.waiting.contains(&(ticket, true)), || {
            "a wait for an event that was not set ended".into()
        })
    }

    pub fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|(waiting, _)| *waiting != ticket);
    }

    pub fn check(&self, is_set: bool) -> Checked {
        rule(self.set == is_set, || format!("is_set() is {is_set}"))
    }

    pub fn check_quiet(&self) -> Checked {
        rule(self.waiting.iter().all(|(_, woken)| !woken), || {
            "the event was set, and one that waited for it still does".into()
        })
    }
}

/// The waiters of a condition.
#[derive(Default)]
pub struct Notifications {
    waiting: Vec<Ticket>,
    /// Notifications that no waiter has returned with yet: each with those who waited then.
    owed: Vec<Vec<Ticket>>,
    /// Waiters that gave up: what one of them was notified of may go to any other.
    gave_up: usize,
}

impl Notifications {
    pub fn enter(&mut self, ticket: Ticket) {
        self.waiting.push(ticket);
    }

    pub fn notify(&mut self, n: usize) {
        let not_yet = self.waiting.len().saturating_sub(self.owed.len());
        for _ in 0..n.min(not_yet) {
            self.owed.push(self.waiting.clone());
        }
    }

    pub fn returned(&mut self, ticket: Ticket) -> Checked {
        let owed = self.owed.iter().position(|waiting| waiting.contains(&ticket));
        let notified = owed.map(|place| self.owed.remove(place)).is_some();
        self.leave(ticket);
        if !notified {
            rule(self.gave_up > 0, || "a wait ended that nobody notified".into())?;
            self.gave_up -= 1;
        }
        Ok(())
    }

    pub fn gave_up(&mut self, ticket: Ticket) {
        self.gave_up += 1;
        self.leave(ticket);
    }

    fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|waiting| *waiting != ticket);
        for waiting in &mut self.owed {
            waiting.retain(|waiting| *waiting != ticket);
        }
        // With nobody left who waited then, a notification is over.
        self.owed.retain(|waiting| !waiting.is_empty());
    }

    /// Nothing goes on by itself any more, and the lock is free.
    pub fn check_quiet(&self) -> Checked {
        rule(self.owed.is_empty(), || {
            format!("{} notifications were lost", self.owed.len())
        })
    }
}

/// In which order a queue gives out what it was given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    FirstIn,
    LastIn,
    Smallest,
}

/// An item as the model knows it: in a priority queue the lower rank goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub rank: u32,
    pub number: u32,
}

/// A queue: exactly the items that are in it, in the order they came.
pub struct Stock {
    order: Order,
    size: usize,
    items: Vec<Entry>,
    /// Put, and not reported as done.
    unfinished: usize,
    shut_down: bool,
    getters: usize,
    putters: usize,
    /// Those who wait for the unfinished ones, and whether there were none meanwhile.
    joiners: Vec<(Ticket, bool)>,
}

impl Stock {
    pub fn new(order: Order, size: usize) -> Stock {
        Stock {
            order,
            size,
            items: Vec::new(),
            unfinished: 0,
            shut_down: false,
            getters: 0,
            putters: 0,
            joiners: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.size > 0 && self.items.len() >= self.size
    }

    pub fn put(&mut self, item: Entry) -> Checked {
        rule(!self.is_full(), || format!("{item:?} was put in a full queue"))?;
        rule(!self.shut_down, || {
            format!("{item:?} was put in a queue that is shut down")
        })?;
        self.items.push(item);
        self.unfinished += 1;
        Ok(())
    }

    pub fn got(&mut self, item: Entry) -> Checked {
        let next = match self.order {
            Order::FirstIn => self.items.first(),
            Order::LastIn => self.items.last(),
            // The first of the smallest.
            Order::Smallest => self.items.iter().min_by_key(|item| item.rank),
        };
        let next = next.copied();
        rule(next == Some(item), || {
            format!("{item:?} came out, {next:?} was next")
        })?;
        self.items.retain(|other| *other != item);
        Ok(())
    }

    pub fn refused_put(&self, full: bool) -> Checked {
        let right = if full {
            self.is_full() && !self.shut_down
        } else {
            self.shut_down
        };
        rule(right, || {
            format!("a put was refused, and {} items are in", self.items.len())
        })
    }

    pub fn refused_get(&self, empty: bool) -> Checked {
        rule(self.items.is_empty() && self.shut_down != empty, || {
            format!("a get was refused, and {} items are in", self.items.len())
        })
    }

    pub fn task_done(&mut self, accepted: bool) -> Checked {
        rule(accepted == (self.unfinished > 0), || {
            format!("task_done() with {} unfinished: {accepted}", self.unfinished)
        })?;
        self.unfinished = self.unfinished.saturating_sub(1);
        self.look_for_joiners();
        Ok(())
    }

    pub fn shut_down(&mut self, immediate: bool, thrown_out: &mut [Entry]) -> Checked {
        self.shut_down = true;
        let mut expected = Vec::new();
        if immediate {
            expected.append(&mut self.items);
            self.unfinished = self.unfinished.saturating_sub(expected.len());
            self.look_for_joiners();
        }
        let by_number = |one: &Entry, other: &Entry| -> Ordering { one.number.cmp(&other.number) };
        expected.sort_by(by_number);
        thrown_out.sort_by(by_number);
        rule(expected == thrown_out, || {
            format!("shutdown handed back {thrown_out:?}, in were {expected:?}")
        })
    }

    fn look_for_joiners(&mut self) {
        for (_, free) in &mut self.joiners {
            *free |= self.unfinished == 0;
        }
    }

    pub fn getters(&mut self) -> &mut usize {
        &mut self.getters
    }

    pub fn putters(&mut self) -> &mut usize {
        &mut self.putters
    }

    pub fn enter_join(&mut self, ticket: Ticket) {
        self.joiners.push((ticket, self.unfinished == 0));
    }

    pub fn joined(&self, ticket: Ticket) -> Checked {
        rule(self.joiners.contains(&(ticket, true)), || {
            format!("join() ended with {} unfinished", self.unfinished)
        })
    }

    pub fn leave_join(&mut self, ticket: Ticket) {
        self.joiners.retain(|(joining, _)| *joining != ticket);
    }

    pub fn check(&self, size: usize, empty: bool, full: bool) -> Checked {
        rule(size == self.items.len(), || {
            format!("qsize() is {size}, and {} items are in", self.items.len())
        })?;
        rule(empty == self.items.is_empty() && full == self.is_full(), || {
            format!("empty() is {empty} and full() is {full}, {size} items are in")
        })
    }

    pub fn check_quiet(&self) -> Checked {
        rule(
            self.getters == 0 || (self.items.is_empty() && !self.shut_down),
            || format!("a get waits, and {} items are in", self.items.len()),
        )?;
        rule(self.putters == 0 || (self.is_full() && !self.shut_down), || {
            format!("a put waits, and {} items are in", self.items.len())
        })?;
        rule(self.joiners.iter().all(|(_, free)| !free), || {
            format!("a join waits, with {} unfinished", self.unfinished)
        })
    }
}
