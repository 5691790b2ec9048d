//! The RESP front on a real socket.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]
#![allow(dead_code, reason = "these helpers serve the tests of REST too")]

#[path = "resp/access.rs"]
mod access;
#[path = "resp/both.rs"]
mod both;
#[path = "rest/credentials.rs"]
mod credentials;
#[path = "resp/crowded.rs"]
mod crowded;
#[path = "rest/described.rs"]
mod described;
#[path = "resp/driver.rs"]
mod driver;
#[path = "resp/faults.rs"]
mod faults;
#[path = "rest/faulty.rs"]
mod faulty;
#[path = "resp/feed.rs"]
mod feed;
#[path = "../../service/tests/feed_kit/mod.rs"]
mod feed_kit;
#[path = "resp/feed_random.rs"]
mod feed_random;
#[path = "resp/feed_runs.rs"]
mod feed_runs;
#[path = "resp/lists.rs"]
mod lists;
#[path = "resp/pipelines.rs"]
mod pipelines;
#[path = "resp/protocol.rs"]
mod protocol;
#[path = "resp/random.rs"]
mod random;
#[path = "resp/redis.rs"]
mod redis_compared;
#[path = "resp/redis_kit.rs"]
mod redis_kit;
#[path = "../../service/tests/rules/mod.rs"]
mod rules;
#[path = "rest/rules_front.rs"]
mod rules_front;
#[path = "rest/server.rs"]
mod server;
#[path = "rest/table.rs"]
mod table;
#[path = "resp/wire.rs"]
mod wire;
