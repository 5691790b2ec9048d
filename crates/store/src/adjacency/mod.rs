//! Adjacency in memory: rows of dense 32-bit ordinals, and the ordinals of keys. The state of the embedded store and
//! the rows of the `cached` layer are made of them.

mod intersect;
mod ordinals;
pub mod row;
pub mod search;

pub use self::{intersect::intersect, ordinals::Ordinals};
