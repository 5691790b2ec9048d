//! The RESP front on a real socket.

mod access;
mod both;
mod crowded;
mod driver;
mod faults;
mod feed;
mod feed_runs;
mod lists;
mod pipelines;
mod protocol;
pub(crate) mod random;
#[path = "redis.rs"]
mod redis_compared;
