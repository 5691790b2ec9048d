//! The contract, over homes whose relays and appliers run as tasks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use entourage_model::{
    Clock, Counts, EdgeValue, Ended, Error, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome,
    Page, Place, Quota, Record, RecordId, Result, Sequence, Space, State, User, Version, View, Watermark, Write,
    replay,
};
use tokio::task::JoinHandle;

use super::{
    bug::Planted,
    engine::{Engine, Sizes, unknown},
    pace::{Pace, Straight},
};
use entourage_store::{
    Answer, CommitOrder, Covered, Derived, Guarantees, Health, Identity, Mirrors, Progress, Report, Server,
    SweepCursor, Swept, Unhealthy, Whose, Writers, fail_point, retention, share,
};

const SIZES: Sizes = Sizes { batch: 256, bucket_rows: 1024 };
/// After which halves that could not be applied are retried.
const RETRY: Duration = Duration::from_millis(10);

/// Gone with the process.
pub struct Store {
    identity: Identity,
    clock: Arc<dyn Clock>,
    history_retention: Duration,
    engine: Arc<Engine>,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl Store {
    /// Versions have no server numbers for more.
    pub const HOMES_MAX: u16 = 256;

    /// At least one home, at most [`Self::HOMES_MAX`]. Their relays and appliers run on this runtime.
    pub fn new(identity: Identity, clock: Arc<dyn Clock>, homes: u16) -> Self {
        Self::paced(identity, clock, homes, Arc::new(Straight))
    }

    /// With a schedule for each step.
    pub fn paced(identity: Identity, clock: Arc<dyn Clock>, homes: u16, pace: Arc<dyn Pace>) -> Self {
        let clocks = vec![Arc::clone(&clock); usize::from(homes.clamp(1, Self::HOMES_MAX))];
        let engine = Arc::new(Engine::new(clocks, pace, Planted::default(), SIZES));
        let mut tasks = Vec::with_capacity(2 * engine.homes.len());
        for home in 0..engine.homes.len() {
            tasks.push(("relay", tokio::spawn(relay(Arc::clone(&engine), home))));
            tasks.push(("applier", tokio::spawn(apply(Arc::clone(&engine), home))));
        }
        let mut store = Self::over(engine, identity, clock);
        store.tasks = tasks;
        store
    }

    /// The caller drives relays and appliers.
    pub fn over(engine: Arc<Engine>, identity: Identity, clock: Arc<dyn Clock>) -> Self {
        Self { identity, clock, history_retention: retention::HISTORY, engine, tasks: Vec::new() }
    }

    /// With another `history.retention`.
    #[must_use]
    pub fn keeping_history(mut self, history_retention: Duration) -> Self {
        self.history_retention = history_retention;
        self
    }

    async fn replay_one(&self, key: IdempotencyKey) -> Result<Option<Outcome>> {
        let now = Version::of_millis(self.clock.now());
        let found = |home: &super::home::Home| home.out.idempotency(&key.scope, now).map(|record| (home.index, record));
        let Some((index, record)) = self.engine.homes.iter().find_map(|home| found(&home.lock())) else {
            return Ok(None);
        };
        self.engine.finish_block(index, record.version).await?;
        // The owner of the key is unknown: the watermark of everything up to now covers it, and more.
        Ok(Some(replay(record, key, self.engine.watermark_of_all().ok_or_else(unknown)?)?))
    }

    fn answer(&self, kind: Kind, (follower, target): (Key, Key), shows_quiet: bool) -> Answer {
        let (edge, is_there) = {
            let home = self.engine.home(follower).lock();
            (home.out.edge(kind, follower, target), home.has_user(follower))
        };
        match edge {
            Some(value) if value.state == State::Active && (shows_quiet || !value.quiet) => {
                let is_there = is_there && self.engine.home(target).lock().has_user(target);
                if is_there { Answer::Yes } else { Answer::Unknown }
            }
            _ => Answer::No,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for (_, task) in &self.tasks {
            task.abort();
        }
    }
}

async fn relay(engine: Arc<Engine>, home: usize) {
    loop {
        while engine.relay(home).await {
            fail_point("relay");
            tokio::task::yield_now().await;
        }
        let Some(relay) = engine.relays.get(home) else { return };
        relay.notified().await;
    }
}

async fn apply(engine: Arc<Engine>, home: usize) {
    loop {
        match engine.apply(home).await {
            Ok(true) => {
                fail_point("applier");
                engine.trim(home);
                tokio::task::yield_now().await;
                continue;
            }
            Ok(false) => {}
            // Nothing of it is skipped, and perhaps nothing else wakes it.
            Err(_) => {
                tokio::time::sleep(RETRY).await;
                continue;
            }
        }
        let Some(applier) = engine.appliers.get(home) else { return };
        applier.notified().await;
    }
}

#[async_trait]
impl entourage_store::Store for Store {
    fn guarantees(&self) -> Guarantees {
        Guarantees {
            name: "partitioned memory",
            durable: false,
            peeks: true,
            // Appliers write as well.
            writers: Writers::Many,
            order: CommitOrder::Unknown,
            derived: Derived::Settling,
            mirrors: Mirrors::Compared,
            partitions: self.engine.count(),
            ranges: self.engine.count(),
            buckets: self.engine.buckets(),
        }
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in &writes {
            outcomes.push(self.engine.write(write).await);
            share::spend(1).await;
        }
        outcomes
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for key in keys {
            outcomes.push(self.replay_one(*key).await);
        }
        outcomes
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        for (answer, pair) in answers.iter_mut().zip(pairs) {
            *answer = self.answer(kind, *pair, true);
        }
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        for (answer, pair) in answers.iter_mut().zip(pairs) {
            *answer = self.answer(Kind::Follow, *pair, false);
        }
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        self.engine.common(one, other, limit, found);
        true
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.engine.home(key).lock().out.has_id(key, id)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let mut edges = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(share::CHUNK) {
            edges.extend(
                pairs
                    .iter()
                    .map(|&(follower, target)| self.engine.home(follower).lock().out.edge(kind, follower, target)),
            );
            share::spend_rows(pairs.len()).await;
        }
        Ok(edges)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let mut users = Vec::with_capacity(keys.len());
        for keys in keys.chunks(share::CHUNK) {
            users.extend(keys.iter().map(|&key| self.engine.user(key)));
            share::spend_rows(keys.len()).await;
        }
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        Ok(users.iter().map(|&user| self.engine.counts(user)).collect())
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let page = self.engine.page(list, after, limit, false);
        share::spend_rows(page.edges.len()).await;
        Ok(page)
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        let page = self.engine.page(list, after, limit, true);
        share::spend_rows(page.edges.len()).await;
        Ok(page)
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        let Some(home) = self.engine.homes.get(usize::from(range)) else { return Ok(Swept::default()) };
        let swept = home.lock().out.sweep(after, limit)?;
        share::spend_rows(swept.users.len()).await;
        Ok(swept)
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        let records = ids.iter().map(|(owner, id)| self.engine.record(space, *owner, id)).collect();
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
            let records = self.engine.records(space, owner, after, limit);
            share::spend_rows(records.len()).await;
            lists.push(records);
        }
        Ok(lists)
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        Ok(owners.iter().map(|&owner| self.engine.count_records(space, owner)).collect())
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        let oldest = retention::history_begins(self.clock.now(), self.history_retention);
        Ok(self.engine.home(follower).lock().out.history(follower, before, oldest).take(limit).collect())
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        Ok(actors.iter().map(|&actor| self.engine.home(actor).lock().out.quota(actor)).collect())
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let events = self.engine.read_events(after, limit).map_err(retention::events_expired_at)?;
        share::spend_rows(events.len()).await;
        Ok(events)
    }

    fn lineage(&self) -> Lineage {
        self.engine.lineage()
    }

    async fn last_event(&self, partition: u16) -> Result<Sequence> {
        Ok(self.progress(partition).await?.listed)
    }

    async fn progress(&self, partition: u16) -> Result<Progress> {
        let home = self.engine.homes.get(usize::from(partition));
        let last = home.ok_or_else(|| Error::internal("there is no such partition"))?.lock().last();
        Ok(Progress { listed: last, covered: last, newest: last })
    }

    async fn covers(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        Ok(self.engine.covers(watermark, whose))
    }

    async fn verify(&self) -> Result<Report> {
        let mut whole = Report::default();
        for home in &self.engine.homes {
            let home = home.lock();
            let report = crate::verify::verify(&home.out, home.events.iter());
            whole.users += report.users;
            whole.edges += report.edges;
            whole.records += report.records;
            whole.events += report.events;
            whole.problems.extend(report.problems);
            for wrong in home.inbound.wrong_totals() {
                whole.problem("count", wrong);
            }
        }
        Ok(whole)
    }

    async fn health(&self) -> Health {
        match self.tasks.iter().find(|(_, task)| task.is_finished()) {
            Some((name, _)) => {
                Health::Degraded(Unhealthy::Poisoned(format!("a {name} has ended; start the server again")))
            }
            None => Health::Ready,
        }
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
