//! The echo server and its clients as tasks of one loop, in one thread.

use std::cell::Cell;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;

use miniloop::{EventLoop, LoopHandle, Result, Source};

use super::common::listener;

/// How many clients are with the server now.
type Present = Rc<Cell<u32>>;

async fn handle_client(event_loop: LoopHandle, client: Source<TcpStream>) -> Result<()> {
    loop {
        let data = event_loop.sock_recv(&client, 4096).await?;
        if data.is_empty() {
            return Ok(());
        }
        event_loop.sock_sendall(&client, data).await?;
    }
}

async fn serve(event_loop: LoopHandle, server: Source<TcpListener>, present: Present) -> Result<()> {
    loop {
        let (client, _) = event_loop.sock_accept(&server).await?;
        present.set(present.get() + 1);
        let (present, echo) = (present.clone(), handle_client(event_loop.clone(), client));
        event_loop.create_task(async move {
            let outcome = echo.await;
            present.set(present.get() - 1);
            outcome
        });
    }
}

/// Runs `clients` beside a server, which is given up when they are done.
fn with_server<C>(clients: impl FnOnce(LoopHandle, SocketAddr, Present) -> C)
where
    C: Future<Output = Result<()>> + 'static,
{
    let event_loop = EventLoop::new().expect("an event loop");
    let listener = listener();
    let address = listener.local_addr().expect("its address");
    let present = Present::default();
    let server = event_loop.create_task(serve(event_loop.handle(), listener, present.clone()));
    let clients = event_loop.create_task(clients(event_loop.handle(), address, present));
    event_loop
        .run_until_complete(clients)
        .expect("the clients are served");
    server.cancel();
    let given_up = event_loop.run_until_complete(server);
    assert!(given_up.expect_err("it never ends by itself").is_cancelled());
}

/// Receives until all of an answer of this length is there.
async fn answer(event_loop: &LoopHandle, client: &Source<TcpStream>, length: usize) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    while answer.len() < length {
        let data = event_loop.sock_recv(client, length - answer.len()).await?;
        assert!(!data.is_empty(), "the server closed the connection");
        answer.extend(data);
    }
    Ok(answer)
}

// brief: EC-1
#[test]
fn one_thread_serves_several_clients_at_once() {
    with_server(async |event_loop, address, present| {
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(event_loop.sock_connect(address).await?);
        }
        for round in ["one", "two", "three"] {
            for (number, client) in clients.iter().enumerate() {
                event_loop
                    .sock_sendall(client, format!("{round} {number}"))
                    .await?;
            }
            for (number, client) in clients.iter().enumerate() {
                let expected = format!("{round} {number}");
                let answer = answer(&event_loop, client, expected.len()).await?;
                assert_eq!(answer, expected.as_bytes());
            }
        }
        assert_eq!(present.get(), 5);
        Ok(())
    });
}

// brief: EC-2
#[test]
fn client_that_is_silent_does_not_hold_up_another() {
    with_server(async |event_loop, address, present| {
        let silent = event_loop.sock_connect(address).await?;
        let talking = event_loop.sock_connect(address).await?;
        for _ in 0..3 {
            event_loop.sock_sendall(&talking, "hello").await?;
            assert_eq!(answer(&event_loop, &talking, 5).await?, b"hello");
        }
        assert_eq!(present.get(), 2); // the silent one is let in, too, and waits at its receive
        event_loop.sock_sendall(&silent, "at last").await?;
        assert_eq!(answer(&event_loop, &silent, 7).await?, b"at last");
        Ok(())
    });
}

// brief: EC-3
#[test]
fn end_of_what_a_client_sends_closes_it() {
    with_server(async |event_loop, address, present| {
        let client = event_loop.sock_connect(address).await?;
        event_loop.sock_sendall(&client, "goodbye").await?;
        client.shutdown(Shutdown::Write)?;
        assert_eq!(answer(&event_loop, &client, 7).await?, b"goodbye");
        assert_eq!(event_loop.sock_recv(&client, 100).await?, b"");
        assert_eq!(present.get(), 0);
        Ok(())
    });
}
