//! What the two echo servers share: log output, the command line, the listening socket, the first line.

use std::ffi::OsString;
use std::io::Write;
use std::net::TcpListener;
use std::process::exit;

/// A socket that listens on the address from the command line; says why and exits where it can not.
pub fn listen(program: &str) -> TcpListener {
    env_logger::init_from_env(env_logger::Env::default().default_filter_or("info"));
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let address = match arguments.as_slice() {
        [] => "127.0.0.1:8888".into(),
        [address] if !address.to_string_lossy().starts_with('-') => address.to_string_lossy(),
        _ => {
            eprintln!("usage: {program} [HOST:PORT]");
            exit(2);
        }
    };
    let listening = TcpListener::bind(&*address).and_then(|socket| Ok((socket.local_addr()?, socket)));
    let (local, listener) = listening.unwrap_or_else(|error| {
        eprintln!("{program}: cannot listen on {address}: {error}");
        exit(1);
    });
    // Flushed: whoever asked for port 0 learns the port at once. Where nobody listens, serve anyway.
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "listening on {local}").and_then(|()| stdout.flush());
    listener
}
