//! One reader's inbox: ids of posts and who wrote them, in little space, complete above its floor.

use std::collections::VecDeque;

use entourage_model::{Key, Version};

/// How many entries are packed together.
const SEGMENT: usize = 64;
/// Below the milliseconds of a version: server and counter.
const LOW_BITS: u32 = 22;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

/// A post in a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    pub post: Version,
    pub author: Key,
}

/// The number of an author, shorter than a key.
pub(super) type Slot = u32;
/// A post's id and its author's number.
type Packed = (u64, Slot);

/// Entries one after another, ascending, each as what it differs in from the one before.
#[derive(Debug)]
struct Segment {
    first: u64,
    last: u64,
    count: u16,
    bytes: Box<[u8]>,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The newest, ascending.
    fresh: Vec<Packed>,
    /// The rest, ascending, all below the fresh ones.
    packed: VecDeque<Segment>,
    count: usize,
    /// Everything above is here.
    floor: u64,
    /// What the packed ones take, each where it stands.
    packed_bytes: usize,
}

/// What an allocation costs beside what it holds.
const ALLOCATION_BYTES: usize = 16;

impl Inbox {
    /// From entries in any order.
    pub(super) fn new(mut entries: Vec<Packed>, floor: Version, cap: usize) -> Self {
        entries.sort_unstable();
        let mut inbox = Self { floor: floor.bits(), ..Self::default() };
        for (post, slot) in entries {
            inbox.insert(post, slot, cap);
        }
        inbox
    }

    pub(super) const fn floor(&self) -> Version {
        Version::from_bits(self.floor)
    }

    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// Whether it was not there before. What is not above the floor is the store's to answer.
    pub(super) fn insert(&mut self, post: u64, slot: Slot, cap: usize) -> bool {
        if post <= self.floor {
            return false;
        }
        let packed_to = self.packed.back().map_or(0, |segment| segment.last);
        let is_new = if post > packed_to { self.insert_fresh(post, slot) } else { self.insert_packed(post, slot) };
        if is_new {
            self.count += 1;
            self.trim(cap);
        }
        is_new
    }

    fn insert_fresh(&mut self, post: u64, slot: Slot) -> bool {
        let at = match self.fresh.last() {
            Some((last, _)) if *last >= post => match self.fresh.binary_search_by_key(&post, |(known, _)| *known) {
                Ok(_) => return false,
                Err(at) => at,
            },
            _ => self.fresh.len(),
        };
        self.fresh.insert(at, (post, slot));
        if self.fresh.len() >= 2 * SEGMENT {
            let segment = Segment::pack(&self.fresh[..SEGMENT]);
            self.packed_bytes += segment.size();
            self.packed.push_back(segment);
            self.fresh.drain(..SEGMENT);
        }
        true
    }

    /// A straggler: it waited behind others, or its author was followed just now.
    fn insert_packed(&mut self, post: u64, slot: Slot) -> bool {
        let at = self.packed.partition_point(|segment| segment.last < post);
        let Some(segment) = self.packed.get_mut(at) else { return false };
        let mut entries = segment.unpack();
        let Err(place) = entries.binary_search_by_key(&post, |(known, _)| *known) else { return false };
        entries.insert(place, (post, slot));
        self.packed_bytes -= segment.size();
        if entries.len() > 2 * SEGMENT {
            let upper = entries.split_off(SEGMENT);
            *segment = Segment::pack(&upper);
            let lower = Segment::pack(&entries);
            self.packed_bytes += segment.size() + lower.size();
            self.packed.insert(at, lower);
        } else {
            *segment = Segment::pack(&entries);
            self.packed_bytes += segment.size();
        }
        true
    }

    /// Only the oldest go, and the floor rises to them.
    fn trim(&mut self, cap: usize) {
        while self.count > cap {
            if let Some(oldest) = self.packed.pop_front() {
                self.count -= usize::from(oldest.count);
                self.packed_bytes -= oldest.size();
                self.floor = self.floor.max(oldest.last);
            } else {
                let over = self.count - cap;
                if let Some((post, _)) = self.fresh.drain(..over).next_back() {
                    self.floor = self.floor.max(post);
                }
                self.count = cap;
            }
        }
    }

    /// Entries below `below`, newest first.
    pub(super) fn read(&self, below: Version, limit: usize) -> Vec<Packed> {
        let mut found = Vec::with_capacity(limit.min(self.count));
        let until = self.fresh.partition_point(|(post, _)| *post < below.bits());
        found.extend(self.fresh[..until].iter().rev().take(limit));
        for segment in self.packed.iter().rev().filter(|segment| segment.first < below.bits()) {
            if found.len() >= limit {
                break;
            }
            let room = limit - found.len();
            let entries = segment.unpack();
            found.extend(entries.into_iter().rev().filter(|(post, _)| *post < below.bits()).take(room));
        }
        found
    }

    /// Takes entries out for good.
    pub(super) fn remove(&mut self, posts: &[u64]) {
        let is_gone = |entry: &Packed| posts.contains(&entry.0);
        let before = self.fresh.len();
        self.fresh.retain(|entry| !is_gone(entry));
        self.count -= before - self.fresh.len();
        for segment in &mut self.packed {
            if !posts.iter().any(|post| (segment.first..=segment.last).contains(post)) {
                continue;
            }
            let mut entries = segment.unpack();
            let before = entries.len();
            entries.retain(|entry| !is_gone(entry));
            self.count -= before - entries.len();
            *segment = Segment::pack(&entries);
        }
        self.packed.retain(|segment| segment.count > 0);
        self.packed_bytes = self.packed.iter().map(Segment::size).sum();
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.fresh.capacity() * size_of::<Packed>() + self.packed.capacity() * size_of::<Segment>() + self.packed_bytes
    }
}

impl Segment {
    const fn size(&self) -> usize {
        self.bytes.len() + ALLOCATION_BYTES
    }

    fn pack(entries: &[Packed]) -> Self {
        let mut bytes = Vec::with_capacity(entries.len() * 8);
        let (mut millis, mut low) = (0, 0);
        for &(post, slot) in entries {
            let (next_millis, next_low) = (post >> LOW_BITS, post & LOW_MASK);
            let is_other = next_low != low;
            put_number(&mut bytes, (next_millis - millis) << 1 | u64::from(is_other));
            if is_other {
                put_number(&mut bytes, next_low);
            }
            put_number(&mut bytes, u64::from(slot));
            (millis, low) = (next_millis, next_low);
        }
        Self {
            first: entries.first().map_or(0, |entry| entry.0),
            last: entries.last().map_or(0, |entry| entry.0),
            count: entries.len() as u16,
            bytes: bytes.into_boxed_slice(),
        }
    }

    fn unpack(&self) -> Vec<Packed> {
        let mut entries = Vec::with_capacity(usize::from(self.count) + 1);
        let (mut rest, mut millis, mut low) = (&*self.bytes, 0, 0);
        for _ in 0..self.count {
            let step = take_number(&mut rest);
            millis += step >> 1;
            if step & 1 == 1 {
                low = take_number(&mut rest);
            }
            entries.push((millis << LOW_BITS | low, take_number(&mut rest) as Slot));
        }
        entries
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((&byte, more)) = rest.split_first() {
        *rest = more;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use entourage_model::Millis;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn id(millis: u64, counter: u16) -> u64 {
        Version::new(Millis::from_since_2000(millis), 1, counter).bits()
    }

    #[test]
    fn keeps_the_newest_in_order_whatever_comes_when() {
        for seed in 0..200 {
            let mut random = StdRng::seed_from_u64(seed);
            let cap = [3, 64, 65, 200, 1_000][random.random_range(0..5)];
            let (mut inbox, mut all) = (Inbox::default(), BTreeMap::new());
            for step in 0..1_500_u64 {
                let late = if random.random_ratio(1, 5) { random.random_range(0..500) } else { 0 };
                let post = id((1_000 + step).saturating_sub(late), random.random_range(0..3));
                let slot = random.random_range(0..50);
                let is_known = all.contains_key(&post);
                let above = post > inbox.floor;
                assert_eq!(inbox.insert(post, slot, cap), above && !is_known);
                all.entry(post).or_insert(slot);
                assert!(inbox.len() <= cap);
            }
            let expected: Vec<Packed> =
                all.iter().rev().map(|(post, slot)| (*post, *slot)).filter(|(post, _)| *post > inbox.floor).collect();
            assert_eq!(inbox.len(), expected.len());
            assert_eq!(inbox.read(Version::MAX, usize::MAX), expected, "seed {seed}");
            let below = expected[expected.len() / 2].0;
            let rest: Vec<Packed> = expected.iter().copied().filter(|(post, _)| *post < below).take(7).collect();
            assert_eq!(inbox.read(Version::from_bits(below), 7), rest);
            let gone: Vec<u64> = expected.iter().step_by(3).map(|entry| entry.0).collect();
            inbox.remove(&gone);
            let left: Vec<Packed> = expected.into_iter().filter(|(post, _)| !gone.contains(post)).collect();
            assert_eq!((inbox.read(Version::MAX, usize::MAX), inbox.len()), (left.clone(), left.len()));
        }
    }

    #[test]
    fn filled_from_the_newest_down_it_is_trimmed_by_sixty_fours() {
        let (cap, mut inbox) = (1_000, Inbox::default());
        assert!((1..=1_000).rev().all(|millis| inbox.insert(id(millis, 0), 1, cap)));
        assert_eq!((inbox.len(), inbox.floor), (1_000, 0));
        assert!(inbox.bytes() <= 10_000, "{} bytes", inbox.bytes());
        inbox.insert(id(2_000, 0), 1, cap);
        assert!(inbox.len() >= cap - 2 * SEGMENT, "{}", inbox.len());
    }

    #[test]
    fn a_thousand_entries_take_less_than_ten_kilobytes() {
        let (mut inbox, mut random) = (Inbox::default(), StdRng::seed_from_u64(1));
        let mut millis = 800_000_000_000;
        for _ in 0..5_000 {
            millis += random.random_range(0..1_000_000);
            inbox.insert(id(millis, random.random_range(0..2)), random.random_range(0..1_000_000), 1_000);
        }
        assert!(inbox.len() > 900 && inbox.bytes() <= 10_000, "{} bytes", inbox.bytes());
    }
}
