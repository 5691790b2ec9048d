//! The plain feed: sort everything visible. Random runs through a front must show the same pages, at every moment, at
//! any progress of fan-out and with any inboxes lost.

pub mod service;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Few people, so that everything happens between the same ones.
pub const PEOPLE: i64 = 9;
/// From this many followers on an author is pulled.
pub const CELEBRITY_FOLLOWERS: u64 = 4;
pub const INBOX_CAP: usize = 7;
/// A reader who follows more than this is pulled.
pub const PULL_ABOVE: u64 = 6;

pub const PAGE_SIZES: [usize; 6] = [1, 2, 5, 16, 53, 100];

pub type Id = i64;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Put(Id),
    Follow(Id, Id),
    Unfollow(Id, Id),
    Block(Id, Id),
    Unblock(Id, Id),
    /// For this many minutes, or for good.
    Mute(Id, Id, Option<u64>),
    Unmute(Id, Id),
    Wait(u64),
    Post(Id, u32),
    /// Imported: in the millisecond of the post with this index, or this many before it.
    Import(Id, u32, usize, u64),
    /// By its index among all existing posts.
    Replace(usize, u32),
    Delete(usize),
    /// `auto`, `push` or `pull`.
    Pin(Id, &'static str),
    /// Into the user's one group, or out of it.
    Member(Id, Id, bool),
    /// One inbox is lost, or all are.
    Evict(Option<Id>),
    /// Fan-out completes.
    Deliver,
    Erase(Id),
    /// Jobs complete.
    Work,
    Restart,
}

/// A row of a page: the post's id, its author, its body.
pub type Row = (u64, Id, String);

/// Which feed is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Feed(Id),
    Group(Id),
}

impl Asked {
    pub const fn reader(self) -> Id {
        match self {
            Self::Feed(reader) | Self::Group(reader) => reader,
        }
    }
}

/// The front that runs go through.
pub trait FeedFront {
    /// Posts by id; the id of a new post.
    async fn act(&mut self, act: Act, post: Option<u64>) -> Result<Option<u64>, String>;

    /// A page and where to continue.
    async fn page(
        &self,
        asked: Asked,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String>;
}

pub fn body(number: u32) -> String {
    format!(r#"{{ "n" :{number}, "text":"kept  as sent ☂" }}"#)
}

/// A rule deliberately left out: the run must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    MutesHideNothing,
    UnfollowsHideNothing,
    DeletedAreShown,
    OldestFirst,
    BelowTheFloorIsLost,
}

#[derive(Default)]
struct Reference {
    people: BTreeSet<Id>,
    /// Erased, but not completely.
    leaving: BTreeSet<Id>,
    follows: BTreeSet<(Id, Id)>,
    blocks: BTreeSet<(Id, Id)>,
    mutes: BTreeMap<(Id, Id), Option<u64>>,
    members: BTreeSet<(Id, Id)>,
    posts: BTreeMap<u64, (Id, String)>,
    minutes: u64,
    twist: Option<Twist>,
}

impl Reference {
    fn nth(&self, nth: usize) -> Option<u64> {
        self.posts.keys().nth(nth).copied()
    }

    /// Whether it must succeed.
    fn act(&mut self, act: Act, made: Option<u64>) -> bool {
        let known = |id: Id| self.people.contains(&id);
        match act {
            Act::Put(id) => {
                let free = !self.leaving.contains(&id);
                if free {
                    self.people.insert(id);
                }
                free
            }
            Act::Follow(a, b) => {
                let ok = a != b && known(a) && known(b) && !self.is_apart(a, b);
                if ok {
                    self.follows.insert((a, b));
                }
                ok
            }
            Act::Unfollow(a, b) => {
                if self.twist != Some(Twist::UnfollowsHideNothing) {
                    self.follows.remove(&(a, b));
                }
                known(a)
            }
            Act::Block(a, b) => {
                let ok = a != b && known(a) && known(b);
                if ok {
                    self.blocks.insert((a, b));
                    self.follows.remove(&(a, b));
                    self.follows.remove(&(b, a));
                }
                ok
            }
            Act::Unblock(a, b) => {
                let ok = known(a);
                self.blocks.remove(&(a, b));
                ok
            }
            Act::Mute(a, b, minutes) => {
                let ok = a != b && known(a) && known(b);
                if ok {
                    self.mutes.insert((a, b), minutes.map(|minutes| self.minutes + minutes));
                }
                ok
            }
            Act::Unmute(a, b) => {
                let ok = known(a);
                self.mutes.remove(&(a, b));
                ok
            }
            Act::Wait(minutes) => {
                self.minutes += minutes;
                true
            }
            Act::Post(author, number) | Act::Import(author, number, ..) => {
                let ok = known(author);
                if let Some(made) = made.filter(|_| ok) {
                    self.posts.insert(made, (author, body(number)));
                }
                ok
            }
            Act::Replace(nth, number) => {
                if let Some(post) = self.nth(nth)
                    && let Some((_, text)) = self.posts.get_mut(&post)
                {
                    *text = body(number);
                }
                true
            }
            Act::Delete(nth) => {
                if let Some(post) = self.nth(nth).filter(|_| self.twist != Some(Twist::DeletedAreShown)) {
                    self.posts.remove(&post);
                }
                true
            }
            Act::Pin(id, _) => known(id),
            Act::Member(owner, member, present) => {
                let is_connected = self.follows.contains(&(owner, member)) || self.follows.contains(&(member, owner));
                let is_in = self.members.contains(&(owner, member));
                let ok = known(owner) && (!present || (known(member) && (is_connected || is_in)));
                if ok && present {
                    self.members.insert((owner, member));
                } else if ok {
                    self.members.remove(&(owner, member));
                }
                ok
            }
            Act::Erase(id) => {
                let ok = known(id);
                if ok {
                    self.people.remove(&id);
                    let is_whose = |pair: &(Id, Id)| pair.0 == id || pair.1 == id;
                    let has_edges = self.follows.iter().chain(&self.blocks).chain(self.mutes.keys()).any(is_whose);
                    // A user who leaves nothing behind is gone at once.
                    if has_edges || self.posts.values().any(|(author, _)| *author == id) {
                        self.leaving.insert(id);
                    }
                    self.follows.retain(|pair| !is_whose(pair));
                    self.blocks.retain(|pair| !is_whose(pair));
                    self.mutes.retain(|pair, _| !is_whose(pair));
                    self.members.retain(|pair| !is_whose(pair));
                    self.posts.retain(|_, (author, _)| *author != id);
                }
                ok
            }
            Act::Work => {
                self.leaving.clear();
                true
            }
            Act::Evict(_) | Act::Deliver | Act::Restart => true,
        }
    }

    fn is_apart(&self, a: Id, b: Id) -> bool {
        self.blocks.contains(&(a, b)) || self.blocks.contains(&(b, a))
    }

    fn is_muted(&self, a: Id, b: Id) -> bool {
        let until = self.mutes.get(&(a, b));
        self.twist != Some(Twist::MutesHideNothing)
            && until.is_some_and(|until| until.is_none_or(|until| until > self.minutes))
    }

    fn feed(&self, asked: Asked, below: u64) -> Vec<Row> {
        let reader = asked.reader();
        let is_shown = |author: Id| {
            let follows = self.follows.contains(&(reader, author));
            match asked {
                Asked::Feed(_) if author == reader => true,
                Asked::Feed(_) => follows && !self.is_muted(reader, author),
                Asked::Group(_) => {
                    follows && self.members.contains(&(reader, author)) && !self.is_muted(reader, author)
                }
            }
        };
        let mut rows: Vec<Row> = self
            .posts
            .range(..below)
            .rev()
            .filter(|(_, (author, _))| is_shown(*author))
            .map(|(id, (author, body))| (*id, *author, body.clone()))
            .collect();
        match self.twist {
            Some(Twist::OldestFirst) => rows.reverse(),
            Some(Twist::BelowTheFloorIsLost) => rows.truncate(2 * INBOX_CAP),
            _ => {}
        }
        rows
    }
}

fn draw(random: &mut StdRng, reference: &Reference) -> Act {
    let person = |random: &mut StdRng| random.random_range(0..PEOPLE);
    let (a, b) = (person(random), person(random));
    let nth = random.random_range(0..reference.posts.len().max(1));
    match random.random_range(0..100) {
        0..26 => Act::Follow(a, b),
        26..34 => Act::Unfollow(a, b),
        34..36 => Act::Block(a, b),
        36..39 => Act::Unblock(a, b),
        39..42 => Act::Mute(a, b, random.random_ratio(1, 2).then(|| random.random_range(1..4))),
        42..45 => Act::Unmute(a, b),
        45..47 => Act::Wait(random.random_range(1..3)),
        47..71 => Act::Post(a, random.random()),
        71..75 => Act::Import(a, random.random(), nth, [0, 0, 1, 3_600_000][random.random_range(0..4)]),
        75..78 => Act::Replace(nth, random.random()),
        78..81 => Act::Delete(nth),
        81..83 => Act::Pin(a, ["auto", "push", "pull"][random.random_range(0..3)]),
        83..86 => Act::Member(a, b, random.random_ratio(4, 5)),
        86..89 => Act::Evict(random.random_ratio(3, 4).then_some(a)),
        89..95 => Act::Deliver,
        95 => Act::Erase(a),
        96 => Act::Work,
        97 => Act::Put(a),
        _ => Act::Restart,
    }
}

/// Reads a whole feed page by page, sometimes with a change in between. Every page is what the plain feed has there at
/// that moment.
async fn compare(
    front: &mut impl FeedFront,
    reference: &mut Reference,
    random: &mut StdRng,
    asked: Asked,
) -> Result<(), String> {
    let limit = PAGE_SIZES[random.random_range(0..PAGE_SIZES.len())];
    let is_disturbed = random.random_ratio(1, 3);
    let (mut cursor, mut below) = (None, u64::MAX);
    loop {
        if !reference.people.contains(&asked.reader()) {
            return Ok(());
        }
        let (rows, next) = front.page(asked, cursor.as_deref(), limit).await?;
        let expected = reference.feed(asked, below);
        let page = &expected[..expected.len().min(limit)];
        if rows != page || next.is_some() != (expected.len() > limit) {
            let mut said = String::new();
            write!(said, "{asked:?} by {limit} below {below}: {rows:?} {} must be {page:?}", next.is_some()).unwrap();
            return Err(said);
        }
        let Some(next) = next else { return Ok(()) };
        below = rows.last().map_or(0, |row| row.0);
        cursor = Some(next);
        if is_disturbed {
            step(front, reference, random).await?;
        }
    }
}

async fn step(front: &mut impl FeedFront, reference: &mut Reference, random: &mut StdRng) -> Result<(), String> {
    let act = draw(random, reference);
    if matches!(act, Act::Replace(..) | Act::Delete(_)) && reference.posts.is_empty() {
        return Ok(());
    }
    let post = match act {
        Act::Replace(nth, _) | Act::Delete(nth) | Act::Import(_, _, nth, _) => reference.nth(nth),
        _ => None,
    };
    let done = front.act(act, post).await;
    let expected = reference.act(act, done.as_ref().ok().copied().flatten());
    match &done {
        Ok(_) if !expected => Err(format!("{act:?} must be refused")),
        Err(error) if expected => Err(format!("{act:?} must not be refused: {error}")),
        _ => Ok(()),
    }
}

pub async fn run(front: &mut impl FeedFront, seed: u64, steps: usize, twist: Option<Twist>) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut reference = Reference { twist, ..Reference::default() };
    for id in 0..PEOPLE {
        front.act(Act::Put(id), None).await?;
        reference.act(Act::Put(id), None);
    }
    for at in 0..steps {
        let named = |error: String| format!("seed {seed}, step {at}: {error}");
        step(front, &mut reference, &mut random).await.map_err(named)?;
        let reader = random.random_range(0..PEOPLE);
        let asked = if random.random_ratio(1, 5) { Asked::Group(reader) } else { Asked::Feed(reader) };
        compare(front, &mut reference, &mut random, asked).await.map_err(named)?;
    }
    for reader in 0..PEOPLE {
        for asked in [Asked::Feed(reader), Asked::Group(reader)] {
            let named = |error: String| format!("seed {seed}, at the end: {error}");
            compare(front, &mut reference, &mut random, asked).await.map_err(named)?;
        }
    }
    Ok(())
}
