//! List cursors: opaque, signed, versioned, and good for one list seen by one viewer only.

use crate::{Code, Error, Key, List, Place, Plane, Result, Side, Signer, Version};

const FORMAT: u8 = 1;
const PURPOSE: &[u8] = b"cursor";

/// Which list a cursor belongs to, and who was looking at it (`None`: a service).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorScope {
    pub list: List,
    pub viewer: Option<Key>,
}

/// Where a page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub Place);

impl Cursor {
    pub fn encode(&self, signer: &Signer, scope: &CursorScope) -> String {
        let mut payload = Vec::with_capacity(64);
        payload.push(FORMAT);
        payload.extend_from_slice(&scope_bytes(scope));
        payload.extend_from_slice(&self.0.position.bits().to_be_bytes());
        payload.extend_from_slice(&self.0.key.0.to_be_bytes());
        signer.seal(PURPOSE, payload)
    }

    pub fn decode(text: &str, signer: &Signer, scope: &CursorScope) -> Result<Self> {
        let refuse = |detail: &'static str| Error::new(Code::InvalidCursor, detail);
        let payload = signer
            .open(PURPOSE, text)
            .ok_or_else(|| refuse("the cursor was not made by this store; start without one"))?;
        let (format, rest) = payload.split_first().ok_or_else(|| refuse("the cursor is empty"))?;
        if *format != FORMAT {
            return Err(refuse("the cursor has a format this version does not know; start without one"));
        }
        let scope_part = scope_bytes(scope);
        let place = rest
            .strip_prefix(scope_part.as_slice())
            .ok_or_else(|| refuse("the cursor belongs to another list or another viewer"))?;
        let (position, key) = place
            .split_first_chunk::<8>()
            .and_then(|(position, key)| Some((position, key.first_chunk::<8>()?)))
            .ok_or_else(|| refuse("the cursor is cut"))?;
        Ok(Self(Place {
            position: Version::from_bits(u64::from_be_bytes(*position)),
            key: Key(i64::from_be_bytes(*key)),
        }))
    }
}

fn scope_bytes(scope: &CursorScope) -> [u8; 19] {
    let mut bytes = [0; 19];
    bytes[0] = scope.list.plane as u8;
    bytes[1] = scope.list.side as u8;
    bytes[2] = u8::from(scope.viewer.is_some());
    bytes[3..11].copy_from_slice(&scope.list.user.0.to_be_bytes());
    bytes[11..19].copy_from_slice(&scope.viewer.unwrap_or_default().0.to_be_bytes());
    bytes
}

#[allow(dead_code, reason = "keeps the byte layout above in step with the enums")]
const LAYOUT: (u8, u8) = (Plane::Mute as u8, Side::Followers as u8);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Secret;

    fn signer(seed: u8) -> Signer {
        Signer::new(&Secret::from_bytes([seed; 32]))
    }

    fn scope(user: i64, side: Side) -> CursorScope {
        CursorScope { list: List { user: Key(user), plane: Plane::Follow, side }, viewer: None }
    }

    const CURSOR: Cursor = Cursor(Place { position: Version::from_bits(77), key: Key(-5) });

    #[test]
    fn reads_back_only_where_it_belongs() {
        let home = scope(1, Side::Followers);
        let text = CURSOR.encode(&signer(1), &home);
        assert_eq!(Cursor::decode(&text, &signer(1), &home).unwrap(), CURSOR);
        let viewer = CursorScope { viewer: Some(Key(0)), ..home };
        for (signer, scope) in [
            (signer(1), scope(1, Side::Following)),
            (signer(1), scope(2, Side::Followers)),
            (signer(2), home),
            (signer(1), viewer),
        ] {
            let error = Cursor::decode(&text, &signer, &scope).unwrap_err();
            assert_eq!(error.code(), Code::InvalidCursor);
        }
    }

    #[test]
    fn an_unknown_format_is_refused() {
        let text = signer(1).seal(PURPOSE, vec![9; 36]);
        assert!(Cursor::decode(&text, &signer(1), &scope(1, Side::Followers)).is_err());
    }

    #[test]
    fn a_token_is_not_a_cursor() {
        let text = crate::Token::new(1, crate::Sequence(5), Version::ZERO).encode(&signer(1));
        assert!(Cursor::decode(&text, &signer(1), &scope(1, Side::Followers)).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let home = scope(1, Side::Followers);
        let text = CURSOR.encode(&signer(1), &home);
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert!(Cursor::decode(&flipped, &signer(1), &home).is_err(), "byte {at} bit {bit}");
            }
            assert!(Cursor::decode(&text[..at], &signer(1), &home).is_err());
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused(text in ".{0,600}") {
            prop_assert!(Cursor::decode(&text, &signer(1), &scope(1, Side::Followers)).is_err());
        }
    }
}
