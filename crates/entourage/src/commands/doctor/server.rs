//! The address: is it free, or does a server of ours answer there.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use entourage_server::{config::Settings, wire::wire};

use super::Finding;
use crate::commands::offline;

const PATIENCE: Duration = Duration::from_secs(3);

/// Also whether a server of ours answers.
pub(super) fn look(address: SocketAddr) -> (Finding, bool) {
    match TcpListener::bind(address) {
        Ok(_) => (Finding::ok("address", format!("{address} is free; no server runs there")), false),
        Err(error) => match (version(address), ready(address)) {
            (Some(version), Some(true)) => {
                (Finding::ok("address", format!("entourage {version} answers at {address} and is ready")), true)
            }
            (Some(version), _) => {
                let detail = format!("entourage {version} answers at {address} and is not ready");
                (Finding::fail("address", detail, format!("ask it why: curl http://{address}/readyz")), true)
            }
            (None, _) => {
                let detail = format!("{address} cannot be used: {error}");
                (Finding::fail("address", detail, "choose another with --http, or stop what listens there"), false)
            }
        },
    }
}

/// Where a server of ours runs, it is that one which has the address.
pub(super) fn look_resp(address: SocketAddr, is_running: bool) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("RESP address", format!("{address} is free")),
        Err(_) if is_running => Finding::ok("RESP address", format!("{address} is in use while a server runs")),
        Err(error) => {
            let detail = format!("{address} cannot be used: {error}");
            Finding::fail("RESP address", detail, "choose another with --resp, or stop what listens there")
        }
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
    config.build().new_agent()
}

fn version(address: SocketAddr) -> Option<String> {
    let mut reply = agent().get(format!("http://{address}/version")).call().ok()?;
    let body: serde_json::Value = reply.body_mut().read_json().ok()?;
    (body["name"] == "entourage").then(|| body["version"].as_str().unwrap_or_default().to_owned())
}

fn ready(address: SocketAddr) -> Option<bool> {
    Some(agent().get(format!("http://{address}/readyz")).call().ok()?.status().is_success())
}

/// A store that is not in a folder.
pub(super) fn store(settings: &Settings) -> Finding {
    match offline::block_on(async { Ok(wire(settings).await?) }) {
        Ok(wired) => Finding::ok("store", format!("{} answers", wired.place)),
        Err(error) => Finding::fail("store", format!("{error:#}"), "look at store.url, and whether that server runs"),
    }
}
