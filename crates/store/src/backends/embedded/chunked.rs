//! A list that grows without moving what it holds: chunks, each as large as all before it. What is not yet used of the
//! last one is never touched, and so takes no memory.

use std::array;

const FIRST_BITS: u32 = 4;
/// How many the first chunk takes.
const FIRST: usize = 1 << FIRST_BITS;
/// Enough for 2³² of them.
const CHUNKS: usize = (u32::BITS - FIRST_BITS) as usize + 1;

/// The chunks stand in the list itself: finding something waits for memory as often as in a `Vec`.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: [Vec<T>; CHUNKS],
    length: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: array::from_fn(|_| Vec::new()), length: 0 }
    }
}

/// The chunk, and the place in it.
#[inline]
const fn place(index: usize) -> (usize, usize) {
    let moved = index + FIRST;
    let top = moved.ilog2();
    ((top - FIRST_BITS) as usize, moved - (1 << top))
}

impl<T> Chunked<T> {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        let (chunk, place) = place(index);
        self.chunks.get(chunk)?.get(place)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let (chunk, place) = place(index);
        self.chunks.get_mut(chunk)?.get_mut(place)
    }

    pub(super) fn push(&mut self, item: T) {
        let (number, place) = place(self.length);
        // Ordinals have 32 bits, and so there is a chunk for each of them.
        if let Some(chunk) = self.chunks.get_mut(number) {
            if place == 0 {
                chunk.reserve_exact(FIRST << number);
            }
            chunk.push(item);
            self.length += 1;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_found_where_it_was_put() {
        let mut chunked = Chunked::default();
        for number in 0..10_000usize {
            assert_eq!((chunked.len(), chunked.get(number)), (number, None));
            chunked.push(number);
            assert_eq!(chunked.get(number), Some(&number));
        }
        assert!(chunked.iter().copied().eq(0..10_000));
        chunked.iter_mut().for_each(|number| *number += 1);
        for number in 0..10_000 {
            assert_eq!(chunked.get_mut(number), Some(&mut (number + 1)));
        }
        assert_eq!((chunked.get(10_000), chunked.get(u32::MAX as usize)), (None, None));
    }

    #[test]
    fn nothing_moves_and_little_is_reserved() {
        let mut chunked = Chunked::default();
        chunked.push(0u32);
        let first: *const u32 = chunked.get(0).unwrap();
        (1..FIRST as u32 * 8).for_each(|number| chunked.push(number));
        assert_eq!(first, chunked.get(0).unwrap() as *const u32);
        let reserved: usize = chunked.chunks.iter().map(Vec::capacity).sum();
        assert_eq!(reserved, FIRST * 15);
    }
}
