//! One home: the truth of its users, their in-halves, their events, and the outbox.

use std::collections::{BTreeMap, VecDeque};

use entourage_model::{
    Buckets, Cause, EdgeValue, Event, Half, Key, Kind, Outcome, Sequence, Version, VersionClock, View as _,
};

use super::{
    commit::Head,
    inbound::{Inbound, Link},
};
use crate::Graph;

#[derive(Clone, Debug)]
pub struct Home {
    pub index: usize,
    /// One for each home: what the server keeps about its users lies here with them.
    pub buckets: Buckets,
    /// Users, their own edges, records, history and idempotency records.
    pub out: Graph,
    pub inbound: Inbound,
    /// Which person each own edge means.
    pub origins: BTreeMap<Link, Origin>,
    pub heads: BTreeMap<Key, Head>,
    /// Of all users.
    pub commits: u64,
    pub versions: VersionClock,
    pub events: VecDeque<Event>,
    /// The last event that is past retention.
    pub dropped: Sequence,
    pub outbox: VecDeque<Outgoing>,
    /// Halves of events up to here have been published.
    pub relayed: Sequence,
    /// Published halves below this offset have been applied.
    pub applied: u64,
    /// Blocks, or unblocks, that the home of the target may not have.
    pub unmirrored: BTreeMap<(Key, Key), Version>,
    /// What a block against one of this home's users ended here: the version of the block, and the commit.
    pub parted: BTreeMap<(Key, Key), (Version, Outcome)>,
    /// The last of the store's forks that this home went through.
    pub lineage: u64,
    /// Up to here it has republished what others saw of lost writes. `None`: it went back and is still doing so.
    pub mended: Option<Sequence>,
}

/// Which person an edge means, the version of their record it was decided on, and its cause.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    pub created: Version,
    pub decided_on: Version,
    pub cause: Cause,
}

/// A half in flight to the home of its target.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    pub source: usize,
    pub lineage: u64,
    /// Of its event in the source.
    pub sequence: Sequence,
    pub half: Half,
}

/// The progress of a home at some moment.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub home: usize,
    pub last: Sequence,
    /// The last of the store's forks that this home had gone through.
    pub lineage: u64,
    /// How many commits it had made.
    pub commits: u64,
}

impl Home {
    pub fn new(index: usize, buckets: Buckets, inbound: Inbound) -> Self {
        Self {
            index,
            buckets,
            out: Graph::default(),
            inbound,
            origins: BTreeMap::new(),
            heads: BTreeMap::new(),
            commits: 0,
            versions: VersionClock::new(u16::try_from(index).unwrap_or_default(), Version::ZERO),
            events: VecDeque::new(),
            dropped: Sequence::ZERO,
            outbox: VecDeque::new(),
            relayed: Sequence::ZERO,
            applied: 0,
            unmirrored: BTreeMap::new(),
            parted: BTreeMap::new(),
            lineage: 0,
            mended: Some(Sequence::ZERO),
        }
    }

    /// Of the last event.
    pub fn last(&self) -> Sequence {
        self.dropped.plus(self.events.len() as u64)
    }

    pub fn end(&self) -> End {
        End { home: self.index, last: self.last(), lineage: self.lineage, commits: self.commits }
    }

    /// What this home has of an edge of one of its users, tombstones included.
    pub fn half_of(&self, link: Link) -> Option<Half> {
        let after = self.out.known_edge(link)?;
        Some(half(link, after, *self.origins.get(&link)?))
    }

    /// Which person an edge of one of this home's users means.
    #[cfg(feature = "planted")]
    pub fn origin(&self, link: Link) -> Option<Version> {
        self.origins.get(&link).map(|origin| origin.created)
    }

    /// A block, or its end, for the home of its target.
    pub fn block(&self, actor: Key, target: Key, lineage: u64) -> Option<Outgoing> {
        let half = self.half_of((Kind::Block, actor, target))?;
        Some(Outgoing { source: self.index, lineage, sequence: self.last(), half })
    }

    /// The target's home has a block, or its end.
    pub fn set_mirrored(&mut self, half: &Half) {
        let pair = (half.follower, half.target);
        if self.unmirrored.get(&pair).is_some_and(|version| *version <= half.after.version) {
            self.unmirrored.remove(&pair);
        }
    }

    /// What this very block ended here, for a caller that finds it existing.
    pub fn parted(&self, actor: Key, target: Key, block: Version) -> Option<Outcome> {
        let (version, outcome) = self.parted.get(&(actor, target))?;
        (*version == block).then(|| outcome.clone())
    }

    /// Whether an edge to another incarnation of its target reads as none.
    pub fn means(&self, link: Link, created: Version) -> bool {
        self.origins.get(&link).is_none_or(|origin| origin.created == created)
    }

    /// Drops the oldest events.
    #[cfg(feature = "planted")]
    pub fn expire(&mut self, kept: usize) {
        while self.events.len() > kept {
            self.events.pop_front();
            self.dropped = self.dropped.next();
        }
    }

    /// Continues from an earlier state of itself. Versions already issued are not forgotten.
    #[cfg(feature = "planted")]
    pub fn go_back(&mut self, earlier: Self, lineage: u64) {
        let versions = self.versions.clone();
        *self = Self { versions, lineage, mended: None, ..earlier };
    }

    pub fn has_user(&self, key: Key) -> bool {
        self.out.user_exists(key)
    }
}

pub const fn half(
    (kind, follower, target): Link,
    after: EdgeValue,
    Origin { created, decided_on, cause }: Origin,
) -> Half {
    Half { kind, follower, target, cause, after, created, decided_on }
}
