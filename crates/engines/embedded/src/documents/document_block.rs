//! Blocks of documents: a few dozen of one collection in id order, checksummed.
//!
//! ```text
//! checksum u64, seeded with collection, owner and file │ for each document: id │ version │ value
//! ```

use entourage_model::{Key, Space, Version};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    codec::{Corrupt, Reader, put_bytes, put_varint},
    upkeep::left_out::Check,
};

/// Larger blocks are split; a single document may be larger.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;

/// The kinds of documents: records of a space, and the history of a follower's ended edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Collection {
    Records(Space),
    History,
}

const HISTORY: u8 = 255;

impl Collection {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Records(space) => space as u8,
            Self::History => HISTORY,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        match number {
            HISTORY => Some(Self::History),
            _ => Space::from_number(number).map(Self::Records),
        }
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Space::ALL.into_iter().map(Self::Records).chain([Self::History])
    }
}

/// Identifies one list of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CollectionKey {
    pub(crate) owner: Key,
    pub(crate) collection: Collection,
}

impl CollectionKey {
    pub(crate) fn hash(self) -> u64 {
        let mut bytes = [self.collection.number(); 9];
        bytes[1..].copy_from_slice(&self.owner.0.to_le_bytes());
        xxh3_64(&bytes)
    }
}

pub(crate) type DocumentId = Box<[u8]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) version: Version,
    pub(crate) value: Box<[u8]>,
}

pub(crate) type Named = (DocumentId, Document);

/// `seed` seeds the checksum.
pub(crate) fn encode(seed: u64, documents: &[Named]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    for (id, document) in documents {
        put_bytes(&mut bytes, id);
        put_varint(&mut bytes, document.version.bits());
        put_bytes(&mut bytes, &document.value);
    }
    sign(seed, &mut bytes);
    bytes
}

/// Fills in the checksum.
pub(crate) fn sign(seed: u64, bytes: &mut [u8]) {
    if let Some((place, body)) = bytes.split_first_chunk_mut::<8>() {
        *place = xxh3_64_with_seed(body, seed).to_le_bytes();
    }
}

/// The body, if its checksum is right.
pub(crate) fn checked(seed: u64, bytes: &[u8]) -> Result<&[u8], Corrupt> {
    let (sum, body) = bytes.split_first_chunk::<8>().ok_or(Corrupt("cut short"))?;
    if u64::from_le_bytes(*sum) == xxh3_64_with_seed(body, seed) || !Check::Blocks.is_done() {
        Ok(body)
    } else {
        Err(Corrupt("checksum"))
    }
}

pub(crate) fn decode(seed: u64, bytes: &[u8], count: usize) -> Result<Vec<Named>, Corrupt> {
    let mut reader = Reader::new(checked(seed, bytes)?);
    let mut documents = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        let id = reader.bytes()?.into();
        let version = Version::from_bits(reader.varint()?);
        documents.push((id, Document { version, value: reader.bytes()?.into() }));
    }
    reader.end()?;
    Ok(documents)
}

/// Splits documents into blocks of about equal size, none above [`BLOCK_BYTES`] unless it has a single document.
pub(crate) fn cut(documents: &[Named]) -> Vec<&[Named]> {
    let size = |(id, document): &Named| id.len() + document.value.len() + 12;
    let total: usize = documents.iter().map(size).sum();
    let blocks = total.div_ceil(BLOCK_BYTES).max(1);
    let share = total.div_ceil(blocks);
    let (mut cuts, mut start, mut held) = (Vec::with_capacity(blocks), 0, 0);
    for (index, document) in documents.iter().enumerate() {
        let size = size(document);
        if index > start && (held >= share || held + size > BLOCK_BYTES) {
            cuts.push(&documents[start..index]);
            (start, held) = (index, 0);
        }
        held += size;
    }
    if start < documents.len() {
        cuts.push(&documents[start..]);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: CollectionKey = CollectionKey { owner: Key(7), collection: Collection::Records(Space::Group) };

    fn documents() -> impl Strategy<Value = Vec<Named>> {
        let bytes = |most| prop::collection::vec(any::<u8>(), 0..most).prop_map(Vec::into_boxed_slice);
        let named = (bytes(32), 0u64..(1 << 63), bytes(3_000));
        let named =
            named.prop_map(|(id, version, value)| (id, Document { version: Version::from_bits(version), value }));
        prop::collection::vec(named, 0..40)
    }

    proptest! {
        #[test]
        fn blocks_read_back_and_belong_to_their_owner(documents in documents()) {
            let file = 0x0123_4567_89ab_cdef;
            let bytes = encode(KEY.hash() ^ file, &documents);
            prop_assert_eq!(decode(KEY.hash() ^ file, &bytes, documents.len()).unwrap(), documents.clone());
            let other = CollectionKey { owner: Key(8), ..KEY };
            prop_assert!(decode(other.hash() ^ file, &bytes, documents.len()).is_err());
            let other = CollectionKey { collection: Collection::History, ..KEY };
            prop_assert!(decode(other.hash() ^ file, &bytes, documents.len()).is_err());
            prop_assert!(decode(KEY.hash(), &bytes, documents.len()).is_err());
        }

        #[test]
        fn cuts_keep_everything_in_order_and_small(documents in documents()) {
            let cuts = cut(&documents);
            prop_assert_eq!(cuts.concat(), documents.clone());
            for block in cuts {
                prop_assert!(!block.is_empty());
                let bytes = encode(KEY.hash(), block).len();
                prop_assert!(bytes <= BLOCK_BYTES + 200 || block.len() == 1, "{} bytes", bytes);
            }
        }
    }

    #[test]
    fn collections_have_their_numbers() {
        for collection in Collection::all() {
            assert_eq!(Collection::from_number(collection.number()), Some(collection));
        }
        assert_eq!(Collection::from_number(99), None);
    }
}
