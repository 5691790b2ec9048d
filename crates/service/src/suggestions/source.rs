//! Where suggestions come from. A source offers candidates; who may be shown at all is decided once, for all sources, in
//! `exclusions.rs`.

use async_trait::async_trait;
use entourage_model::{Key, Result, User};
use hashbrown::HashMap;

use super::RankerName;

/// Offers people to a viewer.
///
/// - **S1** Candidates come best first, in an order that is total and the source's own: equal stores give equal answers.
/// - **S2** With a greater limit the answer begins with the same candidates. Fewer than `limit` are all there are.
/// - **S3** Nothing that the viewer may not see stands behind a candidate, its place or its reason.
/// - **S4** No candidate comes twice. Candidates may be followed, blocked or gone: they are left out afterwards.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// Users that it has read anyway are put with the people of the answer.
    async fn candidates(&self, asked: &Asked, limit: usize, people: &mut People) -> Result<Vec<Candidate>>;
}

/// Whom a source is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) viewer: Key,
    pub(crate) ranker: RankerName,
}

/// Somebody to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: Key,
    /// How much speaks for them, as their source counts it; only compared within one source.
    pub(crate) weight: u64,
    pub(crate) evidence: Evidence,
}

/// What speaks for a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// So many whom the viewer follows follow them; the first few of those, in the order of the viewer's list.
    FollowedBy { common: u32, first: Vec<Key> },
    /// A file brought them.
    Imported,
    /// What users did outside of the graph.
    Signal,
    /// They follow the viewer.
    FollowsYou,
    /// They have many followers.
    Popular,
}

/// Users that were read for an answer: none is read again to show them.
#[derive(Default)]
pub(crate) struct People(HashMap<Key, User>);

impl People {
    pub(super) fn learn(&mut self, users: impl IntoIterator<Item = User>) {
        self.0.extend(users.into_iter().map(|user| (user.key, user)));
    }

    pub(super) fn get(&self, key: Key) -> Option<&User> {
        self.0.get(&key)
    }
}
