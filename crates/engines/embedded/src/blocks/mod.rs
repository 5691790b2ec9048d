//! What is on disk besides the log: blocks of edges and users in append-only files.

pub(crate) mod block;
pub(crate) mod files;
pub(crate) mod finder;
pub(crate) mod users;
