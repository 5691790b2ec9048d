//! Those rows of one list that are in all of some others, or not in another one. The list drives the work and gives the
//! order; whether somebody is in the others is asked from the other end, of memory where it knows.

use std::{cmp::Reverse, collections::HashSet};

use entourage_model::{Edge, Key, List, Place, Result, Side};
use tokio::task::yield_now;

use crate::{
    Context, Graph, UserRow,
    visibility::{Visibility, VisibleList},
};

/// How many rows of the driving list one request looks at.
pub const DRIVING_ROWS_MAX: usize = 100_000;
/// A row that the store has to be asked about is as much work as this many that memory knows.
const ASKED_ROW_WORK: usize = 20;
/// How many rows one look at the store takes.
const CHUNK: usize = 1_000;
/// Up to this many candidates are looked up one by one; for more the list is scanned.
const FEW_CANDIDATES: usize = 500;

/// What is asked of the rows of a list.
#[derive(Clone, Debug)]
pub(crate) struct SetQuery {
    pub(crate) driver: List,
    pub(crate) others: Vec<(Side, Key)>,
    /// Whether rows have to be in the others, or must not be.
    pub(crate) is_in: bool,
}

impl SetQuery {
    /// The pair that has an edge if this one is in that list.
    pub(crate) const fn pair((side, owner): (Side, Key), member: Key) -> (Key, Key) {
        match side {
            Side::Following => (owner, member),
            Side::Followers => (member, owner),
        }
    }
}

pub(crate) struct SetScan<'a> {
    context: &'a Context,
    viewer: Option<Key>,
    visibility: Visibility<'a>,
    driver: VisibleList,
    others: Vec<(Side, Key)>,
    is_in: bool,
    /// Everybody who can be in all lists, if memory knows.
    candidates: Option<HashSet<Key>>,
    /// The rows of all candidates, if there are few.
    known: Option<Vec<Edge>>,
    after: Option<Place>,
    work: usize,
    ended: bool,
}

impl Graph {
    /// Goes through a list from behind this place on. Whether the viewer may look at these lists was found out before.
    pub(crate) async fn set_scan<'a>(
        &'a self,
        viewer: Option<Key>,
        visibility: Visibility<'a>,
        query: SetQuery,
        after: Option<Place>,
    ) -> Result<SetScan<'a>> {
        let SetQuery { driver, others, is_in } = query;
        let mut common = Vec::new();
        let other = others.iter().find(|(side, _)| *side == Side::Following && driver.side == Side::Following && is_in);
        let is_known = other
            .is_some_and(|(_, other)| self.context.store.peek_common(driver.user, *other, usize::MAX, &mut common));
        let mut known = None;
        if is_known && common.len() <= FEW_CANDIDATES {
            let pairs: Vec<(Key, Key)> = common.iter().map(|candidate| (driver.user, *candidate)).collect();
            let mut edges: Vec<Edge> = self.context.follow_edges(&pairs).await?.into_iter().flatten().collect();
            edges.retain(|edge| after.is_none_or(|after| driver.place(edge) < after));
            edges.sort_unstable_by_key(|edge| Reverse(driver.place(edge)));
            known = Some(edges);
        }
        let driver = self.context.visible_list(viewer, driver).await?;
        let candidates = is_known.then(|| common.into_iter().collect());
        Ok(SetScan {
            context: &self.context,
            viewer,
            visibility,
            driver,
            others,
            is_in,
            candidates,
            known,
            after,
            work: 0,
            ended: false,
        })
    }
}

impl SetScan<'_> {
    /// Where it goes on; `None` at the end of the list.
    pub(crate) fn after(&self) -> Option<Place> {
        self.after.filter(|_| !self.ended)
    }

    /// Whom a row of the driving list shows.
    pub(crate) const fn member(&self, edge: &Edge) -> Key {
        self.driver.list.other(edge)
    }

    /// More rows that pass, with their places; `None` at the end, and when it has done enough work. `wanted` of them if
    /// one look at the store has them.
    pub(crate) async fn rows(&mut self, wanted: usize) -> Result<Option<Vec<(Edge, UserRow)>>> {
        let Some(edges) = self.next(wanted).await? else { return Ok(None) };
        Ok(Some(self.context.placed_rows(self.driver.list, &edges).await?))
    }

    /// How many pass, no more than `max` of them, and whether that is all it could be.
    pub(crate) async fn count(mut self, max: usize) -> Result<(usize, bool)> {
        if let (None, [_], Some(candidates)) = (self.viewer, self.others.as_slice(), &self.candidates) {
            return Ok((candidates.len().min(max), true));
        }
        let mut count = 0;
        while count < max
            && let Some(rows) = self.rows(CHUNK).await?
        {
            count += rows.len();
        }
        Ok((count.min(max), self.ended || count >= max))
    }

    async fn next(&mut self, wanted: usize) -> Result<Option<Vec<Edge>>> {
        if self.ended || self.work >= DRIVING_ROWS_MAX {
            return Ok(None);
        }
        // A store in memory never waits by itself, and others want to be served meanwhile.
        yield_now().await;
        if let Some(known) = &mut self.known {
            let later = known.split_off(wanted.min(known.len()));
            let edges = std::mem::replace(known, later);
            self.ended = known.is_empty();
            self.after = edges.last().map(|edge| self.driver.list.place(edge)).or(self.after);
            return Ok(Some(self.pass(edges).await?));
        }
        let chunk = if self.candidates.is_some() { CHUNK } else { wanted.min(CHUNK) };
        let page = self.context.scan_visible(&self.driver, self.after, chunk).await?;
        self.work += page.edges.len();
        self.after = page.edges.last().map(|edge| self.driver.list.place(edge)).or(self.after);
        self.ended = !page.more || page.edges.is_empty();
        let mut edges = page.edges;
        if let Some(candidates) = &mut self.candidates {
            edges.retain(|edge| candidates.remove(&self.driver.list.other(edge)));
            self.ended |= candidates.is_empty();
        }
        Ok(Some(self.pass(edges).await?))
    }

    /// Those who pass, by what the viewer may know.
    async fn pass(&mut self, mut edges: Vec<Edge>) -> Result<Vec<Edge>> {
        let list = self.driver.list;
        // Most rows fall here, before anything is found out about them.
        let others = if self.is_in { self.others.clone() } else { Vec::new() };
        for other in others {
            let pairs: Vec<_> = edges.iter().map(|edge| SetQuery::pair(other, list.other(edge))).collect();
            keep(&mut edges, self.visible(&pairs).await?);
        }
        edges = self.visibility.rows(list, edges).await?;
        let evidence = self.visibility.evidence(&edges).await?;
        keep(&mut edges, evidence);
        for other in self.others.clone() {
            let pairs: Vec<_> = edges.iter().map(|edge| SetQuery::pair(other, list.other(edge))).collect();
            let visible = if self.is_in { vec![true; pairs.len()] } else { self.visible(&pairs).await? };
            let mut visible_pairs = pairs;
            let mut each = visible.iter();
            visible_pairs.retain(|_| each.next() == Some(&true));
            let mut evidence = self.visibility.evidence_of(&visible_pairs).await?.into_iter();
            let passes = visible.into_iter().map(|visible| (visible && evidence.next() == Some(true)) == self.is_in);
            keep(&mut edges, passes.collect());
        }
        Ok(edges)
    }

    async fn visible(&mut self, pairs: &[(Key, Key)]) -> Result<Vec<bool>> {
        let (visible, asked) = self.context.visible_follows(self.viewer, pairs).await?;
        self.work += asked * ASKED_ROW_WORK;
        Ok(visible)
    }
}

fn keep(edges: &mut Vec<Edge>, passes: Vec<bool>) {
    let mut passes = passes.into_iter();
    edges.retain(|_| passes.next() == Some(true));
}
