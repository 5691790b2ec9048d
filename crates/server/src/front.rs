//! What both protocols share in front of the service: connection limits, authentication, TLS and the audit log.

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
    shutdown::Shutdown,
    streams::{StreamLimits, Streams},
    tls::Tls,
};

/// Connection limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    pub max: usize,
    /// Per address, except loopback. `None` is no limit.
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
    /// Origins whose pages may call.
    pub cors_origins: Vec<String>,
    pub streams: Arc<Streams>,
    pub resp: RespLimits,
    pub clock: Arc<dyn Clock>,
    pub shutdown: Shutdown,
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
            shutdown: Shutdown::default(),
        })
    }

    /// Fails where `open` would, and leaves no file behind.
    pub fn check(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        Audit::check(settings.audit_file.as_deref())?;
        Self::open(&Settings { audit_file: None, ..settings.clone() }, clock)
    }

    /// Without credentials everybody who can connect may do everything, so only loopback is allowed.
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

    /// Development mode without an audit log, for tests.
    pub fn development(clock: Arc<dyn Clock>) -> Self {
        let access = Access::development(Arc::clone(&clock));
        let (connections, resp) = (Connections::default(), RespLimits::default());
        let (streams, shutdown) = (Arc::new(Streams::new(StreamLimits::default())), Shutdown::default());
        let (audit, cors_origins) = (Audit::nowhere(), Vec::new());
        Self { access, audit, tls: None, connections, cors_origins, streams, resp, clock, shutdown }
    }

    /// Settings whose files cannot be reloaded, so that their previous content is in use.
    pub(crate) fn stale(&self) -> Vec<&'static str> {
        self.access.stale().chain(self.tls.as_ref().and_then(Tls::stale)).collect()
    }

    /// Reloads keys and certificates, and reopens the audit log.
    pub fn reload(&self) {
        self.access.reload();
        self.audit.reopen();
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }
}

/// Whether this is loopback, in any notation.
pub(crate) fn is_this_machine(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// An IPv6 client usually has a whole /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        four => four,
    }
}
