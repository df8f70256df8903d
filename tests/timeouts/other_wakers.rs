//! Branches that are polled with other wakers than the task's: `FuturesUnordered`, and `join_all`,
//! which takes to that above thirty. They are interrupted like all others, and may clean up.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};

use miniloop::{CancelScope, Result, create_task, timeout};

use crate::common::outcome;
use crate::play::{nap, now, play, requests, secs, this_loop};

/// How many were interrupted, and how many of those have cleaned up.
#[derive(Clone, Default)]
struct Heard(Rc<Cell<(usize, usize)>>);

impl Heard {
    fn counts(&self) -> (usize, usize) {
        self.0.get()
    }

    async fn sleeper(self) -> Result<()> {
        let slept = nap(60).await;
        let (interrupted, cleaned) = self.0.get();
        self.0.set((interrupted + usize::from(slept.is_err()), cleaned));
        nap(2).await?;
        let (interrupted, cleaned) = self.0.get();
        self.0.set((interrupted, cleaned + 1));
        slept
    }

    /// This many sleepers in a `join_all`.
    async fn joined(self, count: usize) -> Result<()> {
        let all = join_all((0..count).map(|_| self.clone().sleeper())).await;
        all.into_iter().collect()
    }
}

/// What interrupts the branches after a second.
#[derive(Clone, Copy, Debug)]
enum By {
    Cancel,
    Timeout,
    Scope,
}

const BY: [By; 3] = [By::Cancel, By::Timeout, By::Scope];

async fn interrupted(by: By, branches: impl Future<Output = Result<()>> + 'static) -> String {
    match by {
        By::Cancel => {
            let task = create_task(branches);
            let cancelled = task.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel();
            });
            outcome(task).await
        }
        By::Timeout => outcome(timeout(secs(1)).run(branches)).await,
        By::Scope => {
            let scope = CancelScope::new();
            let cancelled = scope.clone();
            this_loop().call_later(secs(1), move || {
                cancelled.cancel();
            });
            match scope.run(branches).await {
                Ok(None) => "scope".into(),
                ended => panic!("{ended:?}"),
            }
        }
    }
}

/// What [`interrupted`] gives, and when: the branches clean up for two seconds.
fn expected(by: By) -> [&'static str; 2] {
    let word = match by {
        By::Cancel => "cancelled",
        By::Timeout => "timeout",
        By::Scope => "scope",
    };
    [word, "3"]
}

#[test]
fn thirty_and_thirty_one_in_a_join_all_all_hear_of_it_once_and_clean_up() {
    for by in BY {
        for count in [30, 31] {
            let heard = Heard::default();
            let branches = heard.clone().joined(count);
            let lines = play(|trace| async move {
                trace.push(interrupted(by, branches).await);
                trace.push(now());
                assert_eq!(requests(), 0);
                Ok(())
            });
            assert_eq!(lines, expected(by), "{by:?}, {count}");
            assert_eq!(heard.counts(), (count, count), "{by:?}, {count}");
        }
    }
}

#[test]
fn they_hear_of_it_beside_a_branch_that_is_polled_with_the_task_s_waker() {
    for by in BY {
        for first in [true, false] {
            let heard = Heard::default();
            let (beside, joined) = (heard.clone().sleeper(), heard.clone().joined(31));
            let lines = play(|trace| async move {
                let branches = async move {
                    let (a, b) = match first {
                        true => join(beside, joined).await,
                        false => {
                            let (b, a) = join(joined, beside).await;
                            (a, b)
                        }
                    };
                    a.and(b)
                };
                trace.push(interrupted(by, branches).await);
                trace.push(now());
                Ok(())
            });
            assert_eq!(lines, expected(by), "{by:?}, the one beside is first: {first}");
            assert_eq!(
                heard.counts(),
                (32, 32),
                "{by:?}, the one beside is first: {first}"
            );
        }
    }
}

#[test]
fn they_hear_of_it_in_a_step_that_was_due_anyway() {
    for by in BY {
        let heard = Heard::default();
        let joined = heard.clone().joined(31);
        let lines = play(|trace| async move {
            let branches = async move {
                // Its sleep is over in the very tick of the interruption.
                let beside = async {
                    nap(1).await?;
                    nap(60).await
                };
                let (a, b) = join(beside, joined).await;
                a.and(b)
            };
            trace.push(interrupted(by, branches).await);
            trace.push(now());
            Ok(())
        });
        assert_eq!(lines, expected(by), "{by:?}");
        assert_eq!(heard.counts(), (31, 31), "{by:?}");
    }
}

#[test]
fn a_stream_of_them_goes_on_with_what_each_makes_of_it() {
    for by in BY {
        let heard = Heard::default();
        let all: FuturesUnordered<_> = (0..3).map(|_| heard.clone().sleeper()).collect();
        let lines = play(|trace| async move {
            let branches = async move {
                let in_turn = async move {
                    let mut all = all;
                    let mut ended = Ok(());
                    while let Some(next) = all.next().await {
                        ended = next;
                    }
                    ended
                };
                let (a, b) = join(nap(60), in_turn).await;
                a.and(b)
            };
            trace.push(interrupted(by, branches).await);
            trace.push(now());
            Ok(())
        });
        assert_eq!(lines, expected(by), "{by:?}");
        assert_eq!(heard.counts(), (3, 3), "{by:?}");
    }
}
