//! Consistency tokens: what a write returns, so that any later read can say "not older than this".

use crate::{Code, Error, Result, Sealer, Sequence, Version};

const FORMAT: u8 = 2;
const PURPOSE: &[u8] = b"token";
/// How many tokens one request may carry.
const TOKENS_MAX: usize = 32;

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

    pub fn encode(&self, sealer: &Sealer) -> String {
        let mut payload = Vec::with_capacity(32);
        payload.push(FORMAT);
        payload.extend_from_slice(&self.epoch.to_be_bytes());
        payload.extend_from_slice(&self.watermark.0.to_be_bytes());
        payload.extend_from_slice(&self.version.bits().to_be_bytes());
        sealer.seal(PURPOSE, &payload)
    }

    /// One token, or several with commas between, which become the latest.
    pub fn decode_all(text: &str, sealer: &Sealer, epoch: u64) -> Result<Self> {
        if text.split(',').nth(TOKENS_MAX).is_some() {
            return Err(Error::new(Code::InvalidToken, format!("at most {TOKENS_MAX} tokens come with one request")));
        }
        let mut tokens = text.split(',').map(|part| Self::decode(part.trim(), sealer, epoch));
        let first = tokens.next().unwrap_or_else(|| Err(foreign()))?;
        tokens.try_fold(first, |merged, token| merged.merge(token?))
    }

    /// Refuses tokens of another store: their watermark means nothing here.
    fn decode(text: &str, sealer: &Sealer, epoch: u64) -> Result<Self> {
        let (format, body) = sealer
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
        let sealer = Sealer::new(&Secret::from_bytes([7; 32]), 1);
        let version = Version::from_bits;
        let early = Token::new(9, Sequence(3), version(40));
        let late = Token::new(9, Sequence(8), version(90));
        assert_eq!(Token::decode(&early.encode(&sealer), &sealer, 9).unwrap(), early);
        assert_eq!(early.merge(late).unwrap(), late);
        assert_eq!(late.merge(early).unwrap(), late);
        let crossed = Token::new(9, Sequence(2), version(99));
        assert_eq!(late.merge(crossed).unwrap(), Token::new(9, Sequence(8), version(99)));
        assert!(early.merge(Token::new(8, Sequence(3), version(40))).is_err());
        assert!(Token::decode(&early.encode(&sealer), &sealer, 8).is_err());
        let both = format!("{}, {}", early.encode(&sealer), late.encode(&sealer));
        assert_eq!(Token::decode_all(&both, &sealer, 9).unwrap(), late);
        let with_garbage = format!("{},x", early.encode(&sealer));
        assert_eq!(Token::decode_all(&with_garbage, &sealer, 9).unwrap_err().code(), Code::InvalidToken);
        let many = vec![early.encode(&sealer); TOKENS_MAX + 1];
        assert!(Token::decode_all(&many.join(","), &sealer, 9).is_err());
        assert_eq!(Token::decode_all(&many[1..].join(","), &sealer, 9).unwrap(), early);
        let mut text = early.encode(&sealer);
        text.insert(4, 'A');
        assert_eq!(Token::decode(&text, &sealer, 9).unwrap_err().code(), Code::InvalidToken);
    }
}
