//! A task's own waker, as a future of another crate keeps it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use miniloop::EventLoop;

#[test]
fn once_it_was_cloned_each_step_comes_with_one_that_does_the_same() {
    const STEPS: usize = 4;
    let event_loop = EventLoop::new().unwrap();
    let kept = Rc::new(RefCell::new(Vec::<Waker>::new()));
    let seen = kept.clone();
    let task = event_loop.create_task(async move {
        poll_fn(|cx| {
            let mut kept = seen.borrow_mut();
            // Clones of the first step's, of each later one's, and of clones.
            for waker in kept.iter() {
                assert!(waker.will_wake(cx.waker()));
                assert!(waker.clone().will_wake(cx.waker()));
            }
            kept.push(cx.waker().clone());
            match kept.len() {
                STEPS => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            }
        })
        .await
    });
    for step in 0..STEPS {
        event_loop.run_once().unwrap();
        assert_eq!(task.done(), step == STEPS - 1);
        kept.borrow()[step].wake_by_ref();
    }
    assert!(task.result().is_ok());
}
