//! `entourage config print`: every setting with its value, as TOML that can be read back.

use std::io::Write;

use clap::{Args, Subcommand};
use entourage_server::config::{SETTINGS, Settings};
use serde_json::{Map, json};

use crate::settings::SettingsArguments;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print every setting with its value, after checking them all.
    Print(PrintArguments),
}

#[derive(Args, Debug)]
struct PrintArguments {
    #[command(flatten)]
    settings: SettingsArguments,
    /// Say where each value comes from.
    #[arg(long)]
    origin: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Command::Print(arguments) = &arguments.command;
    let raw = arguments.settings.raw()?;
    Settings::check(&raw)?;
    let mut out = std::io::stdout();
    if arguments.json {
        let entries = raw.iter().map(|(name, value)| {
            (name.to_owned(), json!({ "value": value.shown(), "origin": value.origin.to_string() }))
        });
        writeln!(out, "{}", serde_json::Value::Object(entries.collect::<Map<_, _>>()))?;
        return Ok(());
    }
    for ((name, value), setting) in raw.iter().zip(SETTINGS) {
        writeln!(out, "# {}", setting.help)?;
        if arguments.origin {
            writeln!(out, "# from: {}", value.origin)?;
        }
        writeln!(out, "{name} = {}", json!(value.shown()))?;
    }
    Ok(())
}
