//! Encoding of one outcome: what the log stores and recovery applies.

use entourage_model::{
    Cause, Change, EdgeChange, EdgeValue, Expiry, IdempotencyKey, IdempotencyRecord, Key, Kind, Millis, Outcome, Quota,
    QuotaChange, RecordChange, RecordId, Reply, Sequence, Space, State, User, UserChange, UserId, Version, Watermark,
};
use serde::Deserialize;
use smallvec::SmallVec;

use crate::{
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    state::profile,
};

const TAG_EDGE: u8 = 0;
/// A user in format 1; only read.
const TAG_USER_1: u8 = 1;
const TAG_IDEMPOTENCY: u8 = 2;
const TAG_USER: u8 = 3;
const TAG_RECORD: u8 = 4;
/// Quota of the edge's follower, since format 5.
const TAG_QUOTA: u8 = 5;

/// Appends the changes, the idempotency record and the quota. `base` is the batch's first version.
pub(crate) fn encode(bytes: &mut Vec<u8>, outcome: &Outcome, base: Version) {
    put_signed(bytes, outcome.version.bits() as i64 - base.bits() as i64);
    let idempotency = outcome.idempotency.as_deref().filter(|_| !outcome.replayed);
    let others = u64::from(idempotency.is_some()) + u64::from(outcome.quota.is_some());
    put_varint(bytes, outcome.changes.len() as u64 + others);
    for change in &outcome.changes {
        match change {
            Change::Edge(edge) => {
                bytes.push(TAG_EDGE);
                encode_edge(bytes, edge, outcome.version);
            }
            Change::User(user) => {
                bytes.push(TAG_USER);
                encode_user(bytes, user);
            }
            Change::Record(record) => {
                bytes.push(TAG_RECORD);
                encode_record(bytes, record, outcome.version);
            }
        }
    }
    if let Some(record) = idempotency {
        bytes.push(TAG_IDEMPOTENCY);
        encode_idempotency(bytes, record);
    }
    if let Some(change) = &outcome.quota {
        bytes.push(TAG_QUOTA);
        put_bytes(bytes, &change.after.to_bytes());
    }
}

/// `last` is the sequence before this outcome's first change.
pub(crate) fn decode(reader: &mut Reader<'_>, base: Version, last: Sequence) -> Result<Outcome, Corrupt> {
    let version = Version::from_bits((base.bits() as i64).wrapping_add(reader.signed()?) as u64);
    let parts = reader.length()?;
    let mut changes = SmallVec::new();
    let (mut idempotency, mut quota) = (None, None);
    for _ in 0..parts {
        match reader.byte()? {
            TAG_EDGE => changes.push(Change::Edge(decode_edge(reader, version)?)),
            TAG_USER => changes.push(Change::User(decode_user(reader)?)),
            TAG_RECORD => changes.push(Change::Record(decode_record(reader, version)?)),
            TAG_USER_1 => changes.push(Change::User(decode_user_1(reader)?)),
            TAG_QUOTA => quota = Some(decode_quota(reader, &changes)?),
            TAG_IDEMPOTENCY => idempotency = Some(Box::new(decode_idempotency(reader)?)),
            _ => return Err(Corrupt("unknown change")),
        }
    }
    let watermark = Watermark::at(last.plus(changes.len() as u64));
    // Nobody waits for the reply of a recovered outcome; a retry reads the idempotency record.
    let reply =
        idempotency.as_deref().map_or(Reply::Gone { changed: false }, |record: &IdempotencyRecord| record.reply);
    Ok(Outcome { watermark, version, reply, changes, idempotency, quota, replayed: false })
}

fn decode_quota(reader: &mut Reader<'_>, changes: &[Change]) -> Result<QuotaChange, Corrupt> {
    let follower = |change: &Change| match change {
        Change::Edge(edge) => Some(edge.follower),
        Change::User(_) | Change::Record(_) => None,
    };
    let actor = changes.iter().find_map(follower).ok_or(Corrupt("a quota of nobody"))?;
    let after = Quota::from_bytes(reader.bytes()?).ok_or(Corrupt("quota"))?;
    Ok(QuotaChange { actor, after })
}

const HAS_BEFORE: u8 = 1 << 7;

fn encode_edge(bytes: &mut Vec<u8>, edge: &EdgeChange, version: Version) {
    let before = if edge.before.is_some() { HAS_BEFORE } else { 0 };
    bytes.push(edge.kind as u8 | (edge.cause as u8) << 2 | before);
    put_signed(bytes, edge.follower.0);
    put_signed(bytes, edge.target.0);
    if let Some(before) = &edge.before {
        encode_value(bytes, before, version);
    }
    encode_value(bytes, &edge.after, version);
}

fn decode_edge(reader: &mut Reader<'_>, version: Version) -> Result<EdgeChange, Corrupt> {
    let head = reader.byte()?;
    let kind = Kind::from_number(head & 3).ok_or(Corrupt("unknown kind"))?;
    let cause = Cause::from_number((head >> 2) & 7).ok_or(Corrupt("unknown cause"))?;
    let follower = Key(reader.signed()?);
    let target = Key(reader.signed()?);
    let before = if head & HAS_BEFORE != 0 { Some(decode_value(reader, version)?) } else { None };
    let after = decode_value(reader, version)?;
    Ok(EdgeChange { kind, follower, target, cause, before, after })
}

const QUIET: u8 = 1 << 2;
const OTHER_VERSION: u8 = 1 << 3;
const OTHER_POSITION: u8 = 1 << 4;
const ACCEPTED: u8 = 1 << 5;
const EXPIRES: u8 = 1 << 6;

/// Versions are stored as the distance from the outcome's own, which most equal.
fn encode_value(bytes: &mut Vec<u8>, value: &EdgeValue, version: Version) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let other_version = value.version != version;
    let other_position = value.position != value.version;
    bytes.push(
        value.state as u8
            | flag(value.quiet, QUIET)
            | flag(other_version, OTHER_VERSION)
            | flag(other_position, OTHER_POSITION)
            | flag(value.accepted, ACCEPTED)
            | flag(value.expires.is_some(), EXPIRES),
    );
    if other_version {
        put_signed(bytes, version.bits() as i64 - value.version.bits() as i64);
    }
    if other_position {
        put_varint(bytes, value.position.bits());
    }
    if let Some(expires) = value.expires {
        put_varint(bytes, u64::from(expires.seconds()));
    }
}

fn decode_value(reader: &mut Reader<'_>, version: Version) -> Result<EdgeValue, Corrupt> {
    let head = reader.byte()?;
    let state = State::from_number(head & 3).ok_or(Corrupt("unknown state"))?;
    let own = if head & OTHER_VERSION != 0 {
        Version::from_bits((version.bits() as i64).wrapping_sub(reader.signed()?) as u64)
    } else {
        version
    };
    let position = if head & OTHER_POSITION != 0 { Version::from_bits(reader.varint()?) } else { own };
    let expires = if head & EXPIRES != 0 { Expiry::from_seconds(reader.u32()?) } else { None };
    let (quiet, accepted) = (head & QUIET != 0, head & ACCEPTED != 0);
    Ok(EdgeValue { state, quiet, accepted, expires, version: own, position })
}

fn encode_user(bytes: &mut Vec<u8>, user: &UserChange) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    bytes.push(
        flag(user.existed, BEFORE)
            | flag(user.after.is_some(), AFTER)
            | flag(user.is_suspension, SUSPENSION)
            | flag(user.erased.is_some(), ERASED_ID),
    );
    put_signed(bytes, user.key.0);
    if let Some(after) = &user.after {
        put_bytes(bytes, &profile::encode(after));
    }
    if let Some(id) = &user.erased {
        put_bytes(bytes, id.as_str().as_bytes());
    }
}

const BEFORE: u8 = 1;
const AFTER: u8 = 1 << 1;
/// Flags of users, since format 3.
const SUSPENSION: u8 = 1 << 2;
const ERASED_ID: u8 = 1 << 3;

fn decode_user(reader: &mut Reader<'_>) -> Result<UserChange, Corrupt> {
    let head = reader.byte()?;
    let key = Key(reader.signed()?);
    let after = if head & AFTER != 0 { Some(Box::new(profile::decode(key, reader.bytes()?)?)) } else { None };
    let erased = if head & ERASED_ID != 0 { Some(decode_id(reader)?) } else { None };
    Ok(UserChange { key, existed: head & BEFORE != 0, after, is_suspension: head & SUSPENSION != 0, erased })
}

fn decode_id(reader: &mut Reader<'_>) -> Result<UserId, Corrupt> {
    let text = std::str::from_utf8(reader.bytes()?).map_err(|_| Corrupt("user id"))?;
    UserId::try_from(text).map_err(|_| Corrupt("user id"))
}

fn encode_record(bytes: &mut Vec<u8>, record: &RecordChange, version: Version) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    bytes.push(record.space as u8);
    bytes.push(flag(record.before.is_some(), BEFORE) | flag(record.after.is_some(), AFTER));
    put_signed(bytes, record.owner.0);
    put_bytes(bytes, record.id.as_bytes());
    if let Some(before) = record.before {
        put_signed(bytes, version.bits() as i64 - before.bits() as i64);
    }
    if let Some(after) = &record.after {
        put_bytes(bytes, after);
    }
}

fn decode_record(reader: &mut Reader<'_>, version: Version) -> Result<RecordChange, Corrupt> {
    let space = Space::from_number(reader.byte()?).ok_or(Corrupt("unknown space"))?;
    let head = reader.byte()?;
    let owner = Key(reader.signed()?);
    let id = RecordId::new(reader.bytes()?).map_err(|_| Corrupt("record id"))?;
    let before = match head & BEFORE {
        0 => None,
        _ => Some(Version::from_bits((version.bits() as i64).wrapping_sub(reader.signed()?) as u64)),
    };
    let after = if head & AFTER != 0 { Some(reader.bytes()?.into()) } else { None };
    Ok(RecordChange { space, owner, id, before, after })
}

#[derive(Deserialize)]
struct UserChange1 {
    key: Key,
    existed: bool,
    after: Option<User1>,
}

#[derive(Deserialize)]
struct User1 {
    key: Key,
    id: UserId,
    name: Option<Box<str>>,
    avatar_url: Option<Box<str>>,
    private: bool,
    hide_lists: bool,
    registered_at: Millis,
    created: Version,
    version: Version,
}

fn decode_user_1(reader: &mut Reader<'_>) -> Result<UserChange, Corrupt> {
    let change: UserChange1 = postcard::from_bytes(reader.bytes()?).map_err(|_| Corrupt("user record"))?;
    let after = change.after.map(|user| {
        let User1 { key, id, name, avatar_url, private, hide_lists, registered_at, created, version } = user;
        let follow_suspended = false;
        Box::new(User {
            key,
            id,
            name,
            avatar_url,
            private,
            hide_lists,
            follow_suspended,
            registered_at,
            created,
            version,
        })
    });
    Ok(UserChange { key: change.key, existed: change.existed, after, is_suspension: false, erased: None })
}

pub(crate) fn encode_idempotency(bytes: &mut Vec<u8>, record: &IdempotencyRecord) {
    bytes.extend_from_slice(&record.key.scope);
    bytes.extend_from_slice(&record.key.request.to_le_bytes());
    bytes.extend_from_slice(&record.version.bits().to_le_bytes());
    let mut reply = Vec::with_capacity(32);
    encode_reply(&mut reply, &record.reply);
    put_bytes(bytes, &reply);
}

pub(crate) fn decode_idempotency(reader: &mut Reader<'_>) -> Result<IdempotencyRecord, Corrupt> {
    let scope = reader.array()?;
    let request = reader.fixed_u64()?;
    let version = Version::from_bits(reader.fixed_u64()?);
    let reply = decode_reply(&mut Reader::new(reader.bytes()?))?;
    Ok(IdempotencyRecord { key: IdempotencyKey { scope, request }, version, reply })
}

mod reply {
    pub(crate) const USER: u8 = 0;
    /// Format 1; only read.
    pub(crate) const EDGE_1: u8 = 1;
    pub(crate) const GONE: u8 = 2;
    pub(crate) const EDGE: u8 = 3;
    pub(crate) const RECORD: u8 = 4;
    pub(crate) const EDGES_ERASED: u8 = 5;
    /// A record with its owner, since format 3.
    pub(crate) const RECORD_OF: u8 = 6;
}

fn encode_reply(bytes: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::User { created, changed } => bytes.extend([reply::USER, u8::from(*created), u8::from(*changed)]),
        Reply::Edge { value, created, changed } => {
            bytes.extend([reply::EDGE, u8::from(*created), u8::from(*changed)]);
            put_varint(bytes, value.version.bits());
            encode_value(bytes, value, value.version);
        }
        Reply::Gone { changed } => bytes.extend([reply::GONE, u8::from(*changed)]),
        Reply::Record { version, created, changed, owner } => {
            let tag = if owner.is_some() { reply::RECORD_OF } else { reply::RECORD };
            bytes.extend([tag, u8::from(*created), u8::from(*changed)]);
            put_varint(bytes, version.bits());
            if let Some(owner) = owner {
                put_signed(bytes, owner.0);
            }
        }
        Reply::EdgesErased { removed, left } => {
            bytes.extend([reply::EDGES_ERASED, u8::from(*left)]);
            put_varint(bytes, u64::from(*removed));
        }
    }
}

fn decode_reply(reader: &mut Reader<'_>) -> Result<Reply, Corrupt> {
    let flag = |reader: &mut Reader<'_>| match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Corrupt("flag of a reply")),
    };
    let reply = match reader.byte()? {
        reply::USER => Reply::User { created: flag(reader)?, changed: flag(reader)? },
        reply::GONE => Reply::Gone { changed: flag(reader)? },
        reply::EDGE_1 => {
            let state = State::from_number(reader.byte()?).ok_or(Corrupt("unknown state"))?;
            let quiet = flag(reader)?;
            let (version, position) = (Version::from_bits(reader.varint()?), Version::from_bits(reader.varint()?));
            let value = EdgeValue { state, quiet, position, ..EdgeValue::active(version) };
            Reply::Edge { value, created: flag(reader)?, changed: flag(reader)? }
        }
        reply::EDGE => {
            let (created, changed) = (flag(reader)?, flag(reader)?);
            let version = Version::from_bits(reader.varint()?);
            Reply::Edge { value: decode_value(reader, version)?, created, changed }
        }
        tag @ (reply::RECORD | reply::RECORD_OF) => {
            let (created, changed) = (flag(reader)?, flag(reader)?);
            let version = Version::from_bits(reader.varint()?);
            let owner = if tag == reply::RECORD_OF { Some(Key(reader.signed()?)) } else { None };
            Reply::Record { version, created, changed, owner }
        }
        reply::EDGES_ERASED => Reply::EdgesErased { left: flag(reader)?, removed: reader.u32()? },
        _ => return Err(Corrupt("unknown reply")),
    };
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_read_back_and_fit_into_their_record() {
        let value = EdgeValue {
            state: State::Removed,
            quiet: true,
            accepted: true,
            expires: Expiry::from_seconds(u32::MAX),
            version: Version::MAX,
            position: Version::from_bits(Version::MAX.bits() - 1),
        };
        let replies = [
            Reply::User { created: true, changed: false },
            Reply::Edge { value, created: false, changed: true },
            Reply::Edge { value: EdgeValue::active(Version::from_bits(7)), created: true, changed: true },
            Reply::Gone { changed: true },
            Reply::Record { version: Version::MAX, created: true, changed: true, owner: None },
            Reply::Record { version: Version::MAX, created: true, changed: true, owner: Some(Key::MIN) },
            Reply::EdgesErased { removed: 1_000, left: true },
        ];
        for reply in replies {
            let key = IdempotencyKey { scope: [9; 16], request: u64::MAX };
            let record = IdempotencyRecord { key, version: Version::MAX, reply };
            let mut bytes = Vec::new();
            encode_idempotency(&mut bytes, &record);
            assert!(bytes.len() <= 88, "{} bytes", bytes.len());
            assert_eq!(decode_idempotency(&mut Reader::new(&bytes)), Ok(record));
        }
    }
}
