//! The examples as processes of their own, and plain blocking clients for them.

use std::env::consts::EXE_SUFFIX;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// Only a server that hangs is this slow: it turns a test that would never end into one that fails.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program that `cargo test` built from `examples/`.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples").join(format!("{name}{EXE_SUFFIX}"));
    assert!(
        program.exists(),
        "{} is not there: `cargo test` builds it, `cargo test --test ...` does not; \
         run `cargo build --examples` first",
        program.display()
    );
    program
}

/// Runs an example that ends by itself.
pub fn run_to_end(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(example(name));
    command
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command.output().expect("the example runs")
}

/// A running echo server; dropping it ends the process.
pub struct Server {
    child: Child,
    address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// The example on a free port of 127.0.0.1.
    pub fn start(name: &str) -> Server {
        Server::start_on(name, "127.0.0.1:0")
    }

    pub fn start_on(name: &str, address: &str) -> Server {
        let mut command = Command::new(example(name));
        command.arg(address);
        Server::spawn(command)
    }

    /// Starts the process and waits for its first line.
    pub fn spawn(mut command: Command) -> Server {
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the example starts");
        let first_line = first_line(child.stdout.take().expect("a pipe"));
        let log = collect(child.stderr.take().expect("a pipe"));
        // From here on the drop of this value ends the child, also where the test fails.
        let mut server = Server {
            child,
            address: ([0, 0, 0, 0], 0).into(),
            log,
        };
        let line = first_line.recv_timeout(PATIENCE).expect("a first line");
        server.address = line
            .strip_prefix("listening on ")
            .and_then(|rest| rest.strip_suffix('\n'))
            .and_then(|address| address.parse().ok())
            .unwrap_or_else(|| panic!("the first line was {line:?}, the log {:?}", server.log()));
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new client; its reads and writes fail after a while rather than wait for ever.
    pub fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("a connection");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        client
    }

    /// What the server wrote on standard error so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    #[cfg(target_os = "linux")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the server has ended.
    pub fn assert_running(&mut self) {
        let ended = self.child.try_wait().expect("the state of the child");
        assert!(
            ended.is_none(),
            "the server ended: {ended:?}, log {:?}",
            self.log()
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread hands the line over, so that waiting for it can be given up.
fn first_line(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let mut pipe = BufReader::new(pipe);
        if pipe.read_line(&mut line).is_ok() {
            let _ = sender.send(line);
        }
        // Kept open until the server ends: a later line must not meet a closed pipe.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    });
    receiver
}

fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let collected = log.clone();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            *collected.lock().expect("the log") += &(line + "\n");
        }
    });
    log
}

/// Sends `data` and fails unless exactly that comes back. It has to fit into the sockets' buffers.
#[track_caller]
pub fn assert_echo(client: &TcpStream, data: &[u8]) {
    let (mut reader, mut writer) = (client, client);
    let mut echo = vec![0; data.len()];
    writer.write_all(data).expect("the server takes it");
    reader.read_exact(&mut echo).expect("the server answers");
    assert!(echo == data, "the answer differs from what was sent");
}

/// Closes the connection with a reset instead of an orderly end.
pub fn reset(client: TcpStream) {
    let no_goodbye = SockRef::from(&client).set_linger(Some(Duration::ZERO));
    no_goodbye.expect("the option");
}

/// Bytes in which no two places look alike, so that a lost, doubled or moved piece shows.
pub static FIFTY_MEGABYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = vec![0; 50_000_000];
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes
});
