//! More connections than there may be.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use entourage_server::{Connections, Front};
use entourage_service::Rules;
use entourage_store::SystemClock;

use super::server::{Server, memory_store};

#[test]
fn past_the_bound_connections_wait_and_are_served_when_there_is_room() {
    let connections = Connections { max: 2, per_address: None };
    let front = Front { connections, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let ask = |stream: &mut TcpStream| {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    };
    let mut held = [(); 2].map(|()| TcpStream::connect(server.address).unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let mut waiting = TcpStream::connect(server.address).unwrap();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(waiting.read(&mut [0; 1]).is_err(), "one more than the bound was served");
    ask(&mut held[0]);
    waiting.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut reply = String::new();
    waiting.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}
