//! Posts: what an author said, kept as it was sent, and how the author of a post is found by its id.

use crate::{Error, Key, RecordId, Result, Version};

/// The longest body, as text.
pub const POST_BODY_MAX_BYTES: usize = 10 * 1024;

/// The first byte of a post: its lowest bit says whether it is pushed, the others which format follows.
const FORMAT: u8 = 1 << 1;
const PUSHED: u8 = 1;

/// The value of a post's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Whether it goes into inboxes; else readers pull it. Said by the commit that made the post.
    pub pushed: bool,
    /// A JSON object, byte for byte as it was sent.
    pub body: Box<str>,
}

impl Post {
    pub fn encode(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(1 + self.body.len());
        bytes.push(if self.pushed { FORMAT | PUSHED } else { FORMAT });
        bytes.extend_from_slice(self.body.as_bytes());
        bytes.into_boxed_slice()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::internal("a post is stored in a form that this version does not know");
        let (&head, body) = bytes.split_first().ok_or_else(unreadable)?;
        if head & !PUSHED != FORMAT {
            return Err(unreadable());
        }
        let body = std::str::from_utf8(body).map_err(|error| unreadable().caused_by(error))?;
        Ok(Self { pushed: head & PUSHED != 0, body: body.into() })
    }
}

/// The value of the record that leads from a post's id to its author.
pub fn post_author_value(author: Key) -> Box<[u8]> {
    Box::new(author.0.to_be_bytes())
}

/// The author whom [`post_author_value`] named.
pub fn post_author(value: &[u8]) -> Result<Key> {
    let bytes = value.try_into().map_err(|_| Error::internal("the author of a post is stored in an unknown form"))?;
    Ok(Key(i64::from_be_bytes(bytes)))
}

impl RecordId {
    /// Where the author of the post of this version is found. Later posts have greater ids: new ones go to the end.
    pub fn of_post_author(post: Version) -> Self {
        Self::of_bytes(post.bits().to_be_bytes())
    }

    /// A record about a user that is not the user's own. Ordered as keys are.
    pub fn of_key(key: Key) -> Self {
        Self::of_bytes(key.to_ordered_bytes())
    }

    /// The user of an id that [`Self::of_key`] made.
    pub fn key(&self) -> Option<Key> {
        Some(Key::from_ordered_bytes(self.as_bytes().try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_post_is_refused() {
        for bytes in [&b""[..], b"{}", &[0], &[4, b'{', b'}'], &[FORMAT, 0xff]] {
            assert!(Post::decode(bytes).is_err(), "{bytes:?}");
        }
        assert!(post_author(&[1; 7]).is_err() && post_author(&[1; 9]).is_err());
        assert_eq!(RecordId::new(&[1; 9]).unwrap().key(), None);
    }

    #[test]
    fn later_posts_have_greater_ids_among_the_authors() {
        let [old, new] = [7, 8].map(|bits| RecordId::of_post_author(Version::from_bits(bits)));
        assert!(old < new);
    }

    proptest! {
        #[test]
        fn posts_and_authors_read_back(pushed: bool, body: String, author: i64) {
            let post = Post { pushed, body: body.into() };
            prop_assert_eq!(Post::decode(&post.encode()).unwrap(), post);
            prop_assert_eq!(post_author(&post_author_value(Key(author))).unwrap(), Key(author));
        }

        #[test]
        fn keys_read_back_and_order_as_they_do(one: i64, other: i64) {
            prop_assert_eq!(RecordId::of_key(Key(one)).key(), Some(Key(one)));
            prop_assert_eq!(RecordId::of_key(Key(one)).cmp(&RecordId::of_key(Key(other))), one.cmp(&other));
        }
    }
}
