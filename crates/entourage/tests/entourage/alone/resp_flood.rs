//! Bytes that make no sense, over many connections, again and again; and pipelines without an end. The server's memory
//! stays as it is, and whoever asks for something meanwhile is answered.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::resp_kit::{Wire, encoded, p99, resident_bytes};
use crate::server_kit::{Folder, Serving};

const ROUNDS: usize = 10;
/// After so many rounds every buffer has been used once.
const WARM_ROUNDS: usize = 2;

/// What is done to one connection after bytes were sent.
#[derive(Clone, Copy)]
enum Then {
    /// It is told what is wrong, and ended.
    Refused,
    /// The client says that it has said everything, in the middle of a command.
    HalfClosed,
    /// The client takes no answer, and goes.
    Unread,
}

struct Flood {
    name: &'static str,
    bytes: Vec<u8>,
    connections: usize,
    then: Then,
}

fn floods() -> Vec<Flood> {
    let flood = |name, bytes: &[u8], connections, then| Flood { name, bytes: bytes.to_vec(), connections, then };
    vec![
        flood("negative counts", &b"*-5\r\n".repeat(200_000), 20, Then::HalfClosed),
        flood("a huge count", b"*2147483647\r\n", 100, Then::Refused),
        flood("a huge length", b"*1\r\n$999999999\r\n", 100, Then::Refused),
        flood("a negative length", b"*1\r\n$-1\r\n", 100, Then::Refused),
        flood("a line of a MiB", &vec![b'x'; 1 << 20], 20, Then::Refused),
        flood("a MiB of NUL", &vec![0; 1 << 20], 20, Then::Refused),
        flood("NUL for a length", b"*2\r\n$4\r\nECHO\r\n\0\r\n", 100, Then::Refused),
        flood("a word too long", &[b"*1\r\n$16\r\n".as_slice(), &[b'x'; 64]].concat(), 100, Then::Refused),
        flood("half a command", b"*2\r\n$4\r\nECHO\r\n$10000\r\nabc", 100, Then::HalfClosed),
        flood("half a count", b"*2", 100, Then::HalfClosed),
        flood("no reader", &encoded("EG.HELP").repeat(500), 50, Then::Unread),
    ]
}

impl Flood {
    fn run(&self, address: &str) {
        let connect = |_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
            stream
        };
        let mut streams: Vec<TcpStream> = (0..self.connections).map(connect).collect();
        for stream in &mut streams {
            // Whoever is ended early, or is not listened to, sends no more.
            let _ = stream.write_all(&self.bytes);
        }
        for mut stream in streams {
            let mut said = Vec::new();
            match self.then {
                Then::Unread => continue,
                Then::HalfClosed => stream.shutdown(Shutdown::Write).unwrap(),
                Then::Refused => {}
            }
            let _ = stream.read_to_end(&mut said);
            let said = String::from_utf8_lossy(&said);
            match self.then {
                Then::Refused => assert!(said.starts_with("-ERR Protocol error: "), "{}: {said}", self.name),
                _ => assert_eq!(said, "", "{}", self.name),
            }
        }
    }
}

/// Asks all the time; how long that took, and the most that the server had in memory.
fn watch(server: &Serving, over: &AtomicBool) -> (Vec<Duration>, u64) {
    let mut wire = Wire::connect(&server.resp);
    let (mut times, mut most) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        times.push(wire.timed_check());
        most = most.max(resident_bytes(server.id()));
        thread::sleep(Duration::from_micros(500));
    }
    (times, most)
}

#[test]
fn floods_of_nonsense_leave_memory_flat_and_others_served() {
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let floods = floods();
    let mut wire = Wire::connect(&server.resp);
    let (mut before, over) = (0, AtomicBool::new(false));
    let (mut times, most) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&server, &over));
        for round in 0..ROUNDS {
            if round == WARM_ROUNDS {
                before = resident_bytes(server.id());
            }
            floods.iter().for_each(|flood| flood.run(&server.resp));
        }
        over.store(true, Ordering::Relaxed);
        watching.join().unwrap()
    });
    wire.wait_until_alone();
    let after = resident_bytes(server.id());
    let connections: usize = floods.iter().map(|flood| flood.connections).sum();
    let late = p99(&mut times);
    println!(
        "{} connections of nonsense: {} KiB before, {} KiB after, {} KiB at most; others' p99 {late:?}, {:?} at most",
        connections * ROUNDS,
        before >> 10,
        after >> 10,
        most >> 10,
        times.last().unwrap(),
    );
    assert!(after < before + (8 << 20), "{before} bytes before, {after} after");
    assert!(most < before + (64 << 20), "{before} bytes before, {most} at most");
    assert!(times.len() > 500 && late < Duration::from_millis(200), "{} answers, p99 {late:?}", times.len());
}

#[test]
fn a_pipeline_of_any_depth_is_answered_in_order_within_bounded_memory() {
    const COMMANDS: usize = 100_000;
    let folder = Folder::new();
    let server = Serving::start(&folder.join("data"));
    let mut wire = Wire::connect(&server.resp);
    let check = |wire: &mut Wire| {
        let mut writer = wire.stream().try_clone().unwrap();
        let (mut out_of_order, mut most) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(move || {
                let input: Vec<u8> = (0..COMMANDS)
                    .flat_map(|number| match number % 4 {
                        0 => encoded("SISMEMBER following:1 2"),
                        _ => encoded(&format!("ECHO {number}")),
                    })
                    .collect();
                writer.write_all(&input).unwrap();
            });
            for number in 0..COMMANDS {
                let expected = if number % 4 == 0 { ":0".to_owned() } else { number.to_string() };
                out_of_order += usize::from(wire.reply().unwrap() != expected);
                if number % 1_000 == 0 {
                    most = most.max(resident_bytes(server.id()));
                    // A reader that lags: replies pile up.
                    thread::sleep(Duration::from_millis(2));
                }
            }
        });
        assert_eq!(out_of_order, 0);
        most
    };
    check(&mut wire);
    let before = resident_bytes(server.id());
    let most = check(&mut wire);
    println!("{} KiB before, {} KiB at most", before >> 10, most >> 10);
    assert!(most < before + (8 << 20), "{before} bytes before, {most} at most");
}
