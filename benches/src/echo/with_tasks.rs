//! The echo servers with a task for each connection.

use std::net::TcpListener;

use super::BUFFER;
use crate::Outcome;

pub fn miniloop(listener: TcpListener) -> Outcome<()> {
    use miniloop::{EventLoop, LoopHandle, Source};
    use std::net::TcpStream;

    async fn echo(event_loop: LoopHandle, stream: Source<TcpStream>) -> miniloop::Result<()> {
        stream.set_nodelay(true)?;
        // One that goes without a goodbye is no failure.
        while let Ok(data) = event_loop.sock_recv(&stream, BUFFER).await
            && !data.is_empty()
            && event_loop.sock_sendall(&stream, data).await.is_ok()
        {}
        Ok(())
    }
    async fn serve(event_loop: LoopHandle, listener: Source<TcpListener>) -> miniloop::Result<()> {
        loop {
            let (stream, _) = event_loop.sock_accept(&listener).await?;
            event_loop.create_task(echo(event_loop.clone(), stream));
        }
    }
    let event_loop = EventLoop::new()?;
    let listener = Source::new(listener)?;
    Ok(event_loop.run_until_complete(serve(event_loop.handle(), listener))?)
}

pub fn tokio(listener: TcpListener) -> Outcome<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let received = stream.read(&mut buffer).await?;
            if received == 0 {
                return Ok(());
            }
            stream.write_all(&buffer[..received]).await?;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(echo(stream));
            }
        });
        let ended: std::io::Result<()> = accepting.await?;
        Ok(ended?)
    })
}

pub fn smol(listener: TcpListener) -> Outcome<()> {
    use smol::io::{AsyncReadExt, AsyncWriteExt};
    use smol::net::{TcpListener, TcpStream};

    async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let received = stream.read(&mut buffer).await?;
            if received == 0 {
                return Ok(());
            }
            stream.write_all(&buffer[..received]).await?;
        }
    }
    let executor = smol::LocalExecutor::new();
    let listener = TcpListener::try_from(listener)?;
    smol::block_on(executor.run(async {
        loop {
            let (stream, _) = listener.accept().await?;
            executor.spawn(echo(stream)).detach();
        }
    }))
}

pub fn monoio(listener: TcpListener) -> Outcome<()> {
    use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
    use monoio::net::{TcpListener, TcpStream};

    async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::with_capacity(BUFFER);
        loop {
            let (received, data) = stream.read(buffer).await;
            if received? == 0 {
                return Ok(());
            }
            let (sent, data) = stream.write_all(data).await;
            sent?;
            buffer = data;
            buffer.clear();
        }
    }
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new()
        .enable_timer()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            monoio::spawn(echo(stream));
        }
    })
}
