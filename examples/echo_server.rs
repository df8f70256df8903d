//! The echo server: every client gets back what it sends, and one thread serves them all.
//!
//! `cargo run --example echo_server [-- ADDRESS]`, by default on 127.0.0.1:8888; port 0 takes a free one.
//! Try it with `printf hello | nc -N 127.0.0.1 8888`.

mod support;

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use miniloop::{EventLoop, LoopHandle, Source};

async fn handle_client(event_loop: LoopHandle, client: Source<TcpStream>) -> miniloop::Result<()> {
    client.set_nodelay(true)?; // no answer waits for the one before to be acknowledged
    loop {
        let data = event_loop.sock_recv(&client, 65536).await?;
        if data.is_empty() {
            return Ok(()); // the client has no more to say; dropping its socket closes it
        }
        event_loop.sock_sendall(&client, data).await?;
    }
}

async fn serve(event_loop: LoopHandle, server: Source<TcpListener>) -> miniloop::Result<()> {
    loop {
        match event_loop.sock_accept(&server).await {
            Ok((client, address)) => {
                let echo = handle_client(event_loop.clone(), client);
                event_loop.create_task(async move {
                    if let Err(error) = echo.await {
                        log::debug!("{address}: {error}"); // gone without a goodbye: its own affair
                    }
                    Ok(())
                });
            }
            Err(error) => {
                // Most likely out of file descriptors. The client still waits, so to try again at
                // once would only spin.
                log::warn!("cannot accept a client, next try in a second: {error}");
                event_loop.sleep(Duration::from_secs(1)).await?;
            }
        }
    }
}

fn main() -> miniloop::Result<()> {
    let event_loop = EventLoop::new()?;
    let server = Source::new(support::listen("echo_server"))?;
    event_loop.run_until_complete(serve(event_loop.handle(), server))
}
