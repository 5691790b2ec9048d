//! `decide` and `apply` alone: the smallest store that keeps the contract, and the reference for the others.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Clock, Counts, EdgeValue, Ended, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome, Page,
    Place, Quota, Record, RecordId, Result, Sequence, Space, State, User, Version, VersionClock, View, Watermark,
    Write, replay, resolve,
};
use parking_lot::RwLock;

use crate::{Graph, verify::verify};
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Progress, Report, Server, SweepCursor, Swept, Whose, retention,
    share,
};

/// Everything behind one lock; gone with the process.
pub struct Store {
    identity: Identity,
    clock: Arc<dyn Clock>,
    history_retention: Duration,
    inner: RwLock<Inner>,
}

struct Inner {
    graph: Graph,
    versions: VersionClock,
    events: Vec<Event>,
}

impl Store {
    pub fn new(identity: Identity, clock: Arc<dyn Clock>) -> Self {
        let inner =
            Inner { graph: Graph::default(), versions: VersionClock::new(0, Version::ZERO), events: Vec::new() };
        Self { identity, clock, history_retention: retention::HISTORY, inner: RwLock::new(inner) }
    }

    /// With another `history.retention`.
    #[must_use]
    pub fn keeping_history(self, history_retention: Duration) -> Self {
        Self { history_retention, ..self }
    }

    fn commit_now(&self, write: &Write) -> Result<Outcome> {
        let mut inner = self.inner.write();
        let version = inner.versions.next(self.clock.now(), write.floor);
        let last = Sequence(inner.events.len() as u64);
        let outcome = resolve(&inner.graph, write, version, last)?;
        let events = outcome.numbered_changes().map(|(sequence, change)| Event::of(sequence, version, change));
        inner.events.extend(events.collect::<Vec<_>>());
        inner.graph.apply(&outcome);
        Ok(outcome)
    }

    /// An edge counts where `is_one` says so; one that an erased user left behind is `Unknown`.
    fn peek_where(
        &self,
        kind: Kind,
        is_one: impl Fn(&EdgeValue) -> bool,
        pairs: &[(Key, Key)],
        answers: &mut [Answer],
    ) {
        let graph = &self.inner.read().graph;
        let is_there = |key| graph.user(key).is_some();
        for (answer, &(follower, target)) in answers.iter_mut().zip(pairs) {
            *answer = match graph.edge(kind, follower, target).filter(&is_one) {
                None => Answer::No,
                Some(_) if is_there(follower) && is_there(target) => Answer::Yes,
                Some(_) => Answer::Unknown,
            };
        }
    }
}

#[async_trait]
impl entourage_store::Store for Store {
    fn guarantees(&self) -> Guarantees {
        Guarantees::in_one_process("memory")
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        writes.iter().map(|write| self.commit_now(write)).collect()
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        let inner = self.inner.read();
        let (now, last) = (Version::of_millis(self.clock.now()), Sequence(inner.events.len() as u64));
        let outcome = |key: &IdempotencyKey| {
            let record = inner.graph.idempotency(&key.scope, now);
            Ok(record.map(|record| replay(record, *key, Watermark::at(last))).transpose()?)
        };
        keys.iter().map(outcome).collect()
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_where(kind, |value| value.state == State::Active, pairs, answers);
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_where(Kind::Follow, |value| value.state == State::Active && !value.quiet, pairs, answers);
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.inner.read().graph.has_id(key, id)
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        let graph = &self.inner.read().graph;
        if graph.user(one).is_none() || graph.user(other).is_none() {
            return true;
        }
        let is_common = |key: &Key| {
            let edge = graph.edge(Kind::Follow, other, *key);
            edge.is_some_and(|edge| edge.state == State::Active) && graph.user(*key).is_some()
        };
        let page = graph.scan(List::following(one), None, usize::MAX - 1);
        found.extend(page.edges.iter().map(|edge| edge.target).filter(is_common).take(limit));
        true
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let mut edges = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(share::CHUNK) {
            {
                let graph = &self.inner.read().graph;
                edges.extend(pairs.iter().map(|&(follower, target)| graph.edge(kind, follower, target)));
            }
            share::spend_rows(pairs.len()).await;
        }
        Ok(edges)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let mut users = Vec::with_capacity(keys.len());
        for keys in keys.chunks(share::CHUNK) {
            {
                let graph = &self.inner.read().graph;
                users.extend(keys.iter().map(|&key| graph.user(key)));
            }
            share::spend_rows(keys.len()).await;
        }
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let graph = &self.inner.read().graph;
        Ok(users.iter().map(|&user| graph.counts(user)).collect())
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let page = self.inner.read().graph.scan(list, after, limit);
        share::spend_rows(page.edges.len()).await;
        Ok(page)
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        Ok(self.inner.read().graph.scan_up(list, after, limit))
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        let swept = if range == 0 { self.inner.read().graph.sweep(after, limit)? } else { Swept::default() };
        share::spend_rows(swept.users.len()).await;
        Ok(swept)
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        let records = {
            let graph = &self.inner.read().graph;
            ids.iter().map(|(owner, id)| graph.record(space, *owner, id)).collect()
        };
        share::spend_rows(ids.len()).await;
        Ok(records)
    }

    async fn scan_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>> {
        let mut lists = Vec::with_capacity(owners.len());
        for &owner in owners {
            let records: Vec<Record> =
                self.inner.read().graph.documents().scan(space, owner, after).take(limit).collect();
            share::spend_rows(records.len()).await;
            lists.push(records);
        }
        Ok(lists)
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        let graph = &self.inner.read().graph;
        Ok(owners.iter().map(|&owner| graph.record_count(space, owner)).collect())
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        let oldest = retention::history_begins(self.clock.now(), self.history_retention);
        Ok(self.inner.read().graph.history(follower, before, oldest).take(limit).collect())
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        let graph = &self.inner.read().graph;
        Ok(actors.iter().map(|&actor| graph.quota(actor)).collect())
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let from = usize::try_from(after.offset.0).unwrap_or(usize::MAX);
        let events: Vec<Event> = self.inner.read().events.iter().skip(from).take(limit).cloned().collect();
        share::spend_rows(events.len()).await;
        Ok(events)
    }

    fn lineage(&self) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, _partition: u16) -> Result<Sequence> {
        Ok(Sequence(self.inner.read().events.len() as u64))
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        let last = Sequence(self.inner.read().events.len() as u64);
        Ok(Progress { listed: last, covered: last, newest: last })
    }

    async fn covers(&self, watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        Ok((watermark.sequence().0 <= self.inner.read().events.len() as u64).into())
    }

    async fn verify(&self) -> Result<Report> {
        let inner = self.inner.read();
        Ok(verify(&inner.graph, inner.events.iter()))
    }

    async fn health(&self) -> Health {
        Health::Ready
    }

    /// One process has this store.
    async fn heartbeat(&self, _id: u64, _about: &str) -> Result<Vec<Server>> {
        Ok(Vec::new())
    }

    async fn disconnect(&self, _id: u64) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
