//! The API described from the code: one table of operations makes both the router and the document.

mod document;
mod operation;
mod policy;
mod problems;
pub(super) mod schema;
mod shape;

pub(super) use document::{document, header_names};
pub(super) use operation::{App, Group, Operation, delete, get, patch, post, put};
pub(super) use policy::{Access, Policy};
