//! Folds a frozen delta into a list's blocks. Only blocks that change are rewritten.

use std::io;

use entourage_model::Place;

use crate::{
    blocks::{
        block::{self, BLOCK_EDGES, Entry, Owner},
        files::{BlockFiles, Blocks},
    },
    fault::Fault,
    reads::edges::place,
    state::{
        ListKey, State,
        delta::{Delta, DeltaValue},
        lists::{BlockRef, Bounded, Refs},
    },
};

/// A delta entry; `None` is a tombstone.
type Change = (Place, Option<DeltaValue>);

pub(crate) struct Folded {
    pub(crate) blocks: Refs,
    pub(crate) retired: Vec<BlockRef>,
}

pub(crate) fn owner(key: ListKey) -> Owner {
    Owner { plane: key.plane() as u8, side: key.side() as u8, ordinal: key.ordinal() }
}

/// `seed` is that of the file `append` writes to.
pub(crate) fn fold(
    key: ListKey,
    old: &Refs,
    delta: &Delta,
    state: &State,
    files: &BlockFiles,
    seed: u64,
    mut append: impl FnMut(&[u8], u32) -> io::Result<BlockRef>,
) -> Result<Folded, Fault> {
    let changes = delta.changes();
    let mut work = Work { key, seed, bounded: Vec::new(), retired: Vec::new() };
    let mut rest = changes.as_slice();
    if let Refs::One(block) = old {
        work.rewrite(*block, rest, state, files, &mut append)?;
        rest = &[];
    }
    let blocks = old.bounded();
    for (index, bounded) in blocks.iter().enumerate() {
        let last = index + 1 == blocks.len();
        let own = rest.partition_point(|(place, _)| *place <= bounded.newest);
        // Edges newer than all others join the last block unless it is full.
        let joins = last && (own > 0 || (bounded.block.count as usize) < BLOCK_EDGES);
        let own = if joins { rest.len() } else { own };
        let (mine, others) = rest.split_at(own);
        rest = others;
        if mine.is_empty() {
            work.bounded.push(*bounded);
        } else {
            work.rewrite(bounded.block, mine, state, files, &mut append)?;
        }
    }
    work.write(rest.iter().filter_map(standing).collect(), &mut append)?;
    let Work { bounded, retired, .. } = work;
    Ok(Folded { blocks: bounded.into(), retired })
}

struct Work {
    key: ListKey,
    /// Seed of the file that blocks go to.
    seed: u64,
    bounded: Vec<Bounded>,
    retired: Vec<BlockRef>,
}

impl Work {
    fn rewrite(
        &mut self,
        old: BlockRef,
        changes: &[Change],
        state: &State,
        files: &BlockFiles,
        append: &mut impl FnMut(&[u8], u32) -> io::Result<BlockRef>,
    ) -> Result<(), Fault> {
        let mut entries = Vec::with_capacity(old.count as usize);
        Blocks::from(files).read(owner(self.key), old, &mut entries)?;
        self.retired.push(old);
        // Held for one block only: new users wait for this lock.
        let keys = state.keys();
        let mut merged: Vec<(Place, Entry)> = Vec::with_capacity(entries.len() + changes.len());
        let mut changes = changes.iter().peekable();
        for entry in entries.iter().rev() {
            let at = place(&keys, entry)?;
            while let Some(change) = changes.next_if(|(place, _)| *place < at) {
                merged.extend(standing(change));
            }
            match changes.next_if(|(place, _)| *place == at) {
                Some(change) => merged.extend(standing(change)),
                None => merged.push((at, *entry)),
            }
        }
        merged.extend(changes.filter_map(standing));
        drop(keys);
        self.write(merged, append)
    }

    /// Fills blocks from the oldest edge on; the newest block takes the rest.
    fn write(
        &mut self,
        entries: Vec<(Place, Entry)>,
        append: &mut impl FnMut(&[u8], u32) -> io::Result<BlockRef>,
    ) -> Result<(), Fault> {
        for chunk in entries.chunks(BLOCK_EDGES) {
            let Some((newest, _)) = chunk.last() else { continue };
            let newest_first: Vec<Entry> = chunk.iter().rev().map(|(_, entry)| *entry).collect();
            let bytes = block::encode(owner(self.key).seed() ^ self.seed, &newest_first);
            let block = append(&bytes, chunk.len() as u32)?;
            self.bounded.push(Bounded { newest: *newest, block });
        }
        Ok(())
    }
}

fn standing((place, word): &Change) -> Option<(Place, Entry)> {
    word.map(|value| (*place, value.entry(*place)))
}
