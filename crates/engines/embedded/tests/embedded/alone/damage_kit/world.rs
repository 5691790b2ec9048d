//! A small store with something in every kind of file, and what is right about it.

use std::{collections::BTreeMap, time::Duration};

use entourage_embedded::{Options, Store};
use entourage_model::{
    Condition, IdempotencyKey, Key, Operation, Overwrite, RecordId, Reply, Space, UserId, UserPatch, Write,
};
use entourage_store::{Store as _, StoreExt as _, disk::Disk};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};

use super::questions::{Answers, ask};
use crate::embedded_kit::open_on;

pub(crate) const USERS: i64 = 16;
/// Erased before the last checkpoint.
const ERASED: i64 = 15;
const PRIVATE: i64 = 5;

pub(crate) fn options() -> Options {
    Options { segment_bytes: 16 << 10, frame_bytes: 4 << 10, ..Options::tiny() }
}

/// How the store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Closed,
    /// A second or so after its last write: the log is sealed.
    Killed,
}

/// Names and bytes of all files.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) struct World {
    pub(crate) files: Files,
    /// As they were before the last part of the writes.
    pub(crate) older: Files,
    pub(crate) answers: Answers,
    /// Requests that are to be retried, with their answers.
    pub(crate) keyed: Vec<(Write, Reply)>,
}

fn user(number: i64, round: u32) -> Operation {
    let patch = UserPatch {
        name: Some(Some(format!("user {number} as of round {round}").into())),
        private: Some(number == PRIVATE),
        ..UserPatch::default()
    };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

pub(crate) fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow {
        follower: Key(follower),
        target: Key(target),
        quiet: Some(follower % 7 == 3 && target != PRIVATE),
        cap: None,
        park: false,
    }
}

fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

fn record(owner: i64, id: u32, value: usize) -> Operation {
    let (id, condition) = (RecordId::new(&id.to_be_bytes()).unwrap(), Condition::Any);
    let value = Some(vec![value as u8; 60 + value].into());
    Operation::PutRecord { space: Space::Notification, owner: Key(owner), id, value, condition, cap: None }
}

pub(crate) fn keyed(operation: Operation, number: u64) -> Write {
    let mut scope = [0; 16];
    scope[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Write { idempotency: Some(IdempotencyKey { scope, request: number }), ..Write::from(operation) }
}

fn post(author: i64, number: u64) -> Write {
    let value = format!("post {number} of {author}: {}", "words ".repeat(10 + number as usize % 9));
    keyed(Operation::Post { author: Key(author), value: value.as_bytes().into() }, number)
}

struct Builder {
    disk: CrashDisk,
    store: Store,
    keyed: Vec<(Write, Reply)>,
}

impl Builder {
    async fn commit(&self, operation: Operation) {
        // Some are against a rule, which is as good.
        let taken = self.store.commit(operation.into()).await;
        assert!(taken.as_ref().map_or_else(|error| error.code().http_status() < 500, |_| true), "{taken:?}");
    }

    async fn commit_keyed(&mut self, write: Write) {
        let outcome = self.store.commit(write.clone()).await.expect("the write is taken");
        assert!(!outcome.replayed);
        self.keyed.push((write, outcome.reply));
    }

    /// About two segments of the log.
    async fn round(&mut self, round: u32) {
        for number in 0..USERS {
            self.commit(user(number, round)).await;
        }
        let step = i64::from(round) + 1;
        for number in 0..USERS {
            let target = (number + step) % USERS;
            self.commit(follow(number, target)).await;
            if number != i64::from(round) {
                self.commit(follow(number, round.into())).await;
            }
            if number % 5 == 4 {
                self.commit(unfollow(number, target)).await;
            }
        }
        for number in 0..16 {
            let author = i64::from(number % 4);
            self.commit_keyed(post(author, u64::from(round * 100 + number))).await;
            self.commit(record(number.into(), round * 10 + number % 10, number as usize * 3)).await;
        }
        self.commit_keyed(keyed(follow(14, 8 + i64::from(round)), u64::from(round * 100 + 90))).await;
        // Changes nothing, has no event, and is answered the same again.
        self.commit_keyed(keyed(follow(14, 8 + i64::from(round)), u64::from(round * 100 + 91))).await;
        self.commit(Operation::Block { actor: Key(1), target: Key(9 + i64::from(round)) }).await;
        self.commit(Operation::Mute { actor: Key(2), target: Key(12), expires_at: None }).await;
    }
}

fn files(disk: &CrashDisk) -> Files {
    let left = disk.image(Image::Everything);
    let read = |name: String| (name.clone(), left.contents(&name).expect("the file is there"));
    left.list().expect("a list of files").into_iter().map(read).collect()
}

impl World {
    pub(crate) fn new(left: Left) -> Self {
        block_on(Self::build(left))
    }

    async fn build(left: Left) -> Self {
        let disk = CrashDisk::new();
        let sealing = Options { seal_after: Some(Duration::from_millis(1)), ..options() };
        let mut builder = Builder { store: open_on(&disk, sealing).expect("it opens"), disk, keyed: Vec::new() };
        for round in 0..3 {
            builder.round(round).await;
            if round == 1 {
                builder.commit(Operation::Erase { key: Key(ERASED), created: None }).await;
                while !matches!(
                    builder.store.commit(Operation::EraseEdges { key: Key(ERASED), limit: 3 }.into()).await,
                    Ok(outcome) if matches!(outcome.reply, Reply::EdgesErased { left: false, .. })
                ) {}
            }
            builder.store.checkpoint().await.expect("a checkpoint is made");
        }
        let older = files(&builder.disk);
        builder.round(3).await;
        if left == Left::Closed {
            builder.store.checkpoint().await.expect("a checkpoint is made");
            builder.round(4).await;
        }
        let answers = ask(&builder.store).await;
        let Builder { disk, store, keyed } = builder;
        match left {
            Left::Closed => store.close().await.expect("it closes"),
            Left::Killed => wait_for_seal(&disk),
        }
        let files = files(&disk);
        drop(store);
        Self { files, older, answers, keyed }
    }
}

/// The last batch is sealed when nothing has been written for a while.
fn wait_for_seal(disk: &CrashDisk) {
    loop {
        let before = disk.operations();
        std::thread::sleep(Duration::from_millis(100));
        if disk.operations() == before {
            return;
        }
    }
}

/// A disk with these files.
pub(crate) fn disk_with(files: &Files) -> CrashDisk {
    let disk = CrashDisk::new();
    for (name, bytes) in files {
        let file = disk.create(name).expect("the file is made");
        file.write_at(bytes, 0).expect("the file is written");
        file.sync().expect("the file is synced");
    }
    disk.sync_folder().expect("the folder is synced");
    disk
}
