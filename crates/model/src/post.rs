//! Posts: what an author wrote, kept as it was sent, and how the author of a post is found by its id.

use crate::{Error, ExternalId, Key, Millis, RecordId, Result, Version};

/// The longest body, as text.
pub const POST_BODY_MAX_BYTES: usize = 10 * 1024;
/// How deep objects and arrays of a body may nest, the body itself included: JSON readers have limits, and one post
/// must not make a whole page unreadable.
pub const POST_BODY_MAX_DEPTH: usize = 32;
/// How many posts an author may have around one millisecond by import.
pub const POSTS_AT_ONCE_MAX: usize = 4_096;

/// The first byte of a post: its lowest bit says whether it is pushed, the others which format follows. The first
/// format is the body alone; the second has flags and their fields before it.
const FORMAT_1: u8 = 1 << 1;
const FORMAT_2: u8 = 2 << 1;
const PUSHED: u8 = 1;

const HAS_EXTERNAL_ID: u8 = 1;
const IMPORTED: u8 = 1 << 1;
const EDITED: u8 = 1 << 2;

/// The value of a post's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Whether it is pushed into inboxes; else readers pull it. Decided by the commit that made the post.
    pub pushed: bool,
    /// A JSON object, byte for byte as it was sent.
    pub body: Box<str>,
    /// The application's own name of it. Immutable.
    pub external_id: Option<ExternalId>,
    /// It was imported, and its body has not been replaced since.
    pub imported: Option<ImportedPost>,
}

/// What an import adds to a post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportedPost {
    /// When its body was last replaced, before the import.
    pub edited_at: Option<Millis>,
}

impl Post {
    pub fn new(pushed: bool, body: &str) -> Self {
        Self { pushed, body: body.into(), external_id: None, imported: None }
    }

    pub fn encode(&self) -> Box<[u8]> {
        let pushed = if self.pushed { PUSHED } else { 0 };
        let mut bytes = Vec::with_capacity(1 + self.body.len());
        if self.external_id.is_none() && self.imported.is_none() {
            bytes.push(FORMAT_1 | pushed);
        } else {
            let edited_at = self.imported.and_then(|imported| imported.edited_at);
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            bytes.push(FORMAT_2 | pushed);
            bytes.push(
                flag(self.external_id.is_some(), HAS_EXTERNAL_ID)
                    | flag(self.imported.is_some(), IMPORTED)
                    | flag(edited_at.is_some(), EDITED),
            );
            if let Some(id) = &self.external_id {
                // No longer than 255 bytes.
                bytes.push(id.as_str().len() as u8);
                bytes.extend_from_slice(id.as_str().as_bytes());
            }
            bytes.extend(edited_at.iter().flat_map(|time| time.since_2000().to_be_bytes()));
        }
        bytes.extend_from_slice(self.body.as_bytes());
        bytes.into_boxed_slice()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let unreadable = || Error::internal("a post is stored in a form that this version does not know");
        let head = Head::read(bytes).ok_or_else(unreadable)?;
        let text = |bytes| std::str::from_utf8(bytes).map_err(|error| unreadable().caused_by(error));
        let external_id =
            head.external_id.map(|id| ExternalId::new(text(id)?).map_err(|_| unreadable())).transpose()?;
        let imported = head.is_imported.then_some(ImportedPost { edited_at: head.edited_at });
        Ok(Self { pushed: head.pushed, body: text(head.body)?.into(), external_id, imported })
    }

    /// Whether this stored value was imported; an unreadable one was not.
    pub fn is_imported(bytes: &[u8]) -> bool {
        Head::read(bytes).is_some_and(|head| head.is_imported)
    }

    /// With another body: no longer as imported.
    #[must_use]
    pub fn replaced(self, body: &str) -> Self {
        if *self.body == *body { self } else { Self { body: body.into(), imported: None, ..self } }
    }
}

/// A post as stored, before its texts are validated.
struct Head<'a> {
    pushed: bool,
    external_id: Option<&'a [u8]>,
    is_imported: bool,
    edited_at: Option<Millis>,
    body: &'a [u8],
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&first, body) = bytes.split_first()?;
        let plain = Self { pushed: first & PUSHED != 0, external_id: None, is_imported: false, edited_at: None, body };
        if first & !PUSHED == FORMAT_1 {
            return Some(plain);
        }
        let (&flags, mut body) = body.split_first().filter(|_| first & !PUSHED == FORMAT_2)?;
        if flags & !(HAS_EXTERNAL_ID | IMPORTED | EDITED) != 0 {
            return None;
        }
        let mut external_id = None;
        if flags & HAS_EXTERNAL_ID != 0 {
            let (&length, rest) = body.split_first()?;
            let (id, rest) = rest.split_at_checked(usize::from(length))?;
            (external_id, body) = (Some(id), rest);
        }
        let mut edited_at = None;
        if flags & EDITED != 0 {
            let (time, rest) = body.split_first_chunk::<8>()?;
            (edited_at, body) = (Some(Millis::from_since_2000(u64::from_be_bytes(*time))), rest);
        }
        Some(Self { external_id, is_imported: flags & IMPORTED != 0, edited_at, body, ..plain })
    }
}

/// The external id in the value of a post.
pub(crate) fn external_id(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(Head::read(value)?.external_id?).ok()
}

/// The common prefix of the ids of an author's posts around this time: those of four milliseconds.
pub fn post_id_prefix(at: Millis) -> Box<[u8]> {
    const BYTES: usize = 5;
    RecordId::of_version(Version::of_millis(at)).as_bytes().iter().take(BYTES).copied().collect()
}

/// The ids that an imported post of this time can have, in the order in which they are tried. The first one starts at a
/// place that differs from author to author, the next ones lie above the newest.
pub fn post_ids_at(author: Key, at: Millis, newest: Option<Version>) -> impl Iterator<Item = Version> + use<> {
    let start = Version::of_millis(at).bits();
    let size = Version::of_millis(Millis::from_since_2000(1)).bits();
    let spread = (author.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let first = newest.map_or(start + spread % (size - POSTS_AT_ONCE_MAX as u64), |newest| newest.bits() + 1);
    (first..start + size).take(POSTS_AT_ONCE_MAX).map(Version::from_bits)
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
    /// Where the author of the post of this version is found. Later posts have greater ids: new ones are appended.
    pub fn of_post_author(post: Version) -> Self {
        Self::of_bytes(post.bits().to_be_bytes())
    }

    /// A record about a user, owned by the server. Ordered as keys are.
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
        for bytes in [
            &b""[..],
            b"{}",
            &[0],
            &[6, b'{', b'}'],
            &[FORMAT_1, 0xff],
            &[FORMAT_2],
            &[FORMAT_2, 8],
            &[FORMAT_2, HAS_EXTERNAL_ID, 0],
            &[FORMAT_2, HAS_EXTERNAL_ID, 9, b'x'],
            &[FORMAT_2, HAS_EXTERNAL_ID, 1, 7],
            &[FORMAT_2, EDITED, 1],
        ] {
            assert!(Post::decode(bytes).is_err(), "{bytes:?}");
        }
        assert!(post_author(&[1; 7]).is_err() && post_author(&[1; 9]).is_err());
        assert_eq!(RecordId::new(&[1; 9]).unwrap().key(), None);
    }

    #[test]
    fn a_body_alone_is_stored_as_the_first_format_did() {
        assert_eq!(*Post::new(true, "{}").encode(), [FORMAT_1 | PUSHED, b'{', b'}']);
        assert_eq!(Post::decode(&[FORMAT_1, b'{', b'}']).unwrap(), Post::new(false, "{}"));
    }

    #[test]
    fn another_body_is_no_longer_what_a_file_brought() {
        let imported = Some(ImportedPost::default());
        let post = Post { external_id: ExternalId::new("x").ok(), imported, ..Post::new(false, "{}") };
        assert_eq!(post.clone().replaced("{}"), post);
        let replaced = post.clone().replaced("{ }");
        assert_eq!((replaced.imported, replaced.external_id), (None, post.external_id));
    }

    #[test]
    fn ids_by_import_are_of_their_millisecond_and_rise() {
        for (author, millis) in [(0, 0), (-5, 7), (i64::MAX, 800_000_000_000), (i64::MIN, (1 << 41) - 9)] {
            let at = Millis::from_since_2000(millis);
            let ids: Vec<Version> = post_ids_at(Key(author), at, None).collect();
            assert_eq!(ids.len(), POSTS_AT_ONCE_MAX);
            assert!(ids.is_sorted_by(|a, b| a < b) && ids.iter().all(|id| id.millis() == at));
            assert_eq!(post_ids_at(Key(author), at, Some(ids[7])).next(), Some(ids[8]));
            let last = Version::from_bits(Version::of_millis(at).bits() + (1 << 22) - 1);
            assert_eq!(post_ids_at(Key(author), at, Some(last)).next(), None);
            let prefix = post_id_prefix(at);
            for id in [ids[0], last] {
                assert!(RecordId::of_version(id).as_bytes().starts_with(&prefix));
            }
            assert!(!RecordId::of_version(Version::of_millis(at.plus(4))).as_bytes().starts_with(&prefix));
        }
        let first = |author| post_ids_at(Key(author), Millis::default(), None).next();
        assert!(first(1) != first(2));
    }

    #[test]
    fn later_posts_have_greater_ids_among_the_authors() {
        let [old, new] = [7, 8].map(|bits| RecordId::of_post_author(Version::from_bits(bits)));
        assert!(old < new);
    }

    proptest! {
        #[test]
        fn posts_and_authors_read_back(
            pushed: bool, body: String, author: i64, name in "[a-z☂ ]{0,80}", imported: Option<Option<u32>>,
        ) {
            let external_id = ExternalId::new(&name).ok();
            let edited_at = |millis: u32| Millis::from_since_2000(millis.into());
            let imported = imported.map(|edited| ImportedPost { edited_at: edited.map(edited_at) });
            let post = Post { pushed, body: body.into(), external_id: external_id.clone(), imported };
            let bytes = post.encode();
            prop_assert_eq!(ExternalId::of_post(&bytes), external_id);
            prop_assert_eq!(Post::is_imported(&bytes), imported.is_some());
            prop_assert_eq!(Post::decode(&bytes).unwrap(), post);
            prop_assert_eq!(post_author(&post_author_value(Key(author))).unwrap(), Key(author));
        }

        #[test]
        fn keys_read_back_and_order_as_they_do(one: i64, other: i64) {
            prop_assert_eq!(RecordId::of_key(Key(one)).key(), Some(Key(one)));
            prop_assert_eq!(RecordId::of_key(Key(one)).cmp(&RecordId::of_key(Key(other))), one.cmp(&other));
        }
    }
}
