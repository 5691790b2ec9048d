//! Transfer: what comes into the store and leaves it in bulk. Imports, exports, the demo, backups.

pub(crate) mod csv;
mod demo;
mod export;
pub mod import;

use std::{path::Path, sync::Arc};

use entourage_model::{Error, Result};
use entourage_store::Maintenance;

pub use self::{
    demo::{Demo, DemoTraffic, demo_ids},
    export::{Export, ExportFormat, ExportKind, Exported, Packed, Packing},
};
use crate::{Call, Context, Feeds, Graph, Jobs};

pub struct Transfer {
    context: Arc<Context>,
    graph: Arc<Graph>,
    feeds: Arc<Feeds>,
    jobs: Arc<Jobs>,
    maintenance: Option<Arc<dyn Maintenance>>,
}

impl Transfer {
    pub(crate) const fn new(
        context: Arc<Context>,
        graph: Arc<Graph>,
        feeds: Arc<Feeds>,
        jobs: Arc<Jobs>,
        maintenance: Option<Arc<dyn Maintenance>>,
    ) -> Self {
        Self { context, graph, feeds, jobs, maintenance }
    }

    /// Copies the store into an empty folder of this machine while it goes on serving.
    pub async fn backup(&self, call: &Call, folder: &Path) -> Result<u64> {
        call.must_be_admin()?;
        let Some(maintenance) = &self.maintenance else {
            return Err(Error::invalid("this server's store is backed up with its own tools, not through Entourage"));
        };
        maintenance.backup(folder).await
    }
}
