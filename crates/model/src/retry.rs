//! Recognising a retried request: hashes keyed with the store's secret, so that nobody can construct a collision.

use std::{fmt, hash::Hasher};

use siphasher::{
    sip::SipHasher24,
    sip128::{Hasher128, SipHasher24 as SipHasher24Of128},
};

use crate::{IdempotencyKey, Secret};

/// Makes the key under which a write's reply is kept.
#[derive(Clone)]
pub struct RetryHasher {
    scope: [u8; 16],
    request: [u8; 16],
}

impl RetryHasher {
    pub fn new(secret: &Secret) -> Self {
        Self { scope: secret.derive_16(b"retry scope"), request: secret.derive_16(b"retry request") }
    }

    /// `scope` is caller, operation and key; `request` is the body. Lengths are hashed, too: shifting bytes between
    /// parts changes the hash.
    pub fn key(&self, scope: &[&[u8]], request: &[u8]) -> IdempotencyKey {
        let mut wide = SipHasher24Of128::new_with_key(&self.scope);
        for part in scope {
            wide.write(&(part.len() as u64).to_be_bytes());
            wide.write(part);
        }
        let mut narrow = SipHasher24::new_with_key(&self.request);
        narrow.write(request);
        IdempotencyKey { scope: wide.finish128().as_bytes(), request: narrow.finish() }
    }
}

impl fmt::Debug for RetryHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryHasher(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_and_the_secret_decide() {
        let hasher = RetryHasher::new(&Secret::from_bytes([1; 32]));
        let key = hasher.key(&[b"alice", b"POST", b"/follow", b"k1"], b"{}");
        assert_eq!(key, hasher.key(&[b"alice", b"POST", b"/follow", b"k1"], b"{}"));
        for scope in [
            [b"bob".as_slice(), b"POST", b"/follow", b"k1"],
            [b"alice", b"PUT", b"/follow", b"k1"],
            [b"alice", b"POST", b"/other", b"k1"],
            [b"alice", b"POST", b"/follow", b"k2"],
            [b"alic", b"ePOST", b"/follow", b"k1"],
        ] {
            let other = hasher.key(&scope, b"{}");
            assert_ne!(other.scope, key.scope, "{scope:?}");
            assert_eq!(other.request, key.request);
        }
        assert_ne!(hasher.key(&[], b"{}").request, hasher.key(&[], b"{ }").request);
        let stranger = RetryHasher::new(&Secret::from_bytes([2; 32]));
        assert_ne!(stranger.key(&[b"alice"], b"").scope, hasher.key(&[b"alice"], b"").scope);
    }
}
