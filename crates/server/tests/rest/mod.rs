//! Tables of request and reply, one file a topic.

mod batch;
mod blocks;
mod checks;
mod consistency;
mod derived;
mod erased;
mod events;
mod faults;
mod faulty;
mod follows;
mod idempotency;
mod leaderboard;
mod limits;
mod lists;
mod mutes;
mod page;
mod probes;
mod random;
mod recorded;
mod relationships;
mod requests;
#[path = "../../../service/tests/rules/mod.rs"]
mod rules;
mod rules_front;
mod server;
mod stopping;
mod table;
mod through;
mod users;
mod viewers;
mod visibility;
mod whole;
