//! The write path: one thread decides batches, another makes them durable and applies them.

pub(crate) mod budget;
pub(crate) mod commit_pipeline;
pub(crate) mod committer;
pub(crate) mod overlay;
pub(crate) mod sequencer;
