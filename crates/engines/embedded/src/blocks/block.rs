//! Blocks of edges: part of one list, newest first, delta-coded, checksummed.
//!
//! ```text
//! checksum u32 │ for each edge: other ordinal and mode │ milliseconds down from the one before │ rest by mode
//! ```
//! A version's 63 bits are milliseconds and 22 low bits (server, counter), which are often zero. Most versions equal
//! the edge's position or the last explicit version (one import); the mode says which.

use entourage_model::{Expiry, Millis, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    codec::{Corrupt, Reader, put_signed, put_varint},
    upkeep::left_out::Check,
};

/// Maximum number of edges in a block.
pub(crate) const BLOCK_EDGES: usize = 256;
const LOW_BITS: u32 = 22;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

/// An edge as seen from one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) position: Version,
    pub(crate) version: Version,
    pub(crate) other: u32,
    pub(crate) expires: Option<Expiry>,
    pub(crate) quiet: bool,
    pub(crate) accepted: bool,
}

impl Entry {
    const fn is_flagged(&self) -> bool {
        self.quiet || self.accepted || self.expires.is_some()
    }
}

/// The list a block belongs to. Part of the checksum, so that a misplaced block counts as damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) plane: u8,
    pub(crate) side: u8,
    pub(crate) ordinal: u32,
}

impl Owner {
    pub(crate) const fn seed(self) -> u64 {
        (self.plane as u64) << 40 | (self.side as u64) << 32 | self.ordinal as u64
    }
}

mod mode {
    pub(crate) const LOW: u64 = 1;
    pub(crate) const SAME_AS_POSITION: u64 = 0;
    pub(crate) const SAME_AS_BEFORE: u64 = 2;
    pub(crate) const EXPLICIT: u64 = 4;
    /// Followed by a byte of flags, the expiry if flagged, and the version unless flagged as equal to the position.
    pub(crate) const FLAGGED: u64 = 6;
    pub(crate) const BITS: u32 = 3;
}
const FLAG_QUIET: u8 = 1;
const FLAG_ACCEPTED: u8 = 1 << 1;
const FLAG_EXPIRES: u8 = 1 << 2;
const FLAG_AT_POSITION: u8 = 1 << 3;

/// `entries` are newest first. `seed` seeds the checksum.
pub(crate) fn encode(seed: u64, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + entries.len() * 10);
    bytes.extend_from_slice(&[0; 4]);
    let mut millis = 0;
    let mut before = Version::ZERO;
    for (index, entry) in entries.iter().enumerate() {
        let low = entry.position.bits() & LOW_MASK;
        let source = if entry.is_flagged() {
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
        let mut explicit = source >= mode::EXPLICIT;
        if source == mode::FLAGGED {
            explicit = entry.version != entry.position;
            put_flags(&mut bytes, entry);
        }
        if explicit {
            put_version(&mut bytes, entry.version, before);
            before = entry.version;
        }
    }
    sign(seed, &mut bytes);
    bytes
}

/// Fills in the checksum.
pub(crate) fn sign(seed: u64, bytes: &mut [u8]) {
    if let Some((place, body)) = bytes.split_first_chunk_mut::<4>() {
        *place = checksum(seed, body).to_le_bytes();
    }
}

/// The body, if its checksum is right.
pub(crate) fn checked(seed: u64, bytes: &[u8]) -> Result<&[u8], Corrupt> {
    let (sum, body) = bytes.split_first_chunk::<4>().ok_or(Corrupt("cut short"))?;
    if u32::from_le_bytes(*sum) == checksum(seed, body) || !Check::Blocks.is_done() {
        Ok(body)
    } else {
        Err(Corrupt("checksum"))
    }
}

pub(crate) fn decode(seed: u64, bytes: &[u8], count: usize, entries: &mut Vec<Entry>) -> Result<(), Corrupt> {
    let mut reader = Reader::new(checked(seed, bytes)?);
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
        let expires = if flags & FLAG_EXPIRES != 0 { Expiry::from_seconds(reader.u32()?) } else { None };
        let version = match source {
            mode::SAME_AS_POSITION => position,
            mode::FLAGGED if flags & FLAG_AT_POSITION != 0 => position,
            mode::SAME_AS_BEFORE => before,
            _ => {
                before = take_version(&mut reader, before)?;
                before
            }
        };
        let (quiet, accepted) = (flags & FLAG_QUIET != 0, flags & FLAG_ACCEPTED != 0);
        entries.push(Entry { position, version, other, expires, quiet, accepted });
    }
    reader.end()
}

fn put_flags(bytes: &mut Vec<u8>, entry: &Entry) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    bytes.push(
        flag(entry.quiet, FLAG_QUIET)
            | flag(entry.accepted, FLAG_ACCEPTED)
            | flag(entry.expires.is_some(), FLAG_EXPIRES)
            | flag(entry.version == entry.position, FLAG_AT_POSITION),
    );
    if let Some(expires) = entry.expires {
        put_varint(bytes, u64::from(expires.seconds()));
    }
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

fn checksum(seed: u64, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, seed) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: Owner = Owner { plane: 0, side: 1, ordinal: 7 };
    /// Seed of a list in one file.
    const SEED: u64 = OWNER.seed() ^ 0x0123_4567_89ab_cdef;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let version = (0u64..(1 << 41), prop_oneof![Just(0), 0u64..(1 << 22)]).prop_map(|(ms, low)| join(ms, low));
        let seconds = prop_oneof![Just(0), any::<u32>()];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>(), seconds);
        let entry = (version.clone(), version, any::<u32>(), flags).prop_map(
            |(position, version, other, (quiet, accepted, same, seconds))| {
                let version = if same { position } else { version };
                Entry { position, version, other, expires: Expiry::from_seconds(seconds), quiet, accepted }
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
            let bytes = encode(SEED, &entries);
            let mut back = Vec::new();
            decode(SEED, &bytes, entries.len(), &mut back).unwrap();
            prop_assert_eq!(back, entries);
        }

        #[test]
        fn a_block_of_another_list_or_file_is_refused(entries in entries(), ordinal in 8u32..) {
            let bytes = encode(SEED, &entries);
            let other = Owner { ordinal, ..OWNER };
            for seed in [SEED ^ OWNER.seed() ^ other.seed(), OWNER.seed(), SEED + 1] {
                prop_assert!(decode(seed, &bytes, entries.len(), &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn flags_cost_only_those_who_have_them() {
        let plain = Entry {
            position: join(900, 3),
            version: join(900, 3),
            other: 1,
            expires: None,
            quiet: false,
            accepted: false,
        };
        let size = |entry: Entry| encode(SEED, &[entry]).len();
        assert_eq!(size(plain), 4 + 1 + 2 + 1);
        assert_eq!(size(Entry { accepted: true, ..plain }), size(plain) + 1);
        assert_eq!(size(Entry { quiet: true, ..plain }), size(plain) + 1);
    }

    /// Format 1 wrote the version after the flags even if it is the position.
    #[test]
    fn flags_of_the_first_format_read_back() {
        let mut bytes = vec![0; 4];
        put_varint(&mut bytes, 5 << mode::BITS | mode::FLAGGED);
        put_varint(&mut bytes, 900);
        bytes.push(FLAG_QUIET);
        put_version(&mut bytes, join(900, 0), Version::ZERO);
        let sum = checksum(SEED, &bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        let mut back = Vec::new();
        decode(SEED, &bytes, 1, &mut back).unwrap();
        let (position, version) = (join(900, 0), join(900, 0));
        assert_eq!(back, [Entry { position, version, other: 5, expires: None, quiet: true, accepted: false }]);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let entry = |ms, other| {
            let (position, version) = (join(ms, 3), join(ms, 3));
            let expires = Expiry::from_seconds(u32::from(other == 1) * 9);
            Entry { position, version, other, expires, quiet: other == 2, accepted: other == 3 }
        };
        let entries = [entry(900, 1), entry(700, 2), entry(5, 3)];
        let bytes = encode(SEED, &entries);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(SEED, &flipped, 3, &mut Vec::new()).is_err(), "bit {bit}");
        }
    }
}
