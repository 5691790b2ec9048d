//! Reads: each is one statement, so each sees one moment.

use entourage_model::{
    Clock as _, Counts, EdgeValue, IdempotencyKey, Key, Kind, List, Outcome, Page, Place, Plane, Quota, Sequence, Side,
    User, Watermark, replay,
};
use tokio_postgres::Row;

use super::{
    Engine,
    error::{Failure, unreadable},
    row,
};

const QUOTAS: &str = "SELECT users.quota FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (key, place) \
     LEFT JOIN users ON users.key = asked.key ORDER BY asked.place";
const EDGES: &str = "SELECT e.state, e.quiet, e.version, e.position, e.accepted, e.expires \
     FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (follower, target, place) \
     LEFT JOIN edges e ON e.follower = asked.follower AND e.target = asked.target AND e.kind = $1 AND e.state <> 3 \
     ORDER BY asked.place";
/// No row: no user. One row without a plane: a user without edges.
const COUNTS: &str = "SELECT u.key, c.plane, c.side, c.total, c.quiet FROM users u \
     LEFT JOIN LATERAL (SELECT plane, side, sum(total)::bigint AS total, sum(quiet)::bigint AS quiet \
         FROM count_parts WHERE user_key = u.key GROUP BY plane, side) c ON true \
     WHERE u.key = ANY($1)";
/// Of each user a range of the index that pages of open lists read.
const NEWEST_FOLLOWS: &str = "SELECT asked.place, e.target \
     FROM unnest($1::bigint[]) WITH ORDINALITY AS asked (key, place) CROSS JOIN LATERAL (\
         SELECT target FROM edges WHERE follower = asked.key AND kind = $2 AND state = $3 AND state <> 3 \
             AND quiet = false AND target <> ALL($4) ORDER BY position DESC, target DESC LIMIT $5) e \
     ORDER BY asked.place";
/// With where the log ends: whoever has seen that has seen the earlier write.
const REPLIES: &str = "SELECT i.request, i.version, i.reply::text, (SELECT sequence FROM relay), asked.place \
     FROM unnest($1::bytea[]) WITH ORDINALITY AS asked (scope, place) JOIN idempotency i ON i.scope = asked.scope";

/// A page and the totals of its list. Without edges there is one row that has only the totals. Quiet edges and the
/// others are two ranges of one index: an open list never walks past what it leaves out.
fn scan_statement(side: Side, open: bool, up: bool) -> String {
    let (own, other) = match side {
        Side::Following => ("follower", "target"),
        Side::Followers => ("target", "follower"),
    };
    let value = row::VALUE.join(", ");
    let (behind, way) = if up { (">", "ASC") } else { ("<", "DESC") };
    let order = format!("ORDER BY position {way}, {other} {way} LIMIT $6");
    let range = |quiet: bool| {
        format!(
            "(SELECT kind, follower, target, {value} FROM edges \
             WHERE {own} = $1 AND kind = $2 AND state = $3 AND state <> 3 AND quiet = {quiet} \
                 AND (position, {other}) {behind} ($4, $5) {order})"
        )
    };
    let (page, total, quiet) = match open {
        true => (range(false), "total - quiet", "0::bigint"),
        false => (format!("{} UNION ALL {} {order}", range(false), range(true)), "total", "quiet"),
    };
    format!(
        "WITH page AS ({page}), \
         sums AS (\
             SELECT coalesce(sum({total}), 0)::bigint AS total, coalesce(sum({quiet}), 0)::bigint AS quiet \
             FROM count_parts WHERE user_key = $1 AND plane = $7 AND side = $8) \
         SELECT sums.total, sums.quiet, page.kind, page.follower, page.target, page.state, page.quiet, \
             page.version, page.position, page.accepted, page.expires \
         FROM sums LEFT JOIN page ON true ORDER BY page.position {way}, page.{other} {way}"
    )
}

impl Engine {
    pub(super) async fn read_edges(&self, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>, Failure> {
        let followers: Vec<i64> = pairs.iter().map(|(follower, _)| follower.0).collect();
        let targets: Vec<i64> = pairs.iter().map(|(_, target)| target.0).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(EDGES).await?;
        let rows = client.query(&statement, &[&(kind as i16), &followers, &targets]).await?;
        let value = |found: &Row| found.get::<_, Option<i16>>(0).map(|_| row::value(found, 0)).transpose();
        Ok(rows.iter().map(value).collect::<Result<_, _>>()?)
    }

    pub(super) async fn read_users(&self, keys: &[Key]) -> Result<Vec<Option<User>>, Failure> {
        let asked: Vec<i64> = keys.iter().map(|key| key.0).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(&format!("SELECT {} FROM users WHERE key = ANY($1)", row::USER)).await?;
        let rows = client.query(&statement, &[&asked]).await?;
        let users: Vec<User> = rows.iter().map(row::user).collect::<Result<_, _>>()?;
        let found: hashbrown::HashMap<Key, &User> = users.iter().map(|user| (user.key, user)).collect();
        Ok(keys.iter().map(|key| found.get(key).map(|&user| user.clone())).collect())
    }

    pub(super) async fn read_quotas(&self, actors: &[Key]) -> Result<Vec<Quota>, Failure> {
        let asked: Vec<i64> = actors.iter().map(|actor| actor.0).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(QUOTAS).await?;
        let rows = client.query(&statement, &[&asked]).await?;
        rows.iter().map(|found| Ok(row::quota(found.get(0))?)).collect()
    }

    pub(super) async fn read_counts(&self, users: &[Key]) -> Result<Vec<Option<Counts>>, Failure> {
        let asked: Vec<i64> = users.iter().map(|user| user.0).collect();
        let client = self.client().await?;
        let statement = client.prepare_cached(COUNTS).await?;
        let mut found: hashbrown::HashMap<Key, Counts> = hashbrown::HashMap::new();
        for row in client.query(&statement, &[&asked]).await? {
            let counts = found.entry(Key(row.get(0))).or_default();
            let Some(plane) = row.get::<_, Option<i16>>(1) else { continue };
            let side: i16 = row.get(2);
            let (total, quiet) = (count(&row, 3)?, count(&row, 4)?);
            let plane = u8::try_from(plane).ok().and_then(Plane::from_number);
            match (plane, side == Side::Followers as i16) {
                (Some(Plane::Follow), true) => (counts.followers, counts.followers_quiet) = (total, quiet),
                (Some(Plane::Follow), false) => (counts.following, counts.following_quiet) = (total, quiet),
                (Some(Plane::Request), true) => counts.requests = total,
                (Some(Plane::Request), false) => counts.requested = total,
                _ => {}
            }
        }
        Ok(users.iter().map(|user| found.get(user).copied()).collect())
    }

    pub(super) async fn read_page(
        &self,
        list: List,
        after: Option<Place>,
        up: bool,
        limit: usize,
    ) -> Result<Page, Failure> {
        // Above every place, or below: no clock reaches the last version, and none has the first.
        let end = if up { i64::MIN } else { i64::MAX };
        let (position, key) = after.map_or((end, end), |place| (row::from_version(place.position), place.key.0));
        let (kind, state) = (list.plane.kind() as i16, list.plane.state() as i16);
        let fetched = i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX);
        let client = self.client().await?;
        let statement = client.prepare_cached(&scan_statement(list.side, list.open, up)).await?;
        let (plane, side) = (list.plane as i16, list.side as i16);
        let rows =
            client.query(&statement, &[&list.user.0, &kind, &state, &position, &key, &fetched, &plane, &side]).await?;
        let Some(first) = rows.first() else { return Ok(Page::default()) };
        let (total, quiet) = (count(first, 0)?, count(first, 1)?);
        let on_page = rows.iter().filter(|row| row.get::<_, Option<i16>>(2).is_some());
        let mut edges: Vec<_> = on_page.map(|row| row::edge(row, 2)).collect::<Result<_, _>>()?;
        let more = edges.len() > limit;
        edges.truncate(limit);
        Ok(Page { edges, more, total, quiet })
    }

    /// Whom the newest open follows of each point at, with the place of each in the request.
    pub(super) async fn read_newest_follows(
        &self,
        users: &[Key],
        limit: usize,
        without: &[Key],
    ) -> Result<Vec<(usize, Key)>, Failure> {
        let keys = |keys: &[Key]| -> Vec<i64> { keys.iter().map(|key| key.0).collect() };
        let (kind, state) = (Plane::Follow.kind() as i16, Plane::Follow.state() as i16);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let client = self.client().await?;
        let statement = client.prepare_cached(NEWEST_FOLLOWS).await?;
        let rows = client.query(&statement, &[&keys(users), &kind, &state, &keys(without), &limit]).await?;
        let place = |row: &Row| usize::try_from(row.get::<_, i64>(0) - 1).map_err(|_| unreadable("place"));
        rows.iter().map(|row| Ok((place(row)?, Key(row.get(1))))).collect()
    }

    pub(super) async fn read_users_above(&self, after: Option<Key>, limit: usize) -> Result<Vec<User>, Failure> {
        let from = match after {
            None => Key::MIN,
            Some(Key::MAX) => return Ok(Vec::new()),
            Some(Key(key)) => Key(key + 1),
        };
        let client = self.client().await?;
        let text = format!("SELECT {} FROM users WHERE key >= $1 ORDER BY key LIMIT $2", row::USER);
        let statement = client.prepare_cached(&text).await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = client.query(&statement, &[&from.0, &limit]).await?;
        Ok(rows.iter().map(row::user).collect::<Result<_, _>>()?)
    }

    pub(super) async fn read_replies(
        &self,
        keys: &[IdempotencyKey],
    ) -> Result<Vec<entourage_model::Result<Option<Outcome>>>, Failure> {
        let scopes: Vec<&[u8]> = keys.iter().map(|key| key.scope.as_slice()).collect();
        let client = self.client().await?;
        let lineage = self.lineage_of(&client)?;
        let statement = client.prepare_cached(REPLIES).await?;
        let now = self.time.now();
        let mut replies: Vec<entourage_model::Result<Option<Outcome>>> = keys.iter().map(|_| Ok(None)).collect();
        for found in client.query(&statement, &[&scopes]).await? {
            let place = usize::try_from(found.get::<_, i64>(4) - 1).ok();
            let asked = place.and_then(|place| Some((keys.get(place)?, replies.get_mut(place)?)));
            let (key, reply) = asked.ok_or_else(|| unreadable("place"))?;
            let record = row::idempotency(&found, key.scope)?;
            if record.version.millis().plus(self.options.idempotency_millis()) > now {
                let end = Sequence(found.get::<_, i64>(3).unsigned_abs());
                let watermark = Watermark::new(lineage, [end]);
                *reply = replay(record, *key, watermark).map(Some).map_err(Into::into);
            }
        }
        Ok(replies)
    }
}

/// A count below zero is a bug to be shown, not hidden.
fn count(row: &Row, column: usize) -> Result<u64, Failure> {
    Ok(u64::try_from(row.get::<_, i64>(column)).map_err(|_| unreadable("count"))?)
}
