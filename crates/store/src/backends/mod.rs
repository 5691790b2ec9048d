//! The engines that hold truth. Each is a folder, and each passes the whole conformance suite.

pub mod embedded;
pub mod memory;
pub mod partitioned;
#[cfg(feature = "postgres")]
pub mod postgres;
