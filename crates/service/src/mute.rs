//! Mute, unmute, and the list of who is muted. A mute changes what reaches the actor, never what others see.

use entourage_model::{EdgeValue, Operation, Plane, Reply, Result, Side, UserId};

use crate::{Call, Limit, Receipt, Service, Unfollowed, UserPage, service::unexpected};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Muted {
    pub actor: UserId,
    pub target: UserId,
    pub edge: EdgeValue,
    pub created: bool,
    pub receipt: Receipt,
}

impl Service {
    pub async fn mute(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Muted> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.write_keys(actor, target, true).await?;
        match self.commit(call, Operation::Mute { actor: actor_key, target: target_key }).await? {
            (Reply::Edge { value: edge, created, .. }, receipt) => {
                Ok(Muted { actor: actor.clone(), target: target.clone(), edge, created, receipt })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    pub async fn unmute(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Unfollowed> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.write_keys(actor, target, false).await?;
        self.gone(call, Operation::Unmute { actor: actor_key, target: target_key }).await
    }

    /// Nobody but the actor and services learns who is muted.
    pub async fn mutes(&self, call: &Call, actor: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.own_page(call, actor, (Plane::Mute, Side::Following), cursor, limit).await
    }
}
