//! A commit of one user in their home: decided, then made only if nothing of the user has changed since.

use std::collections::VecDeque;

use entourage_model::{
    Change, Decision, EdgeChange, Event, Key, Kind, Millis, Outcome, RecordId, Refusal, Sequence, Space, Version,
    View as _, Watermark, Write, resolve,
};

use super::{
    fork::Forks,
    home::{End, Home, Origin, Outgoing, half},
    look::{Look, Others},
};

/// How many commits of a user are remembered, for callers whose outcome is unknown.
const COMMITS_KEPT: usize = 64;

/// The sequence of a user's commits: one succeeds only if it is still the one that was decided on.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub sequence: u64,
    commits: VecDeque<(u64, Version)>,
}

/// A commit that is decided but not yet made.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub home: usize,
    at: Key,
    expected: (u64, u64),
    pub outcome: Outcome,
    others: Others,
    /// The record of the lease whose epoch was compared.
    lease: Option<(Key, RecordId, Option<Version>)>,
    /// A block whose in-half comes with it.
    mirror: Option<Outgoing>,
    /// The in-half is accepted even if a newer one is known.
    is_forced: bool,
}

/// The outcome of an unanswered commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Made,
    /// Nor will it ever be.
    NotMade,
    Unknown,
}

impl Home {
    /// Decides a write of the user `at`, who lives here.
    pub fn prepare(&mut self, at: Key, now: Millis, write: &Write, others: Others) -> Result<Prepared, Refusal> {
        let version = self.versions.next(now, write.floor);
        let outcome = resolve(&Look { home: self, at, others: &others }, write, version, self.last())?;
        let lease = write.fence.as_ref().map(|fence| {
            let (owner, id) = (self.buckets.of(write.operation.home()), fence.lease.record_id());
            (owner, id.clone(), self.out.record(Space::Job, owner, id).map(|record| record.version))
        });
        Ok(Prepared { lease, ..self.prepared(at, outcome, others) })
    }

    /// As [`Self::prepare`], for a decision about a half. `None` if there is nothing to do.
    pub fn prepare_half(
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

    /// The server's records in this home concern several users: what a decision read must be unchanged.
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

    /// Makes a commit, if nothing of its user has changed since it was decided; returns the home's progress.
    pub fn commit(&mut self, prepared: &Prepared, forks: &Forks, is_careless: bool) -> Option<End> {
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

    /// Finds out whether a commit was made; if not, makes sure that it never is.
    pub fn burn(&mut self, prepared: &Prepared, is_careless: bool) -> Known {
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
}

impl Prepared {
    /// Whether there is anything to commit.
    pub fn writes(&self) -> bool {
        self.outcome.is_logged() || self.mirror.is_some()
    }

    #[must_use]
    pub fn mirroring(self, mirror: Outgoing, is_forced: bool) -> Self {
        Self { mirror: Some(mirror), is_forced, ..self }
    }
}
