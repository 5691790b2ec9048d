//! Stores that were written by released versions and are kept as files: this version opens them all, and refuses those
//! of the future. `ENTOURAGE_WRITE_GOLDEN=v1` writes that version's files anew; published ones are never rewritten.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::embedded_kit::{TemporaryFolder, open_on, open_real};
use entourage_embedded::{Fault, Options, Store};
use entourage_model::{
    Code, Condition, ExternalId, FollowLimits, IdempotencyKey, Key, Millis, Operation, Overwrite, Post, RecordId,
    Space, UserId, UserPatch, Write,
};
use entourage_store::{Store as _, StoreExt as _, disk::Disk};
use entourage_testkit::portrait::{first_portrait, portrait, second_portrait};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};

const VERSIONS: [&str; 5] = ["v1", "v2", "v3", "v4", NEWEST];
const NEWEST: &str = "v5";
/// The same writes: one was closed after them, the other one was killed, so that its last ones are in the log alone.
const STORES: [&str; 2] = ["closed", "killed"];
const SIZE_LIMIT_BYTES: u64 = 150_000;

fn folder(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version)
}

fn options() -> Options {
    Options { segment_bytes: 2 << 10, frame_bytes: 512, ..Options::tiny() }
}

fn user(number: i64, private: bool) -> Operation {
    let patch = UserPatch {
        name: Some(Some(format!("user {number}").into())),
        avatar_url: (number % 3 == 0).then(|| Some(format!("https://example.org/{number}.png").into())),
        private: Some(private),
        ..UserPatch::default()
    };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

fn follow(follower: i64, target: i64) -> Operation {
    Operation::Follow {
        follower: Key(follower),
        target: Key(target),
        quiet: Some(follower % 4 == 3),
        cap: None,
        park: false,
    }
}

fn unfollow(follower: i64, target: i64) -> Operation {
    Operation::Unfollow { follower: Key(follower), target: Key(target) }
}

/// A write whose reply is kept for its retry.
fn keyed(operation: Operation, scope: u8) -> Write {
    Write { idempotency: Some(IdempotencyKey { scope: [scope; 16], request: 9 }), ..Write::from(operation) }
}

const KEYED: [u8; 2] = [1, 2];

/// Two an hour, a challenge after two, and an edge that ends once a day: used up before a checkpoint by one, after it by
/// another.
fn limited(follower: i64, target: i64) -> Write {
    let now = Millis::from_since_2000(800_000_000_000);
    let limits = FollowLimits { per_hour: 2, challenge_after: 2, flips_per_day: 1, ..FollowLimits::none(now) };
    Write { limits: Some(limits), ..Write::from(follow(follower, target)) }
}

const LIMITED: [i64; 2] = [10, 11];

/// What the fifth format has: quotas, and how often edges ended.
async fn write_limited(store: &Store, follower: i64) {
    for target in [2, 3] {
        store.commit(limited(follower, target)).await.expect("there is room for two");
    }
    store.commit(unfollow(follower, 3).into()).await.expect("the write is taken");
}

fn record(space: Space, owner: i64, id: &[u8], value: Option<&[u8]>) -> Operation {
    let (id, condition) = (RecordId::new(id).unwrap(), Condition::Any);
    Operation::PutRecord { space, owner: Key(owner), id, value: value.map(Into::into), condition, cap: None }
}

/// What the second format has beside the graph, some of it before a checkpoint and some after.
async fn write_beyond(store: &Store, round: u8) {
    let commit = async |operation: Operation| drop(store.commit(operation.into()).await.expect("the write is taken"));
    let group = || RecordId::new(b"group").unwrap();
    commit(record(Space::Group, 2, b"group", Some(&[round; 9]))).await;
    commit(Operation::GroupMember { owner: Key(2), group: group(), member: Key(1), present: round == 0 }).await;
    for number in 0..10 {
        commit(record(Space::Notification, 3, &[number, round], Some(&[number; 90]))).await;
    }
    commit(record(Space::Notification, 3, &[4, 0], None)).await;
    commit(record(Space::Job, i64::MIN, b"job", Some(&[round]))).await;
    commit(Operation::Suspend { key: Key(3), suspended: round == 0 }).await;
    let external_id = Some(ExternalId::new(&format!("post {round}")).unwrap());
    commit(Operation::Post { author: Key(2), value: Post { external_id, ..Post::new(false, "{}") }.encode() }).await;
    let expires_at = Some(Millis::from_since_2000(900_000_000_000 + u64::from(round)));
    commit(Operation::Mute { actor: Key(3), target: Key(4), expires_at }).await;
    let erased = 20 + i64::from(round);
    commit(user(erased, false)).await;
    commit(follow(erased, 1)).await;
    commit(follow(2, erased)).await;
    commit(record(Space::Seen, erased, b"seen", Some(b"gone soon"))).await;
    commit(Operation::Erase { key: Key(erased), created: None }).await;
    if round == 0 {
        commit(Operation::EraseEdges { key: Key(erased), limit: 10 }).await;
        commit(user(erased, true)).await;
    }
}

/// Every kind of record and file: several segments, blocks rewritten by a second checkpoint, keys before and after.
async fn write(store: &Store) {
    let commit = async |write: Write| drop(store.commit(write).await.expect("the write is taken"));
    for number in 1..=12 {
        commit(user(number, number == 6).into()).await;
    }
    for number in 2..=12 {
        commit(follow(number, 1).into()).await;
        commit(follow(1, number).into()).await;
    }
    commit(keyed(follow(2, 3), KEYED[0])).await;
    let at = Millis::from_since_2000(1_000);
    let import =
        |follower| Write::from(Operation::Import { follower: Key(follower), target: Key(4), at, quiet: false });
    for result in store.commit_all((7..=12).map(import).collect()).await {
        result.expect("the import is taken");
    }
    write_beyond(store, 0).await;
    write_limited(store, LIMITED[0]).await;
    store.checkpoint().await.expect("a checkpoint");
    for operation in [
        Operation::Block { actor: Key(5), target: Key(1) },
        Operation::Mute { actor: Key(5), target: Key(2), expires_at: None },
        Operation::Accept { target: Key(6), follower: Key(1) },
        unfollow(7, 1),
        user(7, true),
        Operation::RemoveFollower { target: Key(1), follower: Key(8), sees_quiet: true },
    ] {
        commit(operation.into()).await;
    }
    store.checkpoint().await.expect("a checkpoint");
    commit(keyed(follow(4, 3), KEYED[1])).await;
    for operation in [
        Operation::Unblock { actor: Key(5), target: Key(1) },
        follow(5, 1),
        follow(9, 7),
        Operation::Reject { target: Key(7), follower: Key(9) },
        Operation::Unmute { actor: Key(5), target: Key(2) },
        unfollow(9, 1),
        follow(9, 1),
    ] {
        commit(operation.into()).await;
    }
    write_limited(store, LIMITED[1]).await;
    write_beyond(store, 1).await;
}

async fn write_golden(version: &str) {
    for name in STORES {
        let disk = CrashDisk::new();
        let store = open_on(&disk, options()).unwrap();
        write(&store).await;
        let drawn = portrait(&store).await.unwrap();
        if name == "closed" {
            store.close().await.unwrap();
        }
        let left = disk.image(Image::Everything);
        let to = folder(version).join(name);
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).unwrap();
        for file in left.list().unwrap() {
            fs::write(to.join(&file), left.contents(&file).unwrap()).unwrap();
        }
        fs::write(folder(version).join("portrait"), drawn).unwrap();
    }
}

/// A disk with the files of a golden store, one of them changed on the way.
fn load(version: &str, name: &str, change: impl Fn(&str, &mut Vec<u8>)) -> CrashDisk {
    let disk = CrashDisk::new();
    for entry in fs::read_dir(folder(version).join(name)).expect("the golden store is there") {
        let path = entry.unwrap().path();
        let file_name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        change(file_name, &mut bytes);
        let file = disk.create(file_name).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.sync().unwrap();
    }
    disk.sync_folder().unwrap();
    disk
}

async fn compare(store: &Store, version: &str, name: &str) {
    let expected = fs::read_to_string(folder(version).join("portrait")).unwrap();
    let drawn = match version {
        "v1" => first_portrait(store).await,
        "v2" => second_portrait(store).await,
        _ => portrait(store).await,
    };
    assert_eq!(drawn.unwrap(), expected, "{version} {name}");
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{version} {name}: {:#?}", report.problems);
}

#[test]
fn stores_of_every_version_open_and_are_what_they_were() {
    if let Ok(version) = std::env::var("ENTOURAGE_WRITE_GOLDEN") {
        block_on(write_golden(&version));
    }
    for version in VERSIONS {
        for name in STORES {
            let disk = load(version, name, |_, _| {});
            block_on(async {
                let store = open_on(&disk, options()).unwrap();
                compare(&store, version, name).await;
                for scope in KEYED {
                    let retried = store.commit(keyed(follow(if scope == KEYED[0] { 2 } else { 4 }, 3), scope)).await;
                    assert!(retried.unwrap().replayed, "{version} {name}: the key {scope} is forgotten");
                }
                for follower in LIMITED.into_iter().filter(|_| !["v1", "v2", "v3", "v4"].contains(&version)) {
                    for (target, code) in [(3, Code::CoolingDown), (8, Code::ChallengeRequired)] {
                        let refused = store.commit(limited(follower, target)).await.unwrap_err();
                        assert_eq!(refused.code(), code, "{version} {name}");
                    }
                }
                // What is written now and folded into the old blocks leaves the rest as it was.
                store.commit(user(13, false).into()).await.unwrap();
                store.commit(follow(13, 1).into()).await.unwrap();
                store.close().await.unwrap();
                let report = open_on(&disk, options()).unwrap().verify().await.unwrap();
                assert!(report.is_clean(), "{version} {name}: {:#?}", report.problems);
                assert_eq!(report.users, if version == "v1" { 13 } else { 14 });
            });
        }
    }
}

#[test]
fn golden_stores_open_from_a_real_folder_with_the_usual_options() {
    for version in VERSIONS {
        for name in STORES {
            let to = TemporaryFolder::new();
            for entry in fs::read_dir(folder(version).join(name)).unwrap() {
                let path = entry.unwrap().path();
                fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
            }
            let history_retention = std::time::Duration::MAX;
            let options = Options { prepare_ahead: false, history_retention, ..Options::default() };
            block_on(async { compare(&open_real(to.path(), options).unwrap(), version, name).await });
        }
    }
}

#[test]
fn formats_of_the_future_are_refused_with_file_and_numbers() {
    for kind in ["identity", "checkpoint-", "log-"] {
        for name in STORES {
            let is_changed = |file: &str| file.starts_with(kind);
            let disk = load(NEWEST, name, |file, bytes| {
                if is_changed(file) {
                    bytes[4..6].copy_from_slice(&900u16.to_le_bytes());
                }
            });
            let fault = open_on(&disk, options()).err().unwrap_or_else(|| panic!("{kind} {name}: opened"));
            assert!(matches!(&fault, Fault::Format { file, found: 900, .. } if is_changed(file)), "{kind}: {fault}");
            let text = fault.to_string();
            assert!(text.contains("has format 900") && text.contains("use a newer entourage"), "{text}");
        }
    }
}

#[test]
fn golden_stores_stay_small_and_have_every_kind_of_file() {
    let (mut size, mut names) = (0, Vec::new());
    for entry in fs::read_dir(folder(NEWEST)).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            for file in fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                size += file.metadata().unwrap().len();
                names.push(file.file_name().into_string().unwrap());
            }
        } else {
            size += entry.metadata().unwrap().len();
        }
    }
    println!("{size} bytes in {names:?}");
    assert!(size < SIZE_LIMIT_BYTES, "{size} bytes");
    let blocks = ["users-", "following-", "followers-", "documents-"];
    for kind in ["identity", "seals", "checkpoint-", "log-000000000002", "idempotency-"].into_iter().chain(blocks) {
        assert!(names.iter().any(|name| name.starts_with(kind)), "no {kind} in {names:?}");
    }
}
