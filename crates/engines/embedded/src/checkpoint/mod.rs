//! The checkpoint writer: folds frozen deltas into blocks, compacts, writes the manifest, and removes files it no
//! longer refers to. A failed attempt leaves everything readable and is resumed.

pub(crate) mod compact;
pub(crate) mod fold;
pub(crate) mod manifest;

use std::{
    num::NonZeroU32,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use entourage_model::Side;
use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;

use crate::{
    blocks::{
        files::{BlockFiles, BlockWriter, Family, OpenFile, file_name},
        users,
    },
    checkpoint::manifest::{FileEntry, Head, ListEntry, Proof},
    documents::{self, document_block::CollectionKey},
    engine::{Engine, Frozen},
    fault::Fault,
    identity, log,
    state::{
        ListKey, Shard, USERS_PER_GROUP,
        delta::Delta,
        lists::{BlockRef, Lists},
        plane::StoredPlane,
    },
};

/// Lists swapped under one lock, to keep readers' waits short.
const SWAP_LISTS: usize = 16;
const LOWEST_PRIORITY: i32 = 19;
const RETRY: Duration = Duration::from_secs(1);
/// Damage does not go away by itself.
const RETRY_DAMAGED: Duration = Duration::from_secs(60);

pub(crate) struct Checkpointer {
    pub(crate) engine: Arc<Engine>,
    number: u64,
    /// The block of each group of users.
    pub(crate) groups: Vec<BlockRef>,
    /// Files of a failed attempt, continued by the next: blocks in them may already be referenced.
    writers: Option<Writers>,
    /// Files to remove after the next manifest; the current one may refer to them.
    obsolete: Vec<String>,
    /// Where the log begins by the last checkpoint; earlier segments are removed.
    first_segment: Option<u64>,
    /// The users of this checkpoint are written; a retry does not repeat that.
    has_users: bool,
    /// Lists that could not be folded because of damage. A retry starts with a dry run: repeated failures must not fill
    /// the disk.
    damaged_lists: HashSet<ListKey>,
    damaged_collections: HashSet<CollectionKey>,
}

/// Appends a block with this number of entries.
type Append<'a> = dyn FnMut(&[u8], u32) -> std::io::Result<BlockRef> + 'a;

/// The files of one attempt, created when first needed.
#[derive(Default)]
pub(crate) struct Writers {
    writers: [Option<BlockWriter>; Family::ALL.len()],
    /// Input of the files' seeds, never the same for two checkpoints.
    salt: [u64; 3],
}

impl Writers {
    fn new(frozen: &Frozen, number: u64) -> Self {
        Self { salt: [number, frozen.sequence.0, frozen.version.bits()], ..Self::default() }
    }

    /// Part of the checksum of every block in this attempt's file of a family.
    pub(crate) fn seed(&self, engine: &Engine, family: Family) -> u64 {
        let [number, sequence, version] = self.salt;
        identity::seed(&engine.identity, b"EGBL", &[family as u64, number, sequence, version])
    }

    pub(crate) fn append(
        &mut self,
        engine: &Engine,
        family: Family,
        bytes: &[u8],
        count: u32,
    ) -> std::io::Result<BlockRef> {
        let seed = self.seed(engine, family);
        let slot = &mut self.writers[family as usize];
        if slot.is_none() {
            *slot = Some(BlockWriter::create(&*engine.disk, &engine.files, family, seed)?);
        }
        match slot {
            Some(writer) => writer.append(&engine.files, bytes, count),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }

    /// Runs `work`, whose blocks are dead if it fails. With `is_tried`, a dry run comes first, so that a failure writes
    /// nothing.
    fn all_or_nothing<T>(
        &mut self,
        engine: &Engine,
        family: Family,
        is_tried: bool,
        mut work: impl FnMut(&mut Append<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if is_tried {
            work(&mut |_, count| Ok(BlockRef::new(0, 0, NonZeroU32::MIN, count)))?;
        }
        let mut written = Vec::new();
        let done = work(&mut |bytes, count| {
            let block = self.append(engine, family, bytes, count)?;
            written.push(block);
            Ok(block)
        });
        done.inspect_err(|_| written.iter().for_each(|block| engine.files.retire(*block)))
    }

    /// Size of the file of a family so far.
    pub(crate) fn bytes(&self, family: Family) -> Option<u64> {
        self.writers[family as usize].as_ref().map(BlockWriter::bytes)
    }

    /// Whether a file is being written.
    pub(crate) fn are_at(&self, number: u32) -> bool {
        self.writers.iter().flatten().any(|writer| writer.number() == number)
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        self.writers.iter_mut().flatten().try_for_each(BlockWriter::flush)
    }

    fn finish(self, files: &BlockFiles) -> Result<(), Fault> {
        self.writers.into_iter().flatten().try_for_each(|writer| writer.finish(files))
    }
}

impl Checkpointer {
    pub(crate) fn new(engine: Arc<Engine>, number: u64, groups: Vec<BlockRef>) -> Self {
        Self {
            engine,
            number,
            groups,
            writers: None,
            obsolete: Vec::new(),
            first_segment: None,
            has_users: false,
            damaged_lists: HashSet::new(),
            damaged_collections: HashSet::new(),
        }
    }

    pub(crate) fn run(mut self) {
        let mut is_low = false;
        loop {
            let frozen = {
                let mut state = self.engine.checkpoint.lock();
                loop {
                    if let Some(frozen) = &state.frozen {
                        break frozen.clone();
                    }
                    if self.engine.is_stopping() {
                        return;
                    }
                    self.engine.metrics.sizes(&self.engine);
                    self.engine.checkpoint_changed.wait_for(&mut state, Duration::from_millis(200));
                }
            };
            // Writers and readers come first; a checkpoint takes the CPU time they leave, or competes where that is not
            // allowed. Not set at the start: an idle thread ends sooner at normal priority.
            if !std::mem::replace(&mut is_low, true) {
                let thread = rustix::thread::gettid();
                let _ = rustix::process::setpriority_process(Some(thread), LOWEST_PRIORITY);
            }
            entourage_store::fail_point("checkpoint");
            let started = Instant::now();
            let result = self.attempt(&frozen).inspect_err(|fault| {
                // What was to be synced may be lost, including blocks referenced from memory.
                if matches!(fault, Fault::NotDurable(_)) {
                    self.engine.poison(fault);
                }
            });
            let mut state = self.engine.checkpoint.lock();
            state.attempts += 1;
            match result {
                Ok(()) => {
                    self.engine.state.thaw();
                    state.covered = frozen.sequence;
                    state.frozen = None;
                    state.last_error = None;
                    state.pace.ended();
                    self.engine.metrics.checkpoint(&self.engine, started.elapsed());
                }
                Err(fault) => {
                    state.last_error = Some(fault.clone());
                    self.engine.metrics.failed_checkpoint();
                    self.engine.checkpoint_changed.notify_all();
                    // No retry: a start recovers from what is on disk now.
                    if self.engine.poisoned().is_err() {
                        return;
                    }
                    let what = "a checkpoint failed and will be tried again; the log keeps everything";
                    match fault {
                        Fault::Damaged { .. } => tracing::error!(%fault, what),
                        _ => tracing::warn!(%fault, what),
                    }
                }
            }
            self.engine.checkpoint_changed.notify_all();
            if state.frozen.is_some() {
                if self.engine.is_stopping() {
                    return;
                }
                let is_damaged = matches!(state.last_error, Some(Fault::Damaged { .. }));
                let pause = if is_damaged { RETRY_DAMAGED } else { RETRY };
                self.engine.checkpoint_changed.wait_for(&mut state, pause);
            }
        }
    }

    fn attempt(&mut self, frozen: &Frozen) -> Result<(), Fault> {
        self.engine.poisoned()?;
        let mut writers = self.writers.take().unwrap_or_else(|| Writers::new(frozen, self.number + 1));
        let folded = self.fold(frozen, &mut writers).and_then(|()| self.compact(frozen.scrub, &mut writers));
        if let Err(fault) = folded.and_then(|()| Ok(writers.flush()?)) {
            self.writers = Some(writers);
            return Err(fault);
        }
        writers.finish(&self.engine.files)?;
        // Another thread may have poisoned the engine meanwhile.
        self.engine.poisoned()?;
        self.write_manifest(frozen)?;
        self.has_users = false;
        self.damaged_lists.clear();
        self.damaged_collections.clear();
        self.clean(frozen)
    }

    /// Folds everything frozen into blocks. Damaged lists are skipped and reported at the end.
    fn fold(&mut self, frozen: &Frozen, writers: &mut Writers) -> Result<(), Fault> {
        if !self.has_users {
            self.write_users(frozen, writers)?;
            self.has_users = true;
        }
        let deltas = self.fold_deltas(writers)?;
        let documents = self.fold_documents(writers)?;
        deltas.or(documents).map_or(Ok(()), Err)
    }

    fn write_users(&mut self, frozen: &Frozen, writers: &mut Writers) -> Result<(), Fault> {
        let engine = Arc::clone(&self.engine);
        let mut groups: Vec<u32> =
            frozen.groups.iter().copied().filter(|group| group * USERS_PER_GROUP < frozen.users).collect();
        groups.sort_unstable();
        let seed = writers.seed(&engine, Family::Users);
        for group in groups {
            let (bytes, count) = users::encode_group(&engine.state, group, frozen.users, u64::from(group) ^ seed);
            let block = writers.append(&engine, Family::Users, &bytes, count)?;
            match self.groups.get_mut(group as usize) {
                Some(old) => engine.files.retire(std::mem::replace(old, block)),
                None => self.groups.push(block),
            }
        }
        // Groups of users that came after the freeze belong to the next checkpoint.
        let later = frozen.groups.iter().copied().filter(|group| group * USERS_PER_GROUP >= frozen.users);
        engine.state.mark_dirty(later);
        Ok(())
    }

    /// Returns the first damage that kept a list from being folded.
    fn fold_deltas(&mut self, writers: &mut Writers) -> Result<Option<Fault>, Fault> {
        let engine = Arc::clone(&self.engine);
        let mut damage = None;
        for shard in engine.state.shards() {
            let frozen = Arc::clone(&shard.read().frozen);
            let mut deltas: Vec<(ListKey, &Delta)> = frozen.iter().map(|(key, delta)| (*key, delta)).collect();
            deltas.sort_unstable_by_key(|(key, _)| *key);
            let mut swaps: Vec<(ListKey, fold::Folded)> = Vec::with_capacity(deltas.len());
            let mut left: HashMap<ListKey, Delta> = HashMap::new();
            for (key, delta) in deltas {
                let old = {
                    let shard = shard.read();
                    let lists = shard.lists(key.plane(), key.ordinal());
                    lists.map(|lists| lists.side(key.side()).clone()).unwrap_or_default()
                };
                let family = if key.side() as u8 == 0 { Family::Following } else { Family::Followers };
                let seed = writers.seed(&engine, family);
                let folded = writers.all_or_nothing(
                    &engine,
                    family,
                    self.damaged_lists.contains(&key),
                    |append: &mut Append<'_>| fold::fold(key, &old, delta, &engine.state, &engine.files, seed, append),
                );
                match folded {
                    Ok(folded) => swaps.push((key, folded)),
                    Err(fault @ Fault::Damaged { .. }) => {
                        damage.get_or_insert(fault);
                        self.damaged_lists.insert(key);
                        left.insert(key, delta.clone());
                    }
                    Err(fault) => return Err(fault),
                }
            }
            // References are valid only once their bytes are in the file.
            writers.flush()?;
            let mut swaps = swaps.into_iter().peekable();
            while swaps.peek().is_some() {
                let mut shard = shard.write();
                for (key, folded) in swaps.by_ref().take(SWAP_LISTS) {
                    shard.set_blocks(key, folded.blocks);
                    folded.retired.iter().for_each(|block| engine.files.retire(*block));
                }
            }
            // The blocks have the same edges now. The frozen deltas are freed outside the lock.
            drop(std::mem::replace(&mut shard.write().frozen, Arc::new(left)));
            drop(frozen);
        }
        Ok(damage)
    }

    /// As [`Self::fold_deltas`].
    fn fold_documents(&mut self, writers: &mut Writers) -> Result<Option<Fault>, Fault> {
        let engine = Arc::clone(&self.engine);
        let mut damage = None;
        let documents = &engine.state.documents;
        documents.take_retired().into_iter().for_each(|block| engine.files.retire(block));
        let begins = engine.options.history_begins(engine.clock.now());
        for shard in documents.shards() {
            let frozen = Arc::clone(&shard.read().frozen);
            let mut deltas: Vec<_> = frozen.iter().collect();
            deltas.sort_unstable_by_key(|(key, _)| **key);
            let mut swaps = Vec::with_capacity(deltas.len());
            let mut left = HashMap::new();
            for (key, delta) in deltas {
                let old = match shard.read().lists.get(key) {
                    Some(list) if !list.forgotten => list.blocks.clone(),
                    _ => continue,
                };
                let seed = writers.seed(&engine, Family::Documents);
                let is_damaged = self.damaged_collections.contains(key);
                let folded = writers.all_or_nothing(&engine, Family::Documents, is_damaged, |append| {
                    documents::fold(*key, &old, delta, &engine.files, seed, append)
                });
                match folded {
                    Ok((blocks, retired)) => swaps.push((*key, old, blocks, retired)),
                    Err(fault @ Fault::Damaged { .. }) => {
                        damage.get_or_insert(fault);
                        self.damaged_collections.insert(*key);
                        left.insert(*key, delta.clone());
                    }
                    Err(fault) => return Err(fault),
                }
            }
            writers.flush()?;
            for (key, old, blocks, retired) in swaps {
                let mut shard = shard.write();
                let list = shard.lists.get_mut(&key).filter(|list| !list.forgotten);
                let dead = match list {
                    Some(list) => {
                        list.blocks = blocks;
                        retired
                    }
                    // Erased meanwhile: the old blocks are already retired, and nothing refers to the new ones.
                    None => {
                        blocks.iter().map(|new| new.block).filter(|new| old.iter().all(|o| o.block != *new)).collect()
                    }
                };
                dead.into_iter().for_each(|block| engine.files.retire(block));
            }
            documents.thaw(shard, left);
            documents.drop_old_history(shard, &engine.files, begins);
        }
        Ok(damage)
    }

    fn write_manifest(&mut self, frozen: &Frozen) -> Result<(), Fault> {
        let engine = Arc::clone(&self.engine);
        let number = self.number + 1;
        let ttl = engine.options.idempotency_millis();
        let written = engine.idempotency.checkpoint(&*engine.disk, engine.epoch(), number, engine.clock.now(), ttl)?;
        // Removed after the next checkpoint that completes, this one or a later one.
        self.obsolete.extend(written.obsolete);
        let mut documents = Vec::new();
        for shard in engine.state.documents.shards() {
            let shard = shard.read();
            let with_blocks = shard.lists.iter().filter(|(_, list)| !list.blocks.is_empty());
            documents.extend(with_blocks.map(|(key, list)| (*key, list.blocks.clone())));
        }
        documents.sort_unstable_by_key(|(key, _)| *key);
        let files = engine.files.all().into_iter().filter(|(_, file)| file.live > 0);
        let entry = |(number, file): (u32, OpenFile)| {
            let proof = file.sum.map(|sum| Proof { seed: file.seed, sum });
            FileEntry { number, family: file.family, size: file.size, proof }
        };
        let first_segment = Some(self.first_kept(frozen));
        let head = Head {
            number,
            sequence: frozen.sequence,
            version: frozen.version,
            segment: frozen.segment,
            first_segment,
            users: frozen.users,
            last_file: engine.files.last_number(),
            files: files.map(entry).collect(),
            idempotency: written.runs,
        };
        // The names of new files must be durable before the manifest refers to them.
        engine.disk.sync_folder().map_err(Fault::not_durable)?;
        // Only this thread moves blocks, so this count is what will be written.
        let shards = || engine.state.shards().iter().enumerate();
        let count = |(index, shard): (usize, &RwLock<Shard>)| {
            shard.read().all_lists(index).filter(|(.., lists)| lists.has_blocks()).count() as u64
        };
        let count = shards().map(count).sum();
        let mut writer = manifest::Writer::begin(&*engine.disk, engine.epoch(), &head, &self.groups, count)?;
        let mut some = Vec::new();
        for (index, shard) in shards() {
            some.extend(shard.read().all_lists(index).filter(|(.., lists)| lists.has_blocks()).map(list_entry));
            // Outside the lock: writers must not wait for the file.
            some.drain(..).try_for_each(|entry| writer.list(&entry))?;
        }
        writer.finish(&documents, &engine.state.quotas.encode(engine.clock.now()))?;
        if self.number > 0 {
            self.obsolete.push(manifest::name(self.number));
        }
        self.number = number;
        engine.checkpoint_number.store(number, Ordering::Release);
        self.first_segment = first_segment;
        Ok(())
    }

    /// Removes files that no manifest refers to, and log segments past retention. What cannot be removed now is removed
    /// later, or at the next start.
    fn clean(&mut self, frozen: &Frozen) -> Result<(), Fault> {
        let engine = Arc::clone(&self.engine);
        let _removing = engine.removing.lock();
        if engine.holds.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        for (number, file) in engine.files.all() {
            if file.live == 0 {
                engine.files.remove(number);
                self.obsolete.push(file_name(file.family, number));
            }
        }
        let mut segments = engine.segments.lock();
        while let Some(gone) = segments.all.pop_front_if(|segment| Some(segment.number) < self.first_segment) {
            self.obsolete.push(log::segment_name(gone.number));
        }
        drop(segments);
        self.obsolete.retain(|name| engine.disk.remove(name).is_err());
        if frozen.scrub || frozen.drop_log {
            // Data of an erased user must not reappear after a power loss.
            engine.disk.sync_folder().map_err(Fault::not_durable)?;
        }
        Ok(())
    }

    /// The first segment not past retention. Never one after the segment the checkpoint was taken in, even if that is
    /// full by now: recovery begins there.
    fn first_kept(&self, frozen: &Frozen) -> u64 {
        let options = &self.engine.options;
        let now = self.engine.clock.now();
        let segments = self.engine.segments.lock();
        let mut bytes = segments.bytes();
        for segment in &segments.all {
            let old = segment.newest.plus(options.retention_millis()) < now;
            let large = bytes > options.log_retain_bytes;
            if segment.number >= frozen.segment || !(old || large || frozen.drop_log) {
                return segment.number;
            }
            bytes -= segment.size;
        }
        frozen.segment.max(1)
    }
}

fn list_entry((plane, ordinal, lists): (StoredPlane, u32, &Lists)) -> ListEntry {
    let [following, followers] = Side::BOTH.map(|side| lists.side(side).clone());
    ListEntry { plane, ordinal, following, followers, mixed: [false; 2] }
}
