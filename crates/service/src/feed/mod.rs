//! The feed: what each person should see because of whom they follow. Posts are truth; inboxes are caches of their
//! ids. A read merges inbox, pulled authors and what is still on its way, so that it is right at every moment, and
//! fan-out only makes it fast.

mod consume;
mod explain;
mod fanout;
mod inbox;
mod inboxes;
mod live;
mod merge;
mod post;
mod push_pull;
mod queue;
mod range;
mod read;
mod timelines;
mod upkeep;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use entourage_model::{Change, Kind, Outcome, Post, RecordChange, Result, Sequence, Space, State, UserId, Watermark};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

pub(crate) use self::post::check_body;
pub use self::{
    explain::{Because, Explained},
    inbox::Entry,
    inboxes::{Inboxes, Slice, Ticket},
    live::{FeedMessage, FeedStream},
    post::{NewPost, PostPage, PostView, PostWritten},
    push_pull::Pin,
    range::{FeedPost, FeedWindowed},
    read::{FeedPage, FeedRow},
    upkeep::{FeedStatus, LaneStatus},
};
use self::{inboxes::InMemory, live::Live, push_pull::Modes, queue::Queue, timelines::Timelines};
use crate::Context;

/// How many authors' newest posts are in memory.
const AUTHORS_KEPT: usize = 200_000;
/// For how long what is in memory counts without news of what others wrote.
const TRUSTED_FOR: Duration = Duration::from_secs(2);

/// What an operator can set about feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedRules {
    /// From this many followers on an author is pulled; back below nine tenths of it.
    pub celebrity_followers: u64,
    pub inbox_cap: usize,
    /// Who was not seen for so long has no inbox.
    pub active: Duration,
    /// Who follows more than these is pulled; `None` is nobody.
    pub pull_above_following: Option<u64>,
    pub own_posts: bool,
    /// What all inboxes together may take.
    pub inbox_budget_bytes: u64,
}

impl FeedRules {
    /// For a server that delivers nothing: whoever follows somebody is pulled.
    pub(crate) const fn pulled(self) -> Self {
        Self { pull_above_following: Some(0), ..self }
    }
}

impl Default for FeedRules {
    fn default() -> Self {
        Self {
            celebrity_followers: 100_000,
            inbox_cap: 1_000,
            active: Duration::from_secs(7 * 24 * 60 * 60),
            pull_above_following: Some(5_000),
            own_posts: true,
            inbox_budget_bytes: 1 << 30,
        }
    }
}

/// Posts, and the feeds that they are in.
pub struct Feeds {
    context: Arc<Context>,
    feed: Arc<Feed>,
}

impl Feeds {
    pub(crate) const fn new(context: Arc<Context>, feed: Arc<Feed>) -> Self {
        Self { context, feed }
    }

    /// Somebody asks for something: their inbox is kept.
    pub(crate) fn seen(&self, reader: &UserId) {
        self.feed.inboxes.seen(self.context.keys.key(reader), self.context.clock.now());
    }
}

/// All that is kept of feeds in this process.
pub(crate) struct Feed {
    inboxes: Arc<dyn Inboxes>,
    timelines: Timelines,
    modes: Modes,
    queue: Queue,
    live: Live,
    /// There is a post to look for in the log.
    posted: Notify,
    /// Where in the log the first post is that was written here and not read there yet.
    unread: Mutex<Option<Sequence>>,
    /// Whether somebody means to read the log.
    is_running: watch::Sender<bool>,
    /// Whether the log is read: what is written from then on is told.
    is_reading: watch::Sender<bool>,
    /// When everything was known here that others wrote; `None` while nobody reads the log.
    caught_up: Mutex<Option<Instant>>,
    /// Everything up to this watermark is known here; `None` while nobody reads the log.
    covered: watch::Sender<Option<Watermark>>,
    /// Whether nobody but this process writes the store: then every commit passes here.
    is_alone: bool,
    /// Whether posts are delivered to inboxes here.
    delivers: bool,
    /// How many posts from files were heard of, and up to which of them no inbox is left that may lack one.
    imported: AtomicU64,
    cleared: AtomicU64,
}

impl Feed {
    pub(crate) fn new(rules: FeedRules, is_alone: bool, delivers: bool) -> Self {
        Self {
            inboxes: Arc::new(InMemory::new(rules.inbox_cap, rules.inbox_budget_bytes)),
            timelines: Timelines::new(AUTHORS_KEPT),
            modes: Modes::default(),
            queue: Queue::default(),
            live: Live::default(),
            posted: Notify::new(),
            unread: Mutex::new(None),
            is_running: watch::Sender::new(false),
            is_reading: watch::Sender::new(false),
            caught_up: Mutex::new(None),
            covered: watch::Sender::new(None),
            is_alone,
            delivers,
            imported: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
        }
    }

    /// A file brought a post. It is older than others that are there, perhaps above the floors of inboxes, and goes into none:
    /// inboxes are made anew instead.
    fn was_imported(&self) {
        self.imported.fetch_add(1, Ordering::SeqCst);
    }

    /// Before anything is read out of inboxes.
    async fn clear_after_imports(&self) -> Result<()> {
        let imported = self.imported.load(Ordering::SeqCst);
        if self.cleared.load(Ordering::SeqCst) < imported {
            self.inboxes.clear(None).await?;
            self.cleared.fetch_max(imported, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Others write, and what they wrote has not been heard of for too long.
    fn is_behind_the_log(&self) -> bool {
        !self.is_alone && self.caught_up.lock().is_some_and(|caught_up| caught_up.elapsed() > TRUSTED_FOR)
    }

    /// With inboxes that are kept elsewhere.
    pub(crate) fn keeping(self, inboxes: Arc<dyn Inboxes>) -> Self {
        Self { inboxes, ..self }
    }

    /// Called with every outcome of this process before its caller has it. `audience` is how many followers the author of
    /// a post has, where somebody has counted them.
    pub(crate) fn saw(&self, outcome: &Outcome, audience: Option<u64>) {
        for change in &outcome.changes {
            match change {
                Change::Edge(edge) => {
                    let is_active = |state: State| edge.kind == Kind::Follow && state == State::Active;
                    if is_active(edge.after.state) && !edge.before.is_some_and(|before| is_active(before.state)) {
                        self.inboxes.follows(edge.follower, edge.target);
                    }
                }
                Change::Record(record) if record.space == Space::Post => self.saw_post(outcome, record, audience),
                Change::Record(record) if record.space == Space::Fanout && record.after.is_none() => {
                    if let Some(author) = record.id.key() {
                        self.modes.set(author, outcome.version, None);
                    }
                }
                Change::User(user) if user.after.is_none() => self.timelines.forget(Some(user.key)),
                Change::Record(_) | Change::User(_) => {}
            }
        }
    }

    fn saw_post(&self, outcome: &Outcome, record: &RecordChange, audience: Option<u64>) {
        let Some(post) = record.id.version() else { return };
        match (&record.before, &record.after) {
            (None, Some(value)) if Post::is_imported(value) => {
                self.timelines.posted(record.owner, post);
                self.was_imported();
            }
            (None, Some(value)) => {
                self.timelines.posted(record.owner, post);
                let before = Sequence(outcome.watermark.sequence().0.saturating_sub(outcome.changes.len() as u64));
                if self.delivers && Post::decode(value).is_ok_and(|post| post.pushed) {
                    // An author without a count is taken for a large one: no small one waits behind it.
                    let followers = audience.unwrap_or(u64::MAX);
                    self.queue.put(record.owner, post, followers, self.is_alone.then_some(before));
                }
                let mut unread = self.unread.lock();
                *unread = Some(unread.map_or(before, |unread| unread.min(before)));
                drop(unread);
                self.posted.notify_one();
            }
            (_, None) => self.timelines.deleted(record.owner, post),
            (Some(_), Some(_)) => {}
        }
    }
}
