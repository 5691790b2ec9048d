//! Live feeds: posts as they are written, in the order of the log, to listeners. A listener that is too slow is
//! told to read anew.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use entourage_model::{
    Code, Event, EventBody, EventCursor, EventPositions, Key, Kind, List, Post, Result, Space, UserId, Version,
};
use entourage_store::StoreExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Entry, FeedRow, read::Verdict};
use crate::{Call, Feeds};

/// How many posts wait for one listener; more, and it is told to read anew.
const WAITING_MAX: usize = 256;
/// How far back a stream goes on; beyond it, the reader reads anew.
const RESUME_EVENTS_MAX: u64 = 10_000;
const CHUNK: usize = 1_000;
/// How much of the log is read at once for one stream, and how many posts are looked up at once: what a reader that
/// does not read holds.
const MISSED_AT_ONCE: usize = 100;
const TOLD_AT_ONCE: usize = 16;

/// What a stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedMessage {
    /// A post, and where to go on after it.
    Post { cursor: String, row: Box<FeedRow> },
    /// Something was left out: read the feed anew, and go on from here.
    Resync { cursor: String },
}

/// A post in the log, which was read up to here with it.
#[derive(Debug)]
struct Posted {
    partition: u16,
    read_to: EventPositions,
    entry: Entry,
}

#[derive(Debug, Default)]
struct Waiting {
    posts: VecDeque<Posted>,
    /// Something was left out, up to here.
    left_out: Option<EventPositions>,
}

#[derive(Debug)]
struct Listener {
    /// What was written up to here is not for it, or was offered.
    begins_after: Mutex<EventPositions>,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Live {
    listeners: Mutex<HashMap<Key, Vec<Arc<Listener>>>>,
}

impl Live {
    fn readers(&self) -> Vec<Key> {
        self.listeners.lock().keys().copied().collect()
    }

    fn tell(&self, reader: Key, partition: u16, read_to: &EventPositions, entry: Entry) {
        for listener in self.listeners.lock().get(&reader).into_iter().flatten() {
            {
                // Once, though a look at the log that failed is taken again.
                let mut begins_after = listener.begins_after.lock();
                if begins_after.has(partition, read_to.offset(partition)) {
                    continue;
                }
                begins_after.advance(partition, read_to.offset(partition));
            }
            let mut waiting = listener.waiting.lock();
            if waiting.posts.len() >= WAITING_MAX {
                waiting.posts.clear();
                waiting.left_out = Some(read_to.clone());
                metrics::counter!("entourage_feed_streams_resynced_total").increment(1);
            } else if waiting.left_out.is_some() {
                waiting.left_out = Some(read_to.clone());
            } else {
                waiting.posts.push_back(Posted { partition, read_to: read_to.clone(), entry });
            }
            drop(waiting);
            listener.filled.notify_one();
        }
    }

    /// Everybody reads anew, from this place of the log on.
    pub(super) fn resync_all(&self, now: &EventPositions) {
        for listener in self.listeners.lock().values().flatten() {
            // Not only further: in another lineage a log goes on from an earlier place.
            *listener.begins_after.lock() = now.clone();
            let mut waiting = listener.waiting.lock();
            waiting.posts.clear();
            waiting.left_out = Some(now.clone());
            drop(waiting);
            listener.filled.notify_one();
        }
    }

    pub(super) fn streams(&self) -> usize {
        self.listeners.lock().values().map(Vec::len).sum()
    }
}

/// Takes the listener away when the stream ends.
struct Listening {
    feed: Arc<super::Feed>,
    reader: Key,
    listener: Arc<Listener>,
    closed: watch::Receiver<bool>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.feed.live.listeners.lock();
        if let Some(own) = listeners.get_mut(&self.reader) {
            own.retain(|listener| !Arc::ptr_eq(listener, &self.listener));
            if own.is_empty() {
                listeners.remove(&self.reader);
            }
        }
    }
}

/// Where a reader of a live feed stands.
pub struct FeedStream {
    user: UserId,
    created: Version,
    listening: Listening,
    /// Everything up to here was told.
    told: EventPositions,
    /// Between these places of the log is what the reader missed and was not yet read.
    missed: Option<(EventPositions, EventPositions)>,
    /// Posts that were not yet looked up.
    waiting: VecDeque<(EventPositions, Entry)>,
    ready: VecDeque<FeedMessage>,
}

/// A new post of an event. What a file brought is no news.
fn post_of(event: &Event) -> Option<Entry> {
    match &event.body {
        EventBody::Record { space: Space::Post, owner, id, existed: false, after: Some(value) }
            if !Post::is_imported(value) =>
        {
            Some(Entry { post: id.version()?, author: *owner })
        }
        _ => None,
    }
}

impl Feeds {
    fn viewer_cursor(&self, positions: EventPositions) -> String {
        EventCursor { epoch: self.context.epoch(), positions }.encode_for_viewer(&self.context.sealer)
    }

    /// From now on, or from behind the post that was told last.
    pub async fn feed_stream(&self, call: &Call, id: &UserId, last: Option<&str>) -> Result<FeedStream> {
        let user = self.reader(call, id).await?;
        let last = last.map(|text| self.context.event_positions(text)).transpose()?;
        let begins_after = Mutex::new(self.context.store.last_events().await?);
        let listener = Arc::new(Listener { begins_after, waiting: Mutex::default(), filled: Notify::new() });
        self.feed.live.listeners.lock().entry(user.key).or_default().push(Arc::clone(&listener));
        let listening =
            Listening { feed: Arc::clone(&self.feed), reader: user.key, listener, closed: self.context.hub.closed() };
        let (mut is_reading, mut closed) = (self.feed.is_reading.subscribe(), self.context.hub.closed());
        tokio::select! {
            _ = is_reading.wait_for(|is_reading| *is_reading) => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
        // After it is heard of: what is written from now on is told, and what was before is not told twice.
        let now = self.context.store.last_events().await?;
        listening.listener.begins_after.lock().advance_to(&now);
        let (missed, waiting, ready) = (None, VecDeque::new(), VecDeque::new());
        let (user, created) = (id.clone(), user.created);
        let mut stream = FeedStream { user, created, listening, told: now.clone(), missed, waiting, ready };
        match last {
            Some(last) if now.beyond(&last) > RESUME_EVENTS_MAX => {
                stream.ready.push_back(FeedMessage::Resync { cursor: self.viewer_cursor(now) });
            }
            Some(last) if !last.has_all_of(&now) => stream.missed = Some((last, now)),
            _ => {}
        }
        Ok(stream)
    }

    /// Reads on in what was missed, a piece at a time.
    async fn read_missed(&self, stream: &mut FeedStream, mut from: EventPositions, to: EventPositions) -> Result<()> {
        let events = match self.context.store.events_between(&mut from, &to, MISSED_AT_ONCE).await {
            Err(error) if error.code() == Code::EventsExpired => {
                stream.ready.push_back(FeedMessage::Resync { cursor: self.viewer_cursor(to) });
                return Ok(());
            }
            other => other?,
        };
        for (partition, event) in &events {
            from.advance(*partition, event.sequence);
            stream.waiting.extend(post_of(event).map(|entry| (from.clone(), entry)));
        }
        stream.missed = (!events.is_empty() && !from.has_all_of(&to)).then_some((from, to));
        Ok(())
    }

    /// Those of the posts that the reader's feed has now.
    async fn rows_to_tell(&self, reader: Key, posts: Vec<(EventPositions, Entry)>) -> Result<VecDeque<FeedMessage>> {
        let entries: Vec<Entry> = posts.iter().map(|(_, entry)| *entry).collect();
        let mut judged = HashMap::new();
        self.judge(reader, &entries, &mut judged).await?;
        let shown: Vec<(EventPositions, Entry)> =
            posts.into_iter().filter(|(_, entry)| judged.get(&entry.author) == Some(&Verdict::Shown)).collect();
        let entries: Vec<Entry> = shown.iter().map(|(_, entry)| *entry).collect();
        let rows = self.feed_posts(&entries).await?;
        let told = shown.into_iter().zip(rows).filter_map(|((read_to, _), row)| {
            Some(FeedMessage::Post { cursor: self.viewer_cursor(read_to), row: Box::new(row?) })
        });
        Ok(told.collect())
    }

    /// Waits for the next post; `None` when the server stops or the user is gone.
    pub async fn next_feed(&self, stream: &mut FeedStream) -> Result<Option<FeedMessage>> {
        loop {
            if let Some(told) = stream.ready.pop_front() {
                return Ok(Some(told));
            }
            if *stream.listening.closed.borrow() {
                return Ok(None);
            }
            if !stream.waiting.is_empty() {
                let user = self.context.find_user(&stream.user).await?.filter(|user| user.created == stream.created);
                let Some(user) = user else { return Ok(None) };
                let posts = stream.waiting.drain(..stream.waiting.len().min(TOLD_AT_ONCE)).collect();
                stream.ready = self.rows_to_tell(user.key, posts).await?;
                continue;
            }
            if let Some((from, to)) = stream.missed.take() {
                self.read_missed(stream, from, to).await?;
                continue;
            }
            let Listening { listener, closed, .. } = &mut stream.listening;
            let Waiting { posts, left_out } = std::mem::take(&mut *listener.waiting.lock());
            let is_news = |left_out: &EventPositions| {
                left_out.lineage() != stream.told.lineage() || !stream.told.has_all_of(left_out)
            };
            if let Some(left_out) = left_out.filter(is_news) {
                match left_out.lineage() == stream.told.lineage() {
                    true => stream.told.advance_to(&left_out),
                    false => stream.told = left_out,
                }
                return Ok(Some(FeedMessage::Resync { cursor: self.viewer_cursor(stream.told.clone()) }));
            }
            for Posted { partition, read_to, entry } in posts {
                let is_told = stream.told.has(partition, read_to.offset(partition));
                // Of other partitions more may have been told than was read here.
                stream.told.advance_to(&read_to);
                stream.waiting.extend((!is_told).then(|| (stream.told.clone(), entry)));
            }
            if !stream.waiting.is_empty() {
                continue;
            }
            tokio::select! {
                () = listener.filled.notified() => {}
                _ = closed.wait_for(|closed| *closed) => return Ok(None),
            }
        }
    }

    /// Tells listeners of new posts, in the order of the log, which was read up to `read_to` before.
    pub(super) async fn tell_live(&self, read_to: &EventPositions, events: &[(u16, Event)]) -> Result<()> {
        let readers = self.feed.live.readers();
        if readers.is_empty() {
            return Ok(());
        }
        let mut read_to = read_to.clone();
        for (partition, event) in events {
            read_to.advance(*partition, event.sequence);
            let Some(entry) = post_of(event) else { continue };
            for reader in self.listening_to(entry.author, &readers).await? {
                self.feed.live.tell(reader, *partition, &read_to, entry);
            }
        }
        Ok(())
    }

    /// Who of the readers follows an author, or is the author: looked up from the shorter side.
    async fn listening_to(&self, author: Key, readers: &[Key]) -> Result<Vec<Key>> {
        let mut found: Vec<Key> = readers.iter().copied().filter(|reader| *reader == author).collect();
        if readers.len() <= CHUNK || self.followers_of(author).await? > readers.len() as u64 {
            let pairs: Vec<(Key, Key)> = readers.iter().map(|reader| (*reader, author)).collect();
            let follows = self.context.are_active(Kind::Follow, &pairs).await?;
            found.extend(pairs.iter().zip(follows).filter(|(_, follows)| *follows).map(|(pair, _)| pair.0));
            return Ok(found);
        }
        let (list, mut after) = (List::followers(author), None);
        let listening: std::collections::HashSet<Key> = readers.iter().copied().collect();
        loop {
            let page = self.context.store.scan(list, after, CHUNK).await?;
            found.extend(page.edges.iter().map(|edge| edge.follower).filter(|reader| listening.contains(reader)));
            after = page.edges.last().map(|edge| list.place(edge));
            if !page.more || after.is_none() {
                return Ok(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use entourage_model::{Lineage, Sequence};

    use super::*;

    /// A home that goes back to an earlier state counts from there on: what is posted then is told all the same.
    #[test]
    fn posts_of_another_lineage_are_told_though_the_log_went_back() {
        let of = |lineage, offset| EventPositions::new(Lineage(lineage), [Sequence(offset)]);
        let (live, reader) = (Live::default(), Key(1));
        let listener =
            Listener { begins_after: Mutex::new(of(0, 20)), waiting: Mutex::default(), filled: Notify::new() };
        let listener = Arc::new(listener);
        live.listeners.lock().insert(reader, vec![Arc::clone(&listener)]);
        let told = |lineage, offset| {
            let entry = Entry { post: Version::from_bits(offset), author: Key(2) };
            live.tell(reader, 0, &of(lineage, offset), entry);
            listener.waiting.lock().posts.len()
        };
        assert_eq!([told(0, 20), told(0, 21), told(0, 21)], [0, 1, 1]);
        live.resync_all(&of(1, 12));
        let Waiting { posts, left_out } = std::mem::take(&mut *listener.waiting.lock());
        assert_eq!((posts.len(), left_out), (0, Some(of(1, 12))));
        assert_eq!([told(1, 12), told(1, 13)], [0, 1]);
    }
}
