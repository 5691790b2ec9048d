//! The embedded store: the log is the source of truth, the state is in memory, most of the lists are in blocks.
//!
//! A write goes through [`writes`] into the [`log`] and, once durable, into the [`state`]. A read goes through
//! [`reads`] to the state and the [`blocks`] below it. In the background a [`checkpoint`] moves deltas from memory into
//! blocks; [`recovery`] loads the last checkpoint and replays the log after it.

// Opening, closing, and the trait's methods.
mod store;

// The read and write paths.
mod reads;
mod writes;

// In memory.
mod documents;
mod idempotency;
mod state;

// On disk, and the way there and back.
mod blocks;
mod checkpoint;
mod log;
mod recovery;

// For operators.
mod upkeep;

// Shared by all.
mod codec;
mod engine;
mod fault;
mod identity;
mod metrics;
mod options;

#[cfg(any(test, feature = "planted"))]
pub use self::upkeep::{
    left_out::{Check, leave_out},
    planted::Damage,
};
pub use self::{
    fault::Fault, identity::random as random_identity, options::Options, store::Store, upkeep::backup::restore,
};
