//! The ready queue in miniature: two callbacks are queued, and the first queues a third, which runs after both.
//!
//! `cargo run --example mini_loop` prints `["a", "b", "a2"]`.

use std::cell::RefCell;
use std::rc::Rc;

use miniloop::EventLoop;

fn main() -> miniloop::Result<()> {
    let event_loop = EventLoop::new()?;
    let out = Rc::new(RefCell::new(Vec::new()));

    let a_cb = {
        let (event_loop, out) = (event_loop.handle(), out.clone());
        move || {
            out.borrow_mut().push("a");
            let out = out.clone();
            event_loop.call_soon(move || out.borrow_mut().push("a2")); // follow-up work, at the back of the queue
        }
    };
    let b_cb = {
        let out = out.clone();
        move || out.borrow_mut().push("b")
    };

    event_loop.call_soon(a_cb);
    event_loop.call_soon(b_cb);
    event_loop.run_once()?; // one tick runs what was ready when it began: a, b
    event_loop.run_once()?; // and the next one what they scheduled: a2
    println!("{:?}", out.borrow());
    Ok(())
}
