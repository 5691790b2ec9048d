//! The checkpoint file: the sequence it covers, where every block is, the size and checksum of every file. Written
//! under a temporary name, synced, then renamed: it is complete or absent.

use std::{num::NonZeroU32, sync::Arc};

use entourage_model::{Key, Place, Sequence, Side, Version};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::{
    blocks::files::Family,
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    documents::{
        DocumentBlock,
        document_block::{Collection, CollectionKey},
    },
    fault::Fault,
    state::{
        lists::{BlockRef, Bounded, Refs},
        plane::StoredPlane,
    },
};
use entourage_store::disk::{Disk, DiskFile, read_all};

/// 2: documents; erased users; more flags in edge blocks. 3: quiet follows in separate lists; ids of erased users as
/// documents. 4: sizes and checksums of all files; where the log begins; block checksums depend on the file. 5: quotas.
pub(crate) const FORMAT: u16 = 5;
const MAGIC: &[u8; 4] = b"EGCP";
const PREFIX: &str = "checkpoint-";
const UNFINISHED: &str = "unfinished-checkpoint";
/// Bytes per write.
const PIECE: usize = 1 << 20;

pub(crate) fn name(number: u64) -> String {
    format!("{PREFIX}{number:012}")
}

pub(crate) fn parse_name(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

pub(crate) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) number: u32,
    pub(crate) family: Family,
    pub(crate) size: u64,
    pub(crate) proof: Option<Proof>,
}

/// What a block file is verified by; none in older formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// Part of each block's checksum.
    pub(crate) seed: u64,
    /// Checksum of the whole file.
    pub(crate) sum: u64,
}

/// A file of idempotency records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunEntry {
    pub(crate) name: String,
    /// Size and checksum of the file; unknown before format 4.
    pub(crate) whole: Option<(u64, u64)>,
}

/// Both sides of one user's lists in one plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListEntry {
    pub(crate) plane: StoredPlane,
    pub(crate) ordinal: u32,
    pub(crate) following: Refs,
    pub(crate) followers: Refs,
    /// The sides that include quiet follows, as in older formats.
    pub(crate) mixed: [bool; 2],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) sequence: Sequence,
    pub(crate) version: Version,
    /// The log segment that took the writes when the state was frozen; 0 if there was none.
    pub(crate) segment: u64,
    /// The first log segment that is kept; unknown before format 4.
    pub(crate) first_segment: Option<u64>,
    pub(crate) users: u32,
    pub(crate) last_file: u32,
    pub(crate) files: Vec<FileEntry>,
    pub(crate) idempotency: Vec<RunEntry>,
}

impl Default for Head {
    /// A store without a checkpoint: nothing is covered, and the log begins with its first segment.
    fn default() -> Self {
        Self {
            number: 0,
            sequence: Sequence::ZERO,
            version: Version::ZERO,
            segment: 0,
            first_segment: Some(1),
            users: 0,
            last_file: 0,
            files: Vec::new(),
            idempotency: Vec::new(),
        }
    }
}

/// The blocks of each collection.
pub(crate) type Collections = Vec<(CollectionKey, Vec<DocumentBlock>)>;

/// Streams a checkpoint to disk: there are as many lists as users, too many for a second copy in memory.
pub(crate) struct Writer<'a> {
    disk: &'a dyn Disk,
    file: Arc<dyn DiskFile>,
    number: u64,
    /// Lists still to be written.
    lists: u64,
    cursors: [Cursor; 2],
    before: i64,
    buffer: Vec<u8>,
    written: u64,
    sum: Xxh3,
}

impl<'a> Writer<'a> {
    pub(crate) fn begin(
        disk: &'a dyn Disk,
        epoch: u64,
        head: &Head,
        groups: &[BlockRef],
        lists: u64,
    ) -> Result<Self, Fault> {
        let mut buffer = Vec::with_capacity(PIECE + PIECE / 8);
        put_head(&mut buffer, head, groups);
        put_varint(&mut buffer, lists);
        let (file, number, sum) = (disk.create(UNFINISHED)?, head.number, Xxh3::with_seed(epoch));
        let cursors = [Cursor::default(); 2];
        Ok(Self { disk, file, number, lists, cursors, before: 0, buffer, written: 0, sum })
    }

    pub(crate) fn list(&mut self, list: &ListEntry) -> Result<(), Fault> {
        self.lists = self.lists.checked_sub(1).ok_or_else(|| self.miscounted())?;
        self.buffer.push(list.plane as u8);
        put_signed(&mut self.buffer, i64::from(list.ordinal) - self.before);
        self.before = i64::from(list.ordinal);
        put_blocks(&mut self.buffer, &list.following, &mut self.cursors[Side::Following as usize]);
        put_blocks(&mut self.buffer, &list.followers, &mut self.cursors[Side::Followers as usize]);
        if self.buffer.len() >= PIECE { self.flush() } else { Ok(()) }
    }

    /// `quotas` is opaque here.
    pub(crate) fn finish(mut self, documents: &Collections, quotas: &[u8]) -> Result<(), Fault> {
        if self.lists > 0 {
            return Err(self.miscounted());
        }
        put_documents(&mut self.buffer, documents);
        put_bytes(&mut self.buffer, quotas);
        self.sum.update(&self.buffer);
        self.buffer.extend_from_slice(&self.sum.digest().to_le_bytes());
        self.file.write_at(&self.buffer, self.written)?;
        self.file.sync().map_err(Fault::not_durable)?;
        self.disk.rename(UNFINISHED, &name(self.number))?;
        self.disk.sync_folder().map_err(Fault::not_durable)
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.sum.update(&self.buffer);
        self.file.write_at(&self.buffer, self.written)?;
        self.file.begin_sync(self.written, self.buffer.len() as u64);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn miscounted(&self) -> Fault {
        Fault::damaged(UNFINISHED, self.written, "the number of lists is not what was counted")
    }
}

/// A checkpoint as read: its checksum is right, its lists are not decoded yet.
#[derive(Default)]
pub(crate) struct Manifest {
    pub(crate) head: Head,
    /// One block of users per group.
    pub(crate) groups: Vec<BlockRef>,
    pub(crate) format: u16,
    body: Vec<u8>,
    lists_at: usize,
}

impl Manifest {
    pub(crate) fn read(disk: &dyn Disk, epoch: u64, number: u64) -> Result<Self, Fault> {
        let name = name(number);
        let file = disk.open(&name)?;
        let bytes = read_all(&*file)?;
        let format = bytes.get(4..6).map_or(0, |format| u16::from_le_bytes([format[0], format[1]]));
        if bytes.get(..4) == Some(MAGIC) && format > FORMAT {
            return Err(Fault::Format { file: name, found: format, known: FORMAT });
        }
        let manifest = Self::decode(bytes, epoch).map_err(|corrupt| Fault::corrupt(&name, 0, corrupt))?;
        if manifest.head.number != number {
            return Err(Fault::damaged(name, 0, format!("this is checkpoint {}", manifest.head.number)));
        }
        Ok(manifest)
    }

    fn decode(mut bytes: Vec<u8>, epoch: u64) -> Result<Self, Corrupt> {
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(Corrupt("cut short"))?;
        if u64::from_le_bytes(*sum) != xxh3_64_with_seed(body, epoch) {
            return Err(Corrupt("checkpoint checksum"));
        }
        let mut reader = Reader::new(body);
        if reader.take(4)? != MAGIC {
            return Err(Corrupt("not a checkpoint"));
        }
        let format = u16::from_le_bytes(reader.array()?);
        let head = take_head(&mut reader, format)?;
        let mut groups = Vec::new();
        let mut place = Cursor::default();
        for _ in 0..reader.length()? {
            groups.push(place.take(&mut reader)?);
        }
        let (lists_at, end) = (body.len() - reader.left(), body.len());
        bytes.truncate(end);
        Ok(Self { head, groups, format, body: bytes, lists_at })
    }

    /// Passes every list to `each`; returns the documents and the quotas.
    pub(crate) fn lists(
        &self,
        each: impl FnMut(ListEntry) -> Result<(), Corrupt>,
    ) -> Result<(Collections, &[u8]), Fault> {
        if self.body.is_empty() {
            return Ok((Collections::new(), &[]));
        }
        self.decode_lists(each).map_err(|corrupt| Fault::corrupt(name(self.head.number), 0, corrupt))
    }

    /// What is still needed when all lists are loaded.
    pub(crate) fn into_parts(self) -> (Head, Vec<BlockRef>) {
        (self.head, self.groups)
    }

    fn decode_lists(
        &self,
        mut each: impl FnMut(ListEntry) -> Result<(), Corrupt>,
    ) -> Result<(Collections, &[u8]), Corrupt> {
        let mut reader = Reader::new(self.body.get(self.lists_at..).unwrap_or_default());
        let mut cursors = [Cursor::default(), Cursor::default()];
        let mut before = 0i64;
        for _ in 0..reader.length()? {
            let plane = StoredPlane::from_number(reader.byte()?).ok_or(Corrupt("plane"))?;
            before = before.wrapping_add(reader.signed()?);
            let ordinal = u32::try_from(before).map_err(|_| Corrupt("ordinal"))?;
            let mut take = |side: Side| take_blocks(&mut reader, &mut cursors[side as usize], self.format);
            let (following, following_mixed) = take(Side::Following)?;
            let (followers, followers_mixed) = take(Side::Followers)?;
            each(ListEntry { plane, ordinal, following, followers, mixed: [following_mixed, followers_mixed] })?;
        }
        let documents = if self.format >= 2 { take_documents(&mut reader)? } else { Collections::new() };
        let quotas = if self.format >= 5 { reader.bytes()? } else { &[] };
        reader.end()?;
        Ok((documents, quotas))
    }
}

fn put_head(bytes: &mut Vec<u8>, head: &Head, groups: &[BlockRef]) {
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    let numbers =
        [head.number, head.sequence.0, head.version.bits(), head.segment, head.users.into(), head.last_file.into()];
    for value in numbers {
        put_varint(bytes, value);
    }
    put_varint(bytes, head.first_segment.unwrap_or_default());
    put_varint(bytes, head.files.len() as u64);
    for file in &head.files {
        put_varint(bytes, u64::from(file.number));
        bytes.push(file.family as u8);
        put_varint(bytes, file.size);
        bytes.push(u8::from(file.proof.is_some()));
        for number in file.proof.into_iter().flat_map(|proof| [proof.seed, proof.sum]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
    put_varint(bytes, head.idempotency.len() as u64);
    for run in &head.idempotency {
        put_bytes(bytes, run.name.as_bytes());
        let (size, sum) = run.whole.unwrap_or_default();
        put_varint(bytes, size);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    put_varint(bytes, groups.len() as u64);
    let mut place = Cursor::default();
    for block in groups {
        place.put(bytes, *block);
    }
}

fn take_head(reader: &mut Reader<'_>, format: u16) -> Result<Head, Corrupt> {
    let mut head = Head {
        number: reader.varint()?,
        sequence: Sequence(reader.varint()?),
        version: Version::from_bits(reader.varint()?),
        segment: reader.varint()?,
        users: reader.u32()?,
        last_file: reader.u32()?,
        first_segment: None,
        ..Head::default()
    };
    let is_proved = format >= PROVED;
    if is_proved {
        head.first_segment = Some(reader.varint()?);
    }
    for _ in 0..reader.length()? {
        let number = reader.u32()?;
        let family = Family::from_number(reader.byte()?).ok_or(Corrupt("file family"))?;
        let size = reader.varint()?;
        let proof = match is_proved && reader.byte()? != 0 {
            true => Some(Proof { seed: reader.fixed_u64()?, sum: reader.fixed_u64()? }),
            false => None,
        };
        head.files.push(FileEntry { number, family, size, proof });
    }
    for _ in 0..reader.length()? {
        let name = std::str::from_utf8(reader.bytes()?).map_err(|_| Corrupt("file name"))?.to_owned();
        let whole = if is_proved { Some((reader.varint()?, reader.fixed_u64()?)) } else { None };
        head.idempotency.push(RunEntry { name, whole });
    }
    Ok(head)
}

/// Blocks are mostly adjacent, so each is written as its distance from the end of the previous one.
#[derive(Clone, Copy, Default)]
struct Cursor {
    file: u32,
    end: u64,
}

impl Cursor {
    fn put(&mut self, bytes: &mut Vec<u8>, block: BlockRef) {
        put_varint(bytes, u64::from(block.count));
        put_varint(bytes, u64::from(block.length()));
        let file = i64::from(block.file()) - i64::from(self.file);
        let end = if file == 0 { self.end } else { 0 };
        put_signed(bytes, (block.offset() as i64 - end as i64) << 1 | i64::from(file != 0));
        if file != 0 {
            put_signed(bytes, file);
        }
        *self = Self { file: block.file(), end: block.offset() + u64::from(block.length()) };
    }

    fn take(&mut self, reader: &mut Reader<'_>) -> Result<BlockRef, Corrupt> {
        let count = reader.u32()?;
        let length = NonZeroU32::new(reader.u32()?).ok_or(Corrupt("a block without bytes"))?;
        let head = reader.signed()?;
        if head & 1 != 0 {
            let file = i64::from(self.file).checked_add(reader.signed()?).ok_or(Corrupt("file number"))?;
            *self = Self { file: u32::try_from(file).map_err(|_| Corrupt("file number"))?, end: 0 };
        }
        let offset = self.end.checked_add_signed(head >> 1).ok_or(Corrupt("offset"))?;
        self.end = offset + u64::from(length.get());
        Ok(BlockRef::new(self.file, offset, length, count))
    }
}

fn put_blocks(bytes: &mut Vec<u8>, refs: &Refs, cursor: &mut Cursor) {
    if refs.is_empty() {
        bytes.push(0);
        return;
    }
    if let Refs::One(block) = refs {
        bytes.push(1);
        cursor.put(bytes, *block);
    } else {
        put_varint(bytes, refs.bounded().len() as u64);
    }
    for bounded in refs.bounded() {
        cursor.put(bytes, bounded.block);
        put_varint(bytes, bounded.newest.position.bits());
        put_signed(bytes, bounded.newest.key.0);
    }
}

/// First format with sizes and checksums of files.
const PROVED: u16 = 4;
/// Lists of older formats include quiet follows and count them.
const QUIET_APART: u16 = 3;

/// The blocks, and whether they include quiet follows.
fn take_blocks(reader: &mut Reader<'_>, cursor: &mut Cursor, format: u16) -> Result<(Refs, bool), Corrupt> {
    let count = reader.length()?;
    if count == 0 {
        return Ok((Refs::default(), false));
    }
    let refs = if count == 1 {
        Refs::One(cursor.take(reader)?)
    } else {
        let mut bounded = Vec::with_capacity(count.min(1 << 20));
        for _ in 0..count {
            let block = cursor.take(reader)?;
            let newest = Place { position: Version::from_bits(reader.varint()?), key: Key(reader.signed()?) };
            bounded.push(Bounded { newest, block });
        }
        bounded.into()
    };
    let mixed = format < QUIET_APART && reader.u32()? > 0;
    Ok((refs, mixed))
}

fn put_documents(bytes: &mut Vec<u8>, documents: &Collections) {
    put_varint(bytes, documents.len() as u64);
    let mut cursor = Cursor::default();
    for (key, blocks) in documents {
        bytes.push(key.collection.number());
        put_signed(bytes, key.owner.0);
        put_varint(bytes, blocks.len() as u64);
        for bounded in blocks {
            cursor.put(bytes, bounded.block);
            put_bytes(bytes, &bounded.first);
        }
    }
}

fn take_documents(reader: &mut Reader<'_>) -> Result<Collections, Corrupt> {
    let mut documents = Vec::new();
    let mut cursor = Cursor::default();
    for _ in 0..reader.length()? {
        let collection = Collection::from_number(reader.byte()?).ok_or(Corrupt("collection"))?;
        let owner = Key(reader.signed()?);
        let mut blocks = Vec::new();
        for _ in 0..reader.length()? {
            let block = cursor.take(reader)?;
            blocks.push(DocumentBlock { first: reader.bytes()?.into(), block });
        }
        documents.push((CollectionKey { owner, collection }, blocks));
    }
    Ok(documents)
}

#[cfg(test)]
mod tests;
