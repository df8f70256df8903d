//! Many clients at once, each with a lot to say, some of them gone midway.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::thread;

use super::child::{FIFTY_MEGABYTES, Server, assert_echo, reset};

const CLIENTS: usize = 200;
const BYTES_EACH: usize = 1_000_000;
/// So many clients of ten send all they have; the tenth leaves in the middle, without a goodbye.
const FAITHFUL_OF_TEN: usize = 9;
/// Sizes that fit no buffer evenly.
const PIECES: [usize; 6] = [1, 77, 1_021, 9_973, 65_537, 131_071];

pub fn crowd_of_200_is_served_byte_by_byte(program: &str) {
    let mut server = Server::start(program);
    let bystander = server.connect();
    assert_echo(&bystander, b"before");
    #[cfg(target_os = "linux")]
    let open_files = server.open_files();
    let all_are_there = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (server, all_are_there) = (&server, &all_are_there);
                let thread = thread::Builder::new().name(format!("client {number}"));
                let client = move || {
                    let stream = server.connect();
                    all_are_there.wait();
                    visit(stream, number);
                };
                thread.spawn_scoped(scope, client).expect("a thread")
            })
            .collect();
        for client in clients {
            client.join().expect("the client was served right");
        }
    });
    server.assert_running();
    assert_echo(&bystander, b"after");
    #[cfg(target_os = "linux")]
    server.wait_for_open_files(open_files);
}

/// Sends and checks the answer at the same time: what is on the way has no limit but the server's.
fn visit(stream: TcpStream, number: usize) {
    let data = &FIFTY_MEGABYTES[number * 240_007..][..BYTES_EACH]; // no two clients say the same
    let faithful = number % 10 < FAITHFUL_OF_TEN;
    let wanted = if faithful { data.len() } else { data.len() / 2 };
    thread::scope(|scope| {
        let writer = scope.spawn(|| write_in_pieces(&stream, data, number));
        read_in_pieces(&stream, &data[..wanted], number);
        if faithful {
            writer
                .join()
                .expect("the writer")
                .expect("the server takes everything");
            assert_eq!((&stream).read(&mut [0]).expect("an orderly end"), 0);
        } else {
            let _ = stream.shutdown(Shutdown::Both); // ends the writer, whose failure is meant
        }
    });
    if !faithful {
        reset(stream);
    }
}

fn sizes(first: usize) -> impl Iterator<Item = usize> {
    PIECES.into_iter().cycle().skip(first % PIECES.len())
}

fn write_in_pieces(mut stream: &TcpStream, mut data: &[u8], number: usize) -> std::io::Result<()> {
    for size in sizes(number) {
        if data.is_empty() {
            break;
        }
        let (piece, rest) = data.split_at(size.min(data.len()));
        stream.write_all(piece)?;
        data = rest;
    }
    stream.shutdown(Shutdown::Write)
}

fn read_in_pieces(mut stream: &TcpStream, mut expected: &[u8], number: usize) {
    let mut buffer = vec![0; PIECES.into_iter().max().unwrap_or_default()];
    for size in sizes(number + 1) {
        if expected.is_empty() {
            break;
        }
        let (piece, rest) = expected.split_at(size.min(expected.len()));
        let answer = &mut buffer[..piece.len()];
        stream.read_exact(answer).expect("the server answers");
        assert!(answer == piece, "the answer differs from what was sent");
        expected = rest;
    }
}
