//! A user's id: the application's own string.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Code, Error};

/// Numbers of so many digits are all within 63 bits.
const SAFE_DIGITS: usize = 18;

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

    /// As [`Self::as_number`], of what need not be an id.
    #[inline]
    pub fn number(text: &[u8]) -> Option<i64> {
        let add = |number: i64, &byte: &u8| match byte {
            b'0'..=b'9' => number.checked_mul(10)?.checked_add(i64::from(byte - b'0')),
            _ => None,
        };
        match text {
            [b'0'] => Some(0),
            [] | [b'0', ..] => None,
            // No number so short overflows.
            digits if digits.len() <= SAFE_DIGITS => {
                let (mut number, mut are_digits) = (0i64, true);
                for byte in digits {
                    let digit = byte.wrapping_sub(b'0');
                    are_digits &= digit < 10;
                    number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
                }
                are_digits.then_some(number)
            }
            digits => digits.iter().try_fold(0, add),
        }
    }

    /// The text of what should be an id, or why it is none.
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
        Self(number.to_string().into_boxed_str())
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
        assert_eq!(UserId::number(b""), None);
        assert_eq!(UserId::number(b"\xff1"), None);
    }
}
