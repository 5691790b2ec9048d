//! One user's lists in one plane, in memory: the following row in full, the rest as block references. Every user has
//! them, so what is rare is boxed.

use std::{num::NonZeroU32, sync::Arc};

use entourage_model::{Place, Side};

use crate::state::{delta::Direction, profile::Profile, row::Row};
use entourage_store::adjacency::row;

/// The location of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRef {
    /// File number in the upper 24 bits, offset in the lower 40.
    at: u64,
    length: NonZeroU32,
    pub(crate) count: u32,
}

const OFFSET_BITS: u32 = 40;

impl BlockRef {
    /// File numbers are below this.
    pub(crate) const FILES: u32 = 1 << (u64::BITS - OFFSET_BITS);

    pub(crate) const fn new(file: u32, offset: u64, length: NonZeroU32, count: u32) -> Self {
        Self { at: (file as u64) << OFFSET_BITS | offset, length, count }
    }

    pub(crate) const fn file(self) -> u32 {
        (self.at >> OFFSET_BITS) as u32
    }

    pub(crate) const fn offset(self) -> u64 {
        self.at & ((1 << OFFSET_BITS) - 1)
    }

    pub(crate) const fn length(self) -> u32 {
        self.length.get()
    }

    pub(crate) const fn id(self) -> BlockId {
        BlockId(self.at)
    }
}

/// Identifies a block among all that ever were: no place in a file is written twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockId(u64);

/// A block and its newest place; only in lists of several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounded {
    pub(crate) newest: Place,
    pub(crate) block: BlockRef,
}

/// A block that may hold what is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) block: BlockRef,
    /// It holds places above `above`, up to and including `newest`.
    pub(crate) above: Option<Place>,
    pub(crate) newest: Option<Place>,
    /// All its places are after the start.
    pub(crate) is_sure: bool,
}

/// The blocks of one side, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refs {
    One(BlockRef),
    /// Most users have one block or none. Shared: a checkpoint reads those of a long list while others do.
    Many(Option<Arc<Vec<Bounded>>>),
}

// Every user has two: the length is never zero, which tells the variants apart.
const _: () = assert!(size_of::<Refs>() == 16);

impl Default for Refs {
    fn default() -> Self {
        Self::Many(None)
    }
}

impl From<Vec<Bounded>> for Refs {
    fn from(mut bounded: Vec<Bounded>) -> Self {
        match bounded.as_slice() {
            [] => Self::Many(None),
            [one] => Self::One(one.block),
            _ => {
                bounded.shrink_to_fit();
                Self::Many(Some(Arc::new(bounded)))
            }
        }
    }
}

impl Refs {
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Many(None))
    }

    /// Empty unless there are several.
    pub(crate) fn bounded(&self) -> &[Bounded] {
        match self {
            Self::Many(Some(bounded)) => bounded,
            Self::One(_) | Self::Many(None) => &[],
        }
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockRef> + '_ {
        let one = match self {
            Self::One(block) => Some(*block),
            Self::Many(_) => None,
        };
        one.into_iter().chain(self.bounded().iter().map(|bounded| bounded.block))
    }

    /// The blocks that may hold places after the start, in reading order.
    pub(crate) fn behind(
        &self,
        start: Option<Place>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = Candidate> + '_> {
        let blocks = match self {
            Self::One(block) => {
                let candidate = Candidate { block: *block, above: None, newest: None, is_sure: start.is_none() };
                return Box::new(std::iter::once(candidate));
            }
            Self::Many(_) => self.bounded(),
        };
        // The first block may hold only places before the start.
        let candidate = move |(index, is_first): (usize, bool)| {
            let Bounded { newest, block } = *blocks.get(index)?;
            let above = index.checked_sub(1).and_then(|before| blocks.get(before)).map(|before| before.newest);
            let is_sure = !is_first || start.is_none_or(|start| direction == Direction::Down && newest < start);
            Some(Candidate { block, above, newest: Some(newest), is_sure })
        };
        match direction {
            Direction::Down => {
                let end = start.map_or(blocks.len(), |start| blocks.partition_point(|block| block.newest < start) + 1);
                let end = end.min(blocks.len());
                Box::new((0..end).rev().map(move |index| (index, index + 1 == end)).filter_map(candidate))
            }
            Direction::Up => {
                let first = start.map_or(0, |start| blocks.partition_point(|block| block.newest <= start));
                Box::new((first..blocks.len()).map(move |index| (index, index == first)).filter_map(candidate))
            }
        }
    }

    /// The one block that may hold a place.
    pub(crate) fn holding(&self, place: Place) -> Option<BlockRef> {
        match self {
            Self::One(block) => Some(*block),
            Self::Many(_) => {
                let at = self.bounded().partition_point(|block| block.newest < place);
                self.bounded().get(at).map(|bounded| bounded.block)
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.iter().map(|block| u64::from(block.count)).sum()
    }
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Lists {
    /// Ordinals of everyone this user's edges point at, ascending.
    pub(crate) row: Row,
    pub(crate) following: Refs,
    pub(crate) followers: Refs,
    pub(crate) followers_total: u32,
    /// Whether the user may have lists in other planes; set in the follow plane only.
    pub(crate) has_others: bool,
    /// The user's record, in the follow plane only: it fills the cache line.
    pub(crate) profile: Profile,
}

// Every user has one in the follow plane, and it fills a cache line.
const _: () = assert!(size_of::<Lists>() == 64);

impl Lists {
    pub(crate) fn has(&self, target: u32) -> bool {
        row::has(&self.row, target)
    }

    pub(crate) fn insert(&mut self, target: u32) {
        self.row.insert(target);
    }

    pub(crate) fn remove(&mut self, target: u32) {
        self.row.remove(target);
    }

    pub(crate) const fn side(&self, side: Side) -> &Refs {
        match side {
            Side::Following => &self.following,
            Side::Followers => &self.followers,
        }
    }

    pub(crate) const fn has_blocks(&self) -> bool {
        !self.following.is_empty() || !self.followers.is_empty()
    }

    pub(crate) fn set_blocks(&mut self, side: Side, refs: Refs) {
        match side {
            Side::Following => self.following = refs,
            Side::Followers => self.followers = refs,
        }
    }

    pub(crate) fn count(&self, side: Side) -> u64 {
        match side {
            Side::Following => self.row.len() as u64,
            Side::Followers => u64::from(self.followers_total),
        }
    }
}
