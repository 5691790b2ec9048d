//! Lists: which edges of a user, from which end, and where a page continues.

use serde::{Deserialize, Serialize};

use crate::{Edge, Key, Kind, Position, State};

/// Where a live edge is listed, by its kind and state. Each has lists of its own, so that paging through
/// a few requests never walks past millions of followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plane {
    Follow = 0,
    Request = 1,
    Parked = 2,
    Block = 3,
    Mute = 4,
}

impl Plane {
    pub const ALL: [Self; 5] = [Self::Follow, Self::Request, Self::Parked, Self::Block, Self::Mute];

    pub const fn of(kind: Kind, state: State) -> Option<Self> {
        match (kind, state) {
            (_, State::Removed) => None,
            (Kind::Follow, State::Active) => Some(Self::Follow),
            (Kind::Follow, State::Pending) => Some(Self::Request),
            (Kind::Follow, State::Parked) => Some(Self::Parked),
            (Kind::Block, _) => Some(Self::Block),
            (Kind::Mute, _) => Some(Self::Mute),
        }
    }

    pub const fn kind(self) -> Kind {
        match self {
            Self::Follow | Self::Request | Self::Parked => Kind::Follow,
            Self::Block => Kind::Block,
            Self::Mute => Kind::Mute,
        }
    }

    pub const fn state(self) -> State {
        match self {
            Self::Follow | Self::Block | Self::Mute => State::Active,
            Self::Request => State::Pending,
            Self::Parked => State::Parked,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The planes that edges of a kind can be in.
    pub const fn of_kind(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Follow => &[Self::Follow, Self::Request, Self::Parked],
            Kind::Block => &[Self::Block],
            Kind::Mute => &[Self::Mute],
        }
    }
}

/// The end from which a list sees its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The user is the follower; the list shows targets.
    Following = 0,
    /// The user is the target; the list shows followers.
    Followers = 1,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Following, Self::Followers];

    /// Whom this user follows, or who follows them.
    pub const fn list(self, user: Key) -> List {
        List::new(user, Plane::Follow, self)
    }
}

/// One list of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct List {
    pub user: Key,
    pub plane: Plane,
    pub side: Side,
    /// Without quiet follows: what everybody but the follower may page through. Stores keep it separately, so that a
    /// page of it neither shows nor costs what is hidden.
    pub open: bool,
}

impl List {
    /// All edges, quiet or not.
    pub const fn new(user: Key, plane: Plane, side: Side) -> Self {
        Self { user, plane, side, open: false }
    }

    pub const fn following(user: Key) -> Self {
        Self::new(user, Plane::Follow, Side::Following)
    }

    pub const fn followers(user: Key) -> Self {
        Self::new(user, Plane::Follow, Side::Followers)
    }

    /// The same list without quiet follows.
    #[must_use]
    pub const fn open(self) -> Self {
        Self { open: true, ..self }
    }

    /// Whether the list shows an edge of its plane with this flag.
    pub const fn shows(&self, quiet: bool) -> bool {
        !(self.open && quiet)
    }

    /// The end of an edge that this list shows.
    pub const fn other(&self, edge: &Edge) -> Key {
        match self.side {
            Side::Following => edge.target,
            Side::Followers => edge.follower,
        }
    }

    pub const fn place(&self, edge: &Edge) -> Place {
        Place { position: edge.value.position, key: self.other(edge) }
    }
}

/// A place in a list. Lists run from the greatest place to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    pub position: Position,
    pub key: Key,
}

/// Some edges of a list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub edges: Vec<Edge>,
    /// Whether the list continues after the last edge.
    pub more: bool,
    /// How many edges the whole list has at this moment.
    pub total: u64,
    /// How many of those are quiet; none of an open list.
    pub quiet: u64,
}
