//! Records: small documents that belong to an owner, kept beside the graph and changed in the same commits.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Error, Expiry, Key, Result, User, Version};

/// What a record is about. Each has lists of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    Group = 0,
    /// Ids are those of [`RecordId::of_member`].
    GroupMember = 1,
    Seen = 2,
    Job = 3,
    /// Written by no operation of the service; the number stays, because golden folders hold records of it.
    Notification = 4,
    /// One for each finished import.
    Import = 5,
    /// An author's posts. Ids are those of [`RecordId::of_version`]; made by `Operation::Post` and
    /// `Operation::ImportPost` alone.
    Post = 6,
    /// The server's: who wrote a post. Ids are those of [`RecordId::of_post_author`]; created and removed with the
    /// post.
    PostAuthor = 7,
    /// The server's: whether an author's posts are pushed or pulled. Ids are those of [`RecordId::of_key`]; for users
    /// only.
    Fanout = 8,
    /// The server's: unfinished fan-out.
    FanoutQueue = 9,
    /// The server's: the id of each named user who was erased, for as long as events name them by their key. Ids are those
    /// of [`RecordId::of_key`]; made by `Operation::Erase` alone.
    Erased = 10,
    /// Which post of an author has an external id. Ids are those of [`crate::ExternalId::record_id`], values those of
    /// [`crate::external_post_value`]; created and removed with the post, and all at once with the author.
    PostExternal = 11,
    /// Whom a user does not want suggested. Ids are those of [`RecordId::of_key`].
    Dismissed = 12,
    /// Suggestions that a file brought for a user.
    Suggested = 13,
    /// The server's: cases of suspected abuse. Ids are those of [`RecordId::of_version`]; values begin with a byte of
    /// [`CaseMark`].
    Case = 14,
    /// The server's: when each periodic task ran last, and how it ended.
    Schedule = 15,
    /// The server's: decaying counters of signals, as they were saved last.
    Signal = 16,
    /// The server's: the follow quota of one target. Ids are those of [`RecordId::of_key`].
    TargetQuota = 17,
}

impl Space {
    pub const ALL: [Self; 18] = [
        Self::Group,
        Self::GroupMember,
        Self::Seen,
        Self::Job,
        Self::Notification,
        Self::Import,
        Self::Post,
        Self::PostAuthor,
        Self::Fanout,
        Self::FanoutQueue,
        Self::Erased,
        Self::PostExternal,
        Self::Dismissed,
        Self::Suggested,
        Self::Case,
        Self::Schedule,
        Self::Signal,
        Self::TargetQuota,
    ];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the server's records of it lie in [`crate::Buckets`]: the rest is written rarely, under [`Key::SERVER`].
    pub const fn is_spread(self) -> bool {
        matches!(self, Self::Job | Self::PostAuthor | Self::Fanout | Self::Erased)
    }

    /// Whether readers of events see its changes; other events are internal to the store.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Group | Self::GroupMember | Self::Import | Self::Post | Self::Case)
    }
}

pub const RECORD_MAX_BYTES: usize = 64 << 10;
pub const GROUP_MEMBERS_MAX: u64 = 10_000;
/// How many records or edges one commit removes at most.
pub const CHUNK_MAX: usize = 1_000;

/// Names a record among those of its owner and space: 1 to 32 bytes, ordered as bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(Box<[u8]>);

impl RecordId {
    pub const MAX_BYTES: usize = 32;
    /// Ids of [`Self::of_version`] begin with at least this.
    pub const BELOW_VERSIONS: &'static [u8] = &[0x7f, 0xff];
    /// The prefix of the ids of [`crate::Lease::record_id`].
    pub(crate) const LEASES: &'static [u8] = b"l";
    /// The prefix of the ids of [`Self::of_mute_end`]; itself not an id, so a scan may begin after it.
    pub const MUTE_ENDS: &'static [u8] = b"m";
    /// A group's id leaves room for a member's key.
    pub const GROUP_MAX_BYTES: usize = Self::MAX_BYTES - 1 - size_of::<i64>();

    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > Self::MAX_BYTES {
            return Err(Error::invalid("a record's id has 1 to 32 bytes"));
        }
        Ok(Self(bytes.into()))
    }

    pub(crate) fn of_bytes(bytes: [u8; 8]) -> Self {
        Self(Box::new(bytes))
    }

    pub(crate) fn of_digest(bytes: [u8; Self::MAX_BYTES]) -> Self {
        Self(Box::new(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id of an added record: later ones are lesser, so that a scan shows the newest first.
    pub fn of_version(version: Version) -> Self {
        Self::of_bytes((!version.bits()).to_be_bytes())
    }

    /// The version of an id that [`Self::of_version`] made. Those are all above [`Self::BELOW_VERSIONS`].
    pub fn version(&self) -> Option<Version> {
        let bits = !u64::from_be_bytes(self.0.as_ref().try_into().ok()?);
        (bits <= Version::MAX.bits()).then(|| Version::from_bits(bits))
    }

    /// The server's record of the end of a mute, in [`Space::Job`]: ordered by time, below the ids made from versions.
    pub fn of_mute_end(at: Expiry, actor: Key, target: Key) -> Self {
        let mut bytes = Vec::with_capacity(Self::MAX_BYTES);
        bytes.extend_from_slice(Self::MUTE_ENDS);
        bytes.extend_from_slice(&at.seconds().to_be_bytes());
        for key in [actor, target] {
            bytes.extend_from_slice(&key.0.to_be_bytes());
        }
        Self(bytes.into_boxed_slice())
    }

    /// End, owner and target of a mute, from an id that [`Self::of_mute_end`] made.
    pub fn mute_end(&self) -> Option<(Expiry, Key, Key)> {
        let rest = self.0.strip_prefix(Self::MUTE_ENDS)?;
        let (seconds, rest) = rest.split_first_chunk::<4>()?;
        let (actor, rest) = rest.split_first_chunk::<8>()?;
        let target: &[u8; 8] = rest.try_into().ok()?;
        let key = |bytes: &[u8; 8]| Key(i64::from_be_bytes(*bytes));
        Some((Expiry::from_seconds(u32::from_be_bytes(*seconds))?, key(actor), key(target)))
    }

    /// The prefix of the ids of all members of a group; itself not an id, so a scan may begin after it.
    pub fn member_prefix(group: &Self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(Self::MAX_BYTES);
        bytes.push(group.0.len() as u8);
        bytes.extend_from_slice(&group.0);
        bytes.into_boxed_slice()
    }

    /// `None` when the group's id is longer than a group's may be.
    pub fn of_member(group: &Self, member: Key) -> Option<Self> {
        if group.0.len() > Self::GROUP_MAX_BYTES {
            return None;
        }
        let mut bytes = Self::member_prefix(group).into_vec();
        bytes.extend_from_slice(&member.to_ordered_bytes());
        Some(Self(bytes.into_boxed_slice()))
    }

    /// The group and the member of an id that [`Self::of_member`] made.
    pub fn member(&self) -> Option<(Self, Key)> {
        let (&length, rest) = self.0.split_first()?;
        let (group, key) = rest.split_at_checked(usize::from(length))?;
        let key = Key::from_ordered_bytes(key.try_into().ok()?);
        Some((Self::new(group).ok()?, key))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({})", self.0.escape_ascii())
    }
}

impl Serialize for RecordId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for RecordId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = bytes::deserialize(deserializer)?;
        Self::new(&bytes).map_err(de::Error::custom)
    }
}

/// The first byte of a case's value: what the write that left it did, which names its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseMark {
    /// The case is open.
    Open = b'o' as isize,
    /// This write dismissed it.
    Dismissed = b'd' as isize,
    /// This write confirmed it.
    Confirmed = b'c' as isize,
    /// It was closed before; this write changed something else.
    Closed = b'x' as isize,
}

impl CaseMark {
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// `None`: these are not the bytes of a case.
    pub const fn of(value: &[u8]) -> Option<Self> {
        match value.first() {
            Some(b'o') => Some(Self::Open),
            Some(b'd') => Some(Self::Dismissed),
            Some(b'c') => Some(Self::Confirmed),
            Some(b'x') => Some(Self::Closed),
            _ => None,
        }
    }
}

/// A record as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: RecordId,
    /// The version of the last write.
    pub version: Version,
    pub value: Box<[u8]>,
}

/// The value of a member's record: which person of that id is meant. An id created again is another person, and a
/// member whose user has another `created` no longer counts.
pub fn member_value(user: &User) -> Box<[u8]> {
    Box::new(user.created.bits().to_be_bytes())
}

/// Whether a member's record means this very person.
pub fn is_member(value: &[u8], user: &User) -> bool {
    *value == *member_value(user)
}

/// The number in the value of a tally.
pub fn tally(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

/// The condition under which a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Any,
    /// It does not exist.
    Absent,
    /// It exists as of this version.
    Version(Version),
}

/// One record before and after a change, at the version of its commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordChange {
    pub space: Space,
    pub owner: Key,
    pub id: RecordId,
    /// The previous version, `None` for a new one.
    pub before: Option<Version>,
    /// `None`: removed.
    #[serde(with = "optional_bytes")]
    pub after: Option<Box<[u8]>>,
}

mod bytes {
    use super::*;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(STANDARD_NO_PAD.decode(text).map_err(de::Error::custom)?.into_boxed_slice())
    }
}

mod optional_bytes {
    use super::*;

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Box<[u8]>>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD_NO_PAD.encode(bytes)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<[u8]>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let decode = |text: String| STANDARD_NO_PAD.decode(text).map(Vec::into_boxed_slice).map_err(de::Error::custom);
        text.map(decode).transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(bytes: &[u8]) -> RecordId {
        RecordId::new(bytes).unwrap()
    }

    #[test]
    fn ids_have_1_to_32_bytes() {
        assert!(RecordId::new(&[]).is_err() && RecordId::new(&[0; 33]).is_err());
        assert!(RecordId::new(&[0; 32]).is_ok());
        assert!(RecordId::of_member(&id(&[7; 23]), Key(1)).is_some());
        assert!(RecordId::of_member(&id(&[7; 24]), Key(1)).is_none());
    }

    #[test]
    fn ends_of_mutes_read_back_and_come_before_jobs() {
        let at = |seconds| Expiry::from_seconds(seconds).unwrap();
        let end = RecordId::of_mute_end(at(7), Key(-3), Key(i64::MAX));
        assert_eq!(end.mute_end(), Some((at(7), Key(-3), Key(i64::MAX))));
        assert!(RecordId::of_mute_end(at(256), Key(0), Key(0)) > end);
        assert!(end.as_bytes() < RecordId::BELOW_VERSIONS && end.as_bytes() > RecordId::MUTE_ENDS);
        assert_eq!(RecordId::of_version(Version::from_bits(9)).mute_end(), None);
        assert_eq!(id(b"m").mute_end(), None);
    }

    #[test]
    fn ids_of_versions_read_back_and_order_the_newest_first() {
        let [old, new] = [Version::from_bits(7), Version::MAX].map(RecordId::of_version);
        assert!(new < old && new.as_bytes() > RecordId::BELOW_VERSIONS);
        assert_eq!((old.version(), new.version()), (Some(Version::from_bits(7)), Some(Version::MAX)));
        assert_eq!(id(&[0x7f; 8]).version(), None);
        assert_eq!(id(&[0xff; 9]).version(), None);
    }

    proptest! {
        #[test]
        fn members_read_back_and_order_as_their_keys(
            group in prop::collection::vec(any::<u8>(), 1..24), one: i64, other: i64,
        ) {
            let of = |key| RecordId::of_member(&id(&group), Key(key)).unwrap();
            prop_assert_eq!(of(one).member(), Some((id(&group), Key(one))));
            prop_assert_eq!(of(one).cmp(&of(other)), one.cmp(&other));
            prop_assert!(of(one).as_bytes().starts_with(&RecordId::member_prefix(&id(&group))));
        }

        #[test]
        fn no_group_holds_the_members_of_another(
            a in prop::collection::vec(any::<u8>(), 1..24), b in prop::collection::vec(any::<u8>(), 1..24), key: i64,
        ) {
            prop_assume!(a != b);
            let member = RecordId::of_member(&id(&a), Key(key)).unwrap();
            prop_assert!(!member.as_bytes().starts_with(&RecordId::member_prefix(&id(&b))));
        }

        #[test]
        fn changes_read_back_as_json(
            bytes in prop::collection::vec(any::<u8>(), 1..33),
            after in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        ) {
            let after = after.map(Vec::into_boxed_slice);
            let change = RecordChange { space: Space::Job, owner: Key::SERVER, id: id(&bytes), before: None, after };
            let text = serde_json::to_string(&change).unwrap();
            prop_assert_eq!(serde_json::from_str::<RecordChange>(&text).unwrap(), change);
        }
    }
}
