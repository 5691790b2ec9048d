//! Loads the users of a checkpoint on all processors: they are read and decoded in parallel, and every key table is
//! filled in one pass.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use entourage_model::{Key, Version};
use parking_lot::Mutex;

use crate::{
    blocks::{
        files::{Family, file_name},
        users,
    },
    checkpoint::manifest::{self, Manifest},
    engine::Engine,
    fault::Fault,
    recovery::load::{Window, on_every_processor, windows},
    state::{
        SHARDS, State, USERS_PER_GROUP,
        key_table::{Scratch, TABLES},
        keys::{self, Keys},
        lists::BlockRef,
        profile::NewProfile,
    },
};

/// Groups of users decoded together: their records fit into the L2 cache while they are distributed, and each shard
/// gets the same number.
const GROUPS: usize = 256;
const PART: usize = GROUPS * USERS_PER_GROUP as usize;
const _: () = assert!(PART.is_multiple_of(SHARDS));
/// Tables filled together: each pass scans all keys, and holds those of this many tables twice.
const TABLES_AT_ONCE: usize = 16;

/// Ordinals ascending.
pub(crate) type ErasedUsers = Vec<(u32, Version)>;

/// Loads the slots and keys of all users. No key is found before [`fill_tables`].
pub(crate) fn users(engine: &Engine, manifest: &Manifest) -> Result<ErasedUsers, Fault> {
    check_groups(manifest)?;
    let mut keys = Keys::unset(manifest.head.users as usize);
    let erased = Mutex::new(ErasedUsers::new());
    let stopped = AtomicBool::new(false);
    {
        let parts = Mutex::new((0..).step_by(PART).zip(manifest.groups.chunks(GROUPS).zip(keys.parts_mut(PART))));
        on_every_processor(|| {
            let stop = StopOthers(&stopped);
            loop {
                let Some((first, (groups, (keys, prints)))) = parts.lock().next() else { break };
                let profiles = decode(engine, first, groups, keys)?;
                prints.iter_mut().zip(keys).for_each(|(print, key)| *print = keys::print(*key));
                let gone =
                    (first..).zip(&profiles).filter_map(|(ordinal, profile)| Some((ordinal, profile.erased_at()?)));
                erased.lock().extend(gone);
                if !push(&engine.state, first, profiles, &stopped) {
                    break;
                }
            }
            std::mem::forget(stop);
            Ok(())
        })?;
    }
    engine.state.set_keys(keys);
    let mut erased = erased.into_inner();
    erased.sort_unstable();
    Ok(erased)
}

/// Stops the other threads if one fails or panics: they would wait for its part.
struct StopOthers<'a>(&'a AtomicBool);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn check_groups(manifest: &Manifest) -> Result<(), Fault> {
    let mut users = 0u64;
    for (group, block) in manifest.groups.iter().enumerate() {
        if users != group as u64 * u64::from(USERS_PER_GROUP) {
            let name = file_name(Family::Users, block.file());
            return Err(Fault::damaged(name, block.offset(), "a group of users is missing"));
        }
        users += u64::from(block.count);
    }
    if users != u64::from(manifest.head.users) {
        return Err(Fault::damaged(manifest::name(manifest.head.number), 0, "the number of users does not match"));
    }
    Ok(())
}

/// The users of some groups, from ordinal `first`.
fn decode(engine: &Engine, first: u32, groups: &[BlockRef], keys: &mut [Key]) -> Result<Vec<NewProfile>, Fault> {
    let mut profiles = Vec::new();
    profiles.resize_with(keys.len(), NewProfile::default);
    let mut blocks: Vec<(BlockRef, u32)> = groups.iter().copied().zip(first / USERS_PER_GROUP..).collect();
    blocks.sort_unstable_by_key(|(block, _)| (block.file(), block.offset()));
    for blocks in windows(&blocks) {
        let window = Window::read(engine, blocks)?;
        for &(block, group) in blocks {
            let at = (group * USERS_PER_GROUP - first) as usize;
            let users = keys.iter_mut().zip(&mut profiles).skip(at);
            window.decode(block, |seed, bytes| {
                let mut users = users;
                users::decode_group(bytes, seed ^ u64::from(group), block.count, |key, profile| {
                    if let Some(user) = users.next() {
                        (*user.0, *user.1) = (key, profile);
                    }
                })
            })?;
        }
    }
    Ok(profiles)
}

/// Appends profiles from ordinal `first` on. In each shard a part waits for the part before it. False if that one will
/// never come.
fn push(state: &State, first: u32, mut profiles: Vec<NewProfile>, stopped: &AtomicBool) -> bool {
    let suspended = profiles.iter().filter(|profile| profile.is_suspended());
    suspended.for_each(|_| state.count_suspended(false, true));
    for (index, shard) in state.shards().iter().enumerate() {
        loop {
            let mut shard = shard.write();
            if shard.users.len() == first as usize / SHARDS {
                let own = profiles.iter_mut().skip(index).step_by(SHARDS);
                shard.push_users(own.map(std::mem::take));
                break;
            }
            drop(shard);
            if stopped.load(Ordering::Relaxed) {
                return false;
            }
            thread::yield_now();
        }
    }
    true
}

/// Fills tables until none is left; threads share them through `next`.
pub(crate) fn fill_tables(engine: &Engine, keys: &[Key], erased: &ErasedUsers, next: &AtomicUsize) {
    let mut scratch = Scratch::default();
    loop {
        let first = next.fetch_add(TABLES_AT_ONCE, Ordering::Relaxed);
        if first >= TABLES {
            return;
        }
        let tables = first..(first + TABLES_AT_ONCE).min(TABLES);
        engine.state.key_table().fill(tables, keys, erased.iter().map(|(ordinal, _)| *ordinal), &mut scratch);
    }
}

/// Call when all tables are filled.
pub(crate) fn note_erased(engine: &Engine, erased: &ErasedUsers) {
    let keys = engine.state.keys();
    for &(ordinal, version) in erased {
        if let Some(key) = keys.get(ordinal as usize) {
            engine.state.note_erased(*key, ordinal, version);
        }
    }
}
