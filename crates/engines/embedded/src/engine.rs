//! What the threads of the store share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use entourage_model::{Clock, Sequence, Version};
use hashbrown::HashSet;
use parking_lot::{Condvar, Mutex};

use crate::{
    blocks::files::BlockFiles,
    fault::Fault,
    idempotency::Idempotency,
    log::{next_segment::NextSegment, seals::Seals, segments::Segments},
    metrics::Metrics,
    options::Options,
    state::State,
    writes::budget::Pace,
};
use entourage_store::{Identity, disk::Disk};

pub(crate) struct Engine {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) identity: Identity,
    pub(crate) state: State,
    pub(crate) files: BlockFiles,
    pub(crate) idempotency: Idempotency,
    pub(crate) segments: Mutex<Segments>,
    pub(crate) seals: Seals,
    pub(crate) next_segment: NextSegment,
    pub(crate) checkpoint: Mutex<CheckpointState>,
    pub(crate) checkpoint_changed: Condvar,
    /// Number of the last finished checkpoint.
    pub(crate) checkpoint_number: AtomicU64,
    /// Why writes are refused, if they are.
    pub(crate) trouble: Mutex<Option<Trouble>>,
    pub(crate) stopping: AtomicBool,
    /// Running backups. While there are any, no file is removed.
    pub(crate) holds: AtomicUsize,
    /// Held while files are removed.
    pub(crate) removing: Mutex<()>,
    /// Held over each batch: its holder sees a state that does not change.
    pub(crate) gate: Mutex<()>,
    pub(crate) metrics: Metrics,
}

#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A log write or a sync failed, or a thread ended: the state of disk and memory is unknown.
    Poisoned(Fault),
    /// The next segment cannot be created (space, file handles, permissions); retried with every batch.
    NoSegment(Fault),
}

/// The state at one sequence, frozen for a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) sequence: Sequence,
    pub(crate) version: Version,
    pub(crate) segment: u64,
    pub(crate) users: u32,
    pub(crate) groups: HashSet<u32>,
    /// A user was erased: files that may still hold their data are rewritten.
    pub(crate) scrub: bool,
    /// Drops every log segment that the checkpoint covers, however young.
    pub(crate) drop_log: bool,
}

#[derive(Debug, Default)]
pub(crate) struct CheckpointState {
    pub(crate) frozen: Option<Frozen>,
    /// The sequence covered by the last finished checkpoint.
    pub(crate) covered: Sequence,
    /// Checkpoints finished or failed, for callers that wait for one.
    pub(crate) attempts: u64,
    pub(crate) last_error: Option<Fault>,
    pub(crate) pace: Pace,
}

impl Engine {
    pub(crate) fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: Options, identity: Identity) -> Self {
        Self {
            disk,
            clock,
            options,
            identity,
            state: State::default(),
            files: BlockFiles::default(),
            idempotency: Idempotency::default(),
            segments: Mutex::default(),
            seals: Seals::default(),
            next_segment: NextSegment::default(),
            checkpoint: Mutex::default(),
            checkpoint_changed: Condvar::new(),
            checkpoint_number: AtomicU64::new(0),
            trouble: Mutex::default(),
            stopping: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
            removing: Mutex::default(),
            gate: Mutex::default(),
            metrics: Metrics::default(),
        }
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.identity.epoch
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The first fault is kept: later ones follow from it.
    pub(crate) fn poison(&self, fault: &Fault) {
        tracing::error!(%fault, "no write is taken until the store is opened again");
        let mut trouble = self.trouble.lock();
        if !matches!(*trouble, Some(Trouble::Poisoned(_))) {
            *trouble = Some(Trouble::Poisoned(fault.clone()));
        }
    }

    /// The fault that ended all writes, if there is one.
    pub(crate) fn poisoned(&self) -> Result<(), Fault> {
        match &*self.trouble.lock() {
            Some(Trouble::Poisoned(fault)) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    /// A poisoned engine stays so: a new segment changes nothing.
    pub(crate) fn has_no_segment(&self, fault: &Fault) {
        let mut trouble = self.trouble.lock();
        if !matches!(*trouble, Some(Trouble::Poisoned(_))) {
            *trouble = Some(Trouble::NoSegment(fault.clone()));
        }
    }

    pub(crate) fn has_segment(&self) {
        self.trouble.lock().take_if(|trouble| matches!(trouble, Trouble::NoSegment(_)));
    }
}
