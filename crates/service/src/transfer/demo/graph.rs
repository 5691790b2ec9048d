//! Who follows, blocks, mutes and asks whom in the demo: drawn from one seed, the same every time.

use std::collections::HashSet;

use entourage_model::{Millis, Version};

use super::random::Random;

const SEED: u64 = 0x00e7_7000;
const FOLLOWS_MIN: u64 = 8;
const FOLLOWS_MAX: u64 = 32;
const QUIET_ONE_IN: u64 = 100;
const PAIRS_OF_EACH_KIND: usize = 200;
const GROUP_OWNERS: usize = 100;
const GROUP_MEMBERS: usize = 12;
/// 2023-01-01 in Unix milliseconds; people join within a year and follow within two more.
const START_UNIX_MILLIS: i64 = 1_672_531_200_000;
const YEAR_MILLIS: u64 = 365 * 86_400_000;

pub(super) struct Follow {
    pub(super) follower: usize,
    pub(super) target: usize,
    pub(super) at: Millis,
    pub(super) quiet: bool,
}

/// People among those whom its owner follows.
pub(super) struct Group {
    pub(super) owner: usize,
    pub(super) name: &'static str,
    pub(super) made: Version,
    pub(super) members: Vec<usize>,
}

pub(super) struct Graph {
    pub(super) follows: Vec<Follow>,
    pub(super) blocks: Vec<(usize, usize)>,
    pub(super) mutes: Vec<(usize, usize)>,
    pub(super) groups: Vec<Group>,
    /// Of people to private accounts that they do not follow.
    pub(super) requests: Vec<(usize, usize)>,
}

pub(super) const fn is_private(person: usize) -> bool {
    person % 20 == 7
}

pub(super) const fn hides_lists(person: usize) -> bool {
    person % 50 == 11
}

pub(super) fn registered_at(person: usize) -> Millis {
    let mut random = Random::new(SEED ^ (person as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Millis::from_unix(START_UNIX_MILLIS).plus(random.below(YEAR_MILLIS))
}

impl Graph {
    /// Among the first `people`; the smaller the number, the more followers.
    pub(super) fn new(people: usize) -> Self {
        let mut random = Random::new(SEED);
        let mut follows = Vec::new();
        let mut taken: HashSet<(usize, usize)> = HashSet::new();
        for follower in 0..people {
            for _ in 0..FOLLOWS_MIN + random.below(FOLLOWS_MAX - FOLLOWS_MIN + 1) {
                let target = random.rank(people);
                if target != follower && taken.insert((follower, target)) {
                    let since = registered_at(follower).max(registered_at(target));
                    let quiet = random.below(QUIET_ONE_IN) == 0 && !is_private(target);
                    follows.push(Follow { follower, target, at: since.plus(random.below(2 * YEAR_MILLIS)), quiet });
                }
            }
        }
        let mut strangers = |fits: fn(usize) -> bool| {
            let mut pairs = Vec::new();
            while pairs.len() < PAIRS_OF_EACH_KIND {
                let (one, other) = (random.below(people as u64) as usize, random.below(people as u64) as usize);
                // Nobody loses a follow by a block, so that every number here is what the lists will have.
                if one != other && fits(other) && !taken.contains(&(other, one)) && taken.insert((one, other)) {
                    pairs.push((one, other));
                }
            }
            pairs
        };
        let groups = groups(&follows);
        let (blocks, mutes, requests) = (strangers(|_| true), strangers(|_| true), strangers(is_private));
        Self { follows, blocks, mutes, groups, requests }
    }
}

/// The best known people sort those whom they followed first and last.
fn groups(follows: &[Follow]) -> Vec<Group> {
    let of_owner = follows.chunk_by(|one, other| one.follower == other.follower).take(GROUP_OWNERS);
    let pair = |own: &[Follow]| {
        let half = own.len().min(2 * GROUP_MEMBERS) / 2;
        let made = own.iter().map(|follow| follow.at).max().unwrap_or_default();
        let group = |name, later, members: &[Follow]| Group {
            owner: members.first().map_or(0, |follow| follow.follower),
            name,
            made: Version::of_millis(made.plus(later)),
            members: members.iter().map(|follow| follow.target).collect(),
        };
        [group("Friends", 0, &own[..half]), group("Work", 1, &own[own.len() - half..])]
    };
    of_owner.flat_map(pair).collect()
}
