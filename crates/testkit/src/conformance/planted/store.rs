//! The planted store: the parts of the memory backend, deliberately assembled wrongly.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use entourage_model::{
    Change, Clock, Condition, Counts, EdgeValue, Ended, Error, Event, EventPosition, FollowLimits, IdempotencyKey,
    IdempotencyRecord, Key, Kind, Lineage, List, Millis, Operation, Outcome, Overwrite, Page, Place, Quota,
    QuotaChange, Record, RecordId, Reply, Result, Secret, Sequence, Space, State, User, Version, VersionClock, View,
    Watermark, WorkProgress, Write, replay, resolve,
};
use parking_lot::RwLock;

use super::{Bug, seen::Seen};
use entourage_memory::Graph;
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, Progress, Report, Server, Store, SweepCursor, Swept, SystemClock,
    Whose,
};

pub(super) struct Planted {
    pub(super) bug: Bug,
    identity: Identity,
    durable: bool,
    closed: AtomicBool,
    inner: RwLock<Inner>,
    commits: AtomicU64,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) graph: Graph,
    pub(super) versions: Option<VersionClock>,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) events: Vec<Event>,
    pub(super) changes: u64,
    absent_unfollows: Vec<(Key, Key)>,
    pub(super) blocked_follows: Vec<(Key, Key)>,
    /// The version of the newest edge.
    last: Option<Version>,
    /// Quotas of the erased.
    left: Vec<QuotaChange>,
}

/// What was read before the commit.
#[derive(Default)]
struct Looked {
    blocked: Option<bool>,
    load: Option<u64>,
    edge: Option<Option<EdgeValue>>,
    quota: Option<Quota>,
    /// Whether the commit will check its idempotency key.
    key: bool,
}

pub(super) fn planted(bug: Bug) -> Arc<dyn Store> {
    Arc::new(Planted::new(bug, false, Inner::default()))
}

impl Planted {
    pub(super) fn new(bug: Bug, durable: bool, inner: Inner) -> Self {
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
        let (closed, commits) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { bug, identity, durable, closed, inner: RwLock::new(inner), commits }
    }

    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        self.inner.read().outcomes.clone()
    }

    async fn commit_one(&self, mut write: Write) -> Result<Outcome> {
        let bug = self.bug;
        if self.closed.load(Ordering::SeqCst) && bug != Bug::WritesAfterClose {
            return Err(Error::unavailable("the store is closed"));
        }
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        match &mut write.operation {
            Operation::Follow { cap, .. } if bug == Bug::IgnoresCap => *cap = None,
            Operation::Follow { park, .. } if bug == Bug::ParksNobody => *park = false,
            Operation::PutUser { overwrite, .. } if bug == Bug::MergeReplaces && *overwrite == Overwrite::Merge => {
                *overwrite = Overwrite::Replace;
            }
            Operation::PutRecord { cap, .. } if bug == Bug::IgnoresRecordCap => *cap = None,
            Operation::PutRecord { condition, .. } if bug == Bug::IgnoresCondition => *condition = Condition::Any,
            _ => {}
        }
        if let (Bug::ReplacesNothing, Operation::PutRecord { space: Space::Post, owner, id, value: Some(value), .. }) =
            (bug, &write.operation)
            && self.inner.read().graph.record(Space::Post, *owner, id).is_none()
        {
            write.operation = Operation::Post { author: *owner, value: value.clone() };
        }
        match (bug, &mut write.limits) {
            (Bug::IgnoresQuota, Some(limits)) => limits.per_hour = 0,
            (Bug::IgnoresChallenges, Some(limits)) => limits.proved = true,
            _ => {}
        }
        if bug == Bug::ForgetsFloor {
            write.floor = Version::ZERO;
        }
        if bug == Bug::IgnoresFences {
            write.fence = None;
        }
        if bug == Bug::ProgressRunsBeforeItsEffect
            && let Some(progress) = write.progress.take()
        {
            let WorkProgress { id, value, condition } = *progress;
            let (space, owner) = (Space::Job, Key::SERVER);
            let apart = Operation::PutRecord { space, owner, id, value, condition, cap: None };
            Box::pin(self.commit_one(apart.into())).await?;
        }
        let looked = self.look_outside(&write).await;
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        if let Some(outcome) = self.shortcut(inner, &write) {
            return Ok(outcome);
        }
        let clock = inner.versions.get_or_insert_with(|| VersionClock::new(0, Version::ZERO));
        if bug == Bug::VersionsGoBack && nth.is_multiple_of(13) {
            *clock = VersionClock::new(0, Version::ZERO);
        }
        let now = match bug {
            Bug::VersionsGoBack => Millis::from_since_2000(1_000 + nth % 13),
            _ => SystemClock.now(),
        };
        let version = clock.next(now, write.floor);
        let last = Sequence(inner.changes);
        let seen = Seen {
            graph: &inner.graph,
            blocked: looked.blocked,
            load: looked.load,
            edge: looked.edge,
            quota: looked.quota,
            keys: looked.key && bug != Bug::RetriesTwice,
            requests: bug != Bug::CapForgetsRequests,
            bug,
            operation: &write.operation,
        };
        let mut outcome = match resolve(&seen, &write, version, last) {
            Ok(outcome) => outcome,
            Err(refusal) => {
                if bug == Bug::RefusalsTakeQuota {
                    Self::take_more(&mut inner.graph, &write, version);
                }
                if bug == Bug::RecordsRefusals
                    && let Some(key) = write.idempotency
                {
                    let record = IdempotencyRecord { key, version, reply: Reply::Gone { changed: false } };
                    let (reply, changes) = (record.reply, Default::default());
                    let kept = Outcome {
                        watermark: Watermark::at(last),
                        version,
                        reply,
                        changes,
                        idempotency: Some(Box::new(record)),
                        quota: None,
                        replayed: false,
                    };
                    inner.graph.apply(&kept);
                }
                return Err(Error::from(refusal));
            }
        };
        self.distort(inner, &write, &mut outcome);
        let is_import = matches!(write.operation, Operation::Import { .. });
        let is_there = write.limits.is_some() && outcome.changes.is_empty() && !outcome.replayed;
        let takes_more = match bug {
            Bug::RetriesTakeQuota => outcome.replayed,
            Bug::ImportsTakeQuota => is_import,
            Bug::RepeatsTakeQuota => is_there,
            _ => false,
        };
        if takes_more {
            Self::take_more(&mut inner.graph, &write, version);
        }
        inner.changes += outcome.changes.len() as u64;
        outcome.watermark = Watermark::at(Sequence(inner.changes));
        let leaves = match (bug, &write.operation) {
            (Bug::QuotasOutliveUsers, Operation::Erase { key, .. }) => Some((*key, inner.graph.quota(*key))),
            _ => None,
        };
        if !(bug == Bug::LosesWrites && nth.is_multiple_of(50)) {
            inner.graph.apply(&outcome);
        }
        if let Some((actor, after)) = leaves {
            inner.left.push(QuotaChange { actor, after });
        }
        if let (Bug::QuotasOutliveUsers, Operation::PutUser { key, .. }) = (bug, &write.operation) {
            let back = inner.left.extract_if(.., |left| left.actor == *key).last();
            inner.graph.apply(&Outcome { quota: back, changes: Default::default(), ..outcome.clone() });
        }
        for (sequence, change) in outcome.numbered_changes() {
            if bug != Bug::DropsEvents || !sequence.0.is_multiple_of(7) {
                let next = Sequence(inner.events.len() as u64 + 1);
                inner.events.push(Event::of(next, version, change));
            }
            if let Change::Edge(edge) = change {
                inner.last = Some(edge.after.version);
                if edge.cause == entourage_model::Cause::Block {
                    inner.blocked_follows.push((edge.follower, edge.target));
                }
            }
        }
        if self.durable {
            inner.outcomes.push(outcome.clone());
        }
        Ok(outcome)
    }

    /// One more follow than there was.
    fn take_more(graph: &mut Graph, write: &Write, version: Version) {
        let (actor, _) = write.operation.parties();
        let limits = write.limits.unwrap_or_else(|| FollowLimits::none(version.millis()));
        let limits = FollowLimits { per_hour: 60, burst: 1_000, ..limits };
        if let Ok(after) = graph.quota(actor).take(&limits) {
            graph.apply(&Outcome {
                watermark: Watermark::at(Sequence::ZERO),
                version,
                reply: Reply::Gone { changed: false },
                changes: Default::default(),
                idempotency: None,
                quota: Some(QuotaChange { actor, after }),
                replayed: false,
            });
        }
    }

    /// What a commit reads before it begins, with a pause that lets others intervene.
    async fn look_outside(&self, write: &Write) -> Looked {
        let mut looked = Looked { key: true, ..Looked::default() };
        let Operation::Follow { follower, target, .. } = write.operation else { return looked };
        {
            let inner = self.inner.read();
            match self.bug {
                Bug::BlockCheckedOutside => {
                    let blocks = |by, whom| inner.graph.has_edge(Kind::Block, by, whom);
                    looked.blocked = Some(blocks(follower, target) || blocks(target, follower));
                }
                Bug::CapCheckedOutside => looked.load = Some(inner.graph.following_load(follower)),
                Bug::QuotaCheckedOutside => looked.quota = Some(inner.graph.quota(follower)),
                Bug::EdgeCheckedOutside => looked.edge = Some(inner.graph.edge(Kind::Follow, follower, target)),
                Bug::KeyCheckedOutside => {
                    let known = |key: IdempotencyKey| inner.graph.idempotency(&key.scope, Version::ZERO).is_some();
                    looked.key = write.idempotency.is_some_and(known);
                }
                _ => return looked,
            }
        }
        tokio::task::yield_now().await;
        looked
    }

    /// Writes that a bug answers by itself.
    fn shortcut(&self, inner: &mut Inner, write: &Write) -> Option<Outcome> {
        let Operation::Unfollow { follower, target } = write.operation else { return None };
        let edge = inner.graph.edge(Kind::Follow, follower, target);
        if self.bug == Bug::CountsAbsentUnfollow && edge.is_none() && inner.graph.user_exists(follower) {
            inner.absent_unfollows.push((follower, target));
        }
        let pending = edge.is_some_and(|value| value.state == State::Pending);
        (self.bug == Bug::KeepsRequests && pending).then(|| Outcome {
            watermark: Watermark::at(Sequence(inner.changes)),
            version: Version::ZERO,
            reply: Reply::Gone { changed: false },
            changes: Default::default(),
            idempotency: None,
            quota: None,
            replayed: false,
        })
    }
}

impl Planted {
    fn look(&self, kind: Kind, follower: Key, target: Key) -> Answer {
        let inner = self.inner.read();
        let yes = inner.graph.edge(kind, follower, target).is_some_and(|value| match self.bug {
            Bug::PeekLags if inner.last == Some(value.version) => false,
            Bug::PeekTakesRequests => true,
            _ => value.state == State::Active,
        });
        if yes { Answer::Yes } else { Answer::No }
    }

    fn list(&self, space: Space, owner: Key, after: Option<&[u8]>, limit: usize) -> Vec<Record> {
        let inner = self.inner.read();
        let repeats = self.bug == Bug::RepeatsRecordOfCursor;
        let above = |id: &RecordId| match after {
            Some(after) if repeats => id.as_bytes() >= after,
            Some(after) => id.as_bytes() > after,
            None => true,
        };
        let ids = inner.graph.records(space, owner, &[], usize::MAX).into_iter().map(|(id, _)| id).filter(above);
        ids.filter_map(|id| inner.graph.record(space, owner, &id)).take(limit).collect()
    }
}

#[async_trait]
impl Store for Planted {
    fn guarantees(&self) -> Guarantees {
        Guarantees { durable: self.durable, ..Guarantees::in_one_process("planted") }
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut results: Vec<Result<Outcome>> = Vec::new();
        for write in writes {
            let stopped = self.bug == Bug::BatchStops && results.iter().any(Result::is_err);
            results.push(if stopped { Err(Error::unavailable("stopped")) } else { self.commit_one(write).await });
        }
        results
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        let inner = self.inner.read();
        let (now, last) = (Version::of_millis(SystemClock.now()), Sequence(inner.changes));
        let outcome = |key: &IdempotencyKey| {
            let record = inner.graph.idempotency(&key.scope, now).filter(|_| self.bug != Bug::LooksUpNoReply);
            Ok(record.map(|record| replay(record, *key, Watermark::at(last))).transpose()?)
        };
        keys.iter().map(outcome).collect()
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        let is_there = |key| self.bug == Bug::PeeksAtTheErased || self.inner.read().graph.user(key).is_some();
        for (slot, &(follower, target)) in answers.iter_mut().zip(pairs) {
            *slot = match self.look(kind, follower, target) {
                Answer::Yes if !is_there(follower) || !is_there(target) => Answer::Unknown,
                answer => answer,
            };
        }
        if self.bug == Bug::PeeksOutOfOrder {
            answers.reverse();
        }
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        self.peek_all(Kind::Follow, pairs, answers);
        let graph = &self.inner.read().graph;
        for (answer, &(follower, target)) in answers.iter_mut().zip(pairs) {
            let is_quiet = graph.edge(Kind::Follow, follower, target).is_some_and(|value| value.quiet);
            if is_quiet && self.bug != Bug::QuietIsOpen {
                *answer = Answer::No;
            }
        }
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        let has = |user: User| user.id.as_str().as_bytes() == id || self.bug == Bug::PeeksAtTheKeyAlone;
        self.inner.read().graph.user(key).is_some_and(has)
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        let graph = &self.inner.read().graph;
        let is_there = |key: Key| graph.user(key).is_some();
        let is_common = |key: &Key| {
            let edge = graph.edge(Kind::Follow, other, *key);
            let counts = |state| state == State::Active || self.bug == Bug::CommonTakesRequests;
            edge.is_some_and(|edge| counts(edge.state)) && is_there(*key) && is_there(one) && is_there(other)
        };
        let page = graph.scan(List::following(one), None, usize::MAX - 1);
        found.extend(page.edges.iter().map(|edge| edge.target).filter(is_common).take(limit));
        true
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let inner = self.inner.read();
        Ok(pairs.iter().map(|&(follower, target)| inner.graph.edge(kind, follower, target)).collect())
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let inner = self.inner.read();
        Ok(keys.iter().map(|&key| inner.graph.user(key)).collect())
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let inner = self.inner.read();
        let counts = |&user: &Key| {
            let taken = inner.absent_unfollows.iter().filter(|(_, target)| *target == user).count() as u64;
            let lessen = |counts: Counts| Counts { followers: counts.followers.saturating_sub(taken), ..counts };
            inner.graph.counts(user).map(lessen)
        };
        Ok(users.iter().map(counts).collect())
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let after = after.map(|place| match self.bug {
            Bug::RepeatsRowOfCursor => Place { key: Key(place.key.0 + 1), ..place },
            Bug::SkipsEqualPositions => Place { key: Key::MIN, ..place },
            _ => place,
        });
        Ok(self.inner.read().graph.scan(list, after, limit))
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let after = after.map(|place| match self.bug {
            Bug::SkipsEqualPositionsUpwards => Place { key: Key::MAX, ..place },
            _ => place,
        });
        Ok(self.inner.read().graph.scan_up(list, after, limit))
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        let mut swept = if range == 0 { self.inner.read().graph.sweep(after, limit)? } else { Swept::default() };
        let is_missed = self.bug == Bug::SweepsMissTheLastOfAPage && swept.next.is_some();
        swept.users.truncate(swept.users.len() - usize::from(is_missed));
        Ok(swept)
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        let graph = &self.inner.read().graph;
        Ok(owners.iter().map(|&owner| graph.record_count(space, owner)).collect())
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        let graph = &self.inner.read().graph;
        let mut records: Vec<Option<Record>> = ids.iter().map(|(owner, id)| graph.record(space, *owner, id)).collect();
        if self.bug == Bug::ManyRecordsOutOfOrder {
            records.reverse();
        }
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
        for owner in owners {
            lists.push(self.list(space, *owner, after, limit));
        }
        if self.bug == Bug::LimitsAllListsTogether {
            let mut left = limit;
            for list in &mut lists {
                list.truncate(left);
                left -= list.len();
            }
        }
        Ok(lists)
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        let inner = self.inner.read();
        let kept = |ended: &Ended| self.bug != Bug::HistoryForgetsRequests || ended.state == State::Active;
        Ok(inner.graph.history(follower, before, Version::ZERO).filter(kept).take(limit).collect())
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        let graph = &self.inner.read().graph;
        let mut quotas: Vec<Quota> = actors.iter().map(|&actor| graph.quota(actor)).collect();
        if self.bug == Bug::QuotasOutOfOrder {
            quotas.reverse();
        }
        Ok(quotas)
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let from = usize::try_from(after.offset.0).unwrap_or(usize::MAX);
        Ok(self.inner.read().events.iter().skip(from).take(limit).cloned().collect())
    }

    fn lineage(&self) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, _partition: u16) -> Result<Sequence> {
        Ok(Sequence(self.inner.read().events.len() as u64))
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        let inner = self.inner.read();
        let ahead = u64::from(self.bug == Bug::ProgressRunsAhead);
        let [listed, covered] = [inner.events.len() as u64, inner.changes + ahead].map(Sequence);
        Ok(Progress { listed, covered, newest: covered })
    }

    async fn covers(&self, watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        Ok((watermark.sequence().0 <= self.inner.read().changes).into())
    }

    /// Always clean: finding the bug is up to the checkers.
    async fn verify(&self) -> Result<Report> {
        Ok(Report::default())
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
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
