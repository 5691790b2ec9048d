//! `entourage restore`: makes a store from a backup, then verifies it.

use std::{io::Write, path::PathBuf};

use anyhow::Context;
use clap::Args;
use entourage_embedded as embedded;
use entourage_embedded::Fault;
use entourage_server::config::Settings;
use entourage_store::disk::{Disk, RealDisk};

use super::{backup::must_be_empty, offline, progress, verify};
use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The folder that `entourage backup` made.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    let folder = offline::folder(&settings)?;
    let place = folder.display().to_string();
    let source = offline::existing(&arguments.from, "--from")?;
    let target = RealDisk::new(folder).with_context(|| place.clone())?;
    must_be_empty(&target, "--data")?;
    let lock = target.lock().map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => offline::failed(Fault::InUse(place.clone()), &place),
        _ => offline::failed(error.into(), &place),
    })?;
    let bar = progress::bytes("restoring");
    let restored = embedded::restore(&source, &target, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let bytes = restored.map_err(|fault| offline::failed(fault, &arguments.from.display().to_string()))?;
    drop(lock);
    let report = offline::block_on(async { verify::check(&offline::open(&settings)?).await })?;
    let json = || {
        let mut value = verify::as_json(&report);
        value["bytes"] = bytes.into();
        value["data"] = place.as_str().into();
        value
    };
    arguments.output.print(json, |out| {
        writeln!(out, "{bytes} bytes restored into {place}")?;
        verify::write_text(&report, out)
    })?;
    verify::judge(&report)
}
