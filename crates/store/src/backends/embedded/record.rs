//! One outcome as bytes: what the log keeps and what recovery applies.

use entourage_model::{
    Cause, Change, EdgeChange, EdgeValue, IdempotencyKey, IdempotencyRecord, Key, Kind, Outcome, Reply, Sequence,
    State, UserChange, Version,
};
use smallvec::SmallVec;

use super::codec::{Corrupt, Reader, put_bytes, put_signed, put_varint};

const TAG_EDGE: u8 = 0;
const TAG_USER: u8 = 1;
const TAG_IDEMPOTENCY: u8 = 2;

/// Appends the changes and the idempotency record. `base` is the batch's first version.
pub(super) fn encode(bytes: &mut Vec<u8>, outcome: &Outcome, base: Version) {
    put_signed(bytes, outcome.version.bits() as i64 - base.bits() as i64);
    let idempotency = outcome.idempotency.as_deref().filter(|_| !outcome.replayed);
    put_varint(bytes, outcome.changes.len() as u64 + u64::from(idempotency.is_some()));
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
        }
    }
    if let Some(record) = idempotency {
        bytes.push(TAG_IDEMPOTENCY);
        encode_idempotency(bytes, record);
    }
}

/// `last` is the sequence before this outcome's first change.
pub(super) fn decode(reader: &mut Reader<'_>, base: Version, last: Sequence) -> Result<Outcome, Corrupt> {
    let version = Version::from_bits((base.bits() as i64).wrapping_add(reader.signed()?) as u64);
    let parts = reader.length()?;
    let mut changes = SmallVec::new();
    let mut idempotency = None;
    for _ in 0..parts {
        match reader.byte()? {
            TAG_EDGE => changes.push(Change::Edge(decode_edge(reader, version)?)),
            TAG_USER => changes.push(Change::User(decode_user(reader)?)),
            TAG_IDEMPOTENCY => idempotency = Some(Box::new(decode_idempotency(reader)?)),
            _ => return Err(Corrupt("unknown change")),
        }
    }
    let watermark = last.plus(changes.len() as u64);
    // Nobody is told the reply of a recovered outcome; a retry reads it from the idempotency record.
    let reply =
        idempotency.as_deref().map_or(Reply::Gone { changed: false }, |record: &IdempotencyRecord| record.reply);
    Ok(Outcome { watermark, version, reply, changes, idempotency, replayed: false })
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
    let cause = match (head >> 2) & 7 {
        0 => Cause::Follower,
        1 => Cause::Target,
        2 => Cause::Block,
        3 => Cause::Import,
        4 => Cause::Erase,
        _ => return Err(Corrupt("unknown cause")),
    };
    let follower = Key(reader.signed()?);
    let target = Key(reader.signed()?);
    let before = if head & HAS_BEFORE != 0 { Some(decode_value(reader, version)?) } else { None };
    let after = decode_value(reader, version)?;
    Ok(EdgeChange { kind, follower, target, cause, before, after })
}

const QUIET: u8 = 1 << 2;
const OTHER_VERSION: u8 = 1 << 3;
const OTHER_POSITION: u8 = 1 << 4;

/// Versions are kept as their distance from the outcome's own, which most are equal to.
fn encode_value(bytes: &mut Vec<u8>, value: &EdgeValue, version: Version) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let other_version = value.version != version;
    let other_position = value.position != value.version;
    bytes.push(
        value.state as u8
            | flag(value.quiet, QUIET)
            | flag(other_version, OTHER_VERSION)
            | flag(other_position, OTHER_POSITION),
    );
    if other_version {
        put_signed(bytes, version.bits() as i64 - value.version.bits() as i64);
    }
    if other_position {
        put_varint(bytes, value.position.bits());
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
    Ok(EdgeValue { state, quiet: head & QUIET != 0, version: own, position })
}

fn encode_user(bytes: &mut Vec<u8>, user: &UserChange) {
    // postcard of a plain struct into memory cannot fail; an empty record would be refused on reading.
    put_bytes(bytes, &postcard::to_stdvec(user).unwrap_or_default());
}

fn decode_user(reader: &mut Reader<'_>) -> Result<UserChange, Corrupt> {
    postcard::from_bytes(reader.bytes()?).map_err(|_| Corrupt("user record"))
}

pub(super) fn encode_idempotency(bytes: &mut Vec<u8>, record: &IdempotencyRecord) {
    bytes.extend_from_slice(&record.key.scope);
    bytes.extend_from_slice(&record.key.request.to_le_bytes());
    bytes.extend_from_slice(&record.version.bits().to_le_bytes());
    let reply = postcard::to_stdvec(&record.reply).unwrap_or_default();
    put_bytes(bytes, &reply);
}

pub(super) fn decode_idempotency(reader: &mut Reader<'_>) -> Result<IdempotencyRecord, Corrupt> {
    let scope = reader.array()?;
    let request = reader.fixed_u64()?;
    let version = Version::from_bits(reader.fixed_u64()?);
    let reply = postcard::from_bytes(reader.bytes()?).map_err(|_| Corrupt("idempotency record"))?;
    Ok(IdempotencyRecord { key: IdempotencyKey { scope, request }, version, reply })
}
