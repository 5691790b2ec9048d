//! Follow, unfollow, and one edge by its two ends.

use entourage_model::{Code, Edge, EdgeValue, Error, Key, Kind, Operation, Reply, Result, State, UserId};
use entourage_store::Whose;

use super::quarantine::shown_edge;
use crate::{Call, Graph, Receipt, writer::unexpected};

/// An edge that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    pub follower: UserId,
    pub target: UserId,
    pub edge: EdgeValue,
    /// This write made it.
    pub created: bool,
    /// `None` when it was read, not written.
    pub receipt: Option<Receipt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub changed: bool,
    pub receipt: Receipt,
}

impl Graph {
    /// `quiet` that is not said keeps what is there.
    pub async fn follow(
        &self,
        call: &Call,
        follower: &UserId,
        target: &UserId,
        quiet: impl Into<Option<bool>>,
    ) -> Result<Followed> {
        call.may_change(follower)?;
        let (follower_key, target_key) = self.context.write_keys(follower, target, true).await?;
        let park = !self.parked(call, &[(follower_key, target_key)]).await?.is_empty();
        let operation = self.follow_operation(follower_key, target_key, quiet.into(), park);
        match self.context.writer.write(call, operation).await? {
            (Reply::Edge { value, created, .. }, receipt) => {
                let edge = shown_edge(call, value);
                let (follower, target) = (follower.clone(), target.clone());
                Ok(Followed { follower, target, edge, created, receipt: Some(receipt) })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub(crate) fn follow_operation(&self, follower: Key, target: Key, quiet: Option<bool>, park: bool) -> Operation {
        Operation::Follow { follower, target, quiet, cap: self.context.rules.following_max, park }
    }

    pub async fn unfollow(&self, call: &Call, follower: &UserId, target: &UserId) -> Result<Removed> {
        call.may_change(follower)?;
        let (follower_key, target_key) = self.context.write_keys(follower, target, false).await?;
        self.context.writer.remove(call, Operation::Unfollow { follower: follower_key, target: target_key }).await
    }

    /// The live edge; a request is there for its two ends and for services only, a parked follow for its follower and for
    /// services.
    pub async fn get_follow(&self, call: &Call, follower: &UserId, target: &UserId) -> Result<Followed> {
        self.context.catch_up(call, Whose::NOBODY).await?;
        let viewer = self.context.viewer(call).await?;
        let none = || Error::new(Code::NotFound, "the one does not follow the other");
        let (Some(from), Some(to)) = (self.context.find_user(follower).await?, self.context.find_user(target).await?)
        else {
            return Err(none());
        };
        let edges = self.context.store.get_edges(Kind::Follow, &[(from.key, to.key)]).await?;
        let edge = edges.into_iter().flatten().next().ok_or_else(none)?;
        let is_for = |viewer: Key| match edge.state {
            State::Parked => viewer == from.key,
            State::Pending => viewer == from.key || viewer == to.key,
            State::Active | State::Removed => true,
        };
        let is_theirs = viewer.is_none_or(is_for);
        let shown = [Edge { kind: Kind::Follow, follower: from.key, target: to.key, value: edge }];
        let mut visibility = self.context.visibility(viewer);
        visibility.learn(&[from, to]).await?;
        if !is_theirs || !visibility.shown(&shown).await?.contains(&true) {
            return Err(none());
        }
        let edge = shown_edge(call, edge);
        Ok(Followed { follower: follower.clone(), target: target.clone(), edge, created: false, receipt: None })
    }
}
