//! Stores the outcomes of a batch: one statement a table, all sent at once, with the numbers of events and `COMMIT` last.
//!
//! A row that would not take its new version divides by zero: then the locks have failed, or two posts got one id, and
//! nothing of the batch is stored.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use bytes::BytesMut;
use entourage_model::{
    Change, EdgeChange, Ended, Error, Expiry, IdempotencyRecord, Key, Kind, Millis, Outcome, QuotaChange, RecordChange,
    RecordId, Result, Sequence, Space, User, UserChange, Version,
};
use hashbrown::HashSet;
use serde::Serialize;
use tokio_postgres::{
    Client,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    copy,
    counts::{self, Delta},
    error::Failure,
    row,
    statements::Statements,
    versions::obeyed,
};

pub(super) const EDGES: &str = "INSERT INTO edges (kind, follower, target, state, quiet, version, position, accepted, expires) \
     SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::boolean[], $6::bigint[], \
     $7::bigint[], $8::boolean[], $9::bigint[]) \
     ON CONFLICT (follower, target, kind) DO UPDATE SET state = excluded.state, quiet = excluded.quiet, \
     version = excluded.version / (edges.version < excluded.version)::integer, position = excluded.position, \
     accepted = excluded.accepted, expires = excluded.expires";
pub(super) const USERS: &str = "INSERT INTO users \
     (key, id, name, avatar_url, private, hide_lists, registered_at, created, version, follow_suspended) \
     SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::boolean[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::boolean[]) \
     ON CONFLICT (key) DO UPDATE SET id = excluded.id, name = excluded.name, avatar_url = excluded.avatar_url, \
     private = excluded.private, hide_lists = excluded.hide_lists, registered_at = excluded.registered_at, \
     created = excluded.created, version = excluded.version / (users.version < excluded.version)::integer, \
     follow_suspended = excluded.follow_suspended";
pub(super) const QUOTAS: &str = "UPDATE users SET quota = taken.quota \
     FROM unnest($1::bigint[], $2::bytea[]) AS taken (key, quota) WHERE users.key = taken.key";
/// The author of a post never changes. Two authors whose posts get the same id do not wait for each other: one of the
/// two is an imported post, and the later commit is tried again.
pub(super) const RECORDS: &str = "INSERT INTO records (owner, space, id, version, value) \
     SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bytea[], $4::bigint[], $5::bytea[]) \
     ON CONFLICT (owner, space, id) DO UPDATE SET value = excluded.value, \
     version = excluded.version / (records.version < excluded.version AND records.space <> 7)::integer";
pub(super) const REMOVE_RECORDS: &str = "WITH removed AS (\
         DELETE FROM records USING unnest($1::bigint[], $2::smallint[], $3::bytea[]) AS gone (owner, space, id) \
         WHERE records.owner = gone.owner AND records.space = gone.space AND records.id = gone.id RETURNING 1) \
     SELECT 1 / (count(*) = $4::bigint)::integer FROM removed";
/// Nothing is kept for an erased follower.
pub(super) const HISTORY: &str = "INSERT INTO history (follower, ended, target, state, quiet, accepted, position, cause) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::boolean[], $6::boolean[], \
         $7::bigint[], $8::smallint[]) AS made (follower, ended, target, state, quiet, accepted, position, cause) \
     WHERE EXISTS (SELECT 1 FROM users WHERE key = made.follower)";
pub(super) const IDEMPOTENCY: &str = "INSERT INTO idempotency (scope, request, version, reply) \
     SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::jsonb[]) \
     ON CONFLICT (scope) DO UPDATE SET request = excluded.request, version = excluded.version, reply = excluded.reply";
/// Whoever changes the row of the relay commits next: numbers are given out in the order of commits, without a gap.
pub(super) const EVENTS: &str = "WITH given AS (\
         UPDATE relay SET sequence = sequence + $1::bigint, high_water = greatest(high_water, $2::bigint) \
         RETURNING sequence - $1::bigint AS base), \
     made AS (\
         INSERT INTO events (sequence, version, change) \
         SELECT given.base + made.place, made.version, made.change \
         FROM given, unnest($3::bigint[], $4::jsonb[]) WITH ORDINALITY AS made (version, change, place)) \
     SELECT base FROM given";

/// JSON that PostgreSQL parses before it executes anything.
#[derive(Debug)]
struct Json(String);

impl Json {
    fn of(value: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_string(value);
        text.map(Self).map_err(|error| Error::internal("a value cannot be written as JSON").caused_by(error))
    }
}

impl ToSql for Json {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // The version of the format.
        out.extend_from_slice(&[1]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }

    to_sql_checked!();
}

/// All that a batch stores, each row once.
#[derive(Debug, Default)]
pub(super) struct Puts<'a> {
    edges: BTreeMap<(Kind, Key, Key), EdgeChange>,
    /// Many edges that PostgreSQL has no row of, not even of their removal.
    fresh: Vec<EdgeChange>,
    history: Vec<(Key, Ended)>,
    users: BTreeMap<Key, &'a User>,
    erased: Option<(Key, Version)>,
    quotas: BTreeMap<Key, &'a QuotaChange>,
    records: BTreeMap<(Key, Space, &'a RecordId), PutRecord<'a>>,
    idempotency: Vec<(&'a IdempotencyRecord, Json)>,
    pub(super) deltas: Vec<Delta>,
    events: Vec<(Version, Json)>,
    /// The greatest version of those. One that lies ahead of the time must not lift the versions of others.
    high_water: Version,
}

#[derive(Debug)]
struct PutRecord<'a> {
    /// Whether it was there before the batch.
    existed: bool,
    version: Version,
    value: Option<&'a [u8]>,
}

impl<'a> Puts<'a> {
    /// `stored`: the edges among them that have a row.
    pub(super) fn of(
        outcomes: impl Iterator<Item = &'a Outcome> + Clone,
        stored: &HashSet<(Kind, Key, Key)>,
        database: Millis,
    ) -> Result<Self> {
        let mut puts = Self::default();
        for outcome in outcomes.clone().filter(|outcome| !outcome.replayed) {
            puts.high_water = puts.high_water.max(obeyed(outcome.version, database));
            for change in &outcome.changes {
                puts.add(change, outcome.version);
                puts.events.push((outcome.version, Json::of(&*told(change))?));
            }
            if let Some(record) = outcome.idempotency.as_deref() {
                puts.idempotency.push((record, Json::of(&record.reply)?));
            }
            puts.quotas.extend(outcome.quota.iter().map(|change| (change.actor, change)));
        }
        if puts.edges.len() >= copy::EDGES_MIN {
            puts.fresh = puts.edges.extract_if(.., |name, _| !stored.contains(name)).map(|(_, edge)| edge).collect();
        }
        puts.deltas = counts::deltas(outcomes.flat_map(|outcome| &outcome.changes));
        Ok(puts)
    }

    fn add(&mut self, change: &'a Change, version: Version) {
        match change {
            Change::Edge(edge) => {
                self.edges.insert((edge.kind, edge.follower, edge.target), *edge);
                self.history.extend(Ended::of(edge).map(|ended| (edge.follower, ended)));
            }
            Change::User(UserChange { key, after: Some(user), .. }) => drop(self.users.insert(*key, user)),
            Change::User(UserChange { key, after: None, .. }) => self.erased = Some((*key, version)),
            Change::Record(RecordChange { space, owner, id, before, after }) => {
                let value = after.as_deref();
                self.records
                    .entry((*owner, *space, id))
                    .and_modify(|put| (put.version, put.value) = (version, value))
                    .or_insert(PutRecord { existed: before.is_some(), version, value });
            }
        }
    }

    /// Where the log ended before these events, if it ends here with them.
    pub(super) const fn before(&self, end: Sequence) -> Sequence {
        Sequence(end.0.saturating_sub(self.events.len() as u64))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.idempotency.is_empty()
    }

    /// Stores everything and commits, in one round trip: the number of the last event before those of the batch.
    pub(super) async fn commit(&self, client: &Client, statements: &Statements) -> Result<Sequence, Failure> {
        // What fails before it is sent must not be missing from what is committed.
        let sending = Sending::default();
        let stored = tokio::join!(
            sending.watch(self.put_users(client, statements)),
            sending.watch(self.erase(client, statements)),
            sending.watch(self.put_quotas(client, statements)),
            sending.watch(copy::put_edges(client, &statements.copy_edges, &self.fresh)),
            sending.watch(self.put_edges(client, statements)),
            sending.watch(self.put_history(client, statements)),
            sending.watch(self.put_records(client, statements)),
            sending.watch(self.remove_records(client, statements)),
            sending.watch(self.put_idempotency(client, statements)),
            sending.watch(counts::put(client, statements, &self.deltas)),
            sending.watch(self.put_events(client, statements)),
            async { client.batch_execute(sending.end()).await.map_err(Failure::from) },
        );
        match stored {
            (Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(base), Ok(())) => {
                Ok(base)
            }
            (a, b, c, d, e, f, g, h, i, j, k, l) => Err(Failure::of_batch([
                a.err(),
                b.err(),
                c.err(),
                d.err(),
                e.err(),
                f.err(),
                g.err(),
                h.err(),
                i.err(),
                j.err(),
                k.err(),
                l.err(),
            ])),
        }
    }

    async fn put_users(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        if self.users.is_empty() {
            return Ok(());
        }
        let users: Vec<&User> = self.users.values().copied().collect();
        let keys: Vec<i64> = users.iter().map(|user| user.key.0).collect();
        let ids: Vec<&str> = users.iter().map(|user| user.id.as_str()).collect();
        let names: Vec<Option<&str>> = users.iter().map(|user| user.name.as_deref()).collect();
        let avatars: Vec<Option<&str>> = users.iter().map(|user| user.avatar_url.as_deref()).collect();
        let private: Vec<bool> = users.iter().map(|user| user.private).collect();
        let hidden: Vec<bool> = users.iter().map(|user| user.hide_lists).collect();
        let registered: Vec<i64> = users.iter().map(|user| row::from_millis(user.registered_at)).collect();
        let created: Vec<i64> = users.iter().map(|user| row::from_version(user.created)).collect();
        let versions: Vec<i64> = users.iter().map(|user| row::from_version(user.version)).collect();
        let suspended: Vec<bool> = users.iter().map(|user| user.follow_suspended).collect();
        let columns: [&(dyn ToSql + Sync); 10] =
            [&keys, &ids, &names, &avatars, &private, &hidden, &registered, &created, &versions, &suspended];
        client.execute(&statements.put_users, &columns).await?;
        Ok(())
    }

    /// The user with their records and their history. A batch erases one user at most, and does nothing else.
    async fn erase(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        let Some((key, version)) = self.erased else { return Ok(()) };
        let version = row::from_version(version);
        let key: &[&(dyn ToSql + Sync)] = &[&key.0];
        let both: Vec<&(dyn ToSql + Sync)> = key.iter().copied().chain([&version as &(dyn ToSql + Sync)]).collect();
        let erased = tokio::join!(
            client.execute(&statements.erase_user, key),
            client.execute(&statements.erase_records, key),
            client.execute(&statements.erase_history, key),
            client.execute(&statements.put_erased, &both),
        );
        match erased {
            (Ok(_), Ok(_), Ok(_), Ok(_)) => Ok(()),
            (a, b, c, d) => {
                Err(Failure::cause([a.err(), b.err(), c.err(), d.err()].map(|error| error.map(Into::into))))
            }
        }
    }

    async fn put_quotas(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        if self.quotas.is_empty() {
            return Ok(());
        }
        let keys: Vec<i64> = self.quotas.keys().map(|key| key.0).collect();
        let quotas: Vec<Vec<u8>> = self.quotas.values().map(|change| change.after.to_bytes()).collect();
        client.execute(&statements.put_quotas, &[&keys, &quotas]).await?;
        Ok(())
    }

    async fn put_edges(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        if self.edges.is_empty() {
            return Ok(());
        }
        let edges: Vec<&EdgeChange> = self.edges.values().collect();
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
        let columns: [&(dyn ToSql + Sync); 9] =
            [&kinds, &followers, &targets, &states, &quiet, &versions, &positions, &accepted, &expires];
        client.execute(&statements.put_edges, &columns).await?;
        Ok(())
    }

    async fn put_history(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        if self.history.is_empty() {
            return Ok(());
        }
        let ends = &self.history;
        let followers: Vec<i64> = ends.iter().map(|(follower, _)| follower.0).collect();
        let versions: Vec<i64> = ends.iter().map(|(_, end)| row::from_version(end.ended)).collect();
        let targets: Vec<i64> = ends.iter().map(|(_, end)| end.target.0).collect();
        let states: Vec<i16> = ends.iter().map(|(_, end)| end.state as i16).collect();
        let quiet: Vec<bool> = ends.iter().map(|(_, end)| end.quiet).collect();
        let accepted: Vec<bool> = ends.iter().map(|(_, end)| end.accepted).collect();
        let positions: Vec<i64> = ends.iter().map(|(_, end)| row::from_version(end.position)).collect();
        let causes: Vec<i16> = ends.iter().map(|(_, end)| end.cause as i16).collect();
        let columns: [&(dyn ToSql + Sync); 8] =
            [&followers, &versions, &targets, &states, &quiet, &accepted, &positions, &causes];
        client.execute(&statements.put_history, &columns).await?;
        Ok(())
    }

    async fn put_records(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        let kept = || self.records.iter().filter(|(_, put)| put.value.is_some());
        let owners: Vec<i64> = kept().map(|((owner, ..), _)| owner.0).collect();
        if owners.is_empty() {
            return Ok(());
        }
        let spaces: Vec<i16> = kept().map(|((_, space, _), _)| *space as i16).collect();
        let ids: Vec<&[u8]> = kept().map(|((.., id), _)| id.as_bytes()).collect();
        let versions: Vec<i64> = kept().map(|(_, put)| row::from_version(put.version)).collect();
        let values: Vec<&[u8]> = kept().filter_map(|(_, put)| put.value).collect();
        client.execute(&statements.put_records, &[&owners, &spaces, &ids, &versions, &values]).await?;
        Ok(())
    }

    /// What came and went within the batch was never there.
    async fn remove_records(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        let gone = || self.records.iter().filter(|(_, put)| put.value.is_none() && put.existed);
        let owners: Vec<i64> = gone().map(|((owner, ..), _)| owner.0).collect();
        if owners.is_empty() {
            return Ok(());
        }
        let spaces: Vec<i16> = gone().map(|((_, space, _), _)| *space as i16).collect();
        let ids: Vec<&[u8]> = gone().map(|((.., id), _)| id.as_bytes()).collect();
        let count = owners.len() as i64;
        client.execute(&statements.remove_records, &[&owners, &spaces, &ids, &count]).await?;
        Ok(())
    }

    async fn put_idempotency(&self, client: &Client, statements: &Statements) -> Result<(), Failure> {
        if self.idempotency.is_empty() {
            return Ok(());
        }
        let records = || self.idempotency.iter().map(|(record, _)| record);
        let scopes: Vec<&[u8]> = records().map(|record| record.key.scope.as_slice()).collect();
        let requests: Vec<i64> = records().map(|record| record.key.request as i64).collect();
        let versions: Vec<i64> = records().map(|record| row::from_version(record.version)).collect();
        let replies: Vec<&Json> = self.idempotency.iter().map(|(_, reply)| reply).collect();
        client.execute(&statements.put_idempotency, &[&scopes, &requests, &versions, &replies]).await?;
        Ok(())
    }

    /// Without events there is nothing to number, and the end of the log stays where it is.
    async fn put_events(&self, client: &Client, statements: &Statements) -> Result<Sequence, Failure> {
        let found = if self.events.is_empty() {
            client.query_one(&statements.read_end, &[]).await?
        } else {
            let versions: Vec<i64> = self.events.iter().map(|(version, _)| row::from_version(*version)).collect();
            let changes: Vec<&Json> = self.events.iter().map(|(_, change)| change).collect();
            let newest = row::from_version(self.high_water);
            let count = versions.len() as i64;
            client.query_one(&statements.put_events, &[&count, &newest, &versions, &changes]).await?
        };
        Ok(Sequence(found.get::<_, i64>(0).unsigned_abs()))
    }
}

/// Whether all statements of a pipeline were sent.
#[derive(Default)]
struct Sending {
    has_failed: AtomicBool,
}

impl Sending {
    async fn watch<T>(&self, statement: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let done = statement.await;
        if done.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        done
    }

    fn end(&self) -> &'static str {
        if self.has_failed.load(Ordering::Relaxed) { "ROLLBACK" } else { "COMMIT" }
    }
}

/// Values of spaces that are not public stay out of the events.
fn told(change: &Change) -> Cow<'_, Change> {
    match change {
        Change::Record(record) if !record.space.is_public() => {
            let after = record.after.as_ref().map(|_| Box::default());
            Cow::Owned(Change::Record(RecordChange { after, ..record.clone() }))
        }
        _ => Cow::Borrowed(change),
    }
}
