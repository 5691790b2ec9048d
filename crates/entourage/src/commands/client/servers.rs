//! `servers`: which servers share the store, and which of them does what.

use clap::Args;
use serde_json::Value;

use super::{connection::Connection, table};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let answer = arguments.connection.get("/admin/servers")?;
    arguments.connection.print(&answer, shown)
}

fn shown(answer: &Value) -> String {
    let rows = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice).to_vec();
    let servers = table::rows(
        &rows("data"),
        &["id", "name", "version", "number", "state", "heartbeat_age_seconds", "roles", "leases", "started_at"],
    );
    let leases = table::rows(&rows("leases"), &["name", "epoch", "holder", "since"]);
    format!("{servers}\n{leases}")
}
