//! From settings to a running service: the only file that names a backend.

use std::sync::Arc;

use entourage_log::backends::in_store;
use entourage_model::{Error, Result, Secret};
use entourage_service::{Rules, Service};
use entourage_store::{Identity, Store, SystemClock, backends::memory};

use crate::config::Settings;

/// What `serve` needs, and where its data is, in words for a person.
pub struct Wired {
    pub store: Arc<dyn Store>,
    pub service: Arc<Service>,
    pub place: String,
}

pub fn wire(settings: &Settings) -> Result<Wired> {
    let (store, place) = open_store(settings)?;
    let log = Arc::new(in_store::Log::new(Arc::clone(&store)));
    let rules = Rules { auto_create: settings.auto_create, following_max: settings.following_max };
    let service = Arc::new(Service::new(Arc::clone(&store), log, rules));
    Ok(Wired { store, service, place })
}

fn open_store(settings: &Settings) -> Result<(Arc<dyn Store>, String)> {
    match settings.store_url.split_once(':') {
        Some(("memory", "")) => {
            let store = memory::Store::new(new_identity(), Arc::new(SystemClock));
            Ok((Arc::new(store), "memory (gone when the process ends)".to_owned()))
        }
        _ => {
            Err(Error::invalid(format!("store.url: {:?} names no store; this build knows memory:", settings.store_url)))
        }
    }
}

fn new_identity() -> Identity {
    Identity { epoch: rand::random(), secret: Secret::from_bytes(rand::random()) }
}
