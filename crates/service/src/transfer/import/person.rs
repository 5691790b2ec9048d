//! One end of an edge: the key, and the id where that is not the key's own number.

use entourage_model::{Key, KeyHasher, UserId};
use xxhash_rust::xxh3::xxh3_64;

use super::row::Reason;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) key: Key,
    /// `None` for a canonical decimal: most files have nothing else, and a number needs no text.
    pub(super) name: Option<UserId>,
}

impl Person {
    pub(super) fn parse(text: &[u8], keys: &KeyHasher) -> Result<Self, Reason> {
        if let Some(number) = number(text) {
            return Ok(Self { key: Key(number), name: None });
        }
        let text = std::str::from_utf8(text).map_err(|_| Reason::NotUtf8)?;
        let id = UserId::try_from(text).map_err(|_| Reason::InvalidId)?;
        let key = keys.key(&id);
        Ok(Self { key, name: (key < Key(0)).then_some(id) })
    }

    pub(super) fn id(&self) -> UserId {
        self.name.clone().unwrap_or_else(|| UserId::from(self.key.0))
    }

    /// Tells apart two ids that meet on one key.
    pub(super) fn mark(&self) -> u64 {
        self.name.as_ref().map_or(0, |id| xxh3_64(id.as_str().as_bytes()))
    }
}

/// A canonical decimal that surely fits; the few longer ones take the long way.
fn number(text: &[u8]) -> Option<i64> {
    const SURE_DIGITS: usize = 18;
    let canonical = matches!(text, [b'0'] | [b'1'..=b'9', ..]);
    if !canonical || text.len() > SURE_DIGITS {
        return None;
    }
    text.iter().try_fold(0, |number: i64, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use entourage_model::Secret;

    use super::*;

    #[test]
    fn a_person_is_what_the_model_says() {
        let keys = KeyHasher::new(&Secret::from_bytes([3; 32]));
        let long = "x".repeat(129);
        for text in ["0", "7", "007", "-7", "1e3", "999999999999999999", "9223372036854775807", "9223372036854775808"]
            .into_iter()
            .chain(["alice", "naïve 😀", "", "nul\0", &long])
        {
            match UserId::try_from(text) {
                Ok(id) => {
                    let person = Person::parse(text.as_bytes(), &keys).unwrap();
                    assert_eq!((person.key, person.id()), (keys.key(&id), id));
                }
                Err(_) => assert_eq!(Person::parse(text.as_bytes(), &keys), Err(Reason::InvalidId)),
            }
        }
        assert_eq!(Person::parse(b"caf\xe9", &keys), Err(Reason::NotUtf8));
    }
}
