//! Events: one for each change, derived from it alone, so that no change can miss its event.

use crate::{
    CaseMark, Cause, Change, Code, Error, EventPositions, Expiry, Key, Kind, Lineage, RecordId, Result, Sealer,
    Sequence, Space, State, User, UserId, Version,
};

const FORMAT: u8 = 3;
const FORMAT_OF_ONE: u8 = 2;
const PURPOSE: &[u8] = b"event";

/// One change as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub sequence: Sequence,
    pub version: Version,
    pub body: EventBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventBody {
    Edge {
        kind: Kind,
        follower: Key,
        target: Key,
        cause: Cause,
        before: Option<State>,
        after: Option<State>,
        quiet: bool,
        /// When a mute ends.
        expires: Option<Expiry>,
    },
    /// `erased` is the id of an erased user; stores of earlier versions did not keep it.
    User { key: Key, existed: bool, after: Option<Box<User>>, is_suspension: bool, erased: Option<UserId> },
    /// `after` is the record's value, of public spaces only.
    Record { space: Space, owner: Key, id: RecordId, existed: bool, after: Option<Box<[u8]>> },
}

impl Event {
    pub fn of(sequence: Sequence, version: Version, change: &Change) -> Self {
        let body = match change {
            Change::Edge(edge) => EventBody::Edge {
                kind: edge.kind,
                follower: edge.follower,
                target: edge.target,
                cause: edge.cause,
                before: edge.before.map(|value| value.state),
                after: edge.after.is_live().then_some(edge.after.state),
                quiet: edge.after.quiet,
                expires: edge.after.expires,
            },
            Change::User(user) => EventBody::User {
                key: user.key,
                existed: user.existed,
                after: user.after.clone(),
                is_suspension: user.is_suspension,
                erased: user.erased.clone(),
            },
            Change::Record(record) => EventBody::Record {
                space: record.space,
                owner: record.owner,
                id: record.id.clone(),
                existed: record.before.is_some(),
                after: record
                    .after
                    .as_ref()
                    .map(|value| if record.space.is_public() { value.clone() } else { [].into() }),
            },
        };
        Self { sequence, version, body }
    }

    /// Whether readers of events see it. The others occupy a sequence all the same.
    pub const fn is_public(&self) -> bool {
        match &self.body {
            EventBody::Record { space, .. } => space.is_public(),
            EventBody::Edge { .. } | EventBody::User { .. } => true,
        }
    }

    /// The `type` of the envelope.
    pub fn name(&self) -> &'static str {
        match &self.body {
            EventBody::User { existed: false, .. } => "user.created",
            EventBody::User { after: Some(user), is_suspension: true, .. } => match user.follow_suspended {
                true => "user.suspended",
                false => "user.restored",
            },
            EventBody::User { after: Some(_), .. } => "user.updated",
            EventBody::User { after: None, .. } => "user.erased",
            EventBody::Edge { kind: Kind::Block, after: Some(_), .. } => "block.created",
            EventBody::Edge { kind: Kind::Block, after: None, .. } => "block.removed",
            EventBody::Edge { kind: Kind::Mute, before: Some(_), after: Some(_), .. } => "mute.updated",
            EventBody::Edge { kind: Kind::Mute, after: Some(_), .. } => "mute.created",
            EventBody::Edge { kind: Kind::Mute, after: None, .. } => "mute.removed",
            EventBody::Edge { kind: Kind::Follow, before, after, cause, .. } => follow_name(*before, *after, *cause),
            EventBody::Record { space: Space::Group, existed: false, .. } => "group.created",
            EventBody::Record { space: Space::Group, after: Some(_), .. } => "group.updated",
            EventBody::Record { space: Space::Group, after: None, .. } => "group.removed",
            EventBody::Record { space: Space::GroupMember, after: Some(_), .. } => "group.member_added",
            EventBody::Record { space: Space::GroupMember, after: None, .. } => "group.member_removed",
            EventBody::Record { space: Space::Import, .. } => "import.finished",
            EventBody::Record { space: Space::Post, existed: false, .. } => "post.created",
            EventBody::Record { space: Space::Post, after: Some(_), .. } => "post.updated",
            EventBody::Record { space: Space::Post, after: None, .. } => "post.deleted",
            EventBody::Record { space: Space::Case, existed, after, .. } => case_name(*existed, after.as_deref()),
            EventBody::Record { .. } => "record.changed",
        }
    }
}

const fn case_name(existed: bool, after: Option<&[u8]>) -> &'static str {
    match after {
        None => "abuse.removed",
        Some(_) if !existed => "abuse.opened",
        Some(value) => match CaseMark::of(value) {
            Some(CaseMark::Dismissed) => "abuse.dismissed",
            Some(CaseMark::Confirmed) => "abuse.confirmed",
            _ => "abuse.updated",
        },
    }
}

const fn follow_name(before: Option<State>, after: Option<State>, cause: Cause) -> &'static str {
    match (before, after) {
        (_, Some(State::Pending)) => "follow.requested",
        (_, Some(State::Parked)) => "follow.parked",
        (Some(State::Pending | State::Parked), Some(_)) => "follow.accepted",
        // An edge that stays active can change only its flag.
        (Some(_), Some(_)) => "follow.updated",
        (_, Some(_)) => "follow.created",
        (Some(State::Pending | State::Parked), None) => match cause {
            Cause::Target | Cause::Block => "follow.rejected",
            _ => "follow.cancelled",
        },
        (_, None) => "follow.removed",
    }
}

/// The position of a reader of events: everything up to and including these positions has been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCursor {
    pub epoch: u64,
    pub positions: EventPositions,
}

impl EventCursor {
    /// For readers of all events: an event has the same cursor whenever it is read, where there is one partition.
    pub fn encode(&self, sealer: &Sealer) -> String {
        sealer.seal_stable(PURPOSE, &self.payload())
    }

    /// For one user's streams: two cursors do not reveal whether anything happened in between.
    pub fn encode_for_viewer(&self, sealer: &Sealer) -> String {
        sealer.seal(PURPOSE, &self.payload())
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![FORMAT];
        payload.extend_from_slice(&self.epoch.to_be_bytes());
        payload.extend_from_slice(&self.positions.lineage().0.to_be_bytes());
        for position in self.positions.positions() {
            payload.extend_from_slice(&position.offset.0.to_be_bytes());
        }
        payload
    }

    /// Of a store with this many partitions.
    pub fn decode(text: &str, sealer: &Sealer, epoch: u64, partitions: u16) -> Result<Self> {
        let refuse =
            || Error::new(Code::InvalidCursor, "the event cursor was not made by this store; start without one");
        let payload = sealer.open(PURPOSE, text).ok_or_else(refuse)?;
        let (format, body) = payload.split_first().ok_or_else(refuse)?;
        let (numbers, rest) = body.as_chunks::<8>();
        let mut numbers = numbers.iter().map(|number| u64::from_be_bytes(*number));
        if numbers.next() != Some(epoch) || !rest.is_empty() {
            return Err(refuse());
        }
        let lineage = match *format {
            FORMAT => numbers.next().ok_or_else(refuse)?,
            // Made when stores had one partition and one lineage.
            FORMAT_OF_ONE => 0,
            _ => return Err(refuse()),
        };
        if numbers.len() != usize::from(partitions) {
            return Err(refuse());
        }
        Ok(Self { epoch, positions: EventPositions::new(Lineage(lineage), numbers.map(Sequence)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_has_its_name() {
        use State::{Active, Parked, Pending};
        let cases = [
            (None, Some(Active), Cause::Follower, "follow.created"),
            (None, Some(Pending), Cause::Follower, "follow.requested"),
            (None, Some(Parked), Cause::Follower, "follow.parked"),
            (Some(Pending), Some(Active), Cause::Target, "follow.accepted"),
            (Some(Pending), None, Cause::Follower, "follow.cancelled"),
            (Some(Pending), None, Cause::Target, "follow.rejected"),
            (Some(Pending), None, Cause::Block, "follow.rejected"),
            (Some(Active), None, Cause::Follower, "follow.removed"),
            (Some(Active), None, Cause::Block, "follow.removed"),
            (Some(Active), Some(Active), Cause::Follower, "follow.updated"),
            (Some(Active), Some(Pending), Cause::Follower, "follow.requested"),
            (Some(Parked), Some(Active), Cause::Target, "follow.accepted"),
            (Some(Parked), Some(Pending), Cause::Target, "follow.requested"),
            (Some(Active), Some(Parked), Cause::Follower, "follow.parked"),
            (Some(Parked), None, Cause::Follower, "follow.cancelled"),
            (Some(Parked), None, Cause::Target, "follow.rejected"),
            (Some(Parked), None, Cause::Block, "follow.rejected"),
        ];
        for (before, after, cause, name) in cases {
            assert_eq!(follow_name(before, after, cause), name, "{before:?} {after:?} {cause:?}");
        }
    }

    #[test]
    fn a_case_is_named_by_what_its_write_did() {
        let value = |mark: CaseMark| [mark.byte(), b'{', b'}'];
        assert_eq!(case_name(false, Some(&value(CaseMark::Open))), "abuse.opened");
        let later = [
            (CaseMark::Open, "abuse.updated"),
            (CaseMark::Dismissed, "abuse.dismissed"),
            (CaseMark::Confirmed, "abuse.confirmed"),
            (CaseMark::Closed, "abuse.updated"),
        ];
        for (mark, name) in later {
            assert_eq!((case_name(true, Some(&value(mark))), CaseMark::of(&value(mark))), (name, Some(mark)));
        }
        assert_eq!((case_name(true, None), case_name(true, Some(&[]))), ("abuse.removed", "abuse.updated"));
    }

    #[test]
    fn a_cursor_covers_every_partition_and_those_of_one_read_back() {
        let sealer = Sealer::new(&crate::Secret::from_bytes([7; 32]), 1);
        let of = |offsets: &[u64]| EventCursor {
            epoch: 9,
            positions: EventPositions::new(Lineage(2), offsets.iter().copied().map(Sequence)),
        };
        for cursor in [of(&[7]), of(&[0, u64::MAX, 5])] {
            let partitions = cursor.positions.partitions().count() as u16;
            let text = cursor.encode(&sealer);
            assert_eq!(EventCursor::decode(&text, &sealer, 9, partitions).unwrap(), cursor);
            for (epoch, partitions) in [(8, partitions), (9, partitions + 1)] {
                let error = EventCursor::decode(&text, &sealer, epoch, partitions).unwrap_err();
                assert_eq!(error.code(), Code::InvalidCursor);
            }
        }
        assert_eq!(of(&[0, 0]).encode(&sealer).len(), of(&[u64::MAX, 3]).encode(&sealer).len());
        let mut of_one = vec![FORMAT_OF_ONE];
        of_one.extend_from_slice(&9_u64.to_be_bytes());
        of_one.extend_from_slice(&77_u64.to_be_bytes());
        let cursor = EventCursor::decode(&sealer.seal_stable(PURPOSE, &of_one), &sealer, 9, 1).unwrap();
        assert_eq!(cursor.positions, EventPositions::new(Lineage(0), [Sequence(77)]));
    }
}
