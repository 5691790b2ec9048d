//! Compaction: moves live blocks out of files that are mostly dead, and out of small files when there are many.

use std::sync::Arc;

use entourage_model::Side;
use hashbrown::HashSet;

use crate::{
    blocks::files::{BlockFiles, Family, OpenFile},
    checkpoint::{Checkpointer, Writers, fold},
    documents::{DocumentBlock, document_block::CollectionKey},
    engine::Engine,
    fault::Fault,
    state::{
        ListKey, Shard,
        lists::{BlockRef, Refs},
    },
};

/// This many files of a family may have any size.
const FILES_OF_ANY_SIZE: usize = 8;
/// Smaller files are merged whatever the size of the new one.
const SMALL_BYTES: u64 = 64 << 10;
/// Merging makes no file larger than this.
const LARGE_BYTES: u64 = 64 << 30;

impl Checkpointer {
    /// Compacts until there is at most one dead byte for four live ones, and each file of a family is larger than all
    /// smaller ones together. After an erasure (`scrub`), no dead bytes are left in files that can hold personal data.
    pub(crate) fn compact(&mut self, scrub: bool, writers: &mut Writers) -> Result<(), Fault> {
        let engine = Arc::clone(&self.engine);
        let victims = victims(&engine.files.all(), scrub, writers);
        if victims.is_empty() {
            return Ok(());
        }
        let mut mover = Mover { engine: &engine, victims, writers, damage: None };
        for (number, group) in self.groups.iter_mut().enumerate() {
            let block = mover.moved(*group, number as u64, Family::Users)?;
            retire_if_moved(&engine.files, std::mem::replace(group, block), block);
        }
        mover.lists()?;
        mover.documents()?;
        match mover.damage {
            // A damaged block keeps its file, and with it the dead bytes that must go.
            Some(fault) if scrub => Err(fault),
            Some(fault) => {
                tracing::error!(%fault, "a block cannot be moved; it stays where it is");
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// The files to move live blocks out of.
fn victims(all: &[(u32, OpenFile)], scrub: bool, writers: &Writers) -> HashSet<u32> {
    let mut files: Vec<&(u32, OpenFile)> = all.iter().filter(|(_, file)| file.live > 0).collect();
    let mut dead: u64 = files.iter().map(|(_, file)| file.size - file.live).sum();
    let live: u64 = files.iter().map(|(_, file)| file.live).sum();
    // Files that are being written are not compacted.
    files.retain(|(number, _)| !writers.are_at(*number));
    // The product overflows 64 bits for files of some gigabytes.
    let share = |live: u64, size: u64| u128::from(live) * u128::from(size);
    files.sort_by(|(_, a), (_, b)| share(a.live, b.size).cmp(&share(b.live, a.size)));
    let mut victims = HashSet::new();
    for (number, file) in &files {
        if dead <= live / 4 {
            break;
        }
        dead -= file.size - file.live;
        victims.insert(*number);
    }
    if scrub {
        let stained = files.iter().filter(|(_, file)| file.family.is_personal() && file.live < file.size);
        victims.extend(stained.map(|(number, _)| *number));
    }
    for family in Family::ALL {
        merged(&files, family, writers.bytes(family), &mut victims);
    }
    victims
}

/// Each checkpoint creates a file, and all files are open. When there are many, the new file absorbs those no larger
/// than it has become. Sizes then double from file to file: files are few, and a block is seldom moved.
fn merged(files: &[&(u32, OpenFile)], family: Family, written: Option<u64>, victims: &mut HashSet<u32>) {
    let mut sizes: Vec<(u64, u32)> = Vec::new();
    let mut total = written.unwrap_or_default().max(SMALL_BYTES);
    for (number, file) in files.iter().filter(|(_, file)| file.family == family) {
        match victims.contains(number) {
            true => total = total.saturating_add(file.live),
            false => sizes.push((file.live, *number)),
        }
    }
    if sizes.len() < FILES_OF_ANY_SIZE {
        return;
    }
    sizes.sort_unstable();
    for (live, number) in sizes {
        if live > total || total.saturating_add(live) > LARGE_BYTES {
            break;
        }
        total += live;
        victims.insert(number);
    }
}

struct Mover<'a> {
    engine: &'a Engine,
    victims: HashSet<u32>,
    writers: &'a mut Writers,
    /// The first damage found.
    damage: Option<Fault>,
}

impl Mover<'_> {
    /// Where a block is afterwards. A damaged block stays: only intact ones are signed again.
    fn moved(&mut self, block: BlockRef, owner: u64, family: Family) -> Result<BlockRef, Fault> {
        if !self.victims.contains(&block.file()) {
            return Ok(block);
        }
        match self.engine.files.read_for(owner, block, self.writers.seed(self.engine, family)) {
            Ok(bytes) => Ok(self.writers.append(self.engine, family, &bytes, block.count)?),
            Err(fault @ Fault::Damaged { .. }) => {
                self.damage.get_or_insert(fault);
                Ok(block)
            }
            Err(fault) => Err(fault),
        }
    }

    fn lists(&mut self) -> Result<(), Fault> {
        for (index, shard) in self.engine.state.shards().iter().enumerate() {
            let lists = lists_in(&shard.read(), index, &self.victims);
            let mut swaps = Vec::with_capacity(lists.len());
            for (key, old) in lists {
                let family = if key.side() as u8 == 0 { Family::Following } else { Family::Followers };
                let owner = fold::owner(key).seed();
                let mut new = old.clone();
                match &mut new {
                    Refs::One(block) => *block = self.moved(*block, owner, family)?,
                    Refs::Many(None) => {}
                    Refs::Many(Some(blocks)) => {
                        for bounded in Arc::make_mut(blocks) {
                            bounded.block = self.moved(bounded.block, owner, family)?;
                        }
                    }
                }
                swaps.push((key, old, new));
            }
            self.writers.flush()?;
            for (key, old, new) in swaps {
                for (old, new) in old.iter().zip(new.iter()) {
                    retire_if_moved(&self.engine.files, old, new);
                }
                shard.write().set_blocks(key, new);
            }
        }
        Ok(())
    }

    fn documents(&mut self) -> Result<(), Fault> {
        for shard in self.engine.state.documents.shards() {
            let lists: Vec<(CollectionKey, Vec<DocumentBlock>)> = {
                let shard = shard.read();
                let is_victim = |bounded: &DocumentBlock| self.victims.contains(&bounded.block.file());
                let lists = shard.lists.iter().filter(|(_, list)| list.blocks.iter().any(is_victim));
                lists.map(|(key, list)| (*key, list.blocks.clone())).collect()
            };
            let mut swaps = Vec::with_capacity(lists.len());
            for (key, old) in lists {
                let mut new = old.clone();
                for bounded in &mut new {
                    bounded.block = self.moved(bounded.block, key.hash(), Family::Documents)?;
                }
                swaps.push((key, old, new));
            }
            self.writers.flush()?;
            for (key, old, new) in swaps {
                let mut shard = shard.write();
                // If the owner was erased meanwhile, the new blocks are dead instead of the old ones.
                let swapped = match shard.lists.get_mut(&key) {
                    Some(list) if list.blocks == old => {
                        list.blocks.clone_from(&new);
                        true
                    }
                    _ => false,
                };
                for (old, new) in old.iter().zip(&new).filter(|(old, new)| old.block != new.block) {
                    self.engine.files.retire(if swapped { old.block } else { new.block });
                }
            }
        }
        Ok(())
    }
}

fn retire_if_moved(files: &BlockFiles, old: BlockRef, new: BlockRef) {
    if old != new {
        files.retire(old);
    }
}

fn lists_in(shard: &Shard, index: usize, victims: &HashSet<u32>) -> Vec<(ListKey, Refs)> {
    let mut found = Vec::new();
    for (plane, ordinal, lists) in shard.all_lists(index) {
        for side in Side::BOTH {
            if lists.side(side).iter().any(|block| victims.contains(&block.file())) {
                found.push((ListKey::new(plane, side, ordinal), lists.side(side).clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use entourage_store::disk::Disk as _;
    use entourage_testkit::crash_disk::CrashDisk;

    /// A sparse file of this size.
    fn file(disk: &CrashDisk, number: u32, family: Family, size: u64, live: u64) -> (u32, OpenFile) {
        let file = disk.create(&number.to_string()).unwrap();
        file.set_size(size).unwrap();
        (number, OpenFile { family, file, size, live, seed: 0, sum: None })
    }

    #[test]
    fn the_deadest_files_are_chosen_whatever_their_size() {
        let disk = CrashDisk::new();
        let gigabytes = |number: u64| number * 1_000_000_000;
        let all = [
            file(&disk, 1, Family::Following, gigabytes(9), gigabytes(8)),
            file(&disk, 2, Family::Followers, gigabytes(900), gigabytes(100)),
            file(&disk, 3, Family::Followers, gigabytes(950), gigabytes(940)),
        ];
        assert_eq!(victims(&all, false, &Writers::default()), HashSet::from([2]));
        assert_eq!(victims(&all[..1], false, &Writers::default()), HashSet::new());
        // The smallest size whose product overflows 64 bits.
        let all = [4, 5].map(|number| file(&disk, number, Family::Following, 1 << 32, 1 << 32));
        assert_eq!(victims(&all, false, &Writers::default()), HashSet::new());
    }

    #[test]
    fn small_files_are_merged_when_there_are_many() {
        let disk = CrashDisk::new();
        let of = |sizes: &[u64]| -> Vec<(u32, OpenFile)> {
            (1..).zip(sizes).map(|(number, size)| file(&disk, number, Family::Users, *size, *size)).collect()
        };
        let chosen = |sizes: &[u64]| {
            let mut chosen: Vec<u32> = victims(&of(sizes), false, &Writers::default()).into_iter().collect();
            chosen.sort_unstable();
            chosen
        };
        assert_eq!(chosen(&[10; 7]), Vec::<u32>::new(), "few");
        assert_eq!(chosen(&[10; 8]), [1, 2, 3, 4, 5, 6, 7, 8]);
        let small = SMALL_BYTES;
        assert_eq!(chosen(&[3 * small, 9, 7, 9 * small, 20 * small, 1, 2, 3, 4]), [2, 3, 6, 7, 8, 9], "each too large");
        let doubling: Vec<u64> = (1..30).map(|power| small << power).map(|size| size + size / 2).collect();
        assert_eq!(chosen(&doubling), Vec::<u32>::new(), "each is larger than all before it");
    }
}
