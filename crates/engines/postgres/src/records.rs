//! What is beside the graph: records, history, and the erasure of a user.

use deadpool_postgres::Transaction;
use entourage_model::{Change, Ended, Error, Key, Outcome, Record, RecordChange, RecordId, Space, Version};

use tokio_postgres::Row;

use super::{
    Store,
    error::{Failure, unreadable},
    row,
};

const PUT: &str = "INSERT INTO records (owner, space, id, version, value) \
     SELECT owner, space, id, $4, value FROM unnest($1::bigint[], $2::smallint[], $3::bytea[], $5::bytea[]) \
         AS made (owner, space, id, value) \
     ON CONFLICT (owner, space, id) DO UPDATE SET version = excluded.version, value = excluded.value \
     WHERE records.version < excluded.version AND records.space <> 7";
const REMOVE: &str = "DELETE FROM records USING unnest($1::bigint[], $2::smallint[], $3::bytea[]) \
         AS gone (owner, space, id) \
     WHERE records.owner = gone.owner AND records.space = gone.space AND records.id = gone.id";
/// Nothing is kept for an erased follower.
const HISTORY: &str = "INSERT INTO history (follower, ended, target, state, quiet, accepted, position, cause) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[], $5::boolean[], $6::boolean[], \
         $7::bigint[], $8::smallint[]) AS made (follower, ended, target, state, quiet, accepted, position, cause) \
     WHERE EXISTS (SELECT 1 FROM users WHERE key = made.follower)";
/// All but the posts, which go one by one.
const ERASE: [&str; 3] = [
    "DELETE FROM users WHERE key = $1",
    "DELETE FROM records WHERE owner = $1 AND space <> 6",
    "DELETE FROM history WHERE follower = $1",
];
const ERASED: &str = "INSERT INTO erased (key, version) VALUES ($1, $2) \
     ON CONFLICT (key) DO UPDATE SET version = greatest(erased.version, excluded.version)";
pub(super) const GET: &str = "SELECT id, version, value FROM records WHERE owner = $1 AND space = $2 AND id = $3";
pub(super) const COUNT: &str = "SELECT count(*) FROM records WHERE owner = $1 AND space = $2";
const COUNT_EACH: &str = "SELECT (SELECT count(*) FROM records WHERE owner = asked.owner AND space = $1) \
     FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (owner, place) ORDER BY asked.place";
const GET_ALL: &str = "SELECT r.id, r.version, r.value \
     FROM unnest($2::bigint[], $3::bytea[]) WITH ORDINALITY AS asked (owner, id, place) \
     LEFT JOIN records r ON r.owner = asked.owner AND r.space = $1 AND r.id = asked.id ORDER BY asked.place";
const SCAN_EACH: &str = "SELECT r.id, r.version, r.value, asked.place \
     FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (owner, place) \
     CROSS JOIN LATERAL (SELECT id, version, value FROM records \
         WHERE owner = asked.owner AND space = $1 AND id > $3 ORDER BY id LIMIT $4) r \
     ORDER BY asked.place, r.id";
const PAST: &str = "SELECT target, state, quiet, accepted, position, ended, cause FROM history \
     WHERE follower = $1 AND ended < $2 AND ended >= $3 \
         AND ended >= (SELECT created FROM users WHERE key = $1) ORDER BY ended DESC LIMIT $4";

const fn record_of(change: &Change) -> Option<&RecordChange> {
    match change {
        Change::Record(record) => Some(record),
        Change::Edge(_) | Change::User(_) => None,
    }
}

pub(super) async fn put(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    let (kept, gone): (Vec<&RecordChange>, Vec<&RecordChange>) =
        outcome.changes.iter().filter_map(record_of).partition(|record| record.after.is_some());
    for (changes, statement) in [(&kept, PUT), (&gone, REMOVE)] {
        if changes.is_empty() {
            continue;
        }
        let owners: Vec<i64> = changes.iter().map(|record| record.owner.0).collect();
        let spaces: Vec<i16> = changes.iter().map(|record| record.space as i16).collect();
        let ids: Vec<&[u8]> = changes.iter().map(|record| record.id.as_bytes()).collect();
        let statement = transaction.prepare_cached(statement).await?;
        let written = if changes[0].after.is_some() {
            let values: Vec<&[u8]> = changes.iter().filter_map(|record| record.after.as_deref()).collect();
            let version = row::from_version(outcome.version);
            transaction.execute(&statement, &[&owners, &spaces, &ids, &version, &values]).await?
        } else {
            transaction.execute(&statement, &[&owners, &spaces, &ids]).await?
        };
        if written != changes.len() as u64 {
            let wanted = changes.len();
            let error = Error::internal(format!("{written} of {wanted} records were written; nothing is"));
            // The author of a post never changes. Two authors whose posts get the same id do not wait for each other:
            // one of the two is an imported post, and the later commit retries.
            let is_post = changes.iter().any(|record| record.space == Space::PostAuthor);
            return Err(Failure { again: is_post, ..error.into() });
        }
    }
    Ok(())
}

pub(super) async fn put_history(transaction: &Transaction<'_>, outcome: &Outcome) -> Result<(), Failure> {
    let ended = |change: &Change| match change {
        Change::Edge(edge) => Some((edge.follower, Ended::of(edge)?)),
        Change::User(_) | Change::Record(_) => None,
    };
    let ends: Vec<(Key, Ended)> = outcome.changes.iter().filter_map(ended).collect();
    if ends.is_empty() {
        return Ok(());
    }
    let followers: Vec<i64> = ends.iter().map(|(follower, _)| follower.0).collect();
    let versions: Vec<i64> = ends.iter().map(|(_, end)| row::from_version(end.ended)).collect();
    let targets: Vec<i64> = ends.iter().map(|(_, end)| end.target.0).collect();
    let states: Vec<i16> = ends.iter().map(|(_, end)| end.state as i16).collect();
    let quiet: Vec<bool> = ends.iter().map(|(_, end)| end.quiet).collect();
    let accepted: Vec<bool> = ends.iter().map(|(_, end)| end.accepted).collect();
    let positions: Vec<i64> = ends.iter().map(|(_, end)| row::from_version(end.position)).collect();
    let causes: Vec<i16> = ends.iter().map(|(_, end)| end.cause as i16).collect();
    let statement = transaction.prepare_cached(HISTORY).await?;
    let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
        [&followers, &versions, &targets, &states, &quiet, &accepted, &positions, &causes];
    transaction.execute(&statement, &columns).await?;
    Ok(())
}

/// The user with their records and their history, in the commit that erases them.
pub(super) async fn erase(transaction: &Transaction<'_>, key: Key, version: Version) -> Result<(), Failure> {
    for text in ERASE {
        let statement = transaction.prepare_cached(text).await?;
        transaction.execute(&statement, &[&key.0]).await?;
    }
    let statement = transaction.prepare_cached(ERASED).await?;
    transaction.execute(&statement, &[&key.0, &row::from_version(version)]).await?;
    Ok(())
}

impl Store {
    pub(super) async fn read_record_counts(&self, space: Space, owners: &[Key]) -> Result<Vec<u64>, Failure> {
        let owners: Vec<i64> = owners.iter().map(|owner| owner.0).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(COUNT_EACH).await?;
        let rows = client.query(&statement, &[&(space as i16), &owners]).await?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0).unsigned_abs()).collect())
    }

    pub(super) async fn read_all_records(
        &self,
        space: Space,
        ids: &[(Key, RecordId)],
    ) -> Result<Vec<Option<Record>>, Failure> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let owners: Vec<i64> = ids.iter().map(|(owner, _)| owner.0).collect();
        let names: Vec<&[u8]> = ids.iter().map(|(_, id)| id.as_bytes()).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(GET_ALL).await?;
        let rows = client.query(&statement, &[&(space as i16), &owners, &names]).await?;
        let record = |found: &Row| found.get::<_, Option<&[u8]>>(0).map(|_| row::record(found)).transpose();
        Ok(rows.iter().map(record).collect::<Result<_, _>>()?)
    }

    pub(super) async fn read_each(
        &self,
        space: Space,
        owners: &[Key],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<Record>>, Failure> {
        let mut lists = vec![Vec::new(); owners.len()];
        if owners.is_empty() {
            return Ok(lists);
        }
        let asked: Vec<i64> = owners.iter().map(|owner| owner.0).collect();
        let (after, limit) = (after.unwrap_or_default(), i64::try_from(limit).unwrap_or(i64::MAX));
        let client = self.client().await?;
        let statement = client.prepare_cached(SCAN_EACH).await?;
        for found in client.query(&statement, &[&(space as i16), &asked, &after, &limit]).await? {
            // Positions count from one.
            let place = usize::try_from(found.get::<_, i64>(3) - 1).ok();
            let list = place.and_then(|place| lists.get_mut(place)).ok_or_else(|| unreadable("place"))?;
            list.push(row::record(&found)?);
        }
        Ok(lists)
    }

    pub(super) async fn read_history(
        &self,
        follower: Key,
        before: Option<Version>,
        limit: usize,
    ) -> Result<Vec<Ended>, Failure> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let before = before.map_or(i64::MAX, row::from_version);
        let oldest = row::from_version(self.options.history_begins(self.clock.now()));
        let client = self.client().await?;
        let statement = client.prepare_cached(PAST).await?;
        let rows = client.query(&statement, &[&follower.0, &before, &oldest, &limit]).await?;
        Ok(rows.iter().map(row::ended).collect::<Result<_, _>>()?)
    }
}
