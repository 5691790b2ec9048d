//! One file for each command: its arguments, and `run`.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod config;
mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod migrate_schema;
mod offline;
mod progress;
pub(crate) mod reconcile;
pub(crate) mod restore;
pub(crate) mod serve;
pub(crate) mod token;
pub(crate) mod verify;
pub(crate) mod version;
