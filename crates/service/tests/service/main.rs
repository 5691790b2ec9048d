//! The rules over stores in this process, and over PostgreSQL.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod abuse;
mod accept;
mod audit;
mod audit_looks;
mod bounds;
mod buckets;
mod erased_ids;
mod feed;
mod feed_lag;
mod feed_live;
mod feed_offset;
mod feed_races;
mod feed_resume;
mod flips;
mod healer;
mod import;
mod import_all;
mod leases;
mod limits;
mod mistakes;
mod notifications;
mod postgres;
mod quarantine;
mod races;
mod random;
mod scheduler;
mod settling;
mod signals;
mod suggestions;
