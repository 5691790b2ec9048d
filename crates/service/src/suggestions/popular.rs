//! The leaderboard, for those who follow hardly anybody yet.

use std::{cmp::Reverse, sync::Arc};

use async_trait::async_trait;
use entourage_model::Result;
use entourage_store::StoreExt as _;

use super::source::{Asked, Candidate, Evidence, People, Source};
use crate::{Context, Graph};

/// Who follows fewer than this is a newcomer.
pub const NEWCOMER_FOLLOWS: u64 = 10;

pub(super) struct Popular {
    pub(super) context: Arc<Context>,
    pub(super) graph: Arc<Graph>,
}

#[async_trait]
impl Source for Popular {
    async fn candidates(&self, asked: &Asked, limit: usize, _: &mut People) -> Result<Vec<Candidate>> {
        let counts = self.context.store.get_counts(asked.viewer).await?.unwrap_or_default();
        if counts.following >= NEWCOMER_FOLLOWS {
            return Ok(Vec::new());
        }
        let ranks = self.graph.current_ranks().await?;
        let candidate = |(Reverse(followers), key)| Candidate { key, weight: followers, evidence: Evidence::Popular };
        Ok(ranks.into_iter().take(limit).map(candidate).collect())
    }
}
