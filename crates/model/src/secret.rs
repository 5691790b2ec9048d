//! The store's secret, and what is encrypted with keys derived from it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use aes_gcm_siv::{
    Aes256GcmSiv,
    aead::{Aead, Payload},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use siphasher::sip128::SipHasher24;

/// The key id: there is one key. Rotation would add others.
const KEY_ID: u8 = 1;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const SEALED_CHARS_MAX: usize = 512;

/// 32 random bytes, created with a store and kept in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        mac(&self.0, &[purpose]).finalize().into_bytes().into()
    }

    pub(crate) fn derive_16(&self, purpose: &[u8]) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.derive(purpose)[..16]);
        half
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Encrypts what the server hands out and gets back: nobody can read or change it, or see from its bytes whether two
/// are equal.
#[derive(Clone)]
pub struct Sealer {
    cipher: Box<Aes256GcmSiv>,
    nonces: Arc<Nonces>,
}

/// Nonces that do not reveal their number. Should two ever be equal, the cipher reveals no more than that the two texts
/// are.
struct Nonces {
    key: [u8; 16],
    next: AtomicU64,
    /// The same in every process.
    stable: [u8; 16],
}

impl Nonces {
    fn next(&self) -> [u8; NONCE_BYTES] {
        hashed(&self.key, &self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes())
    }

    fn of(&self, payload: &[u8]) -> [u8; NONCE_BYTES] {
        hashed(&self.stable, payload)
    }
}

fn hashed(key: &[u8; 16], bytes: &[u8]) -> [u8; NONCE_BYTES] {
    let hash = SipHasher24::new_with_key(key).hash(bytes).as_bytes();
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&hash[..NONCE_BYTES]);
    nonce
}

impl Sealer {
    /// `seed` differs in every process.
    pub fn new(secret: &Secret, seed: u64) -> Self {
        let cipher = Box::new(Aes256GcmSiv::new(&secret.derive(b"seal").into()));
        let key = secret.derive_16(&[b"nonce".as_slice(), &seed.to_be_bytes()].concat());
        let stable = secret.derive_16(b"stable nonce");
        Self { cipher, nonces: Arc::new(Nonces { key, next: AtomicU64::new(0), stable }) }
    }

    /// A key id, a nonce, and the payload encrypted. The purpose keeps a token from passing for a cursor.
    pub(crate) fn seal(&self, purpose: &[u8], payload: &[u8]) -> String {
        self.seal_with(self.nonces.next(), purpose, payload)
    }

    /// As [`Self::seal`], but deterministic: for callers who may know whether two payloads are equal.
    pub(crate) fn seal_stable(&self, purpose: &[u8], payload: &[u8]) -> String {
        self.seal_with(self.nonces.of(payload), purpose, payload)
    }

    fn seal_with(&self, nonce: [u8; NONCE_BYTES], purpose: &[u8], payload: &[u8]) -> String {
        let mut sealed = Vec::with_capacity(1 + NONCE_BYTES + payload.len() + TAG_BYTES);
        sealed.push(KEY_ID);
        sealed.extend_from_slice(&nonce);
        // Only a text of many gigabytes is refused.
        if let Ok(encrypted) = self.cipher.encrypt(&nonce.into(), Payload { msg: payload, aad: purpose }) {
            sealed.extend_from_slice(&encrypted);
        }
        URL_SAFE_NO_PAD.encode(sealed)
    }

    pub(crate) fn open(&self, purpose: &[u8], text: &str) -> Option<Vec<u8>> {
        if text.len() > SEALED_CHARS_MAX {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (&KEY_ID, rest) = sealed.split_first()? else { return None };
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher.decrypt(&(*nonce).into(), Payload { msg: encrypted, aad: purpose }).ok()
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(…)")
    }
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut padded = [0; 64];
    padded[..32].copy_from_slice(key);
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&padded.into());
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_is_sealed_has_one_length_and_never_the_same_bytes() {
        let sealer = Sealer::new(&Secret::from_bytes([3; 32]), 1);
        let texts: HashSet<String> = (0..1_000).map(|_| sealer.seal(b"token", &[9; 25])).collect();
        assert_eq!(texts.len(), 1_000);
        assert!(texts.iter().all(|text| text.len() == 72), "{texts:?}");
        assert!(texts.iter().all(|text| sealer.open(b"token", text) == Some(vec![9; 25])));
        assert!(texts.iter().all(|text| sealer.open(b"cursor", text).is_none()));
        // Another process has the same key and other nonces.
        let other = Sealer::new(&Secret::from_bytes([3; 32]), 2);
        let text = other.seal(b"token", &[9; 25]);
        assert!(!texts.contains(&text));
        assert_eq!(sealer.open(b"token", &text), Some(vec![9; 25]));
        let stable = sealer.seal_stable(b"event", b"1");
        assert_eq!((&stable, other.seal_stable(b"event", b"1")), (&stable, stable.clone()));
        assert_ne!(stable, sealer.seal_stable(b"event", b"2"));
    }

    #[test]
    fn nothing_of_the_payload_can_be_read() {
        let sealer = Sealer::new(&Secret::from_bytes([3; 32]), 1);
        let sealed = URL_SAFE_NO_PAD.decode(sealer.seal(b"cursor", b"a key and a time")).unwrap();
        assert!(!sealed.windows(5).any(|bytes| b"a key and a time".windows(5).any(|plain| plain == bytes)));
    }
}
