//! Reads what is beside the graph: records and history.

use entourage_model::{Clock as _, Ended, Key, Record, RecordId, Space, Version};
use tokio_postgres::Row;

use super::{
    Engine,
    error::{Failure, unreadable},
    row,
};

/// All but the posts, which go one by one.
pub(super) const ERASE: [&str; 3] = [
    "DELETE FROM users WHERE key = $1",
    "DELETE FROM records WHERE owner = $1 AND space <> 6",
    "DELETE FROM history WHERE follower = $1",
];
pub(super) const ERASED: &str = "INSERT INTO erased (key, version) VALUES ($1, $2) \
     ON CONFLICT (key) DO UPDATE SET version = greatest(erased.version, excluded.version)";
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

impl Engine {
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
        let oldest = row::from_version(self.options.history_begins(self.time.now()));
        let client = self.client().await?;
        let statement = client.prepare_cached(PAST).await?;
        let rows = client.query(&statement, &[&follower.0, &before, &oldest, &limit]).await?;
        Ok(rows.iter().map(row::ended).collect::<Result<_, _>>()?)
    }
}
