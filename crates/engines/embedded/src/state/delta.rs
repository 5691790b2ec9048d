//! The delta: what changed in a list since the last checkpoint. It has the edges that were added, and covers places
//! where an edge of an older layer (a frozen delta, the blocks) is gone or replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use entourage_model::{EdgeValue, Expiry, Place, Version};
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{
    blocks::block::Entry,
    state::lists::{BlockId, Refs},
};

/// Above this many entries a sorted array becomes a tree when one is inserted in the middle, to keep that cheap. At the
/// end, where nearly all go, an array may have many more, but growing it must not become a pause.
const FEW: usize = 64;
const FEW_AT_THE_END: usize = 4096;

/// The direction in which a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the newest place below the start.
    Down,
    /// From the oldest place above it.
    Up,
}

impl Direction {
    /// Whether a place comes after the start.
    pub(crate) fn is_behind(self, start: Option<Place>, place: Place) -> bool {
        start.is_none_or(|start| match self {
            Self::Down => place < start,
            Self::Up => place > start,
        })
    }

    pub(crate) fn order<T>(self, rows: &mut [(Place, T)]) {
        match self {
            Self::Down => rows.sort_unstable_by(|(a, _), (b, _)| b.cmp(a)),
            Self::Up => rows.sort_unstable_by_key(|(place, _)| *place),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaValue {
    pub(crate) version: Version,
    pub(crate) other: u32,
    pub(crate) expires: Option<Expiry>,
    pub(crate) quiet: bool,
    pub(crate) accepted: bool,
}

impl DeltaValue {
    pub(crate) const fn new(value: &EdgeValue, version: Version, other: u32) -> Self {
        let EdgeValue { quiet, accepted, expires, .. } = *value;
        Self { version, other, expires, quiet, accepted }
    }

    /// A block entry as a delta value.
    pub(crate) const fn of(entry: &Entry) -> Self {
        let Entry { version, other, expires, quiet, accepted, .. } = *entry;
        Self { version, other, expires, quiet, accepted }
    }

    pub(crate) const fn entry(self, place: Place) -> Entry {
        let Self { version, other, expires, quiet, accepted } = self;
        Entry { position: place.position, version, other, expires, quiet, accepted }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    live: Live,
    /// Most deltas have only added edges, and few of them.
    rest: Option<Box<Rest>>,
}

#[derive(Clone, Debug, Default)]
struct Rest {
    /// Places where this delta overrides an edge of an older layer.
    covered: BTreeSet<Place>,
    /// Covered places per block: a block with nothing left need not be read. Never too high, but may be too low while a
    /// checkpoint replaces blocks.
    covered_in: HashMap<BlockId, u32>,
    /// The place of the edge to each other user, in long deltas that are searched for it.
    places: HashMap<u32, Place>,
}

impl Delta {
    /// Adds an edge. `is_found`: a long delta indexes it by the other user.
    pub(crate) fn come(&mut self, place: Place, value: DeltaValue, is_found: bool) {
        self.live.insert(place, value);
        if !is_found {
            return;
        }
        match &mut self.rest {
            Some(rest) if !rest.places.is_empty() => drop(rest.places.insert(value.other, place)),
            _ if self.live.len() > FEW => {
                let places = self.live.iter(None, Direction::Up).map(|(place, value)| (value.other, place));
                self.rest.get_or_insert_default().places = places.collect();
            }
            _ => {}
        }
    }

    /// Removes the edge that this delta has at a place. False if it has none.
    pub(crate) fn go(&mut self, place: Place) -> bool {
        let Some(value) = self.live.remove(place) else { return false };
        if let Some(rest) = &mut self.rest
            && rest.places.get(&value.other) == Some(&place)
        {
            rest.places.remove(&value.other);
        }
        true
    }

    /// Covers what an older layer has at a place. `block` is the block that has it, if any.
    pub(crate) fn cover(&mut self, place: Place, block: Option<BlockId>) {
        let rest = self.rest.get_or_insert_default();
        if rest.covered.insert(place)
            && let Some(block) = block
        {
            *rest.covered_in.entry(block).or_default() += 1;
        }
    }

    /// Counts again after the list's blocks changed: all covered places are in them now.
    pub(crate) fn recount(&mut self, refs: &Refs) {
        let Some(rest) = &mut self.rest else { return };
        rest.covered_in.clear();
        for place in &rest.covered {
            if let Some(block) = refs.holding(*place) {
                *rest.covered_in.entry(block.id()).or_default() += 1;
            }
        }
    }

    pub(crate) fn covers(&self, place: Place) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.covered.contains(&place))
    }

    /// Covered edges of a block, as far as counted.
    pub(crate) fn covered_in(&self, block: BlockId) -> u32 {
        self.rest.as_ref().and_then(|rest| rest.covered_in.get(&block)).copied().unwrap_or_default()
    }

    /// Covered places above `above`, up to and including `last`.
    pub(crate) fn covered_between(&self, above: Option<Place>, last: Option<Place>) -> impl Iterator<Item = Place> {
        let bounds = (above.map_or(Bound::Unbounded, Bound::Excluded), last.map_or(Bound::Unbounded, Bound::Included));
        self.rest.iter().flat_map(move |rest| rest.covered.range(bounds).copied())
    }

    /// Whether this delta has an entry for a place.
    pub(crate) fn knows(&self, place: Place) -> bool {
        self.live.get(place).is_some() || self.covers(place)
    }

    /// `None`: no entry. `Some(None)`: no edge is there any more.
    pub(crate) fn get(&self, place: Place) -> Option<Option<DeltaValue>> {
        match self.live.get(place) {
            Some(value) => Some(Some(value)),
            None => self.covers(place).then_some(None),
        }
    }

    /// Edges after the start.
    pub(crate) fn live(
        &self,
        start: Option<Place>,
        direction: Direction,
    ) -> Box<dyn Iterator<Item = (Place, DeltaValue)> + '_> {
        self.live.iter(start, direction)
    }

    /// The edge to or from `other`, if this delta has it.
    pub(crate) fn find(&self, other: u32) -> Option<(Place, DeltaValue)> {
        if let Some(rest) = &self.rest
            && !rest.places.is_empty()
        {
            let place = *rest.places.get(&other)?;
            return self.live.get(place).map(|value| (place, value));
        }
        self.live(None, Direction::Down).find(|(_, value)| value.other == other)
    }

    /// All entries, oldest place first; `None`: no edge is there any more.
    pub(crate) fn changes(&self) -> Vec<(Place, Option<DeltaValue>)> {
        let live = self.live(None, Direction::Up).map(|(place, value)| (place, Some(value)));
        let gone = self.covered_between(None, None).filter(|place| self.live.get(*place).is_none());
        let mut changes: Vec<_> = live.chain(gone.map(|place| (place, None))).collect();
        Direction::Up.order(&mut changes);
        changes
    }
}

#[derive(Clone, Debug)]
enum Live {
    Few(SmallVec<[(Place, DeltaValue); 1]>),
    Many(BTreeMap<Place, DeltaValue>),
}

impl Default for Live {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Live {
    fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(entries) => entries.len(),
        }
    }

    fn get(&self, place: Place) -> Option<DeltaValue> {
        match self {
            Self::Few(entries) => {
                let at = entries.binary_search_by(|(known, _)| known.cmp(&place)).ok()?;
                entries.get(at).map(|(_, value)| *value)
            }
            Self::Many(entries) => entries.get(&place).copied(),
        }
    }

    fn iter(&self, start: Option<Place>, direction: Direction) -> Box<dyn Iterator<Item = (Place, DeltaValue)> + '_> {
        match (self, direction) {
            (Self::Few(entries), Direction::Down) => {
                let end = start.map_or(entries.len(), |start| entries.partition_point(|(place, _)| *place < start));
                Box::new(entries.iter().take(end).rev().copied())
            }
            (Self::Few(entries), Direction::Up) => {
                let first = start.map_or(0, |start| entries.partition_point(|(place, _)| *place <= start));
                Box::new(entries.iter().skip(first).copied())
            }
            (Self::Many(entries), Direction::Down) => {
                let below = (Bound::Unbounded, start.map_or(Bound::Unbounded, Bound::Excluded));
                Box::new(entries.range(below).rev().map(|(place, value)| (*place, *value)))
            }
            (Self::Many(entries), Direction::Up) => {
                let above = (start.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
                Box::new(entries.range(above).map(|(place, value)| (*place, *value)))
            }
        }
    }

    fn insert(&mut self, place: Place, value: DeltaValue) {
        let entries = match self {
            Self::Few(entries) => entries,
            Self::Many(entries) => {
                entries.insert(place, value);
                return;
            }
        };
        let at = match entries.last() {
            Some((last, _)) if *last >= place => entries.binary_search_by(|(known, _)| known.cmp(&place)),
            _ => Err(entries.len()),
        };
        match at {
            Ok(at) => {
                if let Some((_, known)) = entries.get_mut(at) {
                    *known = value;
                }
            }
            Err(at) if entries.len() < if at == entries.len() { FEW_AT_THE_END } else { FEW } => {
                entries.insert(at, (place, value));
            }
            Err(_) => {
                let mut many: BTreeMap<Place, DeltaValue> = entries.drain(..).collect();
                many.insert(place, value);
                *self = Self::Many(many);
            }
        }
    }

    fn remove(&mut self, place: Place) -> Option<DeltaValue> {
        let entries = match self {
            Self::Few(entries) => entries,
            Self::Many(entries) => return entries.remove(&place),
        };
        let at = entries.binary_search_by(|(known, _)| known.cmp(&place)).ok()?;
        if entries.len() - at <= FEW {
            return Some(entries.remove(at).1);
        }
        let mut many: BTreeMap<Place, DeltaValue> = entries.drain(..).collect();
        let removed = many.remove(&place);
        *self = Self::Many(many);
        removed
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::Key;
    use proptest::prelude::*;

    use super::*;

    fn place(number: u64) -> Place {
        Place { position: Version::from_bits(number + 1), key: Key(number as i64 % 3) }
    }

    fn value(other: u32) -> DeltaValue {
        DeltaValue { version: Version::from_bits(1), other, expires: None, quiet: false, accepted: false }
    }

    /// Steps for the delta and for a plain map, over a layer that has every fourth place.
    #[derive(Clone, Debug)]
    enum Step {
        Come(u64),
        Go(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0u64..300, any::<bool>()).prop_map(|(at, comes)| if comes { Step::Come(at) } else { Step::Go(at) });
        let in_order = (0u64..400).prop_map(|count| (300..300 + count).map(Step::Come).collect::<Vec<_>>());
        (in_order, prop::collection::vec(step, 0..300)).prop_map(|(first, then)| [first, then].concat())
    }

    proptest! {
        #[test]
        fn a_delta_over_a_layer_is_a_map(steps in steps(), is_found in any::<bool>()) {
            let below: BTreeSet<u64> = (0..300).step_by(4).collect();
            let mut standing: BTreeMap<u64, Option<u32>> = below.iter().map(|at| (*at, None)).collect();
            let mut delta = Delta::default();
            for step in steps {
                match step {
                    Step::Come(at) if !standing.contains_key(&at) => {
                        delta.come(place(at), value(at as u32), is_found);
                        standing.insert(at, Some(at as u32));
                    }
                    Step::Go(at) if standing.remove(&at).is_some() && !delta.go(place(at)) => {
                        delta.cover(place(at), None);
                    }
                    _ => {}
                }
            }
            for at in 0..700 {
                let known = match delta.get(place(at)) {
                    Some(word) => word.map(|value| Some(value.other)),
                    None => below.contains(&at).then_some(None),
                };
                prop_assert_eq!(known, standing.get(&at).copied());
                let found = delta.find(at as u32).map(|(place, _)| place);
                prop_assert_eq!(found, standing.get(&at).copied().flatten().map(|_| place(at)));
            }
            let live: Vec<u64> = standing.iter().filter(|(_, other)| other.is_some()).map(|(at, _)| *at).collect();
            for start in [None, Some(0), Some(150), Some(320), Some(900)] {
                let read = |direction| delta.live(start.map(place), direction).map(|(_, value)| u64::from(value.other));
                let below = live.iter().rev().copied().filter(|at| start.is_none_or(|start| *at < start));
                prop_assert!(read(Direction::Down).eq(below));
                let above = live.iter().copied().filter(|at| start.is_none_or(|start| *at > start));
                prop_assert!(read(Direction::Up).eq(above));
            }
            let mut folded: BTreeSet<u64> = below;
            for (at, word) in delta.changes() {
                let at = at.position.bits() - 1;
                let is_new = match word {
                    Some(_) => folded.insert(at),
                    None => folded.remove(&at),
                };
                prop_assert!(is_new || word.is_some());
            }
            prop_assert!(folded.iter().eq(standing.keys()));
        }
    }
}
