//! Checks from the socket and back to it, in a process without other tests: whatever is allocated meanwhile is counted.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

// A global allocator is that of a whole binary: this suite has one of its own.
#[path = "server/kit/server.rs"]
#[allow(dead_code, reason = "other suites need more of it")]
mod server;
#[path = "server/kit/wire.rs"]
#[allow(dead_code, reason = "other suites need more of it")]
mod wire;

use std::{alloc::System, io::Read, sync::Arc};

use entourage_embedded as embedded;
use entourage_model::Key;
use entourage_service::Rules;
use entourage_store::{
    Store, SystemClock,
    layers::cached::{self, Options, Surroundings},
};
use entourage_testkit::{
    conformance::hooked::{Hooked, Hooks},
    crash_disk::CrashDisk,
};
use server::{Server, memory_store};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::{Wire, encoded, words};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const USERS: usize = 60;
const AT_ONCE: usize = 100;
const WINDOW: usize = 100;
const WINDOWS: usize = 20;
/// How long each pipeline took is kept in blocks of 64, and timers tick meanwhile: not in every window. One for each
/// pipeline would be 100.
const ALLOCATIONS_MAX: usize = WINDOW / 4;

/// Knows nothing of ids without being read.
struct Forgetful;

impl Hooks for Forgetful {
    fn peek_id(&self, _: &dyn Store, _: Key, _: &[u8]) -> bool {
        false
    }
}

fn id(number: usize) -> String {
    // Numbers are keys themselves, names are hashed.
    if number.is_multiple_of(2) { number.to_string() } else { format!("user-{number}") }
}

/// Everybody follows every third of the others.
fn fill(wire: &mut Wire) {
    for follower in 0..USERS {
        let targets = (0..USERS).filter(|target| *target != follower && target.is_multiple_of(3));
        let targets: Vec<String> = targets.map(id).collect();
        wire.check(&format!("SADD following:{} {}", id(follower), targets.join(" ")), &targets.len().to_string());
    }
}

fn pairs() -> impl Iterator<Item = (String, String)> {
    (0..AT_ONCE).map(|number| (id(number * 7 % USERS), id(number * 11 % USERS)))
}

/// Pipelines of every kind of command that checks.
fn pipelines() -> [(&'static str, Vec<String>); 5] {
    let one = |make: fn(&str, &str) -> String| pairs().map(|(follower, target)| make(&follower, &target)).collect();
    let all = (0..50).map(id).collect::<Vec<_>>().join(" ");
    [
        ("SISMEMBER following", one(|follower, target| format!("SISMEMBER following:{follower} {target}"))),
        ("SISMEMBER followers", one(|follower, target| format!("SISMEMBER followers:{target} {follower}"))),
        ("SMISMEMBER", (0..16).map(|number| format!("SMISMEMBER following:{} {all}", id(number))).collect()),
        ("GET", one(|follower, target| format!("GET is_following:{follower}:{target}"))),
        ("MGET", vec![format!("MGET {}", one(|a, b| format!("is_following:{a}:{b}")).join(" "))]),
    ]
}

fn count(store: Arc<dyn Store>, of: &str) {
    let server = Server::with(store, Rules { auto_create: true, ..Rules::default() });
    let mut wire = Wire::connect(server.resp);
    fill(&mut wire);
    for (name, lines) in pipelines() {
        let input: Vec<u8> = lines.iter().flat_map(|line| encoded(&words(line))).collect();
        // Once for the answers themselves; they are as long each time.
        wire.send(&input);
        let expected: Vec<String> = lines.iter().map(|_| wire.reply().unwrap()).collect();
        assert!(expected.concat().contains('0') && expected.concat().contains('1'), "{name}: {expected:?}");
        let mut reply = vec![0; bytes_of(&mut wire, &input)];
        let mut round = || {
            wire.send(&input);
            wire.stream.read_exact(&mut reply).unwrap();
        };
        // Buffers grow to what they need, and a cache learns.
        (0..WINDOW).for_each(|_| round());
        let windows = (0..WINDOWS).map(|_| {
            let region = Region::new(ALLOCATOR);
            (0..WINDOW).for_each(|_| round());
            let change = region.change();
            change.allocations + change.reallocations
        });
        let fewest = windows.min().unwrap();
        println!("{of}: {name}: {fewest} allocations in {WINDOW} pipelines of {}", lines.len());
        assert!(fewest <= ALLOCATIONS_MAX, "{of}: {name}: {fewest}");
    }
}

/// How many bytes answer this.
fn bytes_of(wire: &mut Wire, input: &[u8]) -> usize {
    let end = b"$3\r\nend\r\n";
    wire.send(input);
    wire.send(&encoded(&["ECHO", "end"]));
    let mut bytes = Vec::new();
    while !bytes.ends_with(end) {
        let mut some = [0; 4_096];
        let length = wire.stream.read(&mut some).unwrap();
        assert_ne!(length, 0);
        bytes.extend_from_slice(&some[..length]);
    }
    bytes.len() - end.len()
}

/// One after the other: they are counted together.
#[test]
fn checks_are_answered_without_allocating() {
    let disk = Arc::new(CrashDisk::new());
    let options = embedded::Options::default();
    let embedded = embedded::Store::open(disk, "the test disk", options, Arc::new(SystemClock)).unwrap();
    count(Arc::new(embedded), "embedded");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = Arc::new(Hooked::new(memory_store(1), Forgetful));
    let cached = cached::Store::open(store, Options::default(), Surroundings::default());
    count(Arc::new(runtime.block_on(cached)), "cached");
}
