//! Follow quotas of each actor, and when their edges ended lately. All of it is in memory, and in each checkpoint,
//! except for actors whose quota is full again.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use entourage_model::{Cause, EdgeChange, Ended, Key, Millis, Moments, Quota, QuotaChange, Version};
use hashbrown::HashMap;
use parking_lot::RwLock;

use crate::codec::{Corrupt, Reader, put_bytes, put_signed, put_varint};

const SHARDS: usize = 64;
/// Actors are kept for this long after their quota is full: callers' clocks may differ from this one.
const KEPT_MILLIS: u64 = 60 * 60 * 1_000;

pub(crate) struct Quotas {
    shards: Vec<RwLock<HashMap<Key, Actor>>>,
    actors: AtomicU64,
    /// Actors, and ended edges.
    entries: AtomicU64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            actors: AtomicU64::new(0),
            entries: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default, PartialEq)]
struct Actor {
    quota: Quota,
    /// By target.
    ends: BTreeMap<Key, Ends>,
}

impl Actor {
    fn entries(&self) -> u64 {
        1 + self.ends.len() as u64
    }
}

#[derive(Debug, Default, PartialEq)]
struct Ends {
    /// The log may repeat ends that the checkpoint has.
    newest: Version,
    moments: Moments,
}

/// The end that a change counts for its edge, if any. Erasures do not count.
pub(crate) fn flip(change: &EdgeChange) -> Option<Ended> {
    Ended::of(change).filter(|ended| ended.cause != Cause::Erase)
}

impl Quotas {
    const fn shard(&self, key: Key) -> usize {
        ((key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SHARDS
    }

    pub(crate) fn quota(&self, actor: Key) -> Quota {
        let shard = self.shards[self.shard(actor)].read();
        shard.get(&actor).map(|actor| actor.quota.clone()).unwrap_or_default()
    }

    pub(crate) fn ends(&self, follower: Key, target: Key) -> Moments {
        let shard = self.shards[self.shard(follower)].read();
        let ends = shard.get(&follower).and_then(|actor| actor.ends.get(&target));
        ends.map(|ends| ends.moments.clone()).unwrap_or_default()
    }

    pub(crate) fn put(&self, change: &QuotaChange) {
        let mut shard = self.shards[self.shard(change.actor)].write();
        self.actor(&mut shard, change.actor).quota = change.after.clone();
    }

    pub(crate) fn flipped(&self, follower: Key, ended: &Ended) {
        let mut shard = self.shards[self.shard(follower)].write();
        let ends = self.actor(&mut shard, follower).ends.entry(ended.target).or_insert_with(|| {
            self.entries.fetch_add(1, Ordering::Relaxed);
            Ends::default()
        });
        if ends.newest < ended.ended {
            ends.newest = ended.ended;
            ends.moments.push_end(ended.ended.millis());
        }
    }

    fn actor<'a>(&self, shard: &'a mut HashMap<Key, Actor>, key: Key) -> &'a mut Actor {
        shard.entry(key).or_insert_with(|| {
            self.actors.fetch_add(1, Ordering::Relaxed);
            self.entries.fetch_add(1, Ordering::Relaxed);
            Actor::default()
        })
    }

    pub(crate) fn erase(&self, key: Key) {
        if let Some(gone) = self.shards[self.shard(key)].write().remove(&key) {
            self.actors.fetch_sub(1, Ordering::Relaxed);
            self.entries.fetch_sub(gone.entries(), Ordering::Relaxed);
        }
    }

    /// Number of actors.
    pub(crate) fn len(&self) -> u64 {
        self.actors.load(Ordering::Relaxed)
    }

    /// Estimated bytes.
    pub(crate) fn memory_estimate(&self) -> u64 {
        self.entries.load(Ordering::Relaxed) * 120
    }

    /// Drops actors whose quota is full again, and encodes the rest.
    pub(crate) fn encode(&self, now: Millis) -> Vec<u8> {
        let now = Millis::from_since_2000(now.since_2000().saturating_sub(KEPT_MILLIS));
        let mut bytes = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.write();
            let (actors, before) = (shard.len(), shard.values().map(Actor::entries).sum::<u64>());
            shard.retain(|_, actor| {
                actor.ends.retain(|_, ends| !ends.moments.are_ends_past(now));
                !actor.ends.is_empty() || !actor.quota.is_idle(now)
            });
            let after: u64 = shard.values().map(Actor::entries).sum();
            self.actors.fetch_sub((actors - shard.len()) as u64, Ordering::Relaxed);
            self.entries.fetch_sub(before - after, Ordering::Relaxed);
            for (key, actor) in &*shard {
                put_signed(&mut bytes, key.0);
                put_bytes(&mut bytes, &actor.quota.to_bytes());
                put_varint(&mut bytes, actor.ends.len() as u64);
                for (target, ends) in &actor.ends {
                    put_signed(&mut bytes, target.0);
                    put_varint(&mut bytes, ends.newest.bits());
                    put_bytes(&mut bytes, &ends.moments.to_bytes());
                }
            }
        }
        bytes
    }

    /// Loads what [`Self::encode`] wrote.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<(), Corrupt> {
        let mut reader = Reader::new(bytes);
        while reader.left() > 0 {
            let key = Key(reader.signed()?);
            let quota = Quota::from_bytes(reader.bytes()?).ok_or(Corrupt("quota"))?;
            let mut actor = Actor { quota, ends: BTreeMap::new() };
            for _ in 0..reader.length()? {
                let target = Key(reader.signed()?);
                let newest = Version::from_bits(reader.varint()?);
                let moments = Moments::from_bytes(reader.bytes()?).ok_or(Corrupt("ends of an edge"))?;
                actor.ends.insert(target, Ends { newest, moments });
            }
            self.actors.fetch_add(1, Ordering::Relaxed);
            self.entries.fetch_add(actor.entries(), Ordering::Relaxed);
            self.shards[self.shard(key)].write().insert(key, actor);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{FollowLimits, State};

    use super::*;

    const NOW: Millis = Millis::from_since_2000(800_000_000_000);

    fn ended(at: Millis, number: u16) -> Ended {
        let (ended, position) = (Version::new(at, 0, number), Version::ZERO);
        Ended {
            target: Key(7),
            state: State::Active,
            quiet: false,
            accepted: false,
            position,
            ended,
            cause: Cause::Follower,
        }
    }

    fn used(quotas: &Quotas, actor: Key) {
        let limits = FollowLimits { per_hour: 60, ..FollowLimits::none(NOW) };
        let after = quotas.quota(actor).take(&limits).unwrap();
        quotas.put(&QuotaChange { actor, after });
    }

    #[test]
    fn they_read_back_and_whoever_has_everything_left_is_forgotten() {
        let quotas = Quotas::default();
        for actor in -5..5 {
            used(&quotas, Key(actor));
            used(&quotas, Key(actor));
        }
        quotas.flipped(Key(-5), &ended(NOW, 1));
        quotas.flipped(Key(-5), &ended(NOW, 1));
        quotas.flipped(Key(20), &ended(NOW, 2));
        let again = Quotas::default();
        again.open(&quotas.encode(NOW)).unwrap();
        for actor in (-5..5).map(Key).chain([Key(20)]) {
            assert_eq!(again.quota(actor), quotas.quota(actor));
            assert_eq!(again.ends(actor, Key(7)), quotas.ends(actor, Key(7)));
        }
        // An end that the log repeats is not counted again.
        again.flipped(Key(-5), &ended(NOW, 1));
        assert_eq!(again.ends(Key(-5), Key(7)).len(), 1);
        again.flipped(Key(-5), &ended(NOW, 3));
        assert_eq!(again.ends(Key(-5), Key(7)).iter().map(|(_, count)| count).sum::<u32>(), 2);
        again.erase(Key(-5));
        assert_eq!((again.quota(Key(-5)), again.ends(Key(-5), Key(7)).len()), (Quota::default(), 0));
        assert!(!again.encode(NOW.plus(60 * 60 * 1_000)).is_empty());
        assert_ne!(again.quota(Key(1)), Quota::default());
        again.encode(NOW.plus(2 * 60 * 60 * 1_000));
        assert_eq!(again.quota(Key(1)), Quota::default(), "everything has been left for an hour");
        assert_eq!(again.ends(Key(20), Key(7)).len(), 1);
        assert!(again.encode(NOW.plus(26 * 60 * 60 * 1_000)).is_empty());
        assert_eq!((again.len(), again.memory_estimate()), (0, 0));
    }

    #[test]
    fn bytes_that_were_cut_short_are_damage() {
        let quotas = Quotas::default();
        used(&quotas, Key(1));
        quotas.flipped(Key(1), &ended(NOW, 1));
        let bytes = quotas.encode(NOW);
        for length in 1..bytes.len() {
            assert!(Quotas::default().open(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
        }
    }
}
