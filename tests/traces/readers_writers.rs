//! `add_reader`, `add_writer`, and their place in a tick.

use std::time::Duration;

use miniloop::Source;

use crate::common::{Show, Stream, Trace, pair, recv, run_for, send, stopper};
use crate::registry::VirtualLoop;

scenarios! {
    area: "readers_writers",
    calls: [
        reader_is_called_while_data_remains,
        second_add_reader_replaces_the_first,
        reader_removes_itself,
        reader_and_writer_on_one_socket,
        removing_what_is_not_there,
        readers_on_two_sockets,
        place_of_io_in_a_tick,
    ],
    mains: [],
}

/// A reader that takes up to `max` bytes and leaves a word and what it got.
fn reading(
    trace: &Trace,
    word: &'static str,
    source: &Source<Stream>,
    max: usize,
) -> impl Fn() + 'static + use<> {
    let (trace, source) = (trace.clone(), source.clone());
    move || trace.push(format!("{word}:{}", recv(&source, max).show()))
}

fn reader_is_called_while_data_remains(event_loop: &VirtualLoop, trace: &Trace) {
    let (a, b) = pair();
    event_loop
        .add_reader(&b, reading(trace, "read", &b, 1))
        .expect("a reader");
    send(&a, b"xyz");
    run_for(event_loop, 1);
}

fn second_add_reader_replaces_the_first(event_loop: &VirtualLoop, trace: &Trace) {
    let (a, b) = pair();
    event_loop.add_reader(&b, trace.mark("old")).expect("a reader");
    event_loop
        .add_reader(&b, reading(trace, "new", &b, 10))
        .expect("a reader");
    send(&a, b"data");
    run_for(event_loop, 1);
    trace.push(format!("removed:{}", event_loop.remove_reader(&b)));
    trace.push(format!("removed:{}", event_loop.remove_reader(&b)));
}

fn reader_removes_itself(event_loop: &VirtualLoop, trace: &Trace) {
    let (a, b) = pair();
    let (handle, log, source) = (event_loop.handle(), trace.clone(), b.clone());
    event_loop
        .add_reader(&b, move || {
            log.push(format!("removed:{}", handle.remove_reader(&source)));
        })
        .expect("a reader");
    send(&a, b"unread");
    run_for(event_loop, 1);
    trace.push(format!("left:{}", recv(&b, 10).show()));
}

fn reader_and_writer_on_one_socket(event_loop: &VirtualLoop, trace: &Trace) {
    let (a, b) = pair();
    let (handle, log, source) = (event_loop.handle(), trace.clone(), b.clone());
    event_loop
        .add_reader(&b, move || {
            log.push(format!("read:{}", recv(&source, 10).show()));
            log.push(format!("writer-left:{}", handle.remove_writer(&source)));
            log.push(format!("reader-removed:{}", handle.remove_reader(&source)));
            handle.stop();
        })
        .expect("a reader");
    let (handle, log, source) = (event_loop.handle(), trace.clone(), b.clone());
    event_loop
        .add_writer(&b, move || {
            log.push("writable");
            log.push(format!("writer-removed:{}", handle.remove_writer(&source)));
            send(&a, b"now");
        })
        .expect("a writer");
    event_loop.run_forever().expect("the loop runs");
}

fn removing_what_is_not_there(event_loop: &VirtualLoop, trace: &Trace) {
    let (_a, b) = pair();
    trace.push(format!("reader:{}", event_loop.remove_reader(&b)));
    trace.push(format!("writer:{}", event_loop.remove_writer(&b)));
    event_loop
        .add_writer(&b, trace.mark("writable"))
        .expect("a writer");
    trace.push(format!("reader:{}", event_loop.remove_reader(&b)));
    trace.push(format!("writer:{}", event_loop.remove_writer(&b)));
    trace.push(format!("writer:{}", event_loop.remove_writer(&b)));
    run_for(event_loop, 1);
}

fn readers_on_two_sockets(event_loop: &VirtualLoop, trace: &Trace) {
    let ((a, b), (c, d)) = (pair(), pair());
    for (word, source) in [("b", &b), ("d", &d)] {
        event_loop
            .add_reader(source, reading(trace, word, source, 10))
            .expect("a reader");
    }
    for (second, source, data) in [(1, &c, "one"), (2, &a, "two"), (3, &c, "three")] {
        let source = source.clone();
        event_loop.call_later(Duration::from_secs(second), move || {
            send(&source, data.as_bytes());
        });
    }
    run_for(event_loop, 4);
}

fn place_of_io_in_a_tick(event_loop: &VirtualLoop, trace: &Trace) {
    let (a, b) = pair();
    let (handle, read) = (event_loop.handle(), reading(trace, "reader", &b, 10));
    event_loop
        .add_reader(&b, move || {
            read();
            handle.call_soon(stopper(&handle));
        })
        .expect("a reader");
    // A clone: the peer stays open after the callback.
    let (handle, log, peer) = (event_loop.handle(), trace.clone(), a.clone());
    event_loop.call_soon(move || {
        handle.call_later(Duration::ZERO, log.mark("timer"));
        send(&peer, b"x");
        handle.call_soon(log.mark("soon"));
    });
    event_loop.run_forever().expect("the loop runs");
}
