//! Whom a user does not want suggested: one record each, kept until the user is erased.

use entourage_model::{Condition, Operation, RecordId, Reply, Result, Space, UserId, member_value};

use super::Suggestions;
use crate::{Call, Removed, writer::unexpected};

/// How many somebody can dismiss.
pub const DISMISSED_MAX: u32 = 100_000;

impl Suggestions {
    /// Never suggests this person again. Whether they were suggested makes no difference.
    pub async fn dismiss(&self, call: &Call, user: &UserId, dismissed: &UserId) -> Result<Removed> {
        call.may_change(user)?;
        let owner = self.context.owner_key(user).await?;
        let person = self.context.stored_user(dismissed).await?;
        let operation = Operation::PutRecord {
            space: Space::Dismissed,
            owner,
            id: RecordId::of_key(person.key),
            value: Some(member_value(&person)),
            condition: Condition::Any,
            cap: Some(DISMISSED_MAX),
        };
        match self.context.writer.write(call, operation).await? {
            (Reply::Record { changed, .. }, receipt) => Ok(Removed { changed, receipt }),
            (other, _) => Err(unexpected(&other)),
        }
    }
}
