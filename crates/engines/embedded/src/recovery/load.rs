//! Loads what a checkpoint refers to: users, block references, and rows.

use std::{
    io,
    num::NonZeroUsize,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, ScopedJoinHandle},
};

use entourage_model::Side;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLockWriteGuard};

use crate::{
    blocks::{
        block,
        files::{FileOfBlocks, OpenFile, file_name},
    },
    checkpoint::{
        fold,
        manifest::{self, FileEntry, Head, Manifest},
    },
    codec::Corrupt,
    engine::Engine,
    fault::Fault,
    reads::edges,
    recovery::users::{self, ErasedUsers},
    state::{ListKey, SHARDS, Shard, lists::BlockRef, plane::StoredPlane, shard_of},
};
use entourage_store::disk::read_exact_at;

/// More would wait for each other.
const THREADS_MAX: usize = 8;
/// Largest single read. Larger buffers go back to the system with every read, and getting them takes longer than reading.
const WINDOW: u64 = 1 << 20;
/// Reading a gap of this size takes no longer than a second request.
const GAP: u64 = 64 << 10;

pub(crate) fn open_files(engine: &Engine, head: &Head) -> Result<(), Fault> {
    for entry in &head.files {
        let name = file_name(entry.family, entry.number);
        let file = engine.disk.open(&name).map_err(|error| Fault::opening(&name, error))?;
        let found = file.size()?;
        if found != entry.size {
            let what = format!("the file has {found} bytes and should have {}", entry.size);
            return Err(Fault::damaged(name, found.min(entry.size), what));
        }
        let FileEntry { number, family, size, proof } = *entry;
        if family.is_read_at_start() {
            file.begin_read();
        }
        let (seed, sum) = proof.map_or((0, None), |proof| (proof.seed, Some(proof.sum)));
        engine.files.insert(number, OpenFile { family, file, size, live: 0, seed, sum });
    }
    engine.files.start_numbers_after(head.last_file);
    Ok(())
}

/// Loads lists, keys and rows. Lists can only be decoded in order; meanwhile other threads fill the key tables and load
/// the rows of shards whose lists are set.
pub(crate) fn lists(engine: &Engine, manifest: &Manifest, erased: &ErasedUsers) -> Result<Mixed, Fault> {
    let (ready, waiting) = mpsc::channel();
    let (rows, next_table) = (Rows::new(engine, waiting), AtomicUsize::new(0));
    let mixed = {
        let keys = engine.state.keys();
        let work = || {
            users::fill_tables(engine, &keys, erased, &next_table);
            rows.load()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (1..processors().max(2)).map(|_| scope.spawn(work)).collect();
            let mixed = references(engine, manifest, ready);
            let own = work();
            mixed.and_then(|mixed| join(threads, own).map(|()| mixed))
        })?
    };
    users::note_erased(engine, erased);
    Ok(mixed)
}

/// Sets the block references, and counts the referenced bytes of each file. Shards whose lists are set are sent to
/// `ready`.
fn references(engine: &Engine, manifest: &Manifest, ready: mpsc::Sender<usize>) -> Result<Mixed, Fault> {
    let mut mixed = Mixed::new();
    let mut live = Live::default();
    manifest.groups.iter().for_each(|block| live.count(*block));
    let mut edges = 0;
    // This version writes all lists of a shard together.
    let mut held: Option<(usize, RwLockWriteGuard<'_, Shard>)> = None;
    let mut left = Left { ready, shards: [false; SHARDS], again: [false; SHARDS] };
    let (documents, quotas) = manifest.lists(|list| {
        list.following.iter().chain(list.followers.iter()).for_each(|block| live.count(block));
        let sides = Side::BOTH.into_iter().zip(list.mixed).filter(|(_, mixed)| *mixed);
        mixed.extend(sides.map(|(side, _)| ListKey::new(list.plane, side, list.ordinal)));
        let index = shard_of(list.ordinal);
        let shard = match &mut held {
            Some((of, shard)) if *of == index => shard,
            other => {
                left.leave(other.take().map(|(index, _)| index));
                &mut other.insert((index, engine.state.shard(list.ordinal).write())).1
            }
        };
        let lists = shard.lists_mut(list.plane, list.ordinal).ok_or(Corrupt("a list of nobody"))?;
        lists.followers_total = u32::try_from(list.followers.total()).unwrap_or(u32::MAX);
        edges += list.following.total();
        lists.set_blocks(Side::Following, list.following);
        lists.set_blocks(Side::Followers, list.followers);
        Ok(())
    })?;
    left.leave(held.take().map(|(index, _)| index));
    left.finish();
    engine.state.add_edges(edges);
    for (key, blocks) in documents {
        blocks.iter().for_each(|bounded| live.count(bounded.block));
        engine.state.documents.open(key, blocks);
    }
    let number = manifest.head.number;
    engine.state.quotas.open(quotas).map_err(|corrupt| Fault::corrupt(manifest::name(number), 0, corrupt))?;
    engine.files.set_live(&live.finish());
    Ok(mixed)
}

/// Shards whose lists were set. A manifest that returns to a shard adds lists to it: that shard is sent again at the
/// end.
struct Left {
    ready: mpsc::Sender<usize>,
    shards: [bool; SHARDS],
    again: [bool; SHARDS],
}

impl Left {
    fn leave(&mut self, index: Option<usize>) {
        let Some(index) = index else { return };
        if std::mem::replace(&mut self.shards[index], true) {
            self.again[index] = true;
        } else {
            self.send(index);
        }
    }

    fn finish(self) {
        (0..SHARDS).filter(|index| self.again[*index]).for_each(|index| self.send(index));
    }

    fn send(&self, index: usize) {
        // The receiver lives at least as long.
        let _ = self.ready.send(index);
    }
}

/// Referenced bytes per file. Consecutive references mostly name the same file, which saves lookups.
#[derive(Default)]
struct Live {
    files: HashMap<u32, u64>,
    file: u32,
    bytes: u64,
}

impl Live {
    fn count(&mut self, block: BlockRef) {
        if block.file() != self.file {
            self.turn_to(block.file());
        }
        self.bytes += u64::from(block.length());
    }

    fn turn_to(&mut self, file: u32) {
        *self.files.entry(self.file).or_default() += std::mem::take(&mut self.bytes);
        self.file = file;
    }

    fn finish(mut self) -> HashMap<u32, u64> {
        self.turn_to(0);
        self.files
    }
}

/// Lists of older formats that include quiet follows.
pub(crate) type Mixed = Vec<ListKey>;

/// Moves quiet follows out of such lists into lists of their own. The next checkpoint makes that permanent.
pub(crate) fn part(engine: &Engine, mixed: &Mixed) -> Result<(), Fault> {
    for &key in mixed.iter().filter(|key| key.plane() == StoredPlane::Follow) {
        let (owner, side) = (key.ordinal(), key.side());
        let quiet = edges::quiet_entries(&engine.state, &engine.files, key)?;
        let apart = ListKey::new(StoredPlane::Quiet, side, owner);
        let mut shard = engine.state.shard(owner).write();
        for &(place, value) in &quiet {
            shard.take_edge(key, place);
            shard.put_edge(apart, place, value, false);
        }
        let count = u32::try_from(quiet.len()).unwrap_or(u32::MAX);
        if let Some(lists) = shard.lists_mut(StoredPlane::Quiet, owner) {
            match side {
                Side::Following => quiet.iter().for_each(|(_, value)| lists.insert(value.other)),
                Side::Followers => lists.followers_total = count,
            }
        }
        if let (Side::Followers, Some(lists)) = (side, shard.lists_mut(StoredPlane::Follow, owner)) {
            lists.followers_total = lists.followers_total.saturating_sub(count);
        }
        engine.state.count(2 * quiet.len() as u64, 0);
    }
    Ok(())
}

/// Loads the rows of shards as they become ready.
struct Rows<'a> {
    engine: &'a Engine,
    waiting: Mutex<mpsc::Receiver<usize>>,
    loaded: [AtomicBool; SHARDS],
}

impl<'a> Rows<'a> {
    fn new(engine: &'a Engine, waiting: mpsc::Receiver<usize>) -> Self {
        Self { engine, waiting: Mutex::new(waiting), loaded: [const { AtomicBool::new(false) }; SHARDS] }
    }

    /// Returns when no more shards will come.
    fn load(&self) -> Result<(), Fault> {
        let mut scratch = Scratch::default();
        loop {
            let Ok(index) = self.waiting.lock().recv() else { return Ok(()) };
            let (Some(shard), Some(loaded)) = (self.engine.state.shards().get(index), self.loaded.get(index)) else {
                continue;
            };
            let mut shard = shard.write();
            if loaded.swap(true, Ordering::Relaxed) {
                shard.clear_rows();
            }
            load_shard(self.engine, index, &mut shard, &mut scratch)?;
        }
    }
}

/// Memory that is used again for the next shard.
#[derive(Default)]
struct Scratch {
    blocks: Vec<(BlockRef, ListKey)>,
    entries: Vec<block::Entry>,
    unsorted: Vec<(StoredPlane, u32)>,
}

/// Reads blocks in disk order: rows are sorted afterwards, so the order in which they are filled does not matter.
fn load_shard(engine: &Engine, index: usize, shard: &mut Shard, scratch: &mut Scratch) -> Result<(), Fault> {
    let Scratch { blocks, entries, unsorted } = scratch;
    blocks.clear();
    for (plane, ordinal, lists) in shard.all_lists(index) {
        let key = ListKey::new(plane, Side::Following, ordinal);
        blocks.extend(lists.following.iter().map(|block| (block, key)));
    }
    // The lists of a shard are written in this order, so that the blocks in each file are mostly sorted.
    blocks.sort_by_key(|(block, _)| block.file());
    for blocks in blocks.chunk_by_mut(|(one, _), (next, _)| one.file() == next.file()) {
        blocks.sort_by_key(|(block, _)| block.offset());
    }
    for blocks in windows(blocks) {
        let window = Window::read(engine, blocks)?;
        for &(block, key) in blocks {
            entries.clear();
            let owner = fold::owner(key).seed();
            window.decode(block, |seed, bytes| block::decode(owner ^ seed, bytes, block.count as usize, entries))?;
            for &plane in key.plane().rows() {
                let Some(lists) = shard.lists_mut(plane, key.ordinal()) else { continue };
                let is_first = lists.row.is_empty();
                lists.row.extend(entries.iter().map(|entry| entry.other));
                if is_first { lists.row.sort() } else { unsorted.push((plane, key.ordinal())) }
            }
        }
    }
    unsorted.sort_unstable();
    unsorted.dedup();
    for (plane, ordinal) in unsorted.drain(..) {
        if let Some(lists) = shard.lists_mut(plane, ordinal) {
            lists.row.sort();
        }
    }
    Ok(())
}

/// Splits blocks, in disk order, into those that are read with one request.
pub(crate) fn windows<T>(blocks: &[(BlockRef, T)]) -> impl Iterator<Item = &[(BlockRef, T)]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let (window, others) = rest.split_at(near(rest));
        rest = others;
        (!window.is_empty()).then_some(window)
    })
}

/// How many of the first blocks are close together in one file.
fn near<T>(blocks: &[(BlockRef, T)]) -> usize {
    let Some((first, _)) = blocks.first() else { return 0 };
    let joins = |pair: &&[(BlockRef, T)]| {
        let (before, next) = (&pair[0].0, &pair[1].0);
        next.file() == first.file() && next.offset() <= end(*before) + GAP && end(*next) <= first.offset() + WINDOW
    };
    1 + blocks.windows(2).take_while(joins).count()
}

const fn end(block: BlockRef) -> u64 {
    block.offset() + block.length() as u64
}

/// A range of one file, with some blocks.
pub(crate) struct Window {
    of: FileOfBlocks,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The blocks are close together and in disk order.
    pub(crate) fn read<T>(engine: &Engine, blocks: &[(BlockRef, T)]) -> Result<Self, Fault> {
        // The checkpoint lists all files, so it is the checkpoint that is wrong.
        let missing =
            |number| Fault::damaged("checkpoint", 0, format!("block file {number} is referred to and not listed"));
        let (Some((first, _)), Some((last, _))) = (blocks.first(), blocks.last()) else { return Err(missing(0)) };
        let of = engine.files.get(first.file()).ok_or_else(|| missing(first.file()))?;
        let start = first.offset();
        let bytes =
            read_exact_at(&*of.file, (end(*last) - start) as usize, start).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => of.damaged(*last, Corrupt("the file ends inside a block")),
                _ => error.into(),
            })?;
        Ok(Self { of, start, bytes })
    }

    /// Decodes a block, given the seed of its file.
    pub(crate) fn decode<T>(
        &self,
        block: BlockRef,
        decode: impl FnOnce(u64, &[u8]) -> Result<T, Corrupt>,
    ) -> Result<T, Fault> {
        let at = (block.offset() - self.start) as usize;
        let raw = self.bytes.get(at..at + block.length() as usize).unwrap_or_default();
        decode(self.of.seed, raw).map_err(|corrupt| self.of.damaged(block, corrupt))
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX)
}

/// Runs `work` on as many threads as there are processors; they share it among themselves.
pub(crate) fn on_every_processor(work: impl Fn() -> Result<(), Fault> + Sync) -> Result<(), Fault> {
    thread::scope(|scope| {
        let threads: Vec<_> = (1..processors()).map(|_| scope.spawn(&work)).collect();
        let own = work();
        join(threads, own)
    })
}

fn join(threads: Vec<ScopedJoinHandle<'_, Result<(), Fault>>>, own: Result<(), Fault>) -> Result<(), Fault> {
    // A thread that panicked left its share undone, which nothing later would notice.
    let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Fault::ThreadEnded("that loads"))));
    joined.fold(own, Result::and)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use entourage_model::{Key, ManualClock, Millis, Operation, Overwrite, UserId, UserPatch};
    use entourage_store::{Store as _, StoreExt as _};
    use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

    use super::*;
    use crate::{Options, Store, random_identity};

    fn open(disk: &CrashDisk) -> Store {
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
        Store::open_as(Arc::new(disk.clone()), "the test disk", Options::tiny(), clock, random_identity).unwrap()
    }

    fn rows_of(store: &Store) -> Vec<(StoredPlane, u32, Vec<u32>)> {
        let shards = store.engine.state.shards().iter().enumerate();
        let mut rows = Vec::new();
        for (index, shard) in shards {
            rows.extend(shard.read().all_lists(index).map(|(plane, user, lists)| (plane, user, lists.row.to_vec())));
        }
        rows.sort();
        rows
    }

    /// For a manifest that does not keep the lists of a shard together.
    #[test]
    fn rows_of_a_shard_that_is_ready_twice_are_there_once() {
        let disk = CrashDisk::new();
        let store = open(&disk);
        block_on(async {
            for number in 0..600 {
                let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
                let put = Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace };
                store.commit(put.into()).await.unwrap();
            }
            for target in 1..400 {
                let follow = |follower| {
                    let quiet = Some(target % 3 == 0);
                    Operation::Follow { follower: Key(follower), target: Key(target), quiet, cap: None, park: false }
                };
                store.commit(follow(0).into()).await.unwrap();
                store.commit(follow(target + 100).into()).await.unwrap();
                let mute = Operation::Mute { actor: Key(256), target: Key(target), expires_at: None };
                let _ = store.commit(mute.into()).await;
            }
        });
        let expected = rows_of(&store);
        block_on(store.close()).unwrap();
        drop(store);
        let store = open(&disk);
        assert_eq!(rows_of(&store), expected);
        let (ready, waiting) = mpsc::channel();
        let rows = Rows::new(&store.engine, waiting);
        let mut left = Left { ready, shards: [false; SHARDS], again: [false; SHARDS] };
        for index in [0, 1, 0, 2, 0, 1] {
            left.leave(Some(index));
        }
        left.finish();
        rows.loaded.iter().for_each(|loaded| loaded.store(true, Ordering::Relaxed));
        rows.load().unwrap();
        assert_eq!(rows_of(&store), expected);
        assert!(block_on(store.verify()).unwrap().is_clean());
    }
}
