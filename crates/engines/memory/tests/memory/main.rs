//! The memory engine, and homes that settle.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod memory;
mod partitioned;
mod partitioned_life;
mod simulator;
