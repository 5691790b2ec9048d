//! How many follows lead from one user to another: at most three, looked for from both ends, with bounded work.

use std::collections::HashSet;

use entourage_model::{Edge, Key, List, Place, Result, UserId};

use crate::{
    Call, Graph,
    visibility::{Visibility, VisibleList},
};

/// How many rows of the one's following list and of the other's followers are looked at.
pub const DISTANCE_ENDS_MAX: usize = 10_000;
/// How many edges between the two ends are looked at.
pub const DISTANCE_EDGES_MAX: usize = 100_000;
const CHUNK: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// 0 to 3.
    Steps(u8),
    /// More than three, or no way at all, as far as the viewer may know.
    None,
    /// The bounds were reached before the answer was certain.
    Unknown,
}

/// One end of the way: who is next to it.
struct End {
    keys: Vec<Key>,
    complete: bool,
}

impl End {
    /// No way leads through here, however long the other end is.
    const fn is_nobody(&self) -> bool {
        self.complete && self.keys.is_empty()
    }
}

impl Graph {
    pub async fn distance(&self, call: &Call, from: &UserId, to: &UserId) -> Result<Distance> {
        let (viewer, [from, to]) = self.parties(call, [from, to]).await?;
        if from.key == to.key {
            return Ok(Distance::Steps(0));
        }
        let (from, to) = (from.key, to.key);
        let mut visibility = self.context.visibility(viewer);
        if self.has_evidence(&mut visibility, &[(from, to)]).await? {
            return Ok(Distance::Steps(1));
        }
        let first = self.end(&mut visibility, self.context.visible_list(viewer, List::following(from)).await?).await?;
        if first.is_nobody() {
            return Ok(Distance::None);
        }
        let last = self.end(&mut visibility, self.context.visible_list(viewer, List::followers(to)).await?).await?;
        if last.is_nobody() {
            return Ok(Distance::None);
        }
        let meeting: HashSet<Key> = last.keys.iter().copied().collect();
        if first.keys.iter().any(|key| meeting.contains(key)) {
            return Ok(Distance::Steps(2));
        }
        // One end that is cut is made up for from the other; where both are, two steps may have been missed.
        let in_between: Vec<(Key, Key)> = match (first.complete, last.complete) {
            (_, true) => Vec::new(),
            (true, false) => first.keys.iter().map(|&key| (key, to)).collect(),
            (false, false) => return Ok(Distance::Unknown),
        };
        if self.has_evidence(&mut visibility, &in_between).await? {
            return Ok(Distance::Steps(2));
        }
        if !first.complete {
            let in_between: Vec<(Key, Key)> = last.keys.iter().map(|&key| (from, key)).collect();
            if self.has_evidence(&mut visibility, &in_between).await? {
                return Ok(Distance::Steps(2));
            }
        }
        self.third_step(&mut visibility, viewer, &first, &last, &meeting).await
    }

    /// Whether anybody at the one end follows anybody at the other.
    async fn third_step(
        &self,
        visibility: &mut Visibility<'_>,
        viewer: Option<Key>,
        first: &End,
        last: &End,
        meeting: &HashSet<Key>,
    ) -> Result<Distance> {
        let complete = first.complete && last.complete;
        let otherwise = if complete { Distance::None } else { Distance::Unknown };
        if first.keys.len().saturating_mul(last.keys.len()) <= DISTANCE_EDGES_MAX {
            let pairs: Vec<(Key, Key)> =
                first.keys.iter().flat_map(|&a| last.keys.iter().map(move |&b| (a, b))).collect();
            let found = self.has_evidence(visibility, &pairs).await?;
            return Ok(if found { Distance::Steps(3) } else { otherwise });
        }
        let mut left = DISTANCE_EDGES_MAX;
        for &key in &first.keys {
            let list = self.context.visible_list(viewer, List::following(key)).await?.list;
            let mut after: Option<Place> = None;
            loop {
                let page = self.context.store.scan(list, after, CHUNK.min(left)).await?;
                let hits: Vec<Edge> =
                    page.edges.iter().filter(|edge| meeting.contains(&edge.target)).copied().collect();
                if visibility.evidence(&hits).await?.contains(&true) {
                    return Ok(Distance::Steps(3));
                }
                left -= page.edges.len().min(left);
                if left == 0 {
                    return Ok(Distance::Unknown);
                }
                after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(otherwise)
    }

    /// Whether one of these pairs follows, as far as the viewer may know.
    async fn has_evidence(&self, visibility: &mut Visibility<'_>, pairs: &[(Key, Key)]) -> Result<bool> {
        for chunk in pairs.chunks(CHUNK) {
            let edges: Vec<Edge> = self.context.follow_edges(chunk).await?.into_iter().flatten().collect();
            if visibility.evidence(&edges).await?.contains(&true) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn end(&self, visibility: &mut Visibility<'_>, visible: VisibleList) -> Result<End> {
        let list = visible.list;
        let mut end = End { keys: Vec::new(), complete: false };
        let mut after = None;
        let mut seen = 0;
        while seen < DISTANCE_ENDS_MAX {
            let page = self.context.scan_visible(&visible, after, CHUNK).await?;
            seen += page.edges.len();
            let evidence = visibility.evidence(&page.edges).await?;
            let keys = page.edges.iter().zip(evidence).filter(|(_, may_tell)| *may_tell);
            let keys: Vec<Key> = keys.map(|(edge, _)| list.other(edge)).collect();
            // Edges of somebody who was erased may still be on their way out.
            let there = self.context.users_by_key(&keys).await?;
            end.keys.extend(keys.into_iter().filter(|key| there.contains_key(key)));
            after = page.edges.last().map(|edge| list.place(edge)).filter(|_| page.more);
            if after.is_none() {
                end.complete = true;
                break;
            }
        }
        Ok(end)
    }
}
