//! The newest post ids of authors, in memory: pulling an author costs a look at them, and an idle one nothing more.

use entourage_model::{Key, Version};
use hashbrown::HashMap;
use parking_lot::Mutex;

const SHARDS: usize = 64;
/// How many ids of one author are kept at most.
const KEPT_MAX: usize = 256;

/// The newest ids of an author, ascending.
#[derive(Debug, Default)]
struct Timeline {
    posts: Vec<Version>,
    /// There are no older ones.
    is_whole: bool,
    /// Looked at since the last sweep.
    is_used: bool,
}

#[derive(Debug, Default)]
struct Shard {
    known: HashMap<Key, Timeline>,
    /// Counts posts and deletions of its authors: what was read before one of them is not kept after it.
    changes: u64,
}

/// What is known of an author below some id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Newest first.
    pub(super) posts: Vec<Version>,
    /// There are no older ones.
    pub(super) is_end: bool,
}

/// What a shard had seen when a reader went to ask the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked(u64);

#[derive(Debug)]
pub(super) struct Timelines {
    shards: Vec<Mutex<Shard>>,
    authors_max: usize,
}

impl Timelines {
    pub(super) fn new(authors_max: usize) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), authors_max }
    }

    fn shard(&self, author: Key) -> &Mutex<Shard> {
        let hash = (author.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(hash >> 58) as usize % SHARDS]
    }

    /// Posts below `below`; `None` when the store has to be asked.
    pub(super) fn below(&self, author: Key, below: Version, limit: usize) -> Option<Stretch> {
        let mut shard = self.shard(author).lock();
        let timeline = shard.known.get_mut(&author)?;
        timeline.is_used = true;
        let until = timeline.posts.partition_point(|post| *post < below);
        let from = until.saturating_sub(limit);
        if from == until && !timeline.is_whole {
            return None;
        }
        let posts = timeline.posts[from..until].iter().rev().copied().collect();
        Some(Stretch { posts, is_end: timeline.is_whole && from == 0 })
    }

    pub(super) fn ask(&self, author: Key) -> Asked {
        Asked(self.shard(author).lock().changes)
    }

    /// Keeps an author's newest posts as the store had them, newest first.
    pub(super) fn keep(&self, author: Key, asked: Asked, newest: &[Version], is_whole: bool) {
        let mut shard = self.shard(author).lock();
        if shard.changes != asked.0 {
            return;
        }
        if shard.known.len() >= self.authors_max.div_ceil(SHARDS) {
            shard.known.retain(|_, timeline| std::mem::take(&mut timeline.is_used));
        }
        let posts = newest.iter().rev().copied().collect();
        shard.known.insert(author, Timeline { posts, is_whole, is_used: true });
    }

    pub(super) fn posted(&self, author: Key, post: Version) {
        let mut shard = self.shard(author).lock();
        shard.changes += 1;
        let Some(timeline) = shard.known.get_mut(&author) else { return };
        // Below what is kept there may be others that are not.
        let is_within = timeline.is_whole || timeline.posts.first().is_some_and(|oldest| *oldest < post);
        if let Err(at) = timeline.posts.binary_search(&post)
            && is_within
        {
            timeline.posts.insert(at, post);
        }
        if timeline.posts.len() > KEPT_MAX {
            timeline.posts.drain(..KEPT_MAX / 2);
            timeline.is_whole = false;
        }
    }

    pub(super) fn deleted(&self, author: Key, post: Version) {
        let mut shard = self.shard(author).lock();
        shard.changes += 1;
        if let Some(timeline) = shard.known.get_mut(&author)
            && let Ok(at) = timeline.posts.binary_search(&post)
        {
            timeline.posts.remove(at);
        }
    }

    /// Forgets one author, or all.
    pub(super) fn forget(&self, author: Option<Key>) {
        let forget = |shard: &Mutex<Shard>| {
            let mut shard = shard.lock();
            shard.changes += 1;
            match author {
                Some(author) => drop(shard.known.remove(&author)),
                None => shard.known.clear(),
            }
        };
        match author {
            Some(author) => forget(self.shard(author)),
            None => self.shards.iter().for_each(forget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHOR: Key = Key(7);

    fn versions(bits: impl IntoIterator<Item = u64>) -> Vec<Version> {
        bits.into_iter().map(Version::from_bits).collect()
    }

    fn below(timelines: &Timelines, below: u64, limit: usize) -> Option<(Vec<u64>, bool)> {
        let stretch = timelines.below(AUTHOR, Version::from_bits(below), limit)?;
        Some((stretch.posts.iter().map(|post| post.bits()).collect(), stretch.is_end))
    }

    #[test]
    fn knows_only_what_it_was_told() {
        let timelines = Timelines::new(100);
        assert_eq!(below(&timelines, 99, 5), None);
        timelines.keep(AUTHOR, timelines.ask(AUTHOR), &versions([30, 20, 10]), false);
        assert_eq!(below(&timelines, 99, 2), Some((vec![30, 20], false)));
        assert_eq!(below(&timelines, 20, 2), Some((vec![10], false)));
        assert_eq!(below(&timelines, 10, 2), None);
        timelines.posted(AUTHOR, Version::from_bits(40));
        timelines.posted(AUTHOR, Version::from_bits(5));
        timelines.deleted(AUTHOR, Version::from_bits(20));
        assert_eq!(below(&timelines, 99, 9), Some((vec![40, 30, 10], false)));
    }

    #[test]
    fn the_end_is_known_where_all_was_kept() {
        let timelines = Timelines::new(100);
        timelines.keep(AUTHOR, timelines.ask(AUTHOR), &versions([30, 20]), true);
        assert_eq!(below(&timelines, 99, 1), Some((vec![30], false)));
        assert_eq!(below(&timelines, 99, 2), Some((vec![30, 20], true)));
        assert_eq!(below(&timelines, 20, 2), Some((vec![], true)));
        timelines.posted(AUTHOR, Version::from_bits(1));
        assert_eq!(below(&timelines, 20, 2), Some((vec![1], true)));
    }

    #[test]
    fn what_was_read_before_a_post_is_not_kept_after_it() {
        let timelines = Timelines::new(100);
        let asked = timelines.ask(AUTHOR);
        timelines.posted(AUTHOR, Version::from_bits(30));
        timelines.keep(AUTHOR, asked, &versions([20]), true);
        assert_eq!(below(&timelines, 99, 5), None);
    }

    #[test]
    fn long_ones_lose_their_oldest() {
        let timelines = Timelines::new(100);
        timelines.keep(AUTHOR, timelines.ask(AUTHOR), &[], true);
        (1..=1_000).for_each(|bits| timelines.posted(AUTHOR, Version::from_bits(bits)));
        let (posts, is_end) = below(&timelines, 5_000, 1_000).unwrap();
        assert!(posts.len() >= KEPT_MAX / 2 && posts.len() <= KEPT_MAX && !is_end);
        assert!(posts.iter().copied().eq((1..=1_000).rev().take(posts.len())));
    }
}
