//! One transaction for each write: lock, load, decide, store.

use deadpool_postgres::Transaction;
use entourage_model::{
    Change, EdgeChange, Error, Expiry, Operation, Outcome, RecordChange, Result, Sequence, User, Version, Watermark,
    Write, resolve,
};
use parking_lot::Mutex;

use super::{
    Store,
    counts::{self, Delta},
    error::{Failure, answering, retrying, unreadable},
    records, row,
    view::Loaded,
};

const EDGES: &str = "INSERT INTO edges (kind, follower, target, state, quiet, version, position, accepted, expires) \
     SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::boolean[], $6::bigint[], \
     $7::bigint[], $8::boolean[], $9::bigint[]) \
     ON CONFLICT (follower, target, kind) DO UPDATE SET state = excluded.state, quiet = excluded.quiet, \
     version = excluded.version, position = excluded.position, accepted = excluded.accepted, \
     expires = excluded.expires WHERE edges.version < excluded.version";
const USER: &str = "INSERT INTO users \
     (key, id, name, avatar_url, private, hide_lists, registered_at, created, version, follow_suspended) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) \
     ON CONFLICT (key) DO UPDATE SET id = excluded.id, name = excluded.name, avatar_url = excluded.avatar_url, \
     private = excluded.private, hide_lists = excluded.hide_lists, registered_at = excluded.registered_at, \
     created = excluded.created, version = excluded.version, follow_suspended = excluded.follow_suspended \
     WHERE users.version < excluded.version";
const OUTBOX: &str = "INSERT INTO outbox (version, change) \
     SELECT $1, change::jsonb FROM unnest($2::text[]) WITH ORDINALITY AS made (change, place) ORDER BY place";
const IDEMPOTENCY: &str = "INSERT INTO idempotency (scope, request, version, reply) VALUES ($1, $2, $3, $4::text::jsonb) \
     ON CONFLICT (scope) DO UPDATE SET request = excluded.request, version = excluded.version, reply = excluded.reply";
const WATERMARK: &str = "SELECT pg_current_xact_id()::text";
/// The same, with the write's use of its actor's quota.
const WATERMARK_WITH_QUOTA: &str =
    "WITH taken AS (UPDATE users SET quota = $2 WHERE key = $1) SELECT pg_current_xact_id()::text";

impl Store {
    pub(super) async fn commit_one(&self, write: &Write) -> Result<Outcome> {
        self.refuse_when_closed()?;
        refuse_nul(&write.operation)?;
        let version = Mutex::new(Version::ZERO);
        let committed = answering(async {
            retrying(|| self.keep_lease()).await?;
            retrying(|| self.attempt(write, &version)).await
        });
        let (outcome, deltas) = committed.await?;
        self.fold_sometimes(deltas).await;
        self.tidy_sometimes().await;
        Ok(outcome)
    }

    /// The outcome, and how many count deltas it wrote.
    async fn attempt(&self, write: &Write, version: &Mutex<Version>) -> Result<(Outcome, u64), Failure> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        self.locks.take(&transaction, write).await?;
        let view = Loaded::load(&transaction, write, &self.options).await?;
        let floor = view.floor().max(write.floor);
        let version = self.version_above(floor, &mut version.lock());
        let mut outcome = resolve(&view, write, version, Sequence::ZERO)?;
        let deltas = counts::deltas(&outcome.changes);
        outcome.watermark = Watermark::at(put(&transaction, &outcome, &deltas).await?);
        transaction.commit().await.map_err(Failure::of_commit)?;
        Ok((outcome, deltas.len() as u64))
    }

    /// A retry keeps its version unless somebody has written above it meanwhile.
    fn version_above(&self, floor: Version, earlier: &mut Version) -> Version {
        if *earlier <= floor {
            *earlier = self.versions.lock().next(self.clock.now(), floor);
        }
        *earlier
    }
}

/// Stores all of an outcome, in one round trip, and returns its transaction's number.
async fn put(transaction: &Transaction<'_>, outcome: &Outcome, deltas: &[Delta]) -> Result<Sequence, Failure> {
    let stored = tokio::join!(
        watermark(transaction, outcome),
        put_edges(transaction, outcome),
        put_users(transaction, outcome),
        records::put(transaction, outcome),
        records::put_history(transaction, outcome),
        counts::put(transaction, deltas),
        put_outbox(transaction, outcome),
        put_idempotency(transaction, outcome),
    );
    match stored {
        (Ok(watermark), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(())) => Ok(watermark),
        (a, b, c, d, e, f, g, h) => {
            let failures = [a.err(), b.err(), c.err(), d.err(), e.err(), f.err(), g.err(), h.err()];
            Err(Failure::cause(failures))
        }
    }
}

/// PostgreSQL's text holds every character but this one.
fn refuse_nul(operation: &Operation) -> Result<()> {
    let Operation::PutUser { patch, .. } = operation else { return Ok(()) };
    for (pointer, field) in [("/name", &patch.name), ("/avatar_url", &patch.avatar_url)] {
        if field.iter().flatten().any(|text| text.contains('\0')) {
            return Err(Error::invalid("a text has a NUL character").at(pointer, "must not contain NUL"));
        }
    }
    Ok(())
}

/// The transaction's own number: a snapshot that sees it sees all of the outcome.
async fn watermark(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<Sequence, Failure> {
    let row = match &outcome.quota {
        Some(change) => {
            let statement = transaction.prepare_cached(WATERMARK_WITH_QUOTA).await?;
            transaction.query_one(&statement, &[&change.actor.0, &change.after.to_bytes()]).await?
        }
        None => transaction.query_one(&transaction.prepare_cached(WATERMARK).await?, &[]).await?,
    };
    let number: String = row.get(0);
    Ok(Sequence(number.parse().map_err(|_| unreadable("transaction number"))?))
}

async fn put_edges(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    let edge = |change: &Change| match change {
        Change::Edge(edge) => Some(*edge),
        Change::User(_) | Change::Record(_) => None,
    };
    let edges: Vec<EdgeChange> = outcome.changes.iter().filter_map(edge).collect();
    if edges.is_empty() {
        return Ok(());
    }
    let kinds: Vec<i16> = edges.iter().map(|edge| edge.kind as i16).collect();
    let followers: Vec<i64> = edges.iter().map(|edge| edge.follower.0).collect();
    let targets: Vec<i64> = edges.iter().map(|edge| edge.target.0).collect();
    let states: Vec<i16> = edges.iter().map(|edge| edge.after.state as i16).collect();
    let quiet: Vec<bool> = edges.iter().map(|edge| edge.after.quiet).collect();
    let versions: Vec<i64> = edges.iter().map(|edge| row::from_version(edge.after.version)).collect();
    let positions: Vec<i64> = edges.iter().map(|edge| row::from_version(edge.after.position)).collect();
    let accepted: Vec<bool> = edges.iter().map(|edge| edge.after.accepted).collect();
    let seconds = |expires: Expiry| i64::from(expires.seconds());
    let expires: Vec<Option<i64>> = edges.iter().map(|edge| edge.after.expires.map(seconds)).collect();
    let statement = transaction.prepare_cached(EDGES).await?;
    let written = transaction
        .execute(
            &statement,
            &[&kinds, &followers, &targets, &states, &quiet, &versions, &positions, &accepted, &expires],
        )
        .await?;
    all_written(written, edges.len())
}

async fn put_users(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    for change in &outcome.changes {
        if let Change::User(change) = change {
            match &change.after {
                Some(user) => put_user(transaction, user).await?,
                None => records::erase(transaction, change.key, outcome.version).await?,
            }
        }
    }
    Ok(())
}

async fn put_user(transaction: &Transaction<'_>, user: &User) -> Result<(), Failure> {
    let statement = transaction.prepare_cached(USER).await?;
    let written = transaction
        .execute(
            &statement,
            &[
                &user.key.0,
                &user.id.as_str(),
                &user.name.as_deref(),
                &user.avatar_url.as_deref(),
                &user.private,
                &user.hide_lists,
                &row::from_millis(user.registered_at),
                &row::from_version(user.created),
                &row::from_version(user.version),
                &user.follow_suspended,
            ],
        )
        .await?;
    all_written(written, 1)
}

/// A row that did not take its new version would mean that the locks failed.
fn all_written(written: u64, wanted: usize) -> Result<(), Failure> {
    if written == wanted as u64 {
        return Ok(());
    }
    Err(Error::internal(format!("{written} of {wanted} rows took their new version; nothing was written")).into())
}

async fn put_outbox(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    if outcome.changes.is_empty() {
        return Ok(());
    }
    let changes: Vec<String> = outcome
        .changes
        .iter()
        .map(|change| serde_json::to_string(&*told(change)))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::internal("a change cannot be written as JSON").caused_by(error))?;
    let statement = transaction.prepare_cached(OUTBOX).await?;
    transaction.execute(&statement, &[&row::from_version(outcome.version), &changes]).await?;
    Ok(())
}

/// Values of spaces that are not public stay out of the events.
fn told(change: &Change) -> std::borrow::Cow<'_, Change> {
    match change {
        Change::Record(record) if !record.space.is_public() => {
            let after = record.after.as_ref().map(|_| Box::default());
            std::borrow::Cow::Owned(Change::Record(RecordChange { after, ..record.clone() }))
        }
        _ => std::borrow::Cow::Borrowed(change),
    }
}

async fn put_idempotency(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    let Some(record) = outcome.idempotency.as_deref().filter(|_| !outcome.replayed) else { return Ok(()) };
    let reply = serde_json::to_string(&record.reply)
        .map_err(|error| Error::internal("a reply cannot be written as JSON").caused_by(error))?;
    let statement = transaction.prepare_cached(IDEMPOTENCY).await?;
    let request = record.key.request as i64;
    let version = row::from_version(record.version);
    transaction.execute(&statement, &[&record.key.scope.as_slice(), &request, &version, &reply]).await?;
    Ok(())
}
