//! What a checkpoint refers to, brought into memory: users, references to blocks, and rows.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use entourage_model::Side;
use hashbrown::HashMap;

use super::{
    block,
    codec::Corrupt,
    engine::Engine,
    fault::Fault,
    files::{Family, OpenFile, file_name},
    fold,
    lists::BlockRef,
    manifest::{self, FileEntry, Head, Manifest},
    plane::StoredPlane,
    profile::Profile,
    read,
    state::{ListKey, Shard, USERS_PER_GROUP},
};
use entourage_store::disk::read_exact_at;

/// More would wait for each other.
const THREADS_MAX: usize = 8;
/// So much is read with one request at most.
const WINDOW: u64 = 8 << 20;
/// Reading so much that nobody wants takes no longer than asking again.
const GAP: u64 = 64 << 10;

pub(super) fn open_files(engine: &Engine, head: &Head) -> Result<(), Fault> {
    for entry in &head.files {
        let name = file_name(entry.family, entry.number);
        let file = engine.disk.open(&name).map_err(|error| Fault::opening(&name, error))?;
        let found = file.size()?;
        if found != entry.size {
            let what = format!("the file has {found} bytes and should have {}", entry.size);
            return Err(Fault::damaged(name, found.min(entry.size), what));
        }
        let FileEntry { number, family, size, proof } = *entry;
        let (seed, sum) = proof.map_or((0, None), |proof| (proof.seed, Some(proof.sum)));
        engine.files.insert(number, OpenFile { family, file, size, live: 0, seed, sum });
    }
    engine.files.start_numbers_after(head.last_file);
    Ok(())
}

pub(super) fn users(engine: &Engine, manifest: &Manifest) -> Result<(), Fault> {
    engine.state.expect_users(manifest.head.users);
    for (group, block) in manifest.groups.iter().enumerate() {
        let group = group as u32;
        let users = engine.files.read_users(group, *block)?;
        if group * USERS_PER_GROUP != engine.state.users() {
            let name = file_name(Family::Users, block.file());
            return Err(Fault::damaged(name, block.offset(), "a group of users is missing"));
        }
        for (key, profile) in users {
            match profile {
                Profile::Erased(version) => engine.state.add_erased(key, version),
                profile => drop(engine.state.add_user(key, profile)),
            }
        }
    }
    if engine.state.users() != manifest.head.users {
        return Err(Fault::damaged(manifest::name(manifest.head.number), 0, "the number of users does not match"));
    }
    Ok(())
}

/// Sets the references, and counts how much of each file they refer to.
pub(super) fn lists(engine: &Engine, manifest: &Manifest) -> Result<Mixed, Fault> {
    let mut mixed = Mixed::new();
    let mut live: HashMap<u32, u64> = HashMap::new();
    let mut count = |block: BlockRef| *live.entry(block.file()).or_default() += u64::from(block.length());
    manifest.groups.iter().copied().for_each(&mut count);
    let (documents, quotas) = manifest.lists(|list| {
        list.following.iter().chain(list.followers.iter()).for_each(&mut count);
        let sides = Side::BOTH.into_iter().zip(list.mixed).filter(|(_, mixed)| *mixed);
        mixed.extend(sides.map(|(side, _)| ListKey::new(list.plane, side, list.ordinal)));
        let mut shard = engine.state.shard(list.ordinal).write();
        let lists = shard.lists_mut(list.plane, list.ordinal).ok_or(Corrupt("a list of nobody"))?;
        lists.followers_total = u32::try_from(list.followers.total()).unwrap_or(u32::MAX);
        engine.state.add_edges(list.following.total());
        lists.set_blocks(Side::Following, list.following);
        lists.set_blocks(Side::Followers, list.followers);
        Ok(())
    })?;
    for (key, blocks) in documents {
        blocks.iter().map(|bounded| bounded.block).for_each(&mut count);
        engine.state.documents.open(key, blocks);
    }
    let number = manifest.head.number;
    engine.state.quotas.open(quotas).map_err(|corrupt| Fault::corrupt(manifest::name(number), 0, corrupt))?;
    engine.files.set_live(&live);
    Ok(mixed)
}

/// Lists that an older version wrote with quiet follows among the others.
pub(super) type Mixed = Vec<ListKey>;

/// Takes quiet follows out of such lists into lists of their own. The next checkpoint makes it last.
pub(super) fn part(engine: &Engine, mixed: &Mixed) -> Result<(), Fault> {
    for &key in mixed.iter().filter(|key| key.plane() == StoredPlane::Follow) {
        let (owner, side) = (key.ordinal(), key.side());
        let quiet = read::quiet_entries(&engine.state, &engine.files, key)?;
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

/// Every processor takes its share of the shards.
pub(super) fn rows(engine: &Engine) -> Result<(), Fault> {
    let next = AtomicUsize::new(0);
    on_every_processor(|| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(shard) = engine.state.shards().get(index) else { return Ok(()) };
            load_shard(engine, index, &mut shard.write())?;
        }
    })
}

/// A block with the list that it is of.
type Placed = (BlockRef, ListKey);

/// Read in the order they lie on disk: rows are sorted afterwards, so the order in which they are filled is of no account.
fn load_shard(engine: &Engine, index: usize, shard: &mut Shard) -> Result<(), Fault> {
    let mut blocks: Vec<Placed> = Vec::new();
    for (plane, ordinal, lists) in shard.all_lists(index) {
        let key = ListKey::new(plane, Side::Following, ordinal);
        blocks.extend(lists.following.iter().map(|block| (block, key)));
    }
    blocks.sort_unstable_by_key(|(block, _)| (block.file(), block.offset()));
    let mut rest = blocks.as_slice();
    while !rest.is_empty() {
        let (window, others) = rest.split_at(near(rest));
        load_window(engine, shard, window)?;
        rest = others;
    }
    shard.users.iter_mut().for_each(|user| user.follow.row.sort_unstable());
    shard.sparse.values_mut().for_each(|lists| lists.row.sort_unstable());
    Ok(())
}

/// How many of the first blocks lie near each other in one file: they are read with one request.
fn near(blocks: &[Placed]) -> usize {
    let Some((first, _)) = blocks.first() else { return 0 };
    let end = |block: &BlockRef| block.offset() + u64::from(block.length());
    let joins = |pair: &&[Placed]| {
        let (before, next) = (&pair[0].0, &pair[1].0);
        next.file() == first.file() && next.offset() <= end(before) + GAP && end(next) <= first.offset() + WINDOW
    };
    1 + blocks.windows(2).take_while(joins).count()
}

fn load_window(engine: &Engine, shard: &mut Shard, window: &[Placed]) -> Result<(), Fault> {
    let (Some((first, _)), Some((last, _))) = (window.first(), window.last()) else { return Ok(()) };
    let number = first.file();
    // The checkpoint names all files, so it is the checkpoint that is wrong.
    let missing = || Fault::damaged("checkpoint", 0, format!("block file {number} is referred to and not listed"));
    let of = engine.files.get(number).ok_or_else(missing)?;
    let (start, end) = (first.offset(), last.offset() + u64::from(last.length()));
    let bytes = read_exact_at(&*of.file, (end - start) as usize, start)?;
    let mut entries = Vec::new();
    for (block, key) in window {
        let at = (block.offset() - start) as usize;
        let raw = bytes.get(at..at + block.length() as usize).unwrap_or_default();
        entries.clear();
        let seed = fold::owner(*key).seed() ^ of.seed;
        block::decode(seed, raw, block.count as usize, &mut entries).map_err(|corrupt| of.damaged(*block, corrupt))?;
        for &plane in key.plane().rows() {
            if let Some(lists) = shard.lists_mut(plane, key.ordinal()) {
                lists.extend_row(entries.iter().map(|entry| entry.other));
            }
        }
    }
    Ok(())
}

/// Runs the same work on several threads; it shares itself out.
fn on_every_processor(work: impl Fn() -> Result<(), Fault> + Sync) -> Result<(), Fault> {
    let others = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX) - 1;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..others).map(|_| scope.spawn(&work)).collect();
        let own = work();
        // One that panicked has left its share undone, which nothing later would notice.
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or(Err(Fault::ThreadEnded("that loads"))));
        joined.fold(own, Result::and)
    })
}
