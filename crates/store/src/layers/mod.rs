//! Stores around a store: each changes how fast an answer comes, never the answer.

pub mod cached;
