//! The addresses: free, or taken by one of our servers; and stores that are not folders.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use entourage_server::{
    Front,
    config::{Settings, without_secrets},
    wire,
};
use serde_json::Value;
use ureq::tls::TlsConfig;

use super::Finding;
use crate::commands::{
    client::{Authorities, unreachable},
    offline,
};

const PATIENCE: Duration = Duration::from_secs(3);

/// What was found at http.listen and resp.listen.
pub(super) struct Addresses {
    pub(super) findings: Vec<Finding>,
    /// A server of ours answers at http.listen.
    is_running: bool,
}

impl Addresses {
    pub(super) fn look(settings: &Settings, front: &Front) -> Self {
        let http = settings.http_listen;
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        // Held until the other is checked: they may be the same address.
        let held = listen(http, front, "--http");
        let (found, is_running) = match &held {
            Ok(_) => (Finding::ok("address", format!("{http} is free; no server runs there")), false),
            Err(Refused::Rule(refusal)) => (Finding::fail("address", refusal, NO_CREDENTIALS), false),
            Err(Refused::System(error)) => running(http, scheme, error),
        };
        let mut findings = vec![found];
        findings.extend(settings.resp_listen.map(|resp| match listen(resp, front, "--resp") {
            Ok(_) => Finding::ok("RESP address", format!("{resp} is free")),
            Err(Refused::Rule(refusal)) => Finding::fail("RESP address", refusal, NO_CREDENTIALS),
            // Our own server has the address.
            Err(Refused::System(_)) if is_running => {
                Finding::ok("RESP address", format!("{resp} is in use while a server runs"))
            }
            Err(Refused::System(error)) => {
                let detail = format!("{resp} cannot be used: {error}");
                Finding::fail("RESP address", detail, "choose another with --resp, or stop what listens there")
            }
        }));
        Self { findings, is_running }
    }

    pub(super) const fn is_running(&self) -> bool {
        self.is_running
    }
}

const NO_CREDENTIALS: &str = "configure credentials, or listen on loopback";

enum Refused {
    /// By `serve` itself.
    Rule(String),
    System(std::io::Error),
}

fn listen(address: SocketAddr, front: &Front, flag: &str) -> Result<TcpListener, Refused> {
    front.may_listen(address, flag).map_err(Refused::Rule)?;
    TcpListener::bind(address).map_err(Refused::System)
}

/// The address is taken: by one of our servers?
fn running(address: SocketAddr, scheme: &str, error: &std::io::Error) -> (Finding, bool) {
    let base = format!("{scheme}://{address}");
    // Any certificate will do: no credential is sent, and its name is rarely the address. `--server` checks whether
    // clients trust it.
    let tls = Authorities::unchecked();
    match (version(&base, &tls), ready(&base, &tls)) {
        (Ok(Some(version)), Ok(true)) => {
            (Finding::ok("address", format!("entourage {version} answers at {base} and is ready")), true)
        }
        (Ok(Some(version)), _) => {
            let detail = format!("entourage {version} answers at {base} and is not ready");
            (Finding::fail("address", detail, format!("ask it why: curl {base}/readyz")), true)
        }
        _ => {
            let detail = format!("{address} cannot be used: {error}");
            (Finding::fail("address", detail, "choose another with --http, or stop what listens there"), false)
        }
    }
}

/// The server as its clients reach it.
pub(super) fn ask(server: &str, authorities: &Authorities) -> Finding {
    let base = server.trim_end_matches('/').trim_end_matches("/api/v1");
    let shown = without_secrets(base);
    let tls = match authorities.for_ureq(base) {
        Ok(tls) => tls,
        Err(error) => return Finding::fail("clients", format!("{error:#}"), "name another file with --ca-file"),
    };
    match (version(base, &tls), ready(base, &tls)) {
        (Err(error), _) | (_, Err(error)) => {
            let detail = unreachable(base, &error, "look whether it runs, and what is between").detail().to_owned();
            Finding::fail("clients", detail, "nobody can use the server until this is right")
        }
        (Ok(None), _) => {
            Finding::fail("clients", format!("what answers at {shown} is no entourage"), "name its address")
        }
        (Ok(Some(version)), Ok(true)) => Finding::ok("clients", format!("entourage {version} answers at {shown}")),
        (Ok(Some(_)), Ok(false)) => {
            Finding::fail("clients", format!("{shown} is not ready"), format!("ask it why: curl {shown}/readyz"))
        }
    }
}

fn agent(tls: &TlsConfig) -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    config.tls_config(tls.clone()).build().new_agent()
}

/// The version, if it is one of our servers.
fn version(base: &str, tls: &TlsConfig) -> Result<Option<String>, ureq::Error> {
    let mut reply = agent(tls).get(format!("{base}/version")).call()?;
    let body: Value = reply.body_mut().read_json().unwrap_or_default();
    Ok((body["name"] == "entourage").then(|| body["version"].as_str().unwrap_or_default().to_owned()))
}

fn ready(base: &str, tls: &TlsConfig) -> Result<bool, ureq::Error> {
    Ok(agent(tls).get(format!("{base}/readyz")).call()?.status().is_success())
}

/// A store that is not a folder.
pub(super) fn store(settings: &Settings) -> Finding {
    match offline::block_on(async { Ok(wire::look(settings).await?) }) {
        Ok(found) => Finding::ok("store", found),
        Err(error) => Finding::fail("store", format!("{error:#}"), "look at store.url, and whether that server runs"),
    }
}
