//! `sock_recv`, `sock_sendall`, `sock_connect`.

use miniloop::{Result, gather, get_running_loop};

use crate::common::{Show, Trace, listener, outcome, pair, pair_small, send, state, yields};

scenarios! {
    area: "sockets",
    calls: [],
    mains: [
        recv_waits_for_data,
        recv_at_the_end,
        send_more_than_fits,
        accept_several_clients,
        connect_refused,
        cancelled_recv_lets_go,
        send_to_a_closed_peer,
    ],
}

async fn recv_waits_for_data(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (a, b) = pair();
    let (handle, log) = (event_loop.clone(), trace.clone());
    let task = event_loop.create_task(async move {
        log.push(format!("got:{}", handle.sock_recv(&b, 3).await?.show()));
        log.push(format!("got:{}", handle.sock_recv(&b, 100).await?.show()));
        Ok(())
    });
    yields(2).await?;
    trace.push(state(&task));
    event_loop.sock_sendall(&a, b"abcdef").await?;
    task.await
}

async fn recv_at_the_end(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (a, b) = pair();
    send(&a, b"tail");
    drop(a);
    for _ in 0..3 {
        trace.push(event_loop.sock_recv(&b, 100).await?.show());
    }
    Ok(())
}

async fn send_more_than_fits(trace: Trace) -> Result<()> {
    fn checksum(data: &[u8]) -> u64 {
        data.iter().map(|byte| u64::from(*byte)).sum()
    }

    let event_loop = get_running_loop()?;
    let (a, b) = pair_small();
    let block: Vec<u8> = (0..1_u32 << 16).map(|i| (i * 7 % 251) as u8).collect();
    let data = block.repeat(48);
    let (size, sum) = (data.len(), checksum(&data));

    let handle = event_loop.clone();
    let task = event_loop.create_task(async move {
        let (mut total, mut check) = (0, 0);
        while total < size {
            let chunk = handle.sock_recv(&b, 65536).await?;
            assert!(!chunk.is_empty(), "the end, after {total} bytes");
            total += chunk.len();
            check += checksum(&chunk);
        }
        Ok((total, check))
    });
    event_loop.sock_sendall(&a, data).await?;
    trace.push("all-sent");
    let (total, check) = task.await?;
    trace.push(format!("total:{total}"));
    trace.push(format!("intact:{}", check == sum));
    Ok(())
}

async fn accept_several_clients(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let server = listener();
    let address = server.local_addr()?;
    let visits = ["a", "b", "c"].map(|name| {
        let handle = event_loop.clone();
        async move {
            let stream = handle.sock_connect(address).await?;
            handle.sock_sendall(&stream, name).await?;
            let reply = handle.sock_recv(&stream, 100).await?;
            Ok(reply.show())
        }
    });
    let serve = async move {
        for _ in 0..3 {
            let (client, _) = event_loop.sock_accept(&server).await?;
            let mut reply = b"hello ".to_vec();
            reply.extend(event_loop.sock_recv(&client, 100).await?);
            event_loop.sock_sendall(&client, reply).await?;
        }
        Ok(())
    };
    let ((), got) = gather((serve, gather(visits))).await?;
    trace.push(got.show());
    Ok(())
}

async fn connect_refused(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let server = listener();
    let address = server.local_addr()?;
    drop(server);
    let connected = async { event_loop.sock_connect(address).await.map(drop) };
    trace.push(outcome(connected).await);
    Ok(())
}

async fn cancelled_recv_lets_go(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (a, b) = pair();
    let task = event_loop.create_task(event_loop.sock_recv(&b, 100));
    yields(2).await?;
    task.cancel();
    trace.push(outcome(task).await);
    trace.push(format!("watched:{}", event_loop.remove_reader(&b)));
    send(&a, b"later");
    trace.push(event_loop.sock_recv(&b, 100).await?.show());
    Ok(())
}

async fn send_to_a_closed_peer(trace: Trace) -> Result<()> {
    let event_loop = get_running_loop()?;
    let (a, b) = pair();
    // A TCP pair, where there are no Unix ones, tells only of a reset.
    #[cfg(not(unix))]
    socket2::SockRef::from(&*b).set_linger(Some(std::time::Duration::ZERO))?;
    drop(b);
    trace.push(outcome(event_loop.sock_sendall(&a, b"anyone?")).await);
    Ok(())
}
