//! The embedded store: the log is the truth, memory answers, blocks keep what memory need not.
//!
//! A write goes through [`writes`] into the [`log`] and, once it is durable, into the [`state`]. A read goes through
//! [`reads`] to the state and the [`blocks`] below it. A [`checkpoint`] moves deltas from memory into blocks beside all
//! that; [`recovery`] opens the last checkpoint and replays the log after it.

// The store itself: opening, closing, and the calls of the trait.
mod store;

// What a write passes through, and what a read asks.
mod reads;
mod writes;

// What is in memory.
mod documents;
mod idempotency;
mod state;

// What is on the disk, how it gets there and back.
mod blocks;
mod checkpoint;
mod log;
mod recovery;

// What operators ask for.
mod upkeep;

// What the threads share.
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
