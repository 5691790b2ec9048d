//! Block, unblock, and the list of who is blocked.

use entourage_model::{EdgeValue, Key, Kind, Operation, Plane, Reply, Result, Side, UserId};
use entourage_store::Whose;

use crate::{Call, Graph, Limit, Receipt, Removed, UserPage, writer::unexpected};

/// A block or a mute that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    pub actor: UserId,
    pub target: UserId,
    pub edge: EdgeValue,
    pub created: bool,
    pub receipt: Receipt,
}

impl Marked {
    pub(crate) fn new(actor: &UserId, target: &UserId, (reply, receipt): (Reply, Receipt)) -> Result<Self> {
        match reply {
            Reply::Edge { value: edge, created, .. } => {
                Ok(Self { actor: actor.clone(), target: target.clone(), edge, created, receipt })
            }
            other => Err(unexpected(&other)),
        }
    }
}

impl Graph {
    pub async fn block(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Marked> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.context.write_keys(actor, target, true).await?;
        let operation = Operation::Block { actor: actor_key, target: target_key };
        Marked::new(actor, target, self.context.writer.write(call, operation).await?)
    }

    pub async fn unblock(&self, call: &Call, actor: &UserId, target: &UserId) -> Result<Removed> {
        call.may_change(actor)?;
        let (actor_key, target_key) = self.context.write_keys(actor, target, false).await?;
        self.context.writer.remove(call, Operation::Unblock { actor: actor_key, target: target_key }).await
    }

    /// Nobody but the actor and services learns who is blocked.
    pub async fn blocks(&self, call: &Call, actor: &UserId, cursor: Option<&str>, limit: Limit) -> Result<UserPage> {
        self.own_page(call, actor, (Plane::Block, Side::Following), cursor, limit).await
    }

    /// Which of these the actor blocks, for whom [`Self::blocks`] shows them.
    pub async fn are_blocked(&self, call: &Call, actor: &UserId, members: &[UserId]) -> Result<Vec<bool>> {
        call.may_change(actor)?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let owner = self.context.stored_user(actor).await?.key;
        let there = self.context.present_keys(members).await?;
        let pairs: Vec<(Key, Key)> = there.iter().flatten().map(|key| (owner, *key)).collect();
        let mut found = self.context.are_active(Kind::Block, &pairs).await?.into_iter();
        Ok(there.into_iter().map(|key| key.is_some() && found.next() == Some(true)).collect())
    }
}
