//! Inboxes of readers, as small as they can be: a post is delivered to whom the author's derived list shows, and an
//! author is pulled by reads until that list is sure to show the reader. No post may be missed for good.

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

use entourage_model::{EventBody, EventPosition, Key, Kind, Lineage, List, Place, Sequence, State, Version, Watermark};
use parking_lot::Mutex;

use super::chronicle::Chronicle;
use crate::{
    Covered, Whose,
    backends::partitioned::{bug::Bug, engine::Engine, pace::Step},
};

/// Of followers, in one go.
const PAGE: usize = 2;

#[derive(Clone, Copy)]
struct Post {
    author: Key,
    /// Which person of that id it is by.
    created: Version,
    step: u64,
    is_delivered: bool,
}

#[derive(Clone)]
struct Inbox {
    /// How far the events of the reader's home are taken in.
    at: EventPosition,
    /// Delivered, or filled in from the author's timeline.
    posts: BTreeSet<usize>,
    /// Authors whose list may not show the reader, each with the watermark of the follow.
    named: BTreeMap<Key, Watermark>,
}

#[derive(Default)]
pub(super) struct Feed {
    posts: Vec<Post>,
    inboxes: BTreeMap<Key, Inbox>,
}

impl Feed {
    pub(super) fn publish(&mut self, author: Key, engine: &Engine, step: u64) {
        if let Some(user) = engine.user(author) {
            self.posts.push(Post { author, created: user.created, step, is_delivered: false });
        }
    }

    /// Posts that are not delivered to all.
    pub(super) fn waiting(&self) -> Vec<usize> {
        (0..self.posts.len()).filter(|post| !self.posts[*post].is_delivered).collect()
    }

    fn deliver(&mut self, post: usize, readers: impl Iterator<Item = Key>) {
        for reader in readers {
            if let Some(inbox) = self.inboxes.get_mut(&reader) {
                inbox.posts.insert(post);
            }
        }
    }

    fn posts_of(&self, author: Key) -> impl Iterator<Item = usize> {
        (0..self.posts.len()).filter(move |post| self.posts[*post].author == author)
    }

    /// What a reader finds, who must have every post since the follow began.
    pub(super) fn read(&mut self, reader: Key, engine: &Engine, chronicle: &Chronicle) -> Result<(), String> {
        let mut inbox = self.taken_in(reader, engine);
        let pulled = inbox.named.keys().flat_map(|author| self.posts_of(*author));
        let found: BTreeSet<usize> = inbox.posts.iter().copied().chain(pulled).collect();
        for (author, watermark) in inbox.named.clone() {
            if !engine.has(Bug::FeedHole) && engine.covers(&watermark, Whose::Of(&[author])) != Covered::Yes {
                continue;
            }
            // In this order: what is published before the answer is filled in, what comes after it is delivered.
            inbox.posts.extend(self.posts_of(author));
            inbox.named.remove(&author);
        }
        self.inboxes.insert(reader, inbox);
        let misses = |post: &usize| {
            let Post { author, created, step, is_delivered } = self.posts[*post];
            let since = follows_since(reader, author, created, engine, chronicle);
            is_delivered && !found.contains(post) && since.is_some_and(|since| since < step)
        };
        match (0..self.posts.len()).find(misses) {
            Some(post) => {
                let Post { author, step, .. } = self.posts[post];
                Err(format!("{reader}, who follows {author}, has missed the post of step {step} for good"))
            }
            None => Ok(()),
        }
    }

    /// The inbox with the events of its reader up to now; a new one where there is none, or where a home went back.
    fn taken_in(&self, reader: Key, engine: &Engine) -> Inbox {
        let known = self.inboxes.get(&reader).filter(|inbox| inbox.at.lineage == engine.lineage()).cloned();
        let events = known.as_ref().and_then(|inbox| engine.read_events(inbox.at, usize::MAX).ok());
        let (Some(mut inbox), Some(events)) = (known, events) else { return self.filled(reader, engine) };
        for event in events {
            inbox.at.offset = event.sequence;
            let EventBody::Edge { kind: Kind::Follow, follower, target, before, after, .. } = event.body else {
                continue;
            };
            match (before, after) {
                _ if follower != reader => {}
                (Some(State::Active), Some(State::Active)) => {}
                (_, Some(State::Active)) => {
                    inbox.named.insert(target, watermark(inbox.at, engine));
                }
                _ => {
                    inbox.named.remove(&target);
                }
            }
        }
        inbox
    }

    /// A new inbox has all there is, and names everybody who is followed.
    fn filled(&self, reader: Key, engine: &Engine) -> Inbox {
        let (lineage, partition) = (engine.lineage(), engine.home_of(reader) as u16);
        let home = engine.home(reader).lock();
        let at = EventPosition { lineage, partition, offset: home.last() };
        let follows = home.out.scan(List::following(reader), None, usize::MAX - 1).edges;
        drop(home);
        let named = follows.iter().map(|edge| (edge.target, watermark(at, engine))).collect::<BTreeMap<_, _>>();
        let posts = named.keys().flat_map(|author| self.posts_of(*author)).collect();
        Inbox { at, posts, named }
    }

    pub(super) fn settled(&mut self, people: i64, engine: &Engine, chronicle: &Chronicle) -> Result<(), String> {
        (0..people).try_for_each(|reader| self.read(Key(reader), engine, chronicle))
    }
}

fn watermark(at: EventPosition, engine: &Engine) -> Watermark {
    let offset = |home| if home == usize::from(at.partition) { at.offset } else { Sequence::ZERO };
    Watermark::new(Lineage(at.lineage.0), (0..engine.homes.len()).map(offset))
}

/// Since which step a reader follows this person.
fn follows_since(reader: Key, author: Key, created: Version, engine: &Engine, chronicle: &Chronicle) -> Option<u64> {
    let link = (Kind::Follow, reader, author);
    let is_there = engine.user(reader).is_some() && engine.user(author).is_some_and(|user| user.created == created);
    let mut since = None;
    for noted in chronicle.log(engine.home_of(reader)) {
        let EventBody::Edge { kind, follower, target, before, after, .. } = noted.event.body else { continue };
        if (kind, follower, target) == link {
            since = match after {
                Some(State::Active) if before == Some(State::Active) => since,
                Some(State::Active) if noted.means == Some(created) => Some(noted.step),
                _ => None,
            };
        }
    }
    since.filter(|_| is_there)
}

/// Delivers a post to the followers of its author, as the derived list has them.
pub(super) async fn fan_out(engine: Arc<Engine>, feed: Arc<Mutex<Feed>>, post: usize) {
    let list = List::followers(feed.lock().posts[post].author);
    let mut after = None;
    loop {
        engine.pace.pause(Step::Read).await;
        let page = engine.page(list, after, PAGE, false);
        engine.pace.pause(Step::Apply).await;
        feed.lock().deliver(post, page.edges.iter().map(|edge| edge.follower));
        after = page.edges.last().map(|edge| Place { position: edge.value.position, key: edge.follower });
        if !page.more {
            break;
        }
    }
    feed.lock().posts[post].is_delivered = true;
}
