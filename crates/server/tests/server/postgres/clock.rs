//! A server whose clock is not the database's says so, takes no writes, and is right again by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Clock, Millis};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_server::Front;
use entourage_service::{Limits, Rules};
use entourage_store::{Store, SystemClock};

use crate::kit::server::Server;

const MINUTE: i64 = 60_000;

#[derive(Default)]
struct OffClock(AtomicI64);

impl Clock for OffClock {
    fn now(&self) -> Millis {
        Millis::from_since_2000(SystemClock.now().since_2000().saturating_add_signed(self.0.load(Ordering::SeqCst)))
    }
}

fn start(schema: &str, clock: Arc<dyn Clock>) -> Server {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    // The pool's own tasks end with the runtime that made them, so it stays.
    let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new().unwrap()));
    let store = runtime.block_on(postgres::Store::connect(&url, schema, Options::default(), clock));
    let store = Arc::new(store.expect("the store opens"));
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let front = Front::development(Arc::new(SystemClock));
    Server::at(store.clock(), front, store as Arc<dyn Store>, rules)
}

#[test]
fn a_server_with_a_wrong_clock_says_so_and_heals() {
    for (off, said) in [(10 * MINUTE, "600"), (8 * 24 * 60 * MINUTE, "691200"), (-60 * MINUTE, "3600")] {
        let schema = format!("test_{:016x}", rand::random::<u64>());
        let clock = Arc::new(OffClock::default());
        let (right, wrong) = (start(&schema, Arc::new(SystemClock)), start(&schema, Arc::clone(&clock) as _));
        for person in ["ann", "ben", "cat"] {
            right.check(&format!("PUT /users/{person}"), "201");
        }
        assert_eq!(wrong.ask("@ann ^idempotency-key=one POST /users/ben/follow").status, 201);
        // The mute ends in an hour: not on a server that is days ahead.
        let until = SystemClock.now().plus(60 * MINUTE as u64).to_rfc3339();
        right.check(&format!(r#"@ann PUT /users/ann/mutes/cat {{"expires_at": "{until}"}}"#), "201");
        clock.0.store(off, Ordering::SeqCst);
        let ready = wrong.ask("GET //readyz");
        let reason = ready.body["reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!((ready.status, &ready.body["status"]), (503, &"degraded".into()), "{}", ready.text);
        assert!(reason.contains("wrong clock") && reason.contains(said) && reason.contains("NTP"), "{reason}");
        for write in ["@ann POST /users/cat/follow", "PUT /users/dan", r#"@ann POST /posts {"body": {}}"#] {
            let reply = wrong.ask(write);
            assert_eq!((reply.status, &reply.body["code"]), (503, &"unavailable".into()), "{write}: {}", reply.text);
            assert!(reply.text.contains("clock"), "{write}: {}", reply.text);
        }
        // Reads go on, by the database's time; nothing is deleted.
        for server in [&wrong, &right] {
            assert_eq!(server.ask("GET /users/ann/is-following/ben").body["following"], true);
            assert_eq!(server.ask("@ann GET /users/ann/mutes").body["data"].as_array().unwrap().len(), 1);
            assert!(server.ask("GET /events?limit=200").body["data"].as_array().unwrap().len() >= 5);
        }
        assert_eq!(right.ask("GET //readyz").status, 200);
        right.check("@ben POST /users/ann/follow", "201");
        clock.0.store(0, Ordering::SeqCst);
        let began = Instant::now();
        while wrong.ask("GET //readyz").status != 200 {
            assert!(began.elapsed() < Duration::from_secs(10), "it heals by itself");
        }
        assert_eq!(wrong.ask("@ann POST /users/cat/follow").status, 201);
        let again = wrong.ask("@ann ^idempotency-key=one POST /users/ben/follow");
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"), "{}", again.text);
    }
}
