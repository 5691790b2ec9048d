//! The PostgreSQL engine on the server that `ENTOURAGE_TEST_POSTGRES` names.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alone;
mod cached;
mod clock;
mod conformance;
mod heartbeat;
mod postgres_kit;
mod retention;
mod upgrade;
