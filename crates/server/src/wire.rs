//! From settings to a running service: the only file that names a backend.

use std::sync::Arc;

use entourage_embedded as embedded;
use entourage_memory as memory;
use entourage_memory::partitioned;
use entourage_model::{Clock, Error, Result};
use entourage_postgres as postgres;
pub use entourage_postgres::SchemaStatus;
use entourage_service::{Role, Rules, ServerInfo, Service};
use entourage_store::{
    Maintenance, Snapshots, Store, SystemClock, Writers,
    disk::{Disk, RealDisk},
    layers::cached,
};

use crate::{config::Settings, metrics};

const POSTGRES_SCHEMA: &str = "entourage";

/// What `serve` needs, and a description of where the data is.
pub struct Wired {
    pub store: Arc<dyn Store>,
    pub service: Arc<Service>,
    pub place: String,
}

pub async fn wire(settings: &Settings) -> Result<Wired> {
    // Metrics registered before would be lost.
    metrics::install();
    Ok(wire_over(settings, open_store(settings).await?))
}

/// For a server: puts a cache in front of a remote store.
pub async fn wire_to_serve(settings: &Settings) -> Result<Wired> {
    metrics::install();
    let mut opened = open_store(settings).await?;
    if opened.is_remote && settings.cache_budget_bytes > 0 {
        let cached = Arc::new(with_cache(settings, opened.store).await);
        opened.cache = Some(Arc::clone(&cached) as _);
        opened.store = cached;
    }
    let missing: Vec<&str> =
        [Role::Fanout, Role::Jobs].into_iter().filter(|role| !settings.roles.has(*role)).map(Role::as_str).collect();
    if !missing.is_empty() && opened.store.guarantees().writers == Writers::Sole {
        tracing::warn!(roles = missing.join(","), "no other server of this store can have the roles that are left out");
    }
    Ok(wire_over(settings, opened))
}

fn wire_over(settings: &Settings, opened: Opened) -> Wired {
    let Opened { store, maintenance, cache, place, clock, .. } = opened;
    let rules = Rules {
        auto_create: settings.auto_create,
        following_max: settings.following_max,
        limits: settings.limits,
        notification_retention: settings.notifications_retention,
        audit_interval: settings.audit_interval,
        feed: settings.feed,
        suggestions: settings.suggestions,
        abuse: settings.abuse,
        signals: settings.signals,
    };
    let service = Service::new(Arc::clone(&store), rules).with_maintenance(maintenance).with_cache(cache);
    let service = match clock {
        Some(clock) => service.with_clock(clock),
        None => service,
    };
    let service = Arc::new(service.with_info(info(settings)));
    Wired { store, service, place }
}

/// What this server says of itself to others of its store.
fn info(settings: &Settings) -> ServerInfo {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "localhost" } else { host.trim() };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    ServerInfo { name: format!("{host}:{}", std::process::id()), version, roles: settings.roles }
}

struct Opened {
    store: Arc<dyn Store>,
    maintenance: Option<Arc<dyn Maintenance>>,
    /// What is in front of the store, where something is.
    cache: Option<Arc<dyn Snapshots>>,
    place: String,
    /// The store's own, where several servers share it: what is over is so for all of them at once.
    clock: Option<Arc<dyn Clock>>,
    /// Whether every read is a round trip.
    is_remote: bool,
}

async fn open_store(settings: &Settings) -> Result<Opened> {
    match settings.store_url.split_once(':') {
        Some(("embedded" | "memory", _)) if settings.roles.has(Role::Read) => Err(Error::invalid(
            "server.roles: read needs a store that another server writes: set store.url to postgres://…",
        )),
        Some(("embedded", "")) => {
            let place = settings.data_dir.display().to_string();
            let store = Arc::new(open_embedded(settings, &place)?);
            Ok(Opened {
                maintenance: Some(Arc::clone(&store) as _),
                store,
                cache: None,
                place,
                clock: None,
                is_remote: false,
            })
        }
        Some(("memory", "")) => {
            let store = memory::Store::new(embedded::random_identity(), Arc::new(SystemClock))
                .keeping_history(settings.history_retention);
            let place = "memory (gone when the process ends)".to_owned();
            Ok(Opened { store: Arc::new(store), maintenance: None, cache: None, place, clock: None, is_remote: false })
        }
        Some(("memory", options)) => {
            let homes = homes(options)?;
            let store = partitioned::Store::new(embedded::random_identity(), Arc::new(SystemClock), homes)
                .keeping_history(settings.history_retention);
            let place = format!("memory, {homes} homes (gone when the process ends)");
            Ok(Opened { store: Arc::new(store), maintenance: None, cache: None, place, clock: None, is_remote: false })
        }
        Some(("postgres" | "postgresql", _)) => {
            let options = postgres::Options {
                idempotency_ttl: settings.idempotency_ttl,
                log_retention: settings.log_retention,
                history_retention: settings.history_retention,
                connections: settings.store_connections,
                read_only: settings.roles.has(Role::Read),
                ..postgres::Options::default()
            };
            let clock = Arc::new(SystemClock);
            let store = postgres::Store::connect(&settings.store_url, POSTGRES_SCHEMA, options, clock).await?;
            let how = if settings.roles.has(Role::Read) { ", only read" } else { "" };
            let place = format!("PostgreSQL, schema {POSTGRES_SCHEMA}{how}");
            let store = Arc::new(store);
            Ok(Opened {
                maintenance: Some(Arc::clone(&store) as _),
                clock: Some(store.clock()),
                store,
                cache: None,
                place,
                is_remote: true,
            })
        }
        other => Err(no_store(other)),
    }
}

/// Describes a store that is not a folder without changing it; fails where opening it would.
pub async fn look(settings: &Settings) -> Result<String> {
    match settings.store_url.split_once(':') {
        Some(("memory", options)) if !options.is_empty() => {
            Ok(format!("memory, {} homes: what is written is gone when the process ends", homes(options)?))
        }
        Some(("memory", "")) => Ok("memory: what is written is gone when the process ends".to_owned()),
        Some(("postgres" | "postgresql", _)) => postgres::look(&settings.store_url, POSTGRES_SCHEMA).await,
        other => Err(no_store(other)),
    }
}

/// What is to be migrated in a database, without changing it.
pub async fn schema_status(settings: &Settings) -> Result<SchemaStatus> {
    postgres::schema_status(with_schema(settings)?, POSTGRES_SCHEMA).await
}

pub async fn migrate_schema(settings: &Settings) -> Result<SchemaStatus> {
    postgres::migrate_schema(with_schema(settings)?, POSTGRES_SCHEMA).await
}

/// The URL of a store that has one.
fn with_schema(settings: &Settings) -> Result<&str> {
    match settings.store_url.split_once(':') {
        Some(("postgres" | "postgresql", _)) => Ok(&settings.store_url),
        _ => Err(Error::invalid("store.url names a store without a schema; this works on postgres://… only")),
    }
}

/// Of `memory:?homes=16`.
fn homes(options: &str) -> Result<u16> {
    let most = partitioned::Store::HOMES_MAX;
    let homes = options.strip_prefix("?homes=").and_then(|number| number.parse().ok());
    homes
        .filter(|homes| (1..=most).contains(homes))
        .ok_or_else(|| Error::invalid(format!("store.url: use memory: or memory:?homes=N, with 1 to {most} homes")))
}

/// The rest of the text may hold a password.
fn no_store(url: Option<(&str, &str)>) -> Error {
    let is_scheme = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let scheme = url.map(|(scheme, _)| scheme).filter(is_scheme).unwrap_or("…");
    Error::invalid(format!("store.url: there is no store {scheme}:; use embedded:, postgres://… or memory:"))
}

async fn with_cache(settings: &Settings, store: Arc<dyn Store>) -> cached::Store {
    let options = cached::Options {
        budget_bytes: settings.cache_budget_bytes,
        ttl: settings.cache_ttl,
        max_stale: settings.cache_max_stale,
        ..cached::Options::default()
    };
    let folder = settings.data_dir.join("cache");
    let disk = match RealDisk::new(&folder) {
        Ok(disk) => Some(Arc::new(disk) as Arc<dyn Disk>),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the cache will not outlive the process");
            None
        }
    };
    let surroundings = cached::Surroundings { disk, ..cached::Surroundings::default() };
    cached::Store::open(store, options, surroundings).await
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
    let disk = RealDisk::new(&settings.data_dir)
        .map_err(|error| Error::unavailable(format!("data.dir: {error}")).caused_by(embedded::Fault::from(error)))?;
    let opened = embedded::Store::open(Arc::new(disk), place, options, Arc::new(SystemClock));
    Ok(opened.map_err(|fault| fault.in_folder(place))?)
}
