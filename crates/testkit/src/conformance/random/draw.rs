//! Draws the writes of a run: a few people who meet often, two who never exist, and all the odd requests.

use std::collections::VecDeque;

use entourage_model::{
    Buckets, Change, Condition, ExternalId, Fence, FollowLimits, IdempotencyKey, Key, KeyHasher, Lease, Millis,
    Operation, Outcome, Overwrite, Post, RecordChange, RecordId, Secret, Space, UserChange, UserId, UserPatch, Version,
    WorkProgress, Write,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

const PEOPLE: usize = 12;
const STRANGERS: usize = 2;

pub(super) struct Draw {
    rng: StdRng,
    people: Vec<(Key, UserId)>,
    keyed: VecDeque<Write>,
    newest: Version,
    /// Versions of records, for conditions that hold.
    versions: VecDeque<Version>,
    /// Posts that were written or replaced.
    posts: VecDeque<(Key, RecordId)>,
    /// Erased users who are not back, so that they come back.
    erased: Vec<Key>,
    beyond_graph: bool,
    buckets: Buckets,
    /// How far the time of limits is ahead of the newest version. It goes back now and then.
    ahead_millis: u64,
}

impl Draw {
    pub(super) fn new(seed: u64, secret: &Secret, buckets: Buckets, beyond_graph: bool) -> Self {
        let hasher = KeyHasher::new(secret);
        let mut rng = StdRng::seed_from_u64(seed);
        let base: i64 = rng.random_range(1 << 32..1 << 60);
        let people = (0..PEOPLE + STRANGERS).map(|index| {
            let id = match index % 2 {
                0 => UserId::from(base + index as i64),
                _ => UserId::try_from(format!("{seed}:person {index}")).expect("the id is valid"),
            };
            (hasher.key(&id), id)
        });
        let (keyed, versions) = (VecDeque::new(), VecDeque::new());
        let (posts, erased) = (VecDeque::new(), Vec::new());
        Self {
            people: people.collect(),
            rng,
            keyed,
            newest: Version::ZERO,
            versions,
            posts,
            erased,
            beyond_graph,
            buckets,
            ahead_millis: 0,
        }
    }

    pub(super) fn everyone(&self) -> Vec<Key> {
        self.people.iter().map(|(key, _)| *key).collect()
    }

    pub(super) fn saw(&mut self, outcome: &Outcome) {
        self.newest = self.newest.max(outcome.version);
        self.versions.push_front(outcome.version);
        self.versions.truncate(30);
        for change in &outcome.changes {
            match change {
                Change::Record(RecordChange { space: Space::Post, owner, id, after: Some(_), .. }) => {
                    self.posts.push_front((*owner, id.clone()));
                    self.posts.truncate(12);
                }
                Change::User(UserChange { key, after: None, .. }) => self.erased.push(*key),
                Change::User(UserChange { key, .. }) => self.erased.retain(|erased| erased != key),
                _ => {}
            }
        }
    }

    /// One write, or a batch. The first ones create most of the people.
    pub(super) fn step(&mut self, step: usize) -> Vec<Write> {
        if step < PEOPLE - 3 {
            let (key, id) = self.people[step].clone();
            let patch = UserPatch { private: Some(step % 4 == 3), ..UserPatch::default() };
            return vec![Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace }.into()];
        }
        let count = if self.one_in(10) { self.rng.random_range(2..=6) } else { 1 };
        (0..count).map(|_| self.write()).collect()
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.rng.random_ratio(1, times)
    }

    fn write(&mut self) -> Write {
        if !self.keyed.is_empty() && self.one_in(10) {
            return self.retry();
        }
        let mut write = Write::from(self.operation());
        if matches!(write.operation, Operation::Follow { .. }) && self.rng.random_bool(0.7) {
            write.limits = Some(self.limits());
        }
        if self.one_in(8) {
            write.floor = self.newest;
        } else if self.one_in(20) {
            write.floor = Version::from_bits(self.newest.bits() + self.rng.random_range(0..5 << 22));
        }
        if self.one_in(6) {
            write.idempotency = Some(IdempotencyKey { scope: self.rng.random(), request: self.rng.random() });
            if self.keyed.len() == 20 {
                self.keyed.pop_front();
            }
            self.keyed.push_back(write.clone());
        }
        self.work(write)
    }

    /// Some by a worker, who may be fenced. Not those that change two homes, nor those with a key: their answers are
    /// another case.
    fn work(&mut self, mut write: Write) -> Write {
        let is_plain = !matches!(
            write.operation,
            Operation::Block { .. } | Operation::ImportBlock { .. } | Operation::EraseEdges { .. }
        );
        if !self.beyond_graph || write.idempotency.is_some() || !is_plain {
            return write;
        }
        if self.one_in(12) {
            let whose = self.someone();
            let lease = Lease::new(&[b"lease", whose.0.to_be_bytes().as_slice()].concat()).expect("it is a name");
            write.fence = Some(Box::new(Fence { lease, epoch: self.rng.random_range(0..50) }));
        }
        if self.one_in(12) {
            let whose = self.someone();
            let id = RecordId::new(&[b"p", whose.0.to_be_bytes().as_slice()].concat()).expect("it is an id");
            let value = (!self.one_in(4)).then(|| Box::from([self.rng.random_range(0..3)]));
            let condition = if self.one_in(3) { self.condition() } else { Condition::Any };
            write.progress = Some(Box::new(WorkProgress { id, value, condition }));
        }
        write
    }

    /// A used key: mostly with the same body, sometimes with another.
    fn retry(&mut self) -> Write {
        let index = self.rng.random_range(0..self.keyed.len());
        let mut write = self.keyed[index].clone();
        if self.one_in(3) {
            write.operation = self.operation();
            if let Some(key) = write.idempotency.as_mut()
                && self.rng.random_bool(0.7)
            {
                key.request ^= 1;
            }
        }
        write
    }

    /// Small ones, so that they are reached.
    fn limits(&mut self) -> FollowLimits {
        self.ahead_millis = match self.one_in(200) {
            true => self.rng.random_range(0..self.ahead_millis + 1),
            false => self.ahead_millis + self.rng.random_range(0..4) * 3_000,
        };
        let now = self.newest.millis().plus(self.ahead_millis);
        let some = |rng: &mut StdRng, most: u32| if rng.random_ratio(1, 3) { 0 } else { rng.random_range(1..most) };
        FollowLimits {
            now,
            per_hour: some(&mut self.rng, 4) * 20,
            burst: some(&mut self.rng, 4),
            challenge_after: some(&mut self.rng, 5),
            proved: self.one_in(4),
            flips_per_day: some(&mut self.rng, 4),
        }
    }

    fn someone(&mut self) -> Key {
        self.people.choose(&mut self.rng).map(|(key, _)| *key).unwrap_or_default()
    }

    fn operation(&mut self) -> Operation {
        if self.beyond_graph && self.one_in(3) {
            return self.beyond();
        }
        let (a, b) = (self.someone(), self.someone());
        let quiet = self.one_in(4);
        match self.rng.random_range(0..100) {
            0..34 => {
                let cap = self.one_in(3).then(|| self.rng.random_range(0..8));
                let quiet = if self.one_in(4) { None } else { Some(quiet) };
                let park = self.beyond_graph && self.one_in(6);
                Operation::Follow { follower: a, target: b, quiet, cap, park }
            }
            34..48 => Operation::Unfollow { follower: a, target: b },
            48..52 => Operation::RemoveFollower { target: a, follower: b, sees_quiet: self.one_in(2) },
            52..60 => Operation::Accept { target: a, follower: b },
            60..64 => Operation::Reject { target: a, follower: b },
            64..69 => Operation::Block { actor: a, target: b },
            69..77 => Operation::Unblock { actor: a, target: b },
            77..80 => {
                let expires_at = self.one_in(2).then(|| Millis::from_since_2000(self.rng.random_range(1..4) * 700));
                Operation::Mute { actor: a, target: b, expires_at }
            }
            80..83 => Operation::Unmute { actor: a, target: b },
            83..91 => {
                let (at, expires_at) = (self.moment(), None);
                match self.rng.random_range(0..8) {
                    0 => Operation::ImportRequest { follower: a, target: b, at },
                    1 => Operation::ImportBlock { actor: a, target: b, at },
                    2 => Operation::ImportMute { actor: a, target: b, at, expires_at },
                    _ => Operation::Import { follower: a, target: b, at, quiet },
                }
            }
            _ => self.put(),
        }
    }

    /// What is beside the graph. Few ids and few values, so that they collide.
    fn beyond(&mut self) -> Operation {
        let (a, b) = (self.someone(), self.someone());
        match self.rng.random_range(0..134) {
            128.. => Operation::Release { target: a, follower: b, accept: !self.one_in(3) },
            0..6 => Operation::Suspend { key: a, suspended: self.one_in(4) },
            6..52 => self.record(a),
            52..82 => Operation::GroupMember { owner: a, group: self.group(), member: b, present: !self.one_in(5) },
            82..86 => Operation::Erase { key: a, created: None },
            86..100 => {
                let most = if self.one_in(2) { 40 } else { 4 };
                let key = if self.one_in(4) { None } else { self.erased.choose(&mut self.rng).copied() };
                Operation::EraseEdges { key: key.unwrap_or(a), limit: self.rng.random_range(0..most) }
            }
            100..105 => {
                let (space, owner, id) = (Space::Fanout, self.buckets.of(b), RecordId::of_key(b));
                let value = (!self.one_in(4)).then(|| Box::from([self.rng.random_range(0..3)]));
                Operation::PutRecord { space, owner, id, value, condition: Condition::Any, cap: None }
            }
            125..128 => {
                let key = self.erased.choose(&mut self.rng).copied().unwrap_or(b);
                let (space, owner, id) = (Space::Erased, self.buckets.of(key), RecordId::of_key(key));
                let value = self.one_in(4).then(Box::default);
                Operation::PutRecord { space, owner, id, value, condition: Condition::Any, cap: None }
            }
            105..113 if !self.posts.is_empty() => {
                let index = self.rng.random_range(0..self.posts.len());
                let (mut owner, id) = self.posts[index].clone();
                if self.one_in(6) {
                    owner = a;
                }
                let (value, condition) = ((!self.one_in(4)).then(|| self.post()), self.condition());
                Operation::PutRecord { space: Space::Post, owner, id, value, condition, cap: None }
            }
            113..119 => {
                // Others may use the same store: everybody has ids of their own.
                let own = a.0.unsigned_abs();
                let moment = if self.one_in(20) { 2_100_000_000_000 } else { own % 100_000 * 8 };
                let at = Millis::from_since_2000(moment + self.rng.random_range(0..3));
                let id = self.one_in(3).then(|| {
                    let start = Version::of_millis(at.plus(4)).bits() + own % 1_000_000 * 4;
                    Version::from_bits(start + self.rng.random_range(0..3))
                });
                Operation::ImportPost { author: if self.one_in(6) { b } else { a }, at, id, value: self.post() }
            }
            _ => Operation::Post { author: a, value: self.post() },
        }
    }

    /// The value of a post: often with one of few external ids.
    fn post(&mut self) -> Box<[u8]> {
        if self.one_in(2) {
            return self.value().unwrap_or_default();
        }
        let name = ["one", "two", "three"][self.rng.random_range(0..3)];
        let body = ["{}", "{ }"][self.rng.random_range(0..2)];
        Post { external_id: ExternalId::new(name).ok(), ..Post::new(false, body) }.encode()
    }

    /// Few moments, so that many edges share one; the last lies ahead of every clock.
    fn moment(&mut self) -> Millis {
        let moments = [0, 1_000, 1_000, 1_001, 500_000_000_000, 2_100_000_000_000];
        Millis::from_since_2000(moments[self.rng.random_range(0..moments.len())])
    }

    fn group(&mut self) -> RecordId {
        let length = if self.one_in(30) { 24 } else { self.rng.random_range(1..4) };
        RecordId::new(&vec![7; length]).expect("the id is valid")
    }

    fn record(&mut self, owner: Key) -> Operation {
        // What events name is drawn more often: of few ids each must be met, changed and removed.
        let space = match self.rng.random_range(0..8) {
            0..4 => Space::Group,
            4 => Space::Case,
            _ => Space::ALL[self.rng.random_range(0..Space::ALL.len())],
        };
        let (value, condition) = (self.value(), self.condition());
        let cap = self.one_in(3).then(|| self.rng.random_range(0..4));
        Operation::PutRecord { space, owner, id: self.group(), value, condition, cap }
    }

    fn value(&mut self) -> Option<Box<[u8]>> {
        let length = if self.one_in(40) { 70_000 } else { self.rng.random_range(0..4) * 5 };
        (!self.one_in(4)).then(|| vec![self.rng.random_range(0..3); length].into_boxed_slice())
    }

    fn condition(&mut self) -> Condition {
        match self.rng.random_range(0..6) {
            0 => Condition::Absent,
            1 => {
                let index = self.rng.random_range(0..30);
                Condition::Version(self.versions.get(index).copied().unwrap_or_default())
            }
            _ => Condition::Any,
        }
    }

    fn put(&mut self) -> Operation {
        let mut index = self.rng.random_range(0..PEOPLE);
        if self.one_in(2)
            && let Some(erased) = self.erased.choose(&mut self.rng)
        {
            index = self.people.iter().position(|(key, _)| key == erased).unwrap_or(index);
        }
        let (key, mut id) = self.people[index].clone();
        if self.one_in(12) {
            id = self.people[self.rng.random_range(0..PEOPLE)].1.clone();
        }
        let overwrite = [Overwrite::Replace, Overwrite::Merge, Overwrite::Keep][self.rng.random_range(0..3)];
        let patch = UserPatch {
            name: self.text(&["Ada", "Grace"]),
            avatar_url: self.text(&["https://example.org/1", "https://example.org/2"]),
            private: self.one_in(2).then(|| self.rng.random()),
            hide_lists: self.one_in(4).then(|| self.rng.random()),
            registered_at: self.one_in(8).then(|| Millis::from_since_2000(self.rng.random_range(1..4))),
        };
        Operation::PutUser { key, id, patch, overwrite }
    }

    fn text(&mut self, texts: &[&str]) -> Option<Option<Box<str>>> {
        match self.rng.random_range(0..3) {
            0 => None,
            1 => Some(None),
            _ => Some(texts.choose(&mut self.rng).map(|&text| text.into())),
        }
    }
}
