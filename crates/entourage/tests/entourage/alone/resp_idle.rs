//! Ten thousand connections that say nothing, on a server that is a process of its own.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::resp_kit::{Wire, encoded, need_files, p99, resident_bytes};
use crate::server_kit::{Folder, Serving, command, text};

const IDLE: usize = 10_000;

fn serving(folder: &Folder, name: &str) -> Serving {
    let data = folder.join(name);
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    Serving::start_as(command.env("ENTOURAGE_RESP__CONNECTIONS_MAX", (IDLE + 100).to_string()))
}

#[test]
fn ten_thousand_idle_connections_leave_memory_flat_and_others_served() {
    // Each process has one end.
    need_files(IDLE as u64 + 500);
    let folder = Folder::new();
    let (alone, crowded) = (serving(&folder, "alone"), serving(&folder, "crowded"));
    let (mut free, mut busy) = (Wire::connect(&alone.resp), Wire::connect(&crowded.resp));
    for _ in 0..500 {
        free.timed_check();
        busy.timed_check();
    }
    let before = resident_bytes(crowded.id());
    let mut idle: Vec<TcpStream> = Vec::with_capacity(IDLE);
    let asked = encoded("SMISMEMBER following:1 2 3").repeat(50);
    while idle.len() < IDLE {
        let first = idle.len();
        for number in first..first + 100 {
            let stream = TcpStream::connect(&crowded.resp).unwrap_or_else(|error| panic!("{number}: {error}"));
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            idle.push(stream);
        }
        // Each has been busy once, and keeps nothing of it.
        idle[first..].iter_mut().for_each(|stream| stream.write_all(&asked).unwrap());
        idle[first..].iter_mut().for_each(|stream| stream.read_exact(&mut [0; 12 * 50]).unwrap());
    }
    assert_eq!(busy.connected(), IDLE + 1);
    let grown = resident_bytes(crowded.id()).saturating_sub(before);
    // In turn, so that whatever else this machine does is done to both.
    let (mut times_alone, mut times_crowded) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        times_alone.extend((0..100).map(|_| free.timed_check()));
        times_crowded.extend((0..100).map(|_| busy.timed_check()));
    }
    let (p99_alone, p99_crowded) = (p99(&mut times_alone), p99(&mut times_crowded));
    println!("{} bytes a connection; p99 {p99_alone:?} alone, {p99_crowded:?} among {IDLE}", grown / IDLE as u64);
    assert!(grown < 6 * 1_024 * IDLE as u64 + (8 << 20), "{grown} bytes");
    assert!(p99_crowded < 3 * p99_alone + Duration::from_millis(5), "{p99_crowded:?}, alone {p99_alone:?}");
    drop(idle);
    busy.wait_until_alone();
}
