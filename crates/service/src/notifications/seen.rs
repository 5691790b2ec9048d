//! How far a user has seen their notifications: one version, kept as a record, that only grows.

use entourage_model::{
    Code, Condition, Error, EventBody, Key, Operation, RecordId, Reply, Result, Space, User, UserId, Version,
};
use entourage_store::StoreExt as _;

use super::{NotificationKind, day_start};
use crate::{Call, Notifications, Receipt, writer::unexpected};

const RECORD: &[u8] = b"notifications";
/// How often a write is tried that another one came before.
const TRIES: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationsSeen {
    /// Whether anything became seen by it.
    pub changed: bool,
    pub receipt: Receipt,
}

/// Whose mark of what was seen an event is about.
pub(crate) fn is_seen_record(body: &EventBody) -> Option<Key> {
    match body {
        EventBody::Record { space: Space::Seen, owner, .. } => Some(*owner),
        _ => None,
    }
}

impl Notifications {
    /// Marks everything as seen up to a notification, or all there is. Nothing becomes unseen again.
    pub async fn see_notifications(&self, call: &Call, id: &UserId, up_to: Option<&str>) -> Result<NotificationsSeen> {
        call.may_change(id)?;
        let up_to = up_to.map(parse).map(|found| found.ok_or_else(unknown_id)).transpose()?;
        let user = self.context.stored_user(id).await?;
        // What has not happened yet cannot have been seen.
        let up_to = up_to.unwrap_or(Version::MAX).min(self.newest_row(user.key).await?);
        let mut tries = 0;
        loop {
            tries += 1;
            match self.mark(call, user.key, up_to).await {
                Err(error) if error.code() == Code::RequestInProgress && tries < TRIES => {}
                other => return other,
            }
        }
    }

    async fn mark(&self, call: &Call, owner: Key, up_to: Version) -> Result<NotificationsSeen> {
        let id = RecordId::new(RECORD)?;
        let known = self.context.store.get_record(Space::Seen, owner, &id).await?;
        let condition = known.as_ref().map_or(Condition::Absent, |record| Condition::Version(record.version));
        let before = known.as_ref().map_or(Version::ZERO, |record| decode(&record.value));
        let value = before.max(up_to).bits().to_be_bytes();
        let value = Some(Box::from(value.as_slice()));
        let operation = Operation::PutRecord { space: Space::Seen, owner, id, value, condition, cap: None };
        match self.context.writer.write(call, operation).await? {
            (Reply::Record { changed, .. }, receipt) => Ok(NotificationsSeen { changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn seen_up_to(&self, user: Key) -> Result<Version> {
        let record = self.context.store.get_record(Space::Seen, user, &RecordId::new(RECORD)?).await?;
        Ok(record.map_or(Version::ZERO, |record| decode(&record.value)))
    }

    async fn newest_row(&self, user: Key) -> Result<Version> {
        let mut newest = Version::ZERO;
        for kind in NotificationKind::ALL {
            let page = self.context.store.scan(kind.list(user), None, 1).await?;
            newest = page.edges.iter().map(|edge| edge.value.position).fold(newest, Version::max);
        }
        Ok(newest)
    }

    /// How many notifications have something that the user has not seen.
    pub(crate) async fn unseen(&self, user: &User, seen: Version) -> Result<u64> {
        let mut unseen = 0;
        for kind in NotificationKind::ALL {
            let mut below = Version::MAX;
            while let Some(group) = self.next_group(user, kind, below).await? {
                if group.day < day_start(seen) {
                    break;
                }
                unseen += u64::from(self.has_unseen(user, kind, &group.edges, seen).await?);
                below = group.day;
            }
        }
        Ok(unseen)
    }
}

fn decode(value: &[u8]) -> Version {
    value.try_into().map_or(Version::ZERO, |bits| Version::from_bits(u64::from_be_bytes(bits)))
}

/// The version in a notification's id.
fn parse(id: &str) -> Option<Version> {
    let (version, kind) = id.split_once('.')?;
    let is_kind = NotificationKind::ALL.iter().any(|known| known.as_str() == kind);
    let plain = version.len() <= 19 && version.bytes().all(|byte| byte.is_ascii_digit());
    let bits = version.parse().ok().filter(|_| is_kind && plain)?;
    (bits <= Version::MAX.bits()).then(|| Version::from_bits(bits))
}

/// As a stream names what it told last.
pub(crate) fn parse_id(id: &str) -> Result<Version> {
    parse(id).ok_or_else(|| Error::new(Code::InvalidCursor, "this is not the id of a notification"))
}

fn unknown_id() -> Error {
    Error::invalid("up_to is not the id of a notification").at("/up_to", "an id as the list of notifications has it")
}
