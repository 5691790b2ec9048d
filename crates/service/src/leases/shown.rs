//! Servers and leases as operators see them.

use std::time::Duration;

use entourage_model::{Error, Millis, Result};
use entourage_store::Server;
use serde::{Deserialize, Serialize};

use super::{Duty, GONE_AFTER, Leases, Role, Roles, SILENT_AFTER, Seen, ServerInfo, stored::Document};
use crate::Call;

/// How a server stands, by its last heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Alive,
    /// It is connected and says nothing: paused, or far too slow.
    Silent,
    /// It has no connection.
    Gone,
}

impl Presence {
    pub const ALL: [Self; 3] = [Self::Alive, Self::Silent, Self::Gone];

    pub(super) fn of(server: &Server) -> Self {
        match server.is_connected {
            true if server.silent_for >= SILENT_AFTER => Self::Silent,
            false if server.silent_for >= GONE_AFTER => Self::Gone,
            _ => Self::Alive,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    pub id: String,
    /// Whether it is the one that answers.
    pub is_this: bool,
    pub name: String,
    pub version: String,
    pub roles: Vec<String>,
    /// The server number in its versions, where the store gives them out.
    pub number: Option<u16>,
    pub started_at: Millis,
    pub presence: Presence,
    pub silent_for: Duration,
    /// Names of the leases that it holds.
    pub leases: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    pub duty: Duty,
    /// 0 where one process has the store.
    pub epoch: u64,
    /// The server that took it last; `None` before the first.
    pub holder: Option<String>,
    pub since: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersView {
    pub servers: Vec<ServerView>,
    pub leases: Vec<LeaseView>,
}

/// What a heartbeat says of its server, as stored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct About {
    name: String,
    version: String,
    roles: Vec<String>,
    started: Millis,
}

impl About {
    pub(super) fn of(info: &ServerInfo, started: Millis) -> Self {
        let names = |roles: Roles| roles.iter().map(Role::as_str).map(str::to_owned).collect();
        Self { name: info.name.clone(), version: info.version.clone(), roles: names(info.roles), started }
    }

    pub(super) fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|_| Error::internal("a heartbeat cannot be written"))
    }
}

fn name(id: u64) -> String {
    format!("{id:016x}")
}

impl Leases {
    /// The servers of the store, and who does what.
    pub async fn servers(&self, call: &Call) -> Result<ServersView> {
        call.must_be_admin()?;
        if self.is_shared {
            self.beat().await?;
        }
        if !self.is_shared || self.seen.lock().is_alone() {
            return Ok(self.only_this());
        }
        let leases: Vec<Option<Document>> =
            self.stored(&Duty::ALL).await?.into_iter().map(|known| known.map(|(_, document)| document)).collect();
        Ok(self.shown(&self.seen.lock(), &leases))
    }

    fn shown(&self, seen: &Seen, leases: &[Option<Document>]) -> ServersView {
        let held_by = |id: u64| {
            let own = Duty::ALL.iter().zip(leases).filter(|(_, lease)| lease.is_some_and(|lease| lease.holder == id));
            own.map(|(duty, _)| duty.as_str()).collect()
        };
        let server = |server: &Server| {
            // That of a later version may say other things.
            let about: About = serde_json::from_str(&server.about).unwrap_or_default();
            ServerView {
                id: name(server.id),
                is_this: server.id == self.id,
                name: about.name,
                version: about.version,
                roles: about.roles,
                number: server.number,
                started_at: about.started,
                presence: Presence::of(server),
                silent_for: server.silent_for,
                leases: held_by(server.id),
            }
        };
        let lease = |(duty, lease): (&Duty, &Option<Document>)| LeaseView {
            duty: *duty,
            epoch: lease.map_or(0, |lease| lease.epoch),
            holder: lease.map(|lease| name(lease.holder)),
            since: lease.map(|lease| lease.since),
        };
        ServersView {
            servers: seen.servers.iter().map(server).collect(),
            leases: Duty::ALL.iter().zip(leases).map(lease).collect(),
        }
    }

    /// It has every duty that it is there for.
    fn only_this(&self) -> ServersView {
        let About { name: of_host, version, roles, started } = About::of(&self.info, self.started);
        let duties = if self.info.roles.has(Role::Jobs) { &Duty::ALL[..] } else { &[] };
        let this = ServerView {
            id: name(self.id),
            is_this: true,
            name: of_host,
            version,
            roles,
            number: None,
            started_at: started,
            presence: Presence::Alive,
            silent_for: Duration::ZERO,
            leases: duties.iter().map(|duty| duty.as_str()).collect(),
        };
        let lease = |duty: &Duty| LeaseView {
            duty: *duty,
            epoch: 0,
            holder: duties.contains(duty).then(|| name(self.id)),
            since: duties.contains(duty).then_some(started),
        };
        ServersView { servers: vec![this], leases: Duty::ALL.iter().map(lease).collect() }
    }
}
