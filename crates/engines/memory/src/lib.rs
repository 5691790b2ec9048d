//! Stores in memory, gone with the process: one graph behind a lock, the smallest store that keeps the contract; and
//! [`partitioned`], many homes whose follower lists settle.

mod documents;
mod graph;
pub mod partitioned;
mod store;
mod verify;

pub use self::{graph::Graph, store::Store};
