//! Examples of a document, and a shell that runs them as a reader would: one after the other, beside a server.

pub(crate) mod blocks;
pub(crate) mod reader;
pub(crate) mod shell;
