//! External ids: the application's own name of a post, unique for its author.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{Error, RecordId, Result, Version, post};

/// 1 to 255 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalId(Box<str>);

impl ExternalId {
    pub const MAX_BYTES: usize = 255;

    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > Self::MAX_BYTES || text.chars().any(char::is_control) {
            let right = format!("1 to {} bytes without control characters", Self::MAX_BYTES);
            return Err(Error::invalid("the external id of a post is not valid").at("/external_id", right));
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The external id in the value of a post; an unreadable value has none.
    pub fn of_post(value: &[u8]) -> Option<Self> {
        Self::new(post::external_id(value)?).ok()
    }

    /// Names the record that leads to the post, among those of the author.
    pub fn record_id(&self) -> RecordId {
        RecordId::of_digest(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of the record that leads from an external id to its post.
pub fn external_post_value(post: Version) -> Box<[u8]> {
    Box::new(post.bits().to_be_bytes())
}

/// The post that [`external_post_value`] named.
pub fn external_post(value: &[u8]) -> Result<Version> {
    let bytes = value.try_into().map_err(|_| Error::internal("an external id is stored in an unknown form"))?;
    Ok(Version::from_bits(u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_1_to_255_bytes_and_no_control_characters() {
        assert!(ExternalId::new(&"x".repeat(255)).is_ok() && ExternalId::new("at://did:plc:abc/post/3k ☂").is_ok());
        for text in ["", "a\nb", "nul\0", &"x".repeat(256)] {
            let error = ExternalId::new(text).unwrap_err();
            assert_eq!(error.fields()[0].pointer, "/external_id", "{text:?}");
        }
    }

    #[test]
    fn each_has_a_record_of_its_own_that_leads_to_its_post() {
        let [one, other] = ["1", "2"].map(|text| ExternalId::new(text).unwrap().record_id());
        assert!(one != other && one.as_bytes().len() == 32);
        assert_eq!(external_post(&external_post_value(Version::MAX)).unwrap(), Version::MAX);
        assert!(external_post(&[1; 7]).is_err());
    }
}
