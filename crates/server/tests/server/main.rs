//! The fronts over stores in this process, and over PostgreSQL.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alone;
mod kit;
mod postgres;
mod resp;
mod rest;
mod ways_in;
mod worlds;
