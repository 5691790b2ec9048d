//! What the core works on instead of ids: a signed 64-bit integer.

use std::{fmt, hash::Hasher};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

use crate::{Result, Secret, UserId};

/// A canonical decimal id is its own key; any other id has a negative one. Keys order as signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub i64);

impl Key {
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);
    /// Owns what belongs to the server itself. Nobody is a user with it.
    pub const SERVER: Self = Self::MIN;

    /// With its sign turned a key orders as bytes as it does as a number.
    pub(crate) const fn to_ordered_bytes(self) -> [u8; 8] {
        (self.0 ^ i64::MIN).to_be_bytes()
    }

    pub(crate) const fn from_ordered_bytes(bytes: [u8; 8]) -> Self {
        Self(i64::from_be_bytes(bytes) ^ i64::MIN)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hashes ids with the store's secret, so that nobody can aim at another's key.
#[derive(Clone)]
pub struct KeyHasher {
    secret: [u8; 16],
}

impl KeyHasher {
    pub fn new(secret: &Secret) -> Self {
        Self { secret: secret.derive_16(b"key") }
    }

    pub fn key(&self, id: &UserId) -> Key {
        id.as_number().map_or_else(|| self.hashed(id.as_str()), Key)
    }

    /// The key of what should be an id, without making one.
    #[inline]
    pub fn key_of(&self, id: &[u8]) -> Result<Key> {
        match UserId::number(id) {
            Some(number) => Ok(Key(number)),
            None => Ok(self.hashed(UserId::text(id)?)),
        }
    }

    fn hashed(&self, id: &str) -> Key {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(id.as_bytes());
        Key(hasher.finish() as i64 | i64::MIN)
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    fn hasher(seed: u8) -> KeyHasher {
        KeyHasher::new(&Secret::from_bytes([seed; 32]))
    }

    #[test]
    fn numbers_are_their_own_key_and_names_are_negative() {
        let id = |text: &str| UserId::try_from(text).unwrap();
        assert_eq!(hasher(1).key(&id("42")), Key(42));
        for text in ["alice", "042", "-1", "9223372036854775808", "x:y"] {
            assert!(hasher(1).key(&id(text)) < Key(0), "{text}");
        }
        for text in ["42", "alice", "042", "9223372036854775807", "9223372036854775808", "😀"] {
            assert_eq!(hasher(1).key_of(text.as_bytes()).unwrap(), hasher(1).key(&id(text)), "{text}");
        }
        for bytes in [&b""[..], &[b'x'; 129], b"nul\0", b"\xff"] {
            assert_eq!(hasher(1).key_of(bytes).unwrap_err().code(), Code::InvalidId, "{bytes:?}");
        }
    }

    #[test]
    fn the_secret_decides_the_key() {
        let id = UserId::try_from("alice").unwrap();
        assert_eq!(hasher(1).key(&id), hasher(1).key(&id));
        assert_ne!(hasher(1).key(&id), hasher(2).key(&id));
    }
}
