//! A store in a folder: its threads, and the trait's methods.

use std::{
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
};

use async_trait::async_trait;
use entourage_model::{
    Clock, Counts, EdgeValue, Ended, Error, Event, EventPosition, IdempotencyKey, Key, Kind, Lineage, List, Outcome,
    Page, Place, Quota, Record, RecordId, Result, Sequence, Space, User, Version, Watermark, Write, replay,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    checkpoint::Checkpointer,
    documents::document_block::{Collection, CollectionKey, Named},
    engine::{Engine, Trouble},
    fault::Fault,
    identity,
    log::{self, next_segment},
    options::Options,
    reads::{checks, common_following, edges, events, newest_follows},
    recovery,
    state::{delta::Direction, plane::StoredPlane},
    upkeep::{backup, verify},
    writes::sequencer::{Job, Queue, Sequencer},
};
use entourage_store::{
    Answer, Covered, Guarantees, Health, Identity, NewestFollows, Progress, Report, Server, SweepCursor, Swept,
    Unhealthy, Whose, disk::Disk, share,
};

/// Edges looked up before other tasks get a turn: each may be in a block of its own.
const EDGES_AT_ONCE: usize = 16;
/// Documents, which are longer than rows, per unit of a task's share.
const DOCUMENTS_A_UNIT: usize = 4;

/// A store in one folder of one machine.
pub struct Store {
    pub(crate) engine: Arc<Engine>,
    queue: Arc<Queue>,
    sequencer: Mutex<Option<JoinHandle<()>>>,
    helpers: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Store {
    /// Opens the store in `disk`, creating it in an empty folder. `place` names the folder in messages.
    pub fn open(disk: Arc<dyn Disk>, place: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        Self::open_as(disk, place, options, clock, identity::random)
    }

    /// [`Store::open`] with a given identity for a new store, to make tests repeatable.
    pub fn open_as(
        disk: Arc<dyn Disk>,
        place: &str,
        options: Options,
        clock: Arc<dyn Clock>,
        fresh: impl FnOnce() -> Identity,
    ) -> Result<Self, Fault> {
        let lock = disk.lock().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Fault::InUse(place.to_owned()),
            _ => error.into(),
        })?;
        let identity = identity::open(&*disk, fresh)?;
        let engine = Arc::new(Engine::new(disk, clock, options, identity));
        let recovered = recovery::recover(&engine)?;
        let queue = Arc::new(Queue::default());
        let sequencer = Sequencer::new(Arc::clone(&engine), Arc::clone(&queue), recovered.last, recovered.version);
        let checkpointer = Checkpointer::new(Arc::clone(&engine), recovered.manifest, recovered.groups);
        let spawn =
            |name, run| spawn(name, Watch { name, engine: Arc::clone(&engine), queue: Arc::clone(&queue) }, run);
        let mut helpers = vec![spawn("checkpoint", Box::new(move || checkpointer.run()))?];
        if options.prepare_ahead {
            let next = engine.segments.lock().all.back().map_or(1, |segment| segment.number + 1);
            engine.next_segment.want(next);
            let engine = Arc::clone(&engine);
            helpers.push(spawn("segments", Box::new(move || next_segment::run(&engine)))?);
        }
        let pipeline = sequencer.pipeline();
        helpers.push(spawn("commit", Box::new(move || pipeline.run()))?);
        let sequencer = spawn("sequencer", Box::new(move || sequencer.run()))?;
        Ok(Self {
            engine,
            queue,
            sequencer: Mutex::new(Some(sequencer)),
            helpers: Mutex::new(helpers),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Folds everything so far into blocks, and removes log segments past retention.
    pub async fn checkpoint(&self) -> Result<()> {
        self.checkpoint_and(false).await
    }

    /// Leaves nothing of erased users on disk: blocks that held their data are rewritten, and the log begins anew.
    pub async fn erase_now(&self) -> Result<()> {
        let last = self.engine.segments.lock().all.back().map(|segment| segment.number);
        self.checkpoint_and(true).await?;
        let first = self.engine.segments.lock().all.front().map(|segment| segment.number);
        // No file is removed during a backup.
        if first <= last {
            return Err(Error::unavailable(
                "a backup is being made, and nothing is removed meanwhile; try again after it",
            ));
        }
        Ok(())
    }

    async fn checkpoint_and(&self, drop_log: bool) -> Result<()> {
        loop {
            let (reply, answer) = oneshot::channel();
            self.push(Job::Freeze { drop_log, reply }, usize::MAX)?;
            let begun = answer.await.map_err(|_| self.gone())??;
            let engine = Arc::clone(&self.engine);
            let finished = tokio::task::spawn_blocking(move || wait_for_checkpoint(&engine)).await;
            finished.map_err(|error| Error::internal(error.to_string()))??;
            if begun {
                return Ok(());
            }
        }
    }

    /// Copies the store into an empty folder while it keeps serving.
    pub async fn backup(&self, to: Arc<dyn Disk>, progress: impl FnMut(u64, u64) + Send + 'static) -> Result<u64> {
        let engine = Arc::clone(&self.engine);
        let copied = tokio::task::spawn_blocking(move || backup::backup(&engine, &*to, progress)).await;
        Ok(copied.map_err(|error| Error::internal(error.to_string()))??)
    }

    /// Estimated bytes of the state in memory, as compared with `memory.budget`.
    pub fn memory_estimate(&self) -> u64 {
        self.engine.memory_estimate()
    }

    /// Bytes on disk: (block and checkpoint files, retained log).
    pub fn disk_bytes(&self) -> Result<(u64, u64), Fault> {
        let mut blocks = 0;
        for name in self.engine.disk.list()? {
            if log::segment_number(&name).is_none() {
                blocks += self.engine.disk.open(&name)?.size()?;
            }
        }
        let retained = self.engine.segments.lock().bytes();
        Ok((blocks, retained))
    }

    pub fn edges(&self) -> u64 {
        self.engine.state.edges()
    }

    pub fn idempotency_records(&self) -> usize {
        self.engine.idempotency.len()
    }

    fn push(&self, job: Job, limit: usize) -> Result<()> {
        self.engine.poisoned()?;
        self.queue.push(job, limit)
    }

    /// Why no reply will come.
    fn gone(&self) -> Error {
        self.engine.poisoned().err().unwrap_or(Fault::Closed).into()
    }

    /// Runs `work` on a blocking thread.
    async fn beside<T: Send + 'static>(&self, work: impl FnOnce(&Engine) -> Result<T> + Send + 'static) -> Result<T> {
        let engine = Arc::clone(&self.engine);
        let done = tokio::task::spawn_blocking(move || work(&engine)).await;
        done.map_err(|error| Error::internal(error.to_string()))?
    }

    /// Returns a result that did not need to wait for the disk, or repeats the read on a thread that may. Most blocks
    /// are in the page cache, where reading one costs less than going to another thread and back.
    async fn or_beside<T, R>(&self, tried: Result<T, Fault>, again: impl FnOnce() -> R + Send) -> Result<T>
    where
        T: Send + 'static,
        R: FnOnce(&Engine) -> Result<T, Fault> + Send + 'static,
    {
        match tried {
            Err(Fault::WouldBlock) => {
                let read = again();
                self.beside(move |engine| Ok(read(engine)?)).await
            }
            done => Ok(done?),
        }
    }

    async fn scan_list(&self, list: List, after: Option<Place>, direction: Direction, limit: usize) -> Result<Page> {
        let Engine { state, files, .. } = &*self.engine;
        let tried = edges::scan(state, files.in_memory(), list, after, direction, limit);
        let again = || move |engine: &Engine| edges::scan(&engine.state, &engine.files, list, after, direction, limit);
        let page = self.or_beside(tried, again).await?;
        share::spend_rows(page.edges.len()).await;
        Ok(page)
    }

    /// Of a list that is longer: mostly none of `hidden` is among the newest.
    async fn newest(&self, user: Key, limit: usize, hidden: &[u32]) -> Result<Vec<u32>> {
        let list = List::following(user).open();
        let mut wanted = limit;
        loop {
            let tried = edges::newest(&self.engine.state, self.engine.files.in_memory(), list, wanted);
            let again = || move |engine: &Engine| edges::newest(&engine.state, &engine.files, list, wanted);
            let mut newest = self.or_beside(tried, again).await?;
            share::spend_rows(newest.len()).await;
            let is_all = newest.len() < wanted;
            newest.retain(|other| hidden.binary_search(other).is_err());
            if is_all || newest.len() >= limit {
                newest.truncate(limit);
                return Ok(newest);
            }
            wanted = wanted.saturating_mul(2);
        }
    }

    fn stop(&self) {
        self.queue.close();
        self.engine.stopping.store(true, Ordering::Release);
        self.engine.checkpoint_changed.notify_all();
        self.engine.next_segment.stop();
        let sequencer = self.sequencer.lock().take();
        for thread in sequencer.into_iter().chain(self.helpers.lock().drain(..)) {
            // A thread that panicked has poisoned the engine already.
            let _ = thread.join();
        }
        self.lock.lock().take();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, watch: Watch, run: Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>, Fault> {
    let run = move || {
        let _watch = watch;
        run();
    };
    Ok(std::thread::Builder::new().name(format!("entourage-{name}")).spawn(run)?)
}

/// Reports a thread that panics: nobody waits for it any more, and no write builds on what it may have left half done.
struct Watch {
    name: &'static str,
    engine: Arc<Engine>,
    queue: Arc<Queue>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.poison(&Fault::ThreadEnded(self.name));
            self.queue.abandon();
            self.engine.checkpoint_changed.notify_all();
            self.engine.next_segment.stop();
        }
    }
}

fn wait_for_checkpoint(engine: &Engine) -> Result<(), Fault> {
    let mut state = engine.checkpoint.lock();
    let attempts = state.attempts;
    // Wakes a checkpoint writer that waits before a retry.
    engine.checkpoint_changed.notify_all();
    loop {
        if state.frozen.is_none() {
            return Ok(());
        }
        if state.attempts > attempts
            && let Some(fault) = &state.last_error
        {
            return Err(fault.clone());
        }
        engine.poisoned()?;
        if engine.is_stopping() {
            return Err(Fault::Closed);
        }
        engine.checkpoint_changed.wait_for(&mut state, std::time::Duration::from_millis(100));
    }
}

#[async_trait]
impl entourage_store::Store for Store {
    fn guarantees(&self) -> Guarantees {
        Guarantees { durable: true, ..Guarantees::in_one_process("embedded") }
    }

    fn identity(&self) -> &Identity {
        &self.engine.identity
    }

    async fn commit_all(&self, writes: Vec<Write>) -> Vec<Result<Outcome>> {
        let count = writes.len();
        let (reply, answer) = oneshot::channel();
        let refused = match self.push(Job::Commit { writes, reply }, self.engine.options.queue_limit) {
            Ok(()) => match answer.await {
                Ok(results) => return results,
                Err(_) => self.gone(),
            },
            Err(error) => error,
        };
        vec![Err(refused); count]
    }

    async fn replay_all(&self, keys: &[IdempotencyKey]) -> Vec<Result<Option<Outcome>>> {
        let (now, ttl) = (Version::of_millis(self.engine.clock.now()), self.engine.options.idempotency_millis());
        let mut outcomes = Vec::with_capacity(keys.len());
        for &key in keys {
            let tried = self.engine.idempotency.get_in_memory(&key.scope, now, ttl);
            let again = || move |engine: &Engine| engine.idempotency.get(&key.scope, now, ttl);
            let outcome = self.or_beside(tried, again).await.and_then(|record| {
                let watermark = Watermark::at(self.engine.state.published());
                Ok(record.map(|record| replay(record, key, watermark)).transpose()?)
            });
            outcomes.push(outcome);
        }
        outcomes
    }

    fn peek_all(&self, kind: Kind, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        checks::peek_all(&self.engine.state, StoredPlane::of_row(kind), pairs, answers);
    }

    fn peek_common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) -> bool {
        common_following::common_following(&self.engine.state, one, other, limit, found);
        true
    }

    fn peek_open(&self, pairs: &[(Key, Key)], answers: &mut [Answer]) {
        checks::peek_open(&self.engine.state, pairs, answers);
    }

    fn peek_id(&self, key: Key, id: &[u8]) -> bool {
        self.engine.state.has_id(key, id)
    }

    async fn get_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        let Engine { state, files, .. } = &*self.engine;
        let ordinal = |key| state.ordinal_of_edges(key);
        let mut edges = Vec::with_capacity(pairs.len());
        // Pairs mostly come grouped by follower.
        let mut known = None;
        for pairs in pairs.chunks(EDGES_AT_ONCE) {
            for &(follower, target) in pairs {
                if known.is_none_or(|(key, _)| key != follower) {
                    known = Some((follower, ordinal(follower)));
                }
                let follower = known.and_then(|(_, ordinal)| ordinal);
                let (Some(follower), Some(target)) = (follower, ordinal(target)) else {
                    edges.push(None);
                    continue;
                };
                let tried = edges::get(state, files.in_memory(), kind, follower, target);
                let again = || move |engine: &Engine| edges::get(&engine.state, &engine.files, kind, follower, target);
                edges.push(self.or_beside(tried, again).await?);
            }
            // Each may have read a block.
            share::spend(pairs.len()).await;
        }
        Ok(edges)
    }

    async fn get_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>> {
        let mut users = Vec::with_capacity(keys.len());
        for keys in keys.chunks(share::CHUNK) {
            users.extend(keys.iter().map(|&key| self.engine.state.user(key)));
            share::spend_rows(keys.len()).await;
        }
        Ok(users)
    }

    async fn get_all_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>> {
        let mut counts = Vec::with_capacity(users.len());
        for users in users.chunks(share::CHUNK) {
            counts.extend(users.iter().map(|&user| self.engine.state.counts(user)));
            share::spend_rows(users.len()).await;
        }
        Ok(counts)
    }

    async fn scan(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.scan_list(list, after, Direction::Down, limit).await
    }

    async fn scan_up(&self, list: List, after: Option<Place>, limit: usize) -> Result<Page> {
        self.scan_list(list, after, Direction::Up, limit).await
    }

    async fn newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
        found: &mut NewestFollows,
    ) -> Result<()> {
        let state = &self.engine.state;
        let hidden = newest_follows::ordinals(state, without);
        for users in users.chunks(newest_follows::LISTS_A_UNIT) {
            for &user in users {
                if newest_follows::push_row(state, user, limit, &hidden, found) {
                    continue;
                }
                found.extend(self.newest(user, limit, &hidden).await?);
                found.end_list();
            }
            share::spend(1).await;
        }
        found.raise_bound(state.users());
        Ok(())
    }

    fn keys_of(&self, _found: &NewestFollows, numbers: &[u32]) -> Vec<Key> {
        let keys = self.engine.state.keys();
        numbers.iter().filter_map(|ordinal| keys.get(*ordinal as usize).copied()).collect()
    }

    async fn public_followers(&self, _found: &NewestFollows, numbers: &[u32]) -> Result<Vec<u64>> {
        let mut followers = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(newest_follows::USERS_A_UNIT) {
            newest_follows::public_followers(&self.engine.state, numbers, &mut followers);
            share::spend(1).await;
        }
        Ok(followers)
    }

    async fn sweep(&self, range: u16, after: Option<&SweepCursor>, limit: usize) -> Result<Swept> {
        let mut from = match after {
            _ if range > 0 => return Ok(Swept::default()),
            Some(after) => after.ordinal()?.saturating_add(1),
            None => 0,
        };
        let mut users = Vec::new();
        // Where many users were erased, a page ends before it is full.
        let until = from.saturating_add(u32::try_from(limit).unwrap_or(u32::MAX).max(edges::SWEPT_AT_ONCE));
        while users.len() < limit && from < until {
            let before = from;
            let is_end = edges::sweep(&self.engine.state, &mut from, until, limit, &mut users);
            share::spend_rows((from - before) as usize).await;
            if is_end {
                return Ok(Swept { users, next: None });
            }
        }
        Ok(Swept { users, next: from.checked_sub(1).map(SweepCursor::of_ordinal) })
    }

    async fn get_records(&self, space: Space, ids: &[(Key, RecordId)]) -> Result<Vec<Option<Record>>> {
        let mut records = Vec::with_capacity(ids.len());
        for (owner, id) in ids {
            let key = CollectionKey { owner: *owner, collection: Collection::Records(space) };
            let tried = self.engine.state.documents.get(self.engine.files.in_memory(), key, id.as_bytes());
            let again = || {
                let id = id.clone();
                move |engine: &Engine| engine.state.documents.get(&engine.files, key, id.as_bytes())
            };
            let found = self.or_beside(tried, again).await?;
            share::spend(1).await;
            records.push(found.map(|found| Record { id: id.clone(), version: found.version, value: found.value }));
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
        let record = |(id, document): Named| {
            Ok(Record { id: RecordId::new(&id)?, version: document.version, value: document.value })
        };
        let mut lists = Vec::with_capacity(owners.len());
        for &owner in owners {
            let key = CollectionKey { owner, collection: Collection::Records(space) };
            let after = after.unwrap_or_default();
            let tried = self.engine.state.documents.scan(self.engine.files.in_memory(), key, after, limit);
            let again = || {
                let after = after.to_vec();
                move |engine: &Engine| engine.state.documents.scan(&engine.files, key, &after, limit)
            };
            let found = self.or_beside(tried, again).await?;
            share::spend(1 + found.len() / DOCUMENTS_A_UNIT).await;
            lists.push(found.into_iter().map(record).collect::<Result<_>>()?);
        }
        Ok(lists)
    }

    async fn count_each(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>> {
        let count = |&owner: &Key| {
            self.engine.state.documents.count(CollectionKey { owner, collection: Collection::Records(space) })
        };
        Ok(owners.iter().map(count).collect())
    }

    async fn scan_history(&self, follower: Key, before: Option<Version>, limit: usize) -> Result<Vec<Ended>> {
        let Some(user) = self.engine.state.user(follower) else { return Ok(Vec::new()) };
        let oldest = self.engine.options.history_begins(self.engine.clock.now()).max(user.created);
        let Engine { state, files, .. } = &*self.engine;
        let tried = state.documents.history(files.in_memory(), follower, before, oldest, limit);
        let again =
            || move |engine: &Engine| engine.state.documents.history(&engine.files, follower, before, oldest, limit);
        let ended = self.or_beside(tried, again).await?;
        share::spend(1 + ended.len() / DOCUMENTS_A_UNIT).await;
        Ok(ended)
    }

    async fn get_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>> {
        share::spend_rows(actors.len()).await;
        Ok(actors.iter().map(|&actor| self.engine.state.quotas.quota(actor)).collect())
    }

    async fn events(&self, after: EventPosition, limit: usize) -> Result<Vec<Event>> {
        let after = after.offset;
        if after >= self.engine.state.published() {
            return Ok(Vec::new());
        }
        // A segment may have to be read from its beginning.
        self.beside(move |engine| events::read(engine, after, limit)).await
    }

    fn lineage(&self) -> Lineage {
        Lineage::default()
    }

    async fn last_event(&self, _partition: u16) -> Result<Sequence> {
        Ok(self.engine.state.published())
    }

    async fn progress(&self, _partition: u16) -> Result<Progress> {
        let published = self.engine.state.published();
        Ok(Progress { listed: published, covered: published, newest: published })
    }

    async fn covers(&self, watermark: &Watermark, _whose: Whose<'_>) -> Result<Covered> {
        Ok((watermark.sequence() <= self.engine.state.published()).into())
    }

    async fn verify(&self) -> Result<Report> {
        self.beside(|engine| Ok(verify::verify(engine)?)).await
    }

    async fn health(&self) -> Health {
        let failed = self.engine.checkpoint.lock().last_error.clone();
        match &*self.engine.trouble.lock() {
            None if self.engine.is_over_budget() => Health::Degraded(Unhealthy::MemoryFull),
            None => match failed {
                // Writes continue, but memory and log grow until this is repaired.
                Some(fault @ Fault::Damaged { .. }) => Health::Degraded(Unhealthy::NoCheckpoint(fault.to_string())),
                _ => Health::Ready,
            },
            Some(Trouble::Poisoned(fault)) => Health::Degraded(Unhealthy::Poisoned(fault.to_string())),
            Some(Trouble::NoSegment(fault)) if fault.is_full() => {
                Health::Degraded(Unhealthy::StorageFull(fault.to_string()))
            }
            Some(Trouble::NoSegment(fault)) => Health::Degraded(Unhealthy::NoLogFile(fault.to_string())),
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
        // A checkpoint needs disk space and file handles.
        let in_trouble = self.engine.trouble.lock().is_some();
        let checkpointed = if in_trouble { Ok(()) } else { self.checkpoint().await };
        self.stop();
        checkpointed
    }
}
