//! Posts on their way into inboxes: by author, in lanes by the author's size, so that small ones never wait behind
//! large ones. What is here is part of every feed it belongs to, delivered or not. A read looks at the authors it is
//! about and at no others.

use std::collections::{BTreeSet, HashMap, VecDeque};

use entourage_model::{Key, Millis, Place, Sequence, Version, Watermark};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Entry;

/// How many posts wait at most. What is posted beyond that is pulled.
const POSTS_MAX: usize = 50_000;
/// How many finished posts are remembered.
const FINISHED_MAX: usize = 65_536;

/// Authors of about the same number of followers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Small,
    Medium,
    Large,
}

impl Lane {
    pub(super) const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    pub(super) const fn of(followers: u64) -> Self {
        match followers {
            0..=1_000 => Self::Small,
            1_001..=10_000 => Self::Medium,
            _ => Self::Large,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// Posts of one author that go the same way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) author: Key,
    pub(super) posts: Vec<Version>,
    /// Followers down to here have them.
    pub(super) after: Option<Place>,
    /// Those who followed up to here are to have them, and may not be in the list of followers yet.
    pub(super) up_to: Option<Watermark>,
}

#[derive(Debug)]
struct Author {
    lane: Lane,
    waiting: BTreeSet<Version>,
    running: BTreeSet<Version>,
    /// What was begun: the first delivery goes on with it.
    begun: Option<Begun>,
}

/// A delivery that was interrupted, or that waits for followers to settle.
#[derive(Debug)]
struct Begun {
    posts: Vec<Version>,
    after: Option<Place>,
    up_to: Option<Watermark>,
}

#[derive(Debug, Default)]
struct State {
    authors: HashMap<Key, Author>,
    lanes: [VecDeque<Key>; 3],
    posts: usize,
    /// Where the log tells of each post that is on its way: after this event. Those that a mark remembers have none.
    told_after: HashMap<Version, Sequence>,
    finished: HashMap<Version, Millis>,
    finished_in_order: VecDeque<Version>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: [Notify; 3],
}

impl State {
    fn has(&self, author: Key, post: Version) -> bool {
        let on_its_way = |author: &Author| author.waiting.contains(&post) || author.running.contains(&post);
        self.finished.contains_key(&post) || self.authors.get(&author).is_some_and(on_its_way)
    }
}

impl Queue {
    /// A post that is to be delivered, of which the log tells after `told_after`; whether it is new here.
    pub(super) fn put(&self, author: Key, post: Version, followers: u64, told_after: Option<Sequence>) -> bool {
        let mut state = self.state.lock();
        if state.has(author, post) {
            return false;
        }
        if let Some(sequence) = told_after {
            state.told_after.insert(post, sequence);
        }
        let lane = Lane::of(followers);
        state.posts += 1;
        let is_queued = state.authors.contains_key(&author);
        let known = state.authors.entry(author).or_insert_with(|| Author {
            lane,
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            begun: None,
        });
        known.waiting.insert(post);
        let lane = known.lane;
        if !is_queued {
            state.lanes[lane as usize].push_back(author);
        }
        drop(state);
        self.wake[lane as usize].notify_one();
        true
    }

    /// A delivery that a stop interrupted goes on where it was.
    pub(super) fn resume(&self, delivery: Delivery, followers: u64) {
        let Delivery { author, posts, after, up_to } = delivery;
        let posts: Vec<Version> = posts.into_iter().filter(|post| self.put(author, *post, followers, None)).collect();
        if posts.is_empty() {
            return;
        }
        if let Some(known) = self.state.lock().authors.get_mut(&author) {
            known.begun = Some(Begun { posts, after, up_to });
        }
    }

    /// Its followers have not settled: again later, behind the others, and what was posted meanwhile after it.
    pub(super) fn postpone(&self, delivery: Delivery) {
        let Delivery { author, posts, after, up_to } = delivery;
        if let Some(known) = self.state.lock().authors.get_mut(&author) {
            known.begun = Some(Begun { posts, after, up_to });
        }
        self.put_back(author);
    }

    pub(super) fn take(&self, lane: Lane) -> Option<Delivery> {
        let mut state = self.state.lock();
        let author = state.lanes[lane as usize].pop_front()?;
        let known = state.authors.get_mut(&author)?;
        let Begun { posts, after, up_to } = match known.begun.take() {
            Some(begun) => {
                known.waiting.retain(|post| !begun.posts.contains(post));
                begun
            }
            None => {
                let posts = std::mem::take(&mut known.waiting).into_iter().collect();
                Begun { posts, after: None, up_to: None }
            }
        };
        known.running = posts.iter().copied().collect();
        Some(Delivery { author, posts, after, up_to })
    }

    /// Every follower has them; what came meanwhile is next.
    pub(super) fn finish(&self, author: Key, now: Millis) {
        let mut state = self.state.lock();
        let Some(mut known) = state.authors.remove(&author) else { return };
        state.posts = state.posts.saturating_sub(known.running.len());
        for post in std::mem::take(&mut known.running) {
            state.told_after.remove(&post);
            state.finished.insert(post, now);
            state.finished_in_order.push_back(post);
        }
        while state.finished_in_order.len() > FINISHED_MAX {
            if let Some(oldest) = state.finished_in_order.pop_front() {
                state.finished.remove(&oldest);
            }
        }
        state.requeue(author, known);
    }

    /// The store would not answer: again from the beginning, behind the others.
    pub(super) fn put_back(&self, author: Key) {
        let mut state = self.state.lock();
        let Some(mut known) = state.authors.remove(&author) else { return };
        known.waiting.append(&mut known.running);
        state.requeue(author, known);
    }

    pub(super) async fn woken(&self, lane: Lane) {
        self.wake[lane as usize].notified().await;
    }

    /// The authors whose posts are on their way, unless they are more than `max`.
    pub(super) fn authors(&self, max: usize) -> Option<Vec<Key>> {
        let state = self.state.lock();
        (state.authors.len() <= max).then(|| state.authors.keys().copied().collect())
    }

    pub(super) fn has_posts_of(&self, author: Key) -> bool {
        self.state.lock().authors.contains_key(&author)
    }

    /// The posts of these authors below an id that are not known to have arrived.
    pub(super) fn posts_of(&self, authors: &[Key], below: Version) -> Vec<Entry> {
        let state = self.state.lock();
        let known = authors.iter().filter_map(|author| Some((*author, state.authors.get(author)?)));
        let posts = known.flat_map(|(author, known)| {
            let posts = known.running.range(..below).chain(known.waiting.range(..below));
            posts.map(move |post| Entry { post: *post, author })
        });
        posts.collect()
    }

    /// Every post that the log tells of up to here has arrived; `None` when all have.
    pub(super) fn arrived_to(&self) -> Option<Sequence> {
        self.state.lock().told_after.values().min().copied()
    }

    /// Backpressure: even posts that are to be pushed wait in the log.
    pub(super) fn is_full(&self) -> bool {
        self.state.lock().posts >= 2 * POSTS_MAX
    }

    /// More wait than should.
    pub(super) fn is_behind(&self) -> bool {
        self.state.lock().posts >= POSTS_MAX
    }

    /// How many authors' deliveries come before this post's; `None` when it does not wait.
    pub(super) fn behind(&self, author: Key, post: Version) -> Option<u64> {
        let state = self.state.lock();
        let known = state.authors.get(&author)?;
        if known.running.contains(&post) {
            return Some(0);
        }
        known.waiting.contains(&post).then(|| {
            let lane = &state.lanes[known.lane as usize];
            lane.iter().position(|queued| *queued == author).unwrap_or(0) as u64
        })
    }

    /// When the last follower had it, if that was lately.
    pub(super) fn finished_at(&self, post: Version) -> Option<Millis> {
        self.state.lock().finished.get(&post).copied()
    }

    /// How many posts wait in each lane, and the oldest of them.
    pub(super) fn depth(&self, lane: Lane) -> (u64, Option<Version>) {
        let state = self.state.lock();
        let authors = state.authors.values().filter(|author| author.lane == lane);
        let (mut count, mut oldest) = (0, None);
        for post in authors.flat_map(|author| author.running.iter().chain(&author.waiting)) {
            count += 1;
            oldest = Some(oldest.map_or(*post, |known: Version| known.min(*post)));
        }
        (count, oldest)
    }
}

impl State {
    fn requeue(&mut self, author: Key, known: Author) {
        if !known.waiting.is_empty() {
            self.lanes[known.lane as usize].push_back(author);
            self.authors.insert(author, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHOR: Key = Key(5);

    fn version(bits: u64) -> Version {
        Version::from_bits(bits)
    }

    fn posts(delivery: Option<Delivery>) -> Vec<u64> {
        delivery.into_iter().flat_map(|delivery| delivery.posts).map(Version::bits).collect()
    }

    fn waiting(queue: &Queue, authors: &[Key]) -> Vec<u64> {
        queue.posts_of(authors, Version::MAX).iter().map(|entry| entry.post.bits()).collect()
    }

    #[test]
    fn posts_are_found_by_their_author() {
        let queue = Queue::default();
        for number in 1..=30 {
            queue.put(Key(number % 3), version(number as u64), 10, None);
        }
        assert_eq!(waiting(&queue, &[Key(1)]), [1, 4, 7, 10, 13, 16, 19, 22, 25, 28]);
        let below = queue.posts_of(&[Key(2), Key(9)], version(8));
        assert_eq!(below, [2, 5].map(|post| Entry { post: version(post), author: Key(2) }));
        assert_eq!(queue.authors(2), None);
        assert_eq!(queue.authors(3).map(|authors| authors.len()), Some(3));
    }

    #[test]
    fn posts_of_one_author_travel_together_and_each_once() {
        let queue = Queue::default();
        assert!(queue.put(AUTHOR, version(1), 10, None) && queue.put(AUTHOR, version(2), 10, None));
        assert!(!queue.put(AUTHOR, version(2), 10, None));
        assert_eq!(posts(queue.take(Lane::Small)), [1, 2]);
        assert!(queue.put(AUTHOR, version(3), 10, None));
        assert_eq!(queue.take(Lane::Small), None, "one delivery of an author at a time");
        assert_eq!(waiting(&queue, &[AUTHOR]), [1, 2, 3]);
        queue.finish(AUTHOR, Millis::from_since_2000(9));
        assert_eq!(queue.finished_at(version(2)), Some(Millis::from_since_2000(9)));
        assert!(!queue.put(AUTHOR, version(1), 10, None), "what has arrived does not travel again");
        assert_eq!(posts(queue.take(Lane::Small)), [3]);
        queue.put_back(AUTHOR);
        assert_eq!(posts(queue.take(Lane::Small)), [3]);
        queue.finish(AUTHOR, Millis::default());
        assert!(!queue.has_posts_of(AUTHOR) && waiting(&queue, &[AUTHOR]).is_empty());
    }

    #[test]
    fn the_oldest_post_on_its_way_says_how_far_the_log_was_delivered() {
        let (queue, at) = (Queue::default(), |number| Some(Sequence(number)));
        assert_eq!(queue.arrived_to(), None);
        queue.put(Key(1), version(1), 10, at(7));
        queue.put(Key(2), version(2), 10, at(5));
        queue.put(Key(2), version(2), 10, at(9));
        queue.put(Key(3), version(3), 10, None);
        assert_eq!(queue.arrived_to(), at(5));
        // One after the other, as they came.
        assert_eq!([1, 2].map(|_| posts(queue.take(Lane::Small))), [[1], [2]]);
        queue.finish(Key(2), Millis::default());
        assert_eq!(queue.arrived_to(), at(7), "the other has arrived");
        queue.put_back(Key(1));
        assert_eq!(queue.arrived_to(), at(7));
        assert_eq!([1, 2].map(|_| posts(queue.take(Lane::Small))), [[3], [1]]);
        queue.finish(Key(1), Millis::default());
        assert_eq!(queue.arrived_to(), None, "what a mark remembers is not read again");
    }

    #[test]
    fn small_authors_have_a_lane_of_their_own() {
        let queue = Queue::default();
        queue.put(Key(1), version(1), 50_000, None);
        queue.put(Key(2), version(2), 5_000, None);
        queue.put(Key(3), version(3), 5, None);
        assert_eq!(Lane::ALL.map(|lane| posts(queue.take(lane))), [vec![3], vec![2], vec![1]]);
    }

    #[test]
    fn an_interrupted_delivery_goes_on_where_it_was() {
        let (queue, place) = (Queue::default(), Place { position: version(70), key: Key(8) });
        queue.resume(Delivery { author: AUTHOR, posts: vec![version(1)], after: Some(place), up_to: None }, 5_000);
        queue.put(AUTHOR, version(2), 5_000, None);
        let first = queue.take(Lane::Medium).unwrap();
        assert_eq!((first.posts, first.after), (vec![version(1)], Some(place)));
        queue.finish(AUTHOR, Millis::default());
        let second = queue.take(Lane::Medium).unwrap();
        assert_eq!((second.posts, second.after), (vec![version(2)], None));
    }
}
