//! `entourage key`: service keys, made, listed and revoked in the file that the server reads. A key is shown once.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use entourage_model::{Clock, Code, Error};
use entourage_server::{
    auth::{ServiceKey, parse_keys},
    config::Settings,
};
use entourage_store::SystemClock;
use serde_json::json;

use crate::settings::DataArguments;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a key and print it. It cannot be shown again.
    New(NewArguments),
    /// List keys: their names and what they may do.
    List(FileArguments),
    /// Take a key away; a running server notices within a second.
    Revoke(NamedArguments),
}

#[derive(Args, Debug)]
struct FileArguments {
    #[command(flatten)]
    settings: DataArguments,
    /// The file of keys (auth.service_keys_file).
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct NamedArguments {
    /// The key's name, which logs and the audit log show.
    name: String,
    #[command(flatten)]
    file: FileArguments,
}

#[derive(Args, Debug)]
struct NewArguments {
    #[command(flatten)]
    named: NamedArguments,
    /// The key may also use admin routes and read metrics.
    #[arg(long)]
    admin: bool,
    /// Write no file: print the key, and below it what goes into auth.service_keys.
    #[arg(long, conflicts_with = "file")]
    print: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Command::New(arguments) => make(arguments),
        Command::List(arguments) => list(arguments),
        Command::Revoke(arguments) => revoke(arguments),
    }
}

fn make(arguments: &NewArguments) -> anyhow::Result<()> {
    let NamedArguments { name, file } = &arguments.named;
    let set = file.set()?;
    let target = if arguments.print { None } else { Some(file.path()?) };
    let (text, keys) = target.as_deref().map(read).transpose()?.unwrap_or_default();
    if set.iter().chain(&keys).any(|key| key.name == *name) {
        return Err(Error::invalid(format!("there is a key {name} already; revoke it, or choose another name")).into());
    }
    let (key, secret) = ServiceKey::generate(name, arguments.admin, SystemClock.now()).map_err(Error::invalid)?;
    if let Some(path) = &target {
        let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        replace(path, &format!("{text}{line_end}{key}\n"))?;
    }
    let mut out = std::io::stdout();
    if file.json {
        let entry = key.to_string();
        writeln!(out, "{}", json!({ "name": key.name, "admin": key.admin, "key": secret, "entry": entry }))?;
    } else {
        writeln!(out, "{secret}")?;
        if target.is_none() {
            writeln!(out, "{key}")?;
        }
    }
    let said = match &target {
        Some(path) => format!("{} has the hash of {name}", path.display()),
        None => format!("put the line with the hash of {name} into auth.service_keys"),
    };
    writeln!(std::io::stderr(), "{said}; the key itself is shown only now")?;
    Ok(())
}

fn list(arguments: &FileArguments) -> anyhow::Result<()> {
    let set = arguments.set()?;
    // Keys that are settings need no file.
    let keys = match arguments.path() {
        Err(_) if !set.is_empty() => Vec::new(),
        path => read(&path?)?.1,
    };
    let rows = || set.iter().map(|key| (key, "settings")).chain(keys.iter().map(|key| (key, "file")));
    let mut out = std::io::stdout();
    let scope = |key: &ServiceKey| if key.admin { "admin" } else { "service" };
    if arguments.json {
        let row = |(key, from): (&ServiceKey, &str)| json!({ "name": key.name, "scope": scope(key), "created_at": key.created.to_string(), "from": from });
        writeln!(out, "{}", json!(rows().map(row).collect::<Vec<_>>()))?;
        return Ok(());
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(["name", "scope", "created_at", "from"]);
    for (key, from) in rows() {
        table.add_row([key.name.clone(), scope(key).to_owned(), key.created.to_string(), from.to_owned()]);
    }
    writeln!(out, "{table}")?;
    Ok(())
}

fn revoke(arguments: &NamedArguments) -> anyhow::Result<()> {
    if arguments.file.set()?.iter().any(|key| key.name == arguments.name) {
        let detail = "is in auth.service_keys: take it out there, and start the server anew";
        return Err(Error::invalid(format!("{} {detail}", arguments.name)).into());
    }
    let path = arguments.file.path()?;
    let (text, keys) = read(&path)?;
    if !keys.iter().any(|key| key.name == arguments.name) {
        let detail = format!("there is no key {} in {}", arguments.name, path.display());
        return Err(Error::new(Code::NotFound, detail).into());
    }
    let is_other = |line: &&str| line.split_whitespace().next() != Some(arguments.name.as_str());
    let rest: String = text.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
    replace(&path, &rest)?;
    writeln!(std::io::stderr(), "revoked {}", arguments.name)?;
    Ok(())
}

impl FileArguments {
    fn path(&self) -> anyhow::Result<PathBuf> {
        let configured = Settings::check(&self.settings.raw()?)?.auth.service_keys_file;
        let none = || Error::invalid("name the file of keys with --file, or set auth.service_keys_file");
        Ok(self.file.clone().or(configured).ok_or_else(none)?)
    }

    /// Keys that stand in the configuration itself.
    fn set(&self) -> anyhow::Result<Vec<ServiceKey>> {
        Ok(Settings::check(&self.settings.raw()?)?.auth.service_keys)
    }
}

/// A file that is not there has no keys.
fn read(path: &Path) -> anyhow::Result<(String, Vec<ServiceKey>)> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| path.display().to_string())?,
    };
    match parse_keys(&text) {
        Ok(keys) => Ok((text, keys)),
        Err(detail) => bail!("{}: {detail}", path.display()),
    }
}

/// All at once: a server that reads meanwhile sees the old file or the new one.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}
