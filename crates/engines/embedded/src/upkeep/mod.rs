//! What operators ask of an open store: backup, verification, recounts, healing.

pub(crate) mod backup;
pub(crate) mod heal;
pub(crate) mod left_out;
pub(crate) mod maintenance;
pub(crate) mod mirror;
#[cfg(any(test, feature = "planted"))]
pub(crate) mod planted;
pub(crate) mod recount;
pub(crate) mod verify;
