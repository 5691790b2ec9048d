//! Many homes, each with a lock, a clock and a log of its own: the shape of a distributed store, in memory. An edge is
//! two halves: the follower's is truth and commits at once, the target's settles.

pub mod applier;
pub mod buckets;
pub mod bug;
pub mod commit;
pub mod engine;
pub mod erase;
pub mod fork;
pub mod home;
pub mod inbound;
pub mod log;
pub mod look;
#[cfg(feature = "planted")]
pub mod mend;
pub mod pace;
pub mod progress;
pub mod reads;
pub mod relay;
pub mod route;
pub mod store;
pub mod write;

pub use self::{
    bug::Bug,
    pace::{Fate, Pace, Step, Straight},
    store::Store,
};
