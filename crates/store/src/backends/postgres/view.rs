//! What one decision looks at, loaded under the commit's locks.

use deadpool_postgres::Transaction;
use entourage_model::{
    Edge, EdgeValue, IdempotencyRecord, Key, Kind, Operation, Plane, Side, User, Version, View, Write,
};

use super::{error::Failure, options::Options, row};

const EDGES: &str = "SELECT kind, follower, target, state, quiet, version, position FROM edges \
     WHERE (follower = $1 AND target = $2) OR (follower = $2 AND target = $1)";
const LOAD: &str = "SELECT coalesce(sum(total), 0)::bigint FROM count_parts \
     WHERE user_key = $1 AND side = $2 AND plane = ANY($3)";
const IDEMPOTENCY: &str = "SELECT request, version, reply::text FROM idempotency WHERE scope = $1";

#[derive(Debug, Default)]
pub(super) struct Loaded {
    users: Vec<User>,
    /// Removed ones too: the next version must exceed theirs.
    edges: Vec<Edge>,
    load: u64,
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
        );
        match loaded {
            (Ok(users), Ok(edges), Ok(load), Ok(idempotency)) => {
                Ok(Self { users, edges, load, idempotency, idempotency_millis: options.idempotency_millis() })
            }
            (users, edges, load, idempotency) => {
                Err(Failure::cause([users.err(), edges.err(), load.err(), idempotency.err()]))
            }
        }
    }

    /// What the version of this write must exceed.
    pub(super) fn floor(&self) -> Version {
        let edges = self.edges.iter().map(|edge| edge.value.version);
        let users = self.users.iter().map(|user| user.version);
        edges.chain(users).max().unwrap_or(Version::ZERO)
    }

    fn find_user(&self, key: Key) -> Option<&User> {
        self.users.iter().find(|user| user.key == key)
    }
}

impl View for Loaded {
    fn user_exists(&self, key: Key) -> bool {
        self.find_user(key).is_some()
    }

    fn is_private(&self, key: Key) -> bool {
        self.find_user(key).is_some_and(|user| user.private)
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
}

async fn load_users(transaction: &Transaction<'_>, write: &Write) -> Result<Vec<User>, Failure> {
    let (actor, other) = write.operation.parties();
    let keys = [actor.0, other.unwrap_or(actor).0];
    let statement = transaction.prepare_cached(&format!("SELECT {} FROM users WHERE key = ANY($1)", row::USER)).await?;
    let rows = transaction.query(&statement, &[&keys.as_slice()]).await?;
    Ok(rows.iter().map(row::user).collect::<Result<_, _>>()?)
}

async fn load_edges(transaction: &Transaction<'_>, write: &Write) -> Result<Vec<Edge>, Failure> {
    let (actor, Some(other)) = write.operation.parties() else { return Ok(Vec::new()) };
    let statement = transaction.prepare_cached(EDGES).await?;
    let rows = transaction.query(&statement, &[&actor.0, &other.0]).await?;
    Ok(rows.iter().map(|row| row::edge(row, 0)).collect::<Result<_, _>>()?)
}

async fn load_load(transaction: &Transaction<'_>, write: &Write) -> Result<u64, Failure> {
    let Operation::Follow { follower, cap: Some(_), .. } = write.operation else { return Ok(0) };
    let planes: Vec<i16> = Plane::of_kind(Kind::Follow).iter().map(|&plane| plane as i16).collect();
    let statement = transaction.prepare_cached(LOAD).await?;
    let row = transaction.query_one(&statement, &[&follower.0, &(Side::Following as i16), &planes]).await?;
    let load: i64 = row.get(0);
    Ok(u64::try_from(load).map_err(|_| super::error::unreadable("count"))?)
}

async fn load_idempotency(transaction: &Transaction<'_>, write: &Write) -> Result<Option<IdempotencyRecord>, Failure> {
    let Some(key) = &write.idempotency else { return Ok(None) };
    let statement = transaction.prepare_cached(IDEMPOTENCY).await?;
    let row = transaction.query_opt(&statement, &[&key.scope.as_slice()]).await?;
    Ok(row.map(|row| row::idempotency(&row, key.scope)).transpose()?)
}
