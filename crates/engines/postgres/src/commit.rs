//! Group commit: concurrent writes are locked, loaded, decided one after the other and stored as one transaction, in
//! two round trips.

use std::sync::Arc;

use deadpool_postgres::Object;
use entourage_model::{
    Clock as _, Code, Error, Lineage, Millis, Outcome, Result, Sequence, Version, Watermark, Write, resolve,
};
use hashbrown::HashSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Client;

use super::{
    ANSWER_WITHIN, Engine, breaker, counts,
    error::{Failure, retrying, unreadable},
    load,
    lock::{self, Wanted},
    put::Puts,
    queue::{Chunk, Message, Messages, Writer},
    statements::Statements,
    time::latest,
    versions::obeyed,
    view::Loaded,
    wants::{self, Wants},
};

pub(super) const END: &str = "SELECT sequence FROM relay";

/// Whether a commit waits for locks that others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    Tries,
    Waits,
}

/// A chunk of a caller's writes on its way.
pub(super) enum Queued {
    Refused(Vec<Result<Outcome>>),
    Waits { count: usize, messages: Messages, writer: Option<Writer>, deadline: Instant },
}

/// The outcomes of each chunk; `None`: another server has one of its locks.
type Decided = Vec<Option<Vec<Result<Outcome>>>>;

impl Engine {
    /// Into the queue, in the order of the calls.
    pub(super) fn enqueue(&self, writes: Vec<Write>, locks: Wanted) -> Queued {
        let count = writes.len();
        if let Err(error) = self.refuse_when_closed().and(self.breaker.check().map_err(Error::from)) {
            return Queued::Refused(vec![Err(error); count]);
        }
        let is_alone = writes.iter().any(|write| wants::is_alone(&write.operation));
        let deadline = Instant::now() + ANSWER_WITHIN;
        let (messages, writer) = self.queue.push(Chunk::new(writes, locks, is_alone), self.options.writers);
        Queued::Waits { count, messages, writer, deadline }
    }

    /// The outcomes of what was queued.
    pub(super) async fn finish(self: Arc<Self>, queued: Queued) -> Vec<Result<Outcome>> {
        let (count, mut messages, writer, deadline) = match queued {
            Queued::Refused(outcomes) => return outcomes,
            Queued::Waits { count, messages, writer, deadline } => (count, messages, writer, deadline),
        };
        if let Some(writer) = writer
            && let Some(outcomes) = self.write(writer, &mut messages, deadline).await
        {
            return outcomes;
        }
        let mut has_refused = false;
        loop {
            let message = tokio::select! {
                message = timeout_at(deadline, messages.recv()) => message,
                // What no writer has taken was not sent to PostgreSQL.
                () = self.breaker.opened(), if !has_refused => {
                    has_refused = true;
                    self.queue.refuse_waiting(&breaker::away());
                    continue;
                }
            };
            match message {
                Ok(Some(Message::Done(outcomes))) => return outcomes,
                Ok(Some(Message::Write(writer))) => {
                    if let Some(outcomes) = self.write(writer, &mut messages, deadline).await {
                        return outcomes;
                    }
                }
                _ => return vec![Err(Error::unavailable("PostgreSQL does not answer")); count],
            }
        }
    }

    /// Commits batches until its own outcomes are known, or nothing is left that it may take.
    async fn write(
        self: &Arc<Self>,
        mut writer: Writer,
        messages: &mut Messages,
        deadline: Instant,
    ) -> Option<Vec<Result<Outcome>>> {
        while let Some((same, batch)) = writer.next(self.options.batch) {
            writer = same;
            // Dropped, its connection is closed, and its callers learn that nobody knows.
            let _ = timeout_at(deadline, self.commit_batch(batch)).await;
            // Whoever was just answered may have the next write ready.
            tokio::task::yield_now().await;
            // It may have been asked to write as well; that goes to another.
            for _ in 0..2 {
                if let Ok(Message::Done(outcomes)) = messages.try_recv() {
                    return Some(outcomes);
                }
            }
        }
        None
    }

    /// One bad write harms no other: what fails as a whole is tried in parts.
    async fn commit_batch(self: &Arc<Self>, batch: Vec<Chunk>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            match self.commit_part(&mut part, Locking::Tries).await {
                Ok(decided) => self.answer(part, decided),
                Err(failure) if failure.error.code() != Code::Internal => {
                    part.into_iter().for_each(|chunk| refuse(chunk, &failure.error));
                }
                Err(_) if part.len() > 1 => {
                    let later = part.split_off(part.len() / 2);
                    parts.extend([later, part]);
                }
                Err(failure) => {
                    for chunk in part {
                        self.commit_each(chunk, &failure).await;
                    }
                }
            }
        }
    }

    fn answer(self: &Arc<Self>, part: Vec<Chunk>, decided: Decided) {
        for (chunk, outcomes) in part.into_iter().zip(decided) {
            match outcomes {
                Some(outcomes) => chunk.answer(outcomes),
                None => drop(tokio::spawn(Arc::clone(self).commit_slowly(chunk))),
            }
        }
    }

    /// Each write of a chunk by itself.
    async fn commit_each(&self, mut chunk: Chunk, failure: &Failure) {
        let writes = std::mem::take(&mut chunk.writes);
        if writes.len() == 1 {
            let error = failure.error.clone();
            return chunk.answer(vec![Err(error)]);
        }
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            let locks = self.locks.of(&write);
            let mut part = [Chunk::new(vec![write], locks, false)];
            let done = self.commit_part(&mut part, Locking::Waits).await.map(|decided| decided.into_iter().next());
            outcomes.extend(match done {
                Ok(decided) => decided.flatten().unwrap_or_default(),
                Err(failure) => vec![Err(failure.error)],
            });
        }
        chunk.answer(outcomes);
    }

    /// The lane of those that wait for a lock of another server: it has connections of its own, and not many.
    async fn commit_slowly(self: Arc<Self>, chunk: Chunk) {
        let work = async {
            let _turn = self.slow_lane.acquire().await;
            let mut part = [chunk];
            let decided = self.commit_part(&mut part, Locking::Waits).await;
            let [chunk] = part;
            match decided.map(|decided| decided.into_iter().next().flatten()) {
                Ok(Some(outcomes)) => chunk.answer(outcomes),
                Ok(None) => refuse(chunk, &Error::unavailable("another server holds what this write needs")),
                Err(failure) if failure.error.code() == Code::Internal => self.commit_each(chunk, &failure).await,
                Err(failure) => refuse(chunk, &failure.error),
            }
        };
        let _ = timeout(ANSWER_WITHIN, work).await;
        self.queue.wake(self.options.writers);
    }

    async fn commit_part(&self, part: &mut [Chunk], locking: Locking) -> Result<Decided, Failure> {
        self.breaker.guard(retrying(|| self.keep_lease())).await?;
        let part = tokio::sync::Mutex::new(part);
        retrying(|| async { self.attempt(&mut part.lock().await, locking).await }).await
    }

    async fn attempt(&self, part: &mut [Chunk], locking: Locking) -> Result<Decided, Failure> {
        let session = Session::of(self.connection(&self.writes).await?);
        let lineage = self.lineage_of(session.object()?)?;
        let statements = self.breaker.guard(Statements::of(session.object()?)).await?;
        let mut done = self.commit_on(session.object()?, &statements, lineage, part, locking).await;
        if let Ok((decided, before)) = &mut done {
            number(decided, lineage, *before);
        }
        let done = done.map(|(decided, _)| decided);
        let has_ended = match &done {
            Ok(_) => true,
            // Over a lost connection nothing can be rolled back, and need not.
            Err(failure) => !failure.is_lost && session.object()?.batch_execute("ROLLBACK").await.is_ok(),
        };
        if has_ended {
            session.end();
        }
        done
    }

    async fn commit_on(
        &self,
        client: &Client,
        statements: &Statements,
        lineage: Lineage,
        part: &mut [Chunk],
        locking: Locking,
    ) -> Result<(Decided, Sequence), Failure> {
        let writes: Vec<&Write> = part.iter().flat_map(|chunk| &chunk.writes).collect();
        let mut wants: Vec<Wants> = writes.iter().map(|write| Wants::of(write)).collect();
        let began = self.time.begin();
        let begun = self.breaker.guard(async {
            let begun = tokio::join!(
                async { client.batch_execute("BEGIN").await.map_err(Failure::from) },
                lock_all(client, statements, part, locking),
                load::load(client, statements, &wants),
            );
            let (locked, mut state) = match begun {
                (Ok(()), Ok(locked), Ok(state)) => (locked, state),
                (a, b, c) => return Err(Failure::cause([a.err(), b.err(), c.err()])),
            };
            self.learn_who_writes(locked.writers_from)?;
            // Tables of this transaction are not replaced before it ends.
            self.must_be_lineage(lineage, locked.lineage)?;
            let database = self.time.learn(began, locked.millis);
            // A process that has not noticed yet stores nothing by a wrong clock.
            self.time.refuse_when_wrong()?;
            (state.idempotency_millis, state.now) = (self.options.idempotency_millis(), database);
            load::load_more(client, statements, &writes, &mut wants, &mut state).await?;
            Ok((locked, database, state))
        });
        let (Locked { transaction, missed, .. }, database, mut state) = begun.await?;
        if self.time.now() > latest(database) {
            // Paused since the time was read, or the clock has just jumped: the next attempt knows which.
            return Err(Failure { again: true, ..too_far_ahead().into() });
        }
        let decided = self.decide(part, &wants, &mut state, &missed, database);
        let outcomes = decided.iter().flatten().flatten().filter_map(|outcome| outcome.as_ref().ok());
        let puts = Puts::of(outcomes, &state.stored, database)?;
        let before = match puts.is_empty() {
            true => end(client, statements).await?,
            false => match self.breaker.guard(puts.commit(client, statements)).await {
                // The end may be that of later commits: a reader who has seen it has seen this one, too.
                Err(failure) if failure.is_lost => puts.before(self.settle(transaction, lineage, &failure).await?),
                done => done?,
            },
        };
        self.unfolded.fetch_add(counts::hot(&puts.deltas), std::sync::atomic::Ordering::Relaxed);
        Ok((decided, before))
    }

    /// One after the other: each sees what the earlier ones of the batch changed.
    fn decide(
        &self,
        part: &mut [Chunk],
        wants: &[Wants],
        state: &mut Loaded,
        missed: &HashSet<i64>,
        database: Millis,
    ) -> Decided {
        let mut wants = wants.iter();
        let mut decide = |chunk: &mut Chunk| {
            let is_missed = chunk.locks.iter().any(|(number, _)| missed.contains(number));
            let mut outcomes = Vec::with_capacity(chunk.writes.len());
            for (write, version) in chunk.writes.iter().zip(&mut chunk.versions) {
                let Some(wants) = wants.next().filter(|_| !is_missed) else { continue };
                let version = self.version_above(state.floor(wants), write.floor, database, version);
                let outcome = version.and_then(|version| Ok(resolve(state, write, version, Sequence::ZERO)?));
                outcomes.push(outcome.inspect(|outcome| state.apply(outcome)));
            }
            (!is_missed).then_some(outcomes)
        };
        part.iter_mut().map(&mut decide).collect()
    }

    /// Above what is stored and above the floor of the write; the one of an earlier attempt, if it is.
    fn version_above(
        &self,
        stored: Version,
        floor: Version,
        database: Millis,
        earlier: &mut Version,
    ) -> Result<Version> {
        if *earlier <= stored.max(obeyed(floor, database)) {
            let next = self.versions.lock().next(self.time.now(), database, stored, floor);
            *earlier = next.map_err(|_| too_far_ahead())?;
        }
        Ok(*earlier)
    }
}

/// Each outcome is seen by whoever has seen the log up to its last change.
fn number(decided: &mut Decided, lineage: Lineage, before: Sequence) {
    let mut last = before;
    for outcome in decided.iter_mut().flatten().flatten().filter_map(|outcome| outcome.as_mut().ok()) {
        last = last.plus(outcome.changes.len() as u64);
        outcome.watermark = Watermark::new(lineage, [last]);
    }
}

fn refuse(chunk: Chunk, error: &Error) {
    let count = chunk.writes.len();
    chunk.answer(vec![Err(error.clone()); count]);
}

fn too_far_ahead() -> Error {
    Error::unavailable("this server was paused, or its clock has just jumped ahead of PostgreSQL's")
}

/// What the first statement of a commit brings.
struct Locked {
    /// The transaction's number.
    transaction: u64,
    /// The locks that others have.
    missed: HashSet<i64>,
    /// The database's time.
    millis: i64,
    writers_from: i32,
    /// The newest one, or zero if the schema is a copy.
    lineage: i64,
}

async fn lock_all(
    client: &Client,
    statements: &Statements,
    part: &[Chunk],
    locking: Locking,
) -> Result<Locked, Failure> {
    let locks = lock::union(part.iter().flat_map(|chunk| chunk.locks.iter().copied()));
    let (numbers, exclusive): (Vec<i64>, Vec<bool>) = locks.into_iter().unzip();
    let statement = match locking {
        Locking::Tries => &statements.try_locks,
        Locking::Waits => &statements.wait_for_locks,
    };
    let found = client.query_one(statement, &[&numbers, &exclusive]).await?;
    let transaction = found.get::<_, &str>(0).parse().map_err(|_| unreadable("transaction number"))?;
    let missed = found.get::<_, Vec<i64>>(1).into_iter().collect();
    Ok(Locked { transaction, missed, millis: found.get(2), writers_from: found.get(3), lineage: found.get(4) })
}

/// Nothing is to be stored: where the log ends, as of a moment after everything was read.
async fn end(client: &Client, statements: &Statements) -> Result<Sequence, Failure> {
    let (found, ended) = tokio::join!(client.query_one(&statements.read_end, &[]), client.batch_execute("ROLLBACK"));
    ended?;
    Ok(Sequence(found?.get::<_, i64>(0).unsigned_abs()))
}

/// A connection with a transaction. Unless it ended, the connection is closed, and PostgreSQL rolls it back.
struct Session(Option<Object>);

impl Session {
    const fn of(object: Object) -> Self {
        Self(Some(object))
    }

    fn object(&self) -> Result<&Object, Failure> {
        self.0.as_ref().ok_or_else(|| Error::internal("a session ended early").into())
    }

    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}
