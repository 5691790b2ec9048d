//! Blocks of users: one for each group of 64 ordinals.

use entourage_model::{Key, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    state::{State, USERS_PER_GROUP},
};

/// The users of a group below `end`, as they are now. A record newer than the checkpoint does no harm: replay
/// writes the same record again.
pub(super) fn encode_group(state: &State, group: u32, end: u32) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; 8];
    let first = group * USERS_PER_GROUP;
    let ordinals = first..(first + USERS_PER_GROUP).min(end);
    for ordinal in ordinals.clone() {
        let shard = state.shard(ordinal).read();
        if let Some(user) = shard.user(ordinal) {
            put_signed(&mut bytes, user.key.0);
            put_bytes(&mut bytes, &user.profile);
            if let Some(erased) = &user.erased {
                put_varint(&mut bytes, erased.bits());
            }
        }
    }
    let sum = xxh3_64_with_seed(&bytes[8..], u64::from(group));
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    (bytes, ordinals.len() as u32)
}

/// A user's record, or when they were erased.
pub(super) enum Stored {
    User(Box<[u8]>),
    Erased(Version),
}

pub(super) fn decode_group(bytes: &[u8], group: u32, count: u32) -> Result<Vec<(Key, Stored)>, Corrupt> {
    let mut reader = Reader::new(bytes);
    if reader.fixed_u64()? != xxh3_64_with_seed(bytes.get(8..).unwrap_or_default(), u64::from(group)) {
        return Err(Corrupt("checksum"));
    }
    let mut users = Vec::with_capacity(count.min(USERS_PER_GROUP) as usize);
    for _ in 0..count {
        let key = Key(reader.signed()?);
        let stored = match reader.bytes()? {
            [] => Stored::Erased(Version::from_bits(reader.varint()?)),
            record => Stored::User(record.into()),
        };
        users.push((key, stored));
    }
    reader.end()?;
    Ok(users)
}
