//! Keys of erased users until they are reused: which edges are left, and what must not come back.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use entourage_model::{Key, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;

#[derive(Default)]
pub(crate) struct Erased {
    keys: RwLock<HashMap<Key, (u32, Version)>>,
    /// Mostly 0, and then no lock is taken.
    count: AtomicUsize,
    /// Users erased since the store was opened, and removals of their data that no checkpoint has covered yet.
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

    /// More data of an erased user is gone.
    pub(crate) fn left_traces(&self) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether data of erased users went since the last call.
    pub(crate) fn take_fresh(&self) -> bool {
        self.fresh.swap(0, Ordering::Relaxed) > 0
    }
}
