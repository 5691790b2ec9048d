//! What the embedded log lets go of, when, and what readers are told: by size, by age, and never past a checkpoint.

use std::{io, time::Duration};

use crate::embedded_kit::{open_at, open_on, still_clock};
use entourage_embedded::{Options, Store};
use entourage_model::{Code, Key, Operation, Overwrite, Sequence, UserId, UserPatch};
use entourage_store::{Store as _, StoreExt as _, disk::Disk as _};
use entourage_testkit::portrait::graph;
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};

const HOUR_MILLIS: u64 = 60 * 60 * 1000;
const SEGMENT: u64 = 16 << 10;

/// Two segments are as much as may stay.
fn small() -> Options {
    Options { log_retain_bytes: 2 * SEGMENT, ..Options::tiny() }
}

async fn people(store: &Store) {
    for key in 1..=20 {
        let (id, patch) = (UserId::from(key), UserPatch::default());
        let put = Operation::PutUser { key: Key(key), id, patch, overwrite: Overwrite::Replace };
        store.commit(put.into()).await.unwrap();
    }
}

/// Every call changes this many edges, and so makes this many events.
async fn change_edges(store: &Store, count: usize) {
    for turn in 0..count {
        let (follower, target) = (Key(turn as i64 % 19 + 1), Key(20));
        let unfollow = Operation::Unfollow { follower, target };
        if !store.commit(unfollow.into()).await.unwrap().changes.is_empty() {
            continue;
        }
        let follow = Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false };
        assert_eq!(store.commit(follow.into()).await.unwrap().changes.len(), 1);
    }
}

/// Where a reader that begins at the beginning is told to resume; 0 if everything is kept.
async fn first_kept(store: &Store) -> u64 {
    match store.events_after(Sequence::ZERO, 1).await {
        Ok(events) => {
            assert_eq!(events.first().unwrap().sequence, Sequence(1));
            0
        }
        Err(error) => {
            assert_eq!(error.code(), Code::EventsExpired);
            error.resume().unwrap().parse().unwrap()
        }
    }
}

/// Resuming where one is told to gives every event up to `last`; anything below is refused with the same sequence.
async fn assert_resumes(store: &Store, last: u64) -> u64 {
    let resume = first_kept(store).await;
    for after in [0, 1, resume / 2, resume.saturating_sub(1)].into_iter().filter(|after| *after < resume) {
        let error = store.events_after(Sequence(after), 10).await.unwrap_err();
        assert_eq!((error.code(), error.resume()), (Code::EventsExpired, Some(resume.to_string().as_str())));
    }
    let mut next = resume;
    loop {
        let events = store.events_after(Sequence(next), 7).await.unwrap();
        if events.is_empty() {
            break;
        }
        for event in events {
            next += 1;
            assert_eq!(event.sequence, Sequence(next));
        }
    }
    assert_eq!(next, last);
    resume
}

async fn assert_clean(store: &Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

fn segments(disk: &CrashDisk) -> usize {
    disk.list().unwrap().iter().filter(|name| name.ends_with(".segment")).count()
}

/// Up to where something is written.
fn used(disk: &CrashDisk, name: &str) -> u64 {
    disk.contents(name).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

#[test]
fn a_large_log_loses_its_oldest_segments_at_a_checkpoint_and_not_before() {
    block_on(async {
        let disk = CrashDisk::new();
        let store = open_on(&disk, small()).unwrap();
        people(&store).await;
        change_edges(&store, 980).await;
        let before = segments(&disk);
        assert!(before >= 4, "{before} segments");
        assert_eq!(assert_resumes(&store, 1_000).await, 0);
        let known = graph(&store).await.unwrap();

        store.checkpoint().await.unwrap();
        assert_eq!(segments(&disk), 2);
        assert_eq!(store.disk_bytes().unwrap().1, 2 * SEGMENT);
        let resume = assert_resumes(&store, 1_000).await;
        assert!(resume > 500 && resume < 1_000, "{resume}");
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;

        store.close().await.unwrap();
        drop(store);
        let store = open_on(&disk, small()).unwrap();
        assert_eq!(assert_resumes(&store, 1_000).await, resume);
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;
        change_edges(&store, 20).await;
        assert_eq!(assert_resumes(&store, 1_020).await, resume);
        assert_clean(&store).await;
    });
}

#[test]
fn an_old_segment_goes_when_its_youngest_event_is_old() {
    block_on(async {
        let (disk, clock) = (CrashDisk::new(), still_clock());
        let options = Options { log_retention: Duration::from_millis(HOUR_MILLIS), ..Options::tiny() };
        let store = open_at(&disk, options, &clock).unwrap();
        people(&store).await;
        change_edges(&store, 480).await;
        clock.advance(HOUR_MILLIS / 2);
        change_edges(&store, 500).await;
        store.checkpoint().await.unwrap();
        assert_eq!(assert_resumes(&store, 1_000).await, 0);

        clock.advance(HOUR_MILLIS * 2 / 3);
        assert_eq!(first_kept(&store).await, 0);
        store.checkpoint().await.unwrap();
        // The segment in which the two halves meet is kept whole.
        let first = assert_resumes(&store, 1_000).await;
        assert!(first > 100 && first <= 500, "{first}");
        assert_clean(&store).await;
        let known = graph(&store).await.unwrap();

        // A store that was opened again knows how old its segments are.
        drop(store);
        let store = open_at(&disk, options, &clock).unwrap();
        store.checkpoint().await.unwrap();
        assert_eq!(assert_resumes(&store, 1_000).await, first);
        clock.advance(2 * HOUR_MILLIS);
        assert_eq!(first_kept(&store).await, first);
        store.checkpoint().await.unwrap();
        let second = assert_resumes(&store, 1_000).await;
        assert_eq!(segments(&disk), 1);
        assert!(second > 500, "{second}");
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;
    });
}

/// The power goes while segments go: the folder may keep any of them, also with gaps between.
#[test]
fn a_power_cut_while_segments_go_loses_nothing_that_is_kept() {
    block_on(async {
        let disk = CrashDisk::new();
        let store = open_on(&disk, small()).unwrap();
        people(&store).await;
        change_edges(&store, 980).await;
        store.checkpoint().await.unwrap();
        let known = graph(&store).await.unwrap();
        let resume = first_kept(&store).await;
        let images = (0..60).map(Image::Random).chain([Image::Nothing, Image::Everything]);
        for image in images {
            let cut = disk.image(image);
            let store = open_on(&cut, small()).unwrap_or_else(|fault| panic!("{image:?}: {fault}"));
            assert!(assert_resumes(&store, 1_000).await <= resume, "{image:?}");
            assert_eq!(graph(&store).await.unwrap(), known, "{image:?}");
            assert_clean(&store).await;
        }
    });
}

/// A checkpoint that took long covers a segment that is full by now: recovery begins in it, so it stays.
#[test]
fn the_segment_of_the_checkpoint_stays() {
    block_on(async {
        let disk = CrashDisk::new();
        let options = Options { log_retain_bytes: 1, ..Options::tiny() };
        let store = open_on(&disk, options).unwrap();
        people(&store).await;
        while used(&disk, "log-000000000001.segment") < SEGMENT - (4 << 10) {
            change_edges(&store, 1).await;
        }
        let is_checkpoint = |name: &String| name.starts_with("checkpoint");
        disk.fail_write_with(io::ErrorKind::Other, |name| !name.ends_with("segment"), 2);
        store.checkpoint().await.unwrap_err();
        assert!(!disk.names().iter().any(is_checkpoint), "{:?}", disk.names());
        // One frame that does not fit behind the others: the segment that was frozen gets nothing more.
        let name = Some(Some("x".repeat(200).into()));
        let patch = UserPatch { name, ..UserPatch::default() };
        let named = |key: i64| Operation::PutUser {
            key: Key(key),
            id: UserId::from(key),
            patch: patch.clone(),
            overwrite: Overwrite::Merge,
        };
        let many = store.commit_all((1..=20).map(|key| named(key).into()).collect()).await;
        assert!(many.iter().all(Result::is_ok));
        assert_eq!(segments(&disk), 2);
        let known = graph(&store).await.unwrap();
        let last = store.events_after(Sequence::ZERO, usize::MAX).await.unwrap().len() as u64;
        for _ in 0..1_000 {
            if disk.names().iter().any(is_checkpoint) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(store);
        assert!(disk.names().iter().any(is_checkpoint), "{:?}", disk.names());
        let store = open_on(&disk, options).unwrap();
        assert_eq!(assert_resumes(&store, last).await, 0);
        assert_eq!(graph(&store).await.unwrap(), known);
        assert_clean(&store).await;
    });
}
