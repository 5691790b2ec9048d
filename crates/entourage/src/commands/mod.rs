//! One file for each command: its arguments, and `run`.

pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod key;
mod offline;
mod progress;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod verify;
pub(crate) mod version;
