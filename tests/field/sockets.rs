//! Socket operations: given up and started again (BR-43), and partial writes (BR-46).

#[cfg(unix)]
use std::io::Write;
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use miniloop::{EventLoop, Future, Pollable, Source, sleep};

use crate::common::{Stream, listener, pair, pair_small, send};
use crate::faults::{still_works, tick};
use crate::support::{Log, Watchdog, fill, read_up_to, ticks_until};

/// The two ways to give up an operation.
#[derive(Clone, Copy, Debug)]
enum GiveUp {
    Cancel,
    Drop,
}

impl GiveUp {
    const BOTH: [GiveUp; 2] = [GiveUp::Cancel, GiveUp::Drop];

    fn on<T: 'static>(self, future: Future<T>) {
        match self {
            GiveUp::Cancel => assert!(future.cancel()),
            GiveUp::Drop => drop(future),
        }
    }
}

/// Nothing is registered for the source.
#[track_caller]
fn assert_free<T: Pollable>(event_loop: &EventLoop, source: &Source<T>) {
    assert!(!event_loop.remove_reader(source));
    assert!(!event_loop.remove_writer(source));
}

// field: BR-43
#[test]
fn a_receive_given_up_and_started_again_at_once_gets_all_bytes() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair();
        let first = event_loop.sock_recv(&near, 100);
        tick(&event_loop);
        give_up.on(first);
        assert_free(&event_loop, &near);
        let second = event_loop.sock_recv(&near, 100);
        // The first one's late done callbacks, if any, run here.
        tick(&event_loop);
        send(&far, b"all of it");
        let received = event_loop.run_until_complete(second);
        assert_eq!(received.unwrap(), b"all of it", "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[test]
fn a_receive_that_was_ready_when_it_was_given_up_leaves_the_bytes_to_the_next() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair();
        let first = event_loop.sock_recv(&near, 100);
        tick(&event_loop);
        send(&far, b"all of it");
        // Given up in the very tick in which the bytes are there, before its turn.
        let (handle, source, log) = (event_loop.handle(), near.clone(), Log::new());
        let second = log.clone();
        event_loop.call_soon(move || {
            give_up.on(first);
            second.push(handle.sock_recv(&source, 100));
        });
        event_loop.run_once().unwrap();
        let second = log.take().remove(0);
        let received = event_loop.run_until_complete(second);
        assert_eq!(received.unwrap(), b"all of it", "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[test]
fn a_task_cancelled_in_a_receive_that_receives_again_gets_all_bytes() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let (handle, source) = (event_loop.handle(), near.clone());
    let task = event_loop.create_task(async move {
        let interrupted = handle.sock_recv(&source, 100).await.unwrap_err();
        assert!(interrupted.is_cancelled());
        handle.sock_recv(&source, 100).await
    });
    tick(&event_loop);
    assert!(task.cancel());
    tick(&event_loop);
    tick(&event_loop);
    assert!(!task.done());
    send(&far, b"all of it");
    assert_eq!(event_loop.run_until_complete(task).unwrap(), b"all of it");
    assert_free(&event_loop, &near);
}

// field: BR-43
#[test]
fn a_receive_into_a_buffer_given_up_and_started_again_gets_all_bytes() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair();
        give_up.on(event_loop.sock_recv_into(&near, vec![0; 10]));
        let second = event_loop.sock_recv_into(&near, vec![0; 10]);
        tick(&event_loop);
        send(&far, b"all");
        let (count, buffer) = event_loop.run_until_complete(second).unwrap();
        assert_eq!(&buffer[..count], b"all", "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[test]
fn an_accept_given_up_and_started_again_gets_the_client() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let first = event_loop.sock_accept(&listener);
        tick(&event_loop);
        give_up.on(first);
        assert_free(&event_loop, &listener);
        let second = event_loop.sock_accept(&listener);
        tick(&event_loop);
        let client = TcpStream::connect(address).unwrap();
        let (_accepted, peer) = event_loop.run_until_complete(second.take()).unwrap();
        assert_eq!(peer, client.local_addr().unwrap(), "{give_up:?}");
        assert_free(&event_loop, &listener);
    }
}

// field: BR-43
#[test]
fn a_send_given_up_and_another_started_at_once_sends_all_of_the_other() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair_small();
        let filler = fill(near.get_ref());
        let first = event_loop.sock_sendall(&near, vec![1; 1000]);
        tick(&event_loop);
        give_up.on(first);
        assert_free(&event_loop, &near);
        let second = event_loop.sock_sendall(&near, vec![2; 100_000]);
        tick(&event_loop);
        let received = receive_while(&event_loop, &far, filler + 100_000);
        event_loop.run_until_complete(second).unwrap();
        assert!(received[filler..].iter().all(|&byte| byte == 2), "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[test]
fn giving_up_one_direction_leaves_the_other() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair_small();
        let filler = fill(near.get_ref());
        let receiving = event_loop.sock_recv(&near, 100);
        let sending = event_loop.sock_sendall(&near, vec![2; 1000]);
        tick(&event_loop);
        give_up.on(receiving);
        let received = receive_while(&event_loop, &far, filler + 1000);
        assert_eq!(received.len(), filler + 1000);
        event_loop.run_until_complete(sending).unwrap();

        let receiving = event_loop.sock_recv(&near, 100);
        fill(near.get_ref());
        give_up.on(event_loop.sock_sendall(&near, vec![2; 1000]));
        tick(&event_loop);
        send(&far, b"still heard");
        let received = event_loop.run_until_complete(receiving);
        assert_eq!(received.unwrap(), b"still heard", "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[cfg(unix)]
#[test]
fn an_operation_given_up_leaves_nothing_to_the_next_socket_of_its_number() {
    use crate::support::{pair_at, reserve_numbers};
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let number = reserve_numbers(1);
        let (near, mut far) = pair_at(number);
        let near = Source::new(near).unwrap();
        let first = event_loop.sock_recv(&near, 100);
        tick(&event_loop);
        far.write_all(b"for the old one").unwrap();
        let (handle, log) = (event_loop.handle(), Log::new());
        let second = log.clone();
        event_loop.call_soon(move || {
            give_up.on(first);
            drop(near);
            let (near, far) = pair_at(number);
            let near = Source::new(near).unwrap();
            second.push((handle.sock_recv(&near, 100), near, far));
        });
        event_loop.run_once().unwrap();
        for _ in 0..3 {
            tick(&event_loop);
        }
        let (second, near, mut far) = log.take().remove(0);
        assert!(!second.done(), "nobody has written to the new one");
        far.write_all(b"for the new one").unwrap();
        let received = event_loop.run_until_complete(second);
        assert_eq!(received.unwrap(), b"for the new one", "{give_up:?}");
        assert_free(&event_loop, &near);
    }
}

// field: BR-43
#[test]
fn an_operation_that_is_done_when_a_reader_is_added_does_not_remove_it() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair();
    let log = Log::new();
    let receiving = event_loop.sock_recv(&near, 100);
    let (handle, source, read) = (event_loop.handle(), near.clone(), log.clone());
    receiving.add_done_callback(move |_| {
        handle.add_reader(&source, read.entry("reader")).unwrap();
    });
    tick(&event_loop);
    send(&far, b"x");
    ticks_until(&event_loop, 5, || receiving.done());
    tick(&event_loop);
    drop(receiving);
    send(&far, b"y");
    tick(&event_loop);
    assert_eq!(log.take().first(), Some(&"reader"));
    assert!(event_loop.remove_reader(&near));
}

/// Runs the loop until so many bytes have come out at the far end, read in odd chunks.
#[track_caller]
fn receive_while(event_loop: &EventLoop, far: &Source<Stream>, count: usize) -> Vec<u8> {
    let mut received = Vec::with_capacity(count);
    let chunks = [1, 7, 4097, 333, 65_536, 2];
    let mut chunk = chunks.iter().cycle();
    ticks_until(event_loop, 200_000, || {
        while received.len() < count {
            let max = (*chunk.next().unwrap()).min(count - received.len());
            match read_up_to(far.get_ref(), max) {
                Ok(data) => received.extend(data),
                Err(_) => return false,
            }
        }
        true
    });
    received
}

/// Bytes that say where they belong, with a period that no buffer size shares.
fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|position| (position % 251) as u8).collect()
}

// field: BR-46
#[test]
fn eight_mebibytes_through_a_small_buffer_arrive_byte_for_byte() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let data = numbered(8 << 20);
    // The call has its own copy: what becomes of the caller's does not matter.
    let mut mine = data.clone();
    let sending = event_loop.sock_sendall(&near, mine.clone());
    mine.fill(0);
    drop(mine);
    let received = receive_while(&event_loop, &far, data.len());
    assert!(received == data, "the bytes differ");
    event_loop.run_until_complete(sending).unwrap();
    assert_free(&event_loop, &near);
}

// field: BR-46
#[test]
fn a_shared_buffer_is_sent_as_it_is_and_given_back() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let data: Rc<[u8]> = numbered(100_000).into();
    let sending = event_loop.sock_sendall(&near, Rc::clone(&data));
    let received = receive_while(&event_loop, &far, data.len());
    assert!(received == *data, "the bytes differ");
    event_loop.run_until_complete(sending).unwrap();
    assert_eq!(Rc::strong_count(&data), 1);
}

// field: BR-46
#[test]
fn two_sends_one_after_the_other_do_not_interleave() {
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let (handle, source) = (event_loop.handle(), near.clone());
    let sending = event_loop.create_task(async move {
        handle.sock_sendall(&source, vec![1; 300_000]).await?;
        handle.sock_sendall(&source, vec![2; 300_000]).await
    });
    let received = receive_while(&event_loop, &far, 600_000);
    event_loop.run_until_complete(sending).unwrap();
    assert!(received[..300_000].iter().all(|&byte| byte == 1));
    assert!(received[300_000..].iter().all(|&byte| byte == 2));
}

// field: BR-46
#[test]
fn both_ends_may_send_more_than_fits_at_the_same_time() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let ends = [(near.clone(), far.clone()), (far, near)];
    let tasks = ends.map(|(sender, receiver)| {
        let handle = event_loop.handle();
        let sending = handle.sock_sendall(&sender, numbered(500_000));
        event_loop.create_task(async move {
            let mut received = Vec::new();
            while received.len() < 500_000 {
                received.extend(handle.sock_recv(&receiver, 9_999).await?);
            }
            sending.await?;
            Ok(received == numbered(500_000))
        })
    });
    for task in tasks {
        assert!(event_loop.run_until_complete(task).unwrap());
    }
}

// field: BR-46
#[test]
fn a_send_given_up_in_the_middle_has_sent_a_beginning_and_nothing_more() {
    for give_up in GiveUp::BOTH {
        let event_loop = EventLoop::new().unwrap();
        let (near, far) = pair_small();
        let data = numbered(1 << 20);
        let sending = event_loop.sock_sendall(&near, data.clone());
        let mut received = receive_while(&event_loop, &far, 50_000);
        give_up.on(sending);
        for _ in 0..5 {
            tick(&event_loop);
            while let Ok(more) = read_up_to(far.get_ref(), 65_536) {
                received.extend(more);
            }
        }
        assert!(received.len() < data.len());
        assert!(data.starts_with(&received), "{give_up:?}");
        // What is sent next comes right behind that beginning.
        let next = event_loop.sock_sendall(&near, *b"next");
        event_loop.run_until_complete(next).unwrap();
        assert_eq!(receive_while(&event_loop, &far, 4), b"next");
        still_works(&event_loop);
    }
}

// field: BR-46
#[test]
fn a_send_of_nothing_is_done_at_once_even_where_nothing_could_be_sent() {
    let event_loop = EventLoop::new().unwrap();
    let (near, _far) = pair_small();
    fill(near.get_ref());
    let sending = event_loop.sock_sendall(&near, []);
    assert!(sending.done());
    event_loop.run_until_complete(sending).unwrap();
    assert_free(&event_loop, &near);
}

// field: BR-46
#[test]
fn a_send_to_a_peer_that_goes_away_in_the_middle_fails_and_is_forgotten() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let (near, far) = pair_small();
    let (handle, source) = (event_loop.handle(), near.clone());
    let sending = event_loop.create_task(async move { handle.sock_sendall(&source, vec![1; 1 << 20]).await });
    receive_while(&event_loop, &far, 50_000);
    event_loop.create_task(async move {
        sleep(Duration::ZERO).await?;
        drop(far);
        Ok(())
    });
    let error = event_loop.run_until_complete(sending).unwrap_err();
    assert!(error.is::<std::io::Error>());
    assert_free(&event_loop, &near);
    still_works(&event_loop);
}
