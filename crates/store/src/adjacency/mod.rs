//! Who points at whom in memory: rows of dense 32-bit ordinals, and the ordinals of keys. The embedded store keeps its
//! state in them, the `cached` layer what it holds of another store.

mod intersect;
mod ordinals;
pub mod row;
pub mod search;

pub use self::{intersect::intersect, ordinals::Ordinals};
