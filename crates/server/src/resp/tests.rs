//! How many connections one address may have. Who is on this machine may have any number, so that no other address is
//! seen on a socket of loopback: it is said here.

use entourage_store::SystemClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::{
    Connections,
    config::{Origin, Raw, Settings},
    wire,
};

async fn front(per_address: usize) -> Resp {
    let mut raw = Raw::default();
    raw.set("store.url", "memory:", Origin::Flag("--store")).unwrap();
    let wired = wire::wire(&Settings::check(&raw).unwrap()).await.unwrap();
    let connections = Connections { max: 100, per_address: Some(per_address) };
    let resp = RespLimits { connections, ..RespLimits::default() };
    let front = Front { resp, ..Front::development(Arc::new(SystemClock)) };
    Resp::new(wired.service, Arc::new(front))
}

/// The other end of a connection that comes from this address.
async fn connect(resp: &Resp, listener: &TcpListener, address: &str) -> TcpStream {
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    resp.begin(theirs, SocketAddr::new(address.parse().unwrap(), 1));
    ours
}

async fn is_served(stream: &mut TcpStream) -> bool {
    let _ = stream.write_all(b"PING\r\n").await;
    let mut said = [0; 64];
    let count = stream.read(&mut said).await.unwrap_or(0);
    match &said[..count] {
        b"+PONG\r\n" => true,
        b"-ERR max number of clients reached\r\n" => false,
        other => panic!("{}", other.escape_ascii()),
    }
}

#[tokio::test]
async fn one_address_has_so_many_connections_and_gets_them_back() {
    let resp = front(2).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut first = connect(&resp, &listener, "192.0.2.1").await;
    let mut second = connect(&resp, &listener, "::ffff:192.0.2.1").await;
    assert!(is_served(&mut first).await && is_served(&mut second).await);
    let mut third = connect(&resp, &listener, "192.0.2.1").await;
    let mut said = String::new();
    third.read_to_string(&mut said).await.unwrap();
    assert_eq!(said.as_bytes(), FULL, "and closed");
    assert!(is_served(&mut connect(&resp, &listener, "192.0.2.2").await).await, "another address");
    let mut here = Vec::new();
    for _ in 0..5 {
        here.push(connect(&resp, &listener, "127.0.0.1").await);
    }
    assert!(is_served(here.last_mut().unwrap()).await, "this machine");
    drop(first);
    let mut found = false;
    for _ in 0..500 {
        let mut next = connect(&resp, &listener, "192.0.2.1").await;
        if is_served(&mut next).await {
            found = true;
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    assert!(found, "a place that was left is there again");
    assert!(is_served(&mut second).await);
}
