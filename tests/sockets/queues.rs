//! Several operations on one source at once: they are served one after the other.

use miniloop::{EventLoop, Source};

use crate::common::{Trace, listener, pair, pair_small, send};
use crate::support::{nothing_is_left, settle, still_works, tick};
use crate::{drain, pattern};

#[test]
fn two_pending_receives_on_one_source_are_served_in_order() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 3);
    let second = event_loop.sock_recv(&left, 3);
    settle(&event_loop);
    send(&right, b"onetwo");
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"two");
    assert_eq!(first.result().unwrap(), b"one");
    nothing_is_left(&event_loop);
    still_works(&event_loop);
}

#[test]
fn a_receive_does_not_overtake_one_that_waits() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 3);
    tick(&event_loop);
    send(&right, b"onetwo");
    // the data is there: tried at once, this one would take it
    let second = event_loop.sock_recv(&left, 3);
    assert_eq!(event_loop.run_until_complete(first).unwrap(), b"one");
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"two");
}

#[test]
fn a_cancelled_receive_hands_its_turn_to_the_next() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 10);
    let second = event_loop.sock_recv(&left, 10);
    let third = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    assert!(first.cancel());
    drop(second);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(third).unwrap(), b"x");
    nothing_is_left(&event_loop);
}

#[test]
fn a_receive_cancelled_after_its_readiness_was_seen_loses_no_data() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let first = event_loop.sock_recv(&left, 10);
    let second = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    send(&right, b"x");
    // runs in the tick that polls, before what the poll schedules
    event_loop.call_soon(move || {
        first.cancel();
    });
    assert_eq!(event_loop.run_until_complete(second).unwrap(), b"x");
}

#[test]
fn two_pending_sends_on_one_source_do_not_interleave() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let (first, second) = (vec![b'1'; 300_000], vec![b'2'; 300_000]);
    let one = event_loop.sock_sendall(&left, first.clone());
    let two = event_loop.sock_sendall(&left, second.clone());
    settle(&event_loop);
    assert!(!one.done() && !two.done());
    let drained = event_loop.create_task(drain(event_loop.handle(), right));
    event_loop.run_until_complete(two).unwrap();
    assert!(one.done());
    drop(left);
    let received = event_loop.run_until_complete(drained).unwrap();
    assert!(received == [first, second].concat());
}

#[test]
fn a_send_does_not_overtake_one_that_waits() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let data = pattern(300_000);
    let one = event_loop.sock_sendall(&left, data.clone());
    tick(&event_loop);
    let drained = event_loop.create_task({
        let handle = event_loop.handle();
        let source = left;
        async move {
            let all = handle.create_task(drain(handle.clone(), right));
            // room has been made meanwhile: tried at once, this one would go in between
            miniloop::sleep(std::time::Duration::ZERO).await?;
            handle.sock_sendall(&source, "end").await?;
            drop(source);
            all.await
        }
    });
    let received = event_loop.run_until_complete(drained).unwrap();
    assert!(one.done());
    assert!(received == [data.as_slice(), b"end"].concat());
}

#[test]
fn receiving_and_sending_on_one_source_do_not_disturb_each_other() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair_small();
    let data = pattern(300_000);
    let received = event_loop.sock_recv(&left, 10);
    let sent = event_loop.sock_sendall(&left, data.clone());
    settle(&event_loop);
    assert!(!received.done() && !sent.done());
    send(&right, b"answer");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"answer");
    assert!(!sent.done());
    let drained = event_loop.create_task(drain(event_loop.handle(), right));
    event_loop.run_until_complete(sent).unwrap();
    drop(left);
    assert!(event_loop.run_until_complete(drained).unwrap() == data);
}

#[test]
fn two_pending_accepts_get_two_clients() {
    let event_loop = EventLoop::new().unwrap();
    let server = listener();
    let address = server.local_addr().unwrap();
    let accepts = [(); 2].map(|()| event_loop.sock_accept(&server));
    tick(&event_loop);
    let clients = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
    let peers = accepts.map(|accepted| {
        let (_, peer) = event_loop.run_until_complete(accepted).unwrap();
        peer
    });
    assert_eq!(peers, clients.map(|client| client.local_addr().unwrap()));
}

#[test]
fn a_reader_and_a_receive_may_wait_for_one_source() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let events = Trace::new();
    event_loop.add_reader(&left, events.mark("reader")).unwrap();
    let received = event_loop.sock_recv(&left, 10);
    received.add_done_callback(|_| ());
    tick(&event_loop);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    assert_eq!(events.lines(), ["reader"]);
    assert!(event_loop.remove_reader(&left), "the receive did not take it off");
    nothing_is_left(&event_loop);
}

#[test]
fn removing_the_reader_leaves_a_pending_receive_alone() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    event_loop.add_reader(&left, || {}).unwrap();
    let received = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    assert!(event_loop.remove_reader(&left));
    assert!(!event_loop.remove_reader(&left));
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
}

#[test]
fn a_source_dropped_by_everybody_else_lives_until_its_operation_ends() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    tick(&event_loop);
    drop(left);
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    // and not longer: the peer sees the end
    let end = event_loop.run_until_complete(event_loop.sock_recv(&right, 10));
    assert_eq!(end.unwrap(), b"");
}

#[test]
fn a_source_in_use_can_not_be_taken_apart() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let received = event_loop.sock_recv(&left, 10);
    let left: Source<_> = left.into_inner().unwrap_err();
    send(&right, b"x");
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    assert!(left.into_inner().is_ok());
}

#[test]
fn a_reader_may_drop_the_receive_that_waits_beside_it() {
    let event_loop = EventLoop::new().unwrap();
    let (left, right) = pair();
    let mut beside = Some(event_loop.sock_recv(&left, 10));
    event_loop.add_reader(&left, move || drop(beside.take())).unwrap();
    send(&right, b"x");
    tick(&event_loop);
    assert!(event_loop.remove_reader(&left));
    let received = event_loop.sock_recv(&left, 10);
    assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    nothing_is_left(&event_loop);
}
