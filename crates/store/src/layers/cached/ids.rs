//! Ids of users whose key is a hash, as they were last read: with them a check between named users confirms without a
//! round trip that the keys are of the very ids in question.

use std::sync::Arc;

use entourage_model::{Key, User};
use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use quick_cache::{Weighter, sync::Cache};

/// Ids may take one part in this many of the whole budget.
const PART: u64 = 8;
/// What an id takes besides its bytes: its reference count, its places in the tables, and those of evicted entries.
const BYTES_PER_ID: u64 = 96;

pub(super) struct Ids {
    held: Cache<Key, Arc<[u8]>, Weigh, DefaultHashBuilder>,
    /// How often ids were dropped: what was read before a drop is not held after it.
    forgotten: Mutex<u64>,
}

/// The start of a read of users.
#[derive(Clone, Copy)]
pub(super) struct Since(u64);

impl Ids {
    pub(super) fn new(budget: u64) -> Self {
        let bytes = budget / PART;
        let items = usize::try_from(bytes / BYTES_PER_ID).unwrap_or(usize::MAX).max(1);
        let held = Cache::with(items, bytes, Weigh, DefaultHashBuilder::default(), Default::default());
        Self { held, forgotten: Mutex::new(0) }
    }

    #[inline]
    pub(super) fn has(&self, key: Key, id: &[u8]) -> bool {
        self.held.get(&key).is_some_and(|held| *held == *id)
    }

    pub(super) fn begin(&self) -> Since {
        Since(*self.forgotten.lock())
    }

    /// Users as they were read since `begin`; held only if no id was dropped meanwhile.
    pub(super) fn learn(&self, since: Since, users: &[Option<User>]) {
        // Locked throughout: nothing is dropped between the check and the last id.
        let forgotten = self.forgotten.lock();
        if *forgotten != since.0 {
            return;
        }
        for user in users.iter().flatten().filter(|user| user.key.0 < 0) {
            let id = user.id.as_str().as_bytes();
            if !self.has(user.key, id) {
                self.held.insert(user.key, id.into());
            }
        }
    }

    pub(super) fn forget(&self, key: Key) {
        let mut forgotten = self.forgotten.lock();
        *forgotten += 1;
        self.held.remove(&key);
    }

    pub(super) fn clear(&self) {
        let mut forgotten = self.forgotten.lock();
        *forgotten += 1;
        self.held.clear();
    }

    pub(super) fn bytes(&self) -> u64 {
        self.held.weight()
    }
}

#[derive(Clone)]
struct Weigh;

impl Weighter<Key, Arc<[u8]>> for Weigh {
    fn weight(&self, _key: &Key, id: &Arc<[u8]>) -> u64 {
        BYTES_PER_ID + id.len() as u64
    }
}
