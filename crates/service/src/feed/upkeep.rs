//! What an operator can see and do about feeds.

use std::time::{Duration, Instant};

use entourage_model::{Result, UserId};

use super::queue::Lane;
use crate::{Call, Feeds};

/// How long a rebuild that was asked for may take.
const REBUILD_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of one lane of the fan-out.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneStatus {
    pub name: &'static str,
    /// Posts that wait or are being delivered.
    pub depth: u64,
    /// How long the oldest of them has waited.
    pub lag: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FeedStatus {
    pub lanes: Vec<LaneStatus>,
    pub inboxes: u64,
    pub inbox_bytes: u64,
    /// Authors whose posts are, or were, pulled.
    pub pulled_authors: u64,
    pub streams: u64,
}

impl Feeds {
    /// The state of fan-out and inboxes.
    pub fn feed_status(&self, call: &Call) -> Result<FeedStatus> {
        call.must_be_admin()?;
        let (inboxes, inbox_bytes) = self.feed.inboxes.size();
        Ok(FeedStatus {
            lanes: self.lanes(),
            inboxes,
            inbox_bytes,
            pulled_authors: self.feed.modes.pulled_count() as u64,
            streams: self.feed.live.streams() as u64,
        })
    }

    fn lanes(&self) -> Vec<LaneStatus> {
        let now = self.context.clock.now().since_2000();
        let lane = |lane: Lane| {
            let (depth, oldest) = self.feed.queue.depth(lane);
            let lag = oldest.map_or(0, |oldest| now.saturating_sub(oldest.millis().since_2000()));
            LaneStatus { name: lane.as_str(), depth, lag: Duration::from_millis(lag) }
        };
        Lane::ALL.map(lane).into()
    }

    pub(super) fn measure_lanes(&self) {
        for lane in self.lanes() {
            metrics::gauge!("entourage_fanout_lag_seconds", "lane" => lane.name).set(lane.lag.as_secs_f64());
            metrics::gauge!("entourage_fanout_depth", "lane" => lane.name).set(lane.depth as f64);
        }
        metrics::gauge!("entourage_feed_streams").set(self.feed.live.streams() as f64);
    }

    pub(super) fn measure_inboxes(&self) {
        let (count, bytes) = self.feed.inboxes.size();
        metrics::gauge!("entourage_inboxes").set(count as f64);
        metrics::gauge!("entourage_inbox_bytes").set(bytes as f64);
    }

    /// Makes a user's inbox anew from posts and edges.
    pub async fn rebuild_feed(&self, call: &Call, id: &UserId) -> Result<()> {
        call.must_be_admin()?;
        self.load_modes().await?;
        let reader = self.context.stored_user(id).await?.key;
        self.feed.inboxes.clear(Some(reader)).await?;
        self.feed.timelines.forget(None);
        self.rebuild(reader, Instant::now() + REBUILD_TIMEOUT).await
    }

    /// Forgets a user's inbox, or everybody's; the next read builds it anew.
    pub async fn clear_feeds(&self, call: &Call, id: Option<&UserId>) -> Result<()> {
        call.must_be_admin()?;
        let reader = match id {
            Some(id) => Some(self.context.stored_user(id).await?.key),
            None => None,
        };
        self.feed.timelines.forget(None);
        self.feed.inboxes.clear(reader).await
    }
}
