//! Mistakes of other graphs, tried on memory, on homes that settle and on an embedded store in a folder of its own.

use entourage_testkit::service::{homes as homes_kit, mistakes as mistakes_kit};

use std::{path::PathBuf, sync::Arc};

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_model::Secret;
use entourage_store::{Identity, SystemClock, disk::RealDisk};
use mistakes_kit::World;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn memory_world() -> (World, ()) {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
    (World::new(Arc::new(memory::Store::new(identity, Arc::new(SystemClock))), None), ())
}

async fn embedded_world() -> (World, Folder) {
    let folder = Folder(std::env::temp_dir().join(format!("entourage-mistakes-{:016x}", rand::random::<u64>())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let disk = Arc::new(RealDisk::new(&folder.0).unwrap());
    let options = embedded::Options { checkpoint_entries: 500, ..embedded::Options::default() };
    let store = Arc::new(embedded::Store::open(disk, "the test's folder", options, Arc::new(SystemClock)).unwrap());
    (World::new(Arc::clone(&store) as _, Some(store)), folder)
}

async fn homes_world() -> (World, ()) {
    (World::new(homes_kit::settled(Arc::new(SystemClock)), None), ())
}

mod on_homes_that_settle {
    entourage_testkit::mistakes!(super::homes_world);
}

mod on_memory {
    entourage_testkit::mistakes!(super::memory_world);
}

mod on_an_embedded_store {
    entourage_testkit::mistakes!(super::embedded_world);
}
