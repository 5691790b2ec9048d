//! Tables of request and reply, one file a topic.

mod audit;
mod batch;
mod blocks;
mod checks;
mod connections;
mod consistency;
mod credentials;
mod derived;
mod described;
mod erased;
mod events;
mod faults;
mod faulty;
mod follows;
mod forged;
mod groups;
mod idempotency;
mod jobs;
mod leaderboard;
mod limits;
mod lists;
mod matrix;
mod mutes;
#[path = "../../../service/tests/notification_kit/mod.rs"]
#[allow(dead_code, reason = "it serves the tests of the service too")]
mod notification_kit;
mod notifications;
mod openapi;
mod page;
mod probes;
mod quotas;
mod random;
mod recorded;
mod refused;
mod relationships;
mod requests;
#[path = "../../../service/tests/rules/mod.rs"]
mod rules;
mod rules_front;
mod scopes;
mod server;
mod stopping;
mod streaming;
mod streams;
mod table;
mod thresholds;
mod through;
mod tls;
mod told;
mod upkeep;
mod users;
mod viewers;
mod visibility;
mod whole;
