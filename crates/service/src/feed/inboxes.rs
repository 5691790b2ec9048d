//! Where inboxes are kept: the contract, and inboxes in this process within a budget.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Key, Millis, Result, Version};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use super::inbox::{Entry, Inbox, Slot};

const SHARDS: usize = 256;
/// What an inbox costs besides its entries: its place in a map.
const OVERHEAD_BYTES: usize = 96;
/// How many new follows an inbox takes before it is given up.
const FOLLOWED_MAX: usize = 64;

/// A part of an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// The inbox is complete above it.
    pub floor: Version,
    /// Authors whom the reader follows since lately, and since when: their posts above the floor are to be put in first.
    pub followed: Vec<(Key, u64)>,
    /// Changes whenever the reader follows somebody.
    pub generation: u64,
}

/// Names one building of an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Inboxes are caches: each can be made anew from posts and edges, and one that is not there is not empty but unknown.
///
/// - **B1** Complete above its floor: every post delivered or filled in above it is there once, until removed.
/// - **B2** A delivery to a reader without an inbox is nothing; one while the inbox is being built is part of it.
/// - **B3** No more than the cap; trimming takes the oldest and raises the floor to them.
/// - **B4** Whom a reader began to follow is named by every read until [`Self::fill`] was called for that very follow.
#[async_trait]
pub trait Inboxes: Send + Sync + 'static {
    /// Puts posts of one author into the readers' inboxes that are there; how many entries that made.
    async fn deliver(&self, author: Key, posts: &[Version], readers: &[Key]) -> Result<u64>;

    /// Entries below `below`, newest first; `None` when there is no inbox, or not yet.
    async fn read(&self, reader: Key, below: Version, limit: usize) -> Result<Option<Slice>>;

    /// From now on deliveries are kept for the inbox that is being built.
    async fn begin(&self, reader: Key) -> Result<Ticket>;

    /// Ends what the ticket began, unless another has begun since.
    async fn finish(&self, reader: Key, ticket: Ticket, entries: &[Entry], floor: Version) -> Result<()>;

    /// Posts of an author whom the reader follows since then, as a read named it.
    async fn fill(&self, reader: Key, followed: (Key, u64), posts: &[Version]) -> Result<()>;

    /// Takes entries out that will never be shown, unless the reader followed somebody since that generation.
    async fn clean(&self, reader: Key, generation: u64, posts: &[Version]) -> Result<()>;

    /// Forgets one inbox, or all.
    async fn clear(&self, reader: Option<Key>) -> Result<()>;

    /// Forgets inboxes of readers who have not been seen for so long, and those beyond the budget.
    async fn sweep(&self, now: Millis, active: Duration) -> Result<()>;

    /// The reader began to follow somebody.
    fn follows(&self, reader: Key, author: Key);

    /// The reader was seen.
    fn seen(&self, reader: Key, now: Millis);

    /// How many there are, and about how many bytes they take.
    fn size(&self) -> (u64, u64);
}

#[derive(Debug, Default)]
struct Kept {
    state: State,
    followed: Vec<(Key, u64)>,
    generation: u64,
    seen: Millis,
}

#[derive(Debug)]
enum State {
    Building { ticket: Ticket, collected: Vec<(u64, Slot)> },
    Ready(Inbox),
}

impl Default for State {
    fn default() -> Self {
        Self::Building { ticket: Ticket(0), collected: Vec::new() }
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let state = match &self.state {
            State::Building { collected, .. } => collected.capacity() * size_of::<(u64, Slot)>(),
            State::Ready(inbox) => inbox.bytes(),
        };
        OVERHEAD_BYTES + self.followed.capacity() * size_of::<(Key, u64)>() + state
    }
}

/// Authors and their numbers.
#[derive(Debug, Default)]
struct Authors {
    slots: HashMap<Key, Slot>,
    keys: Vec<Key>,
}

/// Inboxes in this process.
#[derive(Debug)]
pub(super) struct InMemory {
    shards: Vec<Mutex<HashMap<Key, Kept>>>,
    authors: RwLock<Authors>,
    tickets: AtomicU64,
    cap: usize,
    budget_bytes: u64,
}

impl InMemory {
    pub(super) fn new(cap: usize, budget_bytes: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, authors: RwLock::default(), tickets: AtomicU64::new(1), cap: cap.max(1), budget_bytes }
    }

    fn shard(&self, reader: Key) -> &Mutex<HashMap<Key, Kept>> {
        let hash = (reader.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> 56) as usize % SHARDS]
    }

    fn slot(&self, author: Key) -> Slot {
        if let Some(slot) = self.authors.read().slots.get(&author) {
            return *slot;
        }
        let mut authors = self.authors.write();
        if let Some(slot) = authors.slots.get(&author) {
            return *slot;
        }
        let slot = authors.keys.len() as Slot;
        authors.keys.push(author);
        authors.slots.insert(author, slot);
        slot
    }

    fn put(&self, kept: &mut Kept, post: Version, slot: Slot) -> bool {
        match &mut kept.state {
            State::Ready(inbox) => inbox.insert(post.bits(), slot, self.cap),
            State::Building { collected, .. } => {
                collected.push((post.bits(), slot));
                true
            }
        }
    }
}

#[async_trait]
impl Inboxes for InMemory {
    async fn deliver(&self, author: Key, posts: &[Version], readers: &[Key]) -> Result<u64> {
        let (slot, mut made) = (self.slot(author), 0);
        for &reader in readers {
            let mut shard = self.shard(reader).lock();
            let Some(kept) = shard.get_mut(&reader) else { continue };
            for &post in posts {
                made += u64::from(self.put(kept, post, slot));
            }
        }
        Ok(made)
    }

    async fn read(&self, reader: Key, below: Version, limit: usize) -> Result<Option<Slice>> {
        let (found, floor, followed, generation) = {
            let shard = self.shard(reader).lock();
            let Some(kept) = shard.get(&reader) else { return Ok(None) };
            let State::Ready(inbox) = &kept.state else { return Ok(None) };
            (inbox.read(below, limit), inbox.floor(), kept.followed.clone(), kept.generation)
        };
        let authors = self.authors.read();
        let entry = |(post, slot): (u64, Slot)| {
            let author = *authors.keys.get(slot as usize)?;
            Some(Entry { post: Version::from_bits(post), author })
        };
        Ok(Some(Slice { entries: found.into_iter().filter_map(entry).collect(), floor, followed, generation }))
    }

    async fn begin(&self, reader: Key) -> Result<Ticket> {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let mut shard = self.shard(reader).lock();
        let kept = shard.entry(reader).or_default();
        // What was collected for another building is as good for this one.
        let collected = match &mut kept.state {
            State::Building { collected, .. } => std::mem::take(collected),
            State::Ready(_) => Vec::new(),
        };
        kept.state = State::Building { ticket, collected };
        Ok(ticket)
    }

    async fn finish(&self, reader: Key, ticket: Ticket, entries: &[Entry], floor: Version) -> Result<()> {
        let mut all: Vec<(u64, Slot)> =
            entries.iter().map(|entry| (entry.post.bits(), self.slot(entry.author))).collect();
        let mut shard = self.shard(reader).lock();
        let Some(kept) = shard.get_mut(&reader) else { return Ok(()) };
        match &mut kept.state {
            State::Building { ticket: last, collected } if *last == ticket => all.append(collected),
            _ => return Ok(()),
        }
        kept.state = State::Ready(Inbox::new(all, floor, self.cap));
        Ok(())
    }

    async fn fill(&self, reader: Key, followed: (Key, u64), posts: &[Version]) -> Result<()> {
        let slot = self.slot(followed.0);
        let mut shard = self.shard(reader).lock();
        let Some(kept) = shard.get_mut(&reader) else { return Ok(()) };
        for &post in posts {
            self.put(kept, post, slot);
        }
        if let Some(at) = kept.followed.iter().position(|known| *known == followed) {
            kept.followed.swap_remove(at);
        }
        Ok(())
    }

    async fn clean(&self, reader: Key, generation: u64, posts: &[Version]) -> Result<()> {
        let posts: Vec<u64> = posts.iter().map(|post| post.bits()).collect();
        let mut shard = self.shard(reader).lock();
        if let Some(kept) = shard.get_mut(&reader).filter(|kept| kept.generation == generation)
            && let State::Ready(inbox) = &mut kept.state
        {
            inbox.remove(&posts);
        }
        Ok(())
    }

    async fn clear(&self, reader: Option<Key>) -> Result<()> {
        match reader {
            Some(reader) => drop(self.shard(reader).lock().remove(&reader)),
            None => self.shards.iter().for_each(|shard| shard.lock().clear()),
        }
        Ok(())
    }

    async fn sweep(&self, now: Millis, active: Duration) -> Result<()> {
        let active = u64::try_from(active.as_millis()).unwrap_or(u64::MAX);
        let oldest = Millis::from_since_2000(now.since_2000().saturating_sub(active));
        let budget = self.budget_bytes / SHARDS as u64;
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.retain(|_, kept| kept.seen >= oldest);
            let mut sizes: Vec<(Millis, Key, u64)> =
                shard.iter().map(|(key, kept)| (kept.seen, *key, kept.bytes() as u64)).collect();
            let mut over = sizes.iter().map(|(_, _, bytes)| bytes).sum::<u64>().saturating_sub(budget);
            if over == 0 {
                continue;
            }
            // Who was seen longest ago goes first.
            sizes.sort_unstable();
            let mut gone = HashSet::new();
            for (_, key, bytes) in sizes {
                if over == 0 {
                    break;
                }
                gone.insert(key);
                over = over.saturating_sub(bytes);
            }
            metrics::counter!("entourage_inboxes_evicted_total").increment(gone.len() as u64);
            shard.retain(|key, _| !gone.contains(key));
        }
        Ok(())
    }

    fn follows(&self, reader: Key, author: Key) {
        let mut shard = self.shard(reader).lock();
        let Some(kept) = shard.get_mut(&reader) else { return };
        kept.generation += 1;
        // A follow anew is another one: what was written meanwhile is to be put in as well.
        kept.followed.retain(|(known, _)| *known != author);
        kept.followed.push((author, kept.generation));
        // With so many new ones building it anew is less work.
        if kept.followed.len() > FOLLOWED_MAX {
            shard.remove(&reader);
        }
    }

    fn seen(&self, reader: Key, now: Millis) {
        if let Some(kept) = self.shard(reader).lock().get_mut(&reader) {
            kept.seen = kept.seen.max(now);
        }
    }

    fn size(&self) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        for shard in &self.shards {
            let shard = shard.lock();
            count += shard.len() as u64;
            bytes += shard.values().map(|kept| kept.bytes() as u64).sum::<u64>();
        }
        (count, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: Key = Key(1);
    const AUTHOR: Key = Key(2);

    fn version(bits: u64) -> Version {
        Version::from_bits(bits)
    }

    fn entry(post: u64) -> Entry {
        Entry { post: version(post), author: AUTHOR }
    }

    async fn posts(inboxes: &InMemory) -> Option<Vec<u64>> {
        let slice = inboxes.read(READER, Version::MAX, 100).await.unwrap();
        slice.map(|slice| slice.entries.iter().map(|entry| entry.post.bits()).collect())
    }

    #[tokio::test]
    async fn a_delivery_while_it_is_built_is_not_lost() {
        let inboxes = InMemory::new(10, u64::MAX);
        assert_eq!(inboxes.deliver(AUTHOR, &[version(5)], &[READER]).await.unwrap(), 0);
        let ticket = inboxes.begin(READER).await.unwrap();
        assert_eq!(posts(&inboxes).await, None);
        inboxes.deliver(AUTHOR, &[version(9)], &[READER]).await.unwrap();
        inboxes.finish(READER, ticket, &[entry(5), entry(9)], Version::ZERO).await.unwrap();
        assert_eq!(posts(&inboxes).await, Some(vec![9, 5]));
    }

    #[tokio::test]
    async fn only_the_last_to_begin_finishes() {
        let inboxes = InMemory::new(10, u64::MAX);
        let first = inboxes.begin(READER).await.unwrap();
        inboxes.deliver(AUTHOR, &[version(7)], &[READER]).await.unwrap();
        let second = inboxes.begin(READER).await.unwrap();
        inboxes.finish(READER, first, &[entry(1)], Version::ZERO).await.unwrap();
        assert_eq!(posts(&inboxes).await, None);
        inboxes.finish(READER, second, &[entry(2)], Version::ZERO).await.unwrap();
        assert_eq!(posts(&inboxes).await, Some(vec![7, 2]));
    }

    #[tokio::test]
    async fn whom_one_follows_is_named_until_filled_in_and_nothing_is_cleaned_meanwhile() {
        let inboxes = InMemory::new(10, u64::MAX);
        let ticket = inboxes.begin(READER).await.unwrap();
        inboxes.finish(READER, ticket, &[entry(5)], version(3)).await.unwrap();
        let before = inboxes.read(READER, Version::MAX, 9).await.unwrap().unwrap();
        inboxes.follows(READER, AUTHOR);
        inboxes.clean(READER, before.generation, &[version(5)]).await.unwrap();
        let slice = inboxes.read(READER, Version::MAX, 9).await.unwrap().unwrap();
        assert_eq!(
            (slice.entries.clone(), slice.followed.clone(), slice.floor),
            (vec![entry(5)], vec![(AUTHOR, 1)], version(3))
        );
        // Unfollowed and followed anew while the posts were read: it has to be done again.
        inboxes.follows(READER, AUTHOR);
        inboxes.fill(READER, slice.followed[0], &[version(8), version(2)]).await.unwrap();
        let slice = inboxes.read(READER, Version::MAX, 9).await.unwrap().unwrap();
        assert_eq!(slice.followed, [(AUTHOR, 2)]);
        inboxes.fill(READER, slice.followed[0], &[version(8)]).await.unwrap();
        inboxes.clean(READER, slice.generation, &[version(5)]).await.unwrap();
        let slice = inboxes.read(READER, Version::MAX, 9).await.unwrap().unwrap();
        assert_eq!((slice.entries, slice.followed), (vec![entry(8)], vec![]));
    }

    #[tokio::test]
    async fn who_was_not_seen_goes_and_so_does_what_is_over_the_budget() {
        let inboxes = InMemory::new(10, 0);
        let ticket = inboxes.begin(READER).await.unwrap();
        inboxes.finish(READER, ticket, &[], Version::ZERO).await.unwrap();
        inboxes.seen(READER, Millis::from_since_2000(1_000));
        inboxes.sweep(Millis::from_since_2000(1_000), Duration::from_secs(1)).await.unwrap();
        assert_eq!(posts(&inboxes).await, None);
        let inboxes = InMemory::new(10, u64::MAX);
        let ticket = inboxes.begin(READER).await.unwrap();
        inboxes.finish(READER, ticket, &[], Version::ZERO).await.unwrap();
        inboxes.seen(READER, Millis::from_since_2000(1_000));
        inboxes.sweep(Millis::from_since_2000(2_000), Duration::from_secs(1)).await.unwrap();
        assert_eq!(posts(&inboxes).await, Some(vec![]));
        inboxes.sweep(Millis::from_since_2000(2_001), Duration::from_secs(1)).await.unwrap();
        assert_eq!(posts(&inboxes).await, None);
    }
}
