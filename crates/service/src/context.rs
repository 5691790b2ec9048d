//! What every room needs: the store to read, the writer to change it, and what is derived from the store's secret.
//! `catch_up.rs`, `ids.rs`, `rows.rs` and `visibility.rs` are what rooms ask of it.

use std::sync::Arc;

use entourage_model::{Clock, KeyHasher, Sealer};
use entourage_store::Store;

use crate::{Rules, Surges, events::StreamHub, writer::Writer};

pub(crate) struct Context {
    /// For reads. Every write goes through the writer.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) writer: Writer,
    pub(crate) rules: Rules,
    pub(crate) sealer: Sealer,
    pub(crate) keys: KeyHasher,
    pub(crate) clock: Arc<dyn Clock>,
    /// Whose new followers are quarantined.
    pub(crate) surges: Arc<dyn Surges>,
    /// Wakes streams, and says when the server stops.
    pub(crate) hub: Arc<StreamHub>,
}

impl Context {
    pub(crate) fn epoch(&self) -> u64 {
        self.store.identity().epoch
    }
}
