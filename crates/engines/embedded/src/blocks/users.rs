//! Blocks of users, one per group of 64 ordinals.

use entourage_model::{Key, Version};

use crate::{
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    documents::document_block,
    state::{State, USERS_PER_GROUP, profile::NewProfile},
};

/// The users of a group below `end`, as they are now. A record newer than the checkpoint is harmless: replay writes it
/// again. `seed` seeds the checksum.
pub(crate) fn encode_group(state: &State, group: u32, end: u32, seed: u64) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; 8];
    let first = group * USERS_PER_GROUP;
    let ordinals = first..(first + USERS_PER_GROUP).min(end);
    let keys: Vec<Key> = {
        let keys = state.keys();
        ordinals.clone().filter_map(|ordinal| keys.get(ordinal as usize).copied()).collect()
    };
    for (ordinal, key) in ordinals.clone().zip(keys) {
        let shard = state.shard(ordinal).read();
        if let Some(profile) = shard.profile(ordinal) {
            put_signed(&mut bytes, key.0);
            put_bytes(&mut bytes, shard.long.bytes(profile));
            if let Some(version) = profile.erased_at() {
                put_varint(&mut bytes, version.bits());
            }
        }
    }
    document_block::sign(seed, &mut bytes);
    (bytes, ordinals.len() as u32)
}

/// Passes the `count` users to `each`, in order.
pub(crate) fn decode_group(
    bytes: &[u8],
    seed: u64,
    count: u32,
    mut each: impl FnMut(Key, NewProfile),
) -> Result<(), Corrupt> {
    let mut reader = Reader::new(document_block::checked(seed, bytes)?);
    for _ in 0..count {
        let key = Key(reader.signed()?);
        let profile = match reader.bytes()? {
            [] => NewProfile::erased(Version::from_bits(reader.varint()?)),
            record => NewProfile::new(record),
        };
        each(key, profile);
    }
    reader.end()
}
