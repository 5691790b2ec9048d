//! The reader of the log behind feeds: posts that are to be delivered, of this server or of others, and what other servers
//! changed. It may see an event twice and comes to the same.

use std::time::{Duration, Instant};

use entourage_model::{
    Code, Error, Event, EventBody, EventPositions, Key, Kind, Post, RecordId, Result, Sequence, Space, State, Version,
    Watermark,
};
use entourage_store::StoreExt as _;

use super::queue::Lane;
use crate::{Call, Feeds};

/// How long an event that another process wrote waits at most.
const POLL: Duration = Duration::from_millis(500);
const CHUNK: usize = 1_000;
/// How often it is written down how far the log was read, at most.
const OFFSET_INTERVAL: Duration = Duration::from_secs(1);
/// After this many events without a post it is written down how far the log was read.
const OFFSET_EVENTS: u64 = 10_000;
/// How long the reader waits when too many posts wait.
const FULL_PAUSE: Duration = Duration::from_millis(20);
const OFFSET: &[u8] = b"offset";
/// How long a read waits for a write of another server that its token names.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(1);
/// Measurements between two sweeps: a sweep looks at every inbox.
const SWEEP_EVERY: u64 = 10;

/// Where the reader stands.
struct Position {
    at: EventPositions,
    saved: Instant,
    /// Where the stored offset stands. There is none where others write as well.
    saved_at: Sequence,
    /// Posts were read that the stored offset does not cover.
    is_unsaved: bool,
    /// How far the log went when it was last asked: by now every post up to there was heard of.
    heard_to: Option<EventPositions>,
    /// Nothing was read yet: what an earlier run left comes first.
    is_first: bool,
}

impl Feeds {
    /// What goes on for feeds beside requests, until the server stops.
    pub(crate) async fn run_feed(&self) {
        tokio::join!(
            self.run_consumer(),
            self.run_lane(Lane::Small),
            self.run_lane(Lane::Medium),
            self.run_lane(Lane::Large),
            self.run_sweeps(),
        );
    }

    async fn run_consumer(&self) {
        let mut closed = self.context.hub.closed();
        let (mut position, mut said) = (None, None);
        self.feed.is_running.send_replace(true);
        *self.feed.caught_up.lock() = Some(Instant::now());
        let mut is_asked = true;
        loop {
            if is_asked || self.has_news(position.as_ref()) {
                match self.consume(&mut position).await {
                    Ok(()) => said = None,
                    Err(error) => {
                        // A store that is unreachable for long is reported once.
                        if said != Some(error.code()) {
                            tracing::warn!(code = error.code().as_str(), "feeds wait for the log: {}", error.detail());
                        }
                        said = Some(error.code());
                        // Nothing of it counts as read.
                        self.feed.unread.lock().get_or_insert(Sequence::ZERO);
                    }
                }
            }
            is_asked = tokio::select! {
                () = self.feed.posted.notified() => true,
                () = tokio::time::sleep(POLL) => false,
                _ = closed.wait_for(|closed| *closed) => break,
            };
        }
        if let Some(position) = &mut position
            && let Err(error) = self.save_last_offset(position).await
        {
            tracing::debug!(code = error.code().as_str(), "the fan-out's offset was not kept: {}", error.detail());
        }
    }

    async fn run_sweeps(&self) {
        let mut closed = self.context.hub.closed();
        for round in 0_u64.. {
            tokio::select! {
                () = tokio::time::sleep(MEASURE) => {}
                _ = closed.wait_for(|closed| *closed) => return,
            }
            entourage_store::fail_point("sweep");
            self.measure_lanes();
            if round % SWEEP_EVERY != 0 {
                continue;
            }
            if let Err(error) = self.feed.inboxes.sweep(self.context.clock.now(), self.context.rules.feed.active).await
            {
                tracing::warn!(code = error.code().as_str(), "inboxes are not swept: {}", error.detail());
            }
            self.measure_inboxes();
        }
    }

    /// While nothing happens, a store that looks by itself is not asked as well.
    fn has_news(&self, position: Option<&Position>) -> bool {
        let Some(position) = position.filter(|_| !self.feed.is_alone && self.feed.unread.lock().is_none()) else {
            return true;
        };
        let quiet = self.context.store.quiet_for(&position.at);
        let Some(then) = quiet.and_then(|quiet| Instant::now().checked_sub(quiet)) else { return true };
        let mut caught_up = self.feed.caught_up.lock();
        *caught_up = (*caught_up).max(Some(then));
        false
    }

    async fn consume(&self, position: &mut Option<Position>) -> Result<()> {
        entourage_store::fail_point("consumer");
        let position = match position {
            Some(position) => position,
            None => {
                // What others write from here on is heard of; what was kept before may lack some of it.
                let now = self.context.store.last_events().await?;
                self.read_modes().await?;
                let at = if self.feed.is_alone {
                    if self.feed.delivers {
                        self.resume_deliveries().await?;
                    }
                    self.first_position(now).await?
                } else {
                    self.feed.timelines.forget(None);
                    self.feed.inboxes.clear(None).await?;
                    now
                };
                let (saved, saved_at, heard_to) = (Instant::now(), at.offset(0), None);
                position.insert(Position { at, saved, saved_at, is_unsaved: false, heard_to, is_first: true })
            }
        };
        self.feed.is_reading.send_replace(true);
        if !self.skip_to_posts(position) && !self.is_behind_listeners(position).await? {
            self.pass_what_is_no_post(position).await?;
            return self.save_offset(position, OFFSET_INTERVAL).await;
        }
        loop {
            let asked = Instant::now();
            let heard = if self.feed.is_alone { None } else { Some(self.heard().await?) };
            let events = match self.context.store.events_since(&mut position.at, CHUNK).await {
                Err(error) if error.code() == Code::EventsExpired => {
                    return self.start_over(position).await;
                }
                other => other?,
            };
            for (_, event) in &events {
                position.is_unsaved |= self.consume_event(event).await?;
            }
            self.tell_live(&position.at, &events).await?;
            events.iter().for_each(|(partition, event)| position.at.advance(*partition, event.sequence));
            if let Some((_, covered)) = heard.filter(|(listed, _)| position.at.has_all_of(listed)) {
                self.feed.covered.send_replace(Some(covered));
                *self.feed.caught_up.lock() = Some(asked);
            }
            if events.len() < CHUNK {
                break;
            }
            self.save_offset(position, OFFSET_INTERVAL).await?;
        }
        self.save_offset(position, OFFSET_INTERVAL).await
    }

    /// Where the events of every partition end, and what a reader of them has seen.
    async fn heard(&self) -> Result<(EventPositions, Watermark)> {
        let (lineage, partitions) = (self.context.store.lineage(), self.context.store.guarantees().partitions);
        let (mut listed, mut covered) = (Vec::new(), Vec::new());
        for partition in 0..partitions {
            let progress = self.context.store.progress(partition).await?;
            listed.push(progress.listed);
            covered.push(progress.covered);
        }
        Ok((EventPositions::new(lineage, listed), Watermark::new(lineage, covered)))
    }

    /// Where nobody else writes, there is nothing to read but this process's posts. While somebody listens, everything
    /// is read: posts are told in the order of the log, and only there is it known. Whether there is something to read.
    fn skip_to_posts(&self, position: &mut Position) -> bool {
        let unread = self.feed.unread.lock().take();
        if !self.feed.is_alone || position.is_first {
            position.is_first = false;
            return true;
        }
        match unread {
            Some(before) if self.feed.live.streams() == 0 => position.at.advance(0, before),
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// While somebody listens nothing is passed over, so what is no post is read from time to time, not all of it when the
    /// next post comes or the next server starts.
    async fn is_behind_listeners(&self, position: &Position) -> Result<bool> {
        Ok(self.feed.live.streams() > 0
            && self.context.store.last_events().await?.beyond(&position.at) >= OFFSET_EVENTS)
    }

    /// Whatever was written between posts need not be read after a restart, either.
    async fn pass_what_is_no_post(&self, position: &mut Position) -> Result<()> {
        // While somebody listens everything is read.
        if self.feed.live.streams() > 0 {
            position.heard_to = None;
            return Ok(());
        }
        // A post is heard of a moment after it is in the log, so this is about what was there one look ago.
        if let Some(heard_to) = position.heard_to.replace(self.context.store.last_events().await?) {
            position.at.advance_to(&heard_to);
        }
        Ok(())
    }

    /// Where an earlier run had come to. Without one there is no inbox that could have missed anything.
    async fn first_position(&self, now: EventPositions) -> Result<EventPositions> {
        let stored = self.context.store.get_record(Space::FanoutQueue, Key::SERVER, &RecordId::new(OFFSET)?).await?;
        let number = stored.and_then(|record| Some(u64::from_be_bytes(record.value.as_ref().try_into().ok()?)));
        match number {
            Some(number) => Ok(EventPositions::new(now.lineage(), [Sequence(number)])),
            None => Ok(now),
        }
    }

    /// What the log no longer tells is in the store: everything that was derived is made anew.
    async fn start_over(&self, position: &mut Position) -> Result<()> {
        tracing::warn!("feeds were behind the log's retention; inboxes are built anew");
        position.at = self.context.store.last_events().await?;
        position.is_unsaved = true;
        self.read_modes().await?;
        self.feed.timelines.forget(None);
        self.feed.inboxes.clear(None).await?;
        self.feed.live.resync_all(&position.at);
        self.feed.posted.notify_one();
        Ok(())
    }

    /// At the end, however few events there were: the next run begins where this one ended.
    async fn save_last_offset(&self, position: &mut Position) -> Result<()> {
        if self.feed.is_alone && self.feed.unread.lock().is_none() {
            if let Some(heard_to) = &position.heard_to {
                position.at.advance_to(heard_to);
            }
            // Writing it down is an event itself.
            position.is_unsaved |= position.at.offset(0).0 > position.saved_at.0 + 1;
        }
        self.save_offset(position, Duration::ZERO).await
    }

    /// As far as everything has arrived; what is on its way is read again after a restart. Where others write as well,
    /// inboxes begin empty, and nothing is read again.
    async fn save_offset(&self, position: &mut Position, at_most_every: Duration) -> Result<()> {
        if !self.feed.is_alone {
            return Ok(());
        }
        let read_to = position.at.offset(0);
        let at = self.feed.queue.arrived_to().map_or(read_to, |arrived| arrived.min(read_to));
        let is_far = at.0.saturating_sub(position.saved_at.0) >= OFFSET_EVENTS;
        let is_due = (position.is_unsaved && at > position.saved_at) || is_far;
        if !is_due || position.saved.elapsed() < at_most_every {
            return Ok(());
        }
        self.put_queue_record(RecordId::new(OFFSET)?, Some(at.0.to_be_bytes().to_vec())).await?;
        (position.saved, position.saved_at, position.is_unsaved) = (Instant::now(), at, at < read_to);
        Ok(())
    }

    /// Whether it was a post that is to be delivered.
    async fn consume_event(&self, event: &Event) -> Result<bool> {
        match &event.body {
            EventBody::Record { space: Space::Post, owner, id, existed, after } => {
                let Some(post) = id.version() else { return Ok(false) };
                match after {
                    Some(value) if !existed => return self.consume_post(*owner, post, event.sequence, value).await,
                    Some(_) => {}
                    None => self.feed.timelines.deleted(*owner, post),
                }
            }
            EventBody::Record { space: Space::Fanout, id, .. } => {
                if let Some(author) = id.key() {
                    self.reload_mode(author, event.version).await?;
                }
            }
            EventBody::User { key, after: None, .. } => {
                self.feed.inboxes.clear(Some(*key)).await?;
                self.feed.timelines.forget(Some(*key));
            }
            EventBody::Edge { kind: Kind::Follow, follower, target, before, after: Some(State::Active), .. }
                if *before != Some(State::Active) && !self.feed.is_alone =>
            {
                self.feed.inboxes.follows(*follower, *target);
            }
            _ => {}
        }
        Ok(false)
    }

    async fn consume_post(&self, author: Key, post: Version, at: Sequence, value: &[u8]) -> Result<bool> {
        if !self.feed.is_alone {
            self.feed.timelines.posted(author, post);
        }
        if Post::is_imported(value) {
            self.feed.was_imported();
            return Ok(false);
        }
        let pushed = Post::decode(value).map(|post| post.pushed).unwrap_or_else(|error| {
            // A newer server's, perhaps: reads find it in the store.
            tracing::warn!(post = post.bits(), "a post cannot be read: {}", error.detail());
            self.feed.timelines.forget(Some(author));
            false
        });
        if !pushed || !self.feed.delivers {
            return Ok(false);
        }
        let (followers, mut closed) = (self.followers_of(author).await?, self.context.hub.closed());
        // The log keeps what does not fit here.
        while self.feed.queue.is_full() && !*closed.borrow_and_update() {
            tokio::time::sleep(FULL_PAUSE).await;
        }
        let told_after = self.feed.is_alone.then_some(Sequence(at.0.saturating_sub(1)));
        self.feed.queue.put(author, post, followers, told_after);
        Ok(true)
    }

    /// A read that carries a token of another server's write waits until that is known here, or says that it is not.
    pub(super) async fn catch_up_feed(&self, call: &Call) -> Result<()> {
        let Some(token) = self.context.writer.read_token(call)? else { return Ok(()) };
        let mut covered = self.feed.covered.subscribe();
        // Of other lineages the store has said that nothing of them is lost.
        let has = |covered: &Watermark, wanted: &Watermark| {
            (0_u16..).zip(wanted.offsets()).all(|(partition, offset)| covered.offset(partition) >= offset)
        };
        let is_covered = |covered: &Option<Watermark>| {
            covered.as_ref().is_some_and(|covered| token.watermarks().iter().all(|wanted| has(covered, wanted)))
        };
        // Without a reader of the log this process knows of nothing but its own writes, and keeps nothing of others'.
        if self.feed.is_alone || !*self.feed.is_running.borrow() || is_covered(&covered.borrow()) {
            return Ok(());
        }
        self.feed.posted.notify_one();
        match tokio::time::timeout(CATCH_UP_TIMEOUT, covered.wait_for(is_covered)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::new(Code::Stale, "this server's feeds have not seen the write that the token comes from")),
        }
    }
}
