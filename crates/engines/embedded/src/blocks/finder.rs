//! Index of long following lists: a lookup of one edge reads one block. Built for lists that are looked up repeatedly
//! and kept in a bounded cache.

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

/// Cache capacity in edges, 16 bytes each.
const EDGES_MAX: u64 = 1_000_000;
/// A longer list would evict all others.
const LIST_EDGES_MAX: usize = 250_000;
const LISTS_EXPECTED: usize = 1_000;

/// For each target, the index of its edge's block in the list.
struct Finder {
    blocks: Arc<Vec<Bounded>>,
    places: HashMap<u32, u32>,
}

#[derive(Clone)]
enum Known {
    /// Looked up once: scanning the list costs less than indexing it.
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
    /// The blocks that may have the edge to `target`, likely ones first. Empty if none has it.
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
                // Building the index decodes the whole list.
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
