//! Signatures of what accounts follow, in bounded memory: accounts with nearly the same targets mostly share one.

use std::{cmp::Reverse, collections::HashMap};

use entourage_model::Key;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const BANDS: u64 = 4;
/// Signatures that are remembered: with their accounts some 100 MiB at the most.
const SIGNATURES_MAX: usize = 262_144;
/// How many are left when there were too many: then it takes a while until there are again.
const SIGNATURES_KEPT: usize = SIGNATURES_MAX / 4 * 3;
/// Accounts of one signature.
const GROUP_MAX: usize = 256;
/// Signatures that are looked at in one run, the largest first.
const GROUPS_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct Signatures {
    groups: hashbrown::HashMap<u64, Vec<Key>>,
}

impl Signatures {
    pub(super) fn add(&mut self, account: Key, targets: &[Key]) {
        for band in 0..BANDS {
            let hashes = targets.iter().map(|target| xxh3_64_with_seed(&target.0.to_be_bytes(), band));
            let (one, other) = hashes.fold((u64::MAX, u64::MAX), |(one, other), hash| match hash {
                hash if hash < one => (hash, one),
                hash => (one, other.min(hash)),
            });
            let signature = one.rotate_left(17) ^ other ^ band;
            if self.groups.len() >= SIGNATURES_MAX && !self.groups.contains_key(&signature) {
                self.make_room();
                // A store of rings alone: what is known stays.
                if self.groups.len() >= SIGNATURES_MAX {
                    return;
                }
            }
            let accounts = self.groups.entry(signature).or_insert_with(|| Vec::with_capacity(1));
            if accounts.len() < GROUP_MAX {
                accounts.push(account);
            }
        }
    }

    /// Those of one account go first, then those of few.
    fn make_room(&mut self) {
        let mut few = 1;
        while self.groups.len() > SIGNATURES_KEPT && few < GROUP_MAX {
            self.groups.retain(|_, accounts| accounts.len() > few);
            few *= 2;
        }
    }

    /// The accounts of each signature that so many share.
    pub(super) fn groups(self, least: usize) -> Groups {
        let mut groups: Vec<Vec<Key>> = self.groups.into_values().filter(|accounts| accounts.len() >= least).collect();
        groups.sort_unstable_by_key(|accounts| (Reverse(accounts.len()), accounts.first().copied()));
        groups.truncate(GROUPS_MAX);
        Groups::new(groups)
    }
}

/// The largest first.
pub(super) struct Groups {
    groups: Vec<Vec<Key>>,
    /// In which of them an account is: one for each band, at most.
    places: HashMap<Key, Vec<usize>>,
}

impl Groups {
    fn new(groups: Vec<Vec<Key>>) -> Self {
        let mut places: HashMap<Key, Vec<usize>> = HashMap::new();
        for (place, group) in groups.iter().enumerate() {
            for account in group {
                places.entry(*account).or_default().push(place);
            }
        }
        Self { groups, places }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[Key]> {
        self.groups.iter().map(Vec::as_slice)
    }

    /// Groups of which these accounts are the given part, or more.
    pub(super) fn of_these(&self, accounts: &[Key], percent: usize) -> impl Iterator<Item = &[Key]> {
        let mut shared: HashMap<usize, usize> = HashMap::new();
        for place in accounts.iter().filter_map(|account| self.places.get(account)).flatten() {
            *shared.entry(*place).or_default() += 1;
        }
        let groups = shared.into_iter().filter_map(|(place, shared)| Some((self.groups.get(place)?, shared)));
        groups.filter(move |(group, shared)| shared * 100 >= group.len() * percent).map(|(group, _)| group.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(of: i64) -> Vec<Key> {
        (0..6).map(|target| Key(1_000 + of * 6 + target)).collect()
    }

    #[test]
    fn signatures_stay_within_their_bound_and_keep_what_is_shared() {
        let mut signatures = Signatures::default();
        let ring: Vec<Key> = (1..30).map(Key).collect();
        (0..40).for_each(|account| signatures.add(Key(-1 - account), &ring));
        for account in 0..100_000 {
            signatures.add(Key(account), &targets(account));
            assert!(signatures.groups.len() <= SIGNATURES_MAX);
        }
        let groups = signatures.groups(10);
        assert!(groups.groups.len() <= BANDS as usize && groups.iter().all(|accounts| accounts.len() == 40));
    }

    /// Were they looked through for every new one, this would not end.
    #[test]
    fn a_store_of_pairs_is_looked_through_seldom() {
        let mut signatures = Signatures::default();
        let ring: Vec<Key> = (1..30).map(Key).collect();
        (0..40).for_each(|account| signatures.add(Key(-1 - account), &ring));
        for account in 0..400_000 {
            signatures.add(Key(account), &targets(account / 2));
        }
        assert!(signatures.groups.len() <= SIGNATURES_MAX);
        assert!(signatures.groups(10).iter().any(|accounts| accounts.len() == 40));
    }

    #[test]
    fn groups_are_found_by_those_whom_they_share() {
        let keys = |range: std::ops::Range<i64>| range.map(Key).collect::<Vec<Key>>();
        let groups = Groups::new(vec![keys(0..20), keys(10..25), keys(100..110)]);
        let found = |percent| groups.of_these(&keys(0..20), percent).map(<[Key]>::len).collect::<Vec<_>>();
        let sorted = |mut lengths: Vec<usize>| {
            lengths.sort_unstable();
            lengths
        };
        assert_eq!(sorted(found(50)), [15, 20]);
        assert_eq!(found(70), [20]);
    }
}
