//! Fan-out: deliveries in chunks of followers. What a stop interrupts goes on at its chunk.

use std::time::{Duration, Instant};

use entourage_model::{Condition, Counts, Error, Key, List, Operation, Place, RecordId, Result, Space, Version};
use entourage_store::{Covered, StoreExt as _, Whose};
use serde::{Deserialize, Serialize};

use super::queue::{Delivery, Lane};
use crate::Feeds;

/// How many followers one step takes.
const CHUNK: usize = 1_000;
/// After this many chunks, or this much time, it is written down how far a delivery has come.
const CHUNKS_BETWEEN_MARKS: usize = 10;
const TIME_BETWEEN_MARKS: Duration = Duration::from_millis(250);
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(500);
const SCAN: usize = 1_000;
/// Between two looks at followers that settle.
const SETTLING_PAUSE: Duration = Duration::from_millis(1);

/// How far a delivery has come, as stored.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    posts: Vec<Version>,
    position: Version,
    follower: Key,
}

impl Feeds {
    /// Delivers what waits in one lane until the server stops.
    pub(super) async fn run_lane(&self, lane: Lane) {
        let mut closed = self.context.hub.closed();
        loop {
            tokio::select! {
                () = self.feed.queue.woken(lane) => {}
                _ = closed.wait_for(|closed| *closed) => return,
            }
            while let Some(delivery) = self.feed.queue.take(lane) {
                if *closed.borrow() {
                    return;
                }
                if let Err(error) = self.deliver(lane, delivery).await {
                    tracing::warn!(code = error.code().as_str(), "fan-out waits for the store: {}", error.detail());
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    }

    /// Delivers everything that waits, in this task: for callers without [`crate::Service::run`].
    pub async fn deliver_all(&self) -> Result<()> {
        loop {
            let next = Lane::ALL.into_iter().find_map(|lane| Some((lane, self.feed.queue.take(lane)?)));
            let Some((lane, delivery)) = next else { return Ok(()) };
            self.deliver(lane, delivery).await?;
        }
    }

    async fn deliver(&self, lane: Lane, mut delivery: Delivery) -> Result<()> {
        entourage_store::fail_point("fan-out");
        let (author, newest) = (delivery.author, delivery.posts.iter().max().copied());
        match self.deliver_if_settled(&mut delivery).await {
            Ok(true) => {}
            Ok(false) => {
                self.feed.queue.postpone(delivery);
                tokio::time::sleep(SETTLING_PAUSE).await;
                return Ok(());
            }
            Err(error) => {
                self.feed.queue.put_back(author);
                return Err(error);
            }
        }
        let now = self.context.clock.now();
        self.feed.queue.finish(author, now);
        if let Some(newest) = newest {
            let lag = now.since_2000().saturating_sub(newest.millis().since_2000());
            metrics::histogram!("entourage_fanout_seconds", "lane" => lane.as_str()).record(lag as f64 / 1_000.0);
        }
        Ok(())
    }

    /// Whether it was delivered. The list of followers is asked after it was read, too: a home that goes back to an earlier
    /// state in between has an earlier list.
    async fn deliver_if_settled(&self, delivery: &mut Delivery) -> Result<bool> {
        if !self.have_followers_settled(delivery).await? {
            return Ok(false);
        }
        self.deliver_chunks(delivery).await?;
        self.have_followers_settled(delivery).await
    }

    /// Whether everybody who followed the author before this was first asked is in the list of followers. Without them a
    /// post would miss those who followed just before it; a later follower's inbox is filled with it.
    async fn have_followers_settled(&self, delivery: &mut Delivery) -> Result<bool> {
        if !self.context.settles() {
            return Ok(true);
        }
        let up_to = match delivery.up_to.take() {
            Some(up_to) => up_to,
            None => self.context.store.newest().await?,
        };
        let covered = self.context.store.covers(&up_to, Whose::Of(&[delivery.author])).await?;
        // What a lineage lost is asked for anew.
        delivery.up_to = (covered != Covered::OtherLineage).then_some(up_to);
        Ok(covered == Covered::Yes)
    }

    async fn deliver_chunks(&self, delivery: &Delivery) -> Result<()> {
        let Delivery { author, ref posts, mut after, .. } = *delivery;
        let (list, mut delivered) = (List::followers(author), 0);
        let (mut chunks, mut marked, mut is_marked) = (0, Instant::now(), after.is_some());
        loop {
            let page = self.context.store.scan(list, after, CHUNK).await?;
            let readers: Vec<Key> = page.edges.iter().map(|edge| edge.follower).collect();
            delivered += self.feed.inboxes.deliver(author, posts, &readers).await?;
            after = page.edges.last().map(|edge| list.place(edge));
            let Some(place) = after.filter(|_| page.more) else { break };
            chunks += 1;
            // Where others write as well, inboxes begin empty after a stop, and there is nothing to go on with.
            let is_due = chunks % CHUNKS_BETWEEN_MARKS == 0 || marked.elapsed() >= TIME_BETWEEN_MARKS;
            if is_due && self.feed.is_alone {
                self.mark_delivery(
                    author,
                    Some(Mark { posts: posts.clone(), position: place.position, follower: place.key }),
                )
                .await?;
                (marked, is_marked) = (Instant::now(), true);
            }
            tokio::task::yield_now().await;
        }
        metrics::counter!("entourage_fanout_deliveries_total").increment(delivered);
        if is_marked { self.mark_delivery(author, None).await } else { Ok(()) }
    }

    async fn mark_delivery(&self, author: Key, mark: Option<Mark>) -> Result<()> {
        let value = mark.map(|mark| serde_json::to_vec(&mark)).transpose();
        let value = value.map_err(|error| Error::internal(error.to_string()))?;
        self.put_queue_record(RecordId::of_key(author), value).await
    }

    pub(super) async fn put_queue_record(&self, id: RecordId, value: Option<Vec<u8>>) -> Result<()> {
        // Marks lie with their authors; how far this server has come is written once for all of them.
        let owner = id.key().map_or(Key::SERVER, |author| self.context.store.guarantees().buckets.of(author));
        let operation = Operation::PutRecord {
            space: Space::FanoutQueue,
            owner,
            id,
            value: value.map(Vec::into_boxed_slice),
            condition: Condition::Any,
            cap: None,
        };
        self.context.writer.write_one(operation).await.map(drop)
    }

    /// Goes on with what a stop interrupted.
    pub(super) async fn resume_deliveries(&self) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let from = after.as_ref().map(RecordId::as_bytes);
            let records = self.context.store.scan_server_records(Space::FanoutQueue, from, SCAN).await?;
            for (_, record) in &records {
                let Some(author) = record.id.key() else { continue };
                let mark: Mark = serde_json::from_slice(&record.value)
                    .map_err(|error| Error::internal(format!("a mark of the fan-out cannot be read: {error}")))?;
                let after = Some(Place { position: mark.position, key: mark.follower });
                let followers = self.followers_of(author).await?;
                self.feed.queue.resume(Delivery { author, posts: mark.posts, after, up_to: None }, followers);
            }
            match records.last() {
                Some((_, last)) if records.len() == SCAN => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Without quiet ones: nobody is to learn of those from how posts travel.
    pub(crate) async fn followers_of(&self, author: Key) -> Result<u64> {
        let public = |counts: Counts| counts.followers.saturating_sub(counts.followers_quiet);
        Ok(self.context.store.get_counts(author).await?.map_or(0, public))
    }
}
