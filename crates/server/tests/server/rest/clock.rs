//! Clocks at the first and the last time there is, and from one to the other: answers, and no panic.

use std::sync::Arc;

use entourage_memory as memory;
use entourage_model::{Clock, ManualClock, Millis, Secret};
use entourage_server::Front;
use entourage_service::Rules;
use entourage_store::{Identity, Store};

use super::server::Server;

const REQUESTS: &[&str] = &[
    "PUT /users/ann",
    "PUT /users/ben",
    r#"PUT /users/shy {"private": true}"#,
    "@ann POST /users/ben/follow",
    "@ann DELETE /users/ben/follow",
    "@ann POST /users/ben/follow",
    "@ann POST /users/shy/follow",
    "POST /users/shy/follow-requests/ann/accept",
    "@ann PUT /users/ann/mutes/ben",
    "@ann PUT /users/ann/blocks/shy",
    "@ann DELETE /users/ann/blocks/shy",
    r#"@ben POST /posts {"body": {}}"#,
    "@ann GET /users/ann/feed",
    "GET /users/ben/followers",
    "GET /users/ann/mutes",
    "GET /users/ann/history",
    "GET /users/ben/notifications",
    "@ben POST /users/ben/notifications/seen",
    "GET /leaderboards/followers",
    "GET /events?limit=200",
    "POST /tickets",
    "//readyz",
];

fn asked_everything(server: &Server, at: &str) {
    for request in REQUESTS {
        let request = if request.starts_with("//") { format!("GET {request}") } else { (*request).to_owned() };
        let reply = server.ask(&request);
        assert!(reply.status < 500, "{request} at {at}: {} {}", reply.status, reply.text);
    }
}

#[test]
fn the_first_and_the_last_time_there_is() {
    let last = Millis::from_since_2000(u64::MAX);
    let times = [Millis::from_unix(i64::MIN), Millis::from_since_2000(1), Millis::from_unix(i64::MAX), last];
    for first in times {
        let clock = Arc::new(ManualClock::new(first));
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([1; 32]) };
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&clock) as Arc<dyn Clock>));
        let front = Front::development(Arc::clone(&clock) as _);
        let server = Server::at(Arc::clone(&clock) as _, front, store, Rules::default());
        asked_everything(&server, &first.to_rfc3339());
        for then in times {
            clock.set(then);
            asked_everything(&server, &format!("{} after {}", then.to_rfc3339(), first.to_rfc3339()));
            server.work_now();
        }
    }
}
