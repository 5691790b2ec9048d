//! One file for each command: its arguments, and `run`.

pub(crate) mod config;
pub(crate) mod serve;
pub(crate) mod version;
