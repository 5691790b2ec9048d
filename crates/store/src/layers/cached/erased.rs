//! Users erased while this process ran: their edges may still be there, and a row does not say so.

use std::sync::atomic::{AtomicUsize, Ordering};

use entourage_model::{Key, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;

#[derive(Default)]
pub(super) struct Erased {
    keys: RwLock<HashMap<Key, Version>>,
    /// Mostly zero, and then nobody takes the lock.
    count: AtomicUsize,
}

impl Erased {
    #[inline]
    pub(super) fn has(&self, key: Key) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.keys.read().contains_key(&key)
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn insert(&self, key: Key, version: Version) {
        let mut keys = self.keys.write();
        let known = keys.entry(key).or_insert(version);
        *known = version.max(*known);
        self.count.store(keys.len(), Ordering::Release);
    }

    /// The user exists as of `version`: nobody is created before the last edge of the predecessor is gone.
    pub(super) fn exists(&self, key: Key, version: Version) {
        if self.len() == 0 {
            return;
        }
        let mut keys = self.keys.write();
        if keys.get(&key).is_some_and(|erased| *erased < version) {
            keys.remove(&key);
        }
        self.count.store(keys.len(), Ordering::Release);
    }

    pub(super) fn all(&self) -> Vec<(Key, Version)> {
        self.keys.read().iter().map(|(key, version)| (*key, *version)).collect()
    }

    pub(super) fn clear(&self) {
        let mut keys = self.keys.write();
        keys.clear();
        self.count.store(0, Ordering::Release);
    }
}
