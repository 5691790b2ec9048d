//! Compares counts with lists, events with each other, and events with what is stored.

use deadpool_postgres::Transaction;
use entourage_model::Space;
use tokio_postgres::{IsolationLevel, Row};

use super::{Engine, error::Failure};
use entourage_store::Report;

/// Of each check: more of the same adds nothing.
const PROBLEMS_MAX: i64 = 100;

const SIZES: &str = "SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM edges WHERE state <> 3), \
     (SELECT count(*) FROM events \
         WHERE NOT coalesce(change->'Record'->>'space' = ANY($1), false)), \
     (SELECT count(*) FROM records)";

/// Each returns one text for each disagreement.
const CHECKS: [(&str, &str); 10] = [
    (
        "count",
        "WITH listed AS (\
             SELECT user_key, CASE kind WHEN 0 THEN state WHEN 1 THEN 3 ELSE 4 END::smallint AS plane, side, \
                 count(*) AS total, count(*) FILTER (WHERE quiet) AS quiet \
             FROM (SELECT follower AS user_key, 0::smallint AS side, kind, state, quiet FROM edges WHERE state <> 3 \
                   UNION ALL SELECT target, 1::smallint, kind, state, quiet FROM edges WHERE state <> 3) ends \
             GROUP BY 1, 2, 3), \
         counted AS (\
             SELECT user_key, plane, side, sum(total) AS total, sum(quiet) AS quiet FROM count_parts \
             GROUP BY user_key, plane, side) \
         SELECT format('user %s plane %s side %s counts %s (%s quiet), its list has %s (%s quiet)', user_key, plane, \
             side, coalesce(counted.total, 0), coalesce(counted.quiet, 0), coalesce(listed.total, 0), \
             coalesce(listed.quiet, 0)) \
         FROM listed FULL JOIN counted USING (user_key, plane, side) \
         WHERE coalesce(counted.total, 0) <> coalesce(listed.total, 0) \
             OR coalesce(counted.quiet, 0) <> coalesce(listed.quiet, 0) LIMIT $1",
    ),
    (
        "edge",
        "SELECT format('kind %s %s -> %s has an end that is no user', kind, follower, target) FROM edges \
         WHERE NOT EXISTS (SELECT 1 FROM users WHERE key = follower UNION ALL \
                 SELECT 1 FROM erased WHERE key = follower) \
             OR NOT EXISTS (SELECT 1 FROM users WHERE key = target UNION ALL SELECT 1 FROM erased WHERE key = target) \
         LIMIT $1",
    ),
    (
        "record",
        "SELECT format('space %s holds %s of %s, who is no user', space, id, owner) FROM records \
         WHERE owner <> (-9223372036854775808)::bigint AND NOT EXISTS (SELECT 1 FROM users WHERE key = owner) \
             AND NOT (space = 6 AND EXISTS (SELECT 1 FROM erased WHERE key = owner)) LIMIT $1",
    ),
    (
        "post",
        "WITH posts AS (\
             SELECT ~('x' || encode(id, 'hex'))::bit(64)::bigint AS post, owner AS author FROM records WHERE space = 6), \
         named AS (\
             SELECT ('x' || encode(id, 'hex'))::bit(64)::bigint AS post, ('x' || encode(value, 'hex'))::bit(64)::bigint \
                 AS author FROM records WHERE space = 7) \
         SELECT format('post %s is of %s; by its id it is of %s', post, posts.author, named.author) \
         FROM posts FULL JOIN named USING (post) WHERE posts.author IS DISTINCT FROM named.author LIMIT $1",
    ),
    (
        // A post has an external id where the second format says so in its lowest flag: length and text come next.
        "post",
        "WITH named AS (\
             SELECT owner, sha256(substring(value from 4 for get_byte(value, 2))) AS name, \
                 ~('x' || encode(id, 'hex'))::bit(64)::bigint AS post FROM records \
             WHERE space = 6 AND octet_length(value) > 2 AND get_byte(value, 0) & 254 = 4 AND get_byte(value, 1) & 1 = 1 \
                 AND EXISTS (SELECT 1 FROM users WHERE key = owner)), \
         led AS (\
             SELECT owner, id AS name, ('x' || encode(value, 'hex'))::bit(64)::bigint AS post FROM records \
             WHERE space = 11) \
         SELECT format('an external id of %s is of post %s; by its record it is of %s', owner, named.post, led.post) \
         FROM named FULL JOIN led USING (owner, name) WHERE named.post IS DISTINCT FROM led.post LIMIT $1",
    ),
    (
        "block",
        "SELECT format('%s follows %s though one blocks the other', f.follower, f.target) FROM edges f JOIN edges b \
         ON (b.follower, b.target) IN ((f.follower, f.target), (f.target, f.follower)) \
         WHERE f.kind = 0 AND b.kind = 1 AND f.state <> 3 AND b.state <> 3 LIMIT $1",
    ),
    (
        "events",
        "SELECT format('after sequence %s comes %s', before, sequence) FROM (\
             SELECT sequence, lag(sequence, 1, (SELECT dropped FROM relay)) OVER (ORDER BY sequence) AS before \
             FROM events) steps \
         WHERE sequence <> before + 1 \
         UNION ALL SELECT format('the relay gave out %s, the last event is %s', sequence, last) FROM relay, \
             (SELECT coalesce(max(events.sequence), (SELECT dropped FROM relay)) AS last FROM events) found \
         WHERE sequence <> last LIMIT $1",
    ),
    (
        "events",
        "WITH told AS (SELECT (change->'Edge'->>'follower')::bigint AS follower, \
             (change->'Edge'->>'target')::bigint AS target, change->'Edge'->>'kind' AS kind, sequence, version \
             FROM events WHERE change ? 'Edge') \
         SELECT format('%s %s -> %s goes back to version %s at sequence %s', kind, follower, target, version, sequence) \
         FROM (SELECT *, lag(version) OVER (PARTITION BY follower, target, kind ORDER BY sequence) AS before FROM told) \
             steps WHERE version <= before LIMIT $1",
    ),
    // Whatever was last changed above every dropped event must still be listed.
    (
        "events",
        "WITH told AS (\
             SELECT DISTINCT ON (follower, target, kind) follower, target, kind, value FROM (\
                 SELECT change->'Edge' AS edge, version FROM events WHERE change ? 'Edge') all_told, \
             LATERAL (SELECT (edge->>'follower')::bigint AS follower, (edge->>'target')::bigint AS target, \
                 array_position(ARRAY['follow', 'block', 'mute'], edge->>'kind') - 1 AS kind, \
                 '{\"accepted\": false, \"expires\": null}'::jsonb || (edge->'after') AS value) parts \
             ORDER BY follower, target, kind, version DESC), \
         stored AS (\
             SELECT follower, target, kind::integer AS kind, jsonb_build_object('quiet', quiet, 'version', version, \
                 'position', position, 'accepted', accepted, 'expires', expires, 'state', (ARRAY['active', 'pending', 'parked', 'removed'])[state + 1]) AS value \
             FROM edges) \
         SELECT format('kind %s %s -> %s is stored as %s, the events say %s', kind, follower, target, stored.value, \
             told.value) \
         FROM stored FULL JOIN told USING (follower, target, kind), relay \
         WHERE stored.value IS DISTINCT FROM told.value \
             AND NOT (told.value IS NULL AND (stored.value->>'version')::bigint <= relay.dropped_version) LIMIT $1",
    ),
    (
        "events",
        "WITH told AS (\
             SELECT DISTINCT ON (key) key, version, change->'User'->'after' = 'null'::jsonb AS gone FROM (\
                 SELECT (change->'User'->>'key')::bigint AS key, change, version FROM events WHERE change ? 'User') all_told \
             ORDER BY key, version DESC) \
         SELECT format('user %s is stored at version %s, the events say %s', key, users.version, told.version) \
         FROM users FULL JOIN told USING (key), relay \
         WHERE users.version IS DISTINCT FROM CASE WHEN told.gone THEN NULL ELSE told.version END \
             AND NOT (told.version IS NULL AND users.version <= relay.dropped_version) LIMIT $1",
    ),
];

impl Engine {
    /// Everything is compared as of one snapshot, under concurrent writes.
    pub(super) async fn check_everything(&self) -> Result<Report, Failure> {
        let mut client = self.client().await?;
        let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let transaction = builder.start().await?;
        let mut report = sizes(&transaction).await?;
        for (check, text) in CHECKS {
            let statement = transaction.prepare_cached(text).await?;
            for row in transaction.query(&statement, &[&PROBLEMS_MAX]).await? {
                report.problem(check, row.get::<_, String>(0));
            }
        }
        transaction.commit().await?;
        Ok(report)
    }
}

async fn sizes(transaction: &Transaction<'_>) -> Result<Report, Failure> {
    let statement = transaction.prepare_cached(SIZES).await?;
    let hidden = Space::ALL.into_iter().filter(|space| !space.is_public());
    let hidden: Vec<String> =
        hidden.filter_map(|space| Some(serde_json::to_value(space).ok()?.as_str()?.to_owned())).collect();
    let row = transaction.query_one(&statement, &[&hidden]).await?;
    let size = |row: &Row, column: usize| row.get::<_, i64>(column).unsigned_abs();
    let (users, edges, events, records) = (size(&row, 0), size(&row, 1), size(&row, 2), size(&row, 3));
    Ok(Report { users, edges, records, events, problems: Vec::new() })
}
