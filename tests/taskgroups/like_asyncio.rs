//! Random programs of timeouts, groups and cancellations leave the traces that they left on
//! CPython 3.13.
//!
//! A line of `recorded.txt` is `PROGRAM => TRACE`. A program is an expression:
//!
//! * `(nap ID S)`: sleep; `(fail NAME)`: raise; `(seq X ..)`: one after the other
//! * `(catch ID X)`: swallow whatever X raises; `(cleanup X Y)`: after an error in X run Y, and
//!   raise it again
//! * `(timeout ID S X)`, `(wf ID S X)`: X in a timeout, in `wait_for`
//! * `(group ID X)`: X as the body of a group; `(spawn X)`: X as a task of the innermost group
//! * `(task X)`: X as a task of its own, which is awaited
//! * `(cancelself)`, `(cancelafter S)`: cancel the task that runs this, now or later
//! * `(resched S)`: move the innermost timeout; `(advance S)`: move the clock
//!
//! What ends leaves its ID, how and when, and, behind a colon, the open requests. Programs in which
//! a cancellation that was pending before a timeout meets it are left out: asyncio loses that.

use std::iter::Peekable;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use miniloop::{FakeClock, Result, TaskGroup, Timeout, create_task, timeout, wait_for};

use crate::common::{Boom, Trace, virtual_loop, word};
use crate::play::{nap, now, requests, secs, this_loop, this_task};

enum Node {
    Word(String),
    List(Vec<Rc<Node>>),
}

impl Node {
    fn parse(tokens: &mut Peekable<impl Iterator<Item = String>>) -> Rc<Node> {
        let token = tokens.next().expect("a whole expression");
        if token != "(" {
            return Rc::new(Node::Word(token));
        }
        let mut list = Vec::new();
        while tokens.peek().is_some_and(|token| token != ")") {
            list.push(Node::parse(tokens));
        }
        tokens.next();
        Rc::new(Node::List(list))
    }

    fn list(&self) -> &[Rc<Node>] {
        match self {
            Node::List(list) => list,
            Node::Word(word) => panic!("{word} is no list"),
        }
    }

    fn word(&self) -> &str {
        match self {
            Node::Word(word) => word,
            Node::List(_) => panic!("a list is no word"),
        }
    }

    fn number(&self) -> u64 {
        self.word().parse().expect("a number")
    }
}

fn program(text: &str) -> Rc<Node> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    Node::parse(&mut spaced.split_whitespace().map(str::to_owned).peekable())
}

fn how(ended: &Result<()>, well: &str) -> String {
    ended
        .as_ref()
        .map_or_else(word, |()| well.into())
        .replace(' ', "_")
}

/// What a part of a program runs in.
#[derive(Clone)]
struct Player {
    trace: Trace,
    clock: FakeClock,
    group: Option<TaskGroup>,
    limit: Option<Timeout>,
}

impl Player {
    fn play(&self, node: &Rc<Node>) -> LocalBoxFuture<'static, Result<()>> {
        let (player, node) = (self.clone(), node.clone());
        Box::pin(async move { player.run(node.list()).await })
    }

    /// Plays it where there is no timeout around.
    fn play_apart(&self, node: &Rc<Node>) -> LocalBoxFuture<'static, Result<()>> {
        let apart = Player {
            limit: None,
            ..self.clone()
        };
        apart.play(node)
    }

    async fn run(&self, node: &[Rc<Node>]) -> Result<()> {
        match node[0].word() {
            "seq" => {
                for part in &node[1..] {
                    self.play(part).await?;
                }
                Ok(())
            }
            "catch" => {
                if let Err(error) = self.play(&node[2]).await {
                    self.note(&format!("c{}", node[1].word()), &how(&Err(error), "ok"));
                }
                Ok(())
            }
            "cleanup" => {
                if let Err(error) = self.play(&node[1]).await {
                    self.play(&node[2]).await?;
                    return Err(error);
                }
                Ok(())
            }
            "fail" => Err(Boom(node[1].word().to_owned().leak()).into()),
            "task" => create_task(self.play_apart(&node[1])).await,
            "nap" | "timeout" | "wf" | "group" => self.wait(node).await,
            other => self.act(other, node.get(1)),
        }
    }

    fn note(&self, name: &str, how: &str) {
        self.trace.push(format!("{name}:{how}@{}:{}", now(), requests()));
    }

    /// What leaves a note of how it has ended.
    async fn wait(&self, node: &[Rc<Node>]) -> Result<()> {
        let id = node[1].word();
        let (name, how, ended) = match node[0].word() {
            "nap" => {
                let ended = nap(node[2].number()).await;
                ("n", how(&ended, "slept"), ended)
            }
            "timeout" => {
                let limit = timeout(secs(node[2].number()));
                let inside = Player {
                    limit: Some(limit.clone()),
                    ..self.clone()
                };
                let ended = limit.run(inside.play(&node[3])).await;
                ("t", format!("{}:{}", how(&ended, "ok"), limit.expired()), ended)
            }
            "wf" => {
                let ended = wait_for(self.play_apart(&node[3]), secs(node[2].number())).await;
                ("w", how(&ended, "ok"), ended)
            }
            _ => {
                let group = TaskGroup::new();
                let inside = Player {
                    group: Some(group.clone()),
                    ..self.clone()
                };
                let ended = group.run(inside.play(&node[2])).await;
                ("g", how(&ended, "ok"), ended)
            }
        };
        self.note(&format!("{name}{id}"), &how);
        ended
    }

    /// What does not wait.
    fn act(&self, operation: &str, operand: Option<&Rc<Node>>) -> Result<()> {
        let seconds = || secs(operand.expect("an operand").number());
        match operation {
            "spawn" => {
                if let (Some(group), Some(task)) = (&self.group, operand)
                    && group.create_task(self.play_apart(task)).is_err()
                {
                    self.trace.push("refused");
                }
            }
            "cancelself" => {
                this_task().cancel();
            }
            "cancelafter" => {
                let task = this_task();
                this_loop().call_later(seconds(), move || {
                    task.cancel();
                });
            }
            "resched" => {
                let when = this_loop().time() + seconds();
                if self
                    .limit
                    .as_ref()
                    .is_some_and(|limit| limit.reschedule(when).is_err())
                {
                    self.trace.push("no-resched");
                }
            }
            "advance" => self.clock.advance(seconds()),
            other => panic!("there is no operation {other}"),
        }
        Ok(())
    }
}

fn trace_of(text: &str) -> String {
    let (event_loop, clock) = virtual_loop();
    // Errors that a program leaves behind are not what this is about.
    event_loop.set_exception_handler(|_, _| {});
    let player = Player {
        trace: Trace::new(),
        clock,
        group: None,
        limit: None,
    };
    let trace = player.trace.clone();
    let task = event_loop.create_task(player.play(&program(text)));
    let ended = event_loop.create_future::<String>();
    let (noted, handle) = (ended.clone(), event_loop.handle());
    task.add_done_callback(move |task| {
        let how = how(&task.result(), "ok");
        let at = crate::common::elapsed(&handle);
        noted.set_result(format!("end:{how}@{at}")).expect("once");
    });
    let ended = event_loop.run_until_complete(ended).expect("it ends");
    trace.push(format!("{ended}:{}", task.cancelling()));
    trace.lines().join(" ")
}

// brief: XT-4, XT-18
#[test]
fn random_programs_leave_the_traces_of_asyncio() {
    let recorded = include_str!("recorded.txt");
    assert!(recorded.lines().count() >= 100);
    for line in recorded.lines() {
        let (text, trace) = line.split_once(" => ").expect("a program and its trace");
        assert_eq!(trace_of(text), trace, "{text}");
    }
}
