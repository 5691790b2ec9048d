//! Whole rows of many users with few statements: for a cache that begins with nothing.

use deadpool_postgres::Object;
use entourage_model::{Key, Kind, Plane, Side, State};
use entourage_store::EdgeRow;
use hashbrown::{HashMap, HashSet};

use super::{
    Engine,
    error::{Failure, unreadable},
    load,
};

/// Edges that one statement returns at most, unless one row has more.
const EDGES_AT_ONCE: i64 = 50_000;

/// One snapshot: an edge that is accepted meanwhile is waiting or active, not neither. In the order of an index, so that
/// no plan reads another one.
fn rows_statement(side: Side) -> String {
    let (own, other) = match side {
        Side::Following => ("follower", "target"),
        Side::Followers => ("target", "follower"),
    };
    let active = State::Active as i16;
    format!(
        "SELECT asked.place, array_agg(e.{other}) FILTER (WHERE e.state = {active}), \
             array_agg(e.{other}) FILTER (WHERE e.state <> {active}) \
         FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (key, place) CROSS JOIN LATERAL (\
             SELECT {other}, state FROM edges WHERE {own} = asked.key AND kind = $2 AND state <> 3 \
             ORDER BY state, quiet, position DESC, {other} DESC LIMIT $3) e \
         GROUP BY asked.place"
    )
}

/// Few are gone: only those are returned.
const MISSING: &str = "SELECT asked.key FROM unnest($1::bigint[]) AS asked (key) \
     WHERE NOT EXISTS (SELECT 1 FROM users WHERE users.key = asked.key)";

impl Engine {
    pub(super) async fn read_rows(
        &self,
        kind: Kind,
        side: Side,
        users: &[Key],
        limit: usize,
    ) -> Result<Vec<Option<EdgeRow>>, Failure> {
        let client = self.client().await?;
        let sizes = sizes(&client, kind, side, users).await?;
        let size = |user: &Key| sizes.get(user).copied().unwrap_or_default();
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows: Vec<Option<EdgeRow>> =
            users.iter().map(|user| (size(user) <= most).then(EdgeRow::default)).collect();
        let mut asked: Vec<(usize, Key)> = Vec::new();
        let mut edges = 0;
        for (place, user) in users.iter().enumerate().filter(|(_, user)| (1..=most).contains(&size(user))) {
            if edges + size(user) > EDGES_AT_ONCE && !asked.is_empty() {
                read_some(&client, kind, side, &asked, limit, &mut rows).await?;
                asked.clear();
                edges = 0;
            }
            edges += size(user);
            asked.push((place, *user));
        }
        if !asked.is_empty() {
            read_some(&client, kind, side, &asked, limit, &mut rows).await?;
        }
        Ok(rows)
    }
}

/// By the counts: what is too large is not read at all.
async fn sizes(client: &Object, kind: Kind, side: Side, users: &[Key]) -> Result<HashMap<Key, i64>, Failure> {
    let keys: Vec<i64> = users.iter().map(|user| user.0).collect();
    let planes: Vec<i16> = Plane::of_kind(kind).iter().map(|&plane| plane as i16).collect();
    let statement = client.prepare_cached(load::LOADS).await?;
    let found = client.query(&statement, &[&keys, &(side as i16), &planes]).await?;
    Ok(found.iter().map(|row| (Key(row.get(0)), row.get(1))).collect())
}

async fn read_some(
    client: &Object,
    kind: Kind,
    side: Side,
    asked: &[(usize, Key)],
    limit: usize,
    rows: &mut [Option<EdgeRow>],
) -> Result<(), Failure> {
    let keys: Vec<i64> = asked.iter().map(|(_, user)| user.0).collect();
    let fetched = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
    let statement = client.prepare_cached(&rows_statement(side)).await?;
    let found = client.query(&statement, &[&keys, &(kind as i16), &fetched]).await?;
    let mut people: Vec<i64> = keys;
    let mut read: Vec<(usize, Key, EdgeRow)> = Vec::with_capacity(found.len());
    for row in &found {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).ok().and_then(|place| asked.get(place));
        let (place, owner) = *place.ok_or_else(|| unreadable("place"))?;
        let members = |column: usize| row.get::<_, Option<Vec<i64>>>(column).unwrap_or_default();
        let (active, waiting) = (members(1), members(2));
        people.extend(&active);
        let keys = |members: Vec<i64>| members.into_iter().map(Key).collect();
        read.push((place, owner, EdgeRow { active: keys(active), waiting: keys(waiting), ..EdgeRow::default() }));
    }
    let missing = missing(client, people).await?;
    for (place, owner, mut row) in read {
        row.owner_there = !missing.contains(&owner);
        if !missing.is_empty() {
            row.left_behind = row.active.iter().copied().filter(|key| missing.contains(key)).collect();
        }
        if let Some(slot) = rows.get_mut(place) {
            *slot = (row.edges() <= limit).then_some(row);
        }
    }
    Ok(())
}

async fn missing(client: &Object, mut people: Vec<i64>) -> Result<HashSet<Key>, Failure> {
    people.sort_unstable();
    people.dedup();
    let statement = client.prepare_cached(MISSING).await?;
    let found = client.query(&statement, &[&people]).await?;
    Ok(found.iter().map(|row| Key(row.get(0))).collect())
}
