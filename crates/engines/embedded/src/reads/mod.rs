//! The read path: checks, pages and single edges, events.

pub(crate) mod checks;
pub(crate) mod common_following;
pub(crate) mod edges;
pub(crate) mod events;
pub(crate) mod newest_follows;
pub(crate) mod target_set;
