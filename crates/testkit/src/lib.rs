//! What proves engines and fronts. Only tests depend on it: the product does not link it.
//!
//! - [`conformance`]: one list of cases stamped on every store and every stack of layers, a reference graph with random
//!   runs, a checker for histories of concurrent writers, and the planted bugs that show that each of them can fail.
//! - [`simulator`]: homes that settle, under every fault between them, driven by a seed.
//! - [`crash_disk`]: a disk that loses, tears and reorders what was not synced.
//! - [`hooked_disk`]: a disk that a test can intercept.
//! - [`cached`]: the cached layer over a store that a test can intercept.
//! - [`portrait`]: everything a store says, as text.
//! - `service`: references and random runs for rules, feeds and notifications.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests that are built as a library fail by panicking"
)]

pub mod cached;
pub mod conformance;
pub mod crash_disk;
pub mod hooked_disk;
pub mod portrait;
pub mod postgres;
#[cfg(feature = "service")]
pub mod service;
pub mod simulator;
