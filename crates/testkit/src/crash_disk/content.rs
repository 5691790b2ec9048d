//! One file of the test disk: what processes see, what is surely durable, and what lies in between.

use std::{ops::Range, sync::Arc};

use super::{
    extents::Extents,
    image::{Chance, Image},
    pages::Pages,
};

const SECTOR: u64 = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) live: Pages,
    pub(super) durable: Pages,
    /// In order of time. `durable` with all of these on top is `live`.
    pending: Vec<Pending>,
    /// The space that `live` takes.
    pub(super) taken: Extents,
}

#[derive(Clone, Debug)]
enum Pending {
    Write(Write),
    Size(u64),
}

#[derive(Clone, Debug)]
struct Write {
    offset: u64,
    bytes: Arc<[u8]>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The next sync makes it durable.
    Dirty,
    /// A sync that failed has marked it clean: no later sync will write it.
    Forgotten,
    /// The power failed while it was being written; only the first half had reached the page cache.
    UnderWay,
}

impl Content {
    /// What is left of it after a power cut now.
    pub(super) fn after_cut(&self, image: Image, chance: &mut Chance) -> Self {
        let pages = self.pages_after_cut(image, chance);
        let mut taken = self.taken.clone();
        taken.cut_at(pages.size());
        Self { live: pages.clone(), durable: pages, pending: Vec::new(), taken }
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(bytes, offset);
        self.push(bytes, offset, Fate::Dirty);
    }

    /// A write that the power cut interrupts.
    pub(super) fn write_under_way(&mut self, bytes: &[u8], offset: u64) {
        self.live.write(first_half(bytes), offset);
        self.push(bytes, offset, Fate::UnderWay);
    }

    fn push(&mut self, bytes: &[u8], offset: u64, fate: Fate) {
        if !bytes.is_empty() {
            let write = Write { offset, bytes: bytes.into(), fate };
            self.taken.insert(write.range());
            self.pending.push(Pending::Write(write));
        }
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.live.set_size(size);
        self.taken.cut_at(size);
        self.pending.push(Pending::Size(size));
    }

    pub(super) fn sync(&mut self) {
        self.settle(0);
    }

    /// Makes the newest write durable, and none of the earlier ones: a durable write promises no more than its own
    /// bytes.
    pub(super) fn sync_newest(&mut self) {
        self.settle(self.pending.len().saturating_sub(1));
    }

    /// Makes all sizes durable, and the dirty writes from `first` on. What stays pending loses the bytes that a size
    /// or a durable write has overtaken, so that no image puts old bytes over durable ones.
    fn settle(&mut self, first: usize) {
        let mut left = Vec::new();
        for (index, pending) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            match pending {
                Pending::Size(size) => {
                    left = without(left, size..u64::MAX);
                    self.durable.set_size(size);
                }
                Pending::Write(write) if write.fate == Fate::Dirty && index >= first => {
                    left = without(left, write.range());
                    self.durable.write(&write.bytes, write.offset);
                }
                Pending::Write(write) => left.push(write),
            }
        }
        self.pending = left.into_iter().map(Pending::Write).collect();
    }

    /// A failed sync after which the page cache has forgotten the writes and shows the old bytes.
    pub(super) fn drop_pending(&mut self) {
        self.pending.clear();
        self.live = self.durable.clone();
        self.taken.cut_at(self.live.size());
    }

    /// A failed sync after which the page cache shows the new bytes and believes them clean.
    pub(super) fn forget_pending(&mut self) {
        for pending in &mut self.pending {
            if let Pending::Write(write) = pending {
                write.fate = Fate::Forgotten;
            }
        }
    }

    /// Damage at rest: applies to both views, whatever is pending.
    pub(super) fn damage(&mut self, change: impl Fn(&mut Pages)) {
        change(&mut self.live);
        change(&mut self.durable);
        self.taken.cut_at(self.live.size());
    }

    fn pages_after_cut(&self, image: Image, chance: &mut Chance) -> Pages {
        let mut pages = self.durable.clone();
        match image {
            Image::Nothing => {}
            Image::Everything => {
                for pending in &self.pending {
                    match pending {
                        Pending::Size(size) => pages.set_size(*size),
                        Pending::Write(write) => pages.write(write.in_cache(), write.offset),
                    }
                }
            }
            Image::Random(_) => self.apply_at_random(&mut pages, chance),
        }
        pages
    }

    fn apply_at_random(&self, pages: &mut Pages, chance: &mut Chance) {
        // Sizes are metadata of one file, written in order: a prefix of them survives.
        let sizes = self.pending.iter().filter(|pending| matches!(pending, Pending::Size(_))).count() as u64;
        let mut sizes_kept = chance.below(sizes + 1);
        // One inclination for each file, else a large write would never survive whole nor vanish whole.
        let inclination = chance.below(5);
        for pending in &self.pending {
            match pending {
                Pending::Size(_) if sizes_kept == 0 => {}
                Pending::Size(size) => {
                    sizes_kept -= 1;
                    pages.set_size(*size);
                }
                Pending::Write(write) => write.apply_at_random(pages, inclination, chance),
            }
        }
    }
}

impl Write {
    fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }

    fn in_cache(&self) -> &[u8] {
        if self.fate == Fate::UnderWay { first_half(&self.bytes) } else { &self.bytes }
    }

    fn apply_at_random(&self, pages: &mut Pages, inclination: u64, chance: &mut Chance) {
        let range = self.range();
        let mut end = range.end;
        // Only a write that was cut short can end within a sector.
        if self.fate == Fate::UnderWay && chance.coin() {
            end = range.start + chance.below(self.bytes.len() as u64 + 1);
        }
        let mut start = range.start;
        while start < end {
            let stop = end.min((start / SECTOR + 1) * SECTOR);
            if chance.below(4) < inclination {
                pages.write(&self.bytes[(start - range.start) as usize..(stop - range.start) as usize], start);
            }
            start = stop;
        }
        // The size may be durable before the data: the gap reads as zeros.
        if chance.below(4) == 0 {
            pages.grow(end);
        }
    }
}

fn first_half(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() / 2]
}

/// The writes less what they have in `range`.
fn without(writes: Vec<Write>, range: Range<u64>) -> Vec<Write> {
    let mut left = Vec::with_capacity(writes.len());
    for write in writes {
        let own = write.range();
        if own.end <= range.start || range.end <= own.start {
            left.push(write);
            continue;
        }
        let before = own.start..range.start.max(own.start);
        let after = range.end.min(own.end)..own.end;
        for part in [before, after] {
            if part.start < part.end {
                let bytes = &write.bytes[(part.start - own.start) as usize..(part.end - own.start) as usize];
                left.push(Write { offset: part.start, bytes: bytes.into(), fate: write.fate });
            }
        }
    }
    left
}
