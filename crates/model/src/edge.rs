//! A directed edge `follower → target` of a kind, and how two accounts of it become one.

use serde::{Deserialize, Serialize};

use crate::{Cause, Key, Plane, Position, Version};

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

/// How far an edge has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Active = 0,
    /// Asked, not accepted.
    Pending = 1,
    /// Quarantined.
    Parked = 2,
    /// History only.
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

/// What is stored of an edge besides its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EdgeValue {
    pub state: State,
    pub quiet: bool,
    /// The version of the last write.
    pub version: Version,
    /// When it became active (while pending: when it was asked for).
    pub position: Position,
}

impl EdgeValue {
    /// The greater version wins; at equal versions removal wins. Commutative, associative, idempotent:
    /// outcomes may arrive in any order and any number of times.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let rank =
            |value: &Self| (value.version, value.state == State::Removed, value.state, value.position, value.quiet);
        if rank(&other) > rank(&self) { other } else { self }
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

/// One edge as it was and as it became. `before` is `None` for an edge that was not live.
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
    /// The list the edge stood in, and the one it stands in now.
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
        (0u8..4, any::<bool>(), 1u64..6, 1u64..4).prop_map(|(state, quiet, version, position)| EdgeValue {
            state: State::from_number(state).unwrap(),
            quiet,
            version: Version::from_bits(version),
            position: Version::from_bits(position),
        })
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
