//! One look at one user: what the lists have against what is counted, and each edge against its other direction.

use std::collections::BTreeSet;

use entourage_model::{Edge, Key, List, Place, Plane, Result, Side, UserId, Version};

use super::{Drift, pace::Pace};
use crate::Service;

const CHUNK: usize = 1_000;

/// What may be wrong; equal at two looks when nothing has changed in between.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Doubt {
    list: &'static str,
    cause: &'static str,
    detail: String,
}

impl Doubt {
    pub(super) fn drift(self, user: UserId) -> Drift {
        Drift { user, list: self.list, cause: self.cause, detail: self.detail }
    }
}

const fn name(plane: Plane, side: Side) -> &'static str {
    match (plane, side) {
        (Plane::Follow, Side::Followers) => "followers",
        (Plane::Follow, Side::Following) => "following",
        (Plane::Request, Side::Followers) => "requests",
        (Plane::Request, Side::Following) => "requested",
        (Plane::Parked, Side::Followers) => "parked_followers",
        (Plane::Parked, Side::Following) => "parked_following",
        (Plane::Block, Side::Followers) => "blocked_by",
        (Plane::Block, Side::Following) => "blocks",
        (Plane::Mute, Side::Followers) => "muted_by",
        (Plane::Mute, Side::Following) => "mutes",
    }
}

impl Service {
    /// All doubts about one user, and how many edges their own lists have.
    pub(super) async fn look(&self, user: Key, pace: &mut Pace) -> Result<(BTreeSet<Doubt>, u64)> {
        let (mut doubts, mut edges) = (BTreeSet::new(), 0);
        for plane in Plane::ALL {
            for side in Side::BOTH {
                let found = self.look_at(List { user, plane, side }, &mut doubts, pace).await?;
                edges += if side == Side::Following { found } else { 0 };
            }
        }
        Ok((doubts, edges))
    }

    async fn look_at(&self, list: List, doubts: &mut BTreeSet<Doubt>, pace: &mut Pace) -> Result<u64> {
        let name = name(list.plane, list.side);
        let (mut after, mut listed, mut listed_quiet, mut first) = (None, 0_u64, 0_u64, None);
        loop {
            let page = self.store.scan(list, after, CHUNK).await?;
            first.get_or_insert((page.total, page.quiet));
            listed += page.edges.len() as u64;
            listed_quiet += page.edges.iter().filter(|edge| edge.value.quiet).count() as u64;
            for (edge, cause) in self.without_mirror(list, &page.edges).await? {
                let detail = format!("{} {} → {}", edge.kind.as_str(), edge.follower, edge.target);
                doubts.insert(Doubt { list: name, cause, detail });
            }
            after = page.edges.last().map(|edge| list.place(edge));
            pace.did(page.edges.len()).await;
            if page.more && after.is_some() {
                continue;
            }
            // A long list is walked while it changes: its count is somewhere between that at the beginning and that
            // at the end.
            let (total, quiet) = first.unwrap_or_default();
            let is_off = |listed: u64, one: u64, other: u64| listed < one.min(other) || listed > one.max(other);
            if is_off(listed, total, page.total) {
                let detail = format!("counts {}, has {listed}", page.total);
                doubts.insert(Doubt { list: name, cause: "count", detail });
            }
            if is_off(listed_quiet, quiet, page.quiet) {
                let detail = format!("counts {} quiet ones, has {listed_quiet}", page.quiet);
                doubts.insert(Doubt { list: name, cause: "quiet_count", detail });
            }
            return Ok(listed);
        }
    }

    /// Edges that their other direction does not show, or shows differently.
    async fn without_mirror<'a>(&self, list: List, edges: &'a [Edge]) -> Result<Vec<(&'a Edge, &'static str)>> {
        if edges.is_empty() {
            return Ok(Vec::new());
        }
        let mirrors = match list.side {
            Side::Followers => {
                let pairs: Vec<(Key, Key)> = edges.iter().map(|edge| (edge.follower, edge.target)).collect();
                self.store.get_edges(list.plane.kind(), &pairs).await?
            }
            // A question for each edge: only where none goes over a network. There, one row is both directions.
            Side::Following if !self.store.profile().peeks => return Ok(Vec::new()),
            Side::Following => {
                let mut mirrors = Vec::with_capacity(edges.len());
                for edge in edges {
                    let mirror = List { user: edge.target, plane: list.plane, side: Side::Followers };
                    let position = edge.value.position;
                    let just_above = match edge.follower.0.checked_add(1) {
                        Some(next) => Place { position, key: Key(next) },
                        None => Place { position: Version::from_bits(position.bits() + 1), key: Key::MIN },
                    };
                    let found = self.store.scan(mirror, Some(just_above), 1).await?.edges.into_iter().next();
                    mirrors.push(found.filter(|found| found.follower == edge.follower).map(|found| found.value));
                }
                mirrors
            }
        };
        let doubt = |(edge, mirror): (&'a Edge, Option<entourage_model::EdgeValue>)| match mirror {
            None => Some((edge, "missing_mirror")),
            Some(value) if value != edge.value => Some((edge, "different_mirror")),
            Some(_) => None,
        };
        Ok(edges.iter().zip(mirrors).filter_map(doubt).collect())
    }
}
