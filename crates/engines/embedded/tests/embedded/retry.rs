//! Power cuts between a request's key and its effect: neither is ever there without the other.

use crate::embedded_kit::open_on;
use entourage_embedded::Options;
use entourage_model::{
    Event, EventBody, IdempotencyKey, Key, Kind, Operation, Overwrite, Sequence, UserId, UserPatch, Write,
};
use entourage_store::{Store as _, StoreExt as _};
use entourage_testkit::{
    conformance::block_on,
    crash_disk::{CrashDisk, Image},
};

const FOLLOWS: i64 = 12;

fn options() -> Options {
    Options { segment_bytes: 1 << 10, frame_bytes: 512, ..Options::tiny() }
}

fn user(number: i64) -> Write {
    let (patch, overwrite) = (UserPatch::default(), Overwrite::Keep);
    Operation::PutUser { key: Key(number), id: UserId::from(number), patch, overwrite }.into()
}

/// Each with a key of its own.
fn follow(number: i64) -> Write {
    let idempotency = Some(IdempotencyKey { scope: [number as u8; 16], request: 9 });
    let follow =
        Operation::Follow { follower: Key(number), target: Key(0), quiet: Some(false), cap: None, park: false };
    Write { idempotency, ..Write::from(follow) }
}

/// How many follows were acked before the power went.
async fn run(disk: &CrashDisk) -> i64 {
    let Ok(store) = open_on(disk, options()) else { return 0 };
    for number in 0..=FOLLOWS {
        if store.commit(user(number)).await.is_err() {
            return 0;
        }
    }
    for number in 1..=FOLLOWS {
        if store.commit(follow(number)).await.is_err() {
            return number - 1;
        }
        if number % 4 == 0 && store.checkpoint().await.is_err() {
            return number;
        }
    }
    FOLLOWS
}

async fn judge(disk: &CrashDisk, acked: i64) {
    let store = open_on(disk, options()).expect("the store opens");
    for number in 1..=FOLLOWS {
        let edge = |edges: Vec<Option<_>>| edges[0].is_some();
        let pair = [(Key(number), Key(0))];
        let there = edge(store.get_edges(Kind::Follow, &pair).await.expect("an answer"));
        assert!(there || number > acked, "an acked follow is gone");
        match store.commit(follow(number)).await {
            Ok(outcome) => {
                assert_eq!(outcome.replayed, there, "a key without its effect, or an effect without its key")
            }
            Err(error) => assert!(!there && error.code().http_status() == 404, "{error}"),
        }
    }
    let events = store.events_after(Sequence::ZERO, 1_000).await.expect("events");
    for number in 1..=FOLLOWS {
        let is_of_edge =
            |event: &&Event| matches!(event.body, EventBody::Edge { follower, .. } if follower == Key(number));
        let of_edge = events.iter().filter(is_of_edge);
        assert!(of_edge.count() <= 1, "a retry made a second event");
    }
}

/// Whether each edge has its event, whatever else was lost.
async fn compare_with_events(disk: &CrashDisk) {
    let store = open_on(disk, options()).expect("the store opens");
    let pairs: Vec<_> = (1..=FOLLOWS).map(|number| (Key(number), Key(0))).collect();
    let edges = store.get_edges(Kind::Follow, &pairs).await.expect("an answer");
    let events = store.events_after(Sequence::ZERO, 1_000).await.expect("events");
    let told = events.iter().filter_map(|event| match event.body {
        EventBody::Edge { follower, .. } => Some((follower, event.version)),
        _ => None,
    });
    let there = pairs.iter().zip(edges).filter_map(|((follower, _), edge)| Some((*follower, edge?.version)));
    assert_eq!(
        told.collect::<Vec<_>>(),
        there.collect::<Vec<_>>(),
        "an edge without its event, or the other way round"
    );
}

/// Cuts the power at every write and sync of the run, in several ways; how many pictures of the disk that made.
fn at_every_crash(judge: impl Fn(&CrashDisk, i64)) -> usize {
    let whole = CrashDisk::new();
    assert_eq!(block_on(run(&whole)), FOLLOWS);
    let points = whole.operations();
    assert!(points > 50, "the workload is too small to mean anything");
    let mut images = 0;
    for point in 0..points {
        let disk = CrashDisk::new();
        disk.crash_after(point);
        let acked = block_on(run(&disk));
        let chances = (0..4).map(|seed| Image::Random(point * 10 + seed));
        for image in [Image::Nothing, Image::Everything].into_iter().chain(chances) {
            judge(&disk.image(image), acked);
            images += 1;
        }
    }
    println!("{points} crash points, {images} images");
    images
}

/// The record of a request written before its effect would answer a retry with a success that never was.
#[test]
fn the_record_of_a_request_is_never_there_without_its_effect() {
    assert!(at_every_crash(|disk, acked| block_on(judge(disk, acked))) > 300);
}

/// Stored first and published afterwards, an edge would be there of which nobody is ever told.
#[test]
fn an_edge_is_never_there_without_its_event() {
    assert!(at_every_crash(|disk, _| block_on(compare_with_events(disk))) > 300);
}
