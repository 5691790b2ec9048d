//! The in-halves of a home's users: who follows, asks, mutes and blocks them, with the total of each list.

use std::collections::BTreeMap;

use entourage_model::{Counts, Edge, EdgeValue, Half, Key, Kind, List, Page, Place, Plane, Side};

use super::{
    buckets::Buckets,
    bug::{Bug, Planted},
};

pub type Link = (Kind, Key, Key);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    all: u64,
    quiet: u64,
}

pub type Totals = BTreeMap<(Key, Plane), Total>;

/// The rows of one list, and separately those that are not quiet: a page of these costs the same as any page.
#[derive(Clone, Debug, Default)]
struct Listed {
    all: Buckets,
    open: Buckets,
}

/// Lists and totals. They are stored separately, as in a store that cannot count a list, and change together.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// By follower: removed edges stay as tombstones.
    known: BTreeMap<Link, EdgeValue>,
    lists: BTreeMap<(Key, Plane), Listed>,
    totals: Totals,
    /// Counts every change, so that a judgement of an earlier state is not applied to a later one.
    revision: u64,
    /// The most rows in one bucket of a list.
    bucket_rows: usize,
    planted: Planted,
}

/// The effect of some halves on the lists and totals of their targets.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub edges: Vec<(Link, EdgeValue)>,
    pub totals: Totals,
}

impl Inbound {
    pub fn new(bucket_rows: usize, planted: Planted) -> Self {
        let (known, lists, totals) = (BTreeMap::new(), BTreeMap::new(), Totals::new());
        Self { known, lists, totals, revision: 0, bucket_rows, planted }
    }

    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Something that halves are judged by has changed.
    pub fn revise(&mut self) {
        self.revision += 1;
    }

    /// Of an edge that may be a tombstone.
    pub fn known(&self, link: Link) -> Option<EdgeValue> {
        self.known.get(&link).copied()
    }

    #[cfg(feature = "planted")]
    pub fn all_known(&self) -> impl Iterator<Item = (Link, EdgeValue)> {
        self.known.iter().map(|(link, value)| (*link, *value))
    }

    /// As [`Self::known`], once these rows are applied.
    pub fn known_with(&self, rows: &Rows, link: Link) -> Option<EdgeValue> {
        let planned = rows.edges.iter().rev().find(|(known, _)| *known == link).map(|(_, value)| *value);
        planned.or_else(|| self.known(link))
    }

    /// Adds a half to the effect of earlier ones on the same lists.
    pub fn add(&self, rows: &mut Rows, half: &Half) {
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

    pub fn apply(&mut self, rows: Rows) {
        self.apply_edges(rows.edges);
        self.apply_totals(rows.totals);
    }

    pub fn apply_edges(&mut self, edges: Vec<(Link, EdgeValue)>) {
        for (link, value) in edges {
            let before = self.known.insert(link, value);
            if let Some(before) = before {
                self.list(link, before, false);
            }
            self.list(link, value, true);
        }
        self.revision += 1;
    }

    /// Adds an edge to its list, or removes it.
    fn list(&mut self, (kind, follower, target): Link, value: EdgeValue, is_added: bool) {
        let Some(plane) = Plane::of(kind, value.state) else { return };
        let listed = self.lists.entry((target, plane)).or_default();
        let place = Place { position: value.position, key: follower };
        for (rows, is_in) in [(&mut listed.all, true), (&mut listed.open, !value.quiet)] {
            match is_added {
                true if is_in => rows.insert(place, self.bucket_rows),
                true => {}
                false => rows.remove(place, self.bucket_rows),
            }
        }
        if listed.all.rows == 0 {
            self.lists.remove(&(target, plane));
        }
    }

    pub fn apply_totals(&mut self, totals: Totals) {
        self.totals.extend(totals);
        self.totals.retain(|_, total| *total != Total::default());
    }

    /// Applies one half, if it is newer than what is known, or unconditionally.
    pub fn take(&mut self, half: &Half, is_forced: bool) {
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

    pub fn has(&self, kind: Kind, follower: Key, target: Key) -> Option<EdgeValue> {
        self.known((kind, follower, target)).filter(EdgeValue::is_live)
    }

    pub fn scan(&self, list: List, after: Option<Place>, limit: usize, is_up: bool) -> Page {
        let Some(listed) = self.lists.get(&(list.user, list.plane)) else { return self.page(list, Vec::new(), limit) };
        let rows = if list.open { &listed.open } else { &listed.all };
        let one_more = limit.saturating_add(1);
        let mut places = if is_up { rows.up(after, one_more) } else { rows.down(after, one_more) };
        if self.planted.is(Bug::StopsAtBucket) {
            places.truncate(rows.in_one_bucket(&places));
        }
        self.page(list, places, limit)
    }

    fn page(&self, list: List, mut places: Vec<Place>, limit: usize) -> Page {
        let more = places.len() > limit;
        places.truncate(limit);
        let (kind, target) = (list.plane.kind(), list.user);
        let edge = |place: &Place| {
            let value = self.known((kind, place.key, target))?;
            Some(Edge { kind, follower: place.key, target, value })
        };
        let edges = places.iter().filter_map(edge).collect();
        let Total { all, quiet } = self.total((list.user, list.plane));
        match list.open {
            true => Page { edges, more, total: all.saturating_sub(quiet), quiet: 0 },
            false => Page { edges, more, total: all, quiet },
        }
    }

    /// The half of a user's counts that lies here.
    pub fn count(&self, user: Key, counts: &mut Counts) {
        let follows = self.total((user, Plane::Follow));
        (counts.followers, counts.followers_quiet) = (follows.all, follows.quiet);
        counts.requests = self.total((user, Plane::Request)).all;
    }

    /// At most `limit` edges of every kind that lead to a user.
    pub fn edges_to(&self, user: Key, limit: usize) -> Vec<Edge> {
        let lists = Plane::ALL.map(|plane| List::new(user, plane, Side::Followers));
        lists.iter().flat_map(|list| self.scan(*list, None, limit, true).edges).take(limit).collect()
    }

    /// Lists whose total differs from their rows, and buckets that are out of order.
    pub fn wrong_totals(&self) -> Vec<String> {
        let mut counted = Totals::new();
        for ((kind, _, target), value) in &self.known {
            let Some(plane) = Plane::of(*kind, value.state) else { continue };
            let total = counted.entry((*target, plane)).or_default();
            (total.all, total.quiet) = (total.all + 1, total.quiet + u64::from(value.quiet));
        }
        let listed = self.lists.iter().map(|(list, rows)| {
            let quiet = rows.all.rows.saturating_sub(rows.open.rows);
            (*list, Total { all: rows.all.rows, quiet })
        });
        let listed: Totals = listed.collect();
        let lists = self.totals.keys().chain(counted.keys()).chain(listed.keys());
        let is_wrong = |list: &&(Key, Plane)| {
            self.totals.get(list) != counted.get(list) || self.totals.get(list) != listed.get(list)
        };
        let told = |list: &(Key, Plane)| {
            format!(
                "{list:?}: {:?}, listed {:?}, known {:?}",
                self.totals.get(list),
                listed.get(list),
                counted.get(list)
            )
        };
        let buckets = self.lists.values().flat_map(|rows| [&rows.all, &rows.open]);
        let wrong = lists.filter(is_wrong).map(told);
        wrong.chain(buckets.filter_map(|rows| rows.wrong(self.bucket_rows))).collect()
    }

    /// The greatest number of buckets of a list.
    #[cfg(feature = "planted")]
    pub fn buckets_max(&self) -> usize {
        self.lists.values().map(|listed| listed.all.buckets()).max().unwrap_or_default()
    }
}
