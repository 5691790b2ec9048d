//! Mute, unmute, and the list of who is muted. A mute changes what reaches the actor, never what others see.

use entourage_model::{Error, Millis, Operation, Plane, Result, Side, UserId};

use crate::{Call, Graph, Limit, Marked, Removed, UserPage};

impl Graph {
    /// Until `expires_at`, or for good. Muting again says anew how long.
    pub async fn mute(
        &self,
        call: &Call,
        actor: &UserId,
        target: &UserId,
        expires_at: Option<Millis>,
    ) -> Result<Marked> {
        call.may_change(actor)?;
        if expires_at.is_some_and(|at| at <= self.context.clock.now()) {
            let late =
                || Error::invalid("a field of the body is not valid").at("/expires_at", "a time to come, or null");
            return Marked::new(actor, target, self.context.writer.replay(call).await?.ok_or_else(late)?);
        }
        let (actor_key, target_key) = self.context.write_keys(actor, target, true).await?;
        self.jobs.end_if_over(actor_key, target_key).await?;
        let operation = Operation::Mute { actor: actor_key, target: target_key, expires_at };
        Marked::new(actor, target, self.context.writer.write(call, operation).await?)
    }

    pub async fn unmute(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Removed> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.context.write_keys(actor, target, false).await?;
        self.jobs.end_if_over(actor_key, target_key).await?;
        self.context.writer.remove(call, Operation::Unmute { actor: actor_key, target: target_key }).await
    }

    /// Nobody but the actor and services learns who is muted.
    pub async fn mutes(&self, call: &Call, actor: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.own_page(call, actor, (Plane::Mute, Side::Following), cursor, limit).await
    }
}
