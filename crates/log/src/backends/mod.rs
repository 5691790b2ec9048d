//! What carries events.

pub mod in_store;
