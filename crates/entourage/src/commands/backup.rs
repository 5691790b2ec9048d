//! `entourage backup`: copies a store by opening it, or asks the server that runs on it to do so.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use entourage_model::{Code, Error};
use entourage_server::config::Settings;
use entourage_store::disk::{Disk, RealDisk};
use serde_json::json;

use super::{
    client::{Access, Connection},
    offline, progress,
};
use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: DataArguments,
    /// Ask the server at this address, which goes on serving; the folder is on its machine.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    server: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Copy into this folder, which is empty or does not exist yet.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let to = std::path::absolute(&arguments.to).context("--to")?;
    let bytes = match &arguments.server {
        Some(server) => ask(server, arguments, &to)?,
        None => copy(&arguments.data, &to)?,
    };
    let text = format!("{bytes} bytes copied to {}", to.display());
    arguments.output.print(|| json!({ "to": to, "bytes": bytes }), |out| writeln!(out, "{text}"))
}

fn copy(data: &DataArguments, to: &Path) -> anyhow::Result<u64> {
    let settings = Settings::check(&data.raw()?)?;
    let place = to.display().to_string();
    let in_use = |error: anyhow::Error| match error.downcast_ref::<Error>().map(Error::code) {
        Some(Code::Unavailable) => error.context("while a server runs, ask it with --server http://127.0.0.1:7070"),
        _ => error,
    };
    let store = offline::open(&settings).map_err(in_use)?;
    let target = RealDisk::new(to).with_context(|| place.clone())?;
    must_be_empty(&target, "--to")?;
    let bar = progress::bytes("copying");
    let drawn = bar.clone();
    let copied = offline::block_on(async {
        let step = move |done, total| {
            drawn.set_length(total);
            drawn.set_position(done);
        };
        Ok(store.backup(Arc::new(target), step).await)
    })?;
    bar.finish_and_clear();
    copied.map_err(|error| anyhow::anyhow!("{place}: {}", error.detail()))
}

pub(super) fn must_be_empty(disk: &RealDisk, flag: &str) -> anyhow::Result<()> {
    let place = disk.folder().display();
    if disk.list().with_context(|| place.to_string())?.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("{place} is not empty; choose an empty or a new folder with {flag}")).into())
}

fn ask(server: &str, arguments: &Arguments, to: &Path) -> anyhow::Result<u64> {
    let connection = Connection::new(server.to_owned(), arguments.access.clone(), arguments.output.is_json());
    let spinner = progress::spinner("the server copies");
    let answer = connection.ask_patiently("/admin/backup", Some(&json!({ "to": to })));
    spinner.finish_and_clear();
    answer?["bytes"].as_u64().with_context(|| format!("the answer of {server} does not say how much was copied"))
}
