//! A list that grows without moving its items: chunks, each about a quarter of all before it. The unused part of the
//! last chunk is not touched.

use std::array;

const FIRST_BITS: u32 = 4;
const FIRST: usize = 1 << FIRST_BITS;
/// `1 << SAME_BITS` chunks have one size, the next ones twice that.
const SAME_BITS: u32 = 2;
/// Enough for 2³² items.
const CHUNKS: usize = ((u32::BITS - FIRST_BITS + 1) << SAME_BITS) as usize;

/// The chunks are inline: a lookup has as many cache misses as in a `Vec`.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: [Vec<T>; CHUNKS],
    length: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: array::from_fn(|_| Vec::new()), length: 0 }
    }
}

struct Spot {
    chunk: usize,
    place: usize,
    /// Capacity of the chunk.
    size: usize,
}

/// The upper bits of an index give the chunk, as in a floating-point number, the others the place in it. Nothing
/// overflows for sizes that a list can have, and unchecked arithmetic is short: every check runs this.
#[inline]
const fn spot(index: usize) -> Spot {
    let moved = index.wrapping_add(FIRST);
    let top = (usize::BITS - 1).wrapping_sub(moved.leading_zeros());
    let bits = top.wrapping_sub(SAME_BITS);
    let size = 1usize.wrapping_shl(bits);
    let same = moved.wrapping_shr(bits) & ((1 << SAME_BITS) - 1);
    let chunk = (top.wrapping_sub(FIRST_BITS) << SAME_BITS) as usize;
    Spot { chunk: chunk.wrapping_add(same), place: moved & size.wrapping_sub(1), size }
}

impl<T> Chunked<T> {
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let Spot { chunk, place, .. } = spot(index);
        self.chunks.get(chunk)?.get(place)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let Spot { chunk, place, .. } = spot(index);
        self.chunks.get_mut(chunk)?.get_mut(place)
    }

    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn push(&mut self, item: T) {
        let Spot { chunk, place, size } = spot(self.length);
        // Ordinals have 32 bits, so there is a chunk for each.
        if let Some(chunk) = self.chunks.get_mut(chunk) {
            if place == 0 {
                chunk.reserve_exact(size);
            }
            chunk.push(item);
            self.length += 1;
        }
    }

    /// As many as come, a chunk at a time.
    pub(crate) fn extend(&mut self, mut items: impl ExactSizeIterator<Item = T>) {
        while items.len() > 0 {
            let Spot { chunk, place, size } = spot(self.length);
            let Some(chunk) = self.chunks.get_mut(chunk) else { return };
            if place == 0 {
                chunk.reserve_exact(size);
            }
            let before = chunk.len();
            chunk.extend(items.by_ref().take(size - place));
            self.length += chunk.len() - before;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_found_where_it_was_put() {
        let mut chunked = Chunked::default();
        for number in 0..10_000usize {
            assert_eq!((chunked.length, chunked.get(number)), (number, None));
            chunked.push(number);
            assert_eq!(chunked.get(number), Some(&number));
        }
        assert!(chunked.iter().copied().eq(0..10_000));
        let mut at_once = Chunked::default();
        for numbers in [0..0, 0..1, 1..700, 700..10_000] {
            at_once.extend(numbers);
        }
        assert!(at_once.iter().eq(chunked.iter()) && at_once.length == chunked.length);
        for number in 0..10_000 {
            *chunked.get_mut(number).unwrap() += 1;
            assert_eq!(chunked.get(number), Some(&(number + 1)));
        }
        assert_eq!((chunked.get(10_000), chunked.get(u32::MAX as usize)), (None, None));
    }

    #[test]
    fn nothing_moves_and_little_is_reserved() {
        let mut chunked = Chunked::default();
        chunked.push(0u32);
        let first: *const u32 = chunked.get(0).unwrap();
        for number in 1..10_000 {
            chunked.push(number);
            let reserved: usize = chunked.chunks.iter().map(Vec::capacity).sum();
            assert!(reserved <= chunked.length + chunked.length / 4 + FIRST / 4, "{reserved} for {number}");
        }
        assert_eq!(first, chunked.get(0).unwrap() as *const u32);
    }
}
