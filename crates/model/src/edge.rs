//! A directed edge `follower → target` of a kind, and how two versions of it merge.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{Cause, Key, Millis, Plane, Position, Version};

/// What an edge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Follow = 0,
    Block = 1,
    Mute = 2,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Follow, Self::Block, Self::Mute];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Follow => "follow",
            Self::Block => "block",
            Self::Mute => "mute",
        }
    }
}

/// The state of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Active = 0,
    /// Requested, not accepted.
    Pending = 1,
    /// Quarantined.
    Parked = 2,
    /// A tombstone.
    Removed = 3,
}

impl State {
    pub const ALL: [Self; 4] = [Self::Active, Self::Pending, Self::Parked, Self::Removed];

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Parked => "parked",
            Self::Removed => "removed",
        }
    }
}

/// When an edge expires: seconds since 2000, so that an edge does not grow for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Expiry(NonZeroU32);

impl Expiry {
    /// The first whole second that is not before `time`.
    pub fn at(time: Millis) -> Self {
        let seconds = u32::try_from(time.since_2000().div_ceil(1000)).unwrap_or(u32::MAX);
        Self(NonZeroU32::new(seconds).unwrap_or(NonZeroU32::MIN))
    }

    pub fn from_seconds(seconds: u32) -> Option<Self> {
        NonZeroU32::new(seconds).map(Self)
    }

    pub const fn seconds(self) -> u32 {
        self.0.get()
    }

    pub const fn time(self) -> Millis {
        Millis::from_since_2000(self.0.get() as u64 * 1000)
    }

    pub fn is_past(self, now: Millis) -> bool {
        self.time() <= now
    }
}

/// What is stored of an edge besides its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EdgeValue {
    pub state: State,
    pub quiet: bool,
    /// Whether an active follow began as a request that was accepted.
    #[serde(default)]
    pub accepted: bool,
    /// When a mute ends. It stays until it is removed; readers compare the time.
    #[serde(default)]
    pub expires: Option<Expiry>,
    /// The version of the last write.
    pub version: Version,
    /// When it became active (while pending: when it was requested; while parked: when it was parked).
    pub position: Position,
}

impl EdgeValue {
    /// The greater version wins; at equal versions removal wins. Commutative, associative, idempotent:
    /// outcomes may arrive in any order and any number of times.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let rank = |value: &Self| {
            let removed = value.state == State::Removed;
            let Self { state, quiet, accepted, expires, version, position } = *value;
            (version, removed, state, position, quiet, accepted, expires)
        };
        if rank(&other) > rank(&self) { other } else { self }
    }

    /// An active edge that begins at its own version.
    pub const fn active(version: Version) -> Self {
        Self { state: State::Active, quiet: false, accepted: false, expires: None, version, position: version }
    }

    /// Whether it has expired, though it may still be stored.
    pub fn is_over(&self, now: Millis) -> bool {
        self.expires.is_some_and(|expires| expires.is_past(now))
    }

    pub fn is_live(&self) -> bool {
        self.state != State::Removed
    }
}

/// An edge with both its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Edge {
    pub kind: Kind,
    pub follower: Key,
    pub target: Key,
    pub value: EdgeValue,
}

/// One edge before and after a change. `before` is `None` for an edge that was not live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeChange {
    pub kind: Kind,
    pub follower: Key,
    pub target: Key,
    pub cause: Cause,
    pub before: Option<EdgeValue>,
    /// Always the value of this write; `Removed` when the edge is gone.
    pub after: EdgeValue,
}

impl EdgeChange {
    /// The list the edge was in, and the one it is in now.
    pub fn planes(&self) -> (Option<Plane>, Option<Plane>) {
        let plane = |value: EdgeValue| Plane::of(self.kind, value.state);
        (self.before.and_then(plane), plane(self.after))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = EdgeValue> {
        (0u8..4, any::<bool>(), any::<bool>(), 0u32..3, 1u64..6, 1u64..4).prop_map(
            |(state, quiet, accepted, seconds, version, position)| EdgeValue {
                state: State::from_number(state).unwrap(),
                quiet,
                accepted,
                expires: Expiry::from_seconds(seconds),
                version: Version::from_bits(version),
                position: Version::from_bits(position),
            },
        )
    }

    #[test]
    fn an_edge_is_as_small_as_two_versions_and_a_word() {
        assert_eq!(size_of::<EdgeValue>(), 24);
        assert_eq!(size_of::<Option<EdgeValue>>(), 24);
    }

    #[test]
    fn expiry_is_the_next_whole_second() {
        let at = |millis| Expiry::at(Millis::from_since_2000(millis));
        assert_eq!(at(5_001).time(), Millis::from_since_2000(6_000));
        assert_eq!(at(6_000), at(5_001));
        assert_eq!(at(0).seconds(), 1);
        assert!(at(6_000).is_past(Millis::from_since_2000(6_000)));
        assert!(!at(6_000).is_past(Millis::from_since_2000(5_999)));
        assert_eq!(Expiry::from_seconds(6), Some(at(6_000)));
    }

    proptest! {
        #[test]
        fn merge_does_not_care_for_order_or_repetition(a in value(), b in value(), c in value()) {
            prop_assert_eq!(a.merge(b), b.merge(a));
            prop_assert_eq!(a.merge(b).merge(c), a.merge(b.merge(c)));
            prop_assert_eq!(a.merge(a), a);
        }

        #[test]
        fn removal_wins_at_equal_versions(a in value(), b in value()) {
            let b = EdgeValue { version: a.version, state: State::Removed, ..b };
            prop_assert_eq!(a.merge(b).state, State::Removed);
        }
    }
}
