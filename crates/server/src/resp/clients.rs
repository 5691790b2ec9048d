//! Open connections, and the end of those that are idle for too long.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Context,
    time::{Duration, Instant},
};

use futures_util::task::AtomicWaker;

use super::limits::{AUTH_SECONDS, COMMAND_SECONDS, RespLimits};
use crate::auth::{Access, ServiceKey};

/// How often connections are checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The shared state of a connection.
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) address: SocketAddr,
    connected: u64,
    /// When bytes last arrived, in seconds of [`Clients::now`].
    active: AtomicU64,
    /// When the incomplete command began, plus one; 0 is none.
    unfinished: AtomicU64,
    /// Whether it has authenticated, if it must.
    authenticated: AtomicBool,
    /// Since when it is unauthenticated, in seconds since the start.
    stranger_since: AtomicU64,
    key: Mutex<Option<ServiceKey>>,
    told_to_end: AtomicBool,
    /// Its key was revoked: remaining commands are not answered.
    cut_off: AtomicBool,
    waker: AtomicWaker,
}

impl Client {
    /// Whether this connection is to end; if not, registers to be woken when it is.
    pub(super) fn is_told_to_end(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.was_told_to_end()
    }

    pub(super) fn was_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Acquire)
    }

    pub(super) fn was_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    pub(super) fn was_active(&self, now: u64) {
        self.active.store(now, Ordering::Relaxed);
    }

    pub(super) fn has_unfinished(&self, since: Option<u64>) {
        self.unfinished.store(since.map_or(0, |since| since + 1), Ordering::Relaxed);
    }

    /// `None` in development mode.
    pub(super) fn authenticated(&self, key: Option<ServiceKey>) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = key;
        self.authenticated.store(true, Ordering::Relaxed);
    }

    /// Does not restart the time of a client that never authenticated.
    pub(super) fn deauthenticated(&self, now: u64) {
        if self.authenticated.load(Ordering::Relaxed) {
            self.stranger_since.store(now, Ordering::Relaxed);
        }
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.authenticated.store(false, Ordering::Relaxed);
    }

    pub(super) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.connected)
    }

    fn is_stranger_too_long(&self, now: u64) -> bool {
        now.saturating_sub(self.stranger_since.load(Ordering::Relaxed)) >= AUTH_SECONDS
    }

    fn end(&self) {
        self.told_to_end.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_overdue(&self, now: u64, limits: &RespLimits) -> bool {
        let silent = now.saturating_sub(self.active.load(Ordering::Relaxed));
        let unfinished = self.unfinished.load(Ordering::Relaxed);
        if !self.authenticated.load(Ordering::Relaxed) && self.is_stranger_too_long(now) {
            return true;
        }
        if unfinished > 0 && now.saturating_sub(unfinished - 1) >= COMMAND_SECONDS {
            return true;
        }
        if limits.idle.is_some_and(|idle| silent > idle.as_secs()) {
            return true;
        }
        self.was_cut_off()
    }

    fn has_bad_key(&self, access: &Access) -> bool {
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        key.as_ref().is_some_and(|key| !access.knows(key))
    }
}

pub(super) struct Clients {
    known: Mutex<HashMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
    started: Instant,
    /// Seconds since the start, as of the last check.
    now: AtomicU64,
}

impl Clients {
    pub(super) fn new() -> Self {
        let (known, last_id) = (Mutex::default(), AtomicU64::new(0));
        Self { known, last_id, started: Instant::now(), now: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// `None` at the limit.
    pub(super) fn enter(&self, address: SocketAddr, authenticated: bool, max: usize) -> Option<Arc<Client>> {
        let mut known = self.lock();
        if known.len() >= max {
            return None;
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let now = self.started.elapsed().as_secs();
        let client = Arc::new(Client {
            id,
            address,
            connected: now,
            active: AtomicU64::new(now),
            unfinished: AtomicU64::new(0),
            authenticated: AtomicBool::new(authenticated),
            stranger_since: AtomicU64::new(now),
            key: Mutex::new(None),
            told_to_end: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        known.insert(id, Arc::clone(&client));
        Some(client)
    }

    pub(super) fn leave(&self, client: &Client) {
        self.lock().remove(&client.id);
    }

    /// Ends connections that are idle for too long or whose key was revoked.
    pub(super) fn end_overdue(&self, limits: &RespLimits, access: &Access) {
        let now = self.started.elapsed().as_secs();
        self.now.store(now, Ordering::Relaxed);
        for client in self.lock().values() {
            if client.has_bad_key(access) {
                client.cut_off.store(true, Ordering::Relaxed);
            }
            if client.is_overdue(now, limits) {
                client.end();
            }
        }
    }

    pub(super) fn end_all(&self) {
        for client in self.lock().values() {
            client.end();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Client>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
