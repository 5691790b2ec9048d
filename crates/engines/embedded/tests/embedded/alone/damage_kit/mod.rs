//! What can be done to a file, and who judges what comes of it.

pub(crate) mod harm;
pub(crate) mod judge;
pub(crate) mod questions;
pub(crate) mod world;
