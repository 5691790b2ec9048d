//! A user's record as bytes, without what can be derived: a numeric id is its key.

use entourage_model::{Key, Millis, User, UserId, Version};

use super::codec::{Corrupt, Reader, put_bytes, put_varint};

const PRIVATE: u8 = 1;
const HIDE_LISTS: u8 = 1 << 1;
const NAMED_ID: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const AVATAR: u8 = 1 << 4;
const REGISTERED: u8 = 1 << 5;
const CHANGED: u8 = 1 << 6;
const SUSPENDED: u8 = 1 << 7;

/// What stays in a slot: with the rest it has sixteen bytes.
const SHORT: usize = 14;

/// A user's record in memory. Of a numeric user without a name it takes no block of its own.
#[derive(Debug)]
pub(super) enum Profile {
    Short {
        length: u8,
        bytes: [u8; SHORT],
    },
    /// The flags once more: looking at them waits for no other memory. The box makes it as small as the others.
    Long {
        flags: u8,
        bytes: Box<Box<[u8]>>,
    },
    /// The user was erased, at this version.
    Erased(Version),
}

const _: () = assert!(size_of::<Profile>() == 16);

impl Profile {
    pub(super) fn new(record: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..record.len()) {
            Some(short) => {
                short.copy_from_slice(record);
                Self::Short { length: record.len() as u8, bytes }
            }
            None => Self::Long { flags: record.first().copied().unwrap_or_default(), bytes: Box::new(record.into()) },
        }
    }

    /// As `encode` made it; of an erased user nothing.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long { bytes, .. } => bytes,
            Self::Erased(_) => &[],
        }
    }

    const fn flags(&self) -> u8 {
        match self {
            Self::Short { bytes, .. } => bytes[0],
            Self::Long { flags, .. } => *flags,
            Self::Erased(_) => 0,
        }
    }

    /// Whether this is the id of the user, whose key it is. Nothing is decoded that stands behind it.
    pub(super) fn has_id(&self, key: Key, id: &[u8]) -> bool {
        match self {
            Self::Erased(_) => false,
            _ if self.flags() & NAMED_ID == 0 => UserId::number(id) == Some(key.0),
            _ => named_id(self.bytes()).is_ok_and(|named| named == id),
        }
    }

    pub(super) const fn is_private(&self) -> bool {
        self.flags() & PRIVATE != 0
    }

    pub(super) const fn is_suspended(&self) -> bool {
        self.flags() & SUSPENDED != 0
    }
}

pub(super) fn encode(user: &User) -> Vec<u8> {
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

/// The id in the record of somebody who has one of their own.
fn named_id(bytes: &[u8]) -> Result<&[u8], Corrupt> {
    let mut reader = Reader::new(bytes);
    let flags = reader.byte()?;
    let before = 1 + (flags & (REGISTERED | CHANGED)).count_ones();
    for _ in 0..before {
        reader.varint()?;
    }
    reader.bytes()
}

pub(super) fn decode(key: Key, bytes: &[u8]) -> Result<User, Corrupt> {
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
            let profile = Profile::new(&record);
            prop_assert_eq!(profile.bytes(), &*record);
            prop_assert_eq!((profile.is_private(), profile.is_suspended()), (private, follow_suspended));
            prop_assert!(profile.has_id(key, user.id.as_str().as_bytes()));
            prop_assert!(!profile.has_id(key, b"Another") && !profile.has_id(key, b"") && !profile.has_id(key, b"\xff"));
            prop_assert_eq!(decode(key, &record).unwrap(), user);
        }
    }
}
