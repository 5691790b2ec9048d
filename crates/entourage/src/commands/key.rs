//! `entourage key`: service keys, made, listed and revoked in the file that the server reads. A key is shown once.

mod file;
mod running;

use std::{io::Write, path::PathBuf};

use anyhow::bail;
use clap::{Args, Subcommand};
use entourage_model::{Clock, Code, Error};
use entourage_server::{auth::ServiceKey, config::Settings};
use entourage_store::SystemClock;
use serde_json::json;

use self::{
    file::{KeyFile, read},
    running::{Holds, Running},
};
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
    /// Take a key away, and ask the running server whether it has noticed.
    Revoke(NamedArguments),
}

#[derive(Args, Debug)]
struct FileArguments {
    #[command(flatten)]
    settings: DataArguments,
    /// The file of keys (auth.service_keys_file).
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    running: Running,
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
    let (key, secret) = ServiceKey::generate(name, arguments.admin, SystemClock.now()).map_err(Error::invalid)?;
    let set = file.settings()?.auth.service_keys;
    let target = if arguments.print { None } else { Some(file.path()?) };
    let taken = || Error::invalid(format!("there is a key {name} already; revoke it, or choose another name"));
    if set.iter().any(|key| key.name == *name) {
        return Err(taken().into());
    }
    if let Some(held) = target.as_deref().map(|path| KeyFile::hold(path, true)).transpose()?.flatten() {
        if held.keys.iter().any(|key| key.name == *name) {
            return Err(taken().into());
        }
        let line_end = if held.text.is_empty() || held.text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{}{line_end}{key}\n", held.text);
        held.replace(&text)?;
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
    let settings = arguments.settings()?;
    let set = &settings.auth.service_keys;
    // Keys in the settings need no file.
    let file = match arguments.path() {
        Err(_) if !set.is_empty() => None,
        path => Some(path?),
    };
    let (keys, digest) = file.as_deref().map(read).transpose()?.unwrap_or_default();
    let rows = || set.iter().map(|key| (key, "settings")).chain(keys.iter().map(|key| (key, "file")));
    let mut out = std::io::stdout();
    let scope = |key: &ServiceKey| if key.admin { "admin" } else { "service" };
    if arguments.json {
        let row = |(key, from): (&ServiceKey, &str)| json!({ "name": key.name, "scope": scope(key), "created_at": key.created.to_string(), "from": from });
        writeln!(out, "{}", json!(rows().map(row).collect::<Vec<_>>()))?;
    } else {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_header(["name", "scope", "created_at", "from"]);
        for (key, from) in rows() {
            table.add_row([key.name.clone(), scope(key).to_owned(), key.created.to_string(), from.to_owned()]);
        }
        writeln!(out, "{table}")?;
    }
    // Without a file no server can hold another version.
    let Some(file) = file else { return Ok(()) };
    let (running, is_configured) = (&arguments.running, settings.auth.service_keys_file.as_ref() == Some(&file));
    let place = running.place(&settings);
    let said = match running.ask(&settings, None, &digest)? {
        Holds::Older(reason) => format!("the server at {place} holds an older file: {reason}"),
        Holds::Other if running.is_named() || is_configured => format!("the server at {place} holds another file"),
        Holds::Nobody(reason) if running.is_named() => format!("no server answers at {place} ({reason})"),
        Holds::This | Holds::Other | Holds::Nobody(_) => return Ok(()),
    };
    writeln!(std::io::stderr(), "{said}")?;
    Ok(())
}

fn revoke(arguments: &NamedArguments) -> anyhow::Result<()> {
    let NamedArguments { name, file } = arguments;
    let settings = file.settings()?;
    if settings.auth.service_keys.iter().any(|key| key.name == *name) {
        let detail = "is in auth.service_keys: take it out there, and start the server anew";
        return Err(Error::invalid(format!("{name} {detail}")).into());
    }
    let path = file.path()?;
    let held = KeyFile::hold(&path, false)?.filter(|held| held.keys.iter().any(|key| key.name == *name));
    let Some(held) = held else {
        let detail = format!("there is no key {name} in {}", path.display());
        return Err(Error::new(Code::NotFound, detail).into());
    };
    let is_other = |line: &&str| line.split_whitespace().next() != Some(name.as_str());
    let rest: String = held.text.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
    let before = held.digest();
    let now = held.replace(&rest)?;
    let (running, place) = (&file.running, file.running.place(&settings));
    let said = match running.ask(&settings, Some(&before), &now)? {
        Holds::This => format!("revoked {name}; the server at {place} takes it no more"),
        Holds::Older(reason) => {
            bail!("{name} is out of {}, but the server at {place} still takes it: {reason}", path.display())
        }
        Holds::Nobody(reason) if running.is_named() => {
            let detail = format!("revoked {name} in {}, but no server answers at {place}: {reason}", path.display());
            return Err(Error::unavailable(detail).into());
        }
        Holds::Nobody(_) => {
            format!("revoked {name}; no server answers at {place}: name one that runs elsewhere with --server")
        }
        Holds::Other => format!("revoked {name}; the server at {place} reads another file"),
    };
    writeln!(std::io::stderr(), "{said}")?;
    Ok(())
}

impl FileArguments {
    fn path(&self) -> anyhow::Result<PathBuf> {
        let configured = self.settings()?.auth.service_keys_file;
        let none = || Error::invalid("name the file of keys with --file, or set auth.service_keys_file");
        Ok(self.file.clone().or(configured).ok_or_else(none)?)
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings::check(&self.settings.raw()?)?)
    }
}
