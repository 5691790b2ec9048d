//! One look at one user: what the lists have against what is counted, and each edge against its other direction.

use std::collections::BTreeSet;

use entourage_model::{Edge, EdgeValue, Key, Kind, List, Place, Plane, Result, Side, UserId, Version};
use entourage_store::{EdgeName, Mirrors};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Drift, pace::Pace};
use crate::Upkeep;

const CHUNK: usize = 1_000;

/// What may be wrong; equal at two looks only when what it is about has not changed in between.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doubt {
    list: &'static str,
    cause: &'static str,
    detail: String,
    seen: Seen,
}

/// In what state something was doubted: versions never come back, so no later state is equal to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Edge { kind: Kind, follower: Key, target: Key, version: Version, mirror: Option<Version> },
    List(Walked),
}

/// A walk through a list, in the order of its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Walked {
    edges: u64,
    quiet: u64,
    /// Of every edge with its version.
    digest: u64,
    /// What was counted at the first page and at the last: the list, and the quiet ones in it.
    first: Option<(u64, u64)>,
    last: (u64, u64),
}

impl Walked {
    fn saw(&mut self, edge: &Edge) {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&edge.follower.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&edge.target.0.to_le_bytes());
        bytes[16..].copy_from_slice(&edge.value.version.bits().to_le_bytes());
        self.digest = xxh3_64_with_seed(&bytes, self.digest);
        self.edges += 1;
        self.quiet += u64::from(edge.value.quiet);
    }
}

impl Doubt {
    pub(super) fn drift(self, user: UserId) -> Drift {
        Drift { user, list: self.list, cause: self.cause, detail: self.detail }
    }

    /// The edge whose directions differ.
    pub(crate) fn edge(&self) -> Option<EdgeName> {
        match self.seen {
            Seen::Edge { kind, follower, target, .. } => Some(EdgeName { kind, follower, target }),
            Seen::List(_) => None,
        }
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

impl Upkeep {
    /// All doubts about one user, and how many edges their own lists have.
    pub(crate) async fn compare_user(&self, user: Key, pace: &mut Pace) -> Result<(BTreeSet<Doubt>, u64)> {
        let (mut doubts, mut edges) = (BTreeSet::new(), 0);
        for plane in Plane::ALL {
            for side in Side::BOTH {
                let found = self.compare_list(List::new(user, plane, side), &mut doubts, pace).await?;
                edges += if side == Side::Following { found } else { 0 };
            }
        }
        Ok((doubts, edges))
    }

    async fn compare_list(&self, list: List, doubts: &mut BTreeSet<Doubt>, pace: &mut Pace) -> Result<u64> {
        let name = name(list.plane, list.side);
        let (mut after, mut walked) = (None, Walked::default());
        loop {
            let page = self.context.store.scan(list, after, CHUNK).await?;
            walked.last = (page.total, page.quiet);
            walked.first.get_or_insert(walked.last);
            page.edges.iter().for_each(|edge| walked.saw(edge));
            for (edge, mirror) in self.without_mirror(list, &page.edges).await? {
                let Edge { kind, follower, target, value: EdgeValue { version, .. } } = *edge;
                let cause = if mirror.is_some() { "different_mirror" } else { "missing_mirror" };
                let detail = format!("{} {follower} → {target}", kind.as_str());
                let mirror = mirror.map(|mirror| mirror.version);
                let seen = Seen::Edge { kind, follower, target, version, mirror };
                doubts.insert(Doubt { list: name, cause, detail, seen });
            }
            after = page.edges.last().map(|edge| list.place(edge));
            pace.did(page.edges.len()).await;
            if page.more && after.is_some() {
                continue;
            }
            doubts.extend(miscounted(name, walked));
            return Ok(walked.edges);
        }
    }

    /// Edges that their other direction does not show, or shows differently.
    async fn without_mirror<'a>(&self, list: List, edges: &'a [Edge]) -> Result<Vec<(&'a Edge, Option<EdgeValue>)>> {
        if edges.is_empty() {
            return Ok(Vec::new());
        }
        let mirrors = match list.side {
            Side::Followers => {
                let pairs: Vec<(Key, Key)> = edges.iter().map(|edge| (edge.follower, edge.target)).collect();
                self.context.store.get_edges(list.plane.kind(), &pairs).await?
            }
            Side::Following if self.context.store.guarantees().mirrors == Mirrors::OneRow => return Ok(Vec::new()),
            Side::Following => {
                let mut mirrors = Vec::with_capacity(edges.len());
                for edge in edges {
                    let mirror = List::new(edge.target, list.plane, Side::Followers);
                    let position = edge.value.position;
                    let just_above = match edge.follower.0.checked_add(1) {
                        Some(next) => Place { position, key: Key(next) },
                        None => Place { position: Version::from_bits(position.bits() + 1), key: Key::MIN },
                    };
                    let found = self.context.store.scan(mirror, Some(just_above), 1).await?.edges.into_iter().next();
                    mirrors.push(found.filter(|found| found.follower == edge.follower).map(|found| found.value));
                }
                mirrors
            }
        };
        let is_off = |(edge, mirror): &(&Edge, Option<EdgeValue>)| *mirror != Some(edge.value);
        Ok(edges.iter().zip(mirrors).filter(is_off).collect())
    }
}

/// A long list is walked while it changes: its count is somewhere between that at the beginning and that at the end.
fn miscounted(list: &'static str, walked: Walked) -> impl Iterator<Item = Doubt> {
    let ((first, first_quiet), (last, last_quiet)) = (walked.first.unwrap_or_default(), walked.last);
    let is_off = |listed: u64, one: u64, other: u64| listed < one.min(other) || listed > one.max(other);
    let doubt = |cause, detail| Doubt { list, cause, detail, seen: Seen::List(walked) };
    let count =
        is_off(walked.edges, first, last).then(|| doubt("count", format!("counts {last}, has {}", walked.edges)));
    let quiet = is_off(walked.quiet, first_quiet, last_quiet)
        .then(|| doubt("quiet_count", format!("counts {last_quiet} quiet ones, has {}", walked.quiet)));
    [count, quiet].into_iter().flatten()
}
