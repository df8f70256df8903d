//! Sources that the selector or the loop refuses.

use miniloop::{EventLoop, RuntimeError};

use crate::common::{Trace, listener, pair, send};
use crate::support::{io_misuse, misuse, nothing_is_left, settle, still_works, tick};

// poll(2) accepts a regular file, which is always ready there
#[cfg(all(target_os = "linux", not(polling_test_poll_backend)))]
mod regular_files {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};

    use miniloop::{EventLoop, Source};

    use crate::support::{Drops, io_error_kind, nothing_is_left, still_works};

    /// What epoll answers to a regular file.
    const EPERM: i32 = 1;

    /// The program itself: a regular file that is there for certain.
    fn regular_file() -> File {
        File::open(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn add_reader_and_add_writer_give_the_systems_error() {
        let event_loop = EventLoop::new().unwrap();
        let file = Source::new(regular_file()).unwrap();
        let drops = Drops::default();
        let (first, second) = (drops.counted(), drops.counted());
        let reader = move || {
            let _captured = &first;
        };
        let writer = move || {
            let _captured = &second;
        };
        let error = event_loop.add_reader(&file, reader).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EPERM));
        let error = event_loop.add_writer(&file, writer).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EPERM));
        assert_eq!(drops.count(), 2, "what was refused is not kept");
        assert!(!event_loop.remove_reader(&file));
        assert!(!event_loop.remove_writer(&file));
        nothing_is_left(&event_loop);
        still_works(&event_loop);
    }

    /// Not some of the data first, and the error in the middle of it.
    #[test]
    fn the_very_first_operation_on_what_can_not_be_watched_gives_the_systems_error() {
        let null = File::options().read(true).write(true).open("/dev/null");
        for file in [regular_file(), null.unwrap()] {
            let event_loop = EventLoop::new().unwrap();
            let file = Source::new(file).unwrap();
            let received = event_loop.run_until_complete(event_loop.sock_recv(&file, 10));
            assert_eq!(io_error_kind(received), io::ErrorKind::PermissionDenied);
            let sent = event_loop.run_until_complete(event_loop.sock_sendall(&file, "x"));
            assert_eq!(io_error_kind(sent), io::ErrorKind::PermissionDenied);
            nothing_is_left(&event_loop);
            still_works(&event_loop);
        }
    }

    /// A regular file that pretends to have nothing to read and no room to write, so
    /// that the loop has to wait for it.
    struct Stubborn(File);

    impl AsFd for Stubborn {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Read for &Stubborn {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    impl Write for &Stubborn {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn operations_give_the_systems_error_as_their_exception() {
        let event_loop = EventLoop::new().unwrap();
        let file = Source::new(Stubborn(regular_file())).unwrap();
        let received = event_loop.run_until_complete(event_loop.sock_recv(&file, 10));
        assert_eq!(io_error_kind(received), io::ErrorKind::PermissionDenied);
        let sent = event_loop.run_until_complete(event_loop.sock_sendall(&file, "x"));
        assert_eq!(io_error_kind(sent), io::ErrorKind::PermissionDenied);
        nothing_is_left(&event_loop);
        assert!(file.into_inner().is_ok());
        still_works(&event_loop);
    }
}

#[test]
fn a_source_in_use_with_one_loop_is_refused_by_another() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let (left, right) = pair();
    let events = Trace::new();
    first.add_reader(&left, events.mark("reader")).unwrap();
    assert_eq!(
        io_misuse(second.add_reader(&left, || {})),
        RuntimeError::OtherLoop
    );
    assert_eq!(
        io_misuse(second.add_writer(&left, || {})),
        RuntimeError::OtherLoop
    );
    assert!(!second.remove_reader(&left));
    send(&right, b"x");
    first.run_once().unwrap();
    assert_eq!(events.lines(), ["reader"], "the first loop was not disturbed");
    still_works(&second);
    assert!(first.remove_reader(&left));
    still_works(&first);
}

#[test]
fn an_operation_on_a_source_in_use_with_another_loop_raises() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let (left, right) = pair();
    let received = first.sock_recv(&left, 10);
    tick(&first);
    let refused = second.run_until_complete(second.sock_recv(&left, 10));
    assert_eq!(misuse(refused), RuntimeError::OtherLoop);
    nothing_is_left(&second);
    still_works(&second);
    send(&right, b"x");
    assert_eq!(first.run_until_complete(received).unwrap(), b"x");
    still_works(&first);
}

#[test]
fn accepting_on_a_listener_of_another_loop_raises() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let server = listener();
    let _accepted = first.sock_accept(&server);
    tick(&first);
    let refused = second.run_until_complete(second.sock_accept(&server).take());
    assert_eq!(misuse(refused), RuntimeError::OtherLoop);
    still_works(&second);
}

#[test]
fn a_source_the_first_loop_is_done_with_may_move_to_another() {
    let (first, second) = (EventLoop::new().unwrap(), EventLoop::new().unwrap());
    let (left, right) = pair();
    for event_loop in [&first, &second, &first] {
        let received = event_loop.sock_recv(&left, 10);
        tick(event_loop);
        send(&right, b"x");
        assert_eq!(event_loop.run_until_complete(received).unwrap(), b"x");
    }
    let events = Trace::new();
    first.add_reader(&left, events.mark("first")).unwrap();
    assert!(first.remove_reader(&left));
    second.add_reader(&left, events.mark("second")).unwrap();
    send(&right, b"x");
    settle(&first);
    assert!(events.lines().is_empty());
    second.run_once().unwrap();
    assert_eq!(events.lines(), ["second"]);
}
