//! From a URL to a connection: which hosts, whether encrypted, and whom to trust.

mod tls;
mod url;

use entourage_model::{Error, Result};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};

pub(super) use self::tls::{Tls, explain};
use super::{CONNECTION_WAIT, error::translate};

/// How to reach PostgreSQL.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

impl Target {
    /// Of `store.url`.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let (url, options) = url::split(url)?;
        let wrong = |error| Error::invalid("store.url is not a PostgreSQL URL").caused_by(error);
        let mut config: Config = url.parse().map_err(wrong)?;
        config.ssl_mode(options.mode.of_driver());
        // A host that does not answer must leave time for the next one.
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        config.connect_timeout(CONNECTION_WAIT / hosts);
        Ok(Self { config, tls: Tls::new(&options)? })
    }

    /// A connection beside the pools, and the task that serves it until the client is dropped.
    pub(super) async fn connect(&self) -> Result<(Client, JoinHandle<Result<(), tokio_postgres::Error>>)> {
        let connected = tokio::time::timeout(CONNECTION_WAIT, self.config.connect(self.tls.clone())).await;
        let (client, connection) = connected
            .map_err(|_| Error::unavailable("PostgreSQL does not answer"))?
            .map_err(|error| explain(&error).unwrap_or_else(|| translate(error)))?;
        Ok((client, tokio::spawn(connection)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

    use super::*;

    #[test]
    fn several_hosts_share_the_time_to_connect() {
        for url in [
            "postgres://me@one:1,other:2/db?target_session_attrs=read-write&sslmode=disable",
            "postgres://me@/db?sslmode=disable&host=one,other&port=1,2&target_session_attrs=read-write",
        ] {
            let Target { config, .. } = Target::parse(url).unwrap();
            assert_eq!(config.get_hosts(), [Host::Tcp("one".to_owned()), Host::Tcp("other".to_owned())], "{url}");
            assert_eq!(config.get_ports(), [1, 2]);
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            assert_eq!(config.get_connect_timeout(), Some(&Duration::from_millis(2_500)));
            assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        }
        assert!(Target::parse("postgres://me@one/db?target_session_attrs=primary").is_err());
    }
}
