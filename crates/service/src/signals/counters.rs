//! Decaying counters in bounded memory: how often each user looked at others.

use std::collections::{HashMap, HashSet};

use entourage_model::{Key, Millis};
use xxhash_rust::xxh3::xxh3_64;

use super::SignalRules;

/// How many people one viewer's counters are about; the weakest is replaced.
pub const VIEWED_MAX: usize = 100;
/// Counters are saved in this many records: those of one viewer in the same.
pub(super) const CHUNKS: u16 = 1_024;
/// A counter halves this often before it is too old.
const HALVINGS: f64 = 5.0;
/// When there are too many counters, one part in this many goes at once: the weakest.
const EVICTED_PART: usize = 10;
/// How many erased users wait until their counters are looked for.
const GONE_MAX: usize = 1_000;

/// One viewer's interest in one other user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counter {
    pub(super) viewed: Key,
    /// The binary logarithm of the weight that it would have had in the year 2000, decaying backwards: of two counters
    /// the same one is stronger at any time, so nothing has to be touched as time passes.
    pub(super) level: f64,
    /// Of its last signal, in seconds since 2000.
    pub(super) last: u32,
}

/// Viewers with all their counters.
pub(super) type Chunk = Vec<(Key, Vec<Counter>)>;

#[derive(Debug)]
pub(super) struct Counters {
    half_life_millis: f64,
    kept_seconds: u32,
    most: usize,
    viewers: HashMap<Key, Vec<Counter>>,
    total: usize,
    /// Erased users; nothing of them is shown, and they go with the next sweep.
    gone: HashSet<Key>,
    /// Chunks that differ from what was saved.
    changed: HashSet<u16>,
}

pub(super) fn chunk_of(viewer: Key) -> u16 {
    // The remainder fits.
    (xxh3_64(&viewer.0.to_be_bytes()) % u64::from(CHUNKS)) as u16
}

pub(super) fn seconds(time: Millis) -> u32 {
    u32::try_from(time.since_2000() / 1_000).unwrap_or(u32::MAX)
}

/// log2(2^a + 2^b), without leaving the range of a float.
fn sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (1.0 + (low - high).exp2()).log2()
}

impl Counters {
    pub(super) fn new(rules: &SignalRules) -> Self {
        let kept_millis = rules.kept.as_secs_f64() * 1_000.0;
        Self {
            half_life_millis: (kept_millis / HALVINGS).max(1.0),
            kept_seconds: u32::try_from(rules.kept.as_secs()).unwrap_or(u32::MAX),
            most: rules.counters_max,
            viewers: HashMap::new(),
            total: 0,
            gone: HashSet::new(),
            changed: HashSet::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.total
    }

    pub(super) fn show(&self) {
        metrics::gauge!("entourage_signal_counters").set(self.total as f64);
    }

    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn is_old(&self, counter: &Counter, now: u32) -> bool {
        now.saturating_sub(counter.last) > self.kept_seconds
    }

    /// Whether a signal of this time still counts.
    pub(super) fn counts(&self, at: Millis, now: Millis) -> bool {
        seconds(now).saturating_sub(seconds(at)) <= self.kept_seconds
    }

    /// Signals of one viewer about one other user, `count` of them at a time.
    pub(super) fn add(&mut self, viewer: Key, viewed: Key, count: u32, at: Millis) {
        let level = f64::from(count).log2() + at.since_2000() as f64 / self.half_life_millis;
        self.put(viewer, Counter { viewed, level, last: seconds(at) }, sum);
        self.changed.insert(chunk_of(viewer));
    }

    /// Adds what was saved: `merge` says what comes of two levels.
    pub(super) fn put(&mut self, viewer: Key, counter: Counter, merge: impl Fn(f64, f64) -> f64) {
        if self.gone.contains(&viewer) || self.gone.contains(&counter.viewed) {
            self.sweep();
        }
        // Most have few: without this room is made for four.
        let own = self.viewers.entry(viewer).or_insert_with(|| Vec::with_capacity(1));
        if let Some(known) = own.iter_mut().find(|known| known.viewed == counter.viewed) {
            known.level = merge(known.level, counter.level);
            known.last = known.last.max(counter.last);
            return;
        }
        if own.len() < VIEWED_MAX {
            own.push(counter);
            self.total += 1;
        } else if let Some(weakest) = own.iter_mut().min_by(|a, b| strength(a, b)) {
            *weakest = counter;
        }
        if self.total > self.most {
            self.evict();
        }
    }

    /// The strongest first, with their weight at this moment.
    pub(super) fn viewed(&self, viewer: Key, limit: usize, now: Millis) -> Vec<(Key, f64)> {
        if self.gone.contains(&viewer) {
            return Vec::new();
        }
        let Some(own) = self.viewers.get(&viewer) else { return Vec::new() };
        let is_shown = |counter: &&Counter| !self.is_old(counter, seconds(now)) && !self.gone.contains(&counter.viewed);
        let mut shown: Vec<&Counter> = own.iter().filter(is_shown).collect();
        shown.sort_by(|a, b| strength(b, a));
        let weight = |counter: &Counter| (counter.level - now.since_2000() as f64 / self.half_life_millis).exp2();
        shown.into_iter().take(limit).map(|counter| (counter.viewed, weight(counter))).collect()
    }

    pub(super) fn forget(&mut self, user: Key) {
        if self.total == 0 {
            return;
        }
        self.gone.insert(user);
        if self.gone.len() > GONE_MAX {
            self.sweep();
        }
    }

    /// Takes away what the erased left behind.
    fn sweep(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        self.retain(|viewer, counter| !gone.contains(&viewer) && !gone.contains(&counter.viewed));
    }

    /// Takes away what is too old, and what the erased left behind.
    pub(super) fn clean(&mut self, now: Millis) {
        self.sweep();
        let (now, kept) = (seconds(now), self.kept_seconds);
        self.retain(|_, counter| now.saturating_sub(counter.last) <= kept);
    }

    fn evict(&mut self) {
        let mut levels: Vec<f64> = self.viewers.values().flatten().map(|counter| counter.level).collect();
        let weakest = levels.len().div_ceil(EVICTED_PART).min(levels.len().saturating_sub(1));
        let (_, bar, _) = levels.select_nth_unstable_by(weakest, f64::total_cmp);
        let bar = *bar;
        // All that are stronger stay, and of equal ones as many as there is room for.
        let stronger = levels.iter().filter(|level| **level > bar).count();
        let mut left = (levels.len() - weakest).min(self.most).saturating_sub(stronger);
        self.retain(|_, counter| {
            let is_among_equals = counter.level == bar && left > 0;
            left -= usize::from(is_among_equals);
            counter.level > bar || is_among_equals
        });
    }

    fn retain(&mut self, mut stays: impl FnMut(Key, &Counter) -> bool) {
        let (changed, total) = (&mut self.changed, &mut self.total);
        self.viewers.retain(|viewer, own| {
            let before = own.len();
            own.retain(|counter| stays(*viewer, counter));
            if own.len() < before {
                changed.insert(chunk_of(*viewer));
                *total -= before - own.len();
            }
            !own.is_empty()
        });
    }

    /// The chunks that have to be saved, with all their counters; they count as saved from now on.
    pub(super) fn take_changed(&mut self, most: usize) -> Vec<(u16, Chunk)> {
        let mut numbers: Vec<u16> = self.changed.iter().copied().collect();
        numbers.sort_unstable();
        numbers.truncate(most);
        let mut chunks: HashMap<u16, Chunk> = numbers.iter().map(|number| (*number, Vec::new())).collect();
        for (viewer, own) in &self.viewers {
            if let Some(chunk) = chunks.get_mut(&chunk_of(*viewer)) {
                chunk.push((*viewer, own.clone()));
            }
        }
        for number in &numbers {
            self.changed.remove(number);
        }
        let mut chunks: Vec<_> = chunks.into_iter().collect();
        chunks.sort_unstable_by_key(|(number, _)| *number);
        chunks
    }

    /// What there is of these viewers.
    pub(super) fn of(&self, viewers: impl IntoIterator<Item = Key>) -> Chunk {
        viewers.into_iter().filter_map(|viewer| Some((viewer, self.viewers.get(&viewer)?.clone()))).collect()
    }

    pub(super) fn mark_changed(&mut self, chunk: u16) {
        self.changed.insert(chunk);
    }
}

/// The order of two counters of one viewer.
fn strength(a: &Counter, b: &Counter) -> std::cmp::Ordering {
    a.level.total_cmp(&b.level).then(b.viewed.cmp(&a.viewed))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;

    fn rules(counters_max: usize) -> SignalRules {
        SignalRules { kept: Duration::from_millis(30 * DAY_MILLIS), counters_max }
    }

    fn day(number: u64) -> Millis {
        Millis::from_since_2000(9_000 * DAY_MILLIS + number * DAY_MILLIS)
    }

    #[test]
    fn weights_halve_and_end() {
        let mut counters = Counters::new(&rules(100));
        counters.add(Key(1), Key(2), 4, day(0));
        counters.add(Key(1), Key(3), 1, day(6));
        let rounded = |now| -> Vec<(i64, f64)> {
            let found = counters.viewed(Key(1), 9, now);
            found.into_iter().map(|(key, weight)| (key.0, (weight * 1_000.0).round() / 1_000.0)).collect()
        };
        assert_eq!(rounded(day(0)), [(2, 4.0), (3, 2.0)]);
        assert_eq!(rounded(day(6)), [(2, 2.0), (3, 1.0)]);
        assert_eq!(rounded(day(30)), [(2, 0.125), (3, 0.063)]);
        assert_eq!(rounded(day(31)), [(3, 0.056)], "the last signal was too long ago");
        assert_eq!(rounded(day(37)), []);
        let mut counters = Counters::new(&rules(100));
        for _ in 0..3 {
            counters.add(Key(1), Key(2), 1, day(0));
        }
        let weight = counters.viewed(Key(1), 1, day(0))[0].1;
        assert!((weight - 3.0).abs() < 1e-6, "{weight}");
    }

    #[test]
    fn ties_are_in_the_order_of_keys() {
        let mut counters = Counters::new(&rules(100));
        for viewed in [5, -2, 9, 3] {
            counters.add(Key(1), Key(viewed), 1, day(0));
        }
        let found: Vec<i64> = counters.viewed(Key(1), 3, day(0)).into_iter().map(|(key, _)| key.0).collect();
        assert_eq!(found, [-2, 3, 5]);
    }

    #[test]
    fn a_flood_stays_within_its_bounds_and_the_strong_stay() {
        let mut counters = Counters::new(&rules(1_000));
        for viewed in 0..10 {
            counters.add(Key(1), Key(viewed), 1_000, day(1));
        }
        for viewer in 0..500 {
            for viewed in 0..300 {
                counters.add(Key(viewer), Key(1_000 + viewed), 1, day(0));
                assert!(counters.len() <= 1_000);
            }
        }
        assert!(counters.viewers.values().all(|own| own.len() <= VIEWED_MAX && !own.is_empty()));
        assert_eq!(counters.viewers.values().map(Vec::len).sum::<usize>(), counters.len());
        let found: Vec<i64> = counters.viewed(Key(1), 10, day(1)).into_iter().map(|(key, _)| key.0).collect();
        assert!(found.into_iter().eq(0..10));
    }

    #[test]
    fn the_erased_are_forgotten_at_once_and_begin_anew() {
        let mut counters = Counters::new(&rules(100));
        for (viewer, viewed) in [(1, 2), (2, 1), (1, 3), (3, 1)] {
            counters.add(Key(viewer), Key(viewed), 8, day(0));
        }
        counters.forget(Key(2));
        assert_eq!(counters.viewed(Key(1), 9, day(0)), [(Key(3), 8.0)]);
        assert_eq!(counters.viewed(Key(2), 9, day(0)), []);
        counters.add(Key(1), Key(2), 1, day(0));
        assert_eq!(counters.viewed(Key(1), 9, day(0)).len(), 2);
        assert_eq!(counters.viewed(Key(1), 9, day(0))[1], (Key(2), 1.0), "nothing of the one before");
        counters.clean(day(40));
        assert_eq!((counters.len(), counters.viewers.len()), (0, 0));
    }
}
