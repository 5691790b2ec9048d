//! Ordinals assigned on demand: every key that a row names has one, and every ordinal has its key.

use entourage_model::Key;
use hashbrown::HashMap;
use parking_lot::{RwLock, RwLockReadGuard};

const SHARDS: usize = 64;
/// A key with its ordinal in a table that is between half full and full, plus its name.
const BYTES_PER_KEY: u64 = 28 + 8;
/// Names are in chunks: growing never moves existing ones.
const CHUNK: usize = 4_096;

pub struct Ordinals {
    shards: Vec<RwLock<HashMap<Key, u32>>>,
    /// Locked while a shard is, never the other way round.
    names: RwLock<Names>,
}

/// Keys, indexed by ordinal.
#[derive(Default)]
pub struct Names {
    chunks: Vec<Vec<Key>>,
    count: u32,
}

impl Names {
    #[inline]
    pub fn get(&self, ordinal: u32) -> Option<Key> {
        self.chunks.get(ordinal as usize / CHUNK)?.get(ordinal as usize % CHUNK).copied()
    }

    fn add(&mut self, key: Key) -> u32 {
        let ordinal = self.count;
        if ordinal as usize / CHUNK == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(key);
        }
        self.count += 1;
        ordinal
    }
}

impl Default for Ordinals {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), names: RwLock::default() }
    }
}

impl Ordinals {
    fn shard(&self, key: Key) -> &RwLock<HashMap<Key, u32>> {
        // Upper bits of a product: sequential ids and hashed ones both spread.
        let hash = (key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &self.shards[hash as usize % SHARDS]
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<u32> {
        self.shard(key).read().get(&key).copied()
    }

    pub fn get_or_add(&self, key: Key) -> u32 {
        if let Some(ordinal) = self.get(key) {
            return ordinal;
        }
        *self.shard(key).write().entry(key).or_insert_with(|| self.names.write().add(key))
    }

    /// To be dropped before anything is added.
    pub fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read()
    }

    /// Whether ordinals may soon run out: then the owner must clear everything.
    pub fn are_used_up(&self) -> bool {
        self.names().count > u32::MAX / 2
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.names().count) * BYTES_PER_KEY
    }

    /// Every key, indexed by ordinal.
    pub fn keys(&self) -> Vec<Key> {
        self.names().chunks.concat()
    }

    /// Ordinals start from zero again.
    pub fn clear(&self) {
        // Under all locks: an ordinal read before must not be used after, where it means another key.
        let mut shards: Vec<_> = self.shards.iter().map(RwLock::write).collect();
        for shard in &mut shards {
            **shard = HashMap::new();
        }
        *self.names.write() = Names::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_ordinal_until_everything_is_cleared() {
        let ordinals = Ordinals::default();
        // More than a chunk of names.
        let keys = || (-5_000..5_000).map(Key);
        let given: Vec<u32> = keys().map(|key| ordinals.get_or_add(key)).collect();
        assert_eq!(given, (0..10_000).collect::<Vec<_>>());
        for (key, ordinal) in keys().zip(&given) {
            assert_eq!((ordinals.get(key), ordinals.get_or_add(key)), (Some(*ordinal), *ordinal));
            assert_eq!(ordinals.names().get(*ordinal), Some(key));
        }
        assert!(ordinals.keys().into_iter().eq(keys()));
        assert_eq!((ordinals.get(Key(5_000)), ordinals.names().get(10_000)), (None, None));
        assert_eq!(ordinals.bytes(), 10_000 * BYTES_PER_KEY);
        ordinals.clear();
        assert_eq!((ordinals.get(Key(0)), ordinals.bytes(), ordinals.keys().len()), (None, 0, 0));
        assert_eq!(ordinals.names().get(0), None);
        assert_eq!((ordinals.get_or_add(Key(7)), ordinals.names().get(0)), (0, Some(Key(7))));
    }

    #[test]
    fn keys_and_ordinals_agree_while_everything_is_cleared() {
        let ordinals = Ordinals::default();
        std::thread::scope(|scope| {
            for from in [0, 500] {
                let ordinals = &ordinals;
                scope.spawn(move || {
                    for round in 0..40_000 {
                        ordinals.get_or_add(Key(from + round % 1_000));
                    }
                });
            }
            for _ in 0..200 {
                ordinals.clear();
                std::thread::yield_now();
            }
        });
        let names = ordinals.keys();
        for key in (0..1_500).map(Key) {
            let ordinal = ordinals.get(key);
            assert_eq!(ordinal.map(|ordinal| names[ordinal as usize]), ordinal.map(|_| key));
        }
        assert!((0..).zip(&names).all(|(ordinal, key)| ordinals.get(*key) == Some(ordinal)));
    }
}
