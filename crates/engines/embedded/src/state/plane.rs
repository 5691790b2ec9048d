//! Where an edge is stored: by its plane, but quiet follows have lists of their own, so that a page for others need not
//! skip them.

use entourage_model::{EdgeValue, Kind, List, Plane};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StoredPlane {
    /// The row has quiet follows as well: a check reads one row.
    Follow = 0,
    Request = 1,
    Parked = 2,
    Block = 3,
    Mute = 4,
    Quiet = 5,
}

impl StoredPlane {
    pub(crate) const ALL: [Self; 6] = [Self::Follow, Self::Request, Self::Parked, Self::Block, Self::Mute, Self::Quiet];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub(crate) fn of(kind: Kind, value: &EdgeValue) -> Option<Self> {
        match Plane::of(kind, value.state)? {
            Plane::Follow if value.quiet => Some(Self::Quiet),
            plane => Some(Self::from(plane)),
        }
    }

    /// The stored lists that make up a list.
    pub(crate) const fn of_list(list: List) -> &'static [Self] {
        match list.plane {
            Plane::Follow if list.open => &[Self::Follow],
            Plane::Follow => &[Self::Follow, Self::Quiet],
            Plane::Request => &[Self::Request],
            Plane::Parked => &[Self::Parked],
            Plane::Block => &[Self::Block],
            Plane::Mute => &[Self::Mute],
        }
    }

    /// Where live edges of a kind can be.
    pub(crate) const fn of_kind(kind: Kind) -> &'static [Self] {
        match kind {
            Kind::Follow => &[Self::Follow, Self::Quiet, Self::Request, Self::Parked],
            Kind::Block => &[Self::Block],
            Kind::Mute => &[Self::Mute],
        }
    }

    /// The plane whose row has a kind's active edges.
    pub(crate) const fn of_row(kind: Kind) -> Self {
        match kind {
            Kind::Follow => Self::Follow,
            Kind::Block => Self::Block,
            Kind::Mute => Self::Mute,
        }
    }

    pub(crate) const fn plane(self) -> Plane {
        match self {
            Self::Follow | Self::Quiet => Plane::Follow,
            Self::Request => Plane::Request,
            Self::Parked => Plane::Parked,
            Self::Block => Plane::Block,
            Self::Mute => Plane::Mute,
        }
    }

    /// The planes whose rows have the edges of this one.
    pub(crate) const fn rows(self) -> &'static [Self] {
        match self {
            Self::Follow => &[Self::Follow],
            Self::Request => &[Self::Request],
            Self::Parked => &[Self::Parked],
            Self::Block => &[Self::Block],
            Self::Mute => &[Self::Mute],
            Self::Quiet => &[Self::Follow, Self::Quiet],
        }
    }
}

impl From<Plane> for StoredPlane {
    fn from(plane: Plane) -> Self {
        match plane {
            Plane::Follow => Self::Follow,
            Plane::Request => Self::Request,
            Plane::Parked => Self::Parked,
            Plane::Block => Self::Block,
            Plane::Mute => Self::Mute,
        }
    }
}
