//! The checkpoint file: which sequence it covers, and where every block lies. Written whole under another name, made
//! durable, then renamed: it is either there and complete, or not there.

use std::num::NonZeroU32;

use entourage_model::{Key, Place, Plane, Sequence, Side, Version};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    codec::{Corrupt, Reader, put_bytes, put_signed, put_varint},
    documents::DocumentBlock,
    fault::Fault,
    files::Family,
    lists::{BlockRef, Blocks, Bounded, Refs},
    shelf::{Shelf, ShelfKey},
};
use crate::disk::{Disk, read_all};

/// 2: documents; users may be erased; blocks of edges have more flags.
pub(super) const FORMAT: u16 = 2;
const MAGIC: &[u8; 4] = b"EGCP";
const PREFIX: &str = "checkpoint-";
const UNFINISHED: &str = "unfinished-checkpoint";

pub(super) fn name(number: u64) -> String {
    format!("{PREFIX}{number:012}")
}

pub(super) fn parse_name(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

pub(super) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) number: u32,
    pub(super) family: Family,
    pub(super) size: u64,
}

/// Both sides of one user's lists in one plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListEntry {
    pub(super) plane: Plane,
    pub(super) ordinal: u32,
    pub(super) following: Blocks,
    pub(super) followers: Blocks,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    pub(super) sequence: Sequence,
    pub(super) version: Version,
    /// The log segment that was written to when the state was set aside; 0 when there was none yet.
    pub(super) segment: u64,
    pub(super) users: u32,
    pub(super) last_file: u32,
    pub(super) files: Vec<FileEntry>,
    pub(super) idempotency: Vec<String>,
    /// One block of users for each group.
    pub(super) groups: Vec<BlockRef>,
    pub(super) lists: Vec<ListEntry>,
    pub(super) documents: Vec<(ShelfKey, Vec<DocumentBlock>)>,
}

impl Manifest {
    pub(super) fn write(&self, disk: &dyn Disk, epoch: u64) -> Result<(), Fault> {
        let bytes = self.encode(epoch);
        let file = disk.create(UNFINISHED)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        disk.rename(UNFINISHED, &name(self.number))?;
        disk.sync_folder()?;
        Ok(())
    }

    pub(super) fn read(disk: &dyn Disk, epoch: u64, number: u64) -> Result<Self, Fault> {
        let name = name(number);
        let file = disk.open(&name)?;
        let bytes = read_all(&*file)?;
        let format = bytes.get(4..6).map_or(0, |format| u16::from_le_bytes([format[0], format[1]]));
        if bytes.get(..4) == Some(MAGIC) && format > FORMAT {
            return Err(Fault::Format { file: name, found: format, known: FORMAT });
        }
        Self::decode(&bytes, epoch).map_err(|corrupt| Fault::corrupt(name, 0, corrupt))
    }

    fn encode(&self, epoch: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.lists.len() * 32);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        let numbers =
            [self.number, self.sequence.0, self.version.bits(), self.segment, self.users.into(), self.last_file.into()];
        for value in numbers {
            put_varint(&mut bytes, value);
        }
        put_varint(&mut bytes, self.files.len() as u64);
        for file in &self.files {
            put_varint(&mut bytes, u64::from(file.number));
            bytes.push(file.family as u8);
            put_varint(&mut bytes, file.size);
        }
        put_varint(&mut bytes, self.idempotency.len() as u64);
        for name in &self.idempotency {
            put_bytes(&mut bytes, name.as_bytes());
        }
        put_varint(&mut bytes, self.groups.len() as u64);
        let mut place = Cursor::default();
        for block in &self.groups {
            place.put(&mut bytes, *block);
        }
        put_varint(&mut bytes, self.lists.len() as u64);
        let mut cursors = [Cursor::default(), Cursor::default()];
        let mut before = 0i64;
        for list in &self.lists {
            bytes.push(list.plane as u8);
            put_signed(&mut bytes, i64::from(list.ordinal) - before);
            before = i64::from(list.ordinal);
            put_blocks(&mut bytes, &list.following, &mut cursors[Side::Following as usize]);
            put_blocks(&mut bytes, &list.followers, &mut cursors[Side::Followers as usize]);
        }
        put_documents(&mut bytes, &self.documents);
        let sum = xxh3_64_with_seed(&bytes, epoch);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8], epoch: u64) -> Result<Self, Corrupt> {
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or(Corrupt("cut short"))?;
        if u64::from_le_bytes(*sum) != xxh3_64_with_seed(body, epoch) {
            return Err(Corrupt("checkpoint checksum"));
        }
        let mut reader = Reader::new(body);
        if reader.take(4)? != MAGIC {
            return Err(Corrupt("not a checkpoint"));
        }
        let format = u16::from_le_bytes(reader.array()?);
        let mut manifest = Self {
            number: reader.varint()?,
            sequence: Sequence(reader.varint()?),
            version: Version::from_bits(reader.varint()?),
            segment: reader.varint()?,
            users: reader.u32()?,
            last_file: reader.u32()?,
            ..Self::default()
        };
        for _ in 0..reader.length()? {
            let number = reader.u32()?;
            let family = Family::from_number(reader.byte()?).ok_or(Corrupt("file family"))?;
            manifest.files.push(FileEntry { number, family, size: reader.varint()? });
        }
        for _ in 0..reader.length()? {
            let name = std::str::from_utf8(reader.bytes()?).map_err(|_| Corrupt("file name"))?;
            manifest.idempotency.push(name.to_owned());
        }
        let mut place = Cursor::default();
        for _ in 0..reader.length()? {
            manifest.groups.push(place.take(&mut reader)?);
        }
        let mut cursors = [Cursor::default(), Cursor::default()];
        let mut before = 0i64;
        for _ in 0..reader.length()? {
            let plane = Plane::from_number(reader.byte()?).ok_or(Corrupt("plane"))?;
            before = before.wrapping_add(reader.signed()?);
            let ordinal = u32::try_from(before).map_err(|_| Corrupt("ordinal"))?;
            let following = take_blocks(&mut reader, &mut cursors[Side::Following as usize])?;
            let followers = take_blocks(&mut reader, &mut cursors[Side::Followers as usize])?;
            manifest.lists.push(ListEntry { plane, ordinal, following, followers });
        }
        if format >= 2 {
            manifest.documents = take_documents(&mut reader)?;
        }
        reader.end()?;
        Ok(manifest)
    }
}

/// Blocks mostly lie one after the other, so each is written as its distance from the end of the one before.
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

fn put_blocks(bytes: &mut Vec<u8>, blocks: &Blocks, cursor: &mut Cursor) {
    if blocks.refs.is_empty() {
        bytes.push(0);
        return;
    }
    if let Refs::One(block) = &blocks.refs {
        bytes.push(1);
        cursor.put(bytes, *block);
    } else {
        put_varint(bytes, blocks.refs.bounded().len() as u64);
    }
    for bounded in blocks.refs.bounded() {
        cursor.put(bytes, bounded.block);
        put_varint(bytes, bounded.newest.position.bits());
        put_signed(bytes, bounded.newest.key.0);
    }
    put_varint(bytes, u64::from(blocks.quiet));
}

fn take_blocks(reader: &mut Reader<'_>, cursor: &mut Cursor) -> Result<Blocks, Corrupt> {
    let count = reader.length()?;
    if count == 0 {
        return Ok(Blocks::default());
    }
    let mut bounded = Vec::with_capacity(count.min(1 << 20));
    for _ in 0..count {
        let block = cursor.take(reader)?;
        let newest = if count == 1 {
            Place { position: Version::MAX, key: Key::MAX }
        } else {
            Place { position: Version::from_bits(reader.varint()?), key: Key(reader.signed()?) }
        };
        bounded.push(Bounded { newest, block });
    }
    let quiet = reader.u32()?;
    Ok(Blocks { refs: bounded.into(), quiet })
}

fn put_documents(bytes: &mut Vec<u8>, documents: &[(ShelfKey, Vec<DocumentBlock>)]) {
    put_varint(bytes, documents.len() as u64);
    let mut cursor = Cursor::default();
    for (key, blocks) in documents {
        bytes.push(key.shelf.number());
        put_signed(bytes, key.owner.0);
        put_varint(bytes, blocks.len() as u64);
        for bounded in blocks {
            cursor.put(bytes, bounded.block);
            put_bytes(bytes, &bounded.first);
        }
    }
}

fn take_documents(reader: &mut Reader<'_>) -> Result<Vec<(ShelfKey, Vec<DocumentBlock>)>, Corrupt> {
    let mut documents = Vec::new();
    let mut cursor = Cursor::default();
    for _ in 0..reader.length()? {
        let shelf = Shelf::from_number(reader.byte()?).ok_or(Corrupt("shelf"))?;
        let owner = Key(reader.signed()?);
        let mut blocks = Vec::new();
        for _ in 0..reader.length()? {
            let block = cursor.take(reader)?;
            blocks.push(DocumentBlock { first: reader.bytes()?.into(), block });
        }
        documents.push((ShelfKey { owner, shelf }, blocks));
    }
    Ok(documents)
}
