//! Ended follows as documents. The newest has the smallest id, so that a scan starts with it.

use entourage_model::{Cause, Ended, Key, State, Version};

use crate::codec::{Corrupt, Reader, put_signed, put_varint};

const QUIET: u8 = 1 << 2;
const ACCEPTED: u8 = 1 << 3;
const CAUSE: u32 = 4;

pub(crate) const fn id(ended: Version) -> [u8; 8] {
    (!ended.bits()).to_be_bytes()
}

/// When the follow of this document ended.
pub(crate) fn ended(id: &[u8]) -> Option<Version> {
    Some(Version::from_bits(!u64::from_be_bytes(id.try_into().ok()?)))
}

pub(crate) fn encode(ended: &Ended) -> Box<[u8]> {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let head =
        ended.state as u8 | flag(ended.quiet, QUIET) | flag(ended.accepted, ACCEPTED) | (ended.cause as u8) << CAUSE;
    let mut bytes = vec![head];
    put_signed(&mut bytes, ended.target.0);
    put_varint(&mut bytes, ended.position.bits());
    bytes.into_boxed_slice()
}

pub(crate) fn decode(ended: Version, bytes: &[u8]) -> Result<Ended, Corrupt> {
    let mut reader = Reader::new(bytes);
    let head = reader.byte()?;
    let state = State::from_number(head & 3).ok_or(Corrupt("unknown state"))?;
    let cause = Cause::from_number(head >> CAUSE).ok_or(Corrupt("unknown cause"))?;
    let target = Key(reader.signed()?);
    let position = Version::from_bits(reader.varint()?);
    reader.end()?;
    Ok(Ended { target, state, quiet: head & QUIET != 0, accepted: head & ACCEPTED != 0, position, ended, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_read_back_and_the_newest_comes_first() {
        for cause in Cause::ALL {
            for (state, flag) in [(State::Active, true), (State::Pending, false), (State::Parked, true)] {
                let (target, position, version) = (Key(-5), Version::from_bits(77), Version::from_bits(1 << 60));
                let end = Ended { target, state, quiet: flag, accepted: !flag, position, ended: version, cause };
                assert_eq!(decode(version, &encode(&end)), Ok(end));
            }
        }
        assert!(id(Version::from_bits(8)) < id(Version::from_bits(7)));
        assert_eq!(ended(&id(Version::from_bits(8))), Some(Version::from_bits(8)));
    }
}
