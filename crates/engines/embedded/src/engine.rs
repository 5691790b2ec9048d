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
    /// The number of the last finished checkpoint.
    pub(crate) checkpoint_number: AtomicU64,
    /// Why writes are refused, if they are.
    pub(crate) trouble: Mutex<Option<Trouble>>,
    pub(crate) stopping: AtomicBool,
    /// While a backup copies files, none may be removed.
    pub(crate) holds: AtomicUsize,
    /// Held while files are removed.
    pub(crate) removing: Mutex<()>,
    /// Held over each batch: who has it sees a state that stands still.
    pub(crate) gate: Mutex<()>,
    pub(crate) metrics: Metrics,
}

#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// A write of the log or a sync failed, or a thread ended: nothing is known of the disk or of memory any more.
    Poisoned(Fault),
    /// The next segment cannot be made, for want of room, of files, of rights; tried again with every batch.
    NoSegment(Fault),
}

/// What was set aside for a checkpoint: the state at one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) sequence: Sequence,
    pub(crate) version: Version,
    pub(crate) segment: u64,
    pub(crate) users: u32,
    pub(crate) groups: HashSet<u32>,
    /// Somebody was erased: files that may still hold something of them are written anew.
    pub(crate) scrub: bool,
    /// Every segment of the log that the checkpoint covers goes, however young.
    pub(crate) drop_log: bool,
}

#[derive(Debug, Default)]
pub(crate) struct CheckpointState {
    pub(crate) frozen: Option<Frozen>,
    /// The sequence the last finished checkpoint covers.
    pub(crate) covered: Sequence,
    /// How many checkpoints were finished or given up, for those who wait for one.
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

    /// The first reason stays: what comes later follows from it.
    pub(crate) fn poison(&self, fault: &Fault) {
        tracing::error!(%fault, "no write is taken until the store is opened again");
        let mut trouble = self.trouble.lock();
        if !matches!(*trouble, Some(Trouble::Poisoned(_))) {
            *trouble = Some(Trouble::Poisoned(fault.clone()));
        }
    }

    /// Why nothing is written any more.
    pub(crate) fn poisoned(&self) -> Result<(), Fault> {
        match &*self.trouble.lock() {
            Some(Trouble::Poisoned(fault)) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    /// What is poisoned stays so: a segment that can be made again changes nothing.
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
