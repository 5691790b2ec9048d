//! Leases: of the servers that share a store, one does each duty. A server says once a second that it is alive, and holds
//! what it has taken for as long as it does; nothing is renewed. Who takes a duty over takes a greater epoch, which is the
//! fence of each of its writes: a holder that was only paused writes nothing when it wakes. Where one process has the
//! store, it has every duty, and nothing of this costs anything.

mod duty;
mod roles;
mod shown;
mod stored;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use entourage_model::{Code, Error, Millis, Result};
use entourage_store::{Server, Writers};
use parking_lot::Mutex;

pub(crate) use self::duty::Held;
pub use self::{
    duty::Duty,
    roles::{Role, Roles},
    shown::{LeaseView, Presence, ServerView, ServersView},
};
use self::{
    shown::About,
    stored::{Document, Known},
};
use crate::Context;

/// How often a server says that it is alive.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A server without a connection is gone after two missed heartbeats.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// A server that is connected, but silent for so long, is paused or cut off.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// After so long without a heartbeat of its own a server asks anew what it holds: before others can think that it is
/// gone. A holder that has nothing to write would not be told otherwise.
const DOUBT_AFTER: Duration = Duration::from_millis(1_500);

/// What a server says of itself to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// For operators, such as the host and the process id.
    pub name: String,
    pub version: String,
    pub roles: Roles,
}

pub struct Leases {
    context: Arc<Context>,
    info: ServerInfo,
    /// Names this process.
    id: u64,
    started: Millis,
    /// Whether others may write to the store.
    is_shared: bool,
    seen: Mutex<Seen>,
    /// One heartbeat at a time, and one claim.
    beating: tokio::sync::Mutex<()>,
    claiming: tokio::sync::Mutex<()>,
}

/// As of the last heartbeat.
#[derive(Debug, Default)]
struct Seen {
    at: Option<Millis>,
    /// This one among them; empty where one process has the store.
    servers: Vec<Server>,
    leases: HashMap<Duty, Document>,
}

impl Seen {
    fn is_alive(&self, id: u64) -> bool {
        self.servers.iter().any(|server| server.id == id && Presence::of(server) == Presence::Alive)
    }

    fn is_alone(&self) -> bool {
        self.servers.is_empty()
    }
}

impl Leases {
    pub(crate) fn new(context: Arc<Context>, info: ServerInfo) -> Self {
        let started = context.clock.now();
        let is_shared = context.store.guarantees().writers == Writers::Many;
        let id = RandomState::new().hash_one(started.since_2000());
        let (seen, beating, claiming) = (Mutex::default(), Default::default(), Default::default());
        Self { context, info, id, started, is_shared, seen, beating, claiming }
    }

    /// Names this process among those of the store.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Whether this server has taken the lease, as far as it knows.
    pub(crate) fn has_taken(&self, duty: Duty) -> bool {
        self.seen.lock().leases.get(&duty).is_some_and(|known| known.holder == self.id)
    }

    /// Whether other servers of this store are alive.
    pub(crate) fn has_company(&self) -> bool {
        let seen = self.seen.lock();
        seen.servers.iter().any(|server| server.id != self.id && Presence::of(server) == Presence::Alive)
    }

    /// Says once a second that this server is alive, until streams end.
    pub(crate) async fn run(&self) {
        if !self.is_shared {
            return;
        }
        let mut closed = self.context.hub.closed();
        let mut said = None;
        loop {
            match self.beat().await {
                Ok(()) if self.seen.lock().is_alone() => return,
                Ok(()) => said = None,
                Err(error) => {
                    metrics::counter!("entourage_heartbeat_failures_total").increment(1);
                    // A store that is unreachable for long is reported once.
                    if said != Some(error.code()) {
                        tracing::warn!(%error, "this server cannot say that it is alive; it is tried again");
                    }
                    said = Some(error.code());
                }
            }
            tokio::select! {
                () = tokio::time::sleep(BEAT_EVERY) => {}
                _ = closed.wait_for(|closed| *closed) => return,
            }
        }
    }

    /// The right to a duty; `None` while another server has it, and for a server that is not there for it.
    pub(crate) async fn hold(&self, duty: Duty) -> Result<Option<Held>> {
        if !self.info.roles.has(Role::Jobs) {
            return Ok(None);
        }
        if !self.is_shared {
            return Ok(Some(Held::alone(duty)));
        }
        self.beat_if_due().await?;
        {
            let seen = self.seen.lock();
            if seen.is_alone() {
                return Ok(Some(Held::alone(duty)));
            }
            match seen.leases.get(&duty) {
                Some(known) if known.holder == self.id => return Held::at(duty, known.epoch).map(Some),
                Some(known) if seen.is_alive(known.holder) => return Ok(None),
                _ => {}
            }
        }
        self.claim(duty).await
    }

    /// Somebody else has a greater epoch: whose it is, is asked before the next step.
    pub(crate) fn lost(&self, held: &Held) {
        let mut seen = self.seen.lock();
        if seen.leases.get(&held.duty).is_some_and(|known| known.epoch == held.epoch()) {
            seen.leases.remove(&held.duty);
            drop(seen);
            metrics::counter!("entourage_lease_losses_total", "lease" => held.duty.as_str()).increment(1);
            tracing::warn!(lease = held.duty.as_str(), epoch = held.epoch(), "another server has taken a lease over");
        }
    }

    async fn claim(&self, duty: Duty) -> Result<Option<Held>> {
        let _claiming = self.claiming.lock().await;
        let known = self.stored(&[duty]).await?.into_iter().flatten().next();
        if let Some((_, document)) = known {
            if document.holder != self.id && !self.seen.lock().is_alive(document.holder) {
                // It may have come after the last heartbeat.
                self.beat().await?;
            }
            let mut seen = self.seen.lock();
            seen.leases.insert(duty, document);
            if document.holder == self.id {
                return Held::at(duty, document.epoch).map(Some);
            }
            if seen.is_alive(document.holder) {
                return Ok(None);
            }
        }
        if let Some((_, Document { holder, .. })) = known {
            // Its open transactions would keep others waiting, for the lease itself among other things.
            self.context.store.disconnect(holder).await?;
        }
        self.take_over(duty, known).await
    }

    async fn take_over(&self, duty: Duty, before: Option<Known>) -> Result<Option<Held>> {
        let epoch = before.map_or(0, |(_, document)| document.epoch) + 1;
        let document = Document { epoch, holder: self.id, since: self.context.clock.now() };
        let held = Held::at(duty, epoch)?;
        match self.take(&held, before.map(|(version, _)| version), document).await {
            Ok(_) => {}
            // Another server was faster.
            Err(error) if is_taken(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        self.seen.lock().leases.insert(duty, document);
        metrics::counter!("entourage_lease_takeovers_total", "lease" => duty.as_str()).increment(1);
        let from = before.map(|(_, document)| format!("{:016x}", document.holder));
        tracing::info!(lease = duty.as_str(), epoch, from, "this server has taken a lease");
        Ok(Some(held))
    }

    async fn beat_if_due(&self) -> Result<()> {
        let now = self.context.clock.now().since_2000();
        let is_fresh = |at: Millis| u128::from(now.abs_diff(at.since_2000())) <= 2 * BEAT_EVERY.as_millis();
        if self.seen.lock().at.is_some_and(is_fresh) {
            return Ok(());
        }
        self.beat().await
    }

    async fn beat(&self) -> Result<()> {
        let _beating = self.beating.lock().await;
        let about = About::of(&self.info, self.started).to_text()?;
        let servers = self.context.store.heartbeat(self.id, &about).await?;
        let now = self.context.clock.now();
        let mut seen = self.seen.lock();
        let silence = seen.at.map_or(0, |at| now.since_2000().abs_diff(at.since_2000()));
        if u128::from(silence) > DOUBT_AFTER.as_millis() {
            // Others may have thought that this server was gone.
            seen.leases.clear();
        }
        (seen.at, seen.servers) = (Some(now), servers);
        self.measure(&seen);
        Ok(())
    }

    fn measure(&self, seen: &Seen) {
        for presence in Presence::ALL {
            let count = seen.servers.iter().filter(|server| Presence::of(server) == presence).count();
            metrics::gauge!("entourage_servers", "state" => presence.as_str()).set(count as f64);
        }
        for duty in Duty::ALL {
            let own = seen.leases.get(&duty).filter(|known| known.holder == self.id);
            metrics::gauge!("entourage_lease_held", "lease" => duty.as_str()).set(f64::from(u8::from(own.is_some())));
        }
    }
}

/// The record was changed, or the lease has a greater epoch.
pub(crate) fn is_taken(error: &Error) -> bool {
    matches!(error.code(), Code::RequestInProgress | Code::Fenced)
}
