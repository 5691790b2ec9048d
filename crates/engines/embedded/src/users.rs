//! Blocks of users: one for each group of 64 ordinals.

use entourage_model::{Key, Version};

use super::{
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    profile::Profile,
    shelf,
    state::{State, USERS_PER_GROUP},
};

/// The users of a group below `end`, as they are now. A record newer than the checkpoint does no harm: replay
/// writes the same record again. The checksum begins with `seed`.
pub(super) fn encode_group(state: &State, group: u32, end: u32, seed: u64) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; 8];
    let first = group * USERS_PER_GROUP;
    let ordinals = first..(first + USERS_PER_GROUP).min(end);
    let keys: Vec<Key> = {
        let keys = state.keys();
        ordinals.clone().filter_map(|ordinal| keys.get(ordinal as usize).copied()).collect()
    };
    for (ordinal, key) in ordinals.clone().zip(keys) {
        let shard = state.shard(ordinal).read();
        if let Some(user) = shard.user(ordinal) {
            put_signed(&mut bytes, key.0);
            put_bytes(&mut bytes, user.profile.bytes());
            if let Profile::Erased(version) = user.profile {
                put_varint(&mut bytes, version.bits());
            }
        }
    }
    shelf::sign(seed, &mut bytes);
    (bytes, ordinals.len() as u32)
}

pub(super) fn decode_group(bytes: &[u8], seed: u64, count: u32) -> Result<Vec<(Key, Profile)>, Corrupt> {
    let mut reader = Reader::new(shelf::checked(seed, bytes)?);
    let mut users = Vec::with_capacity(count.min(USERS_PER_GROUP) as usize);
    for _ in 0..count {
        let key = Key(reader.signed()?);
        let profile = match reader.bytes()? {
            [] => Profile::Erased(Version::from_bits(reader.varint()?)),
            record => Profile::new(record),
        };
        users.push((key, profile));
    }
    reader.end()?;
    Ok(users)
}
