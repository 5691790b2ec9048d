//! Abuse: detectors that follow the events, the cases they open, and what administrators do about them. Nobody is banned:
//! at most an open case pauses the right to follow, where an operator has asked for that.

mod buffer;
mod case;
mod cases;
mod clusters;
mod consume;
mod detector;
mod examine;
mod index;
mod names;
mod pause;
mod rules;
mod signatures;
mod table;
mod target_quota;
mod window;

use std::{collections::HashMap, sync::Arc};

use entourage_model::{Key, Result};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

pub(crate) use self::{buffer::Buffer, index::Index};
pub use self::{
    case::{
        CASE_ACTORS_MAX, CASE_EVIDENCE_MAX, CASE_TARGETS_MAX, Case, CaseEvidence, CaseKind, CaseState, CaseSummary,
        CaseUser,
    },
    cases::{CaseClosed, CaseFilter, CasePage, OPEN_CASES_MAX},
    clusters::{CLUSTER_TARGETS_MIN, ClustersFound},
    rules::AbuseRules,
    target_quota::{TargetQuota, TargetQuotaWritten},
};
use self::{
    case::{Finding, Subject},
    consume::Reader,
};
use crate::{Context, Surges as _, limits::Limiter};

/// Detectors, cases, and the quota of one target.
pub struct Abuse {
    context: Arc<Context>,
    limiter: Arc<Limiter>,
    /// What this process commits, where nobody else writes.
    buffer: Arc<Buffer>,
    index: Arc<Index>,
    /// What waits for its case to be written again.
    findings: Mutex<HashMap<Subject, Finding>>,
    /// One pass at a time.
    reader: tokio::sync::Mutex<Reader>,
    /// One search for clusters at a time.
    clusters: tokio::sync::Mutex<clusters::Progress>,
    loaded: OnceCell<()>,
}

impl Abuse {
    pub(crate) fn new(context: Arc<Context>, limiter: Arc<Limiter>, buffer: Arc<Buffer>, index: Arc<Index>) -> Self {
        let reader = tokio::sync::Mutex::new(Reader::new(context.rules.abuse));
        Self {
            context,
            limiter,
            buffer,
            index,
            findings: Mutex::default(),
            reader,
            clusters: tokio::sync::Mutex::default(),
            loaded: OnceCell::new(),
        }
    }

    /// Learns cases and quotas of targets from the store, once, and finishes what a server that stopped left half done.
    pub async fn load(&self) -> Result<()> {
        let load = || async {
            self.read_cases().await?;
            self.read_target_quotas().await?;
            self.finish_pauses().await
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// Whether a surge case is open on this target. In memory; before [`Self::load`] nothing is known.
    pub fn open_surge(&self, target: Key) -> bool {
        self.index.is_surging(target)
    }
}
