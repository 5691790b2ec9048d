//! A user's id: the application's own string.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Code, Error};

/// No number within 63 bits is longer.
const DIGITS_MAX: usize = 19;

/// 1–128 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserId(Box<str>);

impl UserId {
    pub const MAX_BYTES: usize = 128;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of a canonical decimal id: no sign, no leading zero, within 63 bits.
    pub fn as_number(&self) -> Option<i64> {
        Self::number(self.as_str().as_bytes())
    }

    /// As [`Self::as_number`], for text that need not be an id.
    #[inline]
    pub fn number(text: &[u8]) -> Option<i64> {
        match text {
            [b'0'] => Some(0),
            [] | [b'0', ..] => None,
            digits if digits.len() <= 8 => up_to_eight_digits(digits),
            digits if digits.len() <= DIGITS_MAX => {
                let (high, low) = digits.split_at(digits.len() - 8);
                Self::number(high)?.checked_mul(100_000_000)?.checked_add(up_to_eight_digits(low)?)
            }
            _ => None,
        }
    }

    /// Checks that the text is an id, or says why not.
    pub fn text(bytes: &[u8]) -> Result<&str, Error> {
        let text = std::str::from_utf8(bytes).map_err(|_| Error::new(Code::InvalidId, "an id is UTF-8"))?;
        Self::check(text).map(|()| text)
    }

    fn check(text: &str) -> Result<(), Error> {
        let problem = if text.is_empty() {
            "an id has at least 1 byte"
        } else if text.len() > Self::MAX_BYTES {
            "an id has at most 128 bytes"
        } else if text.chars().any(char::is_control) {
            "an id has no control characters"
        } else {
            return Ok(());
        };
        Err(Error::new(Code::InvalidId, problem))
    }
}

/// All digits at once, as the eight bytes of one word: most ids are that short, and every check has two.
#[inline]
fn up_to_eight_digits(text: &[u8]) -> Option<i64> {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const HIGH_HALVES: u64 = u64::from_le_bytes([0xf0; 8]);
    const SIXES: u64 = u64::from_le_bytes([6; 8]);
    let bits = 8 * text.len() as u32;
    let packed = match (text.first_chunk(), text.last_chunk()) {
        // The two words overlap where they agree.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (bits - u32::BITS)
        }
        _ => text.iter().rev().fold(0, |packed, byte| packed << 8 | u64::from(*byte)),
    };
    // Leading zeros: the first digit is the lowest byte.
    let word = packed << (u64::BITS - bits) | ZEROS.checked_shr(bits).unwrap_or(0);
    let has_digits_only = word & HIGH_HALVES == ZEROS && word.wrapping_add(SIXES) & HIGH_HALVES == ZEROS;
    let digits = word.wrapping_sub(ZEROS);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (even, odd) = (pairs & 0x0000_00ff_0000_00ff, pairs >> 16 & 0x0000_00ff_0000_00ff);
    let sum = even.wrapping_mul(100 | 1_000_000 << 32).wrapping_add(odd.wrapping_mul(1 | 10_000 << 32));
    has_digits_only.then_some((sum >> 32) as i64)
}

impl TryFrom<String> for UserId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::check(&text)?;
        Ok(Self(text.into_boxed_str()))
    }
}

impl TryFrom<&str> for UserId {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::check(text)?;
        Ok(Self(text.into()))
    }
}

impl From<UserId> for String {
    fn from(id: UserId) -> Self {
        id.0.into()
    }
}

impl From<i64> for UserId {
    fn from(number: i64) -> Self {
        Self(itoa::Buffer::new().format(number).into())
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked() {
        let long = "x".repeat(129);
        let cases: &[(&str, bool)] = &[
            ("a", true),
            ("", false),
            (&long, false),
            (&long[1..], true),
            ("did:plc:abc/def", true),
            ("naïve 😀", true),
            ("nul\0", false),
            ("line\n", false),
            ("del\u{7f}", false),
            ("c1\u{85}", false),
        ];
        for (text, fine) in cases {
            assert_eq!(UserId::try_from(*text).is_ok(), *fine, "{text:?}");
        }
    }

    #[test]
    fn only_canonical_decimals_are_numbers() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("42", Some(42)),
            ("042", None),
            ("00", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("٣", None),
        ];
        for (text, number) in cases {
            assert_eq!(UserId::try_from(*text).unwrap().as_number(), *number, "{text}");
        }
        for digits in 1..=DIGITS_MAX + 2 {
            let text: String = "918273645546372819054".chars().take(digits).collect();
            assert_eq!(UserId::number(text.as_bytes()), text.parse().ok(), "{text}");
            // A single byte that is no digit, at every place.
            for (place, wrong) in
                (0..digits).flat_map(|place| [0, b'/', b':', b'0' | 0x80, 0xff].map(|byte| (place, byte)))
            {
                let mut bytes = text.clone().into_bytes();
                bytes[place] = wrong;
                assert_eq!(UserId::number(&bytes), None, "{bytes:?}");
            }
        }
        for number in (0..63).flat_map(|bit| [(1i64 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            assert_eq!(UserId::number(number.to_string().as_bytes()), Some(number));
        }
        assert_eq!(UserId::number(b""), None);
        assert_eq!(UserId::number(b"\xff1"), None);
    }
}
