//! Blocks: a few hundred edges of one list, newest first, delta-coded, checksummed.
//!
//! ```text
//! checksum u32 │ for each edge: other ordinal and mode │ milliseconds down from the one before │ rest by mode
//! ```
//! A version's 63 bits are milliseconds and 22 low bits (server, counter), which are often zero. An edge's
//! version is mostly its position, or that of the edge before (one import); the mode says which.

use entourage_model::{Millis, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::codec::{Corrupt, Reader, put_signed, put_varint};

/// Blocks are cut at this many edges.
pub(super) const BLOCK_EDGES: usize = 256;
const LOW_BITS: u32 = 22;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

/// An edge as one list sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) position: Version,
    pub(super) version: Version,
    pub(super) other: u32,
    pub(super) quiet: bool,
}

/// Which list a block belongs to: part of its checksum, so that a block in a wrong place is a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) plane: u8,
    pub(super) side: u8,
    pub(super) ordinal: u32,
}

impl Owner {
    const fn seed(self) -> u64 {
        (self.plane as u64) << 40 | (self.side as u64) << 32 | self.ordinal as u64
    }
}

mod mode {
    pub(super) const LOW: u64 = 1;
    pub(super) const SAME_AS_POSITION: u64 = 0;
    pub(super) const SAME_AS_BEFORE: u64 = 2;
    pub(super) const EXPLICIT: u64 = 4;
    /// Explicit, and a byte of flags follows.
    pub(super) const FLAGGED: u64 = 6;
    pub(super) const BITS: u32 = 3;
}
const FLAG_QUIET: u8 = 1;

/// `entries` run from the newest to the oldest.
pub(super) fn encode(owner: Owner, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + entries.len() * 10);
    bytes.extend_from_slice(&[0; 4]);
    let mut millis = 0;
    let mut before = Version::ZERO;
    for (index, entry) in entries.iter().enumerate() {
        let low = entry.position.bits() & LOW_MASK;
        let source = if entry.quiet {
            mode::FLAGGED
        } else if entry.version == entry.position {
            mode::SAME_AS_POSITION
        } else if entry.version == before {
            mode::SAME_AS_BEFORE
        } else {
            mode::EXPLICIT
        };
        put_varint(&mut bytes, u64::from(entry.other) << mode::BITS | source | u64::from(low != 0));
        let now = entry.position.millis().since_2000();
        put_varint(&mut bytes, if index == 0 { now } else { millis - now });
        millis = now;
        if low != 0 {
            put_varint(&mut bytes, low);
        }
        if source == mode::FLAGGED {
            bytes.push(FLAG_QUIET);
        }
        if source >= mode::EXPLICIT {
            put_version(&mut bytes, entry.version, before);
            before = entry.version;
        }
    }
    let sum = checksum(owner, &bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(super) fn decode(owner: Owner, bytes: &[u8], count: usize, entries: &mut Vec<Entry>) -> Result<(), Corrupt> {
    let mut reader = Reader::new(bytes);
    if reader.fixed_u32()? != checksum(owner, bytes.get(4..).unwrap_or_default()) {
        return Err(Corrupt("checksum"));
    }
    let mut millis = 0u64;
    let mut before = Version::ZERO;
    for index in 0..count {
        let head = reader.varint()?;
        let other = u32::try_from(head >> mode::BITS).map_err(|_| Corrupt("ordinal"))?;
        let delta = reader.varint()?;
        millis = if index == 0 { delta } else { millis.checked_sub(delta).ok_or(Corrupt("times run backwards"))? };
        let low = if head & mode::LOW != 0 { reader.varint()? & LOW_MASK } else { 0 };
        let position = join(millis, low);
        let source = head & 6;
        let flags = if source == mode::FLAGGED { reader.byte()? } else { 0 };
        let version = match source {
            mode::SAME_AS_POSITION => position,
            mode::SAME_AS_BEFORE => before,
            _ => {
                before = take_version(&mut reader, before)?;
                before
            }
        };
        entries.push(Entry { position, version, other, quiet: flags & FLAG_QUIET != 0 });
    }
    reader.end()
}

fn put_version(bytes: &mut Vec<u8>, version: Version, before: Version) {
    let low = version.bits() & LOW_MASK;
    let delta = version.millis().since_2000() as i64 - before.millis().since_2000() as i64;
    put_signed(bytes, delta << 1 | i64::from(low != 0));
    if low != 0 {
        put_varint(bytes, low);
    }
}

fn take_version(reader: &mut Reader<'_>, before: Version) -> Result<Version, Corrupt> {
    let head = reader.signed()?;
    let millis = before.millis().since_2000().checked_add_signed(head >> 1).ok_or(Corrupt("version"))?;
    let low = if head & 1 != 0 { reader.varint()? & LOW_MASK } else { 0 };
    Ok(join(millis, low))
}

const fn join(millis: u64, low: u64) -> Version {
    Version::from_bits(Version::of_millis(Millis::from_since_2000(millis)).bits() | low)
}

fn checksum(owner: Owner, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, owner.seed()) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: Owner = Owner { plane: 0, side: 1, ordinal: 7 };

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let version = (0u64..(1 << 41), prop_oneof![Just(0), 0u64..(1 << 22)]).prop_map(|(ms, low)| join(ms, low));
        let entry = (version.clone(), version, any::<u32>(), any::<bool>(), any::<bool>()).prop_map(
            |(position, version, other, quiet, same)| {
                let version = if same { position } else { version };
                Entry { position, version, other, quiet }
            },
        );
        prop::collection::vec(entry, 0..300).prop_map(|mut entries| {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.position));
            entries
        })
    }

    proptest! {
        #[test]
        fn blocks_read_back(entries in entries()) {
            let bytes = encode(OWNER, &entries);
            let mut back = Vec::new();
            decode(OWNER, &bytes, entries.len(), &mut back).unwrap();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn a_block_of_another_list_is_refused(entries in entries(), ordinal in 8u32..) {
            let bytes = encode(OWNER, &entries);
            let other = Owner { ordinal, ..OWNER };
            prop_assert!(decode(other, &bytes, entries.len(), &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let entry = |ms, other| Entry { position: join(ms, 3), version: join(ms, 3), other, quiet: other == 2 };
        let entries = [entry(900, 1), entry(700, 2), entry(5, 3)];
        let bytes = encode(OWNER, &entries);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(OWNER, &flipped, 3, &mut Vec::new()).is_err(), "bit {bit}");
        }
    }
}
