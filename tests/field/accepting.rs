//! An accept loop that runs out of descriptors (BR-49).

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use miniloop::{EventLoop, Exception, LoopHandle, Source, sleep};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::common::{listener, stopper};
use crate::faults::{still_works, tick};
use crate::support::{Log, Watchdog, assert_sleeps, in_own_process, reset, thread_cpu, ticks_until};

/// How long an accept loop waits after it has run out of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Lowers the limit until only so many descriptors can be opened; gives the old limit.
fn leave_descriptors(count: usize, any: impl AsFd) -> Rlimit {
    let probes: Vec<_> = (0..count)
        .map(|_| any.as_fd().try_clone_to_owned().unwrap())
        .collect();
    let highest = probes.iter().map(AsRawFd::as_raw_fd).max().unwrap();
    let limit = getrlimit(Resource::Nofile);
    let current = Some(u64::try_from(highest).unwrap() + 1);
    let maximum = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    limit
}

fn is_shortage(error: &Exception) -> bool {
    error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error)
        .is_some_and(|number| number == rustix::io::Errno::MFILE.raw_os_error())
}

/// Clients that are connected as far as the queue of the listening socket.
fn queue_up(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// A server's accept loop: keeps the clients, notes a shortage, and pauses after it.
async fn serve(
    event_loop: LoopHandle,
    listener: Source<TcpListener>,
    served: Log<Source<TcpStream>>,
    shortages: Log<Duration>,
) -> miniloop::Result<()> {
    loop {
        match event_loop.sock_accept(&listener).take().await {
            Ok((client, _)) => served.push(client),
            Err(error) if is_shortage(&error) => {
                shortages.push(event_loop.time());
                sleep(PAUSE).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

// field: BR-49
#[test]
fn an_accept_loop_without_descriptors_reports_once_a_pause_and_then_serves_who_waited() {
    let name =
        "accepting::an_accept_loop_without_descriptors_reports_once_a_pause_and_then_serves_who_waited";
    in_own_process(name, || {
        let _watchdog = Watchdog::start();
        let event_loop = EventLoop::new().unwrap();
        let listener = listener();
        let clients = queue_up(listener.local_addr().unwrap(), 6);
        let limit = leave_descriptors(3, listener.get_ref());
        let (served, shortages) = (Log::new(), Log::new());
        let serving = serve(
            event_loop.handle(),
            listener.clone(),
            served.clone(),
            shortages.clone(),
        );
        let task = event_loop.create_task(serving);

        event_loop.call_later(PAUSE * 3 / 2, stopper(&event_loop));
        let (passes, cpu) = (event_loop.pass_count(), thread_cpu());
        event_loop.run_forever().unwrap();
        let (passes, cpu) = (event_loop.pass_count() - passes, thread_cpu() - cpu);
        let let_in = served.take();
        assert_eq!(let_in.len(), 3);
        let times = shortages.take();
        assert!((1..=3).contains(&times.len()), "{times:?}");
        assert!(
            times.windows(2).all(|pair| pair[1] - pair[0] >= PAUSE),
            "{times:?}"
        );
        assert!(passes <= 30, "{passes} passes");
        assert!(cpu < Duration::from_millis(60), "busy for {cpu:?}");

        setrlimit(Resource::Nofile, limit).unwrap();
        let handle = event_loop.handle();
        while served_so_far(&served) < 3 {
            handle.call_later(PAUSE / 10, stopper(&handle));
            event_loop.run_forever().unwrap();
        }
        assert!(shortages.take().is_empty());
        assert!(!task.done(), "the server goes on");
        drop(clients);
        still_works(&event_loop);
    });
}

/// Looks without taking: puts back what it has counted.
fn served_so_far(served: &Log<Source<TcpStream>>) -> usize {
    let clients = served.take();
    let count = clients.len();
    clients.into_iter().for_each(|client| served.push(client));
    count
}

// field: BR-49
#[test]
fn an_accept_loop_cancelled_in_its_pause_does_not_try_again() {
    let name = "accepting::an_accept_loop_cancelled_in_its_pause_does_not_try_again";
    in_own_process(name, || {
        let _watchdog = Watchdog::start();
        let event_loop = EventLoop::new().unwrap();
        let listener = listener();
        let _clients = queue_up(listener.local_addr().unwrap(), 3);
        let limit = leave_descriptors(1, listener.get_ref());
        let (served, shortages) = (Log::new(), Log::new());
        let serving = serve(
            event_loop.handle(),
            listener.clone(),
            served.clone(),
            shortages.clone(),
        );
        let task = event_loop.create_task(serving);
        ticks_until(&event_loop, 100, || !shortages.take().is_empty());
        assert!(task.cancel());
        ticks_until(&event_loop, 5, || task.cancelled());
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(!event_loop.remove_reader(&listener));
        assert_sleeps(&event_loop);
        event_loop.call_later(PAUSE, stopper(&event_loop));
        event_loop.run_forever().unwrap();
        assert_eq!(served.take().len(), 1);
    });
}

// field: BR-49
#[test]
fn an_accept_that_failed_is_not_woken_by_the_clients_that_wait() {
    let name = "accepting::an_accept_that_failed_is_not_woken_by_the_clients_that_wait";
    in_own_process(name, || {
        let _watchdog = Watchdog::start();
        let event_loop = EventLoop::new().unwrap();
        let listener = listener();
        // The client comes before the accept, and after it.
        for waits in [true, false] {
            let address = listener.local_addr().unwrap();
            let client = ReadyToConnect::new(address);
            if waits {
                client.connect();
            }
            let limit = leave_descriptors(1, listener.get_ref());
            let last = listener.get_ref().as_fd().try_clone_to_owned().unwrap();
            let accepting = event_loop.sock_accept(&listener);
            tick(&event_loop);
            if !waits {
                client.connect();
            }
            let error = event_loop.run_until_complete(accepting.take()).unwrap_err();
            assert!(is_shortage(&error), "{error:?}");
            assert!(!event_loop.remove_reader(&listener));
            assert_sleeps(&event_loop);

            drop(last);
            setrlimit(Resource::Nofile, limit).unwrap();
            let accepting = event_loop.sock_accept(&listener);
            event_loop.run_until_complete(accepting.take()).unwrap();
        }
    });
}

/// A client whose socket is there already, so that connecting takes no descriptor.
struct ReadyToConnect {
    socket: socket2::Socket,
    address: SocketAddr,
}

impl ReadyToConnect {
    fn new(address: SocketAddr) -> Self {
        let (domain, stream) = (socket2::Domain::IPV4, socket2::Type::STREAM);
        let socket = socket2::Socket::new(domain, stream, None).unwrap();
        ReadyToConnect { socket, address }
    }

    fn connect(&self) {
        self.socket.connect(&self.address.into()).unwrap();
    }
}

// field: BR-49
#[test]
fn a_client_that_resets_before_it_is_let_in_does_not_end_the_accept_loop() {
    let _watchdog = Watchdog::start();
    let event_loop = EventLoop::new().unwrap();
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let (served, shortages) = (Log::new(), Log::new());
    let handle = event_loop.handle();
    let task = event_loop.create_task(serve(handle, listener, served.clone(), shortages));
    let mut clients = queue_up(address, 3);
    reset(clients.remove(1));
    let wanted = clients[1].local_addr().unwrap();
    let mut seen = Vec::new();
    ticks_until(&event_loop, 100, || {
        seen.extend(served.take());
        // The one that went has no peer any more.
        seen.iter()
            .any(|client| client.peer_addr().is_ok_and(|peer| peer == wanted))
    });
    assert!(!task.done());
}
