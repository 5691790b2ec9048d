//! Whether the running server has loaded this version of the key file.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Args;
use entourage_server::config::{Settings, without_secrets};
use serde_json::Value;
use ureq::tls::TlsConfig;

use crate::commands::client::Authorities;

/// A server looks for a change four times a second.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(super) struct Running {
    /// Ask this server whether it holds the file as it is (default: http.listen of the settings, if one answers there).
    #[arg(long, value_name = "URL", env = "ENTOURAGE_SERVER")]
    server: Option<String>,
    #[command(flatten)]
    authorities: Authorities,
}

/// What a server reports about its key file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// This version.
    This,
    /// It cannot read the current file, for the given reason, or has not read it yet.
    Older(String),
    /// Another file, or none.
    Other,
    /// No server answers.
    Nobody(String),
}

impl Running {
    pub(super) const fn is_named(&self) -> bool {
        self.server.is_some()
    }

    /// Its address, safe to print.
    pub(super) fn place(&self, settings: &Settings) -> String {
        without_secrets(&self.base(settings))
    }

    /// Waits for the server's next check. `before` is the digest of the replaced version.
    pub(super) fn ask(&self, settings: &Settings, before: Option<&str>, now: &str) -> anyhow::Result<Holds> {
        let base = self.base(settings);
        let tls = match &self.server {
            Some(server) => self.authorities.for_ureq(server)?,
            // Local, and nothing secret is sent; the certificate's name differs from the address.
            None => Authorities::unchecked(),
        };
        let began = Instant::now();
        loop {
            let answer = match ready(&base, &tls) {
                Ok(answer) => answer,
                Err(error) => return Ok(Holds::Nobody(error.to_string())),
            };
            let (held, reason) = (answer["service_keys"].as_str(), answer["reason"].as_str());
            if held == Some(now) {
                return Ok(Holds::This);
            }
            if began.elapsed() >= PATIENCE || held.is_none() {
                return Ok(match (held, reason.filter(|reason| reason.contains("auth.service_keys_file"))) {
                    (Some(_), Some(reason)) => Holds::Older(reason.to_owned()),
                    (Some(held), None) if Some(held) == before => Holds::Older("it has not read it".to_owned()),
                    _ => Holds::Other,
                });
            }
            sleep(PAUSE);
        }
    }

    fn base(&self, settings: &Settings) -> String {
        if let Some(server) = &self.server {
            return server.trim_end_matches('/').trim_end_matches("/api/v1").to_owned();
        }
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let address = match settings.http_listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        format!("{scheme}://{}", SocketAddr::new(address, settings.http_listen.port()))
    }
}

fn ready(base: &str, tls: &TlsConfig) -> Result<Value, ureq::Error> {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    let mut reply = config.tls_config(tls.clone()).build().new_agent().get(format!("{base}/readyz")).call()?;
    Ok(reply.body_mut().read_json().unwrap_or_default())
}
