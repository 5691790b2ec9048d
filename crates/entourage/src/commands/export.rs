//! `entourage export`: writes a store's content in the formats that `entourage import` reads.

use std::{
    fs::{File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use entourage_model::{Code, Error};
use entourage_server::{
    config::Settings,
    wire::{Wired, wire},
};
use entourage_service::{Export, ExportFormat, ExportKind, Exported, Packed, Packing, Service};
use entourage_store::disk::Disk;

use super::{import::in_use, offline, progress};
use crate::settings::DataArguments;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Write into this file; - is standard output.
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    data: DataArguments,
    /// How to write; CSV holds one kind, NDJSON several, or all of them unless one is named.
    #[arg(long, value_enum, default_value_t = FormatName::Csv)]
    format: FormatName,
    /// Users.
    #[arg(long)]
    users: bool,
    /// Follows: what CSV holds unless another kind is named.
    #[arg(long)]
    edges: bool,
    /// Follow requests.
    #[arg(long)]
    requests: bool,
    /// Blocks.
    #[arg(long)]
    blocks: bool,
    /// Mutes that are not over.
    #[arg(long)]
    mutes: bool,
    /// Groups, without their members.
    #[arg(long)]
    groups: bool,
    /// Members of groups.
    #[arg(long)]
    members: bool,
    /// Posts.
    #[arg(long)]
    posts: bool,
    /// Pack with gzip.
    #[arg(long, conflicts_with = "zstd")]
    gzip: bool,
    /// Pack with zstd.
    #[arg(long)]
    zstd: bool,
    /// Print JSON about what was written (on standard error when the data is on standard output).
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatName {
    Csv,
    Ndjson,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = Settings::check(&arguments.data.raw()?)?;
    must_be_there(&settings)?;
    let is_stdout = arguments.file == Path::new("-");
    let packing = match (arguments.gzip, arguments.zstd) {
        (true, _) => Packing::Gzip,
        (_, true) => Packing::Zstd,
        _ => Packing::None,
    };
    let format = if arguments.format == FormatName::Csv { ExportFormat::Csv } else { ExportFormat::Ndjson };
    let export = Export { format, kinds: kinds(arguments) };
    let done = offline::block_on(async {
        let Wired { store, service, .. } = wire(&settings).await.map_err(in_use)?;
        let done = if is_stdout {
            write(&export, &service, Box::new(std::io::stdout()), packing).await
        } else {
            write_file(&export, &service, &arguments.file, packing).await
        };
        store.close().await.context("closing the store")?;
        done
    })?;
    let text = match arguments.json {
        true => serde_json::to_string(&done)?,
        false => said(&done),
    };
    if is_stdout {
        writeln!(std::io::stderr(), "{text}")?
    } else {
        writeln!(std::io::stdout(), "{text}")?
    }
    Ok(())
}

fn kinds(arguments: &Arguments) -> Vec<ExportKind> {
    let named = |kind: &ExportKind| match kind {
        ExportKind::Users => arguments.users,
        ExportKind::Follows => arguments.edges,
        ExportKind::Requests => arguments.requests,
        ExportKind::Blocks => arguments.blocks,
        ExportKind::Mutes => arguments.mutes,
        ExportKind::Groups => arguments.groups,
        ExportKind::Members => arguments.members,
        ExportKind::Posts => arguments.posts,
    };
    let kinds: Vec<ExportKind> = ExportKind::ALL.into_iter().filter(named).collect();
    match (kinds.is_empty(), arguments.format) {
        (false, _) => kinds,
        (true, FormatName::Csv) => vec![ExportKind::Follows],
        (true, FormatName::Ndjson) => ExportKind::ALL.to_vec(),
    }
}

fn said(done: &Exported) -> String {
    let others = [
        ("requests", done.requests),
        ("blocks", done.blocks),
        ("mutes", done.mutes),
        ("groups", done.groups),
        ("members", done.members),
        ("posts", done.posts),
    ];
    let others = others.into_iter().filter(|(_, count)| *count > 0);
    let others: String = others.map(|(name, count)| format!(", {count} {name}")).collect();
    format!("{} users and {} edges written{others}", done.users, done.edges)
}

/// Exporting creates no store.
fn must_be_there(settings: &Settings) -> anyhow::Result<()> {
    if settings.store_url != "embedded:" {
        return Ok(());
    }
    let disk = offline::existing(&settings.data_dir, "--data")?;
    if disk.list().with_context(|| settings.data_dir.display().to_string())?.is_empty() {
        let detail = format!("there is no store in {}; name its folder with --data", settings.data_dir.display());
        return Err(Error::new(Code::NotFound, detail).into());
    }
    Ok(())
}

/// Renamed to its final name once complete.
async fn write_file(export: &Export, service: &Service, path: &Path, packing: Packing) -> anyhow::Result<Exported> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let file = private(&partial).with_context(|| partial.display().to_string())?;
    let synced = file.try_clone().with_context(|| partial.display().to_string())?;
    let written = write(export, service, Box::new(BufWriter::new(file)), packing).await;
    if written.is_err() {
        // The original error matters more than a failure to remove the incomplete file.
        let _ = std::fs::remove_file(&partial);
    }
    let done = written?;
    synced.sync_all().with_context(|| partial.display().to_string())?;
    std::fs::rename(&partial, path).with_context(|| path.display().to_string())?;
    Ok(done)
}

/// Personal data: readable by the owner only.
fn private(path: &Path) -> std::io::Result<File> {
    // A file left by an earlier run may have other permissions.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

async fn write(
    export: &Export,
    service: &Service,
    out: Box<dyn Write + Send>,
    packing: Packing,
) -> anyhow::Result<Exported> {
    let mut out = Packed::new(Box::new(BufWriter::with_capacity(1 << 18, out)), packing)?;
    let spinner = progress::spinner("exporting");
    let drawn = spinner.clone();
    let seen = move |done: &Exported| drawn.set_message(said(done));
    let done = export.run(&service.transfer, &mut out, seen).await;
    spinner.finish_and_clear();
    let done = done?;
    out.finish().context("writing the end of the output")?;
    Ok(done)
}
