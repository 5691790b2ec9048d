//! What the threads of the store share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use entourage_model::{Clock, Sequence, Version};
use hashbrown::HashSet;
use parking_lot::{Condvar, Mutex};

use super::{
    budget::Pace, fault::Fault, files::BlockFiles, idempotency::Idempotency, measures::Measures, options::Options,
    seals::Seals, segments::Segments, spare::Spare, state::State,
};
use entourage_store::{Identity, disk::Disk};

pub(super) struct Engine {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) identity: Identity,
    pub(super) state: State,
    pub(super) files: BlockFiles,
    pub(super) idempotency: Idempotency,
    pub(super) segments: Mutex<Segments>,
    pub(super) seals: Seals,
    pub(super) spare: Spare,
    pub(super) checkpoint: Mutex<CheckpointState>,
    pub(super) checkpoint_changed: Condvar,
    /// The number of the last finished checkpoint.
    pub(super) checkpoint_number: AtomicU64,
    /// Why writes are refused, if they are.
    pub(super) trouble: Mutex<Option<Trouble>>,
    pub(super) stopping: AtomicBool,
    /// While a backup copies files, none may be removed.
    pub(super) holds: AtomicUsize,
    /// Held while files are removed.
    pub(super) removing: Mutex<()>,
    /// Held over each batch: who has it sees a state that stands still.
    pub(super) gate: Mutex<()>,
    pub(super) measures: Measures,
}

#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// A write of the log or a sync failed, or a thread ended: nothing is known of the disk or of memory any more.
    Poisoned(Fault),
    /// The next segment cannot be made, for want of room, of files, of rights; tried again with every batch.
    NoSegment(Fault),
}

/// What was set aside for a checkpoint: the state at one sequence.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) sequence: Sequence,
    pub(super) version: Version,
    pub(super) segment: u64,
    pub(super) users: u32,
    pub(super) groups: HashSet<u32>,
    /// Somebody was erased: files that may still hold something of them are written anew.
    pub(super) scrub: bool,
    /// Every segment of the log that the checkpoint covers goes, however young.
    pub(super) drop_log: bool,
}

#[derive(Debug, Default)]
pub(super) struct CheckpointState {
    pub(super) frozen: Option<Frozen>,
    /// The sequence the last finished checkpoint covers.
    pub(super) covered: Sequence,
    /// How many checkpoints were finished or given up, for those who wait for one.
    pub(super) attempts: u64,
    pub(super) last_error: Option<Fault>,
    pub(super) pace: Pace,
}

impl Engine {
    pub(super) fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: Options, identity: Identity) -> Self {
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
            spare: Spare::default(),
            checkpoint: Mutex::default(),
            checkpoint_changed: Condvar::new(),
            checkpoint_number: AtomicU64::new(0),
            trouble: Mutex::default(),
            stopping: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
            removing: Mutex::default(),
            gate: Mutex::default(),
            measures: Measures::default(),
        }
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.identity.epoch
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The first reason stays: what comes later follows from it.
    pub(super) fn poison(&self, fault: &Fault) {
        tracing::error!(%fault, "no write is taken until the store is opened again");
        let mut trouble = self.trouble.lock();
        if !matches!(*trouble, Some(Trouble::Poisoned(_))) {
            *trouble = Some(Trouble::Poisoned(fault.clone()));
        }
    }

    /// Why nothing is written any more.
    pub(super) fn poisoned(&self) -> Result<(), Fault> {
        match &*self.trouble.lock() {
            Some(Trouble::Poisoned(fault)) => Err(fault.clone()),
            _ => Ok(()),
        }
    }

    /// What is poisoned stays so: a segment that can be made again changes nothing.
    pub(super) fn has_no_segment(&self, fault: &Fault) {
        let mut trouble = self.trouble.lock();
        if !matches!(*trouble, Some(Trouble::Poisoned(_))) {
            *trouble = Some(Trouble::NoSegment(fault.clone()));
        }
    }

    pub(super) fn has_segment(&self) {
        self.trouble.lock().take_if(|trouble| matches!(trouble, Trouble::NoSegment(_)));
    }
}
