//! The embedded backend under the whole suite, with checkpoints, restarts, crashes and retention in between.

use std::{sync::Arc, time::Duration};

use crate::embedded_kit::{TemporaryFolder, open_on, open_real};
use entourage_embedded::{Options, Store};
use entourage_store::StoreExt as _;
use entourage_testkit::{
    conformance::{
        Fixture, block_on,
        random::{self, Plan},
    },
    crash_disk::{CrashDisk, Image},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Small segments, and a checkpoint every few hundred changes by itself.
fn busy() -> Options {
    Options { segment_bytes: 256 << 10, frame_bytes: 64 << 10, checkpoint_entries: 500, ..Options::default() }
}

async fn fresh() -> Fixture {
    let disk = CrashDisk::new();
    let store: Arc<dyn entourage_store::Store> = Arc::new(open_on(&disk, busy()).expect("the store opens"));
    Fixture::from(store).reopened_by(move |closed| {
        drop(closed);
        let disk = disk.clone();
        async move { Arc::new(open_on(&disk, busy()).expect("the store opens again")) as Arc<dyn entourage_store::Store> }
    })
}

entourage_testkit::conformance!(fresh = fresh, skips = []);

mod on_a_real_disk {
    use super::*;

    async fn fresh() -> Fixture {
        let folder = Arc::new(TemporaryFolder::new());
        let open = |folder: &TemporaryFolder| -> Arc<dyn entourage_store::Store> {
            Arc::new(open_real(folder.path(), busy()).expect("the store opens"))
        };
        Fixture::from(open(&folder)).reopened_by(move |closed| {
            drop(closed);
            let folder = Arc::clone(&folder);
            async move { open(&folder) }
        })
    }

    entourage_testkit::conformance!(fresh = fresh, skips = []);
}

#[test]
fn random_operations_agree_with_the_reference() {
    random::run_seeds(10, 2_000, fresh);
}

/// Between steps: checkpoints, clean restarts, and power cuts that keep a random part of what was not synced.
#[test]
fn random_operations_agree_across_checkpoints_restarts_and_power_cuts() {
    let soak = std::env::var("ENTOURAGE_SOAK").is_ok_and(|soak| soak == "1");
    let seeds: Vec<u64> = match std::env::var("ENTOURAGE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENTOURAGE_SEED is a number")],
        Err(_) => (0..if soak { 400 } else { 12 }).map(|_| rand::rng().random()).collect(),
    };
    for seed in seeds {
        println!("seed {seed}");
        block_on(one_stormy_run(seed));
    }
}

async fn one_stormy_run(seed: u64) {
    let options = Options { segment_bytes: 32 << 10, log_retain_bytes: 128 << 10, ..Options::tiny() };
    let mut disk = CrashDisk::new();
    let mut weather = StdRng::seed_from_u64(seed);
    let store = Arc::new(open_on(&disk, options).expect("the store opens"));
    let mut current: Arc<Store> = Arc::clone(&store);
    let run = random::run(store, Plan::new(seed, 2_000), async |_, store| {
        match weather.random_range(0..60) {
            0 | 1 => current.checkpoint().await.expect("a checkpoint is made"),
            2 => {
                store.close().await.expect("the store closes");
                drop(store);
                current = Arc::new(open_on(&disk, options).expect("the store opens again"));
            }
            3 => {
                let image = disk.image(Image::Random(weather.random()));
                disk = image;
                drop(store);
                current = Arc::new(open_on(&disk, options).expect("the store opens after a power cut"));
            }
            _ => {}
        }
        Arc::clone(&current) as Arc<dyn entourage_store::Store>
    });
    if let Err(failure) = run.await {
        panic!("{failure}");
    }
}

#[test]
fn a_second_process_is_told_who_is_in() {
    let folder = TemporaryFolder::new();
    let first = open_real(folder.path(), busy()).expect("the store opens");
    let refused = open_real(folder.path(), busy()).err().expect("the second one is refused").to_string();
    assert!(refused.contains("in use by another process"), "{refused}");
    drop(first);
    assert!(open_real(folder.path(), busy()).is_ok());
}

#[test]
fn an_idle_log_is_sealed() {
    let disk = CrashDisk::new();
    let options = Options { seal_after: Some(Duration::from_millis(1)), ..Options::tiny() };
    let store = open_on(&disk, options).expect("the store opens");
    let before = disk.operations();
    block_on(async {
        let id = entourage_model::UserId::from(1);
        let operation = entourage_model::Operation::PutUser {
            key: entourage_model::Key(1),
            id,
            patch: entourage_model::UserPatch::default(),
            overwrite: entourage_model::Overwrite::Keep,
        };
        store.commit(operation.into()).await.expect("the user is made");
    });
    let written = disk.operations();
    assert!(written > before);
    for _ in 0..400 {
        if disk.operations() > written {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no seal was written");
}
