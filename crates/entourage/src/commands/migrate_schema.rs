//! `entourage migrate-schema`: brings the schema of a database to the version that this server knows, ahead of the servers.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use entourage_server::{
    config::Settings,
    wire::{SchemaStatus, migrate_schema, schema_status},
};
use serde_json::{Value, json};

use super::offline;
use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Say what is pending and change nothing; the exit code is 1 if anything is.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let status = offline::block_on(async {
        Ok(match arguments.check {
            true => schema_status(&settings).await?,
            false => migrate_schema(&settings).await?,
        })
    })?;
    arguments.output.print(|| as_json(&status), |out| write_text(&status, out))?;
    match status.pending.len() {
        _ if !status.can_write() => bail!("only a later version of Entourage may write to this schema"),
        0 => Ok(()),
        1 => bail!("1 migration is pending"),
        count => bail!("{count} migrations are pending"),
    }
}

fn as_json(status: &SchemaStatus) -> Value {
    let pending: Vec<Value> = status
        .pending
        .iter()
        .map(|pending| {
            json!({
                "version": pending.version,
                "name": pending.name,
                "older_servers_survive": pending.older_servers_survive,
            })
        })
        .collect();
    json!({
        "schema": status.schema,
        "version": status.version,
        "newest": status.newest,
        "can_write": status.can_write(),
        "pending": pending,
        "older_servers": status.older_servers,
        "older_servers_survive": status.older_servers_survive(),
    })
}

fn write_text(status: &SchemaStatus, out: &mut impl Write) -> std::io::Result<()> {
    let has = status.version.map_or_else(|| "none".to_owned(), |version| version.to_string());
    writeln!(out, "schema {}: version {has}, this Entourage knows {}", status.schema, status.newest)?;
    for pending in &status.pending {
        let older = match pending.older_servers_survive {
            true => "older servers go on",
            false => "older servers must be stopped first",
        };
        writeln!(out, "  pending {} {}: {older}", pending.version, pending.name)?;
    }
    if !status.pending.is_empty() {
        writeln!(out, "  older servers running: {}", status.older_servers)?;
    }
    Ok(())
}
