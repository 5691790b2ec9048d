//! The embedded engine on simulated disks and real ones.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alone;
mod backup;
mod batches;
mod cached;
mod crash;
mod embedded;
mod embedded_kit;
mod erase;
mod events;
mod files;
mod golden;
mod limits;
mod refusals;
mod retention;
mod retry;
mod threads;
mod waiting_reads;
