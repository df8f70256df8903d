//! The three programs in `examples/` as their users meet them, and the echo server inside one process.

#[path = "echo_server/child.rs"]
mod child;
mod common;
#[path = "echo_server/crowd.rs"]
mod crowd;
#[path = "echo_server/in_one_thread.rs"]
mod in_one_thread;
#[cfg(target_os = "linux")]
#[path = "echo_server/out_of_fds.rs"]
mod out_of_fds;
#[cfg(target_os = "linux")]
#[path = "echo_server/process.rs"]
mod process;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use child::{FIFTY_MEGABYTES, Server, assert_echo, reset, run_to_end};
use crowd::crowd_of_200_is_served_byte_by_byte;
#[cfg(target_os = "linux")]
use out_of_fds::shortage_of_fds_is_reported_and_waited_out;

/// Both servers have to show the same behaviour: a test for each.
macro_rules! both_servers {
    ($($(#[$attribute:meta])? $behaviour:ident),* $(,)?) => {
        mod with_tasks {
            $(#[test] $(#[$attribute])? fn $behaviour() { super::$behaviour("echo_server"); })*
        }
        mod with_callbacks {
            $(#[test] $(#[$attribute])? fn $behaviour() { super::$behaviour("echo_callbacks"); })*
        }
    };
}

both_servers!(
    first_line_tells_where_it_listens,
    host_name_is_looked_up,
    clients_are_served_side_by_side,
    silent_client_holds_up_nobody,
    half_closed_client_gets_everything_then_the_end,
    reset_clients_disturb_nobody,
    client_that_does_not_read_disturbs_nobody,
    bad_address_is_one_line_and_exit_code_1,
    port_in_use_is_one_line_and_exit_code_1,
    too_many_arguments_show_the_usage_and_exit_code_2,
    crowd_of_200_is_served_byte_by_byte,
    #[cfg(target_os = "linux")]
    jammed_client_costs_no_cpu_time,
    #[cfg(target_os = "linux")]
    client_that_was_jammed_costs_no_cpu_time_when_idle,
    #[cfg(target_os = "linux")]
    shortage_of_fds_is_reported_and_waited_out,
);

// brief: EX-1
fn first_line_tells_where_it_listens(program: &str) {
    let server = Server::start(program);
    assert!(server.address().ip().is_loopback());
    assert_ne!(server.address().port(), 0);
    assert_echo(&server.connect(), b"hello");
}

fn host_name_is_looked_up(program: &str) {
    let server = Server::start_on(program, "localhost:0");
    assert!(server.address().ip().is_loopback());
    assert_echo(&server.connect(), b"hello");
}

// brief: EC-1
fn clients_are_served_side_by_side(program: &str) {
    let server = Server::start(program);
    let clients: Vec<TcpStream> = (0..10).map(|_| server.connect()).collect();
    for round in 0..10u8 {
        for (number, client) in clients.iter().enumerate() {
            assert_echo(client, &[round, number as u8]);
        }
    }
}

// brief: EC-2
fn silent_client_holds_up_nobody(program: &str) {
    let server = Server::start(program);
    let silent = server.connect();
    let talking = server.connect();
    for _ in 0..10 {
        assert_echo(&talking, b"are you there?");
    }
    assert_echo(&silent, b"yes");
}

// brief: EC-3
fn half_closed_client_gets_everything_then_the_end(program: &str) {
    let server = Server::start(program);
    let client = server.connect();
    let data = &FIFTY_MEGABYTES[..3_000_000];
    thread::scope(|scope| {
        scope.spawn(|| {
            (&client).write_all(data).expect("the server takes it");
            client.shutdown(Shutdown::Write).expect("the end is sent");
        });
        let mut echo = Vec::new();
        (&client).read_to_end(&mut echo).expect("an end without an error");
        assert!(echo == data, "{} bytes came back of {}", echo.len(), data.len());
    });
}

fn reset_clients_disturb_nobody(program: &str) {
    let mut server = Server::start(program);
    let other = server.connect();
    assert_echo(&other, b"before");
    #[cfg(target_os = "linux")]
    let open_files = server.open_files();

    reset(server.connect());

    let with_something_to_say = server.connect();
    (&with_something_to_say)
        .write_all(b"hello")
        .expect("the server takes it");
    reset(with_something_to_say);

    let known = server.connect();
    assert_echo(&known, b"hello");
    reset(known);

    let jammed = server.connect();
    jam(&jammed, &other, &FIFTY_MEGABYTES);
    reset(jammed);

    assert_echo(&other, b"after");
    assert_echo(&server.connect(), b"somebody new");
    #[cfg(target_os = "linux")]
    server.wait_for_open_files(open_files);
    server.assert_running();
}

/// Sends until the server does not take more, and gives back how much it took. That `other` is
/// served after every attempt shows that the server had its chance to take more, and that the
/// jam is nothing to `other`.
#[track_caller]
fn jam(client: &TcpStream, other: &TcpStream, data: &[u8]) -> usize {
    let (mut sent, mut refused) = (0, 0);
    let mut writer = client;
    client.set_nonblocking(true).expect("the mode");
    while refused < 20 && sent < data.len() {
        match writer.write(&data[sent..]) {
            Ok(count) => (sent, refused) = (sent + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("the connection is lost: {error}"),
        }
        assert_echo(other, b"undisturbed?");
    }
    client.set_nonblocking(false).expect("the mode");
    assert!(
        sent < data.len(),
        "the server took everything: it does not hold back"
    );
    sent
}

fn client_that_does_not_read_disturbs_nobody(program: &str) {
    let server = Server::start(program);
    let (client, other) = (server.connect(), server.connect());
    let data = &*FIFTY_MEGABYTES;
    let sent = jam(&client, &other, data);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&client)
                .write_all(&data[sent..])
                .expect("the server takes the rest")
        });
        let mut piece = vec![0; 1_000_000];
        for expected in data.chunks(piece.len()) {
            (&client).read_exact(&mut piece).expect("the server answers");
            assert!(piece == expected, "the answer differs from what was sent");
        }
    });
}

// brief: SO-8
#[cfg(target_os = "linux")]
fn jammed_client_costs_no_cpu_time(program: &str) {
    let server = Server::start(program);
    let (client, other) = (server.connect(), server.connect());
    jam(&client, &other, &FIFTY_MEGABYTES);
    assert_no_cpu_time_is_used(&server);
}

// brief: SO-8
#[cfg(target_os = "linux")]
fn client_that_was_jammed_costs_no_cpu_time_when_idle(program: &str) {
    let server = Server::start(program);
    let (mut client, other) = (server.connect(), server.connect());
    let sent = jam(&client, &other, &FIFTY_MEGABYTES);
    let mut answer = vec![0; sent];
    client.read_exact(&mut answer).expect("the server answers");
    assert_no_cpu_time_is_used(&server);
}

/// Looks for half a second. A server that spins gets its share of that also on a busy machine.
#[cfg(target_os = "linux")]
fn assert_no_cpu_time_is_used(server: &Server) {
    use std::time::Duration;

    let before = server.cpu_time();
    thread::sleep(Duration::from_millis(500));
    let used = server.cpu_time() - before;
    assert!(used < Duration::from_millis(30), "{used:?} of processor time");
}

fn bad_address_is_one_line_and_exit_code_1(program: &str) {
    for address in ["nowhere", "127.0.0.1", "127.0.0.1:65536", ""] {
        let output = run_to_end(program, &[address]);
        let start = format!("{program}: cannot listen on {address}: ");
        assert_one_line(&output.stderr, &start);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
    }
}

fn port_in_use_is_one_line_and_exit_code_1(program: &str) {
    let first = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = first.local_addr().expect("its address").to_string();
    let output = run_to_end(program, &[&address]);
    assert_one_line(
        &output.stderr,
        &format!("{program}: cannot listen on {address}: "),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
}

fn too_many_arguments_show_the_usage_and_exit_code_2(program: &str) {
    for arguments in [&["127.0.0.1:0", "127.0.0.1:0"][..], &["--help"]] {
        let output = run_to_end(program, arguments);
        assert_one_line(&output.stderr, &format!("usage: {program} "));
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
    }
}

#[track_caller]
fn assert_one_line(stderr: &[u8], start: &str) {
    let text = String::from_utf8_lossy(stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with(start), "{text}");
    assert!(
        text.trim_end().len() > start.len() + 3,
        "no reason is given: {text}"
    );
}

// brief: CB-7, EX-2
#[test]
fn mini_loop_prints_a_b_a2() {
    let output = run_to_end("mini_loop", &[]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "[\"a\", \"b\", \"a2\"]\n"
    );
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}
