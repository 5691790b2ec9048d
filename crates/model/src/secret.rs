//! The store's secret, and signatures made with keys derived from it.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const TAG_BYTES: usize = 12;

/// 32 random bytes made when a store is created and kept in it.
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

/// Signs what the server hands out and wants back unchanged.
#[derive(Clone)]
pub struct Signer {
    key: [u8; 32],
}

impl Signer {
    pub fn new(secret: &Secret) -> Self {
        Self { key: secret.derive(b"sign") }
    }

    /// `payload` followed by its tag; the purpose keeps a token from passing for a cursor.
    pub(crate) fn seal(&self, purpose: &[u8], mut payload: Vec<u8>) -> String {
        let tag = mac(&self.key, &[purpose, &payload]).finalize().into_bytes();
        payload.extend_from_slice(&tag[..TAG_BYTES]);
        base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, payload)
    }

    pub(crate) fn open(&self, purpose: &[u8], text: &str) -> Option<Vec<u8>> {
        if text.len() > 512 {
            return None;
        }
        let mut sealed = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, text).ok()?;
        let payload_bytes = sealed.len().checked_sub(TAG_BYTES)?;
        let (payload, tag) = sealed.split_at(payload_bytes);
        mac(&self.key, &[purpose, payload]).verify_truncated_left(tag).ok()?;
        sealed.truncate(payload_bytes);
        Some(sealed)
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
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
