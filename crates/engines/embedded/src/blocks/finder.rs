//! In which block of a long following list an edge stands: whoever asks for one edge of such a list reads one block. Made
//! for lists that are asked for again, and forgotten for others.

use std::sync::Arc;

use hashbrown::HashMap;
use quick_cache::{Weighter, sync::Cache};
use smallvec::SmallVec;

use crate::{
    blocks::files::Blocks,
    checkpoint::fold,
    fault::Fault,
    state::{
        ListKey,
        lists::{BlockRef, Bounded},
    },
};

/// Of so many edges it is known where they stand: 16 bytes each.
const EDGES_MAX: u64 = 1_000_000;
/// A list that is longer would push all others out.
const LIST_EDGES_MAX: usize = 250_000;
const LISTS_EXPECTED: usize = 1_000;

/// By whom each edge points at, the place of its block in the list.
struct Finder {
    blocks: Arc<Vec<Bounded>>,
    places: HashMap<u32, u32>,
}

/// What is known of a list.
#[derive(Clone)]
enum Known {
    /// It was asked for once: reading through it costs less than finding out about all of it.
    Asked,
    Found(Arc<Finder>),
}

#[derive(Clone)]
struct Edges;

impl Weighter<ListKey, Known> for Edges {
    fn weight(&self, _: &ListKey, known: &Known) -> u64 {
        match known {
            Known::Asked => 4,
            Known::Found(finder) => finder.places.len() as u64,
        }
    }
}

pub(crate) struct Finders(Cache<ListKey, Known, Edges>);

impl Default for Finders {
    fn default() -> Self {
        Self(Cache::with_weighter(LISTS_EXPECTED, EDGES_MAX, Edges))
    }
}

impl Finders {
    /// The blocks that may have the edge to this one, likely ones first. None if none has.
    pub(crate) fn holding<const N: usize>(
        &self,
        files: Blocks<'_>,
        list: ListKey,
        blocks: &Arc<Vec<Bounded>>,
        target: u32,
    ) -> Result<SmallVec<[BlockRef; N]>, Fault>
    where
        [BlockRef; N]: smallvec::Array<Item = BlockRef>,
    {
        let known = self.0.get(&list);
        let finder = match known {
            Some(Known::Found(finder)) if Arc::ptr_eq(&finder.blocks, blocks) => finder,
            Some(_) if edges(blocks) <= LIST_EDGES_MAX => {
                // All of the list is decoded.
                files.must_wait()?;
                let finder = Arc::new(Finder::new(files, list, blocks)?);
                self.0.insert(list, Known::Found(Arc::clone(&finder)));
                finder
            }
            _ => {
                self.0.insert(list, Known::Asked);
                return Ok(blocks.iter().rev().map(|bounded| bounded.block).collect());
            }
        };
        let place = finder.places.get(&target).and_then(|place| blocks.get(*place as usize));
        Ok(place.map(|bounded| bounded.block).into_iter().collect())
    }
}

fn edges(blocks: &[Bounded]) -> usize {
    blocks.iter().map(|bounded| bounded.block.count as usize).sum()
}

impl Finder {
    fn new(files: Blocks<'_>, list: ListKey, blocks: &Arc<Vec<Bounded>>) -> Result<Self, Fault> {
        let mut places = HashMap::with_capacity(edges(blocks));
        let mut entries = Vec::new();
        for (place, bounded) in blocks.iter().enumerate() {
            entries.clear();
            files.read(fold::owner(list), bounded.block, &mut entries)?;
            places.extend(entries.iter().map(|entry| (entry.other, place as u32)));
        }
        Ok(Self { blocks: Arc::clone(blocks), places })
    }
}
