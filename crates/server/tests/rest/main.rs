//! The REST front on a real socket: tables of request and reply.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod blocks;
mod checks;
mod consistency;
mod events;
mod faults;
mod faulty;
mod follows;
mod idempotency;
mod limits;
mod lists;
mod page;
mod probes;
mod recorded;
mod server;
mod stopping;
mod table;
mod through;
mod users;
mod visibility;
