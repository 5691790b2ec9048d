//! Backups taken while writers run and checkpoints come and go, and their way back: what was acked before is in them,
//! what is damaged is refused by name, what was cut off never opens as a smaller store.

use std::{
    collections::HashMap,
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::embedded_kit::{TemporaryFolder, identity, open_on};
use entourage_embedded::{Fault, Options, Store, restore};
use entourage_model::{Event, EventBody, Key, Kind, Operation, Overwrite, Sequence, UserId, UserPatch};
use entourage_store::{
    Store as _, StoreExt as _, SystemClock,
    disk::{Disk, RealDisk},
};
use entourage_testkit::portrait::portrait;
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const USERS: i64 = 40;
const WRITERS: u64 = 8;
const BACKUPS: usize = 6;

/// Segments and checkpoints are made all the time.
fn busy() -> Options {
    Options {
        segment_bytes: 16 << 10,
        frame_bytes: 4 << 10,
        checkpoint_entries: 200,
        seal_after: Some(Duration::from_millis(2)),
        ..Options::default()
    }
}

fn open(disk: Arc<dyn Disk>) -> Store {
    Store::open_as(disk, "the test disk", busy(), Arc::new(SystemClock), identity).unwrap()
}

fn user(number: i64, name: &str) -> Operation {
    let patch = UserPatch { name: Some(Some(name.into())), ..UserPatch::default() };
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite: Overwrite::Replace }
}

fn draw(random: &mut StdRng) -> Operation {
    let (a, b) = (random.random_range(0..USERS), random.random_range(1..USERS));
    let (follower, target) = (Key(a), Key((a + b) % USERS));
    match random.random_range(0..16) {
        0..8 => Operation::Follow { follower, target, quiet: Some(b % 5 == 0), cap: None, park: false },
        8..12 => Operation::Unfollow { follower, target },
        12 => Operation::Block { actor: follower, target },
        13..15 => Operation::Unblock { actor: follower, target },
        _ => user(a, &format!("name {b}")),
    }
}

async fn write(store: Arc<Store>, seed: u64, acked: Arc<AtomicU64>, over: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(seed);
    while !over.load(Ordering::Relaxed) {
        match store.commit(draw(&mut random).into()).await {
            Ok(outcome) => drop(acked.fetch_max(outcome.watermark.sequence().0, Ordering::SeqCst)),
            Err(error) => assert!(error.code().http_status() < 500, "{error}"),
        }
    }
}

async fn all_events(store: &Store) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let page = store.events_after(events.last().map_or(Sequence::ZERO, |event| event.sequence), 500).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// A backup: what had been acked when it was asked for, and the folder.
struct Taken {
    acked: u64,
    disk: Arc<dyn Disk>,
}

/// Takes backups of a store under load into folders from `target`, restores them into folders from `fresh`, and
/// compares each with what the store itself says in the end.
async fn back_up_under_load(
    disk: Arc<dyn Disk>,
    target: impl Fn(usize) -> Arc<dyn Disk>,
    fresh: impl Fn(usize) -> Arc<dyn Disk>,
) {
    let store = Arc::new(open(disk));
    for number in 0..USERS {
        store.commit(user(number, "somebody").into()).await.unwrap();
    }
    let (acked, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|seed| tokio::spawn(write(Arc::clone(&store), seed, Arc::clone(&acked), Arc::clone(&over))))
        .collect();
    let mut taken = Vec::new();
    for number in 0..BACKUPS {
        tokio::time::sleep(Duration::from_millis(60)).await;
        if number % 2 == 1 {
            store.checkpoint().await.unwrap();
        }
        let (before, disk) = (acked.load(Ordering::SeqCst), target(number));
        let copied = store.backup(Arc::clone(&disk), |done, total| assert!(done <= total)).await.unwrap();
        assert!(copied > 0);
        taken.push(Taken { acked: before, disk });
    }
    over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let events = all_events(&store).await;
    let mut lengths = Vec::new();
    for (number, Taken { acked, disk }) in taken.iter().enumerate() {
        let to = fresh(number);
        restore(&**disk, &*to, |done, total| assert!(done <= total)).unwrap();
        let restored = open(to);
        let report = restored.verify().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.problems);
        let kept = all_events(&restored).await;
        assert!(kept.len() as u64 >= *acked, "backup {number} has {} events, {acked} were acked before", kept.len());
        assert_eq!(kept, events[..kept.len()], "backup {number} is not a prefix");
        is_what_its_events_say(&restored, &kept).await;
        let outcome = restored.commit(user(USERS, "new").into()).await.unwrap();
        assert_eq!(outcome.watermark.sequence(), Sequence(kept.len() as u64 + 1));
        lengths.push(kept.len());
    }
    let checkpoints = taken.iter().filter(|taken| has_checkpoint(&*taken.disk)).count();
    println!("backups of {lengths:?} of {} events; {checkpoints} with a checkpoint", events.len());
    assert!(lengths.is_sorted_by(|earlier, later| earlier < later) && checkpoints > 1, "too little happened meanwhile");
}

fn has_checkpoint(disk: &dyn Disk) -> bool {
    disk.list().unwrap().iter().any(|name| name.starts_with("checkpoint-"))
}

async fn is_what_its_events_say(store: &Store, events: &[Event]) {
    let mut edges = HashMap::new();
    for event in events {
        if let EventBody::Edge { kind, follower, target, after, quiet, .. } = event.body {
            edges.insert((kind, follower, target), after.map(|state| (state, quiet, event.version)));
        }
    }
    for kind in Kind::ALL {
        let pairs: Vec<(Key, Key)> = (0..USERS).flat_map(|a| (0..USERS).map(move |b| (Key(a), Key(b)))).collect();
        for (pair, value) in pairs.iter().zip(store.get_edges(kind, &pairs).await.unwrap()) {
            let said = edges.get(&(kind, pair.0, pair.1)).copied().flatten();
            assert_eq!(value.map(|value| (value.state, value.quiet, value.version)), said, "{kind:?} {pair:?}");
        }
    }
}

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap().block_on(test);
}

#[test]
fn backups_under_load_are_prefixes_with_every_ack_on_a_real_disk() {
    let folder = TemporaryFolder::new();
    let real = |name: String| Arc::new(RealDisk::new(folder.path().join(name)).unwrap()) as Arc<dyn Disk>;
    run(back_up_under_load(
        real("data".into()),
        |number| real(format!("backup-{number}")),
        |number| real(format!("restored-{number}")),
    ));
}

#[test]
fn backups_under_load_are_prefixes_with_every_ack_on_a_simulated_disk() {
    run(back_up_under_load(Arc::new(CrashDisk::new()), |_| Arc::new(CrashDisk::new()), |_| Arc::new(CrashDisk::new())));
}

/// A small store, closed or not, and its backup.
fn small(options: Options, checkpoint: bool) -> (String, CrashDisk) {
    block_on(async {
        let (disk, backup) = (CrashDisk::new(), CrashDisk::new());
        let store = open_on(&disk, options).unwrap();
        let mut random = StdRng::seed_from_u64(5);
        for number in 0..USERS {
            store.commit(user(number, "somebody").into()).await.unwrap();
        }
        for step in 0..80 {
            let _ = store.commit(draw(&mut random).into()).await;
            if checkpoint && step == 50 {
                store.checkpoint().await.unwrap();
            }
        }
        store.backup(Arc::new(backup.clone()), |_, _| {}).await.unwrap();
        (portrait(&store).await.unwrap(), backup)
    })
}

fn tiny() -> Options {
    Options { segment_bytes: 4 << 10, frame_bytes: 1 << 10, ..Options::tiny() }
}

fn redrawn(disk: &CrashDisk) -> Result<String, Fault> {
    let store = open_on(disk, tiny())?;
    Ok(block_on(portrait(&store)).unwrap())
}

#[test]
fn a_backup_outlives_a_power_cut_as_soon_as_it_is_done() {
    let (drawn, backup) = small(tiny(), true);
    let to = CrashDisk::new();
    restore(&backup.image(Image::Nothing), &to, |_, _| {}).unwrap();
    assert_eq!(redrawn(&to.image(Image::Nothing)).unwrap(), drawn);
}

/// Restores what must not be restored: the error names the file, and nothing is left behind.
fn refused(backup: &CrashDisk, name: &str, what: &str) {
    let to = CrashDisk::new();
    let fault = restore(backup, &to, |_, _| {}).expect_err(&format!("{name}, {what}: restored all the same"));
    assert!(fault.to_string().contains(name), "{name}, {what}: {fault}");
    assert_eq!(to.list().unwrap(), Vec::<String>::new(), "{name}, {what}");
}

#[test]
fn a_damaged_backup_is_refused_by_name() {
    let (_, backup) = small(tiny(), true);
    let names = backup.list().unwrap();
    assert!(names.len() > 6, "{names:?}");
    for name in &names {
        let size = backup.open(name).unwrap().size().unwrap();
        for offset in (0..size).step_by(97).chain([size - 1]) {
            let damaged = backup.deep_clone();
            damaged.flip_bit(name, offset * 8 + offset % 8).unwrap();
            refused(&damaged, name, &format!("byte {offset} of {size}"));
        }
        for kept in [0, size / 2, size - 1] {
            let cut = backup.deep_clone();
            cut.truncate(name, kept).unwrap();
            refused(&cut, name, &format!("cut to {kept} bytes of {size}"));
        }
        let missing = backup.deep_clone();
        missing.remove(name).unwrap();
        refused(&missing, name, "missing");
    }
}

#[test]
fn a_list_of_files_never_leads_out_of_its_folder() {
    let (_, backup) = small(tiny(), false);
    let text = String::from_utf8(backup.contents("BACKUP").unwrap()).unwrap();
    let lines = text[..text.rfind("end ").unwrap()].replace("identity ", "../identity ");
    let sum = xxhash_rust::xxh3::xxh3_64(lines.as_bytes());
    let file = backup.create("BACKUP").unwrap();
    file.write_at(format!("{lines}end {sum:016x}\n").as_bytes(), 0).unwrap();
    refused(&backup, "BACKUP", "a name with a separator");
}

#[test]
fn folders_that_hold_something_are_left_alone() {
    let (_, backup) = small(tiny(), false);
    let to = CrashDisk::new();
    to.create("letter").unwrap();
    let fault = restore(&backup, &to, |_, _| {}).unwrap_err();
    assert!(matches!(&fault, Fault::Io(error) if error.kind() == ErrorKind::AlreadyExists), "{fault}");
    let store = open_on(&CrashDisk::new(), tiny()).unwrap();
    let error = block_on(store.backup(Arc::new(to.clone()), |_, _| {})).unwrap_err();
    assert!(error.detail().contains("not empty"), "{error}");
    assert_eq!(to.list().unwrap(), ["letter"]);
}

#[test]
fn a_restore_that_was_cut_off_never_opens_as_a_smaller_store() {
    let (drawn, backup) = small(tiny(), true);
    let whole = CrashDisk::new();
    restore(&backup, &whole, |_, _| {}).unwrap();
    let (mut refusals, mut opened) = (0, 0);
    for cut in 0..whole.operations() {
        let to = CrashDisk::new();
        to.crash_after(cut);
        restore(&backup, &to, |_, _| {}).expect_err("the power was cut");
        for image in [Image::Nothing, Image::Everything, Image::Random(cut), Image::Random(cut + 1_000)] {
            let left = to.image(image);
            if left.list().unwrap().is_empty() {
                continue;
            }
            match redrawn(&left) {
                Ok(found) => {
                    assert!(found == drawn, "cut at {cut}, {image:?}: another store\n{}", to.trace());
                    opened += 1;
                }
                Err(_) => refusals += 1,
            }
        }
    }
    println!("{refusals} refused, {opened} whole");
    assert!(refusals > 50);
}
