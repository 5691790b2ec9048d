//! Ten thousand connections that say nothing. Both ends are files of this process, so that it must be able to open twice
//! as many; where that is not granted there are as many as fit.

use std::{
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Connections, Front, RespLimits};
use entourage_service::Rules;
use entourage_store::SystemClock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    server::{Server, memory_store},
    wire::{Wire, encoded},
};

const IDLE: usize = 10_000;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Raises the limit as far as this process may.
fn files_to_open() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map(|files| files.max(2 * IDLE as u64 + 1_000));
    if setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: wanted }).is_err() {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize)
}

fn slowest_of(wire: &mut Wire, count: usize) -> Duration {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let began = Instant::now();
            wire.check("SISMEMBER following:1 2", "0");
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[count * 99 / 100]
}

#[test]
fn ten_thousand_idle_connections_leave_memory_flat_and_others_served() {
    let idle_count = IDLE.min((files_to_open() - 1_000) / 2);
    let connections = Connections { max: IDLE + 1_000, per_address: None };
    let front = Front {
        resp: RespLimits { connections, ..RespLimits::default() },
        ..Front::development(Arc::new(SystemClock))
    };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let mut busy = Wire::connect(server.resp);
    busy.check("PING", "PONG");
    let alone = slowest_of(&mut busy, 2_000);
    let before = resident_bytes();
    let mut idle: Vec<TcpStream> = Vec::with_capacity(idle_count);
    for number in 0..idle_count {
        let stream = TcpStream::connect(server.resp).unwrap_or_else(|error| panic!("{number}: {error}"));
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        idle.push(stream);
        // Each has been busy once, and keeps nothing of it.
        if number % 100 == 99 {
            for stream in &mut idle[number - 99..] {
                std::io::Write::write_all(stream, &encoded(&["SMISMEMBER", "following:1", "2", "3"]).repeat(50))
                    .unwrap();
            }
            for stream in &mut idle[number - 99..] {
                std::io::Read::read_exact(stream, &mut [0; 12 * 50]).unwrap();
            }
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    let crowded = slowest_of(&mut busy, 2_000);
    println!("{} bytes a connection; p99 {alone:?} alone, {crowded:?} among {idle_count}", grown / idle_count as u64);
    // Other tests run beside this one in the same process.
    assert!(grown < 6 * 1_024 * idle_count as u64 + (32 << 20), "{grown} bytes");
    assert!(crowded < alone * 10 + Duration::from_millis(20), "{crowded:?}, alone {alone:?}");
    drop(idle);
    busy.check("PING", "PONG");
}
