//! Mute, unmute, and the list of who is muted. A mute changes what reaches the actor, never what others see.

use entourage_model::{EdgeValue, Error, Expiry, Millis, Operation, Plane, Reply, Result, Side, UserId};

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
    /// Until `expires_at`, or for good. Muting again says anew how long.
    pub async fn mute(
        &self,
        call: &Call,
        actor: &UserId,
        target: &UserId,
        expires_at: Option<Millis>,
    ) -> Result<Muted> {
        call.may_change(actor)?;
        if expires_at.is_some_and(|at| at <= self.clock.now()) {
            let late =
                || Error::invalid("a field of the body is not valid").at("/expires_at", "a time to come, or null");
            let (reply, receipt) = self.replay(call).await?.ok_or_else(late)?;
            return muted(actor, target, reply, receipt);
        }
        let (actor_key, target_key) = self.write_keys(actor, target, true).await?;
        self.end_if_over(actor_key, target_key).await?;
        if let Some(at) = expires_at {
            self.note_end(actor_key, target_key, Expiry::at(at)).await?;
        }
        let operation = Operation::Mute { actor: actor_key, target: target_key, expires_at };
        let (reply, receipt) = self.commit(call, operation).await?;
        muted(actor, target, reply, receipt)
    }

    pub async fn unmute(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Unfollowed> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.write_keys(actor, target, false).await?;
        self.end_if_over(actor_key, target_key).await?;
        self.gone(call, Operation::Unmute { actor: actor_key, target: target_key }).await
    }

    /// Nobody but the actor and services learns who is muted.
    pub async fn mutes(&self, call: &Call, actor: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.own_page(call, actor, (Plane::Mute, Side::Following), cursor, limit).await
    }
}

fn muted(actor: &UserId, target: &UserId, reply: Reply, receipt: Receipt) -> Result<Muted> {
    match reply {
        Reply::Edge { value: edge, created, .. } => {
            Ok(Muted { actor: actor.clone(), target: target.clone(), edge, created, receipt })
        }
        other => Err(unexpected(&other)),
    }
}
