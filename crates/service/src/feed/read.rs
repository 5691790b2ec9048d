//! Reading a feed: inbox and pulled authors merged, judged by the edges of now, with posts and authors looked up in one
//! go; below the floor from the store, without a seam.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use entourage_model::{
    Cursor, CursorScope, Key, Kind, List, Place, Plane, Record, RecordId, Result, Selection, Side, Space, State, User,
    UserId, Version,
};
use entourage_store::{StoreExt as _, Whose};

use super::{Entry, merge::Merge};
use crate::{
    Call, Feeds, Limit, PostView,
    graph::group::{group_not_found, group_record},
    ids::user_not_found,
};

/// How many rows of a list one look at the store takes.
const CHUNK: usize = 1_000;
/// More authors than these are not asked for one page; it is a partial one then.
const AUTHORS_MAX: usize = 20_000;
/// How long one page takes at most before it is a partial one.
pub(super) const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How many entries of an inbox are read at first.
const HEAD: usize = 64;
/// Up to this many authors are checked one by one, also for a reader who follows fewer.
const FEW: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedRow {
    pub post: PostView,
    pub name: Option<Box<str>>,
    pub avatar_url: Option<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedPage {
    pub rows: Vec<FeedRow>,
    pub next_cursor: Option<String>,
    /// Not everything could be looked at in time; asking again goes further.
    pub is_partial: bool,
}

/// What a walk brought.
pub(super) struct FeedRows {
    pub(super) rows: Vec<FeedRow>,
    pub(super) is_partial: bool,
    /// Time was up; below this nothing was looked at.
    went_on_from: Option<Version>,
}

/// Why an author's posts are in a reader's feed, or are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Shown,
    NotFollowed,
    /// Followed quietly since before the account went private: a stranger to it.
    ShutOut,
    Blocked,
    Muted,
}

/// Whose posts a page is made of.
#[derive(Clone, Debug)]
pub(super) enum Circle {
    Everybody,
    /// The followed ones among these.
    Members(HashSet<Key>),
}

impl Feeds {
    /// What a user sees because of whom they follow, newest first. Their own to know.
    pub async fn feed(&self, call: &Call, id: &UserId, cursor: Option<&str>, limit: Limit) -> Result<FeedPage> {
        let reader = self.reader(call, id).await?;
        let scope = self.feed_scope(call, &reader, Selection::Feed).await?;
        self.feed_page(&reader, &Circle::Everybody, &scope, cursor, limit).await
    }

    /// The same of those whom the user put into a group.
    pub async fn group_feed(
        &self,
        call: &Call,
        id: &UserId,
        group: Version,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<FeedPage> {
        let reader = self.reader(call, id).await?;
        group_record(&*self.context.store, reader.key, group).await?.ok_or_else(group_not_found)?;
        let scope = self.feed_scope(call, &reader, Selection::GroupFeed(group)).await?;
        let members = self.member_keys(reader.key, group).await?;
        self.feed_page(&reader, &Circle::Members(members), &scope, cursor, limit).await
    }

    /// Every read of a feed begins here.
    pub(super) async fn reader(&self, call: &Call, id: &UserId) -> Result<User> {
        call.may_change(id)?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        self.catch_up_feed(call).await?;
        self.load_modes().await?;
        if self.context.rules.auto_create {
            let key = self.context.own_keys(&[id]).await?.into_iter().flatten().next().ok_or_else(user_not_found)?;
            self.context.create_missing(key, id).await?;
        }
        self.context.stored_user(id).await
    }

    async fn feed_scope(&self, call: &Call, reader: &User, selection: Selection) -> Result<CursorScope> {
        let viewer = self.context.viewer(call).await?;
        Ok(CursorScope { list: List::following(reader.key), selection, viewer })
    }

    async fn feed_page(
        &self,
        reader: &User,
        circle: &Circle,
        scope: &CursorScope,
        cursor: Option<&str>,
        limit: Limit,
    ) -> Result<FeedPage> {
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, scope)).transpose()?;
        let below = after.map_or(Version::MAX, |Cursor(place)| place.position);
        let FeedRows { mut rows, is_partial, went_on_from } =
            self.feed_rows(reader.key, circle, below, limit.get() + 1).await?;
        let has_more = rows.len() > limit.get();
        rows.truncate(limit.get());
        let last = rows.last().filter(|_| has_more).map(|row| row.post.id).or(went_on_from);
        let place = |position| Place { position, key: Key(0) };
        let next_cursor = last.map(|last| Cursor(place(last)).encode(&self.context.sealer, scope));
        Ok(FeedPage { rows, next_cursor, is_partial })
    }

    /// At most `wanted` rows below an id.
    pub(super) async fn feed_rows(
        &self,
        reader: Key,
        circle: &Circle,
        below: Version,
        wanted: usize,
    ) -> Result<FeedRows> {
        let began = Instant::now();
        let mut walk = self.walk(reader, circle, below, began + PAGE_TIMEOUT).await?;
        let rows = self.walk_rows(&mut walk, wanted).await?;
        metrics::histogram!("entourage_feed_page_seconds").record(began.elapsed().as_secs_f64());
        Ok(FeedRows { rows, is_partial: walk.merge.is_partial, went_on_from: walk.went_on_from })
    }

    /// The next `wanted` rows; fewer are all there are, or all there was time for.
    pub(super) async fn walk_rows(&self, walk: &mut Walk, wanted: usize) -> Result<Vec<FeedRow>> {
        let mut rows = Vec::new();
        while rows.len() < wanted {
            if Instant::now() >= walk.deadline {
                walk.merge.is_partial = true;
                walk.went_on_from = Some(walk.last);
                break;
            }
            let mut entries = Vec::new();
            while entries.len() < wanted - rows.len() {
                match self.step(walk).await? {
                    Some(entry) => entries.push(entry),
                    None => break,
                }
            }
            if entries.is_empty() {
                break;
            }
            self.judge(walk.reader, &entries, &mut walk.judged).await?;
            let verdict = |author: Key| walk.judged.get(&author).copied().unwrap_or(Verdict::NotFollowed);
            let hidden: Vec<Version> =
                entries.iter().filter(|entry| verdict(entry.author) == Verdict::NotFollowed).map(|e| e.post).collect();
            entries.retain(|entry| verdict(entry.author) == Verdict::Shown);
            let (found, gone) = self.hydrate(&entries).await?;
            rows.extend(found);
            self.clean_up(walk, &hidden, &gone).await?;
        }
        Ok(rows)
    }

    /// What will not be shown again leaves the inbox.
    async fn clean_up(&self, walk: &Walk, hidden: &[Version], gone: &[Version]) -> Result<()> {
        let Some(generation) = walk.generation else { return Ok(()) };
        // Where others write too, what is known of edges may be older than what is in the inbox.
        let hidden = if self.feed.is_alone { hidden } else { &[] };
        let posts: Vec<Version> = hidden.iter().chain(gone).copied().collect();
        if posts.is_empty() { Ok(()) } else { self.feed.inboxes.clean(walk.reader, generation, &posts).await }
    }

    /// Whether the reader follows each author, and nothing stands between them.
    pub(super) async fn judge(&self, reader: Key, entries: &[Entry], judged: &mut HashMap<Key, Verdict>) -> Result<()> {
        let mut authors: Vec<Key> = entries.iter().map(|entry| entry.author).collect();
        authors.retain(|author| !judged.contains_key(author));
        authors.sort_unstable();
        authors.dedup();
        if self.context.rules.feed.own_posts && authors.contains(&reader) {
            judged.insert(reader, Verdict::Shown);
            authors.retain(|author| *author != reader);
        }
        if authors.is_empty() {
            return Ok(());
        }
        let out: Vec<(Key, Key)> = authors.iter().map(|author| (reader, *author)).collect();
        let back: Vec<(Key, Key)> = authors.iter().map(|author| (*author, reader)).collect();
        let follows = self.context.are_active(Kind::Follow, &out).await?;
        let blocks = self.context.are_active(Kind::Block, &out).await?;
        let blocked = self.context.are_active(Kind::Block, &back).await?;
        let mutes = self.are_muted(&out).await?;
        let shut_out = self.are_shut_out(reader, &authors, &follows).await?;
        for (index, author) in authors.into_iter().enumerate() {
            let verdict = match () {
                () if blocks[index] || blocked[index] => Verdict::Blocked,
                () if !follows[index] => Verdict::NotFollowed,
                () if shut_out.contains(&author) => Verdict::ShutOut,
                () if mutes[index] => Verdict::Muted,
                () => Verdict::Shown,
            };
            judged.insert(author, verdict);
        }
        Ok(())
    }

    /// The private accounts that the reader follows quietly only: their posts are not for them.
    async fn are_shut_out(&self, reader: Key, authors: &[Key], follows: &[bool]) -> Result<HashSet<Key>> {
        let counts = self.context.store.get_counts(reader).await?;
        // Nearly everybody follows nobody quietly, and then nothing else is looked at.
        if counts.is_none_or(|counts| counts.following_quiet == 0) {
            return Ok(HashSet::new());
        }
        let followed: Vec<Key> = authors.iter().zip(follows).filter(|(_, is)| **is).map(|(key, _)| *key).collect();
        let users = self.context.users_by_key(&followed).await?;
        let private: Vec<(Key, Key)> =
            users.values().filter(|user| user.private).map(|user| (reader, user.key)).collect();
        let let_in = self.context.are_let_in(&private).await?;
        Ok(private.iter().zip(let_in).filter(|(_, let_in)| !let_in).map(|(pair, _)| pair.1).collect())
    }

    /// Leaves those out whose posts would not be shown: they may have very many.
    async fn keep_shown(&self, reader: Key, authors: &mut Vec<Key>) -> Result<()> {
        let entries: Vec<Entry> = authors.iter().map(|author| Entry { post: Version::ZERO, author: *author }).collect();
        let mut judged = HashMap::new();
        self.judge(reader, &entries, &mut judged).await?;
        authors.retain(|author| judged.get(author) == Some(&Verdict::Shown));
        Ok(())
    }

    /// Whether a mute stands that is not over.
    async fn are_muted(&self, pairs: &[(Key, Key)]) -> Result<Vec<bool>> {
        let mut muted = self.context.are_active(Kind::Mute, pairs).await?;
        let open: Vec<(Key, Key)> = pairs.iter().zip(&muted).filter(|(_, is)| **is).map(|(pair, _)| *pair).collect();
        if open.is_empty() {
            return Ok(muted);
        }
        let now = self.context.clock.now();
        let edges = self.context.store.get_edges(Kind::Mute, &open).await?;
        let stands =
            edges.into_iter().map(|edge| edge.is_some_and(|value| value.state == State::Active && !value.is_over(now)));
        for (slot, stands) in muted.iter_mut().filter(|is| **is).zip(stands) {
            *slot = stands;
        }
        Ok(muted)
    }

    /// Posts with their authors, and the ids of those that are no longer there.
    async fn hydrate(&self, entries: &[Entry]) -> Result<(Vec<FeedRow>, Vec<Version>)> {
        let found = self.feed_posts(entries).await?;
        let gone = entries.iter().zip(&found).filter(|(_, row)| row.is_none()).map(|(entry, _)| entry.post).collect();
        Ok((found.into_iter().flatten().collect(), gone))
    }

    /// The row of each entry; `None` where the post or its author is no longer there.
    pub(super) async fn feed_posts(&self, entries: &[Entry]) -> Result<Vec<Option<FeedRow>>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<(Key, RecordId)> =
            entries.iter().map(|entry| (entry.author, RecordId::of_version(entry.post))).collect();
        let mut keys: Vec<Key> = entries.iter().map(|entry| entry.author).collect();
        keys.sort_unstable();
        keys.dedup();
        let (posts, users) =
            tokio::try_join!(self.context.store.get_records(Space::Post, &ids), self.context.users_by_key(&keys))?;
        let row = |(entry, record): (&Entry, Option<Record>)| match (record, users.get(&entry.author)) {
            (Some(record), Some(user)) => row(&record, user).map(Some),
            _ => Ok(None),
        };
        entries.iter().zip(posts).map(row).collect()
    }

    /// Everybody in a group, followed or not.
    async fn member_keys(&self, owner: Key, group: Version) -> Result<HashSet<Key>> {
        let prefix = RecordId::member_prefix(&RecordId::of_version(group));
        let (mut members, mut after) = (HashSet::new(), prefix.clone());
        loop {
            let records = self.context.store.scan_records(Space::GroupMember, owner, Some(&after), CHUNK).await?;
            let own = records.iter().take_while(|record| record.id.as_bytes().starts_with(&prefix));
            let keys: Vec<(Key, &Record)> = own.filter_map(|record| Some((record.id.member()?.1, record))).collect();
            let users = self.context.users_by_key(&keys.iter().map(|(key, _)| *key).collect::<Vec<_>>()).await?;
            let is_same = |(key, record): &&(Key, &Record)| {
                users.get(key).is_some_and(|user| entourage_model::is_member(&record.value, user))
            };
            members.extend(keys.iter().filter(is_same).map(|(key, _)| *key));
            match records.last() {
                Some(last) if records.len() == CHUNK && keys.len() == CHUNK => after = last.id.as_bytes().into(),
                _ => return Ok(members),
            }
        }
    }
}

fn row(record: &Record, user: &User) -> Result<FeedRow> {
    let post = PostView::of(record, user.id.clone())?;
    Ok(FeedRow { post, name: user.name.clone(), avatar_url: user.avatar_url.clone() })
}

/// Where a read of a feed stands.
pub(super) struct Walk {
    reader: Key,
    merge: Merge,
    /// Above it inbox and pulled authors say everything; below it the store does.
    floor: Version,
    last: Version,
    deadline: Instant,
    /// Of the inbox that is read, if one is.
    generation: Option<u64>,
    /// Time was up; below this nothing was looked at.
    went_on_from: Option<Version>,
    /// What was found out about authors on the way.
    judged: HashMap<Key, Verdict>,
}

impl Walk {
    /// Not everybody's posts could be looked at in time.
    pub(super) const fn is_partial(&self) -> bool {
        self.merge.is_partial
    }
}

impl Feeds {
    pub(super) async fn walk(&self, reader: Key, circle: &Circle, below: Version, deadline: Instant) -> Result<Walk> {
        if self.feed.is_behind_the_log() {
            // Nothing that was derived from it counts.
            self.feed.timelines.forget(None);
            self.feed.inboxes.clear(None).await?;
        }
        self.feed.clear_after_imports().await?;
        let merge = Merge::new(below);
        let (floor, judged) = (Version::ZERO, HashMap::new());
        let (generation, went_on_from) = (None, None);
        let mut walk = Walk { reader, merge, floor, last: below, deadline, generation, judged, went_on_from };
        let following = self.context.store.get_counts(reader).await?.map_or(0, |counts| counts.following);
        let is_pulled = self.context.rules.feed.pull_above_following.is_some_and(|bound| following > bound);
        match circle {
            Circle::Members(members) => {
                let mut authors: Vec<Key> = members.iter().copied().collect();
                authors.sort_unstable();
                self.keep_shown(reader, &mut authors).await?;
                self.add_authors(&mut walk.merge, &authors, Some(deadline)).await?;
            }
            Circle::Everybody if is_pulled => {
                self.feed.inboxes.clear(Some(reader)).await?;
                self.pull_everybody(&mut walk).await?;
            }
            Circle::Everybody => self.open_inbox(&mut walk, following).await?,
        }
        Ok(walk)
    }

    /// The next entry of the feed, not yet judged.
    async fn step(&self, walk: &mut Walk) -> Result<Option<Entry>> {
        loop {
            match self.next_entry(&mut walk.merge, &mut walk.floor).await? {
                Some(entry) if entry.post > walk.floor => {
                    walk.last = entry.post;
                    return Ok(Some(entry));
                }
                _ if walk.floor == Version::ZERO => return Ok(None),
                _ => self.pull_everybody(walk).await?,
            }
        }
    }

    /// From here down the store answers.
    async fn pull_everybody(&self, walk: &mut Walk) -> Result<()> {
        let mut authors = Vec::new();
        let is_whole = self.followed(walk.reader, &mut authors).await?;
        self.keep_shown(walk.reader, &mut authors).await?;
        authors.extend(self.context.rules.feed.own_posts.then_some(walk.reader));
        let is_partial = walk.merge.is_partial || !is_whole;
        walk.merge = Merge::new(walk.last);
        walk.floor = Version::ZERO;
        self.add_authors(&mut walk.merge, &authors, Some(walk.deadline)).await?;
        walk.merge.is_partial |= is_partial;
        Ok(())
    }

    /// Everybody the reader follows; whether that is all of them.
    pub(super) async fn followed(&self, reader: Key, authors: &mut Vec<Key>) -> Result<bool> {
        let list = List::new(reader, Plane::Follow, Side::Following);
        let mut after = None;
        while authors.len() < AUTHORS_MAX {
            let page = self.context.store.scan(list, after, CHUNK).await?;
            authors.extend(page.edges.iter().map(|edge| edge.target));
            after = page.edges.last().map(|edge| list.place(edge));
            if !page.more || after.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn open_inbox(&self, walk: &mut Walk, following: u64) -> Result<()> {
        let (reader, now) = (walk.reader, self.context.clock.now());
        // Before the inbox: what leaves the queue after this look is in the inbox when that is read.
        let waiting = self.waiting_for(reader, following, walk.last).await?;
        let mut slice = self.feed.inboxes.read(reader, walk.last, HEAD).await?;
        if slice.is_none() {
            metrics::counter!("entourage_inboxes_rebuilt_total").increment(1);
            self.rebuild(reader, walk.deadline).await?;
            slice = self.feed.inboxes.read(reader, walk.last, HEAD).await?;
        }
        self.feed.inboxes.seen(reader, now);
        let Some(mut slice) = slice else {
            return self.pull_everybody(walk).await;
        };
        if !slice.followed.is_empty() {
            for followed in std::mem::take(&mut slice.followed) {
                self.fill_in(reader, followed, slice.floor).await?;
            }
            // It was taken away meanwhile: the store answers.
            let Some(again) = self.feed.inboxes.read(reader, walk.last, HEAD).await? else {
                return self.pull_everybody(walk).await;
            };
            slice = again;
        }
        walk.floor = slice.floor;
        walk.generation = Some(slice.generation);
        walk.merge.add_inbox(reader, slice.entries, slice.floor);
        let mut authors = self.pulled_of(reader).await?;
        self.keep_shown(reader, &mut authors).await?;
        authors.extend(self.context.rules.feed.own_posts.then_some(reader));
        self.add_authors(&mut walk.merge, &authors, Some(walk.deadline)).await?;
        walk.merge.add_entries(waiting);
        Ok(())
    }

    /// Posts on their way to the reader, who follows about `following`. What waits for others costs nothing.
    async fn waiting_for(&self, reader: Key, following: u64, below: Version) -> Result<Vec<Entry>> {
        let queue = &self.feed.queue;
        let few = queue.authors(FEW.max(following as usize));
        let authors = self.follows_in(reader, few, |author| queue.has_posts_of(author)).await?;
        Ok(queue.posts_of(&authors, below))
    }

    /// Those with pulled posts among whom the reader follows.
    pub(super) async fn pulled_of(&self, reader: Key) -> Result<Vec<Key>> {
        let modes = &self.feed.modes;
        self.follows_in(reader, modes.pulled(CHUNK), |author| modes.is_pulled(author)).await
    }

    /// Whom the reader follows of a set of authors, looked up from the shorter side: `few` is all of them where they are
    /// few, and `has` says whether somebody is one of them.
    async fn follows_in(&self, reader: Key, few: Option<Vec<Key>>, has: impl Fn(Key) -> bool) -> Result<Vec<Key>> {
        if let Some(authors) = few {
            return self.follows_among(reader, authors).await;
        }
        let mut authors = Vec::new();
        self.followed(reader, &mut authors).await?;
        authors.retain(|author| has(*author));
        Ok(authors)
    }

    async fn follows_among(&self, reader: Key, mut authors: Vec<Key>) -> Result<Vec<Key>> {
        if authors.is_empty() {
            return Ok(authors);
        }
        let pairs: Vec<(Key, Key)> = authors.iter().map(|author| (reader, *author)).collect();
        let mut follows = self.context.are_active(Kind::Follow, &pairs).await?.into_iter();
        authors.retain(|_| follows.next().unwrap_or_default());
        Ok(authors)
    }

    /// The posts of an author whom the reader follows since lately, down to the floor.
    async fn fill_in(&self, reader: Key, followed: (Key, u64), floor: Version) -> Result<()> {
        let (mut merge, mut none) = (Merge::new(Version::MAX), Version::ZERO);
        self.add_authors(&mut merge, &[followed.0], None).await?;
        let mut posts = Vec::new();
        while let Some(entry) = self.next_entry(&mut merge, &mut none).await? {
            // One more than fit: then the inbox is trimmed, and its floor tells that there are others.
            if entry.post <= floor || posts.len() > self.context.rules.feed.inbox_cap {
                break;
            }
            posts.push(entry.post);
        }
        self.feed.inboxes.fill(reader, followed, &posts).await
    }

    /// Makes an inbox from posts and edges. One that takes too long is left to the next read.
    pub(super) async fn rebuild(&self, reader: Key, deadline: Instant) -> Result<()> {
        let ticket = self.feed.inboxes.begin(reader).await?;
        self.feed.inboxes.seen(reader, self.context.clock.now());
        let mut authors = Vec::new();
        let is_whole = self.followed(reader, &mut authors).await?;
        let (mut merge, mut none) = (Merge::new(Version::MAX), Version::ZERO);
        self.add_authors(&mut merge, &authors, Some(deadline)).await?;
        if merge.is_partial || !is_whole {
            return self.feed.inboxes.clear(Some(reader)).await;
        }
        let (mut entries, mut floor) = (Vec::new(), Version::ZERO);
        while let Some(entry) = self.next_entry(&mut merge, &mut none).await? {
            if entries.len() >= self.context.rules.feed.inbox_cap {
                floor = entry.post;
                break;
            }
            entries.push(entry);
        }
        self.feed.inboxes.finish(reader, ticket, &entries, floor).await
    }
}
