//! One user's lists in one plane, as memory keeps them: the following row whole, the rest as references to blocks.

use entourage_model::Place;

use crate::adjacency::row;

/// Where a block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockRef {
    /// File number in the upper 24 bits, offset in the lower 40.
    at: u64,
    pub(super) length: u32,
    pub(super) count: u32,
}

const OFFSET_BITS: u32 = 40;

impl BlockRef {
    /// File numbers are below this.
    pub(super) const FILES: u32 = 1 << (u64::BITS - OFFSET_BITS);

    pub(super) const fn new(file: u32, offset: u64, length: u32, count: u32) -> Self {
        Self { at: (file as u64) << OFFSET_BITS | offset, length, count }
    }

    pub(super) const fn file(self) -> u32 {
        (self.at >> OFFSET_BITS) as u32
    }

    pub(super) const fn offset(self) -> u64 {
        self.at & ((1 << OFFSET_BITS) - 1)
    }
}

/// A block with the newest place in it; kept only for lists of several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounded {
    pub(super) newest: Place,
    pub(super) block: BlockRef,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Refs {
    #[default]
    None,
    One(BlockRef),
    /// Oldest first. Boxed: most users have one block, and every user has this enum twice.
    #[allow(clippy::box_collection, reason = "the size of the other variants is what counts")]
    Many(Box<Vec<Bounded>>),
}

/// One side's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) refs: Refs,
    pub(super) quiet: u32,
}

impl Blocks {
    pub(super) fn from_parts(mut bounded: Vec<Bounded>, quiet: u32) -> Self {
        bounded.shrink_to_fit();
        let refs = match bounded.as_slice() {
            [] => Refs::None,
            [one] => Refs::One(one.block),
            _ => Refs::Many(Box::new(bounded)),
        };
        Self { refs, quiet }
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockRef> + '_ {
        let (one, many): (Option<BlockRef>, &[Bounded]) = match &self.refs {
            Refs::None => (None, &[]),
            Refs::One(block) => (Some(*block), &[]),
            Refs::Many(blocks) => (None, blocks),
        };
        one.into_iter().chain(many.iter().map(|bounded| bounded.block))
    }

    /// The blocks that can hold places below `after`, newest first, until they hold `enough` edges; and whether there
    /// are more below them.
    pub(super) fn below(&self, after: Option<Place>, enough: usize) -> (Vec<BlockRef>, bool) {
        let blocks = match &self.refs {
            Refs::None => return (Vec::new(), false),
            Refs::One(block) => return (vec![*block], false),
            Refs::Many(blocks) => blocks,
        };
        let first = after.map_or(blocks.len(), |after| blocks.partition_point(|block| block.newest < after) + 1);
        let mut chosen = Vec::new();
        // The first block may hold places above `after` only.
        let mut sure = 0usize;
        let candidates = blocks.iter().take(first).rev();
        for (index, bounded) in candidates.enumerate() {
            if sure >= enough {
                return (chosen, true);
            }
            chosen.push(bounded.block);
            if index > 0 || after.is_none_or(|after| bounded.newest < after) {
                sure += bounded.block.count as usize;
            }
        }
        (chosen, false)
    }

    /// The one block that can hold a place.
    pub(super) fn holding(&self, place: Place) -> Option<BlockRef> {
        match &self.refs {
            Refs::None => None,
            Refs::One(block) => Some(*block),
            Refs::Many(blocks) => {
                let at = blocks.partition_point(|block| block.newest < place);
                blocks.get(at).map(|bounded| bounded.block)
            }
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.iter().map(|block| u64::from(block.count)).sum()
    }
}

/// What a user has in one plane.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// Ordinals of everyone this user's edges point at, in ascending order.
    pub(super) row: Vec<u32>,
    pub(super) following: Blocks,
    pub(super) followers: Blocks,
    pub(super) followers_total: u32,
    pub(super) following_quiet: u32,
    pub(super) followers_quiet: u32,
}

impl Lists {
    pub(super) fn has(&self, target: u32) -> bool {
        row::has(&self.row, target)
    }

    pub(super) fn insert(&mut self, target: u32) {
        row::insert(&mut self.row, target);
    }

    pub(super) fn remove(&mut self, target: u32) {
        row::remove(&mut self.row, target);
    }

    pub(super) fn side(&self, side: entourage_model::Side) -> &Blocks {
        match side {
            entourage_model::Side::Following => &self.following,
            entourage_model::Side::Followers => &self.followers,
        }
    }

    pub(super) fn side_mut(&mut self, side: entourage_model::Side) -> &mut Blocks {
        match side {
            entourage_model::Side::Following => &mut self.following,
            entourage_model::Side::Followers => &mut self.followers,
        }
    }

    pub(super) fn totals(&self, side: entourage_model::Side) -> (u64, u64) {
        match side {
            entourage_model::Side::Following => (self.row.len() as u64, u64::from(self.following_quiet)),
            entourage_model::Side::Followers => (u64::from(self.followers_total), u64::from(self.followers_quiet)),
        }
    }
}
