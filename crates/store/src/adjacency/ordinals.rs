//! Ordinals given as they are asked for: every key that a row names has one.

use std::sync::atomic::{AtomicU32, Ordering};

use entourage_model::Key;
use hashbrown::HashMap;
use parking_lot::RwLock;

const SHARDS: usize = 64;
/// A key with its ordinal in a table that is between half full and full.
const BYTES_PER_KEY: u64 = 28;

pub(crate) struct Ordinals {
    shards: Vec<RwLock<HashMap<Key, u32>>>,
    next: AtomicU32,
}

impl Default for Ordinals {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), next: AtomicU32::new(0) }
    }
}

impl Ordinals {
    fn shard(&self, key: Key) -> &RwLock<HashMap<Key, u32>> {
        // Upper bits of a product: sequential ids and hashed ones both spread.
        let hash = (key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &self.shards[hash as usize % SHARDS]
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<u32> {
        self.shard(key).read().get(&key).copied()
    }

    pub(crate) fn get_or_add(&self, key: Key) -> u32 {
        if let Some(ordinal) = self.get(key) {
            return ordinal;
        }
        *self.shard(key).write().entry(key).or_insert_with(|| self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether there may soon be no number left: whoever holds these has to begin anew.
    pub(crate) fn are_used_up(&self) -> bool {
        self.next.load(Ordering::Relaxed) > u32::MAX / 2
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.next.load(Ordering::Relaxed)) * BYTES_PER_KEY
    }

    /// Every key at the place of its ordinal.
    pub(crate) fn keys(&self) -> Vec<Option<Key>> {
        let mut keys = vec![None; self.next.load(Ordering::Acquire) as usize];
        for shard in &self.shards {
            for (&key, &ordinal) in shard.read().iter() {
                if let Some(place) = keys.get_mut(ordinal as usize) {
                    *place = Some(key);
                }
            }
        }
        keys
    }

    /// Numbers begin anew.
    pub(crate) fn clear(&self) {
        // All at once: whoever got a number before must not come in after, where it means somebody else.
        let mut shards: Vec<_> = self.shards.iter().map(RwLock::write).collect();
        for shard in &mut shards {
            **shard = HashMap::new();
        }
        self.next.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_ordinal_until_everything_is_cleared() {
        let ordinals = Ordinals::default();
        let given: Vec<u32> = (-50..50).map(|key| ordinals.get_or_add(Key(key))).collect();
        assert_eq!(given, (0..100).collect::<Vec<_>>());
        for (key, ordinal) in (-50..50).zip(&given) {
            assert_eq!((ordinals.get(Key(key)), ordinals.get_or_add(Key(key))), (Some(*ordinal), *ordinal));
            assert_eq!(ordinals.keys()[*ordinal as usize], Some(Key(key)));
        }
        assert_eq!(ordinals.get(Key(50)), None);
        assert_eq!(ordinals.bytes(), 100 * BYTES_PER_KEY);
        ordinals.clear();
        assert_eq!((ordinals.get(Key(0)), ordinals.bytes(), ordinals.keys().len()), (None, 0, 0));
    }
}
