//! Block, unblock, and the list of who is blocked.

use entourage_model::{EdgeValue, Operation, Plane, Reply, Result, Side, UserId};

use crate::{Call, Limit, Receipt, Service, UserPage, service::unexpected};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub actor: UserId,
    pub target: UserId,
    pub edge: EdgeValue,
    pub created: bool,
    pub receipt: Receipt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unblocked {
    pub changed: bool,
    pub receipt: Receipt,
}

impl Service {
    pub async fn block(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Blocked> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.write_keys(actor, target, true).await?;
        match self.commit(call, Operation::Block { actor: actor_key, target: target_key }).await? {
            (Reply::Edge { value: edge, created, .. }, receipt) => {
                Ok(Blocked { actor: actor.clone(), target: target.clone(), edge, created, receipt })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn unblock(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Unblocked> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.write_keys(actor, target, false).await?;
        match self.commit(call, Operation::Unblock { actor: actor_key, target: target_key }).await? {
            (Reply::Gone { changed }, receipt) => Ok(Unblocked { changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Nobody but the actor and services learns who is blocked.
    pub async fn blocks(&self, call: &Call, actor: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.own_page(call, actor, (Plane::Block, Side::Following), cursor, limit).await
    }
}
