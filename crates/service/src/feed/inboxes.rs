//! Where inboxes are kept: the contract, and inboxes in this process within a budget.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Key, Millis, Result, Version};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use super::inbox::{Entry, Inbox, Slot};

const SHARDS: usize = 256;
/// What an inbox costs besides its entries: its place in a map that may be half empty.
const OVERHEAD_BYTES: usize = 2 * size_of::<(Key, Kept)>();
/// Above the budget those read longest ago go, until a sixteenth of it is free. So much above it whatever grows goes at
/// once: nothing is kept that does not fit.
const SLACK: u64 = 16;
/// Which part of a shard goes at a time.
const EVICTED: usize = 16;
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
    /// What it was last counted as.
    counted: u64,
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
    fn bytes(&self) -> u64 {
        let state = match &self.state {
            State::Building { collected, .. } => collected.capacity() * size_of::<(u64, Slot)>(),
            State::Ready(inbox) => inbox.bytes(),
        };
        (OVERHEAD_BYTES + self.followed.capacity() * size_of::<(Key, u64)>() + state) as u64
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
    shards: Vec<Mutex<Shard>>,
    authors: RwLock<Authors>,
    tickets: AtomicU64,
    cap: usize,
    budget_bytes: u64,
    /// What all of them are counted as.
    bytes: AtomicU64,
    /// The shard from which some go next.
    hand: AtomicUsize,
}

type Shard = HashMap<Key, Kept>;

impl InMemory {
    pub(super) fn new(cap: usize, budget_bytes: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            authors: RwLock::default(),
            tickets: AtomicU64::new(1),
            cap: cap.max(1),
            budget_bytes,
            bytes: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    /// Counts a reader's inbox anew. One that does not fit is gone: it is made anew when it is read.
    fn recount(&self, shard: &mut Shard, reader: Key) {
        let Some(kept) = shard.get_mut(&reader) else { return };
        let bytes = kept.bytes();
        let before = std::mem::replace(&mut kept.counted, bytes);
        // Two's complement: adding a negative number takes away.
        let change = bytes.wrapping_sub(before);
        let all = self.bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        if all > self.budget_bytes.saturating_add(self.budget_bytes / SLACK) {
            self.forget(shard, reader);
        }
    }

    fn retain(&self, shard: &mut Shard, stays: impl Fn(&Kept) -> bool) {
        shard.retain(|_, kept| {
            let is_kept = stays(kept);
            if !is_kept {
                self.bytes.fetch_sub(kept.counted, Ordering::Relaxed);
            }
            is_kept
        });
    }

    fn forget(&self, shard: &mut Shard, reader: Key) {
        if let Some(kept) = shard.remove(&reader) {
            self.bytes.fetch_sub(kept.counted, Ordering::Relaxed);
        }
    }

    /// Without a lock on any shard: who was seen longest ago goes, shard after shard.
    fn make_room(&self) {
        if self.bytes.load(Ordering::Relaxed) <= self.budget_bytes {
            return;
        }
        let enough = self.budget_bytes - self.budget_bytes / SLACK;
        let mut gone = 0;
        for _ in 0..SHARDS {
            if self.bytes.load(Ordering::Relaxed) <= enough {
                break;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let mut shard = self.shards[at].lock();
            let many = shard.len().div_ceil(EVICTED);
            let mut seen: Vec<(Millis, Key)> = shard.iter().map(|(key, kept)| (kept.seen, *key)).collect();
            if many < seen.len() {
                seen.select_nth_unstable(many);
            }
            seen.iter().take(many).for_each(|(_, key)| self.forget(&mut shard, *key));
            gone += many as u64;
        }
        metrics::counter!("entourage_inboxes_evicted_total").increment(gone);
    }

    fn shard(&self, reader: Key) -> &Mutex<Shard> {
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
            self.recount(&mut shard, reader);
        }
        self.make_room();
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
        self.recount(&mut shard, reader);
        drop(shard);
        self.make_room();
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
        self.recount(&mut shard, reader);
        drop(shard);
        self.make_room();
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
        self.recount(&mut shard, reader);
        drop(shard);
        self.make_room();
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
        self.recount(&mut shard, reader);
        Ok(())
    }

    async fn clear(&self, reader: Option<Key>) -> Result<()> {
        match reader {
            Some(reader) => self.forget(&mut self.shard(reader).lock(), reader),
            None => self.shards.iter().for_each(|shard| self.retain(&mut shard.lock(), |_| false)),
        }
        Ok(())
    }

    async fn sweep(&self, now: Millis, active: Duration) -> Result<()> {
        let active = u64::try_from(active.as_millis()).unwrap_or(u64::MAX);
        let oldest = Millis::from_since_2000(now.since_2000().saturating_sub(active));
        self.shards.iter().for_each(|shard| self.retain(&mut shard.lock(), |kept| kept.seen >= oldest));
        self.make_room();
        Ok(())
    }

    fn follows(&self, reader: Key, author: Key) {
        let mut shard = self.shard(reader).lock();
        let Some(kept) = shard.get_mut(&reader) else { return };
        kept.generation += 1;
        // A follow anew is another one: what was written meanwhile is to be put in as well.
        kept.followed.retain(|(known, _)| *known != author);
        kept.followed.push((author, kept.generation));
        // With this many new ones a rebuild is less work.
        if kept.followed.len() > FOLLOWED_MAX {
            self.forget(&mut shard, reader);
        }
        self.recount(&mut shard, reader);
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
            bytes += shard.values().map(Kept::bytes).sum::<u64>();
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

    /// Deliveries, new inboxes and new follows from several threads: at no moment more than a tenth over the budget, and
    /// the reader who was seen last stays.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_budget_is_kept_at_every_moment() {
        const BUDGET: u64 = 1 << 20;
        let inboxes = std::sync::Arc::new(InMemory::new(1_000, BUDGET));
        let tasks: Vec<_> = (0..4)
            .map(|task: i64| {
                let inboxes = std::sync::Arc::clone(&inboxes);
                tokio::spawn(async move {
                    let (mut most, mut post) = (0, 1);
                    for round in 0..400 {
                        let reader = Key(1_000 + task * 1_000 + round);
                        let ticket = inboxes.begin(reader).await.unwrap();
                        let entries: Vec<Entry> = (1..200).map(|post| entry(post << 23)).collect();
                        inboxes.finish(reader, ticket, &entries, Version::ZERO).await.unwrap();
                        inboxes.seen(reader, Millis::from_since_2000(round as u64));
                        let readers: Vec<Key> = (0..=round).map(|round| Key(1_000 + task * 1_000 + round)).collect();
                        post += 1 << 23;
                        inboxes.deliver(AUTHOR, &[version((1 << 40) + post)], &readers).await.unwrap();
                        inboxes.follows(reader, AUTHOR);
                        most = most.max(inboxes.bytes.load(Ordering::Relaxed));
                    }
                    most
                })
            })
            .collect();
        for task in tasks {
            let most = task.await.unwrap();
            assert!(most <= BUDGET + BUDGET / 10, "{most} of {BUDGET}");
        }
        let (count, bytes) = inboxes.size();
        assert!(count > 100 && bytes > BUDGET / 2, "{count} inboxes in {bytes} bytes");
        assert_eq!(bytes, inboxes.bytes.load(Ordering::Relaxed), "what is counted is what is there");
        let is_there = async |round: i64| {
            let mut found = 0;
            for task in 0..4 {
                let slice = inboxes.read(Key(1_000 + task * 1_000 + round), Version::MAX, 1).await.unwrap();
                found += usize::from(slice.is_some());
            }
            found
        };
        assert!(is_there(399).await > 0 && is_there(0).await == 0);
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
