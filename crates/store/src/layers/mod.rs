//! Wrappers of stores: each changes how fast an answer comes, never the answer.

pub mod cached;
