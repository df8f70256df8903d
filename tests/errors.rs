//! Exceptions that go through other kinds of errors, and come out as they went in.

mod common;
mod support;

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use miniloop::{CancelledError, Exception, Result, RuntimeError, TimeoutError, sleep};

use common::{Boom, virtual_loop, word};
use support::{Reports, misuse, raised, settle, still_works, tick};

type Boxed = Box<dyn Error + Send + Sync>;

const HOUR: Duration = Duration::from_secs(3600);

/// One of each kind, with its trace word.
fn samples() -> [(Exception, &'static str); 4] {
    [
        (CancelledError::new().into(), "cancelled"),
        (TimeoutError::new().into(), "timeout"),
        (RuntimeError::Deadlock.into(), "misuse"),
        (Boom("x").into(), "error:x"),
    ]
}

#[test]
fn through_a_box_it_comes_out_as_it_went_in() {
    for (exception, expected) in samples() {
        let text = exception.to_string();
        let boxed: Boxed = exception.into();
        assert_eq!(boxed.to_string(), text);
        assert_eq!(word(&Exception::from_boxed(boxed)), expected);
    }
}

#[test]
fn through_an_io_error_it_comes_out_as_it_went_in() {
    for (exception, expected) in samples() {
        let again = Exception::from(io::Error::other(exception));
        assert_eq!(word(&again), expected);
    }
}

#[test]
fn through_a_box_in_an_io_error_in_a_box_it_comes_out_as_it_went_in() {
    for (exception, expected) in samples() {
        let inner: Boxed = exception.into();
        let outer: Boxed = io::Error::other(io::Error::other(inner)).into();
        assert_eq!(word(&Exception::from_boxed(outer)), expected);
    }
}

#[test]
fn what_a_question_mark_has_put_into_a_box_is_found_inside() {
    fn fails(exception: Exception) -> std::result::Result<(), Box<dyn Error>> {
        Err(exception)?;
        Ok(())
    }
    for (exception, expected) in samples() {
        let error = fails(exception).unwrap_err();
        let inside = Exception::inside(&*error).expect("an exception is inside");
        assert_eq!(word(&inside), expected);
    }
}

#[test]
fn nothing_is_found_inside_an_error_that_is_not_from_here() {
    #[derive(Debug)]
    struct Wrapped(Boom);
    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            fmt::Display::fmt(&self.0, f)
        }
    }
    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    assert!(Exception::inside(&Wrapped(Boom("x"))).is_none());
    assert!(Exception::inside(&io::Error::other("text")).is_none());
    assert!(Exception::inside(&io::Error::from(io::ErrorKind::NotFound)).is_none());
    // As an exception it is itself.
    let exception = Exception::from(io::Error::from(io::ErrorKind::NotFound));
    let kind = exception.downcast_ref::<io::Error>().map(io::Error::kind);
    assert_eq!(kind, Some(io::ErrorKind::NotFound));
}

async fn boxed() -> std::result::Result<(), Boxed> {
    sleep(HOUR).await?;
    Ok(())
}

async fn reads() -> io::Result<()> {
    sleep(HOUR).await.map_err(io::Error::other)
}

#[test]
fn a_task_cancelled_below_a_library_with_its_own_errors_ends_cancelled() {
    let (event_loop, _) = virtual_loop();
    let reports = Reports::of(&event_loop);
    let tasks = [
        event_loop.create_task(async { boxed().await.map_err(Exception::from_boxed) }),
        event_loop.create_task(async { Ok(reads().await?) }),
    ];
    tick(&event_loop);
    for task in &tasks {
        task.cancel();
    }
    settle(&event_loop);
    assert!(tasks.iter().all(|task| task.cancelled()));
    drop(tasks);
    assert!(reports.take().is_empty());
    still_works(&event_loop);
}

#[test]
fn a_misuse_below_such_a_library_is_still_that_misuse() {
    fn refused() -> io::Result<()> {
        Err(io::Error::other(Exception::from(RuntimeError::LoopClosed)))
    }
    fn passed_on() -> Result<()> {
        Ok(refused()?)
    }
    assert_eq!(misuse(passed_on()), RuntimeError::LoopClosed);
    let failed: Result<()> = Err(Exception::from(io::Error::other(Exception::from(Boom("x")))));
    assert_eq!(raised::<Boom, _>(failed), Boom("x"));
}
