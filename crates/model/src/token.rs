//! Consistency tokens: what a write returns, so that any later read can say "not older than this".

use smallvec::{SmallVec, smallvec};

use crate::{Code, Error, Lineage, Result, Sealer, Sequence, Version, Watermark};

const FORMAT: u8 = 3;
const PURPOSE: &[u8] = b"token";
/// How many tokens one request may carry.
const TOKENS_MAX: usize = 32;

/// The store's epoch, the watermark of a write, and its version. Not bound to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    epoch: u64,
    /// One for each lineage of the tokens it was merged from.
    watermarks: SmallVec<[Watermark; 1]>,
    version: Version,
}

impl Token {
    pub fn new(epoch: u64, watermark: Watermark, version: Version) -> Self {
        Self { epoch, watermarks: smallvec![watermark], version }
    }

    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A read sees all of them.
    pub fn watermarks(&self) -> &[Watermark] {
        &self.watermarks
    }

    /// A write that carries this token gets a greater version, independent of its server's clock.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Two tokens of one store merge to the later one.
    pub fn merge(mut self, other: Self) -> Result<Self> {
        if self.epoch != other.epoch {
            return Err(foreign());
        }
        self.version = self.version.max(other.version);
        for watermark in other.watermarks {
            if !self.watermarks.iter_mut().any(|known| known.merge(&watermark)) {
                self.watermarks.push(watermark);
            }
        }
        Ok(self)
    }

    pub fn encode(&self, sealer: &Sealer) -> String {
        let mut payload = Vec::with_capacity(48);
        payload.push(FORMAT);
        payload.extend_from_slice(&self.epoch.to_be_bytes());
        payload.extend_from_slice(&self.version.bits().to_be_bytes());
        for watermark in &self.watermarks {
            let offsets = watermark.offsets();
            payload.extend_from_slice(&watermark.lineage().0.to_be_bytes());
            payload.extend_from_slice(&(offsets.len() as u64).to_be_bytes());
            offsets.for_each(|offset| payload.extend_from_slice(&offset.0.to_be_bytes()));
        }
        sealer.seal(PURPOSE, &payload)
    }

    /// One token, or several separated by commas, merged to the latest.
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
        let (numbers, rest) = body.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|number| u64::from_be_bytes(*number));
        let (Some(stored), Some(version)) = (numbers.next(), numbers.next()) else { return Err(foreign()) };
        if format != FORMAT || stored != epoch || !rest.is_empty() {
            return Err(foreign());
        }
        let mut watermarks = SmallVec::new();
        while let (Some(lineage), Some(count)) = (numbers.next(), numbers.next()) {
            let count = usize::try_from(count).ok().filter(|count| *count <= numbers.len()).ok_or_else(foreign)?;
            watermarks.push(Watermark::new(Lineage(lineage), numbers.by_ref().take(count).map(Sequence)));
        }
        Ok(Self { epoch, watermarks, version: Version::from_bits(version) })
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
        let token = |epoch, offset, bits| Token::new(epoch, Watermark::at(Sequence(offset)), version(bits));
        let (early, late) = (token(9, 3, 40), token(9, 8, 90));
        assert_eq!(Token::decode(&early.encode(&sealer), &sealer, 9).unwrap(), early);
        assert_eq!(early.clone().merge(late.clone()).unwrap(), late);
        assert_eq!(late.clone().merge(early.clone()).unwrap(), late);
        assert_eq!(late.clone().merge(token(9, 2, 99)).unwrap(), token(9, 8, 99));
        assert!(early.clone().merge(token(8, 3, 40)).is_err());
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
    #[test]
    fn watermarks_of_several_lineages_are_all_kept_and_a_size_tells_nothing() {
        let sealer = Sealer::new(&Secret::from_bytes([7; 32]), 1);
        let of = |lineage, offsets: [u64; 3]| {
            Token::new(9, Watermark::new(Lineage(lineage), offsets.map(Sequence)), Version::from_bits(5))
        };
        let merged = of(1, [1, 2, 3]).merge(of(2, [0, 0, 1])).unwrap().merge(of(1, [9, 0, 0])).unwrap();
        let expected =
            [Watermark::new(Lineage(1), [9, 2, 3].map(Sequence)), Watermark::new(Lineage(2), [0, 0, 1].map(Sequence))];
        assert_eq!(merged.watermarks(), expected);
        assert_eq!(Token::decode_all(&merged.encode(&sealer), &sealer, 9).unwrap(), merged);
        let sizes = [of(1, [0; 3]), of(u64::MAX, [u64::MAX; 3])].map(|token| token.encode(&sealer).len());
        assert_eq!(sizes[0], sizes[1]);
    }
}
