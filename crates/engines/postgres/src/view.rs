//! What one decision reads, loaded under the commit's locks.

use deadpool_postgres::Transaction;
use entourage_model::{
    Buckets, CHUNK_MAX, Cause, Edge, EdgeValue, Expiry, ExternalId, GROUP_MEMBERS_MAX, IdempotencyRecord, Key, Kind,
    Millis, Moments, Operation, Overwrite, POSTS_AT_ONCE_MAX, Plane, Quota, Record, RecordId, Side, Space, User,
    Version, View, Write, post_id_prefix, post_ids_at,
};

use super::{error::Failure, lock, options::Options, records, row};
use entourage_store::retention;

const EDGES: &str = "SELECT kind, follower, target, state, quiet, version, position, accepted, expires FROM edges \
     WHERE (follower = $1 AND target = $2) OR (follower = $2 AND target = $1)";
const EDGES_OF: &str = "SELECT * FROM (\
         SELECT kind, follower, target, state, quiet, version, position, accepted, expires FROM edges \
         WHERE follower = $1 AND state <> 3 LIMIT $2) own \
     UNION ALL SELECT * FROM (\
         SELECT kind, follower, target, state, quiet, version, position, accepted, expires FROM edges \
         WHERE target = $1 AND state <> 3 LIMIT $2) others LIMIT $2";
const ERASED: &str = "SELECT version FROM erased WHERE key = $1";
const LISTED: &str = "SELECT id, version FROM records WHERE owner = $1 AND space = $2 AND id > $3 \
     AND substring(id from 1 for octet_length($3)) = $3 ORDER BY id LIMIT $4";
const BETWEEN: &str = "SELECT id, version, value FROM records \
     WHERE owner = $1 AND space = $2 AND id BETWEEN $3 AND $4";
const GET_SOME: &str = "SELECT id, version, value FROM records WHERE owner = $1 AND space = $2 AND id = ANY($3)";
/// How many the follower follows, and when follows of the target ended recently.
const LOAD: &str = "SELECT \
     (SELECT coalesce(sum(total), 0)::bigint FROM count_parts WHERE user_key = $1 AND side = $2 AND plane = ANY($3)), \
     ARRAY(SELECT ended FROM history WHERE follower = $1 AND target = $4 AND ended > $5 AND cause <> $6 \
         ORDER BY ended DESC LIMIT $7)";
const IDEMPOTENCY: &str = "SELECT request, version, reply::text FROM idempotency WHERE scope = $1";

#[derive(Debug, Default)]
pub(super) struct Loaded {
    users: Vec<User>,
    /// Tombstones too: the next version must exceed theirs.
    edges: Vec<Edge>,
    /// Edges of a key without a user.
    edges_of: Vec<Edge>,
    load: u64,
    quota: Quota,
    ends: Moments,
    records: Vec<(Space, Record)>,
    record_count: u64,
    /// Members of a group, or posts.
    listed: Vec<(RecordId, Version)>,
    erased: Option<Version>,
    idempotency: Option<IdempotencyRecord>,
    idempotency_millis: u64,
}

impl Loaded {
    pub(super) async fn load(transaction: &Transaction<'_>, write: &Write, options: &Options) -> Result<Self, Failure> {
        let loaded = tokio::join!(
            load_users(transaction, write),
            load_edges(transaction, write),
            load_load(transaction, write),
            load_idempotency(transaction, write),
            load_records(transaction, write),
            load_edges_of(transaction, write),
            load_erased(transaction, write),
        );
        match loaded {
            (
                Ok((users, quota)),
                Ok(edges),
                Ok((load, ends)),
                Ok(idempotency),
                Ok(mut found),
                Ok(edges_of),
                Ok(erased),
            ) => {
                found.records.extend(load_mute_ends(transaction, write, edges.iter().chain(&edges_of)).await?);
                Ok(Self {
                    users,
                    edges,
                    edges_of,
                    load,
                    quota,
                    ends,
                    records: found.records,
                    record_count: found.count,
                    listed: found.listed,
                    erased,
                    idempotency,
                    idempotency_millis: options.idempotency_millis(),
                })
            }
            (a, b, c, d, e, f, g) => {
                Err(Failure::cause([a.err(), b.err(), c.err(), d.err(), e.err(), f.err(), g.err()]))
            }
        }
    }

    /// What the version of this write must exceed.
    pub(super) fn floor(&self) -> Version {
        let edges = self.edges.iter().chain(&self.edges_of).map(|edge| edge.value.version);
        let users = self.users.iter().map(|user| user.version);
        let records = self.records.iter().map(|(_, record)| record.version);
        let listed = self.listed.iter().map(|(_, version)| *version);
        let all = edges.chain(users).chain(records).chain(listed).chain(self.erased);
        all.max().unwrap_or(Version::ZERO)
    }

    fn find_user(&self, key: Key) -> Option<&User> {
        self.users.iter().find(|user| user.key == key)
    }
}

impl View for Loaded {
    fn buckets(&self) -> Buckets {
        Buckets::ONE
    }

    fn user_exists(&self, key: Key) -> bool {
        self.find_user(key).is_some()
    }

    fn is_private(&self, key: Key) -> bool {
        self.find_user(key).is_some_and(|user| user.private)
    }

    fn is_suspended(&self, key: Key) -> bool {
        self.find_user(key).is_some_and(|user| user.follow_suspended)
    }

    fn user(&self, key: Key) -> Option<User> {
        self.find_user(key).cloned()
    }

    fn has_edge(&self, kind: Kind, follower: Key, target: Key) -> bool {
        self.edge(kind, follower, target).is_some()
    }

    fn edge(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        let wanted = |edge: &&Edge| (edge.kind, edge.follower, edge.target) == (kind, follower, target);
        self.edges.iter().find(wanted).map(|edge| edge.value).filter(EdgeValue::is_live)
    }

    fn following_load(&self, _follower: Key) -> u64 {
        self.load
    }

    fn idempotency(&self, _scope: &[u8; 16], now: Version) -> Option<IdempotencyRecord> {
        self.idempotency.filter(|record| record.version.millis().plus(self.idempotency_millis) > now.millis())
    }

    fn quota(&self, _actor: Key) -> Quota {
        self.quota.clone()
    }

    fn ends(&self, _follower: Key, _target: Key) -> Moments {
        self.ends.clone()
    }

    fn record(&self, space: Space, _owner: Key, id: &RecordId) -> Option<Record> {
        self.records.iter().find(|(of, record)| *of == space && record.id == *id).map(|(_, record)| record.clone())
    }

    fn record_count(&self, _space: Space, _owner: Key) -> u64 {
        self.record_count
    }

    fn records(&self, _space: Space, _owner: Key, _prefix: &[u8], limit: usize) -> Vec<(RecordId, Version)> {
        self.listed.iter().take(limit).cloned().collect()
    }

    fn edges_of(&self, _key: Key, limit: usize) -> Vec<Edge> {
        self.edges_of.iter().take(limit).copied().collect()
    }
}

/// Those that the write names, and the actor's quota.
async fn load_users(transaction: &Transaction<'_>, write: &Write) -> Result<(Vec<User>, Quota), Failure> {
    let (actor, other) = write.operation.parties();
    let keys = [actor.0, other.or_else(|| lock::subject(&write.operation)).unwrap_or(actor).0];
    let text = format!("SELECT {}, quota FROM users WHERE key = ANY($1)", row::USER);
    let statement = transaction.prepare_cached(&text).await?;
    let rows = transaction.query(&statement, &[&keys.as_slice()]).await?;
    let users: Vec<User> = rows.iter().map(row::user).collect::<Result<_, _>>()?;
    let own = users.iter().zip(&rows).find(|(user, _)| user.key == actor);
    let quota = own.map(|(_, found)| row::quota(found.get("quota"))).transpose()?;
    Ok((users, quota.unwrap_or_default()))
}

async fn load_edges(transaction: &Transaction<'_>, write: &Write) -> Result<Vec<Edge>, Failure> {
    let (actor, Some(other)) = write.operation.parties() else { return Ok(Vec::new()) };
    let statement = transaction.prepare_cached(EDGES).await?;
    let rows = transaction.query(&statement, &[&actor.0, &other.0]).await?;
    Ok(rows.iter().map(|row| row::edge(row, 0)).collect::<Result<_, _>>()?)
}

async fn load_load(transaction: &Transaction<'_>, write: &Write) -> Result<(u64, Moments), Failure> {
    let Operation::Follow { follower, target, cap, .. } = write.operation else { return Ok(Default::default()) };
    let flips = write.limits.map_or(0, |limits| i64::from(limits.flips_per_day));
    if cap.is_none() && flips == 0 {
        return Ok(Default::default());
    }
    let a_day_ago = write.limits.map_or(0, |limits| limits.now.since_2000().saturating_sub(retention::DAY_MILLIS));
    let since = row::from_version(Version::of_millis(Millis::from_since_2000(a_day_ago)));
    let planes: Vec<i16> = Plane::of_kind(Kind::Follow).iter().map(|&plane| plane as i16).collect();
    let statement = transaction.prepare_cached(LOAD).await?;
    let (side, erasure) = (Side::Following as i16, Cause::Erase as i16);
    let row =
        transaction.query_one(&statement, &[&follower.0, &side, &planes, &target.0, &since, &erasure, &flips]).await?;
    let (load, mut ends): (i64, Vec<i64>) = (row.get(0), row.get(1));
    ends.reverse();
    let ends = Moments::of_ends(ends.into_iter().map(|ended| row::to_version(ended).millis()));
    Ok((u64::try_from(load).map_err(|_| super::error::unreadable("count"))?, ends))
}

async fn load_idempotency(transaction: &Transaction<'_>, write: &Write) -> Result<Option<IdempotencyRecord>, Failure> {
    let Some(key) = &write.idempotency else { return Ok(None) };
    let statement = transaction.prepare_cached(IDEMPOTENCY).await?;
    let row = transaction.query_opt(&statement, &[&key.scope.as_slice()]).await?;
    Ok(row.map(|row| row::idempotency(&row, key.scope)).transpose()?)
}

/// What a write to records reads.
#[derive(Debug, Default)]
struct Found {
    records: Vec<(Space, Record)>,
    count: u64,
    listed: Vec<(RecordId, Version)>,
}

async fn load_records(transaction: &Transaction<'_>, write: &Write) -> Result<Found, Failure> {
    let mut found = load_own_records(transaction, &write.operation).await?;
    let lease = write.fence.iter().map(|fence| fence.lease.record_id());
    for id in lease.chain(write.progress.iter().map(|progress| &progress.id)).chain(&write.tally) {
        found.records.extend(load_record(transaction, Space::Job, Key::SERVER, id).await?);
    }
    Ok(found)
}

async fn load_own_records(transaction: &Transaction<'_>, operation: &Operation) -> Result<Found, Failure> {
    match operation {
        Operation::PutRecord { space, owner, id, value, cap, .. } => {
            let mut found = Found::default();
            found.records.extend(load_record(transaction, *space, *owner, id).await?);
            if cap.is_some() {
                found.count = load_count(transaction, *space, *owner).await?;
            }
            if let (Space::Erased, Some(key)) = (space, id.key()) {
                found.listed = load_listed(transaction, Space::Post, key, &[], 1).await?;
            }
            if *space == Space::Group {
                let limit = if value.is_some() { 1 } else { CHUNK_MAX };
                let prefix = RecordId::member_prefix(id);
                found.listed = load_listed(transaction, Space::GroupMember, *owner, &prefix, limit).await?;
            }
            Ok(found)
        }
        // Later than the author's last one, whichever server wrote that.
        Operation::Post { author, value } => {
            let mut found = load_posts(transaction, *author, 1).await?;
            found.records.extend(load_named(transaction, *author, value).await?);
            Ok(found)
        }
        Operation::ImportPost { author, at, id, value } => {
            let mut found = Found::default();
            found.records.extend(load_named(transaction, *author, value).await?);
            let mut ids: Vec<Version> = id.iter().copied().collect();
            if id.is_none() {
                let prefix = post_id_prefix(*at);
                found.listed = load_listed(transaction, Space::Post, *author, &prefix, POSTS_AT_ONCE_MAX).await?;
                let own = found.listed.iter().filter_map(|(id, _)| id.version()).filter(|id| id.millis() == *at);
                let own: Vec<Version> = own.collect();
                ids.extend(post_ids_at(*author, *at, own.iter().max().copied()));
                found
                    .records
                    .extend(load_between(transaction, Space::Post, *author, &own, RecordId::of_version).await?);
            }
            let index = RecordId::of_post_author;
            found.records.extend(load_between(transaction, Space::PostAuthor, Key::SERVER, &ids, index).await?);
            Ok(found)
        }
        Operation::Erase { key, .. } => {
            let mut found = Found::default();
            for space in [Space::Fanout, Space::Erased] {
                let record = load_record(transaction, space, Key::SERVER, &RecordId::of_key(*key)).await?;
                found.records.extend(record);
            }
            Ok(found)
        }
        Operation::EraseEdges { key, limit } => {
            let mut found = load_posts(transaction, *key, (*limit).min(CHUNK_MAX).div_ceil(2) + 1).await?;
            let id = RecordId::of_key(*key);
            found.records.extend(load_record(transaction, Space::Erased, Key::SERVER, &id).await?);
            Ok(found)
        }
        Operation::PutUser { key, overwrite: Overwrite::Replace | Overwrite::Keep, .. } => {
            load_posts(transaction, *key, 1).await
        }
        Operation::AddRecord { space, owner, cap: Some(_), .. } => {
            Ok(Found { count: load_count(transaction, *space, *owner).await?, ..Found::default() })
        }
        Operation::GroupMember { owner, group, member, present } => {
            let Some(id) = RecordId::of_member(group, *member) else { return Ok(Found::default()) };
            let mut found = Found::default();
            found.records.extend(load_record(transaction, Space::Group, *owner, group).await?);
            found.records.extend(load_record(transaction, Space::GroupMember, *owner, &id).await?);
            if *present {
                found.count = load_count(transaction, Space::GroupMember, *owner).await?;
            }
            if found.count >= GROUP_MEMBERS_MAX {
                let (prefix, limit) = (RecordId::member_prefix(group), GROUP_MEMBERS_MAX as usize);
                found.listed = load_listed(transaction, Space::GroupMember, *owner, &prefix, limit).await?;
            }
            Ok(found)
        }
        _ => Ok(Found::default()),
    }
}

async fn load_record(
    transaction: &Transaction<'_>,
    space: Space,
    owner: Key,
    id: &RecordId,
) -> Result<Option<(Space, Record)>, Failure> {
    let statement = transaction.prepare_cached(records::GET).await?;
    let found = transaction.query_opt(&statement, &[&owner.0, &(space as i16), &id.as_bytes()]).await?;
    Ok(found.map(|found| row::record(&found)).transpose()?.map(|record| (space, record)))
}

/// The records of the ends of mutes that the write may change: the record is removed with the mute.
async fn load_mute_ends(
    transaction: &Transaction<'_>,
    write: &Write,
    edges: impl Iterator<Item = &Edge>,
) -> Result<Vec<(Space, Record)>, Failure> {
    let fresh = match write.operation {
        Operation::Mute { actor, target, expires_at } | Operation::ImportMute { actor, target, expires_at, .. } => {
            expires_at.map(|at| RecordId::of_mute_end(Expiry::at(at), actor, target))
        }
        Operation::Unmute { .. } | Operation::ExpireMute { .. } | Operation::EraseEdges { .. } => None,
        _ => return Ok(Vec::new()),
    };
    let known = edges.filter(|edge| edge.kind == Kind::Mute && edge.value.is_live());
    let known = known.filter_map(|edge| Some(RecordId::of_mute_end(edge.value.expires?, edge.follower, edge.target)));
    let ids: Vec<RecordId> = known.chain(fresh).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let bytes: Vec<&[u8]> = ids.iter().map(RecordId::as_bytes).collect();
    let statement = transaction.prepare_cached(GET_SOME).await?;
    let rows = transaction.query(&statement, &[&Key::SERVER.0, &(Space::Job as i16), &bytes]).await?;
    rows.iter().map(|found| Ok((Space::Job, row::record(found)?))).collect()
}

/// The record of the external id that the value of a post has.
async fn load_named(
    transaction: &Transaction<'_>,
    author: Key,
    value: &[u8],
) -> Result<Option<(Space, Record)>, Failure> {
    let Some(name) = ExternalId::of_post(value) else { return Ok(None) };
    load_record(transaction, Space::PostExternal, author, &name.record_id()).await
}

/// The records from the least to the greatest of these.
async fn load_between(
    transaction: &Transaction<'_>,
    space: Space,
    owner: Key,
    posts: &[Version],
    name: fn(Version) -> RecordId,
) -> Result<Vec<(Space, Record)>, Failure> {
    let ids = || posts.iter().copied().map(name);
    let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Ok(Vec::new()) };
    let statement = transaction.prepare_cached(BETWEEN).await?;
    let bounds = (first.as_bytes(), last.as_bytes());
    let rows = transaction.query(&statement, &[&owner.0, &(space as i16), &bounds.0, &bounds.1]).await?;
    rows.iter().map(|found| Ok((space, row::record(found)?))).collect()
}

async fn load_count(transaction: &Transaction<'_>, space: Space, owner: Key) -> Result<u64, Failure> {
    let statement = transaction.prepare_cached(records::COUNT).await?;
    let count: i64 = transaction.query_one(&statement, &[&owner.0, &(space as i16)]).await?.get(0);
    Ok(count.unsigned_abs())
}

async fn load_posts(transaction: &Transaction<'_>, author: Key, limit: usize) -> Result<Found, Failure> {
    Ok(Found { listed: load_listed(transaction, Space::Post, author, &[], limit).await?, ..Found::default() })
}

async fn load_listed(
    transaction: &Transaction<'_>,
    space: Space,
    owner: Key,
    prefix: &[u8],
    limit: usize,
) -> Result<Vec<(RecordId, Version)>, Failure> {
    let statement = transaction.prepare_cached(LISTED).await?;
    let rows = transaction.query(&statement, &[&owner.0, &(space as i16), &prefix, &(limit as i64)]).await?;
    let listed = |row: &tokio_postgres::Row| {
        let id = RecordId::new(row.get(0)).map_err(|_| super::error::unreadable("record"))?;
        Ok((id, row::to_version(row.get(1))))
    };
    rows.iter().map(listed).collect()
}

/// The edges of an erased user: what is to go, or what blocks the reuse of the key.
async fn load_edges_of(transaction: &Transaction<'_>, write: &Write) -> Result<Vec<Edge>, Failure> {
    let (key, limit) = match write.operation {
        Operation::EraseEdges { key, limit } => (key, limit.min(CHUNK_MAX) + 1),
        Operation::PutUser { key, overwrite: Overwrite::Replace | Overwrite::Keep, .. } => (key, 1),
        Operation::PutRecord { space: Space::Erased, ref id, .. } => match id.key() {
            Some(key) => (key, 1),
            None => return Ok(Vec::new()),
        },
        _ => return Ok(Vec::new()),
    };
    let statement = transaction.prepare_cached(EDGES_OF).await?;
    let rows = transaction.query(&statement, &[&key.0, &(limit as i64)]).await?;
    Ok(rows.iter().map(|row| row::edge(row, 0)).collect::<Result<_, _>>()?)
}

async fn load_erased(transaction: &Transaction<'_>, write: &Write) -> Result<Option<Version>, Failure> {
    let Operation::PutUser { key, .. } = write.operation else { return Ok(None) };
    let statement = transaction.prepare_cached(ERASED).await?;
    Ok(transaction.query_opt(&statement, &[&key.0]).await?.map(|row| row::to_version(row.get(0))))
}
