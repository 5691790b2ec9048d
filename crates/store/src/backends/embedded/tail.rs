//! The tail: what changed in a list since the last checkpoint, by place. An entry overrules whatever older layers
//! (a frozen tail, the blocks) say of the same place.

use std::collections::BTreeMap;

use entourage_model::{EdgeValue, Expiry, Place, Version};
use smallvec::SmallVec;

use super::block::Entry;

/// Above this many entries a list moves from a sorted array to a tree when one goes into the middle, which must stay
/// cheap. At the end, where nearly all go, an array takes many more; its growing must not become a pause.
const FEW: usize = 64;
const FEW_AT_THE_END: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TailValue {
    pub(super) version: Version,
    pub(super) other: u32,
    pub(super) expires: Option<Expiry>,
    pub(super) quiet: bool,
    pub(super) accepted: bool,
    /// Whether an edge stands here; otherwise one did.
    pub(super) live: bool,
}

impl TailValue {
    pub(super) const fn new(value: &EdgeValue, version: Version, other: u32, live: bool) -> Self {
        let EdgeValue { quiet, accepted, expires, .. } = *value;
        Self { version, other, expires, quiet, accepted, live }
    }

    /// What a block says, as a tail would.
    pub(super) const fn live(entry: &Entry) -> Self {
        let Entry { version, other, expires, quiet, accepted, .. } = *entry;
        Self { version, other, expires, quiet, accepted, live: true }
    }

    pub(super) const fn entry(self, place: Place) -> Entry {
        let Self { version, other, expires, quiet, accepted, .. } = self;
        Entry { position: place.position, version, other, expires, quiet, accepted }
    }
}

#[derive(Clone, Debug)]
enum Entries {
    Few(SmallVec<[(Place, TailValue); 1]>),
    Many(BTreeMap<Place, TailValue>),
}

#[derive(Clone, Debug)]
pub(super) struct TailList {
    entries: Entries,
    removals: u32,
}

impl Default for TailList {
    fn default() -> Self {
        Self { entries: Entries::Few(SmallVec::new()), removals: 0 }
    }
}

impl TailList {
    pub(super) fn set(&mut self, place: Place, value: TailValue) {
        self.entries.set(place, value);
        self.removals += u32::from(!value.live);
    }

    /// How many edges were taken away since the last checkpoint: places that a page has to look past.
    pub(super) const fn removals(&self) -> u32 {
        self.removals
    }

    pub(super) fn get(&self, place: Place) -> Option<TailValue> {
        match &self.entries {
            Entries::Few(entries) => {
                let at = entries.binary_search_by(|(known, _)| known.cmp(&place)).ok()?;
                entries.get(at).map(|(_, value)| *value)
            }
            Entries::Many(entries) => entries.get(&place).copied(),
        }
    }

    /// From the newest place below `after` down.
    pub(super) fn below(&self, after: Option<Place>) -> Box<dyn Iterator<Item = (Place, TailValue)> + '_> {
        match &self.entries {
            Entries::Few(entries) => {
                let end = after.map_or(entries.len(), |after| entries.partition_point(|(place, _)| *place < after));
                Box::new(entries.iter().take(end).rev().copied())
            }
            Entries::Many(entries) => match after {
                Some(after) => Box::new(entries.range(..after).rev().map(|(place, value)| (*place, *value))),
                None => Box::new(entries.iter().rev().map(|(place, value)| (*place, *value))),
            },
        }
    }

    /// The live edge to or from `other`, if this tail has it.
    pub(super) fn find(&self, other: u32) -> Option<(Place, TailValue)> {
        self.below(None).find(|(_, value)| value.live && value.other == other)
    }
}

impl Entries {
    fn set(&mut self, place: Place, value: TailValue) {
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
                let mut many: BTreeMap<Place, TailValue> = entries.iter().copied().collect();
                many.insert(place, value);
                *self = Self::Many(many);
            }
        }
    }
}
