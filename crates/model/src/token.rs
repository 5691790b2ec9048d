//! Consistency tokens: what a write returns, so that any later read can say "not older than this".

use crate::{Code, Error, Result, Sequence, Signer, Version};

const FORMAT: u8 = 1;
const PURPOSE: &[u8] = b"token";

/// The store's epoch, one watermark of its log, and the version of the write. Not bound to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    epoch: u64,
    watermark: Sequence,
    version: Version,
}

impl Token {
    pub const fn new(epoch: u64, watermark: Sequence, version: Version) -> Self {
        Self { epoch, watermark, version }
    }

    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    pub const fn watermark(&self) -> Sequence {
        self.watermark
    }

    /// A write that carries this token gets a greater version, whatever its server's clock says.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Two tokens of one store become the later one.
    pub fn merge(self, other: Self) -> Result<Self> {
        if self.epoch != other.epoch {
            return Err(foreign());
        }
        let (watermark, version) = (self.watermark.max(other.watermark), self.version.max(other.version));
        Ok(Self { epoch: self.epoch, watermark, version })
    }

    pub fn encode(&self, signer: &Signer) -> String {
        let mut payload = Vec::with_capacity(32);
        payload.push(FORMAT);
        payload.extend_from_slice(&self.epoch.to_be_bytes());
        payload.extend_from_slice(&self.watermark.0.to_be_bytes());
        payload.extend_from_slice(&self.version.bits().to_be_bytes());
        signer.seal(PURPOSE, payload)
    }

    /// Refuses tokens of another store: their watermark means nothing here.
    pub fn decode(text: &str, signer: &Signer, epoch: u64) -> Result<Self> {
        let (format, body) = signer
            .open(PURPOSE, text)
            .and_then(|payload| payload.split_first().map(|(format, body)| (*format, body.to_vec())))
            .ok_or_else(foreign)?;
        let number =
            |at: usize| body.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|n| u64::from_be_bytes(*n));
        let (Some(stored), Some(watermark), Some(version)) = (number(0), number(8), number(16)) else {
            return Err(foreign());
        };
        let token = Self::new(stored, Sequence(watermark), Version::from_bits(version));
        if format != FORMAT || token.epoch != epoch {
            return Err(foreign());
        }
        Ok(token)
    }
}

fn foreign() -> Error {
    Error::new(Code::InvalidToken, "the token was not made by this store; repeat the read without it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn tokens_are_bound_to_their_store_and_merge_to_the_later() {
        let signer = Signer::new(&Secret::from_bytes([7; 32]));
        let version = Version::from_bits;
        let early = Token::new(9, Sequence(3), version(40));
        let late = Token::new(9, Sequence(8), version(90));
        assert_eq!(Token::decode(&early.encode(&signer), &signer, 9).unwrap(), early);
        assert_eq!(early.merge(late).unwrap(), late);
        assert_eq!(late.merge(early).unwrap(), late);
        let crossed = Token::new(9, Sequence(2), version(99));
        assert_eq!(late.merge(crossed).unwrap(), Token::new(9, Sequence(8), version(99)));
        assert!(early.merge(Token::new(8, Sequence(3), version(40))).is_err());
        assert!(Token::decode(&early.encode(&signer), &signer, 8).is_err());
        let mut text = early.encode(&signer);
        text.insert(4, 'A');
        assert_eq!(Token::decode(&text, &signer, 9).unwrap_err().code(), Code::InvalidToken);
    }
}
