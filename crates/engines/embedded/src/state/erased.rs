//! Keys of users who were erased, until somebody else has them: whose edges are left, and what may not come back.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use entourage_model::{Key, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;

#[derive(Default)]
pub(crate) struct Erased {
    keys: RwLock<HashMap<Key, (u32, Version)>>,
    /// Mostly nobody, and then nobody waits for a lock.
    count: AtomicUsize,
    /// How many have been erased since the store was opened, and how often something of theirs went that a checkpoint
    /// has not yet seen.
    total: AtomicU64,
    fresh: AtomicU64,
}

impl Erased {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    pub(crate) fn ordinal(&self, key: Key) -> Option<u32> {
        if self.is_empty() { None } else { self.keys.read().get(&key).map(|(ordinal, _)| *ordinal) }
    }

    pub(crate) fn version(&self, key: Key) -> Option<Version> {
        if self.is_empty() { None } else { self.keys.read().get(&key).map(|(_, version)| *version) }
    }

    pub(crate) fn insert(&self, key: Key, ordinal: u32, version: Version) {
        let mut keys = self.keys.write();
        keys.insert(key, (ordinal, version));
        self.count.store(keys.len(), Ordering::Release);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.fresh.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, key: Key) {
        if !self.is_empty() {
            let mut keys = self.keys.write();
            keys.remove(&key);
            self.count.store(keys.len(), Ordering::Release);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// More of somebody who was erased is gone now.
    pub(crate) fn left_traces(&self) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether anything of the erased went since this was last asked.
    pub(crate) fn take_fresh(&self) -> bool {
        self.fresh.swap(0, Ordering::Relaxed) > 0
    }
}
