//! How one user stands to others, as far as the viewer may know.

use entourage_model::{Code, Edge, EdgeValue, Error, Key, Kind, Millis, Result, State, User, UserId};
use entourage_store::Whose;
use hashbrown::HashMap;

use crate::{Call, Graph};

/// How many others one request may ask about.
pub const RELATIONSHIPS_MAX: usize = 100;

/// From the first user's side: `following` is "they follow the other".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relationship {
    /// No such user; the rest is `false`.
    pub unknown: bool,
    pub following: bool,
    pub followed_by: bool,
    pub mutual: bool,
    /// A request of theirs waits for an answer.
    pub requested: bool,
    pub blocking: bool,
    pub blocked_by: bool,
    pub muting: bool,
    pub quiet: bool,
    /// Since when they follow.
    pub since: Option<Millis>,
}

impl Graph {
    /// One answer for each id, in their order.
    pub async fn relationships(&self, call: &Call, of: &UserId, ids: &[UserId]) -> Result<Vec<Relationship>> {
        if ids.len() > RELATIONSHIPS_MAX {
            return Err(Error::new(Code::InvalidRequest, "too many ids in one request")
                .at("/ids", format!("at most {RELATIONSHIPS_MAX}")));
        }
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let of = self.context.stored_user(of).await?;
        let keys: Vec<Key> = ids.iter().map(|id| self.context.keys.key(id)).collect();
        let users = self.context.users_by_key(&keys).await?;
        let is_known = |id: &UserId, key: Key| users.get(&key).is_some_and(|user| user.id == *id);
        let known: Vec<bool> = ids.iter().zip(&keys).map(|(id, key)| is_known(id, *key)).collect();
        let mut found = self.relations(viewer, &of, &keys, &users).await?.into_iter();
        let unknown = || Relationship { unknown: true, ..Relationship::default() };
        let answer = |known: bool| found.next().filter(|_| known).unwrap_or_else(unknown);
        Ok(known.into_iter().map(answer).collect())
    }

    /// How the viewer stands to a user; `None` for services and for the user themselves.
    pub(crate) async fn viewers_relationship(&self, viewer: Option<Key>, to: &User) -> Result<Option<Relationship>> {
        let Some(viewer) = viewer.filter(|viewer| *viewer != to.key) else { return Ok(None) };
        let Some(of) = self.context.store.get_users(&[viewer]).await?.into_iter().flatten().next() else {
            return Ok(None);
        };
        let users = HashMap::from([(to.key, to.clone())]);
        Ok(self.relations(Some(viewer), &of, &[to.key], &users).await?.into_iter().next())
    }

    async fn relations(
        &self,
        viewer: Option<Key>,
        of: &User,
        others: &[Key],
        users: &HashMap<Key, User>,
    ) -> Result<Vec<Relationship>> {
        let follows = self.both_ways(Kind::Follow, of.key, others).await?;
        let blocks = self.both_ways(Kind::Block, of.key, others).await?;
        let mutes = self.both_ways(Kind::Mute, of.key, others).await?;
        let mut visibility = self.context.visibility(viewer);
        let mut known: Vec<User> = others.iter().filter_map(|key| users.get(key)).cloned().collect();
        known.push(of.clone());
        visibility.learn(&known).await?;
        let edge = |follower, target, value: Option<EdgeValue>| {
            let value = value.filter(|value| value.state == State::Active)?;
            Some(Edge { kind: Kind::Follow, follower, target, value })
        };
        let now = self.context.clock.now();
        let mut relations = Vec::with_capacity(others.len());
        let between = follows.into_iter().zip(blocks).zip(mutes);
        for (&other, (([out, back], [blocking, blocked_by]), [muting, _])) in others.iter().zip(between) {
            let mut shown = [None, None];
            for (slot, edge) in shown.iter_mut().zip([edge(of.key, other, out), edge(other, of.key, back)]) {
                if let Some(edge) = edge {
                    *slot = visibility.shown(&[edge]).await?.contains(&true).then_some(edge.value);
                }
            }
            let [out_shown, back_shown] = shown;
            // Blocks and requests are for their two ends, mutes for who mutes.
            let is_end = viewer.is_none_or(|viewer| viewer == of.key || viewer == other);
            let is_own = viewer.is_none_or(|viewer| viewer == of.key);
            relations.push(Relationship {
                unknown: false,
                following: out_shown.is_some(),
                followed_by: back_shown.is_some(),
                mutual: out_shown.is_some() && back_shown.is_some(),
                requested: out.is_some_and(|edge| match edge.state {
                    State::Pending => is_end,
                    // To its follower it is a request, to its target it is nothing.
                    State::Parked => is_own,
                    State::Active | State::Removed => false,
                }),
                blocking: is_end && blocking.is_some(),
                blocked_by: is_end && blocked_by.is_some(),
                muting: is_own && muting.is_some_and(|mute| !mute.is_over(now)),
                quiet: out_shown.is_some_and(|edge| edge.quiet),
                since: out_shown.map(|edge| edge.position.millis()),
            });
        }
        Ok(relations)
    }

    /// The live edges from a user to each of the others, and back.
    async fn both_ways(&self, kind: Kind, user: Key, others: &[Key]) -> Result<Vec<[Option<EdgeValue>; 2]>> {
        let pairs: Vec<_> = others.iter().flat_map(|&other| [(user, other), (other, user)]).collect();
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let edges = self.context.store.get_edges(kind, &pairs).await?;
        Ok(edges.as_chunks::<2>().0.to_vec())
    }
}
