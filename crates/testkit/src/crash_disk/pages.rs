//! The bytes of one file as shared 4 KiB pages, so that a copy of a file costs its page table only.

use std::{collections::BTreeMap, sync::Arc};

const PAGE: usize = 4096;

/// Pages of zeros are absent and bytes past the size are zero, so equal contents are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Pages {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Fills what the file has at `offset`; the number of bytes filled.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.size.saturating_sub(offset);
        let length = usize::try_from(available).unwrap_or(usize::MAX).min(buffer.len());
        for (number, within, piece) in pieces(offset, length) {
            let target = &mut buffer[piece.clone()];
            match self.pages.get(&number) {
                Some(page) => target.copy_from_slice(&page[within..within + piece.len()]),
                None => target.fill(0),
            }
        }
        length
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        for (number, within, piece) in pieces(offset, bytes.len()) {
            let source = &bytes[piece];
            let zeros = is_zero(source);
            if zeros && !self.pages.contains_key(&number) {
                continue;
            }
            let page = Arc::make_mut(self.pages.entry(number).or_insert_with(|| Arc::new([0; PAGE])));
            page[within..within + source.len()].copy_from_slice(source);
            if zeros && is_zero(page) {
                self.pages.remove(&number);
            }
        }
        self.grow(offset + bytes.len() as u64);
    }

    /// The size becomes at least `size`; new bytes are zero.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    pub(super) fn set_size(&mut self, size: u64) {
        if size < self.size {
            drop(self.pages.split_off(&size.div_ceil(PAGE as u64)));
            let kept = (size % PAGE as u64) as usize;
            let last = size / PAGE as u64;
            if kept > 0
                && let Some(page) = self.pages.get_mut(&last)
            {
                let page = Arc::make_mut(page);
                page[kept..].fill(0);
                if is_zero(page) {
                    self.pages.remove(&last);
                }
            }
        }
        self.size = size;
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).unwrap_or(usize::MAX)];
        self.read(&mut bytes, 0);
        bytes
    }

    #[cfg(test)]
    fn held_pages(&self) -> usize {
        self.pages.len()
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// The pages that `length` bytes at `offset` touch: page number, place within the page, range within the bytes.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let position = offset + done as u64;
        let within = (position % PAGE as u64) as usize;
        let piece = done..length.min(done + PAGE - within);
        done = piece.end;
        Some((position / PAGE as u64, within, piece))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn zeros_take_no_pages() {
        let mut pages = Pages::default();
        pages.write(&vec![0; 1 << 20], 0);
        assert_eq!((pages.size(), pages.held_pages()), (1 << 20, 0));
        pages.write(b"x", 70_000);
        assert_eq!(pages.held_pages(), 1);
        pages.write(&[0], 70_000);
        assert_eq!(pages.held_pages(), 0);
    }

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut pages = Pages::default();
        pages.write(b"before", 4094);
        let copy = pages.clone();
        pages.write(b"after!", 4094);
        assert_eq!(&copy.to_vec()[4094..], b"before");
        assert_eq!(&pages.to_vec()[4094..], b"after!");
    }

    proptest! {
        #[test]
        fn pages_read_like_a_plain_vector(
            steps in prop::collection::vec((0..3u8, 0..9_000u64, prop::collection::vec(0..3u8, 0..6_000)), 1..12)
        ) {
            let (mut pages, mut plain) = (Pages::default(), Vec::<u8>::new());
            for (kind, offset, bytes) in steps {
                if kind == 0 {
                    pages.set_size(offset);
                    plain.resize(offset as usize, 0);
                } else if !bytes.is_empty() {
                    pages.write(&bytes, offset);
                    let end = offset as usize + bytes.len();
                    plain.resize(plain.len().max(end), 0);
                    plain[offset as usize..end].copy_from_slice(&bytes);
                }
                prop_assert_eq!(&pages.to_vec(), &plain);
                let mut fresh = Pages::default();
                fresh.write(&plain, 0);
                prop_assert_eq!(&fresh, &pages, "equal contents must be equal values");
            }
        }
    }
}
