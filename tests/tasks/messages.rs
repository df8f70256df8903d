//! Cancellations with a message: which one arrives where.

use std::time::Duration;

use miniloop::{CancelledError, Exception, Result, Task, create_task, current_task, get_running_loop, sleep};

use crate::common::{Trace, virtual_loop, yields};
use crate::support::raised;

/// The message of a cancellation, or what else an await came to.
fn said<T>(awaited: &Result<T>) -> String {
    match awaited {
        Ok(_) => "no error".into(),
        Err(exception) => match exception.downcast_ref::<CancelledError>() {
            Some(error) => error.message().unwrap_or("no message").into(),
            None => format!("{exception}"),
        },
    }
}

/// Waits, and leaves the message of what interrupts it, as `name:MESSAGE`.
async fn noted<T>(trace: Trace, name: &'static str, awaited: impl Future<Output = Result<T>>) -> Result<T> {
    let awaited = awaited.await;
    trace.push(format!("{name}:{}", said(&awaited)));
    awaited
}

/// A task that sleeps for long, and notes what interrupts it.
fn sleeper(trace: &Trace) -> Task<()> {
    create_task(noted(trace.clone(), "at", sleep(Duration::from_secs(60))))
}

/// Awaits a task, and leaves the message that this and its handle give.
async fn awaited<T: Clone + 'static>(trace: &Trace, task: &Task<T>) {
    trace.push(format!("awaited:{}", said(&task.clone().await)));
    assert!(task.cancelled());
    // However often it is asked: asyncio loses the message the second time.
    for _ in 0..2 {
        trace.push(format!("result:{}", said(&task.result())));
        trace.push(format!("exception:{}", said(&task.exception())));
    }
}

/// Plays a main coroutine, and gives its trace.
fn played<F: Future<Output = Result<()>> + 'static>(main: impl FnOnce(Trace) -> F) -> Vec<String> {
    let (event_loop, _) = virtual_loop();
    let trace = Trace::new();
    event_loop.run_until_complete(main(trace.clone())).unwrap();
    trace.lines()
}

/// What is left where this message arrives at the await, and everywhere else.
fn everywhere(message: &str) -> Vec<String> {
    let mut lines = vec![format!("at:{message}")];
    lines.extend(nowhere_else(message));
    lines
}

/// The same where there was no await to deliver it.
fn nowhere_else(message: &str) -> Vec<String> {
    ["awaited", "result", "exception", "result", "exception"]
        .map(|place| format!("{place}:{message}"))
        .to_vec()
}

// brief: XT-5
#[test]
fn the_message_is_delivered_at_the_await_and_kept_by_the_task() {
    let lines = played(|trace| async move {
        let task = sleeper(&trace);
        yields(1).await?;
        assert!(task.cancel_with("enough"));
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, everywhere("enough"));
}

// brief: XT-5
#[test]
fn a_cancellation_without_a_message_has_none() {
    let lines = played(|trace| async move {
        let task = sleeper(&trace);
        yields(1).await?;
        assert!(task.cancel());
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, everywhere("no message"));
}

// brief: XT-5
#[test]
fn a_message_before_the_first_step_is_kept_by_the_task() {
    let lines = played(|trace| async move {
        let task = sleeper(&trace);
        assert!(task.cancel_with("too early"));
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, nowhere_else("too early"));
}

// brief: XT-5
#[test]
fn of_two_requests_before_the_first_step_the_last_one_counts() {
    let lines = played(|trace| async move {
        let task = sleeper(&trace);
        task.cancel_with("one");
        task.cancel_with("two");
        awaited(&trace, &task).await;
        let task = sleeper(&trace);
        task.cancel_with("one");
        task.cancel();
        awaited(&trace, &task).await;
        Ok(())
    });
    let expected = [nowhere_else("two"), nowhere_else("no message")].concat();
    assert_eq!(lines, expected);
}

// brief: XT-5
#[test]
fn of_two_requests_of_a_task_to_itself_the_last_one_counts() {
    let lines = played(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let itself = current_task().expect("a task");
            itself.cancel_with("one");
            itself.cancel_with("two");
            noted(log, "at", sleep(Duration::from_secs(60))).await
        });
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, everywhere("two"));
}

// brief: XT-5
#[test]
fn of_two_requests_to_a_suspended_task_the_first_one_is_on_its_way_already() {
    for second in [Some("two"), None] {
        let lines = played(|trace| async move {
            let task = sleeper(&trace);
            yields(1).await?;
            task.cancel_with("one");
            match second {
                Some(message) => task.cancel_with(message),
                None => task.cancel(),
            };
            awaited(&trace, &task).await;
            Ok(())
        });
        assert_eq!(lines, everywhere("one"), "then {second:?}");
    }
}

// brief: XT-5
#[test]
fn a_task_that_cancels_itself_and_returns_keeps_the_message() {
    let lines = played(|trace| async move {
        let task = create_task(async {
            current_task().expect("a task").cancel_with("done with it");
            Ok(1)
        });
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, nowhere_else("done with it"));
}

// brief: XT-5
#[test]
fn a_message_runs_down_a_chain_of_tasks_and_up_again() {
    let lines = played(|trace| async move {
        let inner = sleeper(&trace);
        let middle = create_task(noted(trace.clone(), "middle", inner.clone()));
        let outer = create_task(noted(trace.clone(), "outer", middle));
        yields(3).await?;
        outer.cancel_with("all of you");
        awaited(&trace, &outer).await;
        awaited(&trace, &inner).await;
        Ok(())
    });
    let mut expected = ["at", "middle", "outer"]
        .map(|name| format!("{name}:all of you"))
        .to_vec();
    expected.extend(nowhere_else("all of you"));
    expected.extend(nowhere_else("all of you"));
    assert_eq!(lines, expected);
}

// brief: XT-5
#[test]
fn the_message_that_the_coroutine_raises_is_the_tasks() {
    let lines = played(|trace| async move {
        let task = create_task(async {
            let interrupted: Result<()> = sleep(Duration::from_secs(60)).await;
            interrupted.map_err(|_| Exception::from(CancelledError::with_message("mine")))
        });
        yields(1).await?;
        task.cancel_with("theirs");
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, nowhere_else("mine"));
}

// brief: XT-5
#[test]
fn a_request_that_is_withdrawn_takes_its_message_with_it() {
    let lines = played(|trace| async move {
        let log = trace.clone();
        let task = create_task(async move {
            let itself = current_task().expect("a task");
            itself.cancel_with("withdrawn");
            itself.uncancel();
            let slept = noted(log.clone(), "first", sleep(Duration::from_secs(1))).await;
            assert!(slept.is_ok());
            itself.cancel();
            noted(log, "second", sleep(Duration::from_secs(1))).await
        });
        awaited(&trace, &task).await;
        Ok(())
    });
    let mut expected = vec!["first:no error".to_owned(), "second:no message".to_owned()];
    expected.extend(nowhere_else("no message"));
    assert_eq!(lines, expected);
}

// brief: XT-5
#[test]
fn the_message_of_a_future_reaches_those_who_await_it() {
    let lines = played(|trace| async move {
        let future = get_running_loop()?.create_future::<()>();
        let task = create_task(noted(trace.clone(), "at", future.clone()));
        yields(1).await?;
        assert!(future.cancel_with("of the future"));
        assert!(!future.cancel_with("too late"));
        awaited(&trace, &task).await;
        let error = raised::<CancelledError, _>(future.result());
        assert_eq!(error.message(), Some("of the future"));
        Ok(())
    });
    assert_eq!(lines, everywhere("of the future"));
}

// brief: XT-5
#[test]
fn a_request_beats_a_result_that_was_not_delivered_yet() {
    let lines = played(|trace| async move {
        let future = get_running_loop()?.create_future();
        let task = create_task(noted(trace.clone(), "at", future.clone()));
        yields(1).await?;
        future.set_result(1)?;
        assert!(task.cancel_with("late"));
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, everywhere("late"));
}

// brief: XT-5
#[test]
fn a_cancellation_of_the_awaited_future_that_is_on_its_way_keeps_its_message() {
    let lines = played(|trace| async move {
        let future = get_running_loop()?.create_future::<()>();
        let task = create_task(noted(trace.clone(), "at", future.clone()));
        yields(1).await?;
        assert!(future.cancel_with("from the future"));
        assert!(task.cancel_with("late"));
        awaited(&trace, &task).await;
        Ok(())
    });
    assert_eq!(lines, everywhere("from the future"));
}
