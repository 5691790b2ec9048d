//! Reads: truth from the home of whose it is, derived lists from the home of whom they are about.

use std::collections::BTreeMap;

use entourage_model::{Counts, Key, Kind, List, Page, Place, Record, RecordId, Side, Space, State, View, tally};

use super::{engine::Engine, home::Home, route};

impl Engine {
    pub(super) fn page(&self, list: List, after: Option<Place>, limit: usize, is_up: bool) -> Page {
        let home = self.home(list.user).lock();
        match list.side {
            Side::Followers => home.inbound.scan(list, after, limit, is_up),
            Side::Following if is_up => home.out.scan_up(list, after, limit),
            Side::Following => home.out.scan(list, after, limit),
        }
    }

    /// Both sides at one moment.
    pub(super) fn counts(&self, key: Key) -> Option<Counts> {
        let home = self.home(key).lock();
        let mut counts = home.out.counts(key)?;
        home.inbound.count(key, &mut counts);
        Some(counts)
    }

    /// An edge that is followed at one moment, if both its users are there.
    pub(super) fn common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) {
        // All at one moment; always in this order, so that nobody waits for somebody who waits.
        let homes: Vec<_> = self.homes.iter().map(|home| home.lock()).collect();
        let home = |key: Key| homes.get(self.home_of(key));
        let is_there = |key: Key| home(key).is_some_and(|home| home.has_user(key));
        let (Some(first), Some(second)) = (home(one), home(other)) else { return };
        if !is_there(one) || !is_there(other) {
            return;
        }
        let is_common = |key: &Key| {
            let edge = second.out.edge(Kind::Follow, other, *key);
            edge.is_some_and(|edge| edge.state == State::Active) && is_there(*key)
        };
        let page = first.out.scan(List::following(one), None, usize::MAX - 1);
        found.extend(page.edges.iter().map(|edge| edge.target).filter(is_common).take(limit));
    }

    pub(super) fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        if owner != Key::SERVER {
            return self.home(owner).lock().out.record(space, owner, id);
        }
        if let Some(key) = route::of_server(space, id) {
            return self.home(key).lock().out.record(space, owner, id);
        }
        let parts = self.homes.iter().filter_map(|home| home.lock().out.record(space, owner, id));
        parts.reduce(merged)
    }

    /// Those of the server's are spread over all homes.
    pub(super) fn records(&self, space: Space, owner: Key, after: Option<&[u8]>, limit: usize) -> Vec<Record> {
        let first = |home: &Home| home.out.documents().scan(space, owner, after).take(limit).collect::<Vec<_>>();
        if owner != Key::SERVER {
            return first(&self.home(owner).lock());
        }
        let mut all: BTreeMap<RecordId, Record> = BTreeMap::new();
        for record in self.homes.iter().flat_map(|home| first(&home.lock())) {
            let known = all.remove(&record.id);
            all.insert(record.id.clone(), known.into_iter().fold(record, merged));
        }
        all.into_values().take(limit).collect()
    }

    pub(super) fn count_records(&self, space: Space, owner: Key) -> u64 {
        if owner != Key::SERVER {
            return self.home(owner).lock().out.record_count(space, owner);
        }
        self.records(space, owner, None, usize::MAX).len() as u64
    }
}

/// What each home counted of one thing.
fn merged(one: Record, other: Record) -> Record {
    let sum = tally(&one.value).saturating_add(tally(&other.value));
    Record { id: one.id, version: one.version.max(other.version), value: sum.to_be_bytes().into() }
}
