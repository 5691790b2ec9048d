//! One home: the truth of its users, their in-halves, their events, and the halves that are to leave.

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
    /// One for each home: what the server keeps of its users lies here with them.
    pub buckets: Buckets,
    /// Users, their own edges, records, history and idempotency records.
    pub out: Graph,
    pub inbound: Inbound,
    /// Whom the own edges mean.
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
    /// Blocks, or ends of blocks, that the home of the target may not have.
    pub unmirrored: BTreeMap<(Key, Key), Version>,
    /// What ended here with a block of one of this home's users: the version of the block, and the commit.
    pub parted: BTreeMap<(Key, Key), (Version, Outcome)>,
    /// Which of the store's forks this home went through last.
    pub lineage: u64,
    /// Up to here it has said again what others heard of lost writes. `None`: it went back and is at it.
    pub mended: Option<Sequence>,
}

/// Whom an edge means, which version of theirs it was decided on, and why it is what it is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    pub created: Version,
    pub decided_on: Version,
    pub cause: Cause,
}

/// A half on its way to the home of its target.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    pub source: usize,
    pub lineage: u64,
    /// Of its event in the source.
    pub sequence: Sequence,
    pub half: Half,
}

/// How far a home was at some moment.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub home: usize,
    pub last: Sequence,
    /// Which of the store's forks this home went through last, then.
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

    /// What this home would say of an edge of one of its users, removed or not.
    pub fn half_of(&self, link: Link) -> Option<Half> {
        let after = self.out.known_edge(link)?;
        Some(half(link, after, *self.origins.get(&link)?))
    }

    /// Whom an edge of one of this home's users means.
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

    /// What ended here with this very block, for whoever finds that it is here.
    pub fn parted(&self, actor: Key, target: Key, block: Version) -> Option<Outcome> {
        let (version, outcome) = self.parted.get(&(actor, target))?;
        (*version == block).then(|| outcome.clone())
    }

    /// Whether an edge that leads to another incarnation of its target reads as none.
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

    /// Goes on from an earlier state of itself. Versions and what was given out of them are not forgotten.
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
