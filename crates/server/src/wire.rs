//! From settings to a running service: the only file that names a backend.

use std::sync::Arc;

use entourage_log::backends::in_store;
use entourage_model::{Error, Result};
use entourage_service::{Rules, Service};
use entourage_store::{
    Maintenance, Store, SystemClock,
    backends::{embedded, memory, postgres},
    disk::RealDisk,
};

use crate::{config::Settings, metrics};

const POSTGRES_SCHEMA: &str = "entourage";

/// What `serve` needs, and where its data is, in words for a person.
pub struct Wired {
    pub store: Arc<dyn Store>,
    pub service: Arc<Service>,
    pub place: String,
}

pub async fn wire(settings: &Settings) -> Result<Wired> {
    // Measures that are made before would be lost.
    metrics::install();
    let Opened { store, maintenance, place } = open_store(settings).await?;
    let log = Arc::new(in_store::Log::new(Arc::clone(&store)));
    let rules = Rules {
        auto_create: settings.auto_create,
        following_max: settings.following_max,
        limits: settings.limits,
        notification_retention: settings.notifications_retention,
        audit_interval: settings.audit_interval,
    };
    let service = Arc::new(Service::new(Arc::clone(&store), log, rules).with_maintenance(maintenance));
    Ok(Wired { store, service, place })
}

struct Opened {
    store: Arc<dyn Store>,
    maintenance: Option<Arc<dyn Maintenance>>,
    place: String,
}

async fn open_store(settings: &Settings) -> Result<Opened> {
    match settings.store_url.split_once(':') {
        Some(("embedded", "")) => {
            let place = settings.data_dir.display().to_string();
            let store = Arc::new(open_embedded(settings, &place)?);
            Ok(Opened { maintenance: Some(Arc::clone(&store) as _), store, place })
        }
        Some(("memory", "")) => {
            let store = memory::Store::new(embedded::random_identity(), Arc::new(SystemClock))
                .keeping_history(settings.history_retention);
            let place = "memory (gone when the process ends)".to_owned();
            Ok(Opened { store: Arc::new(store), maintenance: None, place })
        }
        Some(("postgres" | "postgresql", _)) => {
            let options = postgres::Options {
                idempotency_ttl: settings.idempotency_ttl,
                log_retention: settings.log_retention,
                history_retention: settings.history_retention,
            };
            let clock = Arc::new(SystemClock);
            let store = postgres::Store::connect(&settings.store_url, POSTGRES_SCHEMA, options, clock).await?;
            let place = format!("PostgreSQL, schema {POSTGRES_SCHEMA}");
            let store = Arc::new(store);
            Ok(Opened { maintenance: Some(Arc::clone(&store) as _), store, place })
        }
        // The rest of the text may hold a password.
        other => {
            let scheme = other.map_or("", |(scheme, _)| scheme);
            Err(Error::invalid(format!(
                "store.url: there is no store {scheme}:; use embedded:, postgres://… or memory:"
            )))
        }
    }
}

fn open_embedded(settings: &Settings, place: &str) -> Result<embedded::Store> {
    let defaults = embedded::Options::default();
    let options = embedded::Options {
        segment_bytes: settings.log_segment_bytes,
        // A batch must fit into a segment.
        frame_bytes: defaults.frame_bytes.min(usize::try_from(settings.log_segment_bytes / 4).unwrap_or(usize::MAX)),
        checkpoint_entries: settings.checkpoint_entries,
        memory_budget: settings.memory_budget_bytes,
        log_retention: settings.log_retention,
        log_retain_bytes: settings.log_retain_bytes,
        idempotency_ttl: settings.idempotency_ttl,
        history_retention: settings.history_retention,
        ..defaults
    };
    let disk = RealDisk::new(&settings.data_dir).map_err(|error| {
        Error::unavailable(format!("data.dir {place}: {error}")).caused_by(embedded::Fault::from(error))
    })?;
    Ok(embedded::Store::open(Arc::new(disk), place, options, Arc::new(SystemClock))?)
}
