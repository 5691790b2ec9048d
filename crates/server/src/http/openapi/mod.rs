//! One table of operations, from which both the router and the OpenAPI document are made.

mod document;
mod operation;
mod policy;
mod problems;
pub(super) mod schema;
mod shape;

pub(super) use document::{document, header_names};
pub(super) use operation::{App, Group, Operation, delete, get, patch, post, put};
pub(super) use policy::{Access, Policy};
