//! Columns and rows of the tables as types of the model, and back.

use entourage_model::{
    Cause, Edge, EdgeValue, Ended, Expiry, IdempotencyKey, IdempotencyRecord, Key, Kind, Millis, Quota, Record,
    RecordId, Result, State, User, UserId, Version,
};
use tokio_postgres::Row;

use super::error::unreadable;

pub(super) const USER: &str =
    "key, id, name, avatar_url, private, hide_lists, registered_at, created, version, follow_suspended";
/// The columns of [`value`].
pub(super) const VALUE: [&str; 6] = ["state", "quiet", "version", "position", "accepted", "expires"];

/// Bits above the 63rd are never set, so the signed column orders as the version does.
pub(super) const fn from_version(version: Version) -> i64 {
    version.bits() as i64
}

pub(super) const fn to_version(bits: i64) -> Version {
    Version::from_bits(bits as u64)
}

pub(super) const fn from_millis(millis: Millis) -> i64 {
    millis.since_2000() as i64
}

/// From the columns of [`USER`].
pub(super) fn user(row: &Row) -> Result<User> {
    let id: String = row.get(1);
    let text = |column: usize| row.get::<_, Option<String>>(column).map(String::into_boxed_str);
    Ok(User {
        key: Key(row.get(0)),
        id: UserId::try_from(id).map_err(|_| unreadable("user"))?,
        name: text(2),
        avatar_url: text(3),
        private: row.get(4),
        hide_lists: row.get(5),
        follow_suspended: row.get(9),
        registered_at: Millis::from_since_2000(row.get::<_, i64>(6) as u64),
        created: to_version(row.get(7)),
        version: to_version(row.get(8)),
    })
}

/// A missing quota is a full one.
pub(super) fn quota(bytes: Option<&[u8]>) -> Result<Quota> {
    bytes.map_or(Ok(Quota::default()), |bytes| Quota::from_bytes(bytes).ok_or_else(|| unreadable("quota")))
}

/// From `kind, follower, target` and [`VALUE`], beginning at a column.
pub(super) fn edge(row: &Row, first: usize) -> Result<Edge> {
    Ok(Edge {
        kind: number(row.get(first)).and_then(Kind::from_number).ok_or_else(|| unreadable("edge"))?,
        follower: Key(row.get(first + 1)),
        target: Key(row.get(first + 2)),
        value: value(row, first + 3)?,
    })
}

/// From [`VALUE`], beginning at a column.
pub(super) fn value(row: &Row, first: usize) -> Result<EdgeValue> {
    Ok(EdgeValue {
        state: number(row.get(first)).and_then(State::from_number).ok_or_else(|| unreadable("edge"))?,
        quiet: row.get(first + 1),
        version: to_version(row.get(first + 2)),
        position: to_version(row.get(first + 3)),
        accepted: row.get(first + 4),
        expires: row.get::<_, Option<i64>>(first + 5).and_then(|seconds| Expiry::from_seconds(seconds as u32)),
    })
}

/// From `request, version, reply`.
pub(super) fn idempotency(row: &Row, scope: [u8; 16]) -> Result<IdempotencyRecord> {
    let reply: &str = row.get(2);
    Ok(IdempotencyRecord {
        key: IdempotencyKey { scope, request: row.get::<_, i64>(0) as u64 },
        version: to_version(row.get(1)),
        reply: serde_json::from_str(reply).map_err(|error| unreadable("idempotency record").caused_by(error))?,
    })
}

/// From `id, version, value`.
pub(super) fn record(row: &Row) -> Result<Record> {
    let id = RecordId::new(row.get(0)).map_err(|_| unreadable("record"))?;
    Ok(Record { id, version: to_version(row.get(1)), value: row.get::<_, Vec<u8>>(2).into_boxed_slice() })
}

/// From `target, state, quiet, accepted, position, ended, cause`.
pub(super) fn ended(row: &Row) -> Result<Ended> {
    Ok(Ended {
        target: Key(row.get(0)),
        state: number(row.get(1)).and_then(State::from_number).ok_or_else(|| unreadable("history"))?,
        quiet: row.get(2),
        accepted: row.get(3),
        position: to_version(row.get(4)),
        ended: to_version(row.get(5)),
        cause: number(row.get(6)).and_then(Cause::from_number).ok_or_else(|| unreadable("history"))?,
    })
}

fn number(column: i16) -> Option<u8> {
    u8::try_from(column).ok()
}
