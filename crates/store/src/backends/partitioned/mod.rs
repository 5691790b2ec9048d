//! Many homes, each with a lock, a clock and a log of its own: the shape of a store that is spread over machines, in
//! memory. An edge is two halves: the follower's is truth and commits at once, the target's settles.

mod applier;
mod buckets;
mod bug;
mod commit;
mod engine;
mod erase;
mod fork;
mod home;
mod inbound;
mod log;
mod look;
#[cfg(feature = "planted")]
mod mend;
mod pace;
mod progress;
mod reads;
mod relay;
mod route;
#[cfg(feature = "planted")]
pub mod sim;
mod store;
mod write;

pub use self::{
    bug::Bug,
    pace::{Fate, Pace, Step, Straight},
    store::Store,
};
