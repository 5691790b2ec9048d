//! What stands before the routes: who may connect and ask, over what, and where that is written down.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use entourage_model::Clock;

use crate::{
    audit::Audit,
    auth::Access,
    config::{ConfigError, Settings},
    resp::RespLimits,
    stopping::Stopping,
    streams::{StreamLimits, Streams},
    tls::Tls,
};

/// How many may be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    pub max: usize,
    /// Of one address; loopback is not counted. `None` is no limit.
    pub per_address: Option<usize>,
}

impl Default for Connections {
    fn default() -> Self {
        Self { max: 8_192, per_address: Some(256) }
    }
}

pub struct Front {
    pub access: Access,
    pub audit: Audit,
    pub tls: Option<Tls>,
    pub connections: Connections,
    /// Sites whose pages may call.
    pub cors_origins: Vec<String>,
    pub streams: Arc<Streams>,
    pub resp: RespLimits,
    pub clock: Arc<dyn Clock>,
    pub stopping: Stopping,
}

impl Front {
    pub fn open(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Ok(Self {
            access: Access::open(&settings.auth, Arc::clone(&clock))?,
            audit: Audit::open(settings.audit_file.as_deref())?,
            tls: settings.tls.as_ref().map(Tls::open).transpose()?,
            connections: Connections { max: settings.connections_max, per_address: settings.connections_per_address },
            cors_origins: settings.cors_origins.clone(),
            streams: Arc::new(Streams::new(settings.streams)),
            resp: settings.resp,
            clock,
            stopping: Stopping::default(),
        })
    }

    /// Refuses what `open` refuses, and leaves no file behind.
    pub fn check(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Audit::check(settings.audit_file.as_deref())?;
        Self::open(&Settings { audit_file: None, ..settings.clone() }, clock)
    }

    /// Without credentials anybody who can connect may do anything, so only this machine may connect.
    pub fn may_listen(&self, address: SocketAddr, flag: &str) -> Result<(), String> {
        if !self.access.is_development() || is_this_machine(address.ip()) {
            return Ok(());
        }
        Err(format!(
            "refusing to listen on {address}: no credentials are configured, so anybody who can connect could act for \
             everybody. Make a service key (entourage key new NAME --file keys) and set auth.service_keys_file, or set \
             auth.jwt.algorithm, key_file, issuer and audience; or listen on loopback ({flag} 127.0.0.1:{})",
            address.port()
        ))
    }

    /// Nothing is configured: everybody on this machine may do everything, and records of it go nowhere. For tests.
    pub fn development(clock: Arc<dyn Clock>) -> Self {
        let access = Access::development(Arc::clone(&clock));
        let (connections, resp) = (Connections::default(), RespLimits::default());
        let (streams, stopping) = (Arc::new(Streams::new(StreamLimits::default())), Stopping::default());
        let (audit, cors_origins) = (Audit::nowhere(), Vec::new());
        Self { access, audit, tls: None, connections, cors_origins, streams, resp, clock, stopping }
    }

    /// Settings whose files cannot be read as they are now, so that older ones are in use.
    pub(crate) fn stale(&self) -> Vec<&'static str> {
        self.access.stale().chain(self.tls.as_ref().and_then(Tls::stale)).collect()
    }

    /// Reads keys and certificates again, and opens the audit log anew.
    pub fn reload(&self) {
        self.access.reload();
        self.audit.reopen();
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }
}

/// Whether this is the same machine, however its address is written.
pub(crate) fn is_this_machine(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whoever has one address of IPv6 has 2⁶⁴ of them.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        four => four,
    }
}
