//! Follow requests as their receiver answers them, and followers that are taken away.

use entourage_model::{Operation, Plane, Reply, Result, Side, UserId};

use crate::{Actor, Call, Followed, Graph, Limit, Removed, UserPage, writer::unexpected};

impl Graph {
    /// Who asks to follow this user, newest first: theirs and services' to know.
    pub async fn follow_requests(
        &self,
        call: &Call,
        target: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        self.own_page(call, target, (Plane::Request, Side::Followers), cursor, limit).await
    }

    /// Accepting what was accepted before changes nothing.
    pub async fn accept(&self, call: &Call, target: &UserId, follower: &UserId) -> Result<Followed> {
        call.may_change(target)?;
        let (target_key, follower_key) = self.context.write_keys(target, follower, false).await?;
        let operation = Operation::Accept { target: target_key, follower: follower_key };
        match self.context.writer.write(call, operation).await? {
            (Reply::Edge { value: edge, created, .. }, receipt) => {
                let (follower, target) = (follower.clone(), target.clone());
                Ok(Followed { follower, target, edge, created, receipt: Some(receipt) })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn reject(&self, call: &Call, target: &UserId, follower: &UserId) -> Result<Removed> {
        call.may_change(target)?;
        let (target_key, follower_key) = self.context.write_keys(target, follower, false).await?;
        self.context.writer.remove(call, Operation::Reject { target: target_key, follower: follower_key }).await
    }

    /// Takes a follower, or a request, away. A quiet follower goes too, and the target does not learn of it.
    pub async fn remove_follower(&self, call: &Call, target: &UserId, follower: &UserId) -> Result<Removed> {
        call.may_change(target)?;
        let (target_key, follower_key) = self.context.write_keys(target, follower, false).await?;
        let sees_quiet = call.actor == Actor::Service;
        self.context
            .writer
            .remove(call, Operation::RemoveFollower { target: target_key, follower: follower_key, sees_quiet })
            .await
    }
}
