//! What the loop asks of the allocator: counted, so that a busy machine changes nothing.

#![allow(unsafe_code)] // a global allocator can not be written without

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

#[cfg(unix)]
use miniloop::Source;
use miniloop::{EventLoop, FakeClock, sleep, timeout, yield_now};

/// The system's allocator, which counts for each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Not while a thread ends and its counters are gone.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + usize::from(bytes > 0)));
    let _ = BYTES.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call goes to `System` with the same arguments; counting touches two cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations this makes.
fn allocations(work: impl FnOnce()) -> usize {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// How many bytes more are held after this.
#[cfg(unix)]
fn bytes_held(work: impl FnOnce()) -> isize {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

const MANY: usize = 1000;

/// A callback that has captured something, and so needs a box with memory.
fn with_a_capture() -> impl FnOnce() + 'static {
    let number = std::hint::black_box(7);
    move || {
        std::hint::black_box(number);
    }
}

/// A loop whose queues have grown already.
fn warm_loop() -> EventLoop {
    let event_loop = EventLoop::with_clock(FakeClock::new()).unwrap();
    for _ in 0..2 * MANY {
        event_loop.call_soon(with_a_capture());
        event_loop.call_later(Duration::ZERO, || ());
        event_loop.create_task(async { Ok(()) });
    }
    event_loop.run_once().unwrap();
    event_loop
}

#[test]
fn a_callback_costs_nothing_beside_its_own_box() {
    let event_loop = warm_loop();
    let with_captures = allocations(|| {
        for _ in 0..MANY {
            event_loop.call_soon(with_a_capture());
        }
        event_loop.run_once().unwrap();
    });
    assert_eq!(with_captures, MANY);
    let without_captures = allocations(|| {
        for _ in 0..MANY {
            event_loop.call_soon(|| ());
        }
        event_loop.run_once().unwrap();
    });
    assert_eq!(without_captures, 0);
}

#[test]
fn a_box_given_to_call_soon_is_not_boxed_again() {
    let event_loop = warm_loop();
    let callback: Box<dyn FnOnce()> = Box::new(with_a_capture());
    assert_eq!(allocations(|| drop(event_loop.call_soon(callback))), 0);
}

#[test]
fn cancelling_allocates_nothing() {
    let event_loop = warm_loop();
    let handle = event_loop.call_soon(with_a_capture());
    let timer = event_loop.call_later(Duration::from_secs(1), || ());
    let cancelling = allocations(|| {
        handle.cancel();
        timer.cancel();
    });
    assert_eq!(cancelling, 0);
}

#[test]
fn a_timer_costs_nothing_beside_its_own_box() {
    let event_loop = warm_loop();
    let timers = allocations(|| {
        for _ in 0..MANY {
            event_loop.call_later(Duration::ZERO, || ());
        }
        event_loop.run_once().unwrap();
    });
    assert_eq!(timers, 0);
}

#[test]
fn an_await_allocates_nothing_in_a_named_task_either() {
    let event_loop = warm_loop();
    let futures: Vec<miniloop::Future<()>> = (0..MANY).map(|_| event_loop.create_future()).collect();
    let awaited = futures.clone();
    let task = event_loop.task_builder().name("worker").create_task(async move {
        for future in awaited {
            future.await?;
        }
        Ok(())
    });
    event_loop.run_once().unwrap();
    let awaits = allocations(|| {
        for future in futures {
            future.set_result(()).unwrap();
            event_loop.run_once().unwrap();
        }
    });
    assert!(task.done());
    assert_eq!(awaits, 0);
}

#[test]
fn a_task_is_one_allocation() {
    let event_loop = warm_loop();
    let tasks = allocations(|| {
        for _ in 0..MANY {
            event_loop.create_task(async { Ok(()) });
        }
        event_loop.run_once().unwrap();
    });
    assert_eq!(tasks, MANY);
}

#[test]
fn a_task_that_awaits_a_future_of_the_loop_needs_no_waker_of_its_own() {
    let event_loop = warm_loop();
    let future = event_loop.create_future();
    let (awaited, completer) = (future.clone(), future);
    let run = allocations(|| {
        event_loop.create_task(awaited.take());
        event_loop.run_once().unwrap();
        completer.set_result(()).unwrap();
        event_loop.run_once().unwrap();
    });
    // The task, and its place among what the loop owns, which grows with the first.
    assert!(run <= 2, "{run} allocations");
}

#[cfg(unix)]
#[test]
fn a_send_that_completes_at_once_allocates_nothing_unless_its_future_is_kept() {
    let event_loop = warm_loop();
    let (left, right) = std::os::unix::net::UnixStream::pair().unwrap();
    let (left, _right) = (Source::new(left).unwrap(), right);
    let send = || event_loop.sock_sendall(&left, "x");
    let first = send();
    assert!(first.done());
    drop(first);
    // Awaited, taken, or thrown away: the next one is as good as new.
    let sends = allocations(|| {
        send().result().unwrap();
        send().take_result().unwrap();
        drop(send());
        send().take_result().unwrap();
    });
    assert_eq!(sends, 0);
    let (kept, other) = (send(), send());
    kept.take_result().unwrap();
    assert!(kept.take_result().is_err());
    other.take_result().unwrap();
}

#[cfg(unix)]
#[test]
fn a_receive_that_a_task_awaits_allocates_its_bytes_and_nothing_else() {
    let event_loop = warm_loop();
    let (left, mut right) = std::os::unix::net::UnixStream::pair().unwrap();
    let left = Source::new(left).unwrap();
    let mut receiving = |rounds: usize, limited: bool| {
        let (handle, source) = (event_loop.handle(), left.clone());
        let receive = async move || {
            for _ in 0..rounds {
                handle.sock_recv(&source, 10).await?;
            }
            Ok(())
        };
        let task = event_loop.create_task(async move {
            if limited {
                timeout(Duration::from_secs(3600)).run(receive()).await
            } else {
                receive().await
            }
        });
        allocations(|| {
            while !task.done() {
                event_loop.call_soon(|| ());
                event_loop.run_once().unwrap();
                std::io::Write::write_all(&mut right, b"x").unwrap();
            }
        })
    };
    for limited in [false, true] {
        receiving(2, limited);
        let (few, many) = (receiving(10, limited), receiving(10 + MANY, limited));
        assert!(many - few <= MANY + 20, "{many} for {MANY} more than {few}");
    }
}

#[test]
fn a_timeout_is_two_allocations() {
    // Itself and its block.
    let event_loop = warm_loop();
    let limiting = |rounds: usize| {
        let task = event_loop.create_task(async move {
            for _ in 0..rounds {
                timeout(Duration::from_secs(3600)).run(yield_now()).await?;
            }
            Ok(())
        });
        allocations(|| event_loop.run_until_complete(task).unwrap())
    };
    limiting(MANY);
    assert_eq!(limiting(2 + MANY) - limiting(2), 2 * MANY);
}

#[test]
fn a_callback_of_a_future_is_two_allocations_beside_the_future() {
    // One until the future is done, and one that brings the two together.
    let event_loop = warm_loop();
    let calling_back = || {
        let future = event_loop.create_future();
        future.add_done_callback(|done| drop(std::hint::black_box(done.result())));
        future.set_result(7).unwrap();
        event_loop.run_once().unwrap();
    };
    calling_back();
    // (What captures nothing takes no memory.)
    assert_eq!(allocations(calling_back), 2);
    let with_capture = || {
        let (future, callback) = (event_loop.create_future(), with_a_capture());
        future.add_done_callback(move |_| callback());
        future.set_result(()).unwrap();
        event_loop.run_once().unwrap();
    };
    assert_eq!(allocations(with_capture), 3);
}

#[test]
fn a_bare_yield_and_a_sleep_of_zero_allocate_nothing() {
    let event_loop = warm_loop();
    let yielding = |rounds: usize| {
        let task = event_loop.create_task(async move {
            for _ in 0..rounds {
                yield_now().await?;
                sleep(Duration::ZERO).await?;
            }
            Ok(())
        });
        allocations(|| event_loop.run_until_complete(task).unwrap())
    };
    yielding(2);
    assert_eq!(yielding(MANY), yielding(2));
}

/// Connected sources without a socket each: a duplicate of one socket will do for counting.
#[cfg(unix)]
fn idle_sources(count: usize) -> Vec<Source<std::os::unix::net::UnixStream>> {
    let (socket, peer) = std::os::unix::net::UnixStream::pair().unwrap();
    std::mem::forget(peer); // open for as long as the test
    (0..count)
        .map(|_| Source::new(socket.try_clone().unwrap()).unwrap())
        .collect()
}

#[cfg(unix)]
#[test]
fn an_idle_connection_costs_a_few_hundred_bytes() {
    const CONNECTIONS: usize = 500; // well below the usual limit of descriptors
    let event_loop = warm_loop();
    let sources = idle_sources(2 * CONNECTIONS);
    let (for_callbacks, for_tasks) = sources.split_at(CONNECTIONS);
    let with_callbacks = bytes_held(|| {
        for source in for_callbacks {
            let held = source.clone();
            event_loop.add_reader(source, move || drop(held.clone())).unwrap();
        }
        event_loop.call_soon(|| ());
        event_loop.run_once().unwrap();
    });
    let with_tasks = bytes_held(|| {
        for source in for_tasks {
            let (held, handle) = (source.clone(), event_loop.handle());
            event_loop.create_task(async move {
                loop {
                    let data = handle.sock_recv(&held, 65536).await?;
                    if data.is_empty() {
                        return Ok(());
                    }
                }
            });
        }
        event_loop.run_once().unwrap();
    });
    let each = |bytes: isize| bytes / CONNECTIONS as isize;
    println!(
        "callbacks: {} bytes, tasks: {} bytes",
        each(with_callbacks),
        each(with_tasks)
    );
    // `polling` keeps a list of its own where the system does not.
    let theirs = if cfg!(all(target_os = "linux", not(polling_test_poll_backend))) {
        0
    } else {
        200
    };
    assert!(
        each(with_callbacks) <= 115 + theirs,
        "{} bytes",
        each(with_callbacks)
    );
    assert!(each(with_tasks) <= 450 + theirs, "{} bytes", each(with_tasks));
}
