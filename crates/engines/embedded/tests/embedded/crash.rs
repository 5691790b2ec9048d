//! Power cuts at every write and sync of a small workload, torn and reordered; every bit flipped, every file cut.

use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};

use crate::embedded_kit::{identity, open_on};
use entourage_embedded::Options;
use entourage_model::{
    Condition, FollowLimits, IdempotencyKey, Key, Millis, Operation, Overwrite, Post, RecordId, Space, UserId,
    UserPatch, Write,
};
use entourage_store::{Store as _, StoreExt as _};
use entourage_testkit::portrait::portrait;
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, FailedSync, Image},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

fn options() -> Options {
    Options { segment_bytes: 1 << 10, frame_bytes: 512, ..Options::tiny() }
}

#[derive(Clone, Debug)]
enum Step {
    One(Write),
    Many(Vec<Write>),
    Checkpoint,
    Reopen,
}

fn user(number: i64, private: bool) -> Operation {
    let patch =
        UserPatch { name: Some(Some(format!("user {number}").into())), private: Some(private), ..UserPatch::default() };
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

fn record(owner: i64, id: u8, value: Option<u8>) -> Operation {
    let space = if id < 100 { Space::Notification } else { Space::Group };
    let value = value.map(|value| vec![value; 12].into_boxed_slice());
    let (id, condition) = (RecordId::new(&[id]).unwrap(), Condition::Any);
    Operation::PutRecord { space, owner: Key(owner), id, value, condition, cap: None }
}

fn member(owner: i64, group: u8, member: i64) -> Operation {
    Operation::GroupMember {
        owner: Key(owner),
        group: RecordId::new(&[group]).unwrap(),
        member: Key(member),
        present: true,
    }
}

fn post(author: i64) -> Operation {
    Operation::Post { author: Key(author), value: Box::from(*b"hello") }
}

fn erase(key: i64) -> Operation {
    Operation::Erase { key: Key(key), created: None }
}

fn erase_edges(key: i64, limit: usize) -> Operation {
    Operation::EraseEdges { key: Key(key), limit }
}

fn mute(actor: i64, target: i64, seconds: u64) -> Operation {
    let expires_at = Some(Millis::from_since_2000(seconds * 1000));
    Operation::Mute { actor: Key(actor), target: Key(target), expires_at }
}

/// Follows take of a quota that is never used up.
fn limited(operation: Operation, challenge_after: u32) -> Write {
    let now = Millis::from_since_2000(800_000_000_000);
    let limits = FollowLimits { per_hour: 60, burst: 1_000, challenge_after, ..FollowLimits::none(now) };
    Write { limits: Some(limits), ..Write::from(operation) }
}

fn one(operation: Operation) -> Step {
    Step::One(limited(operation, 0))
}

fn keyed(operation: Operation, scope: u8) -> Step {
    let idempotency = Some(IdempotencyKey { scope: [scope; 16], request: 9 });
    Step::One(Write { idempotency, ..limited(operation, 1_000) })
}

/// Every kind of record, several segments, checkpoints over old blocks, a restart.
fn workload() -> Vec<Step> {
    let import = |follower: i64, target: i64| {
        let at = Millis::from_since_2000(1_000 * (follower as u64 % 3));
        Write::from(Operation::Import { follower: Key(follower), target: Key(target), at, quiet: false })
    };
    let mut steps: Vec<Step> = (1..=6).map(|number| one(user(number, number == 6))).collect();
    steps.extend([one(follow(1, 2)), keyed(follow(2, 1), 1), one(follow(3, 2)), one(follow(1, 6))]);
    steps.extend([
        one(record(1, 7, Some(1))),
        one(record(1, 8, Some(2))),
        one(record(4, 100, Some(3))),
        Step::Checkpoint,
    ]);
    steps.extend([one(unfollow(1, 2)), one(follow(4, 2)), keyed(follow(5, 2), 2), one(follow(1, 2))]);
    steps.push(Step::Many(vec![import(4, 1), import(5, 1), import(1, 1), import(4, 5), follow(2, 3).into()]));
    steps.extend([one(record(1, 7, Some(9))), one(mute(1, 5, 900_000_000))]);
    steps.extend([one(Operation::Block { actor: Key(2), target: Key(3) }), one(record(1, 8, None))]);
    steps.extend([one(member(4, 100, 5)), Step::Checkpoint, Step::Reopen]);
    steps.extend([one(user(7, false)), one(follow(7, 1)), one(unfollow(4, 2)), keyed(follow(2, 1), 1)]);
    steps.extend([
        one(Operation::Accept { target: Key(6), follower: Key(1) }),
        one(follow(3, 2)),
        one(erase(5)),
        Step::Checkpoint,
    ]);
    steps.extend([one(erase_edges(5, 2)), one(record(1, 9, Some(4))), keyed(post(1), 3)]);
    steps.extend([one(Operation::Unblock { actor: Key(2), target: Key(3) }), one(follow(3, 2)), one(unfollow(5, 2))]);
    steps
}

/// The same and more, over several checkpoints: too long to flip every bit of, short enough to cut everywhere.
fn long_workload() -> Vec<Step> {
    let mut steps = workload();
    for number in 10..18 {
        steps.extend([one(user(number, false)), one(follow(number, 1)), keyed(follow(number, 2), number as u8)]);
    }
    steps.extend([Step::Checkpoint, one(unfollow(12, 1)), one(user(12, true)), Step::Reopen, one(follow(13, 12))]);
    steps.extend([one(record(14, 3, Some(1))), one(post(14)), one(post(12)), one(post(14)), one(erase(14))]);
    steps.extend([one(erase_edges(14, 1)), Step::Checkpoint, one(erase_edges(14, 9)), one(erase_edges(14, 1))]);
    steps.extend([
        one(post(12)),
        one(erase_edges(14, 9)),
        one(user(14, false)),
        one(record(14, 4, Some(5))),
        one(follow(14, 1)),
    ]);
    steps.extend([one(record(4, 100, None)), one(mute(1, 15, 7)), Step::Checkpoint, one(erase(14)), Step::Reopen]);
    steps
}

/// How far a run came: steps that were acked, and the portrait after each.
struct Run {
    acked: usize,
    portraits: Vec<String>,
}

async fn run(disk: &CrashDisk, steps: &[Step], draw: bool) -> Run {
    let mut run = Run { acked: 0, portraits: Vec::new() };
    let Ok(mut store) = open_on(disk, options()) else { return run };
    for step in steps {
        let done = match step {
            Step::One(write) => match store.commit(write.clone()).await {
                Ok(_) => true,
                Err(error) => error.code().http_status() < 500,
            },
            Step::Many(writes) => store.commit_all(writes.clone()).await.iter().all(|result| match result {
                Ok(_) => true,
                Err(error) => error.code().http_status() < 500,
            }),
            Step::Checkpoint => store.checkpoint().await.is_ok(),
            Step::Reopen => {
                let closed = store.close().await.is_ok();
                drop(store);
                match open_on(disk, options()) {
                    Ok(opened) => store = opened,
                    Err(_) => return run,
                }
                closed
            }
        };
        if !done {
            return run;
        }
        run.acked += 1;
        if draw {
            run.portraits.push(portrait(&store).await.expect("a healthy store can be drawn"));
        }
    }
    run
}

async fn open_and_draw(disk: &CrashDisk) -> Result<String, String> {
    let store = open_on(disk, options()).map_err(|fault| fault.to_string())?;
    let drawn = portrait(&store).await.map_err(|error| error.to_string())?;
    let report = store.verify().await.map_err(|error| error.to_string())?;
    assert!(report.is_clean(), "{:#?}", report.problems);
    Ok(drawn)
}

/// The portraits a store may have after `acked` steps were acked and one more may have happened, in whole or, where
/// the step is several writes, in part.
fn allowed(steps: &[Step], portraits: &[String], acked: usize) -> Vec<String> {
    let empty = String::new();
    let mut allowed: Vec<String> = vec![acked.checked_sub(1).map_or(&empty, |last| &portraits[last]).clone()];
    if let Some(next) = portraits.get(acked) {
        allowed.push(next.clone());
    }
    if let Some(Step::Many(writes)) = steps.get(acked) {
        for count in 1..writes.len() {
            let mut part = steps[..acked].to_vec();
            part.push(Step::Many(writes[..count].to_vec()));
            allowed.extend(block_on(run(&CrashDisk::new(), &part, true)).portraits.pop());
        }
    }
    allowed
}

#[test]
fn every_crash_point_leaves_a_prefix_with_every_ack() {
    let steps = long_workload();
    let whole = CrashDisk::new();
    let reference = block_on(run(&whole, &steps, true));
    assert_eq!(reference.acked, steps.len(), "{}", whole.trace());
    let points = whole.operations();
    let (mut images, mut recoveries) = (0u64, 0u64);
    let is_long = std::env::var("ENTOURAGE_SOAK").is_ok_and(|soak| soak == "1");
    for point in 0..points {
        let disk = CrashDisk::new();
        disk.crash_after(point);
        let crashed = block_on(run(&disk, &steps, false));
        let allowed = allowed(&steps, &reference.portraits, crashed.acked);
        let chances = (0..4).map(|seed| Image::Random(point * 10 + seed));
        for image in [Image::Nothing, Image::Everything].into_iter().chain(chances) {
            let left = disk.image(image);
            let context =
                || format!("crash at {point} of {points}, {image:?}, {} steps acked\n{}", crashed.acked, disk.trace());
            images += 1;
            // Each one takes as long as all else: a third of the images have it here, and all of them in the long version.
            if is_long || (point + images) % 3 == 0 {
                recoveries += crash_during_recovery(&left, point, &allowed);
            }
            let drawn = block_on(open_and_draw(&left)).unwrap_or_else(|error| panic!("{error}\n{}", context()));
            assert!(allowed.contains(&drawn), "the store is neither before nor after the step\n{drawn}\n{}", context());
            // What was recovered once is recovered again, and takes writes that stay.
            assert_eq!(block_on(write_and_reopen(&left)), Ok(()), "{}", context());
        }
    }
    println!("{points} crash points, {images} images, {recoveries} crashes during recovery");
    assert!(points > 150, "the workload is too small to mean anything");
}

/// Cuts the power at every write of the recovery itself, and recovers from what that leaves.
fn crash_during_recovery(left: &CrashDisk, seed: u64, allowed: &[String]) -> u64 {
    let probe = left.deep_clone();
    let before = probe.operations();
    drop(open_on(&probe, options()).expect("the store opens"));
    let steps = probe.operations() - before;
    for step in 0..steps {
        let disk = left.deep_clone();
        disk.crash_after(disk.operations() + step);
        assert!(open_on(&disk, options()).is_err(), "recovery went on without a disk");
        let twice = disk.image(Image::Random(seed + step));
        let drawn = block_on(open_and_draw(&twice)).unwrap_or_else(|error| panic!("{error}\n{}", disk.trace()));
        assert!(allowed.contains(&drawn), "after a crash in recovery at {step} of {steps}\n{}", disk.trace());
    }
    steps
}

async fn write_and_reopen(disk: &CrashDisk) -> Result<(), String> {
    let store = open_on(disk, options()).map_err(|fault| fault.to_string())?;
    for operation in [user(50, false), user(51, false), follow(50, 51)] {
        store.commit(operation.into()).await.map_err(|error| error.to_string())?;
    }
    let drawn = portrait(&store).await.map_err(|error| error.to_string())?;
    drop(store);
    let again = open_and_draw(&disk.image(Image::Nothing)).await?;
    if again == drawn { Ok(()) } else { Err("the new writes are gone".into()) }
}

/// A store whose every file has something in it, closed or killed right after its last batch was sealed.
fn small_store(closed: bool) -> (CrashDisk, String) {
    let disk = CrashDisk::new();
    let run = block_on(run(&disk, &workload(), true));
    let store = open_on(&disk, Options { seal_after: Some(std::time::Duration::from_millis(1)), ..options() });
    let store = store.expect("the store opens");
    block_on(store.commit(user(1, false).into())).expect("nothing changes");
    let before = disk.operations();
    block_on(store.commit(user(9, false).into())).expect("a user is made");
    let drawn = block_on(portrait(&store)).expect("the store can be drawn");
    assert_ne!(Some(&drawn), run.portraits.last());
    if closed {
        block_on(store.close()).expect("the store closes");
    } else {
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(disk.operations() >= before + 4, "a batch and its seal are two writes and two syncs");
    }
    drop(store);
    (disk.image(Image::Everything), drawn)
}

/// Right, or refused with a name: never another answer.
fn check_damaged(disk: &CrashDisk, right: &str, what: &str) -> bool {
    match block_on(open_and_draw(disk)) {
        Ok(drawn) => {
            assert_eq!(drawn, right, "{what}: a wrong answer");
            true
        }
        Err(refusal) => {
            // A log without its first segment is what retention leaves: the events are gone, and it says so.
            let named = ["damaged", "format", "events_expired"].iter().any(|name| refusal.contains(name));
            assert!(named, "{what}: {refusal}");
            false
        }
    }
}

fn every_bit(closed: bool) {
    let (disk, right) = small_store(closed);
    let (mut harmless, mut refused) = (0, 0);
    for name in disk.names() {
        let contents = disk.contents(&name).expect("the file is there");
        // Every bit of what was written, and every 61st of the zeros around it.
        let is_used = |at: usize| contents[at..contents.len().min(at + 64)].iter().any(|byte| *byte != 0);
        let bits = (0..contents.len() * 8).filter(|bit| bit % 61 == 0 || is_used(bit / 8));
        for bit in bits {
            let flipped = disk.deep_clone();
            flipped.flip_bit(&name, bit as u64).expect("the bit is flipped");
            let right_answer = check_damaged(&flipped, &right, &format!("{name} bit {bit}"));
            if right_answer { harmless += 1 } else { refused += 1 }
        }
    }
    println!("closed: {closed}; flipped bits refused: {refused}, without effect: {harmless}");
    assert!(refused > 1_000);
}

#[test]
fn every_flipped_bit_of_a_closed_store_is_harmless_or_refused() {
    every_bit(true);
}

#[test]
fn every_flipped_bit_of_a_killed_store_is_harmless_or_refused() {
    every_bit(false);
}

#[test]
fn every_cut_file_is_harmless_or_refused() {
    let (disk, right) = small_store(true);
    let mut refused = 0;
    for name in disk.names() {
        let size = disk.contents(&name).expect("the file is there").len() as u64;
        for length in (0..size).step_by(3) {
            let cut = disk.deep_clone();
            cut.truncate(&name, length).expect("the file is cut");
            if !check_damaged(&cut, &right, &format!("{name} cut to {length} bytes")) {
                refused += 1;
            }
        }
        let gone = disk.deep_clone();
        entourage_store::disk::Disk::remove(&gone, &name).expect("the file is removed");
        if !check_damaged(&gone, &right, &format!("{name} removed")) {
            refused += 1;
        }
    }
    assert!(refused > 500, "{refused}");
}

/// The power goes in the first write to a new segment, the store is closed in order and opened: it goes on where it was.
#[test]
fn a_torn_first_frame_of_a_segment_and_an_orderly_stop_lose_no_count() {
    let disk = CrashDisk::new();
    let store = open_on(&disk, options()).expect("the store opens");
    let second = "log-000000000002.segment";
    let mut acked = 0;
    block_on(async {
        for number in 1.. {
            let last = store.commit(user(number, false).into()).await.expect("the disk is fine").watermark.sequence().0;
            if disk.names().iter().any(|name| name == second) {
                break;
            }
            acked = last;
        }
    });
    let torn = disk.image(Image::Everything);
    drop(store);
    torn.flip_bit(second, (40 + 40 + 3) * 8).expect("its first frame is there");
    block_on(async {
        for round in 0..3 {
            let store = open_on(&torn, options()).expect("a torn write is no damage");
            assert_eq!(store.last_event(0).await.expect("it is known").0, acked, "round {round}");
            store.close().await.expect("the store closes");
        }
        for round in 1..4 {
            let store = open_on(&torn, options()).expect("the store opens");
            let outcome = store.commit(user(1_000 + round as i64, false).into()).await.expect("writes go on");
            assert_eq!(outcome.watermark.sequence().0, acked + round);
            assert!(store.verify().await.expect("verify runs").is_clean());
            store.close().await.expect("the store closes");
        }
    });
}

/// A header of a frame of the first segment, all of it text, by somebody who knows the epoch and not the secret.
fn forged_header() -> String {
    let seed = identity().epoch ^ 0x9e37_79b9_7f4a_7c15;
    let headers = (0..1_000_000).map(|number| format!("EGFR{number:028}"));
    let mut signed = headers.filter_map(|header| {
        let sum = xxh3_64_with_seed(header.as_bytes(), seed).to_le_bytes();
        let is_text = sum.iter().all(|byte| (b' '..=b'~').contains(byte) && !b"\"\\".contains(byte));
        is_text.then(|| header + &String::from_utf8_lossy(&sum))
    });
    signed.next().expect("one of some thousands is text")
}

/// The power goes in the write of a post whose body looks like the frame that would come next: a torn write is no damage,
/// whatever stands in it.
#[test]
fn a_frame_in_the_body_of_a_torn_post_proves_nothing() {
    let disk = CrashDisk::new();
    let store = open_on(&disk, Options::tiny()).expect("the store opens");
    let body = format!(r#"{{"text":"{}"}}"#, forged_header());
    let acked = block_on(async {
        let acked = store.commit(user(1, false).into()).await.expect("the disk is fine").watermark;
        let post = Operation::Post { author: Key(1), value: Post::new(false, &body).encode() };
        store.commit(post.into()).await.expect("it is a post as any other");
        acked
    });
    let torn = disk.image(Image::Everything);
    drop(store);
    let segment = "log-000000000001.segment";
    let bytes = torn.contents(segment).expect("the segment is there");
    let frames: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"EGFR")).collect();
    let [_, posted, forged] = frames[..] else { panic!("{frames:?}") };
    assert!(bytes[forged..].starts_with(&body.as_bytes()[9..49]), "the body stands in the log as it was sent");
    torn.flip_bit(segment, (posted as u64 + 8) * 8).expect("its header is there");
    block_on(async {
        let store = open_on(&torn, Options::tiny()).expect("a torn write is no damage");
        assert_eq!(store.last_event(0).await.expect("it is known"), acked.sequence());
        store.commit(user(2, false).into()).await.expect("writes go on");
        assert!(store.verify().await.expect("verify runs").is_clean());
        store.close().await.expect("the store closes");
        drop(store);
        open_on(&torn, Options::tiny()).expect("the store opens again");
    });
}

/// A failed sync: nobody is told "done", nothing later is taken, and a fresh start finds what was acked.
#[test]
fn a_failed_sync_poisons_the_writer_until_the_store_is_opened_again() {
    for kind in [FailedSync::DropsWrites, FailedSync::ForgetsWrites] {
        let disk = CrashDisk::new();
        let store = open_on(&disk, options()).expect("the store opens");
        block_on(async {
            for operation in [user(1, false), user(2, false), user(3, false), follow(1, 2)] {
                store.commit(operation.into()).await.expect("the disk is fine");
            }
            disk.fail_sync(0, kind);
            let refused = store.commit(follow(2, 1).into()).await.expect_err("the sync failed");
            assert_eq!(refused.code().as_str(), "unavailable");
            for _ in 0..3 {
                // The disk works again; the writer does not believe it.
                store.commit(follow(3, 1).into()).await.expect_err("the writer is poisoned");
            }
            let health = format!("{:?}", store.health().await);
            assert!(health.contains("Poisoned"), "{health}");
            let page = store.scan(entourage_model::List::followers(Key(2)), None, 10).await.expect("reads go on");
            assert_eq!(page.total, 1);
            drop(store);
            for image in [Image::Nothing, Image::Everything, Image::Random(3)] {
                let store = open_on(&disk.image(image), options()).expect("the store opens again");
                let edge = store.get_edges(entourage_model::Kind::Follow, &[(Key(1), Key(2)), (Key(3), Key(1))]).await;
                let edge = edge.expect("reads go on");
                assert!(edge[0].is_some() && edge[1].is_none());
                store.commit(follow(3, 1).into()).await.expect("writes go on");
            }
        });
    }
}

/// A full disk refuses new segments before anything is half written, and is used again when it has room.
#[test]
fn a_full_disk_refuses_writes_and_takes_them_again() {
    let disk = CrashDisk::new();
    let store = Arc::new(open_on(&disk, options()).expect("the store opens"));
    block_on(async {
        store.commit(user(1, false).into()).await.expect("there is room");
        disk.set_capacity(Some(8 << 10));
        let mut made = Vec::new();
        let refusal = loop {
            let number = made.len() as i64 + 2;
            match store.commit(user(number, false).into()).await {
                Ok(_) => made.push(number),
                Err(error) => break error,
            }
            assert!(made.len() < 1_000, "the disk never fills");
        };
        assert_eq!(refusal.code().as_str(), "storage_full");
        assert!(refusal.retry_delay().is_some());
        assert!(format!("{:?}", store.health().await).contains("StorageFull"));
        assert_eq!(store.sweep_all().await.expect("reads go on").len(), made.len() + 1);
        disk.set_capacity(Some(1));
        assert!(store.checkpoint().await.is_err(), "a checkpoint needs room too");
        store.commit(user(900, false).into()).await.expect_err("still full");
        disk.set_capacity(None);
        store.commit(user(901, false).into()).await.expect("there is room again");
        assert_eq!(format!("{:?}", store.health().await), "Ready");
        store.checkpoint().await.expect("a checkpoint is made");
        assert!(store.verify().await.expect("verify runs").is_clean());
        let drawn = portrait(&*store).await.expect("the store can be drawn");
        drop(store);
        assert_eq!(open_and_draw(&disk.image(Image::Nothing)).await, Ok(drawn));
    });
}

/// A checkpoint that fails anywhere leaves everything readable, and the next attempt finishes it.
#[test]
fn a_checkpoint_that_fails_anywhere_is_taken_up_again() {
    let mut failures = 0;
    for allowed_writes in 0..4 {
        let disk = CrashDisk::new();
        let store = open_on(&disk, options()).expect("the store opens");
        block_on(async {
            for number in 1..=5 {
                store.commit(user(number, false).into()).await.expect("there is room");
            }
            store.checkpoint().await.expect("a first checkpoint is made");
            for follower in 1..=4 {
                store.commit(follow(follower, 5).into()).await.expect("there is room");
            }
            store.commit(unfollow(2, 5).into()).await.expect("there is room");
            let drawn = portrait(&store).await.expect("the store can be drawn");
            let left = Arc::new(AtomicI32::new(allowed_writes));
            let counted = Arc::clone(&left);
            let concerns = move |name: &str| !name.starts_with("log-") && counted.fetch_sub(1, Ordering::SeqCst) <= 0;
            disk.fail_write_with(std::io::ErrorKind::StorageFull, concerns, 1);
            // One write fails, in the first checkpoint or in the next.
            let first = store.checkpoint().await;
            assert_eq!(portrait(&store).await.expect("the store can be drawn"), drawn);
            let second = store.checkpoint().await;
            assert!(first.is_ok() || second.is_ok(), "{allowed_writes}: {first:?}, {second:?}");
            assert_eq!(portrait(&store).await.expect("the store can be drawn"), drawn);
            store.checkpoint().await.expect("the one after that is made");
            // Whoever asked may have heard only of the attempt after the failed one.
            failures += u32::from(left.load(Ordering::SeqCst) < 0);
            let drawn_again = portrait(&store).await.expect("the store can be drawn");
            assert_eq!(drawn_again, drawn);
            drop(store);
            assert_eq!(open_and_draw(&disk.image(Image::Nothing)).await, Ok(drawn));
        });
    }
    assert!(failures >= 3, "{failures}");
}
