//! Append-only block files. A block is written once and never changed; dead blocks stay until the file is removed.

use std::{
    io,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use hashbrown::HashMap;
use parking_lot::RwLock;
use xxhash_rust::xxh3::Xxh3;

use crate::{
    blocks::{
        block::{self, Entry, Owner},
        finder::Finders,
    },
    codec::Corrupt,
    documents::document_block::{self, CollectionKey, Named},
    fault::Fault,
    state::lists::BlockRef,
};
use entourage_store::disk::{Disk, DiskFile, read_exact_at, try_read_exact_at};

/// What a file's blocks hold. Following blocks have their own files because a start reads all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    Users = 0,
    Following = 1,
    Followers = 2,
    Documents = 3,
}

impl Family {
    pub(crate) const ALL: [Self; 4] = [Self::Users, Self::Following, Self::Followers, Self::Documents];

    /// Whether a start reads all blocks.
    pub(crate) const fn is_read_at_start(self) -> bool {
        matches!(self, Self::Users | Self::Following)
    }

    /// Whether blocks can hold personal data other than follows.
    pub(crate) const fn is_personal(self) -> bool {
        matches!(self, Self::Users | Self::Documents)
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Following => "following",
            Self::Followers => "followers",
            Self::Documents => "documents",
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Edge blocks are many, so their checksums are shorter.
    fn sign(self, seed: u64, bytes: &mut [u8]) {
        match self {
            Self::Following | Self::Followers => block::sign(seed, bytes),
            Self::Users | Self::Documents => document_block::sign(seed, bytes),
        }
    }

    fn checked(self, seed: u64, bytes: &[u8]) -> Result<&[u8], Corrupt> {
        match self {
            Self::Following | Self::Followers => block::checked(seed, bytes),
            Self::Users | Self::Documents => document_block::checked(seed, bytes),
        }
    }
}

pub(crate) fn file_name(family: Family, number: u32) -> String {
    format!("{}-{number:08}.blocks", family.prefix())
}

pub(crate) fn is_block_file(name: &str) -> bool {
    name.ends_with(".blocks")
}

#[derive(Clone)]
pub(crate) struct OpenFile {
    pub(crate) family: Family,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) size: u64,
    /// Bytes of blocks that are still referenced.
    pub(crate) live: u64,
    /// Part of each block's checksum: blocks of another file do not pass. 0 in files of older formats.
    pub(crate) seed: u64,
    /// Checksum of the finished file; none in older formats.
    pub(crate) sum: Option<u64>,
}

/// The block files in use, by number.
#[derive(Default)]
pub(crate) struct BlockFiles {
    open: RwLock<HashMap<u32, OpenFile>>,
    /// A number is reused only after all others: a stale reference must find nothing rather than another file.
    last_number: AtomicU32,
    finders: Finders,
}

impl BlockFiles {
    pub(crate) fn insert(&self, number: u32, file: OpenFile) {
        self.open.write().insert(number, file);
    }

    pub(crate) fn remove(&self, number: u32) {
        self.open.write().remove(&number);
    }

    pub(crate) fn all(&self) -> Vec<(u32, OpenFile)> {
        let mut files: Vec<_> = self.open.read().iter().map(|(number, file)| (*number, file.clone())).collect();
        files.sort_by_key(|(number, _)| *number);
        files
    }

    pub(crate) fn last_number(&self) -> u32 {
        self.last_number.load(Ordering::Relaxed)
    }

    pub(crate) fn start_numbers_after(&self, last: u32) {
        self.last_number.store(last, Ordering::Relaxed);
    }

    /// Only one thread creates files.
    fn next_number(&self) -> io::Result<u32> {
        let open = self.open.read();
        let last = self.last_number();
        let free = (last.saturating_add(1)..BlockRef::FILES).chain(1..BlockRef::FILES).find(|n| !open.contains_key(n));
        let number = free.ok_or_else(|| io::Error::other("there are as many block files as a store can have"))?;
        self.last_number.store(number, Ordering::Relaxed);
        Ok(number)
    }

    pub(crate) fn grow(&self, number: u32, bytes: u64) {
        if let Some(file) = self.open.write().get_mut(&number) {
            file.size += bytes;
            file.live += bytes;
        }
    }

    /// Recovery only: sets how many bytes of each file are referenced.
    pub(crate) fn set_live(&self, live: &HashMap<u32, u64>) {
        for (number, file) in self.open.write().iter_mut() {
            file.live = live.get(number).copied().unwrap_or_default();
        }
    }

    pub(crate) fn retire(&self, block: BlockRef) {
        if let Some(file) = self.open.write().get_mut(&block.file()) {
            file.live = file.live.saturating_sub(u64::from(block.length()));
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<FileOfBlocks> {
        let files = self.open.read();
        let open = files.get(&number)?;
        Some(FileOfBlocks { family: open.family, file: Arc::clone(&open.file), seed: open.seed })
    }

    fn set_sum(&self, number: u32, sum: u64) {
        if let Some(file) = self.open.write().get_mut(&number) {
            file.sum = Some(sum);
        }
    }

    /// For reads that must not wait for the disk.
    pub(crate) const fn in_memory(&self) -> Blocks<'_> {
        Blocks { files: self, may_wait: false }
    }

    /// Reads a block and signs it for a file with another seed. A damaged block is refused.
    pub(crate) fn read_for(&self, owner: u64, block: BlockRef, seed: u64) -> Result<Vec<u8>, Fault> {
        let (mut bytes, of) = Blocks::from(self).raw(block)?;
        of.family.checked(owner ^ of.seed, &bytes).map_err(|corrupt| of.damaged(block, corrupt))?;
        of.family.sign(owner ^ seed, &mut bytes);
        Ok(bytes)
    }
}

/// The block files as one read sees them. A read that must not wait for the disk fails with [`Fault::WouldBlock`]
/// instead.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    files: &'a BlockFiles,
    may_wait: bool,
}

impl<'a> From<&'a BlockFiles> for Blocks<'a> {
    /// For threads that may wait.
    fn from(files: &'a BlockFiles) -> Self {
        Self { files, may_wait: true }
    }
}

impl<'a> Blocks<'a> {
    pub(crate) const fn finders(self) -> &'a Finders {
        &self.files.finders
    }

    /// Guards work that takes long even if all blocks are cached: fails unless the read may wait.
    pub(crate) const fn must_wait(self) -> Result<(), Fault> {
        if self.may_wait { Ok(()) } else { Err(Fault::WouldBlock) }
    }

    /// The unverified bytes of a block, and their file.
    fn raw(self, block: BlockRef) -> Result<(Vec<u8>, FileOfBlocks), Fault> {
        let of = self.files.get(block.file()).ok_or(Fault::Moved)?;
        let read = if self.may_wait { read_exact_at } else { try_read_exact_at };
        match read(&*of.file, block.length() as usize, block.offset()) {
            Ok(bytes) => Ok((bytes, of)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(of.damaged(block, Corrupt("the file ends inside a block")))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Fault::WouldBlock),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads and decodes a block of this owner.
    fn read_with<T>(
        self,
        owner: u64,
        block: BlockRef,
        decode: impl FnOnce(u64, &[u8]) -> Result<T, Corrupt>,
    ) -> Result<T, Fault> {
        let (bytes, of) = self.raw(block)?;
        decode(owner ^ of.seed, &bytes).map_err(|corrupt| of.damaged(block, corrupt))
    }

    pub(crate) fn read_documents(self, key: CollectionKey, block: BlockRef) -> Result<Vec<Named>, Fault> {
        self.read_with(key.hash(), block, |seed, bytes| document_block::decode(seed, bytes, block.count as usize))
    }

    /// Appends the block's edges, newest first, to `entries`.
    pub(crate) fn read(self, owner: Owner, block: BlockRef, entries: &mut Vec<Entry>) -> Result<(), Fault> {
        let decode = |seed, bytes: &[u8]| block::decode(seed, bytes, block.count as usize, entries);
        self.read_with(owner.seed(), block, decode)
    }
}

/// The file of a block.
pub(crate) struct FileOfBlocks {
    pub(crate) family: Family,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) seed: u64,
}

impl FileOfBlocks {
    pub(crate) fn damaged(&self, block: BlockRef, corrupt: Corrupt) -> Fault {
        Fault::corrupt(file_name(self.family, block.file()), block.offset(), corrupt)
    }
}

/// Appends blocks to a new file: readable after `flush`, durable after `finish`.
pub(crate) struct BlockWriter {
    number: u32,
    file: Arc<dyn DiskFile>,
    written: u64,
    buffer: Vec<u8>,
    sum: Xxh3,
}

const BUFFER_BYTES: usize = 1 << 20;

impl BlockWriter {
    pub(crate) fn create(disk: &dyn Disk, files: &BlockFiles, family: Family, seed: u64) -> io::Result<Self> {
        let number = files.next_number()?;
        let file = disk.create(&file_name(family, number))?;
        files.insert(number, OpenFile { family, file: Arc::clone(&file), size: 0, live: 0, seed, sum: None });
        Ok(Self { number, file, written: 0, buffer: Vec::new(), sum: Xxh3::new() })
    }

    /// Readers may use the reference only after the next `flush`.
    pub(crate) fn append(&mut self, files: &BlockFiles, bytes: &[u8], count: u32) -> io::Result<BlockRef> {
        let length = u32::try_from(bytes.len()).ok().and_then(NonZeroU32::new);
        let length = length.ok_or_else(|| io::Error::other("a block has no bytes, or too many"))?;
        let offset = self.written + self.buffer.len() as u64;
        self.buffer.extend_from_slice(bytes);
        files.grow(self.number, bytes.len() as u64);
        let block = BlockRef::new(self.number, offset, length, count);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(block)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_at(&self.buffer, self.written)?;
            // One sync of everything at the end would stall the log, which shares the disk.
            self.file.begin_sync(self.written, self.buffer.len() as u64);
            self.written += self.buffer.len() as u64;
            self.sum.update(&self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, files: &BlockFiles) -> Result<(), Fault> {
        self.flush()?;
        files.set_sum(self.number, self.sum.digest());
        self.file.sync().map_err(Fault::not_durable)
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{Clock, Key, ManualClock, Millis, Operation, Overwrite, UserId, UserPatch};

    use super::*;
    use crate::{Options, Store, random_identity, restore};
    use entourage_store::{Store as _, StoreExt as _};
    use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

    #[test]
    fn numbers_go_round_and_pass_over_those_in_use() {
        let (disk, files) = (CrashDisk::new(), BlockFiles::default());
        let make = || BlockWriter::create(&disk, &files, Family::Users, 0).unwrap().number();
        assert_eq!([make(), make()], [1, 2]);
        files.start_numbers_after(BlockRef::FILES - 2);
        assert_eq!([make(), make()], [BlockRef::FILES - 1, 3]);
        files.remove(1);
        files.start_numbers_after(u32::MAX);
        assert_eq!([make(), make()], [1, 4]);
    }

    fn open(disk: &CrashDisk) -> Store {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(Millis::from_since_2000(800_000_000_000)));
        Store::open_as(Arc::new(disk.clone()), "the test disk", Options::tiny(), clock, random_identity).unwrap()
    }

    async fn write_some(store: &Store, keys: std::ops::Range<i64>) {
        for key in keys.map(Key) {
            let patch = UserPatch { name: Some(Some("somebody".into())), ..UserPatch::default() };
            let put = Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Replace };
            store.commit(put.into()).await.unwrap();
            let follow = Operation::Follow { follower: key, target: Key(0), quiet: None, cap: None, park: false };
            let _ = store.commit(follow.into()).await;
        }
        store.checkpoint().await.unwrap();
    }

    #[test]
    fn a_store_goes_on_behind_the_last_number_and_so_does_what_is_restored() {
        let (disk, saved, restored) = (CrashDisk::new(), CrashDisk::new(), CrashDisk::new());
        let store = open(&disk);
        block_on(async {
            write_some(&store, 0..70).await;
            store.engine.files.start_numbers_after(BlockRef::FILES - 2);
            for round in 1..4 {
                write_some(&store, round * 70..(round + 1) * 70).await;
            }
            store.backup(Arc::new(saved.clone()), |_, _| {}).await.unwrap();
            store.close().await.unwrap();
        });
        drop(store);
        restore(&saved, &restored, |_, _| {}).unwrap();
        for disk in [&disk, &restored] {
            let store = open(disk);
            block_on(async {
                store.engine.files.start_numbers_after(BlockRef::FILES - 1);
                write_some(&store, 300..310).await;
                assert!(store.verify().await.unwrap().is_clean());
                assert_eq!(store.get_counts(Key(0)).await.unwrap().unwrap().followers, 289);
                store.close().await.unwrap();
            });
        }
    }
}
