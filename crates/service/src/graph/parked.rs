//! Parked follows as an operator sees them.

use entourage_model::{List, Plane, Result, Side, UserId};
use entourage_store::Whose;

use crate::{Call, Graph, Limit, UserPage};

impl Graph {
    /// Whose follows of this user are parked, newest first.
    pub async fn parked_followers(
        &self,
        call: &Call,
        target: &UserId,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<UserPage> {
        call.must_be_admin()?;
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(target)])).await?;
        let target = self.context.stored_user(target).await?.key;
        self.page(List::new(target, Plane::Parked, Side::Followers), None, cursor, limit).await
    }
}
