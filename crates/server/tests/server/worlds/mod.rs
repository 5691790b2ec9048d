//! Non-interference: two stores that differ only in what a viewer may not see are the same to that viewer.

pub(crate) mod pair;

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::{Clock, Secret};
use entourage_store::{Identity, Store, SystemClock};
use entourage_testkit::crash_disk::CrashDisk;

use self::pair::{Open, Stores, planted::Leak, run, run_seeds};

fn in_memory() -> Stores {
    let open = || -> Open {
        Box::new(|clock: Arc<dyn Clock>| {
            let identity = Identity { epoch: 0x0123_4567_89ab_cdef, secret: Secret::from_bytes([7; 32]) };
            Arc::new(memory::Store::new(identity, clock)) as Arc<dyn Store>
        })
    };
    Stores { open: [open(), open()], are_strangers: false, are_durable: false }
}

fn embedded_at(disk: CrashDisk, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let options = embedded::Options {
        segment_bytes: 256 << 10,
        frame_bytes: 64 << 10,
        checkpoint_entries: 100,
        ..embedded::Options::default()
    };
    Arc::new(embedded::Store::open(Arc::new(disk), "the test disk", options, clock).unwrap())
}

/// Both begin as copies of one store: they have its secret.
fn on_disk() -> Stores {
    let disk = CrashDisk::new();
    drop(embedded_at(disk.clone(), Arc::new(SystemClock)));
    let open = || -> Open {
        let copy = disk.deep_clone();
        Box::new(move |clock| embedded_at(copy.clone(), clock))
    };
    Stores { open: [open(), open()], are_strangers: false, are_durable: true }
}

#[test]
fn worlds_in_memory_are_the_same_to_whom_their_differences_are_hidden_from() {
    run_seeds(4, in_memory);
}

#[test]
fn worlds_on_an_embedded_store_are_the_same_across_a_restart() {
    run_seeds(2, on_disk);
}

#[test]
fn every_leak_that_is_put_back_is_found() {
    for (leak, sign) in Leak::ALL {
        let found = (0..6).find_map(|seed| run(seed, in_memory(), Some(leak)).err());
        let found = found.unwrap_or_else(|| panic!("{leak:?} goes unnoticed"));
        assert!(found.contains(sign), "{leak:?} is found by something else: {found}");
        println!("{leak:?}: {}", found.lines().nth(1).unwrap_or_default());
    }
}

#[test]
fn every_command_has_a_row_and_every_row_a_command() {
    pair::check_commands(in_memory());
}
