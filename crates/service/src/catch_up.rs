//! What a read has to have seen: the write that its token comes from, and what settles, the lists and totals that follow
//! from the events some time after a commit was acked.

use std::time::{Duration, Instant};

use entourage_model::{Code, Error, Key, Result, Watermark};
use entourage_store::{Covered, Derived, StoreExt as _, Whose};

use crate::{Call, Context};

/// How long a read waits for what settles.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two looks, doubling.
const PAUSE: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Context {
    /// Every read starts here: it sees what its token saw, or says that it does not.
    pub(crate) async fn catch_up(&self, call: &Call, whose: Whose<'_>) -> Result<()> {
        let Some(token) = self.writer.read_token(call)? else { return Ok(()) };
        for watermark in token.watermarks() {
            if !self.is_covered(watermark, whose).await? {
                let detail = "this server has not seen the write that the token comes from";
                return Err(Error::new(Code::Stale, detail));
            }
        }
        Ok(())
    }

    pub(crate) fn settles(&self) -> bool {
        self.store.guarantees().derived == Derived::Settling
    }

    /// Whether reads see everything up to a watermark. What settles is waited for.
    pub(crate) async fn is_covered(&self, watermark: &Watermark, whose: Whose<'_>) -> Result<bool> {
        let (began, mut pause) = (Instant::now(), PAUSE);
        loop {
            match self.store.covers(watermark, whose).await? {
                Covered::Yes => return Ok(true),
                Covered::NotYet if self.settles() && began.elapsed() < SETTLE_TIMEOUT => {
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
