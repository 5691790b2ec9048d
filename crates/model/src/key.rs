//! What the core uses instead of ids: a signed 64-bit integer.

use std::{fmt, hash::Hasher};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Result, Secret, UserId};

/// A canonical decimal id is its own key; any other id has a negative one. Keys order as signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub i64);

impl Key {
    pub const MIN: Self = Self(i64::MIN);
    pub const MAX: Self = Self(i64::MAX);
    /// The owner of the server's own records that are not spread over [`Buckets`]. No user has this key.
    pub const SERVER: Self = Self::MIN;

    /// Whether it is the server's, or that of any possible bucket. No user has those either.
    pub const fn is_server(self) -> bool {
        self.0 <= i64::MIN + Buckets::MAX as i64
    }

    /// With its sign bit flipped a key orders as bytes as it does as a number.
    pub(crate) const fn to_ordered_bytes(self) -> [u8; 8] {
        (self.0 ^ i64::MIN).to_be_bytes()
    }

    pub(crate) const fn from_ordered_bytes(bytes: [u8; 8]) -> Self {
        Self(i64::from_be_bytes(bytes) ^ i64::MIN)
    }
}

/// Over how many owners a store spreads server records about users, so that no single place is touched by all writes. A
/// store that commits everything in one place has one: [`Key::SERVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets(u16);

impl Buckets {
    pub const ONE: Self = Self(1);
    pub const MAX: u16 = 256;

    /// At least one, at most [`Self::MAX`].
    pub fn new(count: u16) -> Self {
        Self(count.clamp(1, Self::MAX))
    }

    /// The number of the bucket that holds everything about this key; a bucket lies in itself.
    pub fn index_of(self, key: Key) -> u16 {
        let bucket = key.0.wrapping_sub(i64::MIN + 1);
        match u16::try_from(bucket) {
            Ok(bucket) if bucket < self.0 => bucket,
            _ => (xxh3_64(&key.0.to_be_bytes()) % u64::from(self.0)) as u16,
        }
    }

    /// The owner of server records about this key.
    pub fn of(self, key: Key) -> Key {
        if self == Self::ONE { Key::SERVER } else { Key(i64::MIN + 1 + i64::from(self.index_of(key))) }
    }

    /// All owners.
    pub fn all(self) -> impl Iterator<Item = Key> + Clone {
        let first = if self == Self::ONE { i64::MIN } else { i64::MIN + 1 };
        (0..self.0).map(move |index| Key(first + i64::from(index)))
    }

    pub fn has(self, owner: Key) -> bool {
        owner.is_server() && self.of(owner) == owner
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hashes ids with the store's secret, so that nobody can construct a collision.
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

    /// The key of a text that should be an id, without making one.
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
    fn what_is_about_a_key_lies_in_one_bucket() {
        assert_eq!(Buckets::ONE.all().collect::<Vec<_>>(), [Key::SERVER]);
        assert!(Buckets::ONE.has(Key::SERVER) && !Buckets::ONE.has(Key(i64::MIN + 1)) && !Buckets::ONE.has(Key(1)));
        for count in [2, 16, Buckets::MAX] {
            let buckets = Buckets::new(count);
            let all: Vec<Key> = buckets.all().collect();
            assert_eq!(all.len(), usize::from(count));
            assert!(all.iter().all(|key| key.is_server() && buckets.of(*key) == *key && buckets.has(*key)));
            assert!(!buckets.has(Key::SERVER) && Key::SERVER.is_server());
            let mut used: Vec<Key> = (0..10_000).map(|number| buckets.of(Key(number - 5_000))).collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used, all, "every bucket is somebody's");
        }
        assert_eq!(Buckets::new(0), Buckets::ONE);
        assert!(!Key(i64::MIN + 257).is_server() && !Key(0).is_server() && !Key::MAX.is_server());
    }

    #[test]
    fn the_secret_decides_the_key() {
        let id = UserId::try_from("alice").unwrap();
        assert_eq!(hasher(1).key(&id), hasher(1).key(&id));
        assert_ne!(hasher(1).key(&id), hasher(2).key(&id));
    }
}
