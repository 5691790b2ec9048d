//! One home: the truth of its users, their in-halves, their events, and the halves that are to leave.

use std::collections::{BTreeMap, VecDeque};

use entourage_model::{
    Buckets, Cause, Change, Decision, EdgeChange, EdgeValue, Event, Half, Key, Kind, Millis, Outcome, RecordId,
    Refusal, Sequence, Space, Version, VersionClock, View, Watermark, Write, resolve,
};

use super::{
    fork::Forks,
    inbound::{Inbound, Link},
    look::{Look, Others},
};
use crate::backends::memory::Graph;

/// How many commits of a user are remembered, for whoever was not told what became of one.
const COMMITS_KEPT: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) index: usize,
    /// One for each home: what the server keeps of its users lies here with them.
    pub(super) buckets: Buckets,
    /// Users, their own edges, records, history and idempotency records.
    pub(super) out: Graph,
    pub(super) inbound: Inbound,
    /// Whom the own edges mean.
    origins: BTreeMap<Link, Origin>,
    heads: BTreeMap<Key, Head>,
    /// Of all users.
    pub(super) commits: u64,
    versions: VersionClock,
    pub(super) events: VecDeque<Event>,
    /// The last event that is past retention.
    pub(super) dropped: Sequence,
    pub(super) outbox: VecDeque<Outgoing>,
    /// Halves of events up to here have been published.
    pub(super) relayed: Sequence,
    /// Published halves below this offset have been applied.
    pub(super) applied: u64,
    /// Blocks, or ends of blocks, that the home of the target may not have.
    pub(super) unmirrored: BTreeMap<(Key, Key), Version>,
    /// What ended here with a block of one of this home's users: the version of the block, and the commit.
    parted: BTreeMap<(Key, Key), (Version, Outcome)>,
    /// At which version something ended in another home with a block of this one, by the version of the block.
    ended_with: BTreeMap<Version, Version>,
    /// Which of the store's forks this home went through last.
    pub(super) lineage: u64,
    /// Up to here it has said again what others heard of lost writes. `None`: it went back and is at it.
    pub(super) mended: Option<Sequence>,
}

/// Whom an edge means, which version of theirs it was decided on, and why it is what it is.
#[derive(Clone, Copy, Debug)]
struct Origin {
    created: Version,
    decided_on: Version,
    cause: Cause,
}

/// The sequence of a user's commits: one is made only if it is still the one that was decided on.
#[derive(Clone, Debug, Default)]
struct Head {
    sequence: u64,
    commits: VecDeque<(u64, Version)>,
}

/// A half on its way to the home of its target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) source: usize,
    pub(super) lineage: u64,
    /// Of its event in the source.
    pub(super) sequence: Sequence,
    pub(super) half: Half,
}

/// How far a home was at some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) home: usize,
    pub(super) last: Sequence,
    /// Which of the store's forks this home went through last, then.
    pub(super) lineage: u64,
    /// How many commits it had made.
    pub(super) commits: u64,
}

/// A commit that is decided and not made.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub(super) home: usize,
    at: Key,
    expected: (u64, u64),
    pub(super) outcome: Outcome,
    others: Others,
    /// The record of the lease that its epoch was compared with.
    lease: Option<(Key, RecordId, Option<Version>)>,
    /// A block whose in-half comes with it.
    mirror: Option<Outgoing>,
    /// The in-half is taken even if a newer one is known.
    is_forced: bool,
}

/// What became of a commit that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Made,
    /// Nor will it ever be.
    NotMade,
    Unknown,
}

impl Home {
    pub(super) fn new(index: usize, buckets: Buckets, inbound: Inbound) -> Self {
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
            ended_with: BTreeMap::new(),
            lineage: 0,
            mended: Some(Sequence::ZERO),
        }
    }

    /// Of the last event.
    pub(super) fn last(&self) -> Sequence {
        self.dropped.plus(self.events.len() as u64)
    }

    pub(super) fn end(&self) -> End {
        End { home: self.index, last: self.last(), lineage: self.lineage, commits: self.commits }
    }

    /// Decides a write of the user `at`, who lives here.
    pub(super) fn prepare(&mut self, at: Key, now: Millis, write: &Write, others: Others) -> Result<Prepared, Refusal> {
        let version = self.versions.next(now, write.floor);
        let outcome = resolve(&Look { home: self, at, others: &others }, write, version, self.last())?;
        let lease = write.fence.as_ref().map(|fence| {
            let (owner, id) = (self.buckets.of(write.operation.home()), fence.lease.record_id());
            (owner, id.clone(), self.out.record(Space::Job, owner, id).map(|record| record.version))
        });
        Ok(Prepared { lease, ..self.prepared(at, outcome, others) })
    }

    /// As [`Self::prepare`], for a decision about a half. `None` if there is nothing to do.
    pub(super) fn prepare_half(
        &mut self,
        at: Key,
        now: Millis,
        floor: Version,
        others: Others,
        decide: impl FnOnce(&Look<'_>, Version) -> Result<Option<Decision>, Refusal>,
    ) -> Result<Option<Prepared>, Refusal> {
        let version = self.versions.next(now, floor);
        let Some(Decision { reply, changes }) = decide(&Look { home: self, at, others: &others }, version)? else {
            return Ok(None);
        };
        let watermark = Watermark::at(self.last());
        let outcome = Outcome { watermark, version, reply, changes, idempotency: None, quota: None, replayed: false };
        Ok(Some(self.prepared(at, outcome, others)))
    }

    fn prepared(&self, at: Key, outcome: Outcome, others: Others) -> Prepared {
        let expected = (self.lineage, self.heads.get(&at).map_or(0, |head| head.sequence));
        Prepared { home: self.index, at, expected, outcome, others, lease: None, mirror: None, is_forced: false }
    }

    fn is_expected(&self, prepared: &Prepared) -> bool {
        prepared.expected == (self.lineage, self.heads.get(&prepared.at).map_or(0, |head| head.sequence))
    }

    /// What the server keeps in this home is of several users: what a decision looked at must be as it was.
    fn is_as_seen(&self, prepared: &Prepared) -> bool {
        let version = |space, owner, id| self.out.record(space, owner, id).map(|record| record.version);
        let changed = prepared.outcome.changes.iter().all(|change| match change {
            Change::Record(record) if record.owner.is_server() => match (record.space, record.before) {
                (Space::Job, before) => version(Space::Job, record.owner, &record.id) == before,
                (space, None) => version(space, record.owner, &record.id).is_none(),
                _ => true,
            },
            _ => true,
        });
        let lease = &prepared.lease;
        changed && lease.as_ref().is_none_or(|(owner, id, seen)| version(Space::Job, *owner, id) == *seen)
    }

    /// Makes a commit, if nothing of its user has changed since it was decided: how far this home is then.
    pub(super) fn commit(&mut self, prepared: &Prepared, forks: &Forks, is_careless: bool) -> Option<End> {
        let is_lost = |from: Outgoing| forks.lost(from.lineage, from.source, from.sequence).is_some();
        let is_expected = is_careless || self.is_expected(prepared);
        if !is_expected || !self.is_as_seen(prepared) || prepared.mirror.is_some_and(is_lost) {
            return None;
        }
        let Prepared { at, outcome, others, .. } = prepared;
        self.advance(*at, outcome.version);
        for change in &outcome.changes {
            let sequence = self.last().next();
            self.events.push_back(Event::of(sequence, outcome.version, change));
            match change {
                Change::Edge(edge) => self.send(edge, others, sequence, forks.lineage()),
                Change::User(_) => self.inbound.revise(),
                Change::Record(_) => {}
            }
        }
        self.out.apply(outcome);
        if let Some(mirror) = &prepared.mirror {
            self.inbound.take(&mirror.half, prepared.is_forced);
            let pair = (mirror.half.follower, mirror.half.target);
            self.parted.insert(pair, (mirror.half.after.version, outcome.clone()));
        }
        Some(self.end())
    }

    fn advance(&mut self, at: Key, version: Version) {
        self.commits += 1;
        let head = self.heads.entry(at).or_default();
        head.sequence += 1;
        head.commits.push_back((head.sequence, version));
        if head.commits.len() > COMMITS_KEPT {
            head.commits.pop_front();
        }
    }

    fn send(&mut self, edge: &EdgeChange, others: &Others, sequence: Sequence, lineage: u64) {
        let link = (edge.kind, edge.follower, edge.target);
        let known = self.origins.get(&link).map_or_else(Default::default, |known| (known.created, known.decided_on));
        let read = others.user(edge.target).flatten().map(|user| (user.created, user.version));
        let (created, decided_on) = read.unwrap_or(known);
        let origin = Origin { created, decided_on, cause: edge.cause };
        self.origins.insert(link, origin);
        if edge.kind == Kind::Block {
            self.unmirrored.insert((edge.follower, edge.target), edge.after.version);
        }
        let half = half(link, edge.after, origin);
        self.outbox.push_back(Outgoing { source: self.index, lineage, sequence, half });
    }

    /// Finds out whether a commit was made; if not, it never will be.
    pub(super) fn burn(&mut self, prepared: &Prepared, is_careless: bool) -> Known {
        let (_, expected) = prepared.expected;
        if self.is_expected(prepared) {
            if !is_careless {
                self.advance(prepared.at, Version::ZERO);
            }
            return Known::NotMade;
        }
        if self.lineage != prepared.expected.0 {
            return Known::Unknown;
        }
        let commits = self.heads.get(&prepared.at).map(|head| &head.commits);
        match commits.and_then(|commits| commits.iter().find(|(sequence, _)| *sequence == expected + 1)) {
            Some((_, version)) if *version == prepared.outcome.version => Known::Made,
            Some(_) => Known::NotMade,
            None => Known::Unknown,
        }
    }

    /// What this home would say of an edge of one of its users, removed or not.
    pub(super) fn half_of(&self, link: Link) -> Option<Half> {
        let after = self.out.known_edge(link)?;
        Some(half(link, after, *self.origins.get(&link)?))
    }

    /// Whom an edge of one of this home's users means.
    #[cfg(feature = "planted")]
    pub(super) fn origin(&self, link: Link) -> Option<Version> {
        self.origins.get(&link).map(|origin| origin.created)
    }

    /// A block, or its end, for the home of its target.
    pub(super) fn block(&self, actor: Key, target: Key, lineage: u64) -> Option<Outgoing> {
        let half = self.half_of((Kind::Block, actor, target))?;
        Some(Outgoing { source: self.index, lineage, sequence: self.last(), half })
    }

    /// The target's home has a block, or its end; `ended` is the version at which the target's follow ended with it.
    pub(super) fn set_mirrored(&mut self, half: &Half, ended: Option<Version>) {
        self.ended_with.extend(ended.map(|ended| (half.after.version, ended)));
        let pair = (half.follower, half.target);
        if self.unmirrored.get(&pair).is_some_and(|version| *version <= half.after.version) {
            self.unmirrored.remove(&pair);
        }
    }

    /// The greatest version of what a write of this home changed, of which `version` is the one here.
    pub(super) fn greatest(&self, version: Version) -> Version {
        self.ended_with.get(&version).copied().unwrap_or_default().max(version)
    }

    /// What ended here with this very block, for whoever finds that it is here.
    pub(super) fn parted(&self, actor: Key, target: Key, block: Version) -> Option<Outcome> {
        let (version, outcome) = self.parted.get(&(actor, target))?;
        (*version == block).then(|| outcome.clone())
    }

    /// Whether an edge that leads to another incarnation of its target reads as none.
    pub(super) fn means(&self, link: Link, created: Version) -> bool {
        self.origins.get(&link).is_none_or(|origin| origin.created == created)
    }

    /// Drops the oldest events.
    #[cfg(feature = "planted")]
    pub(super) fn expire(&mut self, kept: usize) {
        while self.events.len() > kept {
            self.events.pop_front();
            self.dropped = self.dropped.next();
        }
    }

    /// Goes on from an earlier state of itself. Versions and what was given out of them are not forgotten.
    #[cfg(feature = "planted")]
    pub(super) fn go_back(&mut self, earlier: Self, lineage: u64) {
        let versions = self.versions.clone();
        *self = Self { versions, lineage, mended: None, ..earlier };
    }

    pub(super) fn has_user(&self, key: Key) -> bool {
        self.out.user_exists(key)
    }
}

impl Prepared {
    /// Whether there is anything to commit.
    pub(super) fn writes(&self) -> bool {
        self.outcome.is_logged() || self.mirror.is_some()
    }

    #[must_use]
    pub(super) fn mirroring(self, mirror: Outgoing, is_forced: bool) -> Self {
        Self { mirror: Some(mirror), is_forced, ..self }
    }
}

const fn half((kind, follower, target): Link, after: EdgeValue, Origin { created, decided_on, cause }: Origin) -> Half {
    Half { kind, follower, target, cause, after, created, decided_on }
}
