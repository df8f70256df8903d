//! Random programs, and the traces that CPython 3.13's asyncio left of them.
//!
//! A line of `recorded.txt` is `PERMITS PARTIES WORKER.. : TICK,TICK.. => TRACE`. A worker is
//! a list of operations, one letter and one number each; a tick is what the main task does between
//! two yields. Programs that meet one of the documented differences are not in the list.

use std::cell::RefCell;
use std::rc::Rc;

use miniloop::{
    Barrier, BrokenBarrierError, Condition, Event, EventLoop, Lock, Result, Semaphore, Task, create_task,
};

use crate::common::yields;
use crate::support::Reports;

/// What the workers of a program share.
#[derive(Clone)]
struct Scene {
    lock: Lock,
    semaphore: Semaphore,
    condition: Condition,
    event: Event,
    barrier: Barrier,
    trace: Rc<RefCell<Vec<String>>>,
}

/// The letters and numbers of a list of operations.
fn operations(text: &str) -> Vec<(char, u32)> {
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(2)
        .map(|pair| (pair[0], pair[1].to_digit(10).unwrap()))
        .collect()
}

impl Scene {
    fn new(permits: usize, parties: usize) -> Scene {
        Scene {
            lock: Lock::new(),
            semaphore: Semaphore::new(permits),
            condition: Condition::new(),
            event: Event::new(),
            barrier: Barrier::new(parties).unwrap(),
            trace: Rc::default(),
        }
    }

    fn note(&self, word: impl Into<String>) {
        self.trace.borrow_mut().push(word.into());
    }

    /// One operation of a worker.
    async fn operate(&self, me: char, operation: char, count: u32) -> Result<()> {
        match operation {
            'l' => {
                let _held = self.lock.acquire().await?;
                self.note(format!("{me}l("));
                yields(count).await?;
            }
            's' => {
                let _permit = self.semaphore.acquire().await?;
                self.note(format!("{me}s("));
                yields(count).await?;
            }
            'r' => self.semaphore.release(),
            'w' | 'p' | 'c' | 'n' => self.operate_condition(me, operation, count).await?,
            'e' => self.event.wait().await?,
            'S' => self.event.set(),
            'C' => self.event.clear(),
            'F' => {
                self.event.set();
                self.event.clear();
            }
            'b' => {
                let number = self.barrier.wait().await?;
                self.note(format!("{me}b{number}"));
            }
            'R' => self.barrier.reset().await?,
            'A' => self.barrier.abort().await?,
            'y' => yields(count).await?,
            _ => panic!("there is no operation {operation}"),
        }
        Ok(())
    }

    async fn operate_condition(&self, me: char, operation: char, count: u32) -> Result<()> {
        let _held = self.condition.acquire().await?;
        match operation {
            'w' => {
                let waited = self.condition.wait().await;
                self.note(format!("{me}w)"));
                waited?;
                yields(count).await
            }
            'p' => {
                let mut asked = 0;
                let enough = || {
                    asked += 1;
                    self.note(format!("{me}p{asked}"));
                    asked > count
                };
                self.condition.wait_for(enough).await
            }
            'c' => {
                self.note(format!("{me}c("));
                yields(count).await
            }
            _ => {
                self.condition.notify(count as usize)?;
                yields(count).await
            }
        }
    }

    async fn work(self, me: char, operations: Vec<(char, u32)>) -> Result<()> {
        for (operation, count) in operations {
            let ended = match self.operate(me, operation, count).await {
                Ok(()) => '+',
                Err(exception) if exception.is_cancelled() => 'x',
                Err(exception) if exception.is::<BrokenBarrierError>() => '!',
                Err(exception) => return Err(exception),
            };
            self.note(format!("{me}{operation}{ended}"));
        }
        Ok(())
    }

    /// One act of the main task.
    async fn act(&self, tasks: &[Task<()>], act: char, number: u32) -> Result<()> {
        match act {
            'x' => {
                let cancelled = tasks[number as usize].cancel();
                self.note(if cancelled { "x" } else { "-" });
            }
            'r' => self.semaphore.release(),
            't' if !self.semaphore.locked() => {
                self.semaphore.acquire().await?.forget();
                self.note("t");
            }
            'N' if self.condition.locked() => self.condition.notify(number as usize)?,
            'E' => self.event.set(),
            'D' => self.event.clear(),
            _ => {}
        }
        Ok(())
    }

    fn state(&self) -> String {
        let mut state = String::from("|");
        let flags = [
            (self.lock.locked(), 'l'),
            (self.semaphore.locked(), 's'),
            (self.condition.locked(), 'c'),
            (self.event.is_set(), 'e'),
            (self.barrier.broken(), 'B'),
        ];
        state.extend(flags.iter().filter(|flag| flag.0).map(|flag| flag.1));
        if self.barrier.n_waiting() > 0 {
            state += &self.barrier.n_waiting().to_string();
        }
        state
    }
}

/// Plays a program and gives its trace.
fn play(program: &str) -> String {
    let (head, ticks) = program.split_once(" : ").unwrap();
    let mut words = head.split(' ');
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let scene = Scene::new(number(), number());
    let workers: Vec<_> = words.map(operations).collect();
    let ticks: Vec<_> = ticks.split(',').map(operations).collect();
    let event_loop = EventLoop::new().unwrap();
    // Those who still wait in the end are left.
    let _reports = Reports::of(&event_loop);
    let main = scene.clone();
    let playing = async move {
        let tasks: Vec<_> = ('a'..)
            .zip(workers)
            .map(|(me, operations)| create_task(main.clone().work(me, operations)))
            .collect();
        for acts in ticks {
            for (act, number) in acts {
                main.act(&tasks, act, number).await?;
            }
            main.note(main.state());
            yields(1).await?;
        }
        let done = |task: &Task<()>| if task.done() { '+' } else { '-' };
        main.note(format!(".{}", tasks.iter().map(done).collect::<String>()));
        Ok(())
    };
    event_loop.run_until_complete(playing).unwrap();
    let trace = scene.trace.take();
    trace.join(" ")
}

// brief: XT-8
#[test]
fn random_programs_leave_the_traces_that_asyncio_left() {
    let recorded = include_str!("recorded.txt");
    assert_eq!(recorded.lines().count(), 200);
    for line in recorded.lines() {
        let (program, trace) = line.split_once(" => ").unwrap();
        assert_eq!(play(program), trace, "{program}");
    }
}
