//! Very many connections, and those that take their time.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Connections, Front};
use entourage_service::Rules;
use entourage_store::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::server::{Server, memory_store};

const IDLE: usize = 5_000;

/// Bytes this process holds in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

#[test]
fn five_thousand_idle_connections_leave_memory_flat_and_others_served() {
    // Both ends of each connection are files of this process.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let server = Server::start();
    server.check("PUT /users/a", "201");
    let before = resident_bytes();
    let mut idle: Vec<TcpStream> = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let mut stream = TcpStream::connect(server.address).unwrap_or_else(|error| panic!("{number}: {error}"));
        // Half of them begin a request.
        if number % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").unwrap();
        }
        idle.push(stream);
    }
    let started = Instant::now();
    server.check("GET /users/a", "200");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let grown = resident_bytes().saturating_sub(before);
    // Tests run beside this one in the same process; each of these connections may hold 32 KiB, and no more.
    assert!(grown < 32 * 1_024 * IDLE as u64 + (64 << 20), "{grown} bytes");
    // All of them are dropped after their time, without being asked to.
    for stream in &mut idle {
        stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    server.check("GET /users/a", "200");
}

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
