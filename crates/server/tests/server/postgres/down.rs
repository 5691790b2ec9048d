//! A server whose PostgreSQL goes away and comes back: it refuses connections, or takes them and says nothing. Nothing is
//! answered that is not true, nobody waits beyond the deadline, and nothing has to be started again.

use crate::kit::{server, table};

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_service::{Limits, Rules};
use entourage_store::{Store, SystemClock};
use server::Server;
use table::Reply;

pub(super) const FORWARD: u8 = 0;
pub(super) const REFUSE: u8 = 1;
/// As a database that was stopped by a signal, or behind a network that swallows everything.
const HANG: u8 = 2;

const ASKING: usize = 12;
/// Ten seconds are the deadline; a loaded machine gets some more.
const DEADLINE: Duration = Duration::from_secs(14);

/// Between the server and its database.
pub(super) struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    pub(super) fn before(database: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, mode) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU8::new(FORWARD)));
        let seen = Arc::clone(&mode);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if seen.load(Ordering::SeqCst) == REFUSE {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&database) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let mode = Arc::clone(&seen);
                    std::thread::spawn(move || forward(from, to, &mode));
                }
            }
        });
        Self { port, mode }
    }

    pub(super) fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = [0; 16 * 1_024];
    loop {
        let read = from.read(&mut bytes);
        while mode.load(Ordering::SeqCst) == HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
        let is_over = match read {
            _ if mode.load(Ordering::SeqCst) == REFUSE => true,
            Ok(0) => true,
            Ok(count) => to.write_all(&bytes[..count]).is_err(),
            Err(error) => ![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()),
        };
        if is_over {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// The URL of PostgreSQL, and that of the same behind a proxy.
pub(super) fn proxied() -> (Proxy, String, String) {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let (login, rest) = url.split_once('@').unwrap();
    let (address, database) = rest.split_once('/').unwrap();
    let proxy = Proxy::before(address.to_owned());
    let behind = format!("{login}@127.0.0.1:{}/{database}", proxy.port);
    (proxy, url, behind)
}

fn served() -> (Proxy, Arc<dyn Store>, Server) {
    let (proxy, _, url) = proxied();
    let schema = format!("test_{:016x}", rand::random::<u64>());
    // The pool's own tasks end with the runtime that made them, so it stays.
    let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new().unwrap()));
    let store = runtime.block_on(postgres::Store::connect(&url, &schema, Options::default(), Arc::new(SystemClock)));
    let store: Arc<dyn Store> = Arc::new(store.expect("the store opens"));
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let server = Server::with(Arc::clone(&store), rules);
    (proxy, store, server)
}

fn follow(server: &Server, number: usize) -> Reply {
    server.ask(&format!("@{number} ^idempotency-key=k{number} POST /users/star/follow"))
}

/// Everybody at once; each is told that it is the store, and when to ask again.
fn is_told_unavailable(server: &Server, first: usize, how: &str) {
    let reads = ["GET /users/star", "GET /users/star/followers", "GET /users/0/is-following/star", "GET /events"];
    std::thread::scope(|scope| {
        let writes = (first..first + ASKING).map(|number| {
            scope.spawn(move || {
                let started = Instant::now();
                (format!("follow {number}"), follow(server, number), started.elapsed())
            })
        });
        let reads = reads.iter().map(|request| {
            scope.spawn(move || {
                let started = Instant::now();
                ((*request).to_owned(), server.ask(request), started.elapsed())
            })
        });
        let asked: Vec<_> = writes.chain(reads).collect();
        for asking in asked {
            let (request, reply, waited) = asking.join().unwrap();
            assert_eq!(
                (reply.status, &reply.body["code"]),
                (503, &"unavailable".into()),
                "{how}: {request} {}",
                reply.text
            );
            assert_eq!(reply.header("retry-after"), "1", "{how}: {request}");
            assert!(waited < DEADLINE, "{how}: {request} waited {waited:?}");
        }
    });
    assert_eq!(server.ask("GET //healthz").status, 200, "{how}: the server itself is well");
    assert_eq!(server.ask("GET //readyz").status, 503, "{how}");
}

#[test]
fn a_database_that_goes_away_is_said_to_and_comes_back_without_a_restart() {
    let (proxy, store, server) = served();
    server.check("PUT /users/star", "201");
    let people = 3 * ASKING;
    for number in 0..people {
        server.check(&format!("PUT /users/{number}"), "201");
    }
    assert_eq!(follow(&server, 0).status, 201);
    for (mode, how, first) in [(REFUSE, "refused", ASKING), (HANG, "silent", 2 * ASKING)] {
        proxy.set(mode);
        let started = Instant::now();
        is_told_unavailable(&server, first, how);
        println!("{how}: told within {:?}", started.elapsed());
        proxy.set(FORWARD);
        let back = Instant::now();
        while server.ask("GET /users/star").status != 200 {
            assert!(back.elapsed() < Duration::from_secs(30), "{how}: it does not come back");
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{how}: back after {:?}", back.elapsed());
        // Whoever asks again with the same key has what they wanted, once.
        for number in first..first + ASKING {
            let mut reply = follow(&server, number);
            while reply.status == 503 || reply.body["code"] == "request_in_progress" {
                assert!(back.elapsed() < Duration::from_secs(30), "{how}: {}", reply.text);
                std::thread::sleep(Duration::from_millis(100));
                reply = follow(&server, number);
            }
            assert_eq!(reply.status, 201, "{how}: {}", reply.text);
        }
    }
    let total = 1 + 2 * ASKING;
    let followers = server.check("GET /users/star/followers?limit=200", &format!(r#"200 {{"total": {total}}}"#));
    assert_eq!(followers.ids().len(), total);
    let events = server.check("GET /events?limit=200", "200").body;
    let follows = events["data"].as_array().unwrap().iter().filter(|event| event["type"] == "follow.created");
    assert_eq!(follows.count(), total, "one event for each follow");
    assert_eq!(server.ask("GET //readyz").status, 200);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert!(runtime.block_on(store.verify()).unwrap().is_clean());
}
