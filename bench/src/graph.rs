//! The measured graph: numeric users, the same number of follows each, targets by a power law.

use anyhow::{Result, ensure};
use entourage_model::{Key, Millis, Operation, Overwrite, UserId, UserPatch, Write};

use crate::random::{self, Random};

const SEED: u64 = 7;
/// Zipf's exponent: about half of all users follow the most followed one at 50 follows each.
const EXPONENT: f64 = 0.8;
pub(crate) const START: &str = "2024-01-01T00:00:00Z";
const SPAN_MILLIS: u64 = 2 * 365 * 24 * 60 * 60 * 1000;

/// Edges and users of a graph.
pub(crate) type Size = (u64, u32);

/// The graphs that figures are of.
pub(crate) const USUAL: [Size; 2] = [(10_000_000, 200_000), (10_000_000, 2_000_000)];
pub(crate) const LARGE: Size = (100_000_000, 2_000_000);

/// The order of the times of the imported edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Times {
    /// They rise through the file, which is grouped by follower.
    Rising,
    /// Every edge has a random time within the two years.
    Random,
}

pub(crate) struct Graph {
    pub(crate) users: u32,
    times: Times,
    start: Millis,
    follows_each: usize,
    /// Targets of user 0, of user 1, …
    targets: Vec<u32>,
}

impl Graph {
    pub(crate) fn new(edges: u64, users: u32, times: Times) -> Result<Self> {
        let follows_each = (edges / u64::from(users)) as usize;
        ensure!(follows_each > 0 && follows_each * 4 < users as usize, "{edges} edges do not fit {users} users");
        let mut by_rank: Vec<u32> = (0..users).collect();
        random::shuffle(&mut by_rank, SEED);
        let mut random = Random::new(SEED + 1);
        let mut targets: Vec<u32> = Vec::with_capacity(follows_each * users as usize);
        let spread = f64::from(users).powf(1.0 - EXPONENT) - 1.0;
        for follower in 0..users {
            let own = targets.len();
            while targets.len() < own + follows_each {
                let rank = (spread * random.fraction() + 1.0).powf(1.0 / (1.0 - EXPONENT)) as usize - 1;
                let target = by_rank[rank.min(by_rank.len() - 1)];
                if target != follower && !targets[own..].contains(&target) {
                    targets.push(target);
                }
            }
        }
        Ok(Self { users, times, start: Millis::parse_rfc3339(START)?, follows_each, targets })
    }

    pub(crate) fn edges(&self) -> u64 {
        self.targets.len() as u64
    }

    /// The account with the most followers, made by `import_celebrity`: an additional user.
    pub(crate) fn celebrity(&self) -> Key {
        Key(i64::from(self.users))
    }

    pub(crate) fn edge(&self, index: usize) -> (Key, Key) {
        (Key((index / self.follows_each) as i64), Key(i64::from(self.targets[index])))
    }

    pub(crate) fn follows(&self, follower: u32, target: u32) -> bool {
        let own = follower as usize * self.follows_each;
        self.targets[own..own + self.follows_each].contains(&target)
    }

    /// The edges of each user's followers, by their index.
    pub(crate) fn by_target(&self) -> Vec<Vec<u32>> {
        let mut edges = vec![Vec::new(); self.users as usize];
        for (index, target) in (0..).zip(&self.targets) {
            edges[*target as usize].push(index);
        }
        edges
    }

    /// When the edge at `index` of `count` was made.
    pub(crate) fn time(&self, index: usize, count: usize) -> Millis {
        let offset = match self.times {
            Times::Rising => return rising(self.start, index as u64, count as u64),
            Times::Random => random::scale(random::at(SEED + 2, index as u64), SPAN_MILLIS),
        };
        self.start.plus(offset)
    }

    pub(crate) fn user_writes(&self, from: u32, count: u32) -> Vec<Write> {
        (from..(from + count).min(self.users + 1)).map(put_user).collect()
    }

    pub(crate) fn edge_writes(&self, from: usize, count: usize) -> Vec<Write> {
        let end = (from + count).min(self.targets.len());
        let write = |index| {
            let (follower, target) = self.edge(index);
            import(follower, target, self.time(index, self.targets.len()))
        };
        (from..end).map(write).collect()
    }
}

/// When the edge at `index` of `count` was made if their times rise.
pub(crate) fn rising(start: Millis, index: u64, count: u64) -> Millis {
    start.plus((u128::from(index) * u128::from(SPAN_MILLIS) / u128::from(count)) as u64)
}

pub(crate) fn put_user(number: u32) -> Write {
    let key = Key(i64::from(number));
    let (id, patch) = (UserId::from(key.0), UserPatch::default());
    Operation::PutUser { key, id, patch, overwrite: Overwrite::Keep }.into()
}

pub(crate) fn import(follower: Key, target: Key, at: Millis) -> Write {
    Operation::Import { follower, target, at, quiet: false }.into()
}

pub(crate) fn follow(follower: Key, target: Key) -> Write {
    Operation::Follow { follower, target, quiet: Some(false), cap: Some(10_000_000), park: false }.into()
}
