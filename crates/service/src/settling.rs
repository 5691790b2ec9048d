//! Reads of what settles: lists and totals that follow from the events some time after a commit was acked.

use std::time::{Duration, Instant};

use entourage_model::{Key, Result, Watermark};
use entourage_store::{Covered, Derived, StoreExt as _, Whose};

use crate::Service;

/// How long a read waits for what settles.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks, doubling.
const PAUSE: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Service {
    pub(crate) fn settles(&self) -> bool {
        self.store.guarantees().derived == Derived::Settling
    }

    /// Whether reads see everything up to a watermark. What settles is waited for.
    pub(crate) async fn is_covered(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<bool> {
        let (began, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.store.covers(watermark, whose).await? {
                Covered::Yes => return Ok(true),
                Covered::NotYet if self.settles() && began.elapsed() < PATIENCE => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Covered::NotYet | Covered::OtherLineage => return Ok(false),
            }
        }
    }

    /// Waits until the lists and totals of these users have everything that was acked before the call; whether they do.
    pub(crate) async fn are_settled(&self, users: &[Key]) -> Result<bool> {
        self.has_settled(Whose::Of(users)).await
    }

    /// The same of everybody's.
    pub(crate) async fn is_settled(&self) -> Result<bool> {
        self.has_settled(Whose::Everybody).await
    }

    async fn has_settled(&self, whose: Whose<'_>) -> Result<bool> {
        Ok(!self.settles() || self.is_covered(&self.store.newest().await?, whose).await?)
    }
}
