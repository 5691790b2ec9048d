//! How far the log is known to be durable, in a file of its own: the proof shares no page with what it proves, and an
//! older copy of a segment cannot pass for the newest. Two slots, a page each, are written in turn: one is always
//! intact.
//!
//! ```text
//! slot:  magic "EGSL" │ format u16 │ 0 u16 │ turn u64 │ segment u64 │ end u64 │ sequence u64 │ checkpoint u64
//!        │ checksum u64
//! ```

use std::{io, sync::Arc};

use entourage_model::Sequence;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{codec::Reader, fault::Fault, identity};
use entourage_store::{
    Identity,
    disk::{Disk, DiskFile, read_exact_at},
};

pub(crate) const NAME: &str = "seals";
const UNFINISHED: &str = "unfinished-seals";
const MAGIC: &[u8; 4] = b"EGSL";
const FORMAT: u16 = 1;
/// Disks and file systems lose whole pages.
const PAGE: u64 = 4096;
const SLOTS: u64 = 2;
const SLOT_BYTES: usize = 56;

pub(crate) fn is_unfinished(name: &str) -> bool {
    name == UNFINISHED
}

/// The log was durable up to this point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seal {
    /// `end` is an offset in this segment.
    pub(crate) segment: u64,
    pub(crate) end: u64,
    /// The last change before `end`.
    pub(crate) sequence: Sequence,
    /// The newest checkpoint.
    pub(crate) checkpoint: u64,
}

impl Seal {
    /// Whether the log was durable beyond this position.
    pub(crate) fn reaches_beyond(&self, segment: u64, end: u64) -> bool {
        (self.segment, self.end) > (segment, end)
    }
}

/// The file; `None` until opened.
#[derive(Default)]
pub(crate) struct Seals {
    open: Mutex<Option<Open>>,
}

struct Open {
    file: Arc<dyn DiskFile>,
    seed: u64,
    turn: u64,
    /// Named by the newest seal.
    checkpoint: u64,
}

impl Seals {
    /// Reads the newest seal. A store that never wrote one may lack the file, which is then created.
    pub(crate) fn open(&self, disk: &dyn Disk, identity: &Identity, must_be_there: bool) -> Result<Seal, Fault> {
        let seed = identity::seed(identity, MAGIC, &[]);
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be_there => make(disk, seed)?,
            opened => opened.map_err(|error| Fault::opening(NAME, error))?,
        };
        let size = file.size()?;
        if size != PAGE * SLOTS {
            return Err(Fault::damaged(NAME, size.min(PAGE * SLOTS), "the file has a wrong size"));
        }
        let mut newest: Option<(u64, Seal)> = None;
        for slot in 0..SLOTS {
            let bytes = read_exact_at(&*file, SLOT_BYTES, slot * PAGE)?;
            let found = decode(&bytes, seed, slot)?;
            newest = newest.into_iter().chain(found).max_by_key(|(turn, _)| *turn);
        }
        // Slots are written one at a time: a torn write leaves the other intact.
        let (turn, seal) = newest.ok_or_else(|| Fault::damaged(NAME, 0, "both seals are damaged"))?;
        *self.open.lock() = Some(Open { file, seed, turn, checkpoint: seal.checkpoint });
        Ok(seal)
    }

    /// The checkpoint named by the newest seal.
    pub(crate) fn checkpoint(&self) -> u64 {
        self.open.lock().as_ref().map_or(0, |open| open.checkpoint)
    }

    pub(crate) fn write(&self, seal: &Seal) -> io::Result<()> {
        let mut open = self.open.lock();
        let open = open.as_mut().ok_or(io::ErrorKind::NotFound)?;
        (open.turn, open.checkpoint) = (open.turn + 1, seal.checkpoint);
        open.file.write_durable_at(&encode(seal, open.seed, open.turn), open.turn % SLOTS * PAGE)
    }
}

/// A complete file with one seal, for a backup.
pub(crate) fn file_with(identity: &Identity, seal: &Seal) -> Vec<u8> {
    whole(identity::seed(identity, MAGIC, &[]), seal)
}

fn whole(seed: u64, seal: &Seal) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((PAGE * SLOTS) as usize);
    for turn in 0..SLOTS {
        bytes.extend_from_slice(&encode(seal, seed, turn));
        bytes.resize(((turn + 1) * PAGE) as usize, 0);
    }
    bytes
}

/// Creates a file whose seals prove nothing yet.
fn make(disk: &dyn Disk, seed: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(UNFINISHED)?;
    file.write_at(&whole(seed, &Seal::default()), 0)?;
    file.sync()?;
    disk.rename(UNFINISHED, NAME)?;
    disk.sync_folder()?;
    Ok(file)
}

fn encode(seal: &Seal, seed: u64, turn: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(MAGIC);
    slot[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    let numbers = [turn, seal.segment, seal.end, seal.sequence.0, seal.checkpoint];
    for (to, number) in slot[8..48].chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    let sum = xxh3_64_with_seed(&slot[..48], seed);
    slot[48..].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// `None` if the slot is torn or damaged.
fn decode(bytes: &[u8], seed: u64, slot: u64) -> Result<Option<(u64, Seal)>, Fault> {
    let format = bytes.get(4..6).map_or(0, |format| u16::from_le_bytes([format[0], format[1]]));
    let mut numbers = [0; 6];
    let mut reader = Reader::new(bytes.get(8..).unwrap_or_default());
    for number in &mut numbers {
        let Ok(read) = reader.fixed_u64() else { return Ok(None) };
        *number = read;
    }
    let [turn, segment, end, sequence, checkpoint, sum] = numbers;
    if sum != xxh3_64_with_seed(&bytes[..48], seed) || bytes[..4] != *MAGIC || turn % SLOTS != slot {
        return Ok(None);
    }
    if format > FORMAT {
        return Err(Fault::Format { file: NAME.into(), found: format, known: FORMAT });
    }
    Ok(Some((turn, Seal { segment, end, sequence: Sequence(sequence), checkpoint })))
}

#[cfg(test)]
mod tests {
    use entourage_model::Secret;

    use super::*;
    use entourage_testkit::crash_disk::CrashDisk;

    fn identity() -> Identity {
        Identity { epoch: 7, secret: Secret::from_bytes([7; 32]) }
    }

    fn seal(number: u64) -> Seal {
        Seal { segment: number, end: number * 100, sequence: Sequence(number * 7), checkpoint: number / 3 }
    }

    fn open(disk: &CrashDisk) -> Result<Seal, Fault> {
        Seals::default().open(disk, &identity(), true)
    }

    #[test]
    fn the_newest_seal_is_read_back() {
        let disk = CrashDisk::new();
        let seals = Seals::default();
        assert!(seals.open(&disk, &identity(), true).is_err(), "it should be there");
        assert_eq!(seals.open(&disk, &identity(), false).unwrap(), Seal::default());
        for number in 1..9 {
            seals.write(&seal(number)).unwrap();
            assert_eq!(open(&disk).unwrap(), seal(number));
        }
        let begun = CrashDisk::new();
        begun.create(NAME).unwrap().write_at(&file_with(&identity(), &seal(5)), 0).unwrap();
        assert_eq!(open(&begun).unwrap(), seal(5));
    }

    /// A power loss in any write leaves the previous seal or the new one.
    #[test]
    fn a_torn_seal_leaves_the_one_before() {
        for number in 1..5 {
            let disk = CrashDisk::new();
            let seals = Seals::default();
            seals.open(&disk, &identity(), false).unwrap();
            (1..number).for_each(|number| seals.write(&seal(number)).unwrap());
            disk.crash_after(disk.operations());
            assert!(seals.write(&seal(number)).is_err());
            for image in (0..40).map(entourage_testkit::crash_disk::Image::Random) {
                let before = if number == 1 { Seal::default() } else { seal(number - 1) };
                let found = open(&disk.image(image)).unwrap();
                assert!(found == before || found == seal(number), "{found:?}");
            }
        }
    }

    #[test]
    fn damage_leaves_an_older_seal_or_is_said() {
        let disk = CrashDisk::new();
        let seals = Seals::default();
        seals.open(&disk, &identity(), false).unwrap();
        (1..4).for_each(|number| seals.write(&seal(number)).unwrap());
        for slot in 0..SLOTS {
            for bit in 0..SLOT_BYTES as u64 * 8 {
                let flipped = disk.deep_clone();
                flipped.flip_bit(NAME, slot * PAGE * 8 + bit).unwrap();
                let found = open(&flipped).unwrap();
                assert!(found == seal(2) || found == seal(3), "slot {slot} bit {bit}: {found:?}");
                flipped.flip_bit(NAME, (1 - slot) * PAGE * 8).unwrap();
                assert!(open(&flipped).is_err());
            }
        }
        for size in [0, 1, PAGE, PAGE * SLOTS - 1] {
            let cut = disk.deep_clone();
            cut.truncate(NAME, size).unwrap();
            assert!(open(&cut).unwrap_err().to_string().contains(NAME));
        }
    }
}
