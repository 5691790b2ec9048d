//! The in-halves of a home's users: who follows, asks, mutes and blocks them, with the total of each list.

use std::collections::BTreeMap;

use entourage_model::{Counts, Edge, EdgeValue, Half, Key, Kind, List, Page, Place, Plane, Side};

use crate::backends::memory::Graph;

pub(super) type Link = (Kind, Key, Key);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    all: u64,
    quiet: u64,
}

pub(super) type Totals = BTreeMap<(Key, Plane), Total>;

/// Lists and totals. They are kept apart, as a store does that cannot count a list, and change together.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbound {
    rows: Graph,
    totals: Totals,
    /// Counts every change, so that what was judged against an earlier state is not applied to a later one.
    revision: u64,
}

/// What some halves make of the lists and totals of their targets.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    pub(super) edges: Vec<(Link, EdgeValue)>,
    pub(super) totals: Totals,
}

impl Inbound {
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Something that halves are judged by has changed.
    pub(super) fn revise(&mut self) {
        self.revision += 1;
    }

    /// Of an edge that may be removed.
    pub(super) fn known(&self, link: Link) -> Option<EdgeValue> {
        self.rows.known_edge(link)
    }

    #[cfg(feature = "planted")]
    pub(super) fn all_known(&self) -> impl Iterator<Item = (Link, EdgeValue)> {
        self.rows.known_edges()
    }

    /// As [`Self::known`], once these rows are applied.
    pub(super) fn known_with(&self, rows: &Rows, link: Link) -> Option<EdgeValue> {
        let planned = rows.edges.iter().rev().find(|(known, _)| *known == link).map(|(_, value)| *value);
        planned.or_else(|| self.known(link))
    }

    /// Adds a half to what others before it make of the same lists.
    pub(super) fn add(&self, rows: &mut Rows, half: &Half) {
        let link = (half.kind, half.follower, half.target);
        let before = self.known_with(rows, link);
        for (value, is_added) in [(before, false), (Some(half.after), true)] {
            let Some(value) = value else { continue };
            let Some(plane) = Plane::of(half.kind, value.state) else { continue };
            let list = (half.target, plane);
            let total = rows.totals.entry(list).or_insert_with(|| self.total(list));
            let quiet = u64::from(value.quiet);
            if is_added {
                (total.all, total.quiet) = (total.all + 1, total.quiet + quiet);
            } else {
                (total.all, total.quiet) = (total.all.saturating_sub(1), total.quiet.saturating_sub(quiet));
            }
        }
        rows.edges.push((link, half.after));
    }

    pub(super) fn apply(&mut self, rows: Rows) {
        self.apply_edges(rows.edges);
        self.apply_totals(rows.totals);
    }

    pub(super) fn apply_edges(&mut self, edges: Vec<(Link, EdgeValue)>) {
        for (link, value) in edges {
            self.rows.set_edge(link, value);
        }
        self.revision += 1;
    }

    pub(super) fn apply_totals(&mut self, totals: Totals) {
        self.totals.extend(totals);
        self.totals.retain(|_, total| *total != Total::default());
    }

    /// Takes one half, if it is newer than what is known, or in any case.
    pub(super) fn take(&mut self, half: &Half, is_forced: bool) {
        let link = (half.kind, half.follower, half.target);
        if is_forced || self.known(link).is_none_or(|known| known.version < half.after.version) {
            let mut rows = Rows::default();
            self.add(&mut rows, half);
            self.apply(rows);
        }
    }

    fn total(&self, list: (Key, Plane)) -> Total {
        self.totals.get(&list).copied().unwrap_or_default()
    }

    pub(super) fn has(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        self.known((kind, follower, target)).filter(EdgeValue::is_live)
    }

    pub(super) fn scan(&self, list: List, after: Option<Place>, limit: usize, is_up: bool) -> Page {
        let page = if is_up { self.rows.scan_up(list, after, limit) } else { self.rows.scan(list, after, limit) };
        let Total { all, quiet } = self.total((list.user, list.plane));
        match list.open {
            true => Page { total: all.saturating_sub(quiet), quiet: 0, ..page },
            false => Page { total: all, quiet, ..page },
        }
    }

    /// The half of a user's counts that lies here.
    pub(super) fn count(&self, user: Key, counts: &mut Counts) {
        let follows = self.total((user, Plane::Follow));
        (counts.followers, counts.followers_quiet) = (follows.all, follows.quiet);
        counts.requests = self.total((user, Plane::Request)).all;
    }

    /// At most `limit` edges of every kind that lead to a user.
    pub(super) fn edges_to(&self, user: Key, limit: usize) -> Vec<Edge> {
        let lists = Plane::ALL.map(|plane| List::new(user, plane, Side::Followers));
        lists.iter().flat_map(|list| self.rows.scan_up(*list, None, limit).edges).take(limit).collect()
    }

    /// Lists whose total is not what they show.
    pub(super) fn wrong_totals(&self) -> Vec<String> {
        let mut counted = Totals::new();
        for ((kind, _, target), value) in self.rows.known_edges() {
            let Some(plane) = Plane::of(kind, value.state) else { continue };
            let total = counted.entry((target, plane)).or_default();
            (total.all, total.quiet) = (total.all + 1, total.quiet + u64::from(value.quiet));
        }
        let lists = self.totals.keys().chain(counted.keys());
        let differs = lists.filter(|list| self.totals.get(list) != counted.get(list));
        differs.map(|list| format!("{list:?}: {:?}, listed {:?}", self.totals.get(list), counted.get(list))).collect()
    }
}
