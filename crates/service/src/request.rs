//! Follow requests as their receiver answers them, and followers that are taken away.

use entourage_model::{Code, Error, Kind, Operation, Plane, Reply, Result, Side, State, UserId};

use crate::{Actor, Call, Followed, Limit, Service, Unfollowed, UserPage, service::unexpected};

impl Service {
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
        let (target_key, follower_key) = self.write_keys(target, follower, false).await?;
        let operation = Operation::Accept { target: target_key, follower: follower_key };
        match self.commit(call, operation).await? {
            // The target does not learn of a quiet follower by accepting a request that was never made.
            (Reply::Edge { value, .. }, _) if value.quiet && call.actor != Actor::Service => Err(no_request()),
            (Reply::Edge { value: edge, created, .. }, receipt) => {
                let (follower, target) = (follower.clone(), target.clone());
                Ok(Followed { follower, target, edge, created, receipt: Some(receipt) })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn reject(&self, call: &Call, target: &UserId, follower: &UserId) -> Result<Unfollowed> {
        call.may_change(target)?;
        let (target_key, follower_key) = self.write_keys(target, follower, false).await?;
        self.gone(call, Operation::Reject { target: target_key, follower: follower_key }).await
    }

    /// Takes a follower, or a request, away. A quiet follower goes too, and the target does not learn of it.
    pub async fn remove_follower(&self, call: &Call, target: &UserId, follower: &UserId) -> Result<Unfollowed> {
        call.may_change(target)?;
        let (target_key, follower_key) = self.write_keys(target, follower, false).await?;
        let operation = Operation::RemoveFollower { target: target_key, follower: follower_key };
        if call.actor == Actor::Service {
            return self.gone(call, operation).await;
        }
        let edges = self.store.get_edges(Kind::Follow, &[(follower_key, target_key)]).await?;
        let quiet = edges.into_iter().flatten().any(|edge| edge.state == State::Active && edge.quiet);
        if !quiet {
            return self.gone(call, operation).await;
        }
        // Without a record of the retry: a replay would say that something changed.
        let done = self.gone(&Call { retry: None, ..call.clone() }, operation).await?;
        Ok(Unfollowed { changed: false, ..done })
    }

    pub(crate) async fn gone(&self, call: &Call, operation: Operation) -> Result<Unfollowed> {
        match self.commit(call, operation).await? {
            (Reply::Gone { changed }, receipt) => Ok(Unfollowed { changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }
}

fn no_request() -> Error {
    Error::new(Code::NotFound, "there is no follow request between these users")
}
