//! The steps of a task share one context, a copy of that of the place where it was made.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{
    Context, ContextVar, Exception, Result, RuntimeError, copy_context, create_task, current_task,
    get_running_loop, sleep,
};

use super::common::{Boom, Trace, raise, virtual_loop, yields};
use super::isolated;
use super::support::{Reports, still_works, tick};

static VAR: ContextVar<u32> = ContextVar::new("var");

/// Runs a main coroutine in an isolated context, in which the variable has no value in the end.
fn run<T: 'static, F: Future<Output = Result<T>> + 'static>(main: impl FnOnce() -> F + 'static) -> T {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let value = event_loop
            .run_until_complete(async move { main().await })
            .unwrap();
        assert_eq!(VAR.get(), None, "it leaks into whoever runs the loop");
        value
    })
}

/// Raises its value over several steps, and gives those it saw.
async fn counting(steps: u32) -> Result<Vec<Option<u32>>> {
    let mut seen = vec![VAR.get()];
    for _ in 0..steps {
        VAR.set(VAR.get().unwrap_or(0) + 1);
        yields(1).await?;
        sleep(Duration::from_secs(1)).await?;
        seen.push(VAR.get());
    }
    Ok(seen)
}

// brief: XT-16
#[test]
fn all_steps_of_a_task_share_one_context() {
    let seen = run(|| counting(3));
    assert_eq!(seen, [None, Some(1), Some(2), Some(3)]);
}

// brief: XT-16
#[test]
fn tasks_side_by_side_do_not_see_each_other() {
    let seen = run(|| async {
        VAR.set(10);
        let one = create_task(counting(2));
        VAR.set(20);
        let two = create_task(counting(2));
        VAR.set(30);
        let seen = (one.await?, two.await?);
        assert_eq!(VAR.get(), Some(30));
        Ok(seen)
    });
    let from = |start: u32| vec![Some(start), Some(start + 1), Some(start + 2)];
    assert_eq!(seen, (from(10), from(20)));
}

// brief: XT-16
#[test]
fn a_coroutine_that_is_awaited_shares_the_context_of_its_caller() {
    let seen = run(|| async {
        VAR.set(1);
        counting(1).await?;
        Ok(VAR.get())
    });
    assert_eq!(seen, Some(2));
}

// brief: XT-16
#[test]
fn a_task_made_from_a_callback_starts_with_the_callbacks_values() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let (handle, slot) = (event_loop.handle(), Rc::new(RefCell::new(None)));
        let made = slot.clone();
        event_loop.call_soon(move || {
            VAR.set(5);
            made.replace(Some(handle.create_task(counting(0))));
            VAR.set(6);
        });
        tick(&event_loop);
        let task = slot.take().unwrap();
        assert_eq!(event_loop.run_until_complete(task).unwrap(), [Some(5)]);
    });
}

// brief: XT-16
#[test]
fn a_task_that_waits_for_another_does_not_get_its_values() {
    run(|| async {
        let inner = create_task(async {
            yields(2).await?;
            VAR.set(1);
            Ok(())
        });
        inner.await?;
        assert_eq!(VAR.get(), None);
        // Nor those of whoever completes what it waits for.
        let future = get_running_loop()?.create_future();
        let completed = future.clone();
        get_running_loop()?.call_soon(move || {
            VAR.set(2);
            completed.set_result(()).unwrap();
        });
        future.await?;
        assert_eq!(VAR.get(), None);
        Ok(())
    });
}

// brief: XT-16
#[test]
fn a_foreign_waker_brings_no_values_with_it() {
    run(|| async {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut given = false;
        let suspended = std::future::poll_fn(move |cx| {
            if std::mem::replace(&mut given, true) {
                return std::task::Poll::Ready(());
            }
            sender.send(cx.waker().clone()).unwrap();
            std::task::Poll::Pending
        });
        get_running_loop()?.call_soon(move || {
            VAR.set(2);
            receiver.recv().unwrap().wake();
        });
        VAR.set(1);
        suspended.await;
        assert_eq!(VAR.get(), Some(1));
        Ok(())
    });
}

// brief: XT-16
#[test]
fn a_token_is_good_for_all_steps_of_its_task_and_for_no_other_task() {
    run(|| async {
        VAR.set(1);
        let token = VAR.set(2);
        yields(2).await?;
        VAR.reset(token).unwrap();
        assert_eq!(VAR.get(), Some(1));
        let token = VAR.set(3);
        let refused = create_task(async move { Ok(VAR.reset(token)) }).await?;
        assert_eq!(refused, Err(RuntimeError::WrongToken));
        assert_eq!(VAR.get(), Some(3));
        Ok(())
    });
}

// brief: XT-16
#[test]
fn what_a_task_sets_ends_with_its_step_however_that_ends() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let (trace, _reports) = (Trace::new(), Reports::of(&event_loop));
        let endings: [fn() -> Result<()>; 3] = [|| Ok(()), || Err(Boom("failed").into()), || raise("panic")];
        for ending in endings {
            event_loop.create_task(async move {
                VAR.set(1);
                ending()
            });
            let log = trace.clone();
            event_loop.call_soon(move || log.push(format!("{:?}", VAR.get())));
        }
        let cancelled = event_loop.create_task(async {
            VAR.set(1);
            current_task().unwrap().cancel();
            yields(1).await
        });
        tick(&event_loop);
        tick(&event_loop);
        assert!(cancelled.cancelled());
        assert_eq!(trace.lines(), ["None", "None", "None"]);
        assert_eq!(VAR.get(), None);
        still_works(&event_loop);
    });
}

// brief: XT-16
#[test]
fn an_eager_step_has_a_context_of_its_own_as_well() {
    // CPython's test_context_vars of its eager tasks.
    run(|| async {
        let event_loop = get_running_loop()?;
        VAR.set(1);
        let task = event_loop.task_builder().eager_start(true).create_task(async {
            assert_eq!(VAR.get(), Some(1));
            VAR.set(2);
            sleep(Duration::from_secs(1)).await?;
            assert_eq!(VAR.get(), Some(2));
            VAR.set(3);
            Ok(())
        });
        assert_eq!(VAR.get(), Some(1));
        task.await?;
        assert_eq!(VAR.get(), Some(1));
        Ok(())
    });
}

// brief: XT-16
#[test]
fn an_eager_step_that_panics_or_sets_for_the_first_time_leaves_nothing_behind() {
    run(|| async {
        let builder = || Ok::<_, Exception>(get_running_loop()?.task_builder().eager_start(true));
        let done = builder()?.create_task(async { Ok(VAR.set(1).old_value()) });
        assert_eq!((done.await?, VAR.get()), (None, None));
        let panicked = builder()?.create_task(async {
            VAR.set(1);
            if VAR.get().is_some() {
                raise("eager");
            }
            Ok(())
        });
        assert!(panicked.exception()?.unwrap().is::<Boom>());
        assert_eq!(VAR.get(), None);
        // The same where the caller had a value and has none any more.
        let token = VAR.set(5);
        VAR.reset(token)?;
        let emptied = builder()?.create_task(counting(1));
        assert_eq!(VAR.get(), None);
        assert_eq!(emptied.await?, [None, Some(1)]);
        Ok(())
    });
}

// brief: XT-16
#[test]
fn a_task_given_a_context_shares_it() {
    isolated(|| {
        let (event_loop, _) = virtual_loop();
        let context = Context::new();
        context.run(|| VAR.set(1)).unwrap();
        VAR.set(100);
        let shared = || event_loop.task_builder().context(context.clone());
        let one = shared().create_task(counting(2));
        let two = shared().create_task(counting(2));
        let both = event_loop.run_until_complete(async move { Ok((one.await?, two.await?)) });
        // They take turns, and each sees what the other has set.
        assert_eq!(
            both.unwrap(),
            (vec![Some(1), Some(3), Some(5)], vec![Some(2), Some(4), Some(5)])
        );
        assert_eq!((context.get(&VAR), VAR.get()), (Some(5), Some(100)));
    });
}

// brief: XT-16
#[test]
fn an_eager_task_given_a_context_shares_it_from_its_first_step_on() {
    run(|| async {
        let context = Context::new();
        let event_loop = get_running_loop()?;
        let builder = event_loop
            .task_builder()
            .context(context.clone())
            .eager_start(true);
        let task = builder.create_task(counting(1));
        assert_eq!((context.get(&VAR), VAR.get()), (Some(1), None));
        context.run(|| VAR.set(10))?;
        assert_eq!(task.await?, [None, Some(10)]);
        Ok(())
    });
}

// brief: XT-16
#[test]
fn a_copied_context_hands_the_values_of_a_task_on() {
    run(|| async {
        VAR.set(1);
        let context = copy_context();
        VAR.set(2);
        let event_loop = get_running_loop()?;
        let task = event_loop
            .task_builder()
            .context(context.clone())
            .create_task(counting(1));
        assert_eq!(task.await?, [Some(1), Some(2)]);
        assert_eq!((context.get(&VAR), VAR.get()), (Some(2), Some(2)));
        // A callback under a context of choice.
        let seen = context.run(|| VAR.get())?;
        assert_eq!(seen, Some(2));
        Ok(())
    });
}
