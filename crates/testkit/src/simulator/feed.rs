//! Minimal inboxes: a post is delivered to the author's derived list of followers, once that surely shows everybody who
//! followed before. No post may be missed for good.

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc};

use entourage_model::{EventBody, EventPosition, Key, Kind, List, Place, State, Version, Watermark};
use parking_lot::Mutex;

use super::chronicle::Chronicle;
use entourage_memory::partitioned::{bug::Bug, engine::Engine, pace::Step};
use entourage_store::{Covered, Whose};

/// Chunk of followers.
const PAGE: usize = 2;

#[derive(Clone)]
struct Post {
    author: Key,
    /// Which person of that id it is by.
    created: Version,
    step: u64,
    /// Everybody who followed up to here must get it.
    up_to: Option<Watermark>,
    is_delivered: bool,
}

#[derive(Clone)]
struct Inbox {
    /// How far the events of the reader's home were applied.
    at: EventPosition,
    /// Delivered, or filled in from the author's timeline.
    posts: BTreeSet<usize>,
    /// Whom the reader has followed since the last read.
    named: BTreeSet<Key>,
}

#[derive(Default)]
pub(super) struct Feed {
    posts: Vec<Post>,
    inboxes: BTreeMap<Key, Inbox>,
}

impl Feed {
    pub(super) fn publish(&mut self, author: Key, engine: &Engine, step: u64) {
        if let Some(user) = engine.user(author) {
            self.posts.push(Post { author, created: user.created, step, up_to: None, is_delivered: false });
        }
    }

    /// Posts that are not delivered to everybody.
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

    /// What a reader finds: it must include every post since the follow began.
    pub(super) fn read(&mut self, reader: Key, engine: &Engine, chronicle: &Chronicle) -> Result<(), String> {
        let mut inbox = self.taken_in(reader, engine);
        for author in std::mem::take(&mut inbox.named) {
            inbox.posts.extend(self.posts_of(author));
        }
        let found = inbox.posts.clone();
        self.inboxes.insert(reader, inbox);
        let misses = |post: &usize| {
            let Post { author, created, step, is_delivered, .. } = self.posts[*post];
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

    /// The inbox with the events of its reader applied; a new one where there is none, or where events were lost.
    fn taken_in(&self, reader: Key, engine: &Engine) -> Inbox {
        let known = self.inboxes.get(&reader).cloned();
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
                    inbox.named.insert(target);
                }
                _ => {
                    inbox.named.remove(&target);
                }
            }
        }
        inbox
    }

    /// A new inbox has everything.
    fn filled(&self, reader: Key, engine: &Engine) -> Inbox {
        let (lineage, partition) = (engine.lineage(), engine.home_of(reader) as u16);
        let home = engine.home(reader).lock();
        let at = EventPosition { lineage, partition, offset: home.last() };
        let follows = home.out.scan(List::following(reader), None, usize::MAX - 1).edges;
        drop(home);
        let posts = follows.iter().flat_map(|edge| self.posts_of(edge.target)).collect();
        Inbox { at, posts, named: BTreeSet::new() }
    }

    pub(super) fn settled(&mut self, people: i64, engine: &Engine, chronicle: &Chronicle) -> Result<(), String> {
        (0..people).try_for_each(|reader| self.read(Key(reader), engine, chronicle))
    }
}

/// A reader that has seen this has seen everything acked before.
fn newest(engine: &Engine) -> Watermark {
    let lineage = engine.lineage();
    Watermark::new(lineage, engine.homes.iter().map(|home| home.lock().last()))
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

/// Delivers a post to the author's followers in the derived list, if that has settled: before and after it is read, for
/// a home may go back in between.
pub(super) async fn fan_out(engine: Arc<Engine>, feed: Arc<Mutex<Feed>>, post: usize) {
    let (author, up_to) = {
        let Post { author, up_to, .. } = &mut feed.lock().posts[post];
        (*author, up_to.get_or_insert_with(|| newest(&engine)).clone())
    };
    let (list, mut after) = (List::followers(author), None);
    loop {
        if !has_settled(&engine, &feed, post, author, &up_to) {
            return;
        }
        engine.pace.pause(Step::Read).await;
        let page = engine.page(list, after, PAGE, false);
        engine.pace.pause(Step::Apply).await;
        feed.lock().deliver(post, page.edges.iter().map(|edge| edge.follower));
        after = page.edges.last().map(|edge| Place { position: edge.value.position, key: edge.follower });
        if !page.more {
            break;
        }
    }
    let is_delivered = has_settled(&engine, &feed, post, author, &up_to);
    feed.lock().posts[post].is_delivered = is_delivered;
}

fn has_settled(engine: &Engine, feed: &Mutex<Feed>, post: usize, author: Key, up_to: &Watermark) -> bool {
    let covered = engine.covers(up_to, Whose::Of(&[author]));
    if covered == Covered::OtherLineage {
        // A lost one is never covered: take a new one.
        feed.lock().posts[post].up_to = None;
    }
    covered == Covered::Yes || engine.has(Bug::FeedHole)
}
