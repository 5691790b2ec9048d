//! A user's record as bytes, without what can be derived: a numeric id is its key.

use entourage_model::{Key, Millis, User, UserId, Version};

use crate::{
    codec::{Corrupt, Reader, put_bytes, put_varint},
    state::chunked::Chunked,
};

const PRIVATE: u8 = 1;
const HIDE_LISTS: u8 = 1 << 1;
const NAMED_ID: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const AVATAR: u8 = 1 << 4;
const REGISTERED: u8 = 1 << 5;
const CHANGED: u8 = 1 << 6;
const SUSPENDED: u8 = 1 << 7;

/// Records up to this size are inline: those of numeric users without a name.
const SHORT: usize = 10;
/// Values of `kind` beyond the length of a short record.
const LONG: u8 = u8::MAX - 1;
const ERASED: u8 = u8::MAX;

/// A user's record in memory: inline if short, else its place among the long records of the shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Profile {
    kind: u8,
    /// The record; or its first byte, the flags, which are then read without another cache miss, and its place; or the
    /// version of the erasure.
    bytes: [u8; SHORT],
}

/// A record not yet placed in its shard.
#[derive(Debug)]
pub(crate) enum NewProfile {
    Placed(Profile),
    Long(Box<[u8]>),
}

impl Default for NewProfile {
    fn default() -> Self {
        Self::Placed(Profile::default())
    }
}

impl NewProfile {
    /// `record` is as `encode` made it.
    pub(crate) fn new(record: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..record.len()) {
            Some(short) => {
                short.copy_from_slice(record);
                Self::Placed(Profile { kind: record.len() as u8, bytes })
            }
            None => Self::Long(record.into()),
        }
    }

    pub(crate) fn erased(version: Version) -> Self {
        let mut bytes = [0; SHORT];
        bytes[..size_of::<u64>()].copy_from_slice(&version.bits().to_le_bytes());
        Self::Placed(Profile { kind: ERASED, bytes })
    }

    pub(crate) fn erased_at(&self) -> Option<Version> {
        match self {
            Self::Placed(profile) => profile.erased_at(),
            Self::Long(_) => None,
        }
    }

    pub(crate) fn is_suspended(&self) -> bool {
        match self {
            Self::Placed(profile) => profile.is_suspended(),
            Self::Long(record) => record.first().is_some_and(|flags| flags & SUSPENDED != 0),
        }
    }
}

impl Profile {
    fn long(flags: u8, place: u32) -> Self {
        let mut bytes = [0; SHORT];
        bytes[0] = flags;
        bytes[1..=size_of::<u32>()].copy_from_slice(&place.to_le_bytes());
        Self { kind: LONG, bytes }
    }

    fn place(&self) -> Option<u32> {
        let [_, place @ ..] = self.bytes;
        (self.kind == LONG).then(|| u32::from_le_bytes([place[0], place[1], place[2], place[3]]))
    }

    /// When the user was erased, if they were.
    pub(crate) fn erased_at(&self) -> Option<Version> {
        let [bits @ .., _, _] = self.bytes;
        (self.kind == ERASED).then(|| Version::from_bits(u64::from_le_bytes(bits)))
    }

    const fn flags(&self) -> u8 {
        if self.kind == ERASED { 0 } else { self.bytes[0] }
    }

    pub(crate) const fn is_private(&self) -> bool {
        self.flags() & PRIVATE != 0
    }

    pub(crate) const fn is_suspended(&self) -> bool {
        self.flags() & SUSPENDED != 0
    }
}

/// The records of a shard that are too long to be inline.
#[derive(Debug, Default)]
pub(crate) struct LongRecords {
    records: Chunked<Box<[u8]>>,
    /// Places to reuse.
    free: Vec<u32>,
}

impl LongRecords {
    /// Places a new record, where the old one was if that was long.
    pub(crate) fn place(&mut self, new: NewProfile, old: Profile) -> Profile {
        let record = match new {
            NewProfile::Long(record) => record,
            NewProfile::Placed(profile) => {
                if let Some(place) = old.place() {
                    self.set(place, Box::default());
                    self.free.push(place);
                }
                return profile;
            }
        };
        let flags = record.first().copied().unwrap_or_default();
        let place = match old.place().or_else(|| self.free.pop()) {
            Some(place) => {
                self.set(place, record);
                place
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        Profile::long(flags, place)
    }

    fn set(&mut self, place: u32, record: Box<[u8]>) {
        if let Some(slot) = self.records.get_mut(place as usize) {
            *slot = record;
        }
    }

    /// As `encode` made it; empty for an erased user.
    pub(crate) fn bytes<'a>(&'a self, profile: &'a Profile) -> &'a [u8] {
        match profile.place() {
            Some(place) => self.records.get(place as usize).map_or(&[], |record| record),
            None => profile.bytes.get(..usize::from(profile.kind)).unwrap_or_default(),
        }
    }

    /// Whether this is the id of the user with this key. Decodes nothing after the id.
    pub(crate) fn has_id(&self, profile: &Profile, key: Key, id: &[u8]) -> bool {
        match profile.kind {
            ERASED => false,
            _ if profile.flags() & NAMED_ID == 0 => UserId::number(id) == Some(key.0),
            _ => named_id(self.bytes(profile)).is_ok_and(|named| named == id),
        }
    }
}

pub(crate) fn encode(user: &User) -> Vec<u8> {
    let named = user.id.as_number() != Some(user.key.0);
    let registered = user.registered_at != user.created.millis();
    let changed = user.version != user.created;
    let flags = [
        (user.private, PRIVATE),
        (user.hide_lists, HIDE_LISTS),
        (named, NAMED_ID),
        (user.name.is_some(), NAME),
        (user.avatar_url.is_some(), AVATAR),
        (registered, REGISTERED),
        (changed, CHANGED),
        (user.follow_suspended, SUSPENDED),
    ];
    let mut bytes = vec![flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum::<u8>()];
    put_varint(&mut bytes, user.created.bits());
    if registered {
        put_varint(&mut bytes, user.registered_at.since_2000());
    }
    if changed {
        put_varint(&mut bytes, user.version.bits() - user.created.bits());
    }
    if named {
        put_bytes(&mut bytes, user.id.as_str().as_bytes());
    }
    for text in [&user.name, &user.avatar_url].into_iter().flatten() {
        put_bytes(&mut bytes, text.as_bytes());
    }
    bytes
}

/// The id in the record of a user whose id is not their key.
fn named_id(bytes: &[u8]) -> Result<&[u8], Corrupt> {
    let mut reader = Reader::new(bytes);
    let flags = reader.byte()?;
    let before = 1 + (flags & (REGISTERED | CHANGED)).count_ones();
    for _ in 0..before {
        reader.varint()?;
    }
    reader.bytes()
}

pub(crate) fn decode(key: Key, bytes: &[u8]) -> Result<User, Corrupt> {
    let mut reader = Reader::new(bytes);
    let flags = reader.byte()?;
    let has = |bit| flags & bit != 0;
    let created = Version::from_bits(reader.varint()?);
    let registered_at = if has(REGISTERED) { Millis::from_since_2000(reader.varint()?) } else { created.millis() };
    let version = if has(CHANGED) { Version::from_bits(created.bits() + reader.varint()?) } else { created };
    let id = if has(NAMED_ID) {
        UserId::try_from(text(&mut reader)?).map_err(|_| Corrupt("user id"))?
    } else {
        UserId::from(key.0)
    };
    let name = if has(NAME) { Some(text(&mut reader)?.into()) } else { None };
    let avatar_url = if has(AVATAR) { Some(text(&mut reader)?.into()) } else { None };
    reader.end()?;
    let (private, hide_lists, follow_suspended) = (has(PRIVATE), has(HIDE_LISTS), has(SUSPENDED));
    Ok(User { key, id, name, avatar_url, private, hide_lists, follow_suspended, registered_at, created, version })
}

fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Corrupt> {
    std::str::from_utf8(reader.bytes()?).map_err(|_| Corrupt("text"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn users_read_back(
            id in "[a-z0-9]{1,20}", name: Option<String>, avatar: Option<String>,
            private: bool, hide_lists: bool, follow_suspended: bool, created in 1u64..(1 << 62), later in 0u64..1000, registered in 0u64..(1 << 41),
        ) {
            let id = UserId::try_from(id.as_str()).unwrap();
            let key = Key(id.as_number().unwrap_or(-7));
            let user = User {
                key, id, name: name.map(Into::into), avatar_url: avatar.map(Into::into), private, hide_lists,
                follow_suspended,
                registered_at: Millis::from_since_2000(registered),
                created: Version::from_bits(created), version: Version::from_bits(created + later),
            };
            let record = encode(&user);
            prop_assert_eq!(NewProfile::new(&record).is_suspended(), follow_suspended);
            let mut records = LongRecords::default();
            let profile = records.place(NewProfile::new(&record), Profile::default());
            prop_assert_eq!(records.bytes(&profile), &*record);
            prop_assert_eq!((profile.is_private(), profile.is_suspended()), (private, follow_suspended));
            let has_id = |id| records.has_id(&profile, key, id);
            prop_assert!(has_id(user.id.as_str().as_bytes()));
            prop_assert!(!has_id(b"Another") && !has_id(b"") && !has_id(b"\xff"));
            prop_assert_eq!(decode(key, &record).unwrap(), user);
        }
    }
    #[test]
    fn a_long_record_takes_the_place_of_one_that_is_gone() {
        let mut records = LongRecords::default();
        let long = |byte| NewProfile::new(&[byte; 40]);
        let one = records.place(long(1), Profile::default());
        let other = records.place(long(2), Profile::default());
        let longer = records.place(long(3), one);
        assert_eq!((longer.place(), records.bytes(&longer)), (one.place(), &[3; 40][..]));
        let short = records.place(NewProfile::new(&[4; SHORT]), longer);
        assert_eq!((short.place(), records.bytes(&short)), (None, &[4; SHORT][..]));
        let again = records.place(long(5), short);
        assert_eq!((again.place(), records.bytes(&again)), (one.place(), &[5; 40][..]));
        let erased = records.place(NewProfile::erased(Version::from_bits(77)), other);
        assert_eq!((erased.erased_at(), records.bytes(&erased)), (Some(Version::from_bits(77)), &[][..]));
        assert!(!erased.is_private() && !records.has_id(&erased, Key(1), b"1"));
        assert_eq!((records.records.len(), records.free.len()), (2, 1));
    }

    #[test]
    fn a_numeric_user_without_a_name_has_a_short_record() {
        let id = UserId::from(7);
        let created = Version::from_bits(u64::MAX >> 1);
        let user = User {
            key: Key(7),
            id,
            name: None,
            avatar_url: None,
            private: true,
            hide_lists: false,
            follow_suspended: false,
            registered_at: created.millis(),
            created,
            version: created,
        };
        assert!(matches!(NewProfile::new(&encode(&user)), NewProfile::Placed(_)));
    }
}
