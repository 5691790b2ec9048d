//! Upkeep: what looks after the store beside requests, and what an operator asks for by hand.

mod audit;
mod healer;

use std::sync::Arc;

use entourage_store::Maintenance;

use self::{audit::Auditor, healer::Healer};
pub use self::{
    audit::{AuditReport, Drift},
    healer::EdgesHealed,
};
use crate::{Context, graph::Leaderboard};

/// Audits, heals, recounts and verifies.
pub struct Upkeep {
    context: Arc<Context>,
    auditor: Auditor,
    healer: Healer,
    /// Hears of edges that were healed.
    leaderboard: Arc<Leaderboard>,
    maintenance: Option<Arc<dyn Maintenance>>,
}

impl Upkeep {
    pub(crate) fn new(
        context: Arc<Context>,
        leaderboard: Arc<Leaderboard>,
        maintenance: Option<Arc<dyn Maintenance>>,
    ) -> Self {
        Self { context, auditor: Auditor::default(), healer: Healer::default(), leaderboard, maintenance }
    }
    /// The number of the store's last checkpoint, greater with each one.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.maintenance.as_ref().map_or(0, |maintenance| maintenance.checkpoints())
    }
}
