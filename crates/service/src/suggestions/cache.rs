//! Answers that were made a moment ago, by viewer. An answer counts as long as nothing happened to its viewer, which the
//! outcomes of this process tell, and for a moment only, because what others do is not followed.

use std::{
    collections::VecDeque,
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Change, Key, Outcome, Space};
use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::Mutex;

use super::{
    RankerName,
    source::{Asked, Candidate, Evidence},
};

/// How long an answer counts at most. What others do shows within two seconds, the time an answer takes included.
pub(super) const MAX_AGE: Duration = Duration::from_millis(1_500);
/// About how much memory answers take in all.
pub const CACHE_BYTES_MAX: usize = 64 << 20;
const SHARDS: usize = 16;
const SHARD_BYTES_MAX: usize = CACHE_BYTES_MAX / SHARDS;
/// What an answer takes besides its candidates.
const ENTRY_BYTES: usize = 160;
/// Viewers share this many versions: a change of one makes the answers of a few others anew as well.
const VERSIONS: usize = 1 << 14;

pub(crate) type Answer = Arc<[Candidate]>;

/// Tells whether something happened to a viewer since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewerVersion(u64);

pub(crate) struct Cache {
    /// Nobody has asked yet: then nothing is kept up to date.
    wanted: AtomicBool,
    versions: Box<[AtomicU64]>,
    shards: [Mutex<Shard>; SHARDS],
    hasher: DefaultHashBuilder,
}

#[derive(Default)]
struct Shard {
    answers: HashMap<(Key, RankerName), Entry>,
    /// In the order of arrival, the oldest first. Those whose entry was replaced since are passed by.
    arrivals: VecDeque<((Key, RankerName), Instant)>,
    bytes: usize,
}

struct Entry {
    answer: Answer,
    version: ViewerVersion,
    made: Instant,
    bytes: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            versions: (0..VERSIONS).map(|_| AtomicU64::new(0)).collect(),
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl Cache {
    /// Called for every commit, before its caller knows of it.
    pub(crate) fn saw(&self, outcome: &Outcome) {
        if !self.wanted.load(Ordering::SeqCst) {
            return;
        }
        for change in &outcome.changes {
            match change {
                Change::Edge(edge) => [edge.follower, edge.target].into_iter().for_each(|key| self.touch(key)),
                Change::User(user) => self.touch(user.key),
                Change::Record(record) if matches!(record.space, Space::Dismissed | Space::Suggested) => {
                    self.touch(record.owner);
                }
                Change::Record(_) => {}
            }
        }
    }

    fn touch(&self, viewer: Key) {
        if let Some(version) = self.version_of(viewer) {
            version.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Asked before an answer is made: one that was overtaken meanwhile never counts.
    pub(crate) fn version(&self, viewer: Key) -> ViewerVersion {
        self.wanted.store(true, Ordering::SeqCst);
        ViewerVersion(self.version_of(viewer).map_or(0, |version| version.load(Ordering::SeqCst)))
    }

    fn version_of(&self, viewer: Key) -> Option<&AtomicU64> {
        self.versions.get(self.hasher.hash_one(viewer) as usize % VERSIONS)
    }

    pub(crate) fn get(&self, asked: &Asked, max_age: Duration) -> Option<Answer> {
        let version = self.version(asked.viewer);
        let shard = self.shard(asked.viewer)?.lock();
        let entry = shard.answers.get(&(asked.viewer, asked.ranker))?;
        (entry.version == version && entry.made.elapsed() < max_age.min(MAX_AGE)).then(|| Arc::clone(&entry.answer))
    }

    /// `made` is when the answer was begun.
    pub(crate) fn put(&self, asked: &Asked, version: ViewerVersion, made: Instant, answer: &Answer) {
        let Some(shard) = self.shard(asked.viewer) else { return };
        let bytes = ENTRY_BYTES + answer.iter().map(size).sum::<usize>();
        shard.lock().put((asked.viewer, asked.ranker), Entry { answer: Arc::clone(answer), version, made, bytes });
    }

    fn shard(&self, viewer: Key) -> Option<&Mutex<Shard>> {
        self.shards.get((self.hasher.hash_one(viewer) >> 32) as usize % SHARDS)
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }
}

impl Shard {
    fn put(&mut self, key: (Key, RankerName), entry: Entry) {
        self.bytes += entry.bytes;
        self.arrivals.push_back((key, entry.made));
        if let Some(before) = self.answers.insert(key, entry) {
            self.bytes -= before.bytes;
        }
        while let Some(&(key, made)) = self.arrivals.front()
            && (self.bytes > SHARD_BYTES_MAX || made.elapsed() >= MAX_AGE)
        {
            self.arrivals.pop_front();
            if self.answers.get(&key).is_some_and(|entry| entry.made == made)
                && let Some(entry) = self.answers.remove(&key)
            {
                self.bytes -= entry.bytes;
            }
        }
    }
}

fn size(candidate: &Candidate) -> usize {
    let named = match &candidate.evidence {
        Evidence::FollowedBy { first, .. } => first.capacity() * size_of::<Key>(),
        _ => 0,
    };
    size_of::<Candidate>() + named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(viewer: i64) -> Asked {
        Asked { viewer: Key(viewer), ranker: RankerName::Common }
    }

    fn answer(candidates: i64) -> Answer {
        let candidate = |key| Candidate { key: Key(key), weight: 1, evidence: Evidence::Popular };
        (0..candidates).map(candidate).collect()
    }

    #[test]
    fn an_answer_counts_until_something_happens_to_its_viewer() {
        let cache = Cache::default();
        let version = cache.version(Key(1));
        cache.put(&asked(1), version, Instant::now(), &answer(3));
        assert_eq!(cache.get(&asked(1), MAX_AGE), Some(answer(3)));
        assert_eq!(cache.get(&Asked { ranker: RankerName::Recent, ..asked(1) }, MAX_AGE), None);
        cache.touch(Key(1));
        assert_eq!(cache.get(&asked(1), MAX_AGE), None);
        // An answer that was begun before the change.
        cache.put(&asked(1), version, Instant::now(), &answer(3));
        assert_eq!(cache.get(&asked(1), MAX_AGE), None);
        cache.put(&asked(1), cache.version(Key(1)), Instant::now(), &answer(2));
        assert_eq!(cache.get(&asked(1), MAX_AGE), Some(answer(2)));
    }

    #[test]
    fn an_old_answer_does_not_count() {
        let cache = Cache::default();
        let Some(long_ago) = Instant::now().checked_sub(MAX_AGE) else { return };
        cache.put(&asked(1), cache.version(Key(1)), long_ago, &answer(3));
        assert_eq!(cache.get(&asked(1), MAX_AGE), None);
    }

    #[test]
    fn a_flood_of_viewers_stays_within_the_bound() {
        let cache = Cache::default();
        for viewer in 0..60_000 {
            cache.put(&asked(viewer), cache.version(Key(viewer)), Instant::now(), &answer(50));
        }
        assert!(cache.bytes() <= CACHE_BYTES_MAX);
        for shard in &cache.shards {
            let shard = shard.lock();
            assert_eq!(shard.bytes, shard.answers.values().map(|entry| entry.bytes).sum::<usize>());
            assert!(shard.arrivals.len() >= shard.answers.len());
        }
        // Again and again the same one: what it left behind goes as well.
        for _ in 0..10_000 {
            cache.put(&asked(7), cache.version(Key(7)), Instant::now(), &answer(50));
        }
        assert!(cache.bytes() <= CACHE_BYTES_MAX);
    }
}
