//! The binary as users run it, and the rules of this repository.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alone;
mod bench;
mod client;
mod client_abuse;
mod client_feed;
mod clock_kit;
mod cluster_kit;
mod command;
mod credentials;
mod demo;
mod destructive;
mod doctor;
mod documents;
mod documents_kit;
mod export;
mod extremes;
mod https;
mod import;
mod import_kit;
mod kill_kit;
mod logs;
mod maintenance;
mod postgres;
mod postgres_kit;
mod resp_kit;
mod resp_wire;
mod server_kit;
mod suggest;
mod tidy;
mod tools;
