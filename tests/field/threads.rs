//! Other threads: posts that must not be lost (BR-22), starve nobody (BR-20) and
//! meet a loop that is being closed (BR-25).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use miniloop::{Clock, EventLoop, Future, Idle, LoopHandle, MonotonicClock, RuntimeError};

use crate::common::{pair, recv, send};
use crate::faults::{still_works, tick};
use crate::support::{Log, Tally, Watchdog};

thread_local! {
    /// What posted callbacks, which may capture nothing of the loop's own, find here.
    static LOOP: RefCell<Option<LoopHandle>> = const { RefCell::new(None) };
    static RAN: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// The loop of this thread, to be used inside a posted callback.
fn this_loop() -> LoopHandle {
    LOOP.with_borrow(|handle| handle.clone().unwrap())
}

/// A loop with a real clock that posted callbacks can find.
fn reachable_loop() -> EventLoop {
    let event_loop = EventLoop::new().unwrap();
    LOOP.set(Some(event_loop.handle()));
    event_loop
}

// field: BR-22
#[test]
fn a_post_from_before_the_run_wakes_a_loop_that_has_nothing_else() {
    let _watchdog = Watchdog::start();
    let event_loop = reachable_loop();
    let poster = event_loop.threadsafe_handle();
    let thread = thread::spawn(move || poster.call_soon_threadsafe(|| this_loop().stop()));
    thread.join().unwrap().unwrap();
    event_loop.run_forever().unwrap();
    still_works(&event_loop);
}

// field: BR-22
#[test]
fn a_post_from_between_two_runs_is_not_lost() {
    let _watchdog = Watchdog::start();
    let event_loop = reachable_loop();
    for _ in 0..100 {
        let poster = event_loop.threadsafe_handle();
        let thread = thread::spawn(move || poster.call_soon_threadsafe(|| this_loop().stop()));
        thread.join().unwrap().unwrap();
        event_loop.run_forever().unwrap();
    }
}

/// A clock that lets a thread do something at the worst moment: when the loop has
/// found nothing to do, before it waits.
struct LastMoment {
    clock: MonotonicClock,
    action: Rc<RefCell<Option<LastAction>>>,
}

type LastAction = Box<dyn FnOnce() + Send>;

impl Clock for LastMoment {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn idle(&self, deadline: Option<Duration>) -> Idle {
        let action = self.action.borrow_mut().take();
        if let Some(action) = action {
            thread::spawn(action).join().unwrap();
        }
        self.clock.idle(deadline)
    }
}

/// A loop with such a clock, and the slot for the action of its next wait.
fn loop_with_last_moments() -> (EventLoop, Rc<RefCell<Option<LastAction>>>) {
    let action = Rc::new(RefCell::new(None));
    let clock = MonotonicClock::new();
    let action_of_clock = Rc::clone(&action);
    let event_loop = EventLoop::with_clock(LastMoment {
        clock,
        action: action_of_clock,
    });
    let event_loop = event_loop.unwrap();
    LOOP.set(Some(event_loop.handle()));
    (event_loop, action)
}

// field: BR-22
#[test]
fn a_post_from_just_before_the_wait_ends_the_wait() {
    let _watchdog = Watchdog::start();
    let (event_loop, action) = loop_with_last_moments();
    for round in 0..4 {
        let poster = event_loop.threadsafe_handle();
        // The handle goes with its only post, or stays.
        let _kept = (round % 2 == 0).then(|| poster.clone());
        action.replace(Some(Box::new(move || {
            poster.call_soon_threadsafe(|| this_loop().stop()).unwrap();
        })));
        event_loop.run_forever().unwrap();
        assert!(action.borrow().is_none(), "the moment came");
    }
}

// field: BR-22
#[test]
fn a_post_from_just_before_the_wait_is_no_deadlock() {
    thread_local! {
        static AWAITED: RefCell<Option<Future<u32>>> = const { RefCell::new(None) };
    }
    let _watchdog = Watchdog::start();
    let (event_loop, action) = loop_with_last_moments();
    let poster = event_loop.threadsafe_handle();
    let future = event_loop.create_future();
    AWAITED.set(Some(future.clone()));
    action.replace(Some(Box::new(move || {
        let post = || AWAITED.take().unwrap().set_result(42).unwrap();
        poster.call_soon_threadsafe(post).unwrap();
    })));
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 42);
}

// field: BR-22
#[test]
fn an_answer_from_just_before_the_wait_is_no_deadlock() {
    let _watchdog = Watchdog::start();
    let (event_loop, action) = loop_with_last_moments();
    let (future, completer) = event_loop.create_threadsafe_future::<u32>();
    action.replace(Some(Box::new(move || completer.set_result(42).unwrap())));
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 42);
}

// field: BR-22
#[test]
fn a_wake_from_just_before_the_wait_ends_the_wait() {
    let _watchdog = Watchdog::start();
    let (event_loop, action) = loop_with_last_moments();
    let mut polls = 0;
    let woken = poll_fn(move |cx| {
        polls += 1;
        if polls == 2 {
            return Poll::Ready(Ok(polls));
        }
        let waker = cx.waker().clone();
        action.replace(Some(Box::new(move || waker.wake())));
        Poll::Pending
    });
    assert_eq!(event_loop.run_until_complete(woken).unwrap(), 2);
}

const ROUND_TRIPS: u32 = 100_000;

// field: BR-22
#[test]
fn no_wake_up_is_lost_in_very_many_round_trips_to_a_thread() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (ask, asked) = mpsc::channel::<miniloop::Completer<u32>>();
    let answering = thread::spawn(move || {
        for (number, completer) in (0..).zip(asked) {
            completer.set_result(number).unwrap();
        }
    });
    let handle = event_loop.handle();
    let answers = event_loop.run_until_complete(async move {
        for number in 0..ROUND_TRIPS {
            let (future, completer) = handle.create_threadsafe_future();
            ask.send(completer).unwrap();
            assert_eq!(future.await?, number);
        }
        Ok(ROUND_TRIPS)
    });
    assert_eq!(answers.unwrap(), ROUND_TRIPS);
    answering.join().unwrap();
}

const POSTERS: usize = 8;
const POSTS: usize = 10_000;

/// Runs in the loop's thread; every 16th makes a timer, half of which are cancelled.
fn posted(poster: usize, number: usize) {
    RAN.with_borrow_mut(|ran| ran.push((poster, number)));
    if number.is_multiple_of(16) {
        let timer = this_loop().call_later(Duration::ZERO, || {
            RAN.with_borrow_mut(|ran| ran.push((POSTERS, 0)));
        });
        if number.is_multiple_of(32) {
            timer.cancel();
        }
    }
}

// field: BR-22
#[test]
fn every_post_of_eight_busy_threads_runs_in_the_order_of_its_thread() {
    let _watchdog = Watchdog::start();
    let event_loop = reachable_loop();
    RAN.take();
    let threads: Vec<_> = (0..POSTERS)
        .map(|poster| {
            let handle = event_loop.threadsafe_handle();
            thread::spawn(move || {
                for number in 0..POSTS {
                    let post = move || posted(poster, number);
                    handle.call_soon_threadsafe(post).unwrap();
                }
            })
        })
        .collect();
    let timers = POSTERS * (0..POSTS).filter(|number| number % 32 == 16).count();
    while RAN.with_borrow(Vec::len) < POSTERS * POSTS + timers {
        // One tick that waits: with nothing but posts to wait for, it must hear of each.
        event_loop.run_once().unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    tick(&event_loop);
    let ran = RAN.take();
    assert_eq!(ran.len(), POSTERS * POSTS + timers);
    for poster in 0..POSTERS {
        let numbers = ran.iter().filter(|entry| entry.0 == poster);
        assert!(numbers.map(|entry| entry.1).eq(0..POSTS), "of thread {poster}");
    }
}

// field: BR-20
#[test]
fn posts_made_by_posts_run_one_generation_a_tick() {
    let event_loop = reachable_loop();
    RAN.take();
    fn generation(number: usize) {
        RAN.with_borrow_mut(|ran| ran.push((0, number)));
        let handle = this_loop().threadsafe_handle();
        handle
            .call_soon_threadsafe(move || generation(number + 1))
            .unwrap();
    }
    let handle = event_loop.threadsafe_handle();
    let thread = thread::spawn(move || {
        for _ in 0..1_000 {
            handle.call_soon_threadsafe(|| generation(0)).unwrap();
        }
    });
    thread.join().unwrap();
    for number in 0..5 {
        tick(&event_loop);
        assert_eq!(RAN.take(), vec![(0, number); 1_000]);
    }
}

// field: BR-20
#[test]
fn a_thread_that_posts_without_pause_starves_neither_a_timer_nor_a_reader() {
    let _watchdog = Watchdog::start();
    let event_loop = reachable_loop();
    let (near, far) = pair();
    let log = Log::new();
    let deadline = event_loop.time() + Duration::from_millis(20);

    let (handle, read, source) = (event_loop.handle(), log.clone(), near.clone());
    event_loop
        .add_reader(&near, move || {
            recv(&source, 10);
            read.push(("read", handle.pass_count()));
            handle.stop();
        })
        .unwrap();
    let (handle, fired) = (event_loop.handle(), log.clone());
    event_loop.call_at(deadline, move || {
        fired.push(("fired", handle.pass_count()));
        fired.push(("written", handle.pass_count()));
        send(&far, b"x");
    });

    // The first post that runs after the deadline says in which pass that was.
    thread_local! {
        static OVERDUE: Cell<Option<u64>> = const { Cell::new(None) };
    }
    OVERDUE.set(None);
    let poster = event_loop.threadsafe_handle();
    let enough = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&enough);
    let thread = thread::spawn(move || {
        let mut posts = 0_u64;
        while !until.load(Ordering::Relaxed) {
            let post = move || {
                let handle = this_loop();
                if OVERDUE.get().is_none() && handle.time() >= deadline {
                    OVERDUE.set(Some(handle.pass_count()));
                }
            };
            poster.call_soon_threadsafe(post).unwrap();
            posts += 1;
        }
        posts
    });
    event_loop.run_forever().unwrap();
    enough.store(true, Ordering::Relaxed);
    assert!(thread.join().unwrap() > 0);

    let log = log.take();
    let pass_of = |what| log.iter().find(|entry| entry.0 == what).unwrap().1;
    if let Some(overdue) = OVERDUE.get() {
        assert!(pass_of("fired") <= overdue + 2, "{overdue}, {log:?}");
    }
    assert!(pass_of("read") <= pass_of("written") + 2, "{log:?}");
}

// field: BR-25
#[test]
fn every_post_to_a_loop_that_is_closed_meanwhile_is_run_or_refused_or_dropped() {
    let _watchdog = Watchdog::start();
    for round in 0..1_000 {
        let event_loop = EventLoop::new().unwrap();
        let (ran, dropped) = (Tally::default(), Tally::default());
        let poster = event_loop.threadsafe_handle();
        let (started, start) = mpsc::channel();
        let thread = thread::spawn({
            let (ran, dropped) = (ran.clone(), dropped.clone());
            move || {
                let (mut accepted, mut refused) = (0, 0);
                while refused < 3 {
                    let (ran, counted) = (ran.clone(), dropped.on_drop());
                    let post = move || {
                        ran.add();
                        drop(counted);
                    };
                    match poster.call_soon_threadsafe(post) {
                        Ok(()) => {
                            assert_eq!(refused, 0, "accepted after a refusal");
                            accepted += 1;
                            let _ = started.send(());
                        }
                        Err(error) => {
                            assert_eq!(error, RuntimeError::LoopClosed);
                            assert!(poster.is_closed());
                            refused += 1;
                        }
                    }
                }
                (accepted, refused)
            }
        });
        // Closing at different moments: before the first posts perhaps, or amid them.
        if round % 8 >= 4 {
            start.recv().unwrap();
        }
        for _ in 0..round % 4 {
            tick(&event_loop);
        }
        match round % 2 {
            0 => event_loop.close().unwrap(),
            _ => drop(event_loop),
        }
        let (accepted, refused) = thread.join().unwrap();
        assert!(ran.count() <= accepted);
        assert_eq!(dropped.count(), accepted + refused, "none twice, none left");
        assert!(accepted > 0 || round % 8 < 4);
    }
}

// field: BR-25
#[test]
fn a_post_after_the_close_is_refused_and_dropped_by_the_poster_without_being_run() {
    let event_loop = EventLoop::new().unwrap();
    let poster = event_loop.threadsafe_handle();
    // The close falls between the look and the post.
    assert!(!poster.is_closed());
    event_loop.close().unwrap();
    let thread = thread::spawn(move || {
        let (ran, dropped) = (Tally::default(), Tally::default());
        let (inside, counted) = (ran.clone(), dropped.on_drop());
        let refused = poster.call_soon_threadsafe(move || {
            inside.add();
            drop(counted);
        });
        assert_eq!(refused, Err(RuntimeError::LoopClosed));
        assert_eq!((ran.count(), dropped.count()), (0, 1));
        poster
    });
    let poster = thread.join().unwrap();
    drop(event_loop);
    let copy = poster.clone();
    drop(poster);
    assert!(copy.is_closed());
    assert_eq!(copy.call_soon_threadsafe(|| {}), Err(RuntimeError::LoopClosed));
}

// field: BR-25
#[test]
fn what_was_posted_and_not_run_is_dropped_by_the_close() {
    for by_drop in [false, true] {
        let event_loop = EventLoop::new().unwrap();
        let (ran, dropped) = (Tally::default(), Tally::default());
        let poster = event_loop.threadsafe_handle();
        let thread = thread::spawn({
            let (ran, counted) = (ran.clone(), dropped.on_drop());
            move || {
                poster.call_soon_threadsafe(move || {
                    ran.add();
                    drop(counted);
                })
            }
        });
        thread.join().unwrap().unwrap();
        assert_eq!(dropped.count(), 0);
        if by_drop {
            drop(event_loop);
        } else {
            event_loop.close().unwrap();
        }
        assert_eq!((ran.count(), dropped.count()), (0, 1));
    }
}

// field: BR-25
#[test]
fn a_posted_callback_dropped_by_the_close_may_post_from_its_drop() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let poster = event_loop.threadsafe_handle();
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let posting_drop = crate::faults::OnDrop::new({
        let (poster, outcomes) = (poster.clone(), Arc::clone(&outcomes));
        move || {
            let outcome = poster.call_soon_threadsafe(|| {});
            outcomes.lock().unwrap().push(outcome);
        }
    });
    let thread = thread::spawn(move || poster.call_soon_threadsafe(move || drop(posting_drop)));
    thread.join().unwrap().unwrap();
    event_loop.close().unwrap();
    assert_eq!(*outcomes.lock().unwrap(), [Err(RuntimeError::LoopClosed)]);
}

// field: BR-25
#[test]
fn a_job_that_finishes_after_the_close_gets_an_error_instead_of_a_loop() {
    let event_loop = EventLoop::new().unwrap();
    let dropped = Tally::default();
    let (future, completer) = event_loop.create_threadsafe_future();
    let (go, gone) = mpsc::channel();
    let thread = thread::spawn({
        let counted = dropped.on_drop();
        move || {
            gone.recv().unwrap();
            completer.set_result(counted)
        }
    });
    tick(&event_loop);
    event_loop.close().unwrap();
    drop(event_loop);
    go.send(()).unwrap();
    let outcome = thread.join().unwrap();
    assert_eq!(outcome, Err(RuntimeError::LoopClosed));
    assert_eq!(dropped.count(), 1);
    drop(future);
}
