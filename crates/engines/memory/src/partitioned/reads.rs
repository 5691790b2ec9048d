//! Reads: truth from the home of its owner, derived lists from the home of their subject.

use entourage_model::{Counts, Key, Kind, List, Page, Place, Record, RecordId, Side, Space, State, View};

use super::engine::Engine;

impl Engine {
    pub fn page(&self, list: List, after: Option<Place>, limit: usize, is_up: bool) -> Page {
        let home = self.home(list.user).lock();
        match list.side {
            Side::Followers => home.inbound.scan(list, after, limit, is_up),
            Side::Following if is_up => home.out.scan_up(list, after, limit),
            Side::Following => home.out.scan(list, after, limit),
        }
    }

    /// Both sides at one moment.
    pub fn counts(&self, key: Key) -> Option<Counts> {
        let home = self.home(key).lock();
        let mut counts = home.out.counts(key)?;
        home.inbound.count(key, &mut counts);
        Some(counts)
    }

    /// Whether an edge is active at one moment, with both its users existing.
    pub fn common(&self, one: Key, other: Key, limit: usize, found: &mut Vec<Key>) {
        // All at one moment; locks always in this order, so that there is no deadlock.
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

    pub fn record(&self, space: Space, owner: Key, id: &RecordId) -> Option<Record> {
        self.home(owner).lock().out.record(space, owner, id)
    }

    pub fn records(&self, space: Space, owner: Key, after: Option<&[u8]>, limit: usize) -> Vec<Record> {
        self.home(owner).lock().out.documents().scan(space, owner, after).take(limit).collect()
    }

    pub fn count_records(&self, space: Space, owner: Key) -> u64 {
        self.home(owner).lock().out.record_count(space, owner)
    }
}
