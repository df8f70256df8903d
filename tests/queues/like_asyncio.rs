//! Random programs of queue operations leave the traces that they left on CPython 3.13.
//!
//! A line of `recorded.txt` is `KIND MAXSIZE PROGRAM => TRACE`. A program is a row of operations
//! of the main task:
//!
//! * `g`, `p`, `j`: a new task that gets, puts the next number, joins; they are called a, b, c ..
//! * `+`, `-`, `d`: `put_nowait` of the next number, `get_nowait`, `task_done`
//! * `cX`: cancel task X
//! * `.`: yield once
//! * `s`, `S`: `shutdown(false)`, `shutdown(true)`
//! * `q`: note the size
//!
//! Every task notes how it ended, every operation without a wait what it gave, every yield a `.`.
//! The last note is the number of tasks that still wait, behind a `w`.

use std::cell::Cell;

use miniloop::{
    BaseQueue, Exception, LifoQueue, Order, PriorityQueue, PutError, Queue, QueueEmpty, QueueFull,
    QueueShutDown, Result, Task, ValueError, create_task,
};

use crate::common::{Trace, virtual_loop, yields};

fn word(error: &Exception) -> &'static str {
    if error.is::<QueueFull>() {
        "full"
    } else if error.is::<QueueEmpty>() {
        "empty"
    } else if error.is::<QueueShutDown>() {
        "down"
    } else if error.is_cancelled() {
        "cancelled"
    } else if error.downcast_ref() == Some(&ValueError::TaskDoneTooOften) {
        "often"
    } else {
        panic!("there is no word for {error:?}")
    }
}

fn ok_or_word<E: Into<Exception>>(result: Result<(), E>) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(error) => word(&error.into()).into(),
    }
}

/// The item, or the word for what was raised instead of putting it; the item came back then.
fn put_word(result: Result<(), PutError<u32>>, item: u32) -> String {
    match result {
        Ok(()) => "ok".into(),
        Err(error) => {
            let word = word(error.exception());
            assert_eq!(error.into_item(), item);
            word.into()
        }
    }
}

fn got_word(result: Result<u32>) -> String {
    match result {
        Ok(item) => item.to_string(),
        Err(error) => word(&error).into(),
    }
}

struct Player<O: Order<u32>> {
    queue: BaseQueue<u32, O>,
    trace: Trace,
    tasks: Vec<Task<()>>,
    numbers: Cell<u32>,
}

impl<O: Order<u32> + 'static> Player<O> {
    /// The next item: not in order, so that the three kinds differ.
    fn item(&self) -> u32 {
        let number = self.numbers.get();
        self.numbers.set(number + 1);
        number * 7 % 10
    }

    fn spawn(&mut self, ended: impl std::future::Future<Output = String> + 'static) {
        let name = char::from(b'a' + u8::try_from(self.tasks.len()).unwrap());
        let trace = self.trace.clone();
        self.tasks.push(create_task(async move {
            let word = ended.await;
            trace.push(format!("{name}:{word}"));
            Ok(())
        }));
    }

    async fn step(&mut self, step: char, target: Option<char>) -> Result<()> {
        let queue = self.queue.clone();
        match step {
            'g' => self.spawn(async move { got_word(queue.get().await) }),
            'p' => {
                let item = self.item();
                self.spawn(async move { put_word(queue.put_or_return(item).await, item) });
            }
            'j' => self.spawn(async move { ok_or_word(queue.join().await) }),
            '+' => {
                let item = self.item();
                self.trace.push(put_word(queue.put_nowait(item), item));
            }
            '-' => self.trace.push(got_word(queue.get_nowait())),
            'd' => self.trace.push(ok_or_word(queue.task_done())),
            'c' => {
                let index = u32::from(target.unwrap()) - u32::from('a');
                self.tasks[usize::try_from(index)?].cancel();
            }
            's' => assert!(queue.shutdown(false).is_empty()),
            'S' => assert_eq!(queue.qsize(), queue.shutdown(true).len()),
            'q' => self.trace.push(format!("q{}", queue.qsize())),
            '.' => {
                self.trace.push(".");
                yields(1).await?;
            }
            other => panic!("there is no step {other:?}"),
        }
        Ok(())
    }
}

fn play<O: Order<u32> + 'static>(queue: BaseQueue<u32, O>, program: &str) -> String {
    let (event_loop, _) = virtual_loop();
    let program = program.to_owned();
    let played = event_loop.run_until_complete(async move {
        let mut player = Player {
            queue,
            trace: Trace::new(),
            tasks: Vec::new(),
            numbers: Cell::new(0),
        };
        let mut steps = program.chars();
        while let Some(step) = steps.next() {
            let target = if step == 'c' { steps.next() } else { None };
            player.step(step, target).await?;
        }
        let left: Vec<_> = player.tasks.iter().filter(|task| !task.done()).collect();
        let mut notes = player.trace.lines();
        notes.push(format!("w{}", left.len()));
        for task in left {
            task.cancel();
        }
        yields(2).await?;
        Ok(notes.join(" "))
    });
    played.unwrap()
}

#[test]
fn random_programs_leave_the_traces_of_asyncio() {
    let mut played = 0;
    for line in include_str!("recorded.txt").lines() {
        let (program, trace) = line.split_once(" => ").unwrap();
        let [kind, maxsize, steps] = program.split(' ').collect::<Vec<_>>()[..] else {
            panic!("not a program: {program}");
        };
        let maxsize = maxsize.parse().unwrap();
        let ours = match kind {
            "fifo" => play(Queue::new(maxsize), steps),
            "lifo" => play(LifoQueue::new(maxsize), steps),
            "priority" => play(PriorityQueue::new(maxsize), steps),
            _ => panic!("not a kind: {kind}"),
        };
        assert_eq!(ours, trace, "{program}: ours, then the recorded");
        played += 1;
    }
    assert_eq!(played, 150);
}
