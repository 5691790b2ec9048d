//! The cached layer over stores in memory.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod cached;
mod cached_away;
mod cached_common_following;
mod cached_ids;
mod cached_order;
mod cached_races;
mod cached_refill;
mod cached_snapshot;
